"""Who may run where: access lists, projects and advance reservations. A job's owner, primary group and project decide,
as in Grid Engine's scheduler.

The listing does not show a job's group, project, reservation and checkpointing environment. `qstat -j` is asked for
them, but only if a list, a project, a quota, a reservation or a queue of this cell makes them matter. Until they are
known, such a job does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.demand.eligibility import CategoryPart
from autoscaler.core.model.cluster import BATCH, Access, AccessList, Cluster, JobDetail, Queue, QuotaSet
from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.policy import Policy
from autoscaler.core.rights.rights import accesses_of


def needs_of(
    accesses: Iterable[Access],
    quotas: Iterable[QuotaSet],
    lists: Mapping[str, AccessList],
    *,
    reserved: bool,
    ckpt: bool = False,
) -> Needs:
    """What has to be known of jobs under these. `reserved`: some queue instance has slots of a reservation; `ckpt`:
    queues differ in the checkpointing environments whose jobs they start.
    """
    rules = [rule for quota in quotas if quota.enabled for rule in quota.rules]
    of_quotas = (name.lstrip("!") for rule in rules for name in rule.users or () if name.lstrip("!").startswith("@"))
    some = list(accesses)
    named = {name for access in some for name in (*access.user_lists, *access.xuser_lists)}
    counted = {name.removeprefix("@") for name in of_quotas}
    by_project = any(rule.projects is not None for rule in rules)

    def by_group(names: set[str]) -> bool:
        return any(entry.startswith("@") for name in names if name in lists for entry in lists[name].entries)

    return Needs(
        group=by_group(named | counted),
        project=by_project or any(access.projects or access.xprojects for access in some),
        reservation=reserved,
        ckpt=ckpt,
        of_running=by_project or by_group(counted),
    )


def cluster_needs(cluster: Cluster, policy: Policy) -> Needs:
    """The same for this cluster, with what the rules of callers need."""
    found = needs_of(
        accesses_of(cluster),
        cluster.quotas,
        cluster.access_lists,
        reserved=bool([each for host in cluster.hosts for each in host.instances if each.reserved]),
        ckpt=ckpt_matters(cluster.ckpts, cluster.queues.values()),
    )
    return found.under(policy)


def ckpt_matters(ckpts: Iterable[str], queues: Iterable[Queue]) -> bool:
    """Whether it matters if a job asks for one of these checkpointing environments, and for which."""
    names = frozenset(ckpts)
    if not names:
        return False
    some = list(queues)
    lists = (each for queue in some for each in (queue.ckpt_list, *queue.ckpt_list_by_host.values()))
    types = (each for queue in some for each in (queue.qtype, *queue.qtype_by_host.values()))
    return any(not names.issubset(each) for each in lists) or any(BATCH not in each for each in types)


def split(parts: Sequence[CategoryPart], details: Mapping[int, JobDetail], needs: Needs) -> Sequence[CategoryPart]:
    """The parts split by group, project and reservation; jobs not looked up yet do not count."""
    if not needs.any:
        return parts
    return [some for part in parts for some in _by_subject(part, details, needs)]


def _by_subject(part: CategoryPart, details: Mapping[int, JobDetail], needs: Needs) -> Iterator[CategoryPart]:
    groups: dict[_Subject | None, list[tuple[int, str]]] = {}
    for job, tasks in zip(part.jobs, part.tasks, strict=True):
        groups.setdefault(_subject(details.get(job), needs), []).append((job, tasks))
    for known, some in groups.items():
        ask, reason = part.ask, part.reason
        if known is None:
            reason = reason or because(Code.NOT_READ_YET)
        else:
            group, project, reservation, ckpt, account = known
            ask = replace(ask, group=group, project=project or ask.project, ckpt=ckpt, account=account)
            if reason is None and reservation is not None:
                reason = because(Code.ADVANCE_RESERVATION, reservation=reservation)
        yield replace(
            part,
            ask=ask,
            jobs=tuple(job for job, _ in some),
            tasks=tuple(tasks for _, tasks in some),
            count=sum(task_count(tasks) for _, tasks in some) if len(groups) > 1 else part.count,
            reason=reason,
        )


_Subject = tuple[str | None, str | None, int | None, str | None, str | None]
"""Group, project, reservation, checkpointing environment and account, as far as they matter."""


def _subject(detail: JobDetail | None, needs: Needs) -> _Subject | None:
    """None: not known yet."""
    if detail is None or not needs.known_of(detail):
        return None
    return (
        detail.group if needs.group else None,
        detail.project or None if needs.project else None,
        detail.reservation if needs.reservation else None,
        detail.ckpt or None if needs.ckpt else None,
        detail.account or None if needs.account else None,
    )
