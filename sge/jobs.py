"""One `job_list` element of `qstat -r -xml`, read by expat: the careful way, right for every dialect met.

`autoscaler.sge.job_categories` reads most elements a faster way and comes here for each kind it has not met yet and for
all that it does not recognise.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.reasons import Code, because
from autoscaler.sge.markup import Malformed, parse, words
from autoscaler.sge.units import Clock, count_tasks, read_slot_range

_NAMES = re.compile(rb"<(JB_name|full_job_name)>.*?</\1>", re.DOTALL)
"""Names decide nothing, and users write them and Grid Engine escapes them wrongly: they are dropped before parsing."""

_ONCE = frozenset(
    {"JB_job_number", "JAT_prio", "JB_submission_time", "JAT_submission_time", "JAT_start_time", "tasks", "queue_name"}
)
"""Children that distinguish one job from another of its kind."""


_DIGITS = 18
"""Of a job's number."""


class Job(NamedTuple):
    """One element's values. `ask` is what it has in common with others; the rest is its own."""

    number: int
    tasks: str
    task_count: int
    slots: int
    """On this queue instance for a running job; the smallest request of a waiting one."""
    submitted: float | None
    started: float | None
    instance: str
    """`queue@host` if the element names it (listings without -f)."""
    ask: JobRequest
    plain: bool
    """No child occurs twice that may occur once: only then may a faster reading replace this one."""
    granted_pe: str = ""


def read_job(element: bytes, clock: Clock) -> Job:
    """Read one whole `<job_list …>…</job_list>`. Raises Malformed with why."""
    tree = parse(_NAMES.sub(b"", element))
    if tree.tag != "job_list":
        raise Malformed(f"<{tree.tag}> instead of <job_list>")
    first: dict[str, str] = {}
    plain = True
    for child in tree:
        if child.tag == "job_list":
            raise Malformed("one job_list inside another")
        if child.tag in first and child.tag in _ONCE:
            plain = False
        first.setdefault(child.tag, words(child))
    try:
        return _assemble(tree, first, clock, plain)
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(str(error)) from None


def _assemble(tree: Element, first: dict[str, str], clock: Clock, plain: bool) -> Job:
    number, state = first.get("JB_job_number", ""), first.get("state", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
        raise Malformed("a job without a number")
    if not state:
        raise Malformed("it has no state")
    tasks = first.get("tasks", "")
    slots = int(first.get("slots") or 0)
    pe, least, most = _requested_pe(tree, slots)
    ask = JobRequest(
        state=state,
        slots_min=least,
        slots_max=most,
        pe=pe,
        # The request is the element's text; `resource_contribution` is what it adds to the urgency.
        hard=_requests(tree, "hard_request"),
        master_hard=_requests(tree, "master_hard_request"),
        slave_hard=_requests(tree, "slave_hard_request"),
        # Where only the master task may be elsewhere, `master_queues` say where.
        queues=_names(tree, "hard_req_queue") or _names(tree, "slave_hard_req_queue"),
        master_queues=_names(tree, "master_hard_req_queue"),
        owner=first.get("JB_owner", ""),
        # 8.1.9 leaves out the project unless qstat has -ext.
        project=first.get("JB_project") or None,
        dependent=any(words(e) for tag in ("predecessor_jobs", "ad_predecessor_jobs") for e in tree.iter(tag)),
        array=bool(tasks),
        unscheduled=float(first.get("JAT_prio", "1").replace(",", ".") or 1) == 0,
        fault=because(Code.REQUESTS_UNREAD) if tree.get("requests") == "unread" else None,
    )
    return Job(
        number=int(number),
        tasks=tasks,
        task_count=count_tasks(tasks) if tasks else 1,
        slots=slots or least,
        # Open Cluster Scheduler 9.1 writes the second one for waiting jobs.
        submitted=_time(first.get("JB_submission_time") or first.get("JAT_submission_time"), clock),
        started=_time(first.get("JAT_start_time"), clock),
        instance=first.get("queue_name", ""),
        ask=ask,
        plain=plain,
        granted_pe=next((e.get("name") or "" for e in tree if e.tag.lower() == "granted_pe"), ""),
    )


def _requested_pe(tree: Element, slots: int) -> tuple[str | None, int, int]:
    """PE name, fewest and most slots. `slots` counts if there is no PE; a job requests at least one slot."""
    # Older releases write `<requested_PE>`.
    requested = next((e for e in tree if e.tag.lower() == "requested_pe"), None)
    if requested is None:
        return None, max(slots, 1), max(slots, 1)
    text = words(requested)
    least, most = read_slot_range(text) if text else (max(slots, 1), max(slots, 1))
    return requested.get("name") or "*", least, most


def _requests(tree: Element, tag: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({e.get("name", ""): words(e) for e in tree.iter(tag)}.items()))


def _names(tree: Element, tag: str) -> tuple[str, ...]:
    return tuple(name for e in tree.iter(tag) for name in words(e).split(",") if name)


def _time(text: str | None, clock: Clock) -> float | None:
    return clock.read(text.encode()) if text else None
