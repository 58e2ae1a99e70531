"""Measures the autoscaler's cost while nothing happens: a private cell, provider local, all settings as shipped.

Processor time is that of the service, of every command that it ran, and of `qevent`; memory is the service's resident
size at the end. Needs root and Debian's Grid Engine packages (`make setup`). Exits 1 if a bar is passed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from autoscaler.lab.cell import Cell
from autoscaler.process import Running

SHARE_BAR = 0.5
"""Percent of a core."""
MEMORY_BAR = 60.0
"""Megabytes resident."""
SETTLING = 15.0
"""Seconds that the service has for its first passes before it is measured."""
HOSTS = 2
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a processor so far."""

    own: float
    commands: float
    """Of children that ended and were waited for."""
    events: float
    """Of those that still run: `qevent`."""

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.own - other.own, self.commands - other.commands, self.events - other.events)

    @property
    def all(self) -> float:
        return self.own + self.commands + self.events


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.idle", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it is measured (default 120)")
    parser.add_argument("--bar", type=float, default=SHARE_BAR, help=f"percent of a core (default {SHARE_BAR:g})")
    parser.add_argument("--memory-bar", type=float, default=MEMORY_BAR, help=f"MB (default {MEMORY_BAR:g})")
    options = parser.parse_args(arguments)
    with Cell.up(hosts=HOSTS) as cell:
        service = cell.start(("sge-autoscaler", "run"), env=environment(cell), output=cell.home / "log")
        try:
            spent, resident = measure(service, options.seconds)
        finally:
            service.terminate(10.0)
    share = 100 * spent.all / options.seconds
    parts = (("service", spent.own), ("its commands", spent.commands), ("qevent", spent.events))
    print(f"{options.seconds:g} s idle: {HOSTS} persistent hosts, no job, provider local, all settings as shipped")
    for name, seconds in parts:
        print(f"  {name:<14}{seconds:7.3f} s  {100 * seconds / options.seconds:6.3f} % of a core")
    print(f"  {'all':<14}{spent.all:7.3f} s  {share:6.3f} % of a core")
    print(f"  resident memory {resident:6.1f} MB")
    kept = share <= options.bar and resident <= options.memory_bar
    print(f"  bar: {options.bar:g} % and {options.memory_bar:g} MB: {'kept' if kept else 'PASSED OVER'}")
    return 0 if kept else 1


def environment(cell: Cell) -> dict[str, str]:
    return {
        **cell.environment,
        "CP_CAP_AUTOSCALE_PROVIDER": "local",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        "CP_CAP_AUTOSCALE_WORKDIR": str(cell.home / "state"),
        "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(cell.tree.directory),
        "CP_CAP_AUTOSCALE_LOCAL_STATE": str(cell.home / "machines"),
    }


def measure(service: Running, seconds: float) -> tuple[Spent, float]:
    """Processor time of this many seconds, and the megabytes resident after them. Raises RuntimeError if it ended."""
    time.sleep(SETTLING)
    pid = service_below(service.pid)
    before = spent(pid)
    time.sleep(seconds)
    if service.poll() is not None:
        raise RuntimeError("the service ended while it was measured")
    return spent(pid) - before, resident(pid)


def service_below(pid: int) -> int:
    """The service's process: a child of the process that enters the cell."""
    for below in (pid, *descendants(pid)):
        words = Path(f"/proc/{below}/cmdline").read_bytes().split(b"\0")
        if any(word.endswith(b"sge-autoscaler") for word in words[:2]):
            return below
    raise RuntimeError("the service does not run")


def spent(pid: int) -> Spent:
    own, commands = _times(pid)
    return Spent(own, commands, sum(sum(_times(below)) for below in descendants(pid)))


def descendants(pid: int) -> list[int]:
    """All that run below a process now."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *descendants(child)]
    return found


def resident(pid: int) -> float:
    """Megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _times(pid: int) -> tuple[float, float]:
    """Seconds of a process, and of its children that ended; nothing of one that ended meanwhile."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, children_user, children_system = (int(field) / _TICKS for field in fields[11:15])
    return user + system, children_user + children_system


if __name__ == "__main__":
    sys.exit(main())
