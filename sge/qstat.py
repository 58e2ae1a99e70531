"""`qstat -u '*' -r -f -xml`: the jobs in each queue instance, and the waiting ones.

A listing that failed as a whole (cut short, empty, another root) raises; an element in it that cannot be understood is
set aside. Without -f running jobs stand beside each other and name their queue instance; both layouts are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cache
from types import MappingProxyType

from autoscaler.core.model.cluster import HostJob, JobCategory, QueueInstance
from autoscaler.core.model.reasons import Reason
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.job_categories import UNREADABLE, JobReader
from autoscaler.sge.known_jobs import KnownJobs, Placed
from autoscaler.sge.markup import Aside, clean, document_in, is_foreign
from autoscaler.sge.units import Clock

# Without -f qstat shows a parallel job in its master queue instance only, and its other hosts look idle.
COMMAND = ("qstat", "-u", "*", "-s", "a", "-r", "-f", "-xml")
"""`-s a` overrides what a site's or user's sge_qstat hides, as `-s r` in the example of sge_qstat(5)."""
_SHOWN = "qstat -u '*' -r -f -xml"

_BLOCK = b"<Queue-List"
_BLOCK_END = b"</Queue-List>"
_SECTION = re.compile(rb"<queue_info\b[^<>]*?(/?)>")
_SECTION_END = re.compile(rb"</queue_info\s*>")
# Waiting jobs stand in a second `<job_info>` inside the first, which is the root.
_INNER = re.compile(rb"<job_info\b[^<>]*?(/?)>")
_INNER_END = b"</job_info"
_END = re.compile(rb"</job_info\s*>\s*\Z")
_RESOURCE = re.compile(rb"""<resource\s+name=["']([^"']*)["']\s+type=["'](\w+)["']\s*>([^<]*)</resource>""")
_COUNT = re.compile(r"[0-9]{1,9}")
_TAIL = 400


@dataclass(frozen=True, slots=True)
class Listing:
    """One output of qstat. `resources`: by host, further values of Queue-Lists: `hl` (arch among them), `hc`, `hf`."""

    zone: tzinfo
    """The zone in which its times were read."""
    instances: tuple[QueueInstance, ...]
    job_categories: tuple[JobCategory, ...]
    resources: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=lambda: MappingProxyType({}))
    set_aside: tuple[Reason, ...] = ()
    unplaced: bool = False
    """Whether it has a queue instance that may be busy on an unknown host."""


class ListingReader:
    """Reads one listing after the other, and of each only what the one before did not have. Its results equal those of
    `read_qstat`; categories whose jobs are the same are the same objects. Not for use by two threads.
    """

    def __init__(self) -> None:
        self._zone: tzinfo | None = None
        self._known = KnownJobs()

    def read(self, data: bytes, zone: tzinfo) -> Listing:
        """As `read_qstat`. After a listing that cannot be read the known jobs stay as they are."""
        if self._zone is None or zone != self._zone:
            self._zone, self._known = zone, KnownJobs()
        reader = JobReader(Clock(zone), Aside(), known=self._known)
        listing = _read(data, zone, reader)
        self._known = reader.known
        return listing


def read_qstat(data: bytes, zone: tzinfo, *, fast: bool = True) -> Listing:
    """Read a whole listing. Zone-less times are local to `zone`. Raises GridEngineNotObservable.

    `fast=False` reads every job the careful way, with the same result.
    """
    return _read(data, zone, JobReader(Clock(zone), Aside(), fast=fast))


def _read(data: bytes, zone: tzinfo, reader: JobReader) -> Listing:
    data = document_in(data, b"job_info", _SHOWN)
    queues, waiting = _sections(data)
    aside = reader.aside
    instances: list[QueueInstance] = []
    resources: dict[str, dict[str, dict[str, str]]] = {}
    loose: list[Placed] = []
    unplaced = False
    for begin, end, whole in _blocks(data, *queues):
        jobs, head = reader.read_running(data, begin, end)
        if not data.startswith(_BLOCK, begin):
            loose += jobs
            if head.strip():
                aside.put("queue_info", f"not understood: {head.strip()[:60]!r}")
                unplaced = True
            continue
        instance = _read_instance(head, jobs, whole, aside)
        if instance is not None:
            instances.append(instance)
            _gather_resources(head, resources.setdefault(instance.host, {}))
        else:
            unplaced = unplaced or bool(jobs) or not whole or not _free(head)
    loose += reader.read_waiting(data, *waiting)
    return Listing(
        zone=zone,
        instances=_with_loose(instances, loose),
        job_categories=reader.job_categories(),
        resources=resources,
        set_aside=aside.reasons,
        unplaced=unplaced or any(not split_instance(name)[1] for name, _ in loose),
    )


def _free(head: bytes) -> bool:
    """Whether a Queue-List says that no slot is used or reserved."""
    # An advance reservation shows 0 used slots; its own are in slots_resv.
    return _text(head, b"slots_used") == "0" and _text(head, b"slots_resv") in ("", "0")


