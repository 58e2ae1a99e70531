"""Machines of a played cloud as real hosts: of a cell's namespace tree, each running what it was given for its first
boot.

A control plane that is started with `--tree DIR` rents them out; without it, its machines exist in its answers only.
Whoever starts one learns from the first line it prints what an operator would set to use it.
"""

from __future__ import annotations

import base64
import fcntl
import gzip
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.namespaces import Tree
from autoscaler.providers.local.hosts import INIT, TreeHosts, boot_argv, boot_environment

BOOT = 1.0
"""Seconds from a machine's start to its boot script: time in which it is enrolled, as on any cloud."""
PACKED = b"\x1f\x8b"


class NoScript(Exception):
    """Cloud-init would run nothing of it."""


@dataclass(frozen=True, slots=True)
class RealHosts:
    """Hosts of one tree; names are given once each until none is new, as addresses of a cloud are."""

    tree: Tree
    _given: set[str] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, directory: Path) -> RealHosts:
        return cls(Tree(directory))

    def free_name(self) -> str:
        """A name that no living host has, if possible one that was never used."""
        with self._guard:
            free = TreeHosts(self.tree).free_names()
            name = next((name for name in free if name not in self._given), free[0])
            self._given.add(name)
            return name

    def resolve(self, name: str) -> None:
        """Let a free address have this name, as the DNS of a cloud does for names that machines are given."""
        address = self.tree.address(self.free_name())
        self._rewrite(lambda row: [row[0], name, *row[1:]] if row[0] == address else row)

    def forget(self, name: str) -> None:
        """Let nothing have a name that `resolve` gave."""
        self._rewrite(lambda row: [word for word in row if word != name])

    def _rewrite(self, change: Callable[[list[str]], list[str]]) -> None:
        """In place: the tree's hosts have this very file mounted. It is longer or shorter by one name."""
        with self._guard, self.tree.hosts_file.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines = [
                line if line.startswith("#") else " ".join(change(line.split())) for line in file.read().splitlines()
            ]
            file.seek(0)
            file.write("".join(f"{line}\n" for line in lines))
            file.truncate()

    def start(self, name: str, worker_id: str, instance_type: str, script: str) -> str:
        """Start the host and run `script` on it once; returns its address.

        Raises NoScript for what cloud-init takes for no program, and AutoscalerError where the host does not start.
        """
        if not script.startswith("#!"):
            raise NoScript(f"user data that cloud-init runs begin with #!, not with {script[:20]!r}")
        place = self.tree.place(name)
        place.mkdir(parents=True, exist_ok=True)
        (place / "console.log").unlink(missing_ok=True)
        for file, text in (("boot.sh", script), ("init.sh", INIT)):
            (place / file).write_text(text, encoding="utf-8")
            (place / file).chmod(0o700)
        TreeHosts(self.tree).start(name, boot_argv(place, BOOT), boot_environment(worker_id, instance_type))
        return self.tree.address(name)

    def lives(self, name: str) -> bool:
        return TreeHosts(self.tree).born(name) is not None

    def end(self, name: str) -> None:
        """The end of the machine, at once; ended already is done."""
        TreeHosts(self.tree).end(name)

    def console(self, name: str) -> str:
        """What the machine printed while it booted."""
        file = self.tree.place(name) / "console.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def script_of(user_data: str) -> str:
    """What cloud-init makes of user data as they stand in a request: base64, and perhaps compressed."""
    plain = base64.b64decode(user_data)
    return (gzip.decompress(plain) if plain.startswith(PACKED) else plain).decode()


def announce(environment: Mapping[str, str], billable: str) -> None:
    """Print the settings for this control plane, and the address that lists what costs money."""
    print(json.dumps({"environment": dict(environment), "billable": billable}), flush=True)
