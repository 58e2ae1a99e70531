"""Combines Grid Engine's outputs into one `Cluster`. Pure: the same outputs, zone and time give the same cluster.

It merges qstat's and qhost's view of the same queue instance so that a host is busy if either shows it busy, and
refuses a reading that is empty where it cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from math import inf
from operator import attrgetter
from typing import TypeVar

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.model.calendars import Calendar
from autoscaler.core.model.cluster import (
    Access,
    AccessList,
    Cluster,
    Complex,
    ExecutionHost,
    JobCategory,
    JobDetail,
    ParallelEnvironment,
    Queue,
    QueueInstance,
    QuotaSet,
)
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.access import access_lists, priorities_reported
from autoscaler.sge.calendars import read_calendar
from autoscaler.sge.complex_table import COMPLEXES, read_complexes
from autoscaler.sge.detail import read_details
from autoscaler.sge.job_categories import UNREADABLE
from autoscaler.sge.markup import Aside
from autoscaler.sge.qconf import (
    containing_groups,
    read_access,
    read_assignments,
    read_attributes,
    read_host_group,
    read_names,
    read_pe,
    read_queue,
    read_quotas,
    resolve_host_groups,
    resolve_hosts,
)
from autoscaler.sge.qhost import HostOffer, Offers, read_qhost
from autoscaler.sge.qstat import Listing, read_qstat
from autoscaler.sge.reading import Outputs, read_outputs
from autoscaler.sge.units import Clock, read_duration

__all__ = ["Outputs", "cluster_from", "read_outputs"]

_Value = TypeVar("_Value")
_ALWAYS_READ = frozenset({"sc", "sel", "ssconf", "sconf"})
"""What every cell has: where these outputs are, queues and host groups were read with them."""
_PLENTY = 99_999
"""Slots of a PE that is only known by name."""


@dataclass(frozen=True, slots=True)
class _Configuration:
    """The output of qconf, before defaults."""

    queues: dict[str, Queue]
    pes: dict[str, ParallelEnvironment]
    complexes: Mapping[str, Complex]
    groups: dict[str, tuple[str, ...]]
    containing_groups: dict[str, tuple[str, ...]]
    execution_hosts: frozenset[str] | None
    global_values: dict[str, str]
    ckpts: tuple[str, ...]
    quotas: tuple[QuotaSet, ...]
    access_lists: Mapping[str, AccessList]
    access: Mapping[str, Access]
    """By host; `global` is any host."""
    schedule_interval: float
    load_report_time: float
    max_unheard: float
    calendars: dict[str, Calendar]
    max_user_jobs: int | None
    max_array_tasks: int | None
    max_reservation: int | None
    default_duration: float
    priorities: bool
    context_allowed: bool


def cluster_from(outputs: Outputs, *, zone: tzinfo, now: float) -> Cluster:
    """Make the cluster of one reading. Zone-less times are local to `zone`; `now` dates the details.

    Missing pieces have defaults: no qhost → hosts from qstat's Queue-Lists · no `sc` → Grid Engine's table as shipped ·
    no `sp_…` → `$pe_slots` for `local`, `$fill_up` for others · no `sq_…` → queues from Queue-Lists, with every PE · no
    `sckptl` → no checkpointing environments · no `sel` → the hosts met · no `ssconf`, `sconf` → Grid Engine's defaults
    · no `scal_…` → calendars of which only state letters are known. Raises GridEngineNotObservable if a listing is
    unusable; parts that could not be understood are in `set_aside`.
    """
    listing = outputs.listing
    if listing is None or listing.zone != zone:
        listing = read_qstat(outputs.qstat, zone)
    offers = Offers(()) if outputs.qhost is None else read_qhost(outputs.qhost)
    aside = Aside()
    configuration = _without_probe_hosts(_read_configuration(outputs.qconf, aside))
    met = _merge_hosts(listing, offers, whole=outputs.qhost is not None)
    hosts = tuple(_with_access(host, configuration.access) for host in met if not _is_probe_host(host.name))
    if _unplaced(listing, configuration.execution_hosts):
        aside.put("a busy queue instance", "its host is not known: every host counts as occupied")
        hosts = tuple(map(_occupied, hosts))
    _refuse_emptiness(listing, outputs.qhost, hosts, configuration)
    queues = configuration.queues or _queues_met(listing.instances)
    pes = {**_pes_met(queues, listing.job_categories, asked=not configuration.queues), **configuration.pes}
    if not configuration.queues:
        queues = {name: replace(queue, pe_list=tuple(sorted(pes))) for name, queue in queues.items()}
    return Cluster(
        hosts=hosts,
        job_categories=_dated(listing.job_categories, now),
        queues=queues,
        pes=pes,
        complexes=configuration.complexes,
        host_groups=configuration.groups,
        containing_groups=configuration.containing_groups,
        execution_hosts=_execution_hosts(configuration, hosts),
        global_consumables={**configuration.global_values, **offers.global_consumables},
        global_values=configuration.global_values,
        ckpts=configuration.ckpts,
        quotas=configuration.quotas,
        access_lists=configuration.access_lists,
        global_access=configuration.access.get("global", Access()),
        details=_details(outputs.qstat_j, listing, now, aside),
        schedule_interval=configuration.schedule_interval,
        load_report_time=configuration.load_report_time,
        max_unheard=configuration.max_unheard,
        calendars=configuration.calendars,
        zone=zone,
        max_user_jobs=configuration.max_user_jobs,
        max_array_tasks=configuration.max_array_tasks,
        max_reservation=configuration.max_reservation,
        default_duration=configuration.default_duration,
        priorities=configuration.priorities,
        configuration_read=outputs.qconf.keys() >= _ALWAYS_READ,
        context_allowed=configuration.context_allowed,
        set_aside=(*listing.set_aside, *offers.set_aside, *aside.reasons),
    )


def _unplaced(listing: Listing, known: frozenset[str] | None) -> bool:
    """Whether something runs on an unknown host: then no host may be disabled or removed (rule 1)."""
    labels = {name.partition(".")[0] for name in known or ()}
    return listing.unplaced or (
        known is not None
        and any(
            (one.jobs or one.used or one.reserved)
            and one.host.partition(".")[0] not in labels
            and not _is_probe_host(one.host)
            for one in listing.instances
        )
    )


def _occupied(host: ExecutionHost) -> ExecutionHost:
    instances = host.instances or (QueueInstance("", host.name, 0, 0, 0),)
    return replace(host, instances=tuple(replace(one, jobs=(*one.jobs, UNREADABLE)) for one in instances))


def _dated(job_categories: tuple[JobCategory, ...], now: float) -> tuple[JobCategory, ...]:
    """Jobs without a submission time count as submitted now; an earlier observation may know better. If every job has a
    time, the same object is returned: a plan recognises by its identity what it has judged.
    """
    if not any(map(attrgetter("undated"), job_categories)):
        return job_categories
    return tuple(
        replace(
            category,
            submitted=tuple(
                now if job in category.undated else at
                for job, at in zip(category.jobs, category.submitted, strict=True)
            ),
        )
        if category.undated
        else category
        for category in job_categories
    )


def _read_configuration(texts: Mapping[str, str], aside: Aside) -> _Configuration:
    def read(stem: str, reader: Callable[[str], _Value], default: _Value) -> _Value:
        if stem not in texts:
            return default
        try:
            return reader(texts[stem])
        except (ValueError, KeyError) as error:
            aside.put(f"qconf {stem}", error)
            return default

    def read_all(prefix: str, reader: Callable[[str], _Value]) -> list[_Value]:
        values = (read(stem, reader, None) for stem in sorted(texts) if stem.startswith(prefix))
        return [value for value in values if value is not None]

    def duration(stem: str, attribute: str, default: float) -> float:
        return read(stem, lambda text: read_duration(read_attributes(text).get(attribute, str(default))), default)

    def limit(stem: str, attribute: str, default: str) -> int | None:
        """A number of jobs; 0 means any."""
        return read(stem, lambda text: int(read_attributes(text).get(attribute, default)), int(default)) or None

    members = dict(read_all("shgrp_", read_host_group))
    return _Configuration(
        queues={queue.name: queue for queue in read_all("sq_", read_queue)},
        pes={pe.name: pe for pe in read_all("sp_", read_pe)},
        complexes=read_complexes(texts["sc"], aside) if "sc" in texts else COMPLEXES,
        groups=resolve_host_groups(members),
        containing_groups=containing_groups(members),
        execution_hosts=read("sel", lambda text: frozenset(name.lower() for name in read_names(text)), None),
        global_values=read(
            "se_global", lambda text: read_assignments(read_attributes(text).get("complex_values", "")), {}
        ),
        ckpts=read_names(texts.get("sckptl", "")),
        quotas=read_quotas(texts.get("srqs", ""), aside),
        access_lists=access_lists(texts),
        access={
            stem.removeprefix("se_").lower(): read(stem, read_access, Access())
            for stem in texts
            if stem.startswith("se_")
        },
        schedule_interval=duration("ssconf", "schedule_interval", 15.0),
        load_report_time=duration("sconf", "load_report_time", 40.0),
        max_unheard=duration("sconf", "max_unheard", 300.0),
        calendars={calendar.name: calendar for calendar in read_all("scal_", read_calendar)},
        max_user_jobs=limit("ssconf", "maxujobs", "0"),
        # As shipped no more than 2,000 tasks of an array run at once.
        max_array_tasks=limit("sconf", "max_aj_instances", "2000"),
        # As shipped it is 0: `-R y` then reserves nothing.
        max_reservation=read("ssconf", _max_reservation, None),
        default_duration=duration("ssconf", "default_duration", inf),
        priorities=read("ssconf", priorities_reported, default=True),
        context_allowed=read("sconf", lambda text: context_allowed(read_attributes(text)), default=True),
    )


def context_allowed(configuration: Mapping[str, str]) -> bool:
    """Whether `qalter -ac` may change jobs: with a server-side JSV, only if `jsv_allowed_mod` has `ac`."""
    verifier = configuration.get("jsv_url", "").strip().lower()
    allowed = re.split(r"[\s,\\]+", configuration.get("jsv_allowed_mod", ""))
    return verifier in ("", "none") or "ac" in allowed


def _max_reservation(text: str) -> int | None:
    """None if the scheduler's configuration does not have it: an older one, or a record without it."""
    value = read_attributes(text).get("max_reservation")
    return None if value is None else int(value)


