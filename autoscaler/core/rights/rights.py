"""Who may run where: access lists and projects. A job's owner, primary group and project decide, as in Grid Engine's
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.model.cluster import OPEN, Access, AccessList, Cluster, JobRequest, Queue
from autoscaler.core.model.reasons import Code, Reason, because


def accesses_of(cluster: Cluster) -> Iterator[Access]:
    """The access of everything in the cell that has any."""
    yield cluster.global_access
    yield from (pe.access for pe in cluster.pes.values())
    yield from closed_hosts(cluster).values()
    for queue in cluster.queues.values():
        yield queue.access
        yield from (Access(**values) for values in queue.access_by_host.values())


def closed_hosts(cluster: Cluster) -> Mapping[str, Access]:
    """The hosts that are not open to everybody."""
    return {host.name: host.access for host in cluster.hosts if host.access is not OPEN and host.access != OPEN}


def _restricts(access: Access) -> bool:
    return access is not OPEN and access != OPEN


@dataclass(slots=True)
class Rights:
    """Judges jobs by the lists and projects of one cluster."""

    lists: Mapping[str, AccessList] = field(default_factory=lambda: MappingProxyType({}))
    everywhere: Access = OPEN
    """Access of the global host."""
    hosts: Mapping[str, Access] = field(default_factory=lambda: MappingProxyType({}))
    """Hosts that are not open to everybody."""
    restricts: bool = False
    """Whether anything in the cell is restricted."""

    @classmethod
    def of(cls, cluster: Cluster) -> Rights:
        return cls(
            cluster.access_lists,
            cluster.global_access,
            closed_hosts(cluster),
            any(map(_restricts, accesses_of(cluster))),
        )

    def key(self, ask: JobRequest) -> tuple[object, ...]:
        """What two jobs with equal requests must have in common to be judged alike."""
        return (ask.owner, ask.group, ask.project) if self.restricts else ()

    def names(self, list_: str, owner: str, group: str | None) -> bool | None:
        """Whether an access list names this user; None: that is not known."""
        known = self.lists.get(list_)
        if known is None:
            return None
        # The scheduler ignores a set whose type is DEPT alone.
        if not known.grants:
            return False
        if owner in known.entries:
            return True
        # `@name` in an access list is the job's primary group.
        groups = [entry for entry in known.entries if entry.startswith("@")]
        if groups and group is None:
            return None
        return f"@{group}" in groups

    def refusal(self, what: str, access: Access, ask: JobRequest, *, is_queue: bool = False) -> Reason | None:
        """Why a job may not use an object with this access; None: it may."""
        if access == OPEN or not self.restricts:
            return None
        return self._of_user(what, access, ask, is_queue=is_queue) or _of_project(what, access, ask)

    def _of_user(self, what: str, access: Access, ask: JobRequest, *, is_queue: bool) -> Reason | None:
        refusing = {name: self.names(name, ask.owner, ask.group) for name in access.xuser_lists}
        granting = {name: self.names(name, ask.owner, ask.group) for name in access.user_lists}
        # In xuser_lists of a queue, but not of a PE or host, a set without the type ACL refuses everybody.
        refused = [
            name
            for name, named in refusing.items()
            if named or (is_queue and name in self.lists and not self.lists[name].grants)
        ]
        by = _shown("xuser_lists", refused)
        if not refused and granting and not any(named is not False for named in granting.values()):
            by = _shown("user_lists", access.user_lists)
        if by:
            return because(Code.NO_ACCESS, owner=ask.owner, group=ask.group, what=what, by=by)
        unknown = [name for name, named in refusing.items() if named is None]
        if granting and not any(granting.values()):
            unknown += [name for name, named in granting.items() if named is None]
        return because(Code.ACCESS_UNKNOWN, what=what, by=tuple(unknown)) if unknown else None

    def queue_refusal(self, queue: Queue, ask: JobRequest, places: Iterable[str]) -> Reason | None:
        """Why a job may not use a queue on a host of this name or in these host groups."""
        if queue.access == OPEN and not queue.access_by_host:
            return None
        return self.refusal(queue.name, access_at(queue, places), ask, is_queue=True)

    def barred_hosts(
        self, ask: JobRequest, queues: Mapping[str, Queue], groups: Mapping[str, tuple[str, ...]]
    ) -> list[str]:
        """Hosts with access rules of their own that admit the job to none of these queues."""
        places = list(dict.fromkeys(place for queue in queues.values() for place in queue.access_by_host))
        of_place = {place: frozenset(groups.get(place, ()) if place[:1] == "@" else (place,)) for place in places}
        # The values of a host itself override those of its groups.
        places.sort(key=lambda place: place[:1] != "@")
        judged: dict[tuple[Access, tuple[str, ...]], bool] = {}
        barred: list[str] = []
        for host in sorted(frozenset(self.hosts).union(*of_place.values())):
            own, named = self.hosts.get(host, OPEN), tuple(place for place in places if host in of_place[place])
            if (own, named) not in judged:
                judged[own, named] = self.refusal(host, own, ask) is not None or all(
                    self.queue_refusal(queue, ask, named) is not None for queue in queues.values()
                )
            if judged[own, named]:
                barred.append(host)
        return barred


def access_at(queue: Queue, places: Iterable[str]) -> Access:
    """The access of a queue in these places; later places override earlier ones."""
    values: dict[str, tuple[str, ...]] = {}
    for place in places:
        values |= queue.access_by_host.get(place, {})
    return replace(queue.access, **values) if values else queue.access


def _of_project(what: str, access: Access, ask: JobRequest) -> Reason | None:
    # xprojects refuses a project even if projects names it, too.
    if ask.project and ask.project in access.xprojects:
        return because(Code.NO_PROJECT_ACCESS, project=ask.project, what=what, by=_shown("xprojects", (ask.project,)))
    if not access.projects or ask.project in access.projects:
        return None
    by = _shown("projects", access.projects)
    if ask.project:
        return because(Code.NO_PROJECT_ACCESS, project=ask.project, what=what, by=by)
    return because(Code.NO_PROJECT, what=what, by=by)


def _shown(attribute: str, names: Iterable[str]) -> tuple[str, ...]:
    some = " ".join(names)
    return (f"{attribute}={some}",) if some else ()
