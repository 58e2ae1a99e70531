"""A cloud of machines that do not exist, for a real qmaster with `qmaster_params SIMULATE_EXECDS=true`.

Such a qmaster starts and ends jobs on execution hosts that no machine answers for, hundreds of them on one. A job runs
for as many seconds as its first argument says. What is missing is load reports: `qhost` shows `-NA-` for ever, so a
`qhost` that stands before the real one in PATH adds what an execd of such a machine reports at first. Nothing else is
played: Grid Engine's configuration, scheduler and accounting are its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from autoscaler.core.model.fleet import InstanceType, Worker
from autoscaler.providers.fake import FakeProvider

CONFIGURATION: Mapping[str, str] = MappingProxyType({"qmaster_params": "SIMULATE_EXECDS=true"})
"""What `qconf -mconf` needs for it."""
PROVIDER = "autoscaler.lab.absent_hosts:AbsentHosts"
FIRST_ADDRESS = IPv4Address("10.128.0.0")
GIB = 1024**3
NAMES = "{type}-{number}"
"""What a simulation has to call its machines, so that they have the same names."""


class AbsentHosts(FakeProvider):
    """Machines by name: the type with hyphens, and a number. They live as long as the process that rents them."""

    name: ClassVar[str] = "absent"

    def workers(self) -> Sequence[Worker]:
        return [
            replace(worker, name=f"{_prefix(worker.type)}{int(worker.id.rpartition('-')[2])}")
            for worker in super().workers()
        ]


def hosts_lines(kinds: Iterable[InstanceType], machines: int) -> str:
    """Names and addresses of so many machines, whichever of these types each will be."""
    names = (f"{_prefix(kind)}{number}" for kind in dict.fromkeys(kinds) for number in range(1, machines + 1))
    return "".join(f"{FIRST_ADDRESS + at} {name}\n" for at, name in enumerate(names, start=1))


def _prefix(kind: InstanceType) -> str:
    return f"{kind.name.replace('.', '-')}-"


def qhost_script(real: Path, kinds: Iterable[InstanceType]) -> str:
    """A `qhost` that prints what the real one does, and for machines of these types the values of a load report."""
    edits = [edit for kind in dict.fromkeys(kinds) for edit in _edits(kind)]
    edit = " ".join(f"-e {shlex.quote(each)}" for each in edits)
    return f'#!/bin/bash\nset -o pipefail\n{shlex.quote(str(real))} "$@" | sed {edit}\n'


def _edits(kind: InstanceType) -> tuple[str, str]:
    """The load average is what shows that a host reports; it may not be `-`."""
    host = f"<host name='{_prefix(kind)}[0-9]*'>"
    return (
        f"\\#{host}#,\\#</host>#s#name='load_avg'>-<#name='load_avg'>0.00<#",
        f"s#{host}#&{_values(kind)}#",
    )


def _values(kind: InstanceType) -> str:
    memory = f"{kind.memory / GIB:.3f}G"
    shown = {"arch": kind.arch, "num_proc": kind.vcpus, "load_avg": "0.00", "mem_total": memory, "mem_free": memory}
    return "".join(
        f"<resourcevalue name='{name}' dominance='hl'>{value}</resourcevalue>" for name, value in shown.items()
    )