def _without_probe_hosts(read: _Configuration) -> _Configuration:
    """The configuration without probe hosts, which exist for moments while Grid Engine is asked about them."""

    def there(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if not _is_probe_host(name))

    def of_hosts(values: Mapping[str, _Value]) -> dict[str, _Value]:
        return {name: value for name, value in values.items() if not _is_probe_host(name)}

    queues = {
        name: replace(queue, hostlist=there(queue.hostlist), slots_by_host=of_hosts(queue.slots_by_host))
        for name, queue in read.queues.items()
    }
    groups = {name: there(hosts) for name, hosts in read.groups.items()}
    known = None if read.execution_hosts is None else frozenset(there(read.execution_hosts))
    return replace(read, queues=queues, groups=groups, execution_hosts=known)


def _with_access(host: ExecutionHost, access: Mapping[str, Access]) -> ExecutionHost:
    own = access.get(host.name)
    return replace(host, access=own) if own is not None and own.shown else host


def _is_probe_host(host: str) -> bool:
    return host.lower().startswith(PROBE_HOST_PREFIX)


def _merge_hosts(listing: Listing, offers: Offers, *, whole: bool) -> tuple[ExecutionHost, ...]:
    """Every host of either listing, in the order met. `whole`: there was a qhost, which shows the load reports."""
    instances: dict[str, dict[str, QueueInstance]] = {}
    for instance in (*listing.instances, *(i for offer in offers.hosts for i in offer.instances)):
        of_host = instances.setdefault(instance.host, {})
        known = of_host.get(instance.queue)
        of_host[instance.queue] = instance if known is None else _merge(known, instance)
    offered = {offer.name: offer for offer in offers.hosts}
    names = dict.fromkeys((*instances, *offered, *(name for name in sorted(offers.unread) if name)))
    return tuple(
        _host(
            name,
            tuple(instances.get(name, {}).values()),
            offered.get(name),
            listing,
            whole=whole,
            unread=not offers.unread.isdisjoint((name, "")),
        )
        for name in names
    )


