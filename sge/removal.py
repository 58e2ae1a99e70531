"""Removes hosts from Grid Engine, one or several at once: their common host group is edited once.

`qconf -purge` of 8.1.9 takes one queue instance, and of several such switches it carries out the first only, so that
each host costs an edit of each queue that has slots of its own for it. `qconf -de` takes a list and judges each host of
it alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.core.workers.worker_state import same_host
from autoscaler.errors import GridEngineRefused
from autoscaler.sge.membership import Membership, listed, memberships
from autoscaler.sge.messages import Meaning, meaning
from autoscaler.sge.objects import complex_values, usable
from autoscaler.sge.qconf import read_assignments, read_attributes

PER_HOST = 1.0
"""Seconds that a command may take longer for each host in it."""


@dataclass(frozen=True, slots=True)
class RemovalOutcome:
    """Either the host is no execution host any more, or Grid Engine refused and the host keeps its host groups, queues
    and slots.
    """

    removed: bool
    output: tuple[str, ...] = ()
    """Grid Engine's words: of a refusal, why."""
    restored: Membership | None = None
    """The restored places after a refusal; the host stays disabled."""


class HasOutput(Protocol):
    """Grid Engine's words about a change."""

    @property
    def output(self) -> tuple[str, ...]: ...


class Qmaster(Protocol):
    """The part of `sge.admin.Administrator` that a removal needs."""

    def change(self, *argv: str, longer: float = 0.0) -> HasOutput: ...
    def show(self, *words: str) -> str: ...
    def configure(self, *words: str) -> HasOutput: ...
    def disable(self, host: str) -> HasOutput: ...


def membership_of(qmaster: Qmaster, hosts: Sequence[str]) -> Mapping[str, Membership]:
    """The present places of each of these hosts in queues and host groups."""
    names = qmaster.show("-shgrpl").split()
    groups = [word for name in names if name.startswith("@") for word in ("-shgrp", name)]
    queues = qmaster.show("-sq", "*")
    return memberships(hosts, queues=queues, host_groups=qmaster.show(*groups) if groups else "")


