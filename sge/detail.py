"""`qstat -j id,id,… -xml`: properties of a waiting job that no listing shows (`-a`, `-tc`, `-now y`, `-ckpt`, rerun,
context).

Read by expressions, not by expat: the answer may hold `<unknown_jobs><> …`, which is no XML, and names and environments
of any bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from html import unescape

from autoscaler.core.model.cluster import JobDetail
from autoscaler.sge.markup import clean
from autoscaler.sge.units import LAST, Clock

_JOB = re.compile(rb"<JB_job_number>\s*([0-9]{1,18})\s*</JB_job_number>")
# The scheduler's messages, which follow a job, are about other jobs, too.
_END = re.compile(rb"<messages\b|<unknown_jobs\b|</djob_info\s*>")
_CONTEXT = re.compile(rb"<JB_context\b[^<>]*>(.*?)</JB_context\s*>", re.DOTALL)
# A variable without a value has no `<VA_value>` at all.
_VARIABLE = re.compile(rb"<VA_variable>([^<]*)</VA_variable>\s*(?:<VA_value>([^<]*)</VA_value>)?")
_NUMBERS = tuple(
    b"JB_" + name for name in b"execution_time ja_task_concurrency restart checkpoint_attr ar type".split()
)
_WORDS = (b"JB_group", b"JB_project", b"JB_account", b"JB_checkpoint_name")
"""The elements that are read. A record has these and no other: the rest has what users gave their jobs."""
_NUMBER_OF = {tag: re.compile(rb"<%b>\s*([0-9]{1,19})\s*</%b>" % (tag, tag)) for tag in _NUMBERS}
# Open Cluster Scheduler 9 prints `2026-11-22T09:00:00.000000`.
_NUMBER_OF[b"JB_execution_time"] = re.compile(
    rb"<JB_execution_time>\s*([0-9]{1,19}|[0-9]{4}-[0-9T:.-]{6,30})\s*</JB_execution_time>"
)
_WORD_OF = {tag: re.compile(rb"<%b>([^<]*)</%b>" % (tag, tag)) for tag in _WORDS}
MOST_CONTEXT = 4_000
"""Bytes of a context that are kept: the memory of every pass has those of all jobs, and users write what they like."""
_RERUN = {b"1": True, b"2": False}
"""`JB_restart`: 0 leaves it to the queue."""
_IMMEDIATE = 1
"""The bit of `JB_type` that stands for `-now y`."""
_RESTARTS = 16
"""The bit of `JB_checkpoint_attr` that stands for `r` in a checkpointing environment's `when`."""


def read_details(data: bytes, clock: Clock, now: float, unscheduled: Collection[int] = ()) -> dict[int, JobDetail]:
    """Details by job number; jobs that are not in the answer (gone meanwhile) are simply not in it.

    `unscheduled` are the jobs whose priority was zero in the listing of the same pass.
    """
    details: dict[int, JobDetail] = {}
    for number, block in _blocks(data):
        if number in details:
            continue
        start = _start(block, clock)
        concurrency = int(_value(block, b"JB_ja_task_concurrency") or b"0")
        details[number] = JobDetail(
            job=number,
            read_at=now,
            # A job without `-a`, `-tc` or `-ar` has 0 there.
            start_after=start or None,
            concurrency=concurrency or None,
            unscheduled=number in unscheduled,
            rerun=_RERUN.get(_value(block, b"JB_restart")),
            restarts=bool(int(_value(block, b"JB_checkpoint_attr") or b"0") & _RESTARTS),
            context=_read_context(block),
            group=_word(block, b"JB_group"),
            project=_word(block, b"JB_project"),
            reservation=int(_value(block, b"JB_ar") or b"0") or None,
            ckpt=_word(block, b"JB_checkpoint_name"),
            immediate=bool(int(_value(block, b"JB_type") or b"0") & _IMMEDIATE),
            account=_word(block, b"JB_account"),
        )
    return details


def only_read(data: bytes) -> bytes:
    """An answer with the elements that `read_details` reads and nothing else. What else `qstat -j` prints has the
    secrets of users: environments, arguments, whole command lines.
    """
    jobs = (b"<element>\n%b</element>\n" % b"".join(_elements(number, block)) for number, block in _blocks(data))
    return b"<detailed_job_info>\n<djob_info>\n%b</djob_info>\n</detailed_job_info>\n" % b"".join(jobs)


def _elements(number: int, block: bytes) -> Iterator[bytes]:
    yield b"<JB_job_number>%d</JB_job_number>\n" % number
    for tag in _NUMBERS:
        if value := _value(block, tag):
            yield b"<%b>%b</%b>\n" % (tag, value, tag)
    for tag in _WORDS:
        if text := _text(block, tag):
            yield b"<%b>%b</%b>\n" % (tag, text, tag)
    if found := _CONTEXT.search(block):
        yield b"<JB_context>%b</JB_context>\n" % b"".join(_pair(*pair) for pair in _VARIABLE.findall(found[1]))


def _pair(name: bytes, value: bytes) -> bytes:
    return b"<context_list><VA_variable>%b</VA_variable><VA_value>%b</VA_value></context_list>\n" % (name, value)


def _start(block: bytes, clock: Clock) -> float:
    """`-a` in seconds. A time beyond all calendars never comes: it becomes the last possible one."""
    try:
        return clock.read(_value(block, b"JB_execution_time") or b"0")
    except ValueError:
        return LAST


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Job number, which is its first field, and the rest of its answer."""
    found = list(_JOB.finditer(data))
    ends = [*(following.start() for following in found[1:]), len(data)]
    for this, end in zip(found, ends, strict=False):
        stop = _END.search(data, this.end(), end)
        yield int(this[1]), data[this.end() : stop.start() if stop else end]


def _value(block: bytes, tag: bytes) -> bytes:
    """The text of the first element of that name if it is a usable number, else b''."""
    found = _NUMBER_OF[tag].search(block)
    return b"" if found is None else found[1]


def _text(block: bytes, tag: bytes) -> bytes:
    """The text of the first element of that name as it is printed."""
    found = _WORD_OF[tag].search(block)
    return b"" if found is None else found[1]


def _word(block: bytes, tag: bytes) -> str:
    """The text of the first element of that name; '' if there is none."""
    return plain_text(_text(block, tag)).strip()


def _read_context(block: bytes) -> dict[str, str]:
    found = _CONTEXT.search(block)
    if found is None:
        return {}
    pairs, room = dict[str, str](), MOST_CONTEXT
    for name, value in _VARIABLE.findall(found[1]):
        room -= len(name) + len(value)
        if room < 0:
            break
        pairs[plain_text(name)] = plain_text(value)
    return pairs


def plain_text(text: bytes) -> str:
    """The text of an XML element, without entities and control characters."""
    return unescape(clean(text).decode())