def _merge(first: QueueInstance, second: QueueInstance) -> QueueInstance:
    """One queue instance as qstat and then qhost, moments apart, show it: it is occupied if either shows it occupied.

    Slots that only qhost shows as used were dispatched in between, to jobs that qstat shows as waiting. If qstat's own
    jobs there could not be read, that is unknown.
    """
    in_flight = max(second.used - first.used, 0)
    if in_flight and UNREADABLE in first.jobs:
        in_flight = 0
    states = first.states + "".join(letter for letter in second.states if letter not in first.states)
    return replace(
        first,
        slots=min(first.slots, second.slots),
        used=max(first.used, second.used),
        reserved=max(first.reserved, second.reserved),
        states=states,
        jobs=first.jobs or second.jobs,
        in_flight=in_flight,
    )


def _host(
    name: str,
    instances: tuple[QueueInstance, ...],
    offer: HostOffer | None,
    listing: Listing,
    *,
    whole: bool,
    unread: bool = False,
) -> ExecutionHost:
    unheard = any("u" in instance.states for instance in instances)
    if offer is None:
        resources = listing.resources.get(name, {})
        if unread:  # qhost lists it in a form that cannot be read: it counts neither as silent nor as empty
            whole = False
            instances = instances or (QueueInstance("", name, 0, 0, 0),)
            instances = tuple(replace(one, jobs=(*one.jobs, UNREADABLE)) for one in instances)
        return ExecutionHost(
            name,
            instances,
            load=resources.get("hl", {}),
            consumables=resources.get("hc", {}),
            fixed=resources.get("hf", {}),
            heard=not whole and not unheard,
        )
    return ExecutionHost(
        name,
        instances,
        load=offer.load,
        consumables=offer.consumables,
        fixed=offer.fixed,
        heard=offer.reports and not unheard,
    )


