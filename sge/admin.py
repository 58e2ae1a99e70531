"""Changes Grid Engine: enrols, enables, disables and removes workers; holds, deletes and reschedules jobs.

Carries out, never decides. Every method may be called again after a crash between any two of its commands, and says
what it did. A refusal of Grid Engine is returned in its own words; a command that did not end raises CommandTimedOut,
and the next observation shows whether it took effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.errors import GridEngineNotObservable, GridEngineRefused
from autoscaler.plain_text import plain
from autoscaler.process import Runner
from autoscaler.sge import objects
from autoscaler.sge.membership import Membership, listed
from autoscaler.sge.messages import Meaning, job_named, meaning
from autoscaler.sge.objects import usable
from autoscaler.sge.qconf import read_queue
from autoscaler.sge.removal import Removal, RemovalOutcome

TIMEOUT = 30.0
"""Seconds for one command. A busy qmaster answers within seconds; a dead one never."""
JOBS_AT_ONCE = 200
"""This many jobs in one command line."""
_EMPTY_LIST = re.compile(r"^no .* defined$|^No cluster queue or queue instance matches")


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a change. `changed`: something was not yet as requested. `output`: Grid Engine's words by line."""

    changed: bool
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobsOutcome:
    """The result of a request for jobs (`12`) and tasks (`12.3`)."""

    done: tuple[str, ...] = ()
    """As requested now, whether by this call or before it."""
    gone: tuple[str, ...] = ()
    """No such job (any more)."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Job → Grid Engine's words."""