class Removal:
    """One removal of some hosts. `known`: the caller's own knowledge of each one's places, restored as well."""

    def __init__(self, qmaster: Qmaster, known: Mapping[str, Membership | None]) -> None:
        self._qmaster = qmaster
        self._known = known
        self._words: dict[str, tuple[str, ...]] = {}
        self._refused: dict[str, tuple[str, ...]] = {}
        """Grid Engine's words of a refusal."""

    def run(self) -> dict[str, RemovalOutcome | GridEngineRefused]:
        """An outcome for each host. GridEngineRefused: it could not be disabled, restored after a refusal, or cleared
        of other traces.

        Hosts are disabled first; then removed from host groups and queues, so that they leave no entry there; then
        `qconf -de`, which Grid Engine refuses while any job or reservation is on a host. After a refusal all its places
        are restored, and it stays disabled. A host that is gone already counts as removed, and its remains are deleted.
        """
        hosts = [usable("host", host) for host in self._known]
        there = self._qmaster.show("-sel")
        present = [host for host in hosts if listed(host, there)]
        had = membership_of(self._qmaster, hosts)
        if present:
            self._each(present, lambda some: ("qmod", "-d", *(f"*@{host}" for host in some)))
        unshut = list(self._refused)
        self._take_out(hosts, had)
        self._delete([host for host in present if host not in self._refused])
        outcomes: dict[str, RemovalOutcome | GridEngineRefused] = {}
        for host, output in self._refused.items():
            whole = had[host] | (self._known[host] or Membership())
            outcomes[host] = (
                GridEngineRefused("; ".join(output)) if host in unshut else self._restored(host, whole, output)
            )
        return outcomes | self._forget([host for host in hosts if host not in self._refused])

    def _take_out(self, hosts: Sequence[str], had: Mapping[str, Membership]) -> None:
        """Slots last: while they stand, they show where a host belonged."""
        for group in dict.fromkeys(group for host in hosts for group in had[host].host_groups):
            members = [host for host in hosts if group in had[host].host_groups]
            self._each(members, _out_of("hostgroup", group))
        for queue in dict.fromkeys(queue for host in hosts for queue in had[host].queues):
            members = [host for host in hosts if queue in had[host].queues]
            self._each(members, _out_of("queue", queue))
        for host in hosts:
            numbered = dict(had[host].seq_nos)
            for queue in dict.fromkeys((*numbered, *dict(had[host].slots))):
                self._each([host], _without_own_in(queue, numbered=queue in numbered))

    def _each(self, hosts: Sequence[str], command: Callable[[Sequence[str]], tuple[str, ...]]) -> None:
        """Run it for those not refused so far. If Grid Engine refuses it for several, it is run for each alone."""
        some = [host for host in hosts if host not in self._refused]
        if not some:
            return
        output = self._change(some, command(some))
        if not any(meaning(line) is Meaning.REFUSED for line in output):
            return
        if len(some) == 1:
            self._refused[some[0]] = output
            return
        for host in some:
            self._each([host], command)

    def _delete(self, hosts: Sequence[str]) -> None:
        """Grid Engine judges each host of the list alone, and names it in its output. A host that it does not name is
        tried alone: if it had been deleted, it would then not exist.
        """
        output = self._change(hosts, ("qconf", "-de", ",".join(hosts))) if hosts else ()
        for host in hosts:
            lines = output if len(hosts) == 1 else about(output, host)
            meanings = set(map(meaning, lines))
            if {Meaning.CHANGED, Meaning.ABSENT} & meanings:
                self._words[host] = tuple(lines)
            elif len(hosts) == 1 or Meaning.REFUSED in meanings:
                self._refused[host] = tuple(lines)
            else:
                self._delete([host])

    def _change(self, hosts: Sequence[str], argv: tuple[str, ...]) -> tuple[str, ...]:
        """Grid Engine's words; a failure with unknown words is a refusal, whichever host they name."""
        try:
            return self._qmaster.change(*argv, longer=PER_HOST * (len(hosts) - 1)).output
        except GridEngineRefused as error:
            return ("error: " + str(error).replace('"', "'"),)

    def _restored(self, host: str, whole: Membership, output: tuple[str, ...]) -> RemovalOutcome | GridEngineRefused:
        """In the order of `Administrator.enrol`: its queues open when it joins them, so it joins without slots, is
        disabled, and gets its slots last. Wherever that is cut short, no job can start there.
        """
        try:
            values = self._values(host)
            closed = self._change([host], _with_values(host, values | {"slots": "0"}))
            # Refused because of an advance reservation: this keeps its queue instances too, and they stay disabled.
            as_it_was = Meaning.REFUSED in map(meaning, closed)
            for group in whole.host_groups:
                self._qmaster.configure("-aattr", "hostgroup", "hostlist", host, group)
            for queue in whole.queues:
                self._qmaster.configure("-aattr", "queue", "hostlist", host, queue)
            self._qmaster.disable(host)
            for queue, number in whole.seq_nos:
                self._qmaster.configure("-rattr", "queue", "seq_no", number, f"{queue}@{host}")
            for queue, slots in whole.slots:
                self._qmaster.configure("-rattr", "queue", "slots", slots, f"{queue}@{host}")
            if not as_it_was:
                self._qmaster.configure(*_with_values(host, values)[1:])
        except GridEngineRefused as error:
            return GridEngineRefused(f"{'; '.join(output)}; and {host} could not be restored: {error}")
        return RemovalOutcome(removed=False, output=output, restored=whole)

    def _values(self, host: str) -> dict[str, str]:
        """Its complex values. If it has no slots, an earlier attempt was cut short: those of its enrolment hold."""
        values = read_assignments(read_attributes(self._qmaster.show("-se", host)).get("complex_values", ""))
        known = self._known[host]
        if values.get("slots") == "0" and known is not None and known.slots:
            values["slots"] = known.slots[0][1]
        return values

    def _forget(self, hosts: Sequence[str]) -> dict[str, RemovalOutcome | GridEngineRefused]:
        """Delete their other traces: submit or admin host if somebody made it one, and the configuration that its execd
        made.

        If a name no longer resolves, Grid Engine complains, but deletes the configuration all the same.
        """
        outcomes: dict[str, RemovalOutcome | GridEngineRefused] = {
            host: RemovalOutcome(removed=True, output=self._words.get(host, ())) for host in hosts
        }
        for show, delete in (("-ss", "-ds"), ("-sh", "-dh"), ("-sconfl", "-dconf")) if hosts else ():
            names = self._qmaster.show(show)
            known = [host for host in hosts if listed(host, names)]
            output = self._change(known, ("qconf", delete, ",".join(known))) if known else ()
            for host in known:
                lines = output if len(known) == 1 else about(output, host)
                meanings = set(map(meaning, lines))
                if Meaning.REFUSED in meanings and Meaning.CHANGED not in meanings:
                    outcomes[host] = GridEngineRefused("; ".join(lines))
        return outcomes


def about(output: Iterable[str], host: str) -> list[str]:
    """The lines that name this host as an object of its own."""
    return [line for line in output if any(same_host(name, host) for name in re.findall(r'"([^"@\s]+)"', line))]


def _out_of(kind: str, name: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    return lambda some: ("qconf", "-dattr", kind, "hostlist", " ".join(some), name)


def _with_values(host: str, values: Mapping[str, str]) -> tuple[str, ...]:
    return "qconf", "-rattr", "exechost", "complex_values", complex_values(values), host


def _without_own_in(queue: str, *, numbered: bool) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Without its own slots, and its own sequence number if it has one."""
    own = "seq_no,slots" if numbered else "slots"
    return lambda some: ("qconf", "-purge", "queue", own, f"{queue}@{some[0]}")