def _refuse_emptiness(
    listing: Listing, qhost: bytes | None, hosts: tuple[ExecutionHost, ...], configuration: _Configuration
) -> None:
    """Raise if a listing is empty although the configuration says that something must be there."""
    known = configuration.execution_hosts
    serving = {
        host
        for queue in configuration.queues.values()
        for host in resolve_hosts(queue.hostlist, configuration.groups)
        if known is None or host in known
    }
    if serving and not listing.instances:
        raise GridEngineNotObservable(
            f"qstat shows no queue instance, yet the queues have {len(serving)} hosts "
            f"({', '.join(sorted(serving)[:3])}): this empty observation cannot be right, so nothing was "
            "decided; run `qstat -f` by hand on this host"
        )
    if known and qhost is not None and not hosts:
        raise GridEngineNotObservable(
            f"qhost shows no host, yet `qconf -sel` names {len(known)}: this empty observation cannot be right, "
            "so nothing was decided; run `qhost` by hand on this host"
        )


def _execution_hosts(configuration: _Configuration, hosts: tuple[ExecutionHost, ...]) -> frozenset[str]:
    if configuration.execution_hosts is not None:
        return configuration.execution_hosts
    return frozenset(host.name for host in hosts)


def _queues_met(instances: Iterable[QueueInstance]) -> dict[str, Queue]:
    """Queues as their instances show them: slots by host, the largest as default."""
    slots: dict[str, dict[str, int]] = {}
    for instance in instances:
        slots.setdefault(instance.queue, {})[instance.host] = instance.slots
    return {
        name: Queue(name=name, hostlist=tuple(by_host), slots=max(by_host.values()), slots_by_host=by_host)
        for name, by_host in slots.items()
    }


def _pes_met(
    queues: Mapping[str, Queue], job_categories: tuple[JobCategory, ...], *, asked: bool
) -> dict[str, ParallelEnvironment]:
    """PEs known by name only: those in queues and, if no queue is described (`asked`), those that jobs request."""
    lists = (each for queue in queues.values() for each in (queue.pe_list, *queue.pe_list_by_host.values()))
    names = {name for each in lists for name in each}
    if asked:
        names |= {
            category.ask.pe
            for category in job_categories
            if category.ask.pe and not set(category.ask.pe) & set("*?[]|&!()")
        }
    return {name: ParallelEnvironment(name, _PLENTY, "$pe_slots" if name == "local" else "$fill_up") for name in names}


def _details(answer: bytes | None, listing: Listing, now: float, aside: Aside) -> Mapping[int, JobDetail]:
    if answer is None:
        return {}
    unscheduled = {
        number for category in listing.job_categories if category.ask.unscheduled for number in category.jobs
    }
    try:
        return read_details(answer, Clock(listing.zone), now, unscheduled)
    except ValueError as error:
        aside.put("qstat -j", error)
        return {}
