"""A qmaster in memory that answers a runner with the texts of 8.1.9: enough of it to change hosts.

Not a recording: state changes, so a test can stop between any two commands and inspect it. Its texts are those that
test_admin_messages.py holds to; tests/grid_engine/test_admin.py does the same on a real cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from autoscaler.process import Completed

ROOT = "root@master"


class Killed(BaseException):
    """The process died here."""


def each_switch(answer: Callable[[tuple[str, ...]], tuple[int, str]], argv: tuple[str, ...]) -> tuple[int, str]:
    """What a `qconf` with several switches that show prints on its standard output: what each prints alone, in order.
    Error output is left out.
    """
    starts = [place for place, word in enumerate(argv) if word.startswith("-s")]
    if argv[0] != "qconf" or len(starts) < 2 or len(starts) < sum(word.startswith("-") for word in argv):
        return answer(argv)
    parts = [argv[start:end] for start, end in zip(starts, [*starts[1:], len(argv)], strict=True)]
    answers = [answer(("qconf", *part)) for part in parts]
    return 0, "".join(text for code, text in answers if not code)


class GridEngineModel:
    """One queue that takes hosts from one group. `dies_after`: the command after which the caller is killed."""

    def __init__(self, queue: str = "main.q", group: str = "@allhosts", dies_after: int | None = None) -> None:
        self.queue, self.group = queue, group
        self.hosts: dict[str, str] = {}
        self.members: list[str] = []
        self.attached: list[str] = []
        """Hosts that the queue names itself, without the group."""
        self.slots: dict[str, int] = {}
        self.seq_nos: dict[str, int] = {}
        self.disabled: set[str] = set()
        self.busy: set[str] = set()
        self.reserved: set[str] = set()
        self.submit_hosts: list[str] = []
        self.dies_after = dies_after
        self.calls: list[tuple[str, ...]] = []
        self.startable: list[str] = []
        """Every host on which a job could have started, after some command."""

    def instances(self) -> set[str]:
        named = {host for host in self.hosts if host in self.members or host in self.attached}
        return named | (self.busy | self.reserved) & set(self.hosts)

    def can_start_jobs(self, host: str) -> bool:
        own = self.slots.get(host, 0) > 0 and not self.hosts.get(host, "").startswith("slots=0")
        return host in self.instances() and host not in self.disabled and own

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        self.calls.append(tuple(argv))
        code, text = each_switch(self.answer, tuple(argv))
        self.disabled &= self.instances()
        self.startable += [host for host in self.hosts if self.can_start_jobs(host)]
        if len(self.calls) == self.dies_after:
            raise Killed
        output, error = (b"", text.encode()) if code and argv[0] == "qconf" else (text.encode(), b"")
        return Completed(tuple(argv), code, output, error, 0.01)

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        match argv:
            case ("qconf", "-sel"):
                return (0, "\n".join(self.hosts)) if self.hosts else (1, "no execution host defined")
            case ("qconf", "-shgrpl"):
                return 0, self.group
            case ("qconf", "-shgrp", _):
                return 0, f"group_name {self.group}\nhostlist {' '.join(self.members) or 'NONE'}\n"
            case ("qconf", "-sq", "*" | self.queue):
                own = "".join(f",[{host}={slots}]" for host, slots in self.slots.items())
                return (
                    0,
                    f"qname                 {self.queue}\n"
                    f"hostlist              {' '.join((self.group, *self.attached))}\nslots       0{own}\n",
                )
            case ("qconf", "-se", host) if host in self.hosts:
                return 0, f"hostname              {host}\ncomplex_values        {self.hosts[host]}\n"
            case ("qconf", "-ss"):
                return 0, "\n".join(["master", *self.submit_hosts])
            case ("qconf", "-sh"):
                return 0, "master"
            case ("qconf", "-sconfl"):
                return 0, "\n".join(self.hosts)
            case ("qconf", "-ds" | "-dconf", hosts):
                self.submit_hosts = [name for name in self.submit_hosts if name not in hosts.split(",")]
                return _all((0, f'{ROOT} removed "{host}" from configuration list') for host in hosts.split(","))
            case ("qmod", "-d" | "-e" as switch, *targets):
                return _all(self.switch(switch == "-d", target) for target in targets)
            case ("qconf", "-Ae", *files):
                return _all(self.add_host(Path(file).read_text(encoding="utf-8")) for file in files if file != "-Ae")
            case ("qconf", "-de", hosts):
                return _all(self.delete_host(host) for host in hosts.split(","))
            case ("qconf", "-aattr" | "-rattr", "queue", "slots", entries, self.queue):
                for host, slots in re.findall(r"\[([^=]+)=(\d+)\]", entries):
                    self.slots[host] = int(slots)
                return 0, f'{ROOT} modified "{self.queue}" in cluster queue list'
            case ("qconf", "-rattr", "queue", "seq_no", entries, self.queue):
                self.seq_nos |= {host: int(number) for host, number in re.findall(r"\[([^=]+)=(\d+)\]", entries)}
                return 0, f'{ROOT} modified "{self.queue}" in cluster queue list'
            case ("qconf", "-aattr" | "-dattr" as switch, "queue", "hostlist", hosts, self.queue):
                return self.attach(re.split("[ ,]", hosts), off=switch == "-dattr")
            case ("qconf", "-rattr", "exechost", "complex_values", values, *hosts):
                return _all(self.set_values(host, values) for host in hosts)
            case ("qconf", "-mattr", "exechost", "complex_values", values, host):
                had = self.hosts[host].split(",") if self.hosts[host] != "NONE" else []
                new = [pair for pair in values.split(",") if pair not in had]
                names = {pair.partition("=")[0] for pair in new}
                self.hosts[host] = ",".join([*(pair for pair in had if pair.partition("=")[0] not in names), *new])
                return 0, f'{ROOT} modified "{host}" in exechost list'
            case ("qconf", "-aattr", "hostgroup", "hostlist", hosts, _):
                return _all(self.join(host) for host in hosts.split())
            case ("qconf", "-dattr", "hostgroup", "hostlist", hosts, _):
                unknown = [host for host in hosts.split() if host not in self.members]
                refusals = [f'"{host}" does not exist in "hostlist" of "hostgroup"' for host in unknown]
                self.members = [name for name in self.members if name not in hosts.split()]
                return 0, "\n".join([*refusals, f'{ROOT} modified "{self.group}" in host group list'])
            case ("qconf", "-rattr", "queue", "slots", slots, target):
                self.slots[target.partition("@")[2]] = int(slots)
                return 0, f'{ROOT} modified "{self.queue}" in cluster queue list'
            case ("qconf", "-purge", "queue", "slots", target):
                return self.purge(target.partition("@")[2])
            case _:
                raise AssertionError(f"the model does not know {argv}")

    def attach(self, hosts: list[str], *, off: bool) -> tuple[int, str]:
        unknown = [host for host in hosts if off and host not in self.attached]
        refusals = [f'"{host}" does not exist in "hostlist" of "{self.queue}"' for host in unknown]
        self.attached = [name for name in self.attached if name not in hosts]
        if not off:
            for host in hosts:
                self.hosts.setdefault(host, "NONE")
            self.attached += hosts
        return 0, "\n".join([*refusals, f'{ROOT} modified "{self.queue}" in cluster queue list'])

    def switch(self, off: bool, target: str) -> tuple[int, str]:
        queue, host = target.split("@")
        if host not in self.instances() or queue not in ("*", self.queue):
            return 1, f'invalid queue "{target}"'
        word = "disabled" if off else "enabled"
        if (host in self.disabled) == off:
            return 0, f'Queue instance "{self.queue}@{host}" is already in the specified state: {word}'
        self.disabled = self.disabled | {host} if off else self.disabled - {host}
        return 0, f'{ROOT} changed state of "{self.queue}@{host}" ({word})'

    def set_values(self, host: str, values: str) -> tuple[int, str]:
        if host in self.reserved and values.startswith("slots=0"):
            return 1, 'denied: changing "slots" in complex_values would break advance reservation'
        self.hosts[host] = values
        return 0, f'{ROOT} modified "{host}" in exechost list'

    def add_host(self, text: str) -> tuple[int, str]:
        attributes = dict(line.split(None, 1) for line in text.splitlines())
        host = attributes["hostname"]
        if host in self.hosts:
            return 1, f'exechost "{host}" already exists'
        self.hosts[host] = attributes["complex_values"]
        return 0, f'{ROOT} added "{host}" to exechost list'

    def delete_host(self, host: str) -> tuple[int, str]:
        if host not in self.hosts:
            return 1, f'denied: execution host "{host}" does not exist'
        if host in self.members:
            return 1, f'Host object "{host}" is still referenced in host group "{self.group}".'
        if host in self.attached:
            return 1, f'Host object "{host}" is still referenced in cluster queue "{self.queue}".'
        if host in self.busy | self.reserved:
            return 1, f'Host object "{host}" is still referenced in cluster queue "{self.queue}".'
        del self.hosts[host]
        return 0, f'{ROOT} removed "{host}" from execution host list'

    def join(self, host: str) -> tuple[int, str]:
        self.hosts.setdefault(host, "NONE")
        modified = f'{ROOT} modified "{self.group}" in host group list'
        if host in self.members:
            return 0, f'No modification because "{host}" already exists in "hostlist" of "hostgroup"\n{modified}'
        self.members.append(host)
        return 0, modified

    def purge(self, host: str) -> tuple[int, str]:
        if host in self.reserved:
            return 0, f"denied: 3 slots are already reserved in {self.queue}@{host} by an advance reservation"
        if self.slots.pop(host, None) is None:
            return 0, f'Attribute name ("slots") and/or value ("{host}") not found'
        return 0, f'{ROOT} modified "{self.queue}" in cluster queue list'


def _all(answers: Iterable[tuple[int, str]]) -> tuple[int, str]:
    """Several answers of one command: what each was about, and the worst exit status."""
    parts = list(answers)
    return max(code for code, _ in parts), "\n".join(text for _, text in parts)
