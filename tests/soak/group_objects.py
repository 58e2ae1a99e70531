"""What Grid Engine has of groups: their host groups, parallel environments and entries in the queue, in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.sge.grid_engine_model import ROOT
from tests.soak.jobs import GROUPED, MAIN, PES, Job

COMPLEXES = (
    "slots s INT <= YES YES 1 1000\nh_vmem h_vmem MEMORY <= YES YES 0 0\n"
    "arch a RESTRING == YES NO NONE 0\nhostname h HOST == YES NO NONE 0\n"
)
Answer = tuple[int, str]


@dataclass
class GroupObjects:
    """`base`: the host group that the queue takes its hosts from. `pes`: by name, the rule of each that groups have."""

    base: str
    jobs: Callable[[], Iterable[Job]]
    hosts: dict[str, list[str]] = field(default_factory=dict)
    """By host group."""
    pes: dict[str, str] = field(default_factory=dict)
    pe_lists: dict[str, list[str]] = field(default_factory=dict)
    """By host group, what the queue offers its hosts instead of its own."""
    knows_complex: bool = False

    def left(self) -> list[str]:
        """All that is there of any group."""
        return [*self.hosts, *self.pes, *(f"pe_list of {name}" for name in self.pe_lists)]

    def of(self, host: str) -> list[str]:
        """The host groups of groups that have this host."""
        return [name for name, hosts in self.hosts.items() if host in hosts]

    def open_to_jobs(self, host: str) -> str:
        """The host group inside which jobs of groups may have this host; '' for none."""
        for name in self.of(host):
            if any(pe in self.pes and pe.startswith(f"{GROUPED}_") for pe in self.pe_lists.get(name, ())):
                return name
        return ""

    def forget(self, host: str) -> None:
        """A person takes the host out of all of them."""
        for hosts in self.hosts.values():
            hosts[:] = [name for name in hosts if name != host]

    def pe_list(self) -> str:
        """As `qconf -sq` shows that of the queue."""
        own = [" ".join(words) for words in self.pe_lists.values()]
        return ",".join([" ".join(PES), *(f"[{name}={words}]" for name, words in zip(self.pe_lists, own, strict=True))])

    def answer(self, argv: tuple[str, ...]) -> Answer | None:
        """None: it is about something else."""
        match argv:
            case ("qconf", "-sc"):
                return 0, COMPLEXES + "group_id group_id STRING == YES NO NONE 0\n" * self.knows_complex
            case ("qconf", "-Mc", file):
                self.knows_complex |= "\ngroup_id " in Path(file).read_text(encoding="utf-8")
                return 0, f"{ROOT} modified complexes"
            case ("qconf", "-shgrpl"):
                return 0, "\n".join([self.base, *self.hosts])
            case ("qconf", "-spl"):
                return 0, "\n".join([*PES, GROUPED, *self.pes])
            case ("qconf", "-sp", name) if name == GROUPED or name in self.pes:
                rule = self.pes.get(name, "$fill_up")
                return 0, f"pe_name {name}\nslots 999\nuser_lists NONE\nallocation_rule {rule}\n"
            case ("qconf", "-Ahgrp" | "-Ap" as switch, file):
                return self._add(switch, Path(file).read_text(encoding="utf-8"))
            case ("qconf", "-dp", name):
                return self._delete_pe(name)
            case ("qconf", "-dhgrp", name) if name not in self.hosts:
                return 1, f'denied: host group "{name}" does not exist'
            case ("qconf", "-dhgrp", name) if name in self.pe_lists:
                return 1, f'denied: host group "{name}" is still referenced in cluster queue "{MAIN}"'
            case ("qconf", "-dhgrp", name):
                del self.hosts[name]
                return 0, f'{ROOT} removed "{name}" from host group list'
            case ("qconf", "-rattr", "queue", "pe_list", words, target):
                self.pe_lists[target.partition("@")[2]] = words.split()
                return 0, f'{ROOT} modified "{MAIN}" in cluster queue list'
            case ("qconf", "-purge", "queue", "pe_list", target):
                if self.pe_lists.pop(target.partition("@")[2], None) is None:
                    return 0, f'Attribute name ("pe_list") and/or value ("{target}") not found'
                return 0, f'{ROOT} modified "{MAIN}" in cluster queue list'
            case ("qconf", "-aattr" | "-dattr" as switch, "hostgroup", "hostlist", hosts, group) if group != self.base:
                answers = [self._member(switch, host, group) for host in hosts.split()]
                return max(code for code, _ in answers), "\n".join(text for _, text in answers)
            case ("qconf", "-de", host) if self.of(host):
                return 1, f'Host object "{host}" is still referenced in host group "{self.of(host)[0]}".'
            case _:
                return None

    def shown(self, group: str) -> str:
        return f"group_name {group}\nhostlist {' '.join(self.hosts[group]) or 'NONE'}\n"

    def _add(self, switch: str, text: str) -> Answer:
        attributes = dict(line.split(None, 1) for line in text.splitlines() if line.strip())
        if switch == "-Ahgrp":
            name = attributes["group_name"].strip()
            if name in self.hosts:
                return 1, f'"{name}" already exists'
            self.hosts[name] = []
            return 0, f'{ROOT} added "{name}" to host group list'
        name = attributes["pe_name"].strip()
        if name in self.pes:
            return 1, f'"{name}" already exists'
        self.pes[name] = attributes["allocation_rule"].strip()
        return 0, f'{ROOT} added "{name}" to parallel environment list'

    def _delete_pe(self, name: str) -> Answer:
        """Refused while a queue has it, or a job's request matches it."""
        if name not in self.pes:
            return 1, f'denied: parallel environment "{name}" does not exist'
        if any(name in words for words in self.pe_lists.values()):
            return 1, f'denied: Parallel environment "{name}" is still referenced in queue list of "{MAIN}".'
        for job in self.jobs():
            if job.pe is not None and re.fullmatch(job.pe.replace("*", ".*"), name):
                return 1, f'denied: Parallel environment "{name}" is still referenced in job {job.number}.'
        del self.pes[name]
        return 0, f'{ROOT} removed "{name}" from parallel environment list'

    def _member(self, switch: str, host: str, group: str) -> Answer:
        if group not in self.hosts:
            return 1, f'Host group "{group}" does not exist'
        modified, there = f'{ROOT} modified "{group}" in host group list', host in self.hosts[group]
        if (switch == "-aattr") == there:
            word = "already exists" if there else "does not exist"
            return 0, f'No modification because "{host}" {word} in "hostlist" of "hostgroup"\n{modified}'
        if there:
            self.hosts[group].remove(host)
        else:
            self.hosts[group].append(host)
        return 0, modified