class Administrator:
    """Grid Engine for a caller that may change it: the runner's user is a manager, on an admin host."""

    def __init__(self, runner: Runner, *, timeout: float = TIMEOUT) -> None:
        self._runner = runner
        self._timeout = timeout

    # -- hosts --------------------------------------------------------------------------------------------

    def enrol(
        self,
        host: str,
        queue: str,
        host_group: str,
        slots: int,
        complex_values: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        also_in: Sequence[str] = (),
        seq_no: int | None = None,
    ) -> Change:
        """Make `host` an execution host that gives `slots` to `queue`, disabled. Never an admin or submit host.
        `also_in`: further host groups that it joins. `seq_no`: its sequence number in `queue`, if it gets one.

        The host is added with `slots=0`, joins the group, is disabled in every queue that it thereby serves, and only
        then gets slots, those of `queue` last: at no instant can a job start on it. An existing host is changed to
        match (values and slots are always set; `changed` says whether host, membership or state are new). Raises
        GridEngineRefused; also if `queue` does not take hosts from `host_group`.
        """
        usable("host", host), usable("queue", queue), usable("host group", host_group)
        values = {"slots": str(slots)} | dict(complex_values)
        closed = objects.complex_values(values | {"slots": "0"})
        with objects.as_file(objects.exec_host(host, values | {"slots": "0"})) as file:
            added = self.configure("-Ae", str(file))
        if not added.changed:
            self.configure("-rattr", "exechost", "complex_values", closed, host)
        for group in also_in:
            self.configure("-aattr", "hostgroup", "hostlist", host, usable("host group", group))
        joined = self.configure("-aattr", "hostgroup", "hostlist", host, host_group)
        disabled = self.disable(host)
        # qmod names every queue instance of the host, also one that is disabled already.
        if not any(f'"{queue}@' in line for line in disabled.output):
            raise GridEngineRefused(
                f"queue {queue} does not include {host_group}, so {host} cannot serve it: run `sge-autoscaler init`"
            )
        if seq_no is not None:
            self.configure("-rattr", "queue", "seq_no", str(seq_no), f"{queue}@{host}")
        opened = self.configure("-rattr", "exechost", "complex_values", objects.complex_values(values), host)
        given = self.configure("-rattr", "queue", "slots", str(slots), f"{queue}@{host}")
        return Change(
            changed=added.changed or joined.changed or disabled.changed,
            output=added.output + joined.output + disabled.output + opened.output + given.output,
        )

    def renumber(self, queue: str, numbers: Sequence[tuple[str, int]]) -> Change:
        """Give hosts sequence numbers of their own in `queue`, by one command. Entries of others stay. Raises
        GridEngineRefused.
        """
        given = ",".join(f"[{usable('host', host)}={number}]" for host, number in numbers)
        return self.configure("-rattr", "queue", "seq_no", given, usable("queue", queue))

    def complete(
        self,
        host: str,
        queue: str,
        complex_values: Mapping[str, str] | Iterable[tuple[str, str]],
        also_in: Sequence[str] = (),
    ) -> Change:
        """Give an execution host of `queue` that somebody else made these values and host groups in addition to its
        own.

        It is disabled first. The values come last, so that a host that has them has all. Raises GridEngineRefused, also
        if it is no execution host (any more): its name would stay in the host groups.
        """
        if not listed(usable("host", host), self.show("-sel")):
            raise GridEngineRefused(f"{host} is not an execution host any more: left alone")
        done = [self.disable(host)]
        for group in also_in:
            done.append(self.configure("-aattr", "hostgroup", "hostlist", host, usable("host group", group)))
            # A queue instance that exists before its host joins gets the queue's values for the group only when these
            # are written anew.
            if own := read_queue(self.show("-sq", usable("queue", queue))).pe_list_by_host.get(group):
                done.append(self.configure("-rattr", "queue", "pe_list", " ".join(own), f"{queue}@{group}"))
        if values := dict(complex_values):
            # -mattr keeps the host's other values; -rattr replaces all.
            done.append(self.configure("-mattr", "exechost", "complex_values", objects.complex_values(values), host))
        return Change(any(each.changed for each in done), tuple(line for each in done for line in each.output))

    def sense(self, host: str, sensor: str) -> Change:
        """Make the execd of `host` run this load sensor (a path), unless the host has a configuration already: then
        that is its administrator's. `remove` deletes it. Raises GridEngineRefused.
        """
        # `qconf -Aconf` takes the file's name for the host's.
        with objects.as_file(f"load_sensor {usable('path', sensor)}\n", name=usable("host", host)) as file:
            return self.configure("-Aconf", str(file))

    def enable(self, host: str, queue: str = "*") -> Change:
        """Enable every queue instance of the host, or that of one queue. Raises GridEngineRefused, also for a host
        without any.
        """
        change = self._change("qmod", "-e", f"{queue}@{usable('host', host)}")
        if Meaning.ABSENT in map(meaning, change.output):
            raise GridEngineRefused("; ".join(change.output))
        return change

    def disable(self, host: str) -> Change:
        """Disable every queue instance of the host: no new job starts. A host without any counts as disabled."""
        return self._change("qmod", "-d", f"*@{usable('host', host)}")

    def disable_all(self, hosts: Sequence[str]) -> Change:
        """The same for several hosts in one command."""
        return self._change("qmod", "-d", *(f"*@{usable('host', host)}" for host in hosts))

    def remove(self, host: str, known: Membership | None = None) -> RemovalOutcome:
        """Remove `host` from Grid Engine, unless Grid Engine says that something is on it.

        If it refuses, the host keeps all that it had, and stays disabled (`sge.removal`). `known`: the membership that
        the host should have by the caller's knowledge, restored as well in case an earlier call died half-way.
        """
        outcome = Removal(self, {host: known}).run()[host]
        if isinstance(outcome, GridEngineRefused):
            raise outcome
        return outcome

    # -- jobs ---------------------------------------------------------------------------------------------

    def hold(self, jobs: Sequence[str]) -> JobsOutcome:
        """Hold as operator: a hold of the owner's stays separate, so that `release` never lifts it."""
        return self._ask_for("qhold", "-h", "o", jobs=jobs)

    def release(self, jobs: Sequence[str]) -> JobsOutcome:
        """Lift the hold that `hold` set."""
        return self._ask_for("qrls", "-h", "o", jobs=jobs)

    def delete(self, jobs: Sequence[str], *, forced: bool = False) -> JobsOutcome:
        """Delete jobs or tasks (`12`, `12.3`, `12.1-9:2`). `forced`: also if the host does not answer."""
        return self._ask_for("qdel", *(("-f",) if forced else ()), jobs=jobs)

    def reschedule(self, job: str, *, forced: bool = False) -> JobsOutcome:
        """Make a running job pending again (`qmod -rj`). Only if its machine is surely gone: else it runs twice (rule
        7).

        Grid Engine refuses a job that may not be started again, unless `forced`.
        """
        return self._ask_for("qmod", *(("-f",) if forced else ()), "-rj", jobs=(job,))

    def set_context(self, jobs: Sequence[str], key: str, text: str) -> JobsOutcome:
        """Write a text where `qstat -j` shows it. A comma would end it and becomes a semicolon; a line end, a space.
        Other variables stay as they are.
        """
        words = plain(" ".join(text.replace(",", ";").split()))
        return self._ask_for("qalter", "-ac", f"{usable('context variable', key)}={words}", jobs=jobs)

    def drop_context(self, jobs: Sequence[str], key: str) -> JobsOutcome:
        """Remove such a text; a missing one counts as removed."""
        return self._ask_for("qalter", "-dc", usable("context variable", key), jobs=jobs)

    def verify(self, jobs: Sequence[str]) -> str:
        """The scheduler's output for waiting jobs against the cluster as configured, were it empty; changes nothing.

        All of it, a part for each job in this order. Raises GridEngineNotObservable.
        """
        completed = self._runner(("qalter", "-w", "v", *(usable("job", job) for job in jobs)), timeout=self._timeout)
        output = _lines(completed.stdout, completed.stderr)
        if Meaning.UNREACHABLE in map(meaning, output):
            raise GridEngineNotObservable(f"qalter got no answer from the qmaster: {'; '.join(output)}")
        return "\n".join(output)

    def _ask_for(self, *words: str, jobs: Sequence[str]) -> JobsOutcome:
        names = [usable("job", job) for job in jobs]
        gone: list[str] = []
        refused: dict[str, str] = {}
        for start in range(0, len(names), JOBS_AT_ONCE):
            batch = names[start : start + JOBS_AT_ONCE]
            for line in self._change(*words, *batch, raising=False).output:
                what, about = meaning(line), job_named(line)
                concerned = [job for job in batch if about is not None and _concerns(job, about)]
                if what is Meaning.ABSENT:
                    gone += concerned
                elif what in (Meaning.REFUSED, Meaning.NOTE) and concerned:  # unknown words count as not done
                    refused |= {job: f"{refused[job]}; {line}" if job in refused else line for job in concerned}
                elif what is Meaning.REFUSED:
                    raise GridEngineRefused(line)
        # qhold prints nothing about a job that is held already: no words mean that it is done.
        done = tuple(job for job in names if job not in gone and job not in refused)
        return JobsOutcome(done, tuple(dict.fromkeys(gone)), refused)

    # -- talking to Grid Engine -----------------------------------------------------------------------------

    def configure(self, *words: str) -> Change:
        """One `qconf` that changes something. Raises GridEngineRefused."""
        return self._change("qconf", *words)

    def change(self, *argv: str, longer: float = 0.0) -> Change:
        """Run one command that changes several things, of which some may be refused: see `output`. `longer`: seconds
        that it may take in addition to the usual.
        """
        return self._change(*argv, raising=False, longer=longer)

    def _change(self, *argv: str, raising: bool = True, longer: float = 0.0) -> Change:
        """Run one command that changes something. `raising`: GridEngineRefused if Grid Engine refused it."""
        completed = self._runner(argv, timeout=self._timeout + longer)
        output = _lines(completed.stdout, completed.stderr)
        meanings = [meaning(line) for line in output]
        if Meaning.UNREACHABLE in meanings:
            raise GridEngineNotObservable(f"{argv[0]} got no answer from the qmaster: {'; '.join(output)}")
        unclear = completed.returncode != 0 and not set(meanings) & {Meaning.ALREADY, Meaning.ABSENT, Meaning.REFUSED}
        if unclear or (raising and Meaning.REFUSED in meanings):
            raise GridEngineRefused("; ".join(output) or f"{argv[0]} {argv[1]} failed and printed nothing")
        # For a host that is in the list already, -aattr prints `No modification because …` and then `modified` as well.
        attribute_stood = argv[1:2] in (("-aattr",), ("-dattr",)) and Meaning.ALREADY in meanings
        return Change(Meaning.CHANGED in meanings and not attribute_stood, output)

    def show(self, *words: str) -> str:
        """The output of a `qconf -s…`. An empty list is a sentence on stderr and exit code 1; any other failure raises,
        since a missing answer would make a host look gone.
        """
        completed = self._runner(("qconf", *words), timeout=self._timeout)
        output = _lines(completed.stderr)
        if Meaning.UNREACHABLE in map(meaning, output):
            raise GridEngineNotObservable(f"qconf got no answer from the qmaster: {'; '.join(output)}")
        if completed.returncode != 0 and not any(map(_EMPTY_LIST.search, output)):
            raise GridEngineNotObservable(
                f"qconf {' '.join(words)} failed: {'; '.join(output) or 'it printed nothing'}"
            )
        return completed.stdout.decode("utf-8", "replace")


def _lines(*outputs: bytes) -> tuple[str, ...]:
    texts = (output.decode("utf-8", "replace") for output in outputs)
    return tuple(line.strip() for text in texts for line in text.splitlines() if line.strip())


def _concerns(job: str, about: str) -> bool:
    """Whether a line about job or task `about` concerns `job`: 12 covers 12.3, and the reverse."""
    return job == about or (job.split(".")[0] == about.split(".")[0] and ("." not in job or "." not in about))
