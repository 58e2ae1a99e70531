"""The machines behind the records: hosts of a namespace tree, started, told apart and ended by name.

Whether a machine lives is asked of the kernel: its PID 1 holds a lock for life, and PID and start time together tell
it from a later host of the same name. Hosts belong to the tree: they outlive the autoscaler and die with the cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autoscaler import namespaces
from autoscaler.namespaces import Tree, default_name

_STARTED = 19
"""Where a process's start time stands in /proc/PID/stat behind its name (proc(5): field 22)."""


class Hosts(Protocol):
    """Who starts and ends hosts. Errors are AutoscalerError with the kernel's words."""

    def start(self, name: str, boot: Sequence[str], env: Mapping[str, str]) -> int:
        """Start the host and its program; does not wait for the program. Returns what `born` will say of it."""
        ...

    def end(self, name: str) -> None:
        """Kill every process of the host at once; ended already is done."""
        ...

    def born(self, name: str) -> int | None:
        """What tells the living host of this name from others before and after it; None: no such host lives."""
        ...

    def address(self, name: str) -> str:
        """Where a host of this name is reached."""
        ...

    def free_names(self) -> Sequence[str]:
        """Names that resolve on the network and that no living host has."""
        ...

    def problem(self) -> str | None:
        """Why no host could be started now."""
        ...


@dataclass(frozen=True, slots=True)
class TreeHosts:
    """Hosts of a namespace tree."""

    tree: Tree

    def start(self, name: str, boot: Sequence[str], env: Mapping[str, str]) -> int:
        pid = namespaces.start_host(self.tree, name, boot=boot, env=env)
        return _started(pid) or 0

    def end(self, name: str) -> None:
        namespaces.end_host(self.tree, name)

    def born(self, name: str) -> int | None:
        pid = namespaces.holder(self.tree.place(name) / "first")
        return None if pid is None else _started(pid)

    def address(self, name: str) -> str:
        return self.tree.address(name)

    def free_names(self) -> Sequence[str]:
        """Only names as a cloud's DNS gives them: those of the cell's own hosts are not ours to use."""
        usual = {default_name(number) for number in range(2, 255)}
        return [name for name in self.tree.free_names() if name in usual]

    def problem(self) -> str | None:
        if not self.tree.hosts_file.exists() or namespaces.holder(self.tree.directory / "first") is None:
            return f"no namespace tree lives in {self.tree.directory}"
        return namespaces.probe()


def _started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since boot; None once it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[_STARTED])
