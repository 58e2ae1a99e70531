"""The machines behind the records: hosts of a namespace tree, started, told apart and ended by name.

The kernel knows whether a machine lives: its PID 1 holds a lock for life, and PID and start time together distinguish
it from a later host of the same name. Hosts belong to the tree: they outlive the autoscaler and die with the cell. A
machine waits as long as a cloud needs to boot, and runs the ordered boot script once. It lives on when that has ended,
well or not, as a cloud's does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autoscaler import namespaces
from autoscaler.namespaces import Tree, default_name

_STARTED = 19
"""The index of a process's start time in /proc/PID/stat behind its name (proc(5): field 22)."""


class Hosts(Protocol):
    """Starts and ends hosts. Errors are AutoscalerError with the kernel's words."""

    def start(self, name: str, boot: Sequence[str], env: Mapping[str, str]) -> int:
        """Start the host and its program; does not wait for the program. Returns the value that `born` has for it."""
        ...

    def end(self, name: str) -> None:
        """Kill every process of the host at once; an ended host counts as done."""
        ...

    def born(self, name: str) -> int | None:
        """A value that distinguishes the living host of this name from others before and after it; None: no such host
        lives.
        """
        ...

    def address(self, name: str) -> str:
        """The address of a host of this name."""
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
        """Only names of the form that a cloud's DNS gives: those of the cell's own hosts are not ours to use."""
        usual = {default_name(number) for number in range(2, 255)}
        return [name for name in self.tree.free_names() if name in usual]

    def problem(self) -> str | None:
        if not self.tree.hosts_file.exists() or namespaces.holder(self.tree.directory / "first") is None:
            return f"no namespace tree lives in {self.tree.directory}"
        return namespaces.probe()


def _started(pid: int) -> int | None:
    """The start time of a process, in the kernel's ticks since boot; None once it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The process's own name stands before, in brackets, and may contain spaces and brackets.
    return int(text.rpartition(")")[2].split()[_STARTED])


INIT = """\
#!/bin/sh
# usage: init.sh FOLDER SECONDS: wait, then run FOLDER/boot.sh; all that is printed goes to FOLDER/console.log
# WORKER_FOLDER lets the machine end itself: it says so there, and ends its PID 1.
exec >>"$1/console.log" 2>&1 </dev/null
export WORKER_FOLDER="$1"
# Files are shared with all hosts, but a machine has settings and programs of its own.
own=/run/sge-autoscaler/worker
export WORKER_ETC="$own" WORKER_BIN="$own/bin"
if mkdir -p "$own" && mount -t tmpfs -o mode=0755 own "$own" && mkdir "$own/bin" "$own/upper" "$own/work"; then
    layers="lowerdir=/usr/local/bin,upperdir=$own/upper,workdir=$own/work"
    ! mount -t overlay -o "$layers" own /usr/local/bin || WORKER_BIN=/usr/local/bin
else
    WORKER_ETC="$1" WORKER_BIN="$1/bin"
fi
cd /
sleep "$2"
echo "$(hostname): boot script starts"
"$1/boot.sh"
echo "$(hostname): boot script ended with status $?"
"""

BROKEN_BOOT = """\
#!/bin/sh
echo "boot failed, as asked by CP_CAP_AUTOSCALE_LOCAL_FAILING_BOOTS"
exit 1
"""


def boot_argv(folder: Path, delay: float) -> tuple[str, ...]:
    """The program a machine is started with."""
    return ("/bin/sh", str(folder / "init.sh"), str(folder), f"{delay:g}")


def boot_environment(worker_id: str, instance_type: str) -> dict[str, str]:
    """The whole environment of a starting machine: nothing of the autoscaler's reaches it."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "WORKER_ID": worker_id,
        "WORKER_TYPE": instance_type,
    }
