"""A group of workers in Grid Engine: the complex `group_id`, a host group, and a copy of every parallel environment of
groups that only this host group has.

So a job that requests `-pe 'mpi*' 64` gets all its hosts out of one group: Grid Engine chooses one parallel environment
per job. Nothing here is ever a host's only place: its queue takes it from the queue's own host group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoscaler.core.requests.group_names import COMPLEX, HOST_GROUP_PREFIX, host_group_of, pe_of
from autoscaler.errors import GridEngineRefused
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.complex_table import has_complex, rows_of, text_row
from autoscaler.sge.membership import split_objects
from autoscaler.sge.objects import usable
from autoscaler.sge.qconf import read_host_group, read_names, read_queue


class Groups:
    """One for the life of a process. Every method may be called again after a crash between any two commands."""

    def __init__(self, administrator: Administrator) -> None:
        self._administrator = administrator
        self._swept = False

    @property
    def swept(self) -> bool:
        """Whether nothing of a group without hosts is left, as far as this process knows."""
        return self._swept

    def prepare(self, group: str, *, queue: str, host_group: str, pes: Sequence[str]) -> str:
        """Create or complete the group; returns the host group that its hosts are to join while they are disabled.
        `pes`: those of which groups have copies; `host_group`: the queue's own. Raises GridEngineRefused.
        """
        usable("queue", queue)
        ours = usable("host group", host_group_of(group))
        self._swept = False  # its host may never come
        self._define_complex()
        with objects.as_file(objects.host_group(ours, ())) as file:
            self._administrator.configure("-Ahgrp", str(file))
        if pes:
            self._attach(group, ours, queue, host_group, pes)
        return ours

    def clear(self, group: str) -> tuple[str, ...]:
        """Delete the objects of a group without hosts; returns Grid Engine's words if it refused. A parallel
        environment stays as long as a waiting job's request matches it: then so does the host group, by which a later
        sweep finds it.
        """
        ours = host_group_of(group)
        swept, self._swept = self._swept, False  # until the result is known
        known = read_names(self._administrator.show("-shgrpl"))
        if ours not in known or read_host_group(self._administrator.show("-shgrp", ours))[1]:
            self._swept = swept
            return ()
        for queue, having in self._attached(ours):
            if having:
                self._administrator.configure("-purge", "queue", "pe_list", f"{queue}@{ours}")
        refused: list[str] = []
        suffix = pe_of("", group)
        pes = read_names(self._administrator.show("-spl"))
        for pe in pes:
            if pe.endswith(suffix) and pe.removesuffix(suffix) in pes:
                refused += self._delete("-dp", pe)
        refused += [] if refused else self._delete("-dhgrp", ours)
        self._swept = swept and not refused
        return tuple(refused)

    def sweep(self) -> tuple[str, ...]:
        """Clear every group that has no hosts; returns Grid Engine's words if it refused. Raises AutoscalerError."""
        self._swept = False
        refused: list[str] = []
        names = [name for name in read_names(self._administrator.show("-shgrpl")) if _group_of(name) is not None]
        texts = self._administrator.show(*(word for name in names for word in ("-shgrp", name))) if names else ""
        for name, hosts in map(read_host_group, split_objects(texts, "group_name")):
            group = _group_of(name)
            if group is not None and not hosts:
                refused += self.clear(group)
        self._swept = not refused
        return tuple(refused)

    def _define_complex(self) -> None:
        """The complex: jobs may request it, hosts have it, it is not consumable."""
        table = self._administrator.show("-sc")
        if has_complex(table, COMPLEX):
            return
        row = text_row(table, COMPLEX, requestable=True)
        with objects.as_file("\n".join((*rows_of(table), row)) + "\n") as file:
            self._administrator.configure("-Mc", str(file))

    def _attach(self, group: str, ours: str, queue: str, host_group: str, pes: Sequence[str]) -> None:
        """The group's parallel environments, which only its hosts have; they keep the queue's others."""
        attributes = read_queue(self._administrator.show("-sq", queue))
        # Two host groups of a host with different pe_lists make its queue instance ambiguous (`c`): no job starts.
        if host_group in attributes.pe_list_by_host:
            raise GridEngineRefused(
                f"queue {queue} has its own pe_list for {host_group}, which would contradict that of a group: "
                "set it for single hosts or for the whole queue"
            )
        own: list[str] = []
        for base in pes:
            pe = usable("parallel environment", pe_of(base, group))
            text = self._administrator.show("-sp", usable("parallel environment", base))
            rest = re.sub(r"(?m)^pe_name\s.*\n", "", text, count=1)
            with objects.as_file(f"pe_name {pe}\n{rest}") as file:
                self._administrator.configure("-Ap", str(file))
            own.append(pe)
        words = [*(pe for pe in attributes.pe_list if pe not in pes), *own]
        if attributes.pe_list_by_host.get(ours) != tuple(words):
            self._administrator.configure("-rattr", "queue", "pe_list", " ".join(words), f"{queue}@{ours}")

    def _attached(self, ours: str) -> list[tuple[str, bool]]:
        """Every queue, and whether it has a value of its own for this host group."""
        texts = split_objects(self._administrator.show("-sq", "*"), "qname")
        queues = (read_queue(text) for text in texts)
        return [(queue.name, ours in queue.pe_list_by_host) for queue in queues]

    def _delete(self, switch: str, name: str) -> list[str]:
        try:
            self._administrator.configure(switch, name)
        except GridEngineRefused as error:
            return [str(error)]
        return []


def _group_of(host_group: str) -> str | None:
    """The group of one of our host groups, from its name; None for any other."""
    return host_group.removeprefix(HOST_GROUP_PREFIX) if host_group.startswith(HOST_GROUP_PREFIX) else None
