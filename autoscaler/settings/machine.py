"""The master's own cores and memory, as far as this process may use them (within container limits)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from autoscaler.errors import NotObservable

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores and bytes that jobs on the master could use."""

    cores: int
    memory: int


def this_machine(environ: Mapping[str, str], cgroup: Path = _CGROUP) -> Machine:
    """The smallest of: the installed amount, the CPU affinity, and the limit of the cgroup (v2 or v1).

    `CLOUD_PIPELINE_NODE_CORES`, set by that platform in its containers, sets the cores: there the whole node serves
    one run.
    """
    usable = len(os.sched_getaffinity(0)) or psutil.cpu_count(logical=True) or 1
    given = environ.get("CLOUD_PIPELINE_NODE_CORES", "")
    cores = int(given) if given.isdecimal() and int(given) > 0 else min(usable, _cpu_limit(cgroup) or usable)
    try:
        installed = psutil.virtual_memory().total
    except OSError as error:
        raise NotObservable(f"cannot read how much memory this machine has ({error}): mount /proc") from error
    return Machine(cores=max(1, cores), memory=min(installed, _memory_limit(cgroup) or installed))


def _cpu_limit(cgroup: Path) -> int | None:
    quota, period = None, None
    if (words := _words(cgroup / "cpu.max")) and len(words) == 2:
        quota, period = words
    elif (v1_quota := _words(cgroup / "cpu/cpu.cfs_quota_us")) and (
        v1_period := _words(cgroup / "cpu/cpu.cfs_period_us")
    ):
        quota, period = v1_quota[0], v1_period[0]
    if (
        quota is None or period is None or not quota.isdecimal() or not period.isdecimal()
    ):  # "max", or -1 under v1: no limit
        return None
    return max(1, math.floor(int(quota) / int(period)))


def _memory_limit(cgroup: Path) -> int | None:
    for file in (cgroup / "memory.max", cgroup / "memory/memory.limit_in_bytes"):
        if (words := _words(file)) and words[0].isdecimal():
            return int(words[0])
    return None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