def split_instance(name: str) -> tuple[str, str]:
    """Queue and host of `main.q@W1.example`; the host in lower case."""
    queue, _, host = name.partition("@")
    return queue, host.lower()


def _sections(data: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """The ranges of the queue instances and of the waiting jobs. Raises if the frame around them has a gap."""
    end = _END.search(data, max(len(data) - _TAIL, 0))
    opened = _SECTION.search(data)
    if end is None or opened is None:
        raise _gap("<queue_info>" if opened is None else "</job_info>")
    if opened[1]:
        queues = (opened.end(), opened.end())
        after = opened.end()
    else:
        closed = _SECTION_END.search(data, opened.end())
        if closed is None:
            raise _gap("</queue_info>")
        queues = (opened.end(), closed.start())
        after = closed.end()
    inner = _INNER.search(data, after, end.start())
    if inner is None:
        if data[after : end.start()].strip():
            raise _gap("the second <job_info>")
        return queues, (after, after)
    if not is_foreign(data, after, inner.start()):
        raise _gap("the second <job_info>")
    if inner[1]:
        return queues, (inner.end(), inner.end())
    stop = data.rfind(_INNER_END, inner.end(), end.start())
    if stop < 0 or not is_foreign(data, data.index(b">", stop) + 1, end.start()):
        raise _gap("the second </job_info>")
    return queues, (inner.end(), stop)


def _gap(what: str) -> GridEngineNotObservable:
    return GridEngineNotObservable(
        f"`{_SHOWN}` answered XML without {what}: a part of it is lost; nothing was decided on it; "
        "run it by hand on this host"
    )


def _blocks(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Stretches of queue_info: each Queue-List (whether it is whole), and text between them other than space."""
    at = begin
    while at < end:
        opened = data.find(_BLOCK, at, end)
        if opened < 0:
            opened = end
        if data[at:opened].strip():
            yield at, opened, True
        if opened == end:
            return
        following = data.find(_BLOCK, opened + len(_BLOCK), end)
        limit = end if following < 0 else following
        closed = data.find(_BLOCK_END, opened, limit)
        if closed < 0:
            yield opened, limit, False
            at = limit
        else:
            yield opened, closed, True
            at = closed + len(_BLOCK_END)


def _read_instance(head: bytes, jobs: list[Placed], whole: bool, aside: Aside) -> QueueInstance | None:
    """The queue instance of a Queue-List whose jobs were taken out."""
    queue, host = split_instance(_text(head, b"name"))
    what = f"queue instance {queue}@{host}" if host else "a queue instance"
    if not queue or not host:
        aside.put(what, f"its name cannot be read: {head.strip()[:60]!r}")
        return None
    present: tuple[HostJob, ...] = tuple(job for _, job in jobs)
    numbers = [_text(head, tag) for tag in (b"slots_total", b"slots_used", b"slots_resv")]
    readable = [_COUNT.fullmatch(number) is not None for number in numbers]
    if not whole or not all(readable[:2]) or (numbers[2] and not readable[2]):
        aside.put(what, "cut short or without slot counts: taken as occupied")
        present = (*present, UNREADABLE)
    total, used, reserved = (int(number) if good else 0 for number, good in zip(numbers, readable, strict=True))
    return QueueInstance(queue, host, total, used, reserved, _text(head, b"state"), present)


def _text(head: bytes, tag: bytes) -> str:
    found = _pattern(tag).search(head)
    return "" if found is None else clean(found[1]).decode().strip()


@cache
def _pattern(tag: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"<%b>([^<]*)</%b>" % (tag, tag))


def _gather_resources(head: bytes, resources: dict[str, dict[str, str]]) -> None:
    if arch := _text(head, b"arch"):
        resources.setdefault("hl", {})["arch"] = arch
    for name, kind, value in _RESOURCE.findall(head):
        resources.setdefault(kind.decode(), {})[clean(name).decode()] = clean(value).decode().strip()


def _with_loose(instances: list[QueueInstance], loose: list[Placed]) -> tuple[QueueInstance, ...]:
    """Give jobs that name their queue instance to it, making it if there is no Queue-List of it."""
    by_name = {(i.queue, i.host): i for i in instances}
    for name, job in loose:
        key = split_instance(name)
        known = by_name.get(key)
        if known is None:
            by_name[key] = QueueInstance(*key, slots=job.slots, used=job.slots, reserved=0, jobs=(job,))
        else:
            by_name[key] = _joined(known, job)
    return tuple(instance for (_, host), instance in by_name.items() if host)


def _joined(instance: QueueInstance, job: HostJob) -> QueueInstance:
    jobs = (*instance.jobs, job)
    used = max(instance.used, sum(j.slots for j in jobs))
    return QueueInstance(
        instance.queue, instance.host, max(instance.slots, used), used, instance.reserved, instance.states, jobs
    )
