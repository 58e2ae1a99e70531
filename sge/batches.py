"""Changes several hosts with few commands: their common host group and queue are edited once.

A host group or queue of a thousand hosts is a large object that qmaster checks, spools and sends around at every edit:
200 workers that join one by one are 400 such edits. Every method returns only the hosts for which Grid Engine said that
all was done; for the others the caller uses `sge.admin`, which says why. As there, every method may be called again
after a crash between any two commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from autoscaler.core.workers.worker_state import same_host
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator, Change
from autoscaler.sge.membership import Membership
from autoscaler.sge.messages import Meaning, meaning
from autoscaler.sge.objects import usable
from autoscaler.sge.removal import PER_HOST, Removal, RemovalOutcome, about

AT_ONCE = 100
"""This many hosts in one command at most."""
_INSTANCE = re.compile(r'"([^"@]+)@([^"@]+)"')


@dataclass(frozen=True, slots=True)
class NewHost:
    """A planned execution host: its slots in the queue, and its further complex values."""

    name: str
    slots: int
    values: tuple[tuple[str, str], ...] = ()
    seq_no: int | None = None
    """Its sequence number in the queue; None: that of the queue."""

    @property
    def complex_values(self) -> dict[str, str]:
        return {"slots": str(self.slots)} | dict(self.values)


class Batches:
    """Several hosts at once. Every method may raise AutoscalerError: then nothing is known of any of them."""

    def __init__(self, administrator: Administrator) -> None:
        self._administrator = administrator

    def enrol(
        self, hosts: Sequence[NewHost], queue: str, host_group: str, also_in: Sequence[str] = ()
    ) -> Mapping[str, bool]:
        """As `Administrator.enrol` for each, in the same order: hosts are added without slots, join the group, are
        disabled, and only then get slots. Returns the enrolled hosts, and whether each of them is new.
        """
        usable("queue", queue), usable("host group", host_group)
        added = self._add(hosts)
        names = list(added)
        if not names:
            return {}
        for group in (*also_in, host_group):
            self._change(
                names, "qconf", "-aattr", "hostgroup", "hostlist", " ".join(names), usable("host group", group)
            )
        # Grid Engine silently leaves a host out of a group if its name does not resolve. A host that it disables is in
        # the group.
        output = self._change(names, "qmod", "-d", *(f"*@{name}" for name in names)).output
        joined = [host for host in hosts if host.name in added and _in_queue(output, host.name, queue)]
        opened = self._set_values(joined, {host.name: objects.complex_values(host.complex_values) for host in joined})
        numbers = [f"[{host.name}={host.seq_no}]" for host in joined if host.seq_no is not None]
        if numbers and not _went_well(
            self._change(opened, "qconf", "-rattr", "queue", "seq_no", ",".join(numbers), queue).output
        ):
            return {}
        given = [f"[{host.name}={host.slots}]" for host in joined if host.name in opened]
        if not given or not _went_well(
            self._change(opened, "qconf", "-rattr", "queue", "slots", ",".join(given), queue).output
        ):
            return {}
        return {name: added[name] for name in opened}

    def sense(self, hosts: Sequence[str], sensor: str) -> frozenset[str]:
        """As `Administrator.sense` for each."""
        with ExitStack() as stack:
            files = [
                # `qconf -Aconf` takes the file's name for the host's.
                stack.enter_context(objects.as_file(f"load_sensor {usable('path', sensor)}\n", usable("host", host)))
                for host in hosts
            ]
            output = self._change(hosts, "qconf", *(word for file in files for word in ("-Aconf", str(file)))).output
        return frozenset(host for host in hosts if _went_well(about(output, host)))

    def enable(self, hosts: Sequence[str]) -> frozenset[str]:
        """As `Administrator.enable` for each."""
        return self._switch("-e", hosts)

    def disable(self, hosts: Sequence[str]) -> frozenset[str]:
        """As `Administrator.disable` for each that has a queue instance."""
        return self._switch("-d", hosts)

    def remove(self, known: Mapping[str, Membership | None]) -> Mapping[str, RemovalOutcome]:
        """As `Administrator.remove` for each host; `known`: the membership that each should have by the caller's
        knowledge.
        """
        outcomes = Removal(self._administrator, known).run()
        return {host: outcome for host, outcome in outcomes.items() if isinstance(outcome, RemovalOutcome)}

    def _switch(self, switch: str, hosts: Sequence[str]) -> frozenset[str]:
        output = self._change(hosts, "qmod", switch, *(f"*@{usable('host', host)}" for host in hosts)).output
        return frozenset(host for host in hosts if _went_well(_of_host(output, host)))

    def _add(self, hosts: Sequence[NewHost]) -> dict[str, bool]:
        """The hosts that are execution hosts without slots now, and whether each is new."""
        with ExitStack() as stack:
            files = []
            for host in hosts:
                text = objects.exec_host(host.name, host.complex_values | {"slots": "0"})
                files.append(stack.enter_context(objects.as_file(text)))
            names = [usable("host", host.name) for host in hosts]
            output = self._change(names, "qconf", *(word for file in files for word in ("-Ae", str(file)))).output
        meanings = {host.name: set(map(meaning, about(output, host.name))) for host in hosts}
        there = [host for host in hosts if meanings[host.name] == {Meaning.ALREADY}]
        closed = {host.name: objects.complex_values(host.complex_values | {"slots": "0"}) for host in there}
        shut = self._set_values(there, closed)
        new = {host.name: True for host in hosts if meanings[host.name] == {Meaning.CHANGED}}
        return new | dict.fromkeys(shut, False)

    def _set_values(self, hosts: Sequence[NewHost], values: Mapping[str, str]) -> list[str]:
        """The hosts that have these values now; a command for each set of values."""
        done: list[str] = []
        for text in dict.fromkeys(values.values()):
            alike = [host.name for host in hosts if values[host.name] == text]
            output = self._change(alike, "qconf", "-rattr", "exechost", "complex_values", text, *alike).output
            done += [name for name in alike if _went_well(about(output, name))]
        return done

    def _change(self, hosts: Sequence[str], *argv: str) -> Change:
        return self._administrator.change(*argv, longer=PER_HOST * len(hosts))


def _of_host(output: Iterable[str], host: str) -> list[str]:
    """The lines about its queue instances."""
    return [line for line in output if any(same_host(found[2], host) for found in _INSTANCE.finditer(line))]


def _in_queue(output: Iterable[str], host: str, queue: str) -> bool:
    lines = [line for line in _of_host(output, host) if f'"{queue}@' in line]
    return _went_well(lines)


def _went_well(output: Sequence[str]) -> bool:
    """Whether Grid Engine said something, and only that all is as requested now."""
    meanings = set(map(meaning, output))
    return bool(meanings) and meanings <= {Meaning.CHANGED, Meaning.ALREADY}
