"""Access restrictions: reads the lists that a cell names, if any, and says which properties of jobs matter.

A cell whose queues, PEs, global host and quotas name neither an access list nor a project needs no further command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from autoscaler.core.demand.access import ckpt_matters, needs_of
from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import Access, AccessList, QuotaSet
from autoscaler.sge.membership import split_objects
from autoscaler.sge.qconf import (
    read_access,
    read_access_list,
    read_attributes,
    read_names,
    read_pe,
    read_queue,
    read_quotas,
)
from autoscaler.sge.qstat import Listing

HOSTS_AT_MOST = 50
"""This many hosts that we did not make are checked for lists of their own."""
_Value = TypeVar("_Value")
_RESERVED = re.compile(rb"""name=["']slots_resv["'][^>]*>\s*0*[1-9]""")

Show = Callable[..., str]
"""The output of `qconf` with these switches; '' if `may_be_empty` and there is none."""


def read_restrictions(
    texts: Mapping[str, str], show: Show, ours: Iterable[str], *, always: bool = False
) -> dict[str, str]:
    """The lists and hosts that are needed besides these texts of the configuration, by file stem. `ours`: names of
    hosts that carry no list because we made them. `always`: hosts are read although nothing else names a list.
    """
    accesses, quotas = list(_accesses(texts)), _quotas(texts)
    if not always and not any(access.shown for access in accesses) and not _lists_of(quotas):
        return {}
    found: dict[str, str] = {}
    made = {name.lower().partition(".")[0] for name in ours}
    hosts = [name for name in read_names(texts.get("sel", "")) if name.lower().partition(".")[0] not in made]
    for host in hosts[:HOSTS_AT_MOST]:
        if text := show("-se", host, may_be_empty=True):
            found[f"se_{host}"] = text
            accesses.append(read_access(text))
    named = {name for access in accesses for name in (*access.user_lists, *access.xuser_lists)}
    for text in _shown_lists(sorted(named | _lists_of(quotas)), show):
        found[f"su_{read_access_list(text).name}"] = text
    return found


def _shown_lists(names: list[str], show: Show) -> Iterator[str]:
    """Every list, by one command; if one of them does not exist, which a quota may name, that fails for all."""
    text = show("-su", ",".join(names), may_be_empty=True) if names else ""
    if text or len(names) < 2:
        yield from split_objects(text, "name")
        return
    for name in names:
        yield from split_objects(show("-su", name, may_be_empty=True), "name")


def needs(texts: Mapping[str, str], qhost: bytes, listing: Listing) -> Needs:
    """The properties of jobs that only `qstat -j` shows, and that matter here."""
    lists = _read_each(texts, "su_", read_access_list)
    reserved = _RESERVED.search(qhost) is not None or any(instance.reserved for instance in listing.instances)
    found = needs_of(
        _accesses(texts),
        _quotas(texts),
        {one.name: one for one in lists},
        reserved=reserved,
        ckpt=ckpt_matters(read_names(texts.get("sckptl", "")), _read_each(texts, "sq_", read_queue)),
    )
    running = sorted({job.number for instance in listing.instances for job in instance.jobs if job.number})
    return replace(found, running=tuple(running), priorities=priorities_reported(texts.get("ssconf", "")))


def priorities_reported(text: str) -> bool:
    """Whether `qstat` shows priorities of waiting jobs, from `qconf -ssconf`."""
    return read_attributes(text).get("report_pjob_tickets", "TRUE").strip().lower() not in ("false", "0")


def access_lists(texts: Mapping[str, str]) -> dict[str, AccessList]:
    """Every access list of a reading, by name."""
    return {one.name: one for one in _read_each(texts, "su_", read_access_list)}


def _accesses(texts: Mapping[str, str]) -> Iterable[Access]:
    for queue in _read_each(texts, "sq_", read_queue):
        yield queue.access
        yield from (Access(**values) for values in queue.access_by_host.values())
    yield from (pe.access for pe in _read_each(texts, "sp_", read_pe))
    yield from _read_each(texts, "se_", read_access)


def _quotas(texts: Mapping[str, str]) -> tuple[QuotaSet, ...]:
    try:
        return read_quotas(texts.get("srqs", ""))
    except ValueError:
        return ()


def _lists_of(quotas: Iterable[QuotaSet]) -> set[str]:
    users = (name.lstrip("!") for quota in quotas if quota.enabled for rule in quota.rules for name in rule.users or ())
    # In a quota `@name` is an access list; inside an access list it is a primary group.
    return {name.removeprefix("@") for name in users if name.startswith("@")}


def _read_each(texts: Mapping[str, str], prefix: str, reader: Callable[[str], _Value]) -> list[_Value]:
    """All that can be read; the rest is set aside where the cluster is made."""
    found: list[_Value] = []
    for stem in sorted(texts):
        if stem.startswith(prefix):
            try:
                found.append(reader(texts[stem]))
            except (ValueError, KeyError):
                continue
    return found
