"""Names that a listed machine cannot have: those of hosts that are not ours, and what is no name at all.

A provider reports names, and with some the machine itself does, on which a job may have become root. A machine named as
a persistent host or as the master would have that one disabled, given other values and removed, and its name led
elsewhere; a check of workers by the operator gets names and addresses, and `-oProxyCommand=…` is an option of ssh. A
machine whose name is not believed has none: it waits, and is given up like one that never joins.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autoscaler.core.model.cluster import Cluster, short_name
from autoscaler.core.model.fleet import Fleet, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.workers.worker_observation import creation_time
from autoscaler.hosts_file import address_of, reserved_names
from autoscaler.plain_text import plain

CLOCKS = 120.0
"""Seconds by which the clocks of cloud and master may differ, and by which listings may lag."""
OF_GRID_ENGINE = frozenset({"global", "template", "unknown", "none", "all"})
"""Names that Grid Engine gives a meaning of their own."""
_FORM = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,252}", re.ASCII)
"""In small letters."""

log = logging.getLogger("autoscaler.run")


@dataclass(slots=True)
class ForeignNames:
    """One for the life of a process. Hosts count as others' if they reported here before the machine was made, and no
    machine of ours had the name; so nothing is known in the first observation.
    """

    _since: dict[str, float] = field(default_factory=dict)
    """By full name in small letters: since when it has reported without a machine of ours."""
    _logged: set[tuple[str, str]] = field(default_factory=set)

    def without(self, fleet: Fleet, cluster: Cluster, memory: Memory, master: str, now: float) -> Fleet:
        """The fleet in which machines with such a name have none."""
        taken = {worker.id for worker in fleet.workers if self._is_foreign(worker, memory, master, now)}
        own = {worker.name.lower() for worker in fleet.workers if worker.name and worker.id not in taken}
        own |= {note.host.lower() for note in memory.workers.values() if note.host}
        reporting = {host.name.lower() for host in cluster.hosts if host.heard}
        ours = {name for name in reporting if any(alike in own for alike in _alike(name, own))}
        self._since = {name: self._since.get(name, now) for name in reporting - ours}
        nowhere = {each.id for each in fleet.workers if each.address and address_of(each.address) is None}
        if not taken and not nowhere:
            return fleet
        for worker in fleet.workers:
            if worker.id in taken and (key := (worker.id, worker.name or "")) not in self._logged:
                self._logged.add(key)
                log.warning(
                    "%s is listed as %s, which is no name or that of another host: it is not made an execution host",
                    plain(worker.id),
                    plain(worker.name or ""),
                )
        named = (replace(each, name=None) if each.id in taken else each for each in fleet.workers)
        workers = (replace(each, address=None) if each.id in nowhere else each for each in named)
        return replace(fleet, workers=tuple(workers))

    def _is_foreign(self, worker: Worker, memory: Memory, master: str, now: float) -> bool:
        if not worker.name:
            return False
        name = worker.name.lower()
        if not _FORM.fullmatch(name):
            return True
        if name in OF_GRID_ENGINE or name in reserved_names() or short_name(name) == short_name(master.lower()):
            return True
        note = memory.workers.get(worker.id)
        if note is not None and note.host is not None and note.host.lower() == name:
            return False
        earliest = None if memory.observed_at is None else memory.observed_at - CLOCKS
        before = creation_time(worker, note, earliest, now) - CLOCKS
        return any(self._since[each] < before for each in _alike(name, self._since))


def _alike(name: str, names: frozenset[str] | set[str] | dict[str, float]) -> Iterator[str]:
    """Those of `names` that are this one; if one of two has no domain, the domain is ignored."""
    if name in names:
        yield name
    elif "." in name:
        if short_name(name) in names:
            yield short_name(name)
    else:
        yield from (each for each in names if each.startswith(f"{name}."))
