"""Grid Engine's accounting file: the result of every start of a job. Each observation reads on where the last one
ended.

It is `accounting`, with fields between colons, or `accounting.jsonl`, with an object a line (Open Cluster Scheduler
from 9 on, unless `reporting_params` has `old_accounting=true`). After a change of release both are there. The file
grows by a line a start and is rotated by people; a missing, shrunken or replaced one is no error, and of a long one
an observation reads a limited number of bytes. The times of failed starts are 0, so a line gets the time at which it
is read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from autoscaler.sge.accounting_category import fields_of
from autoscaler.sge.units import epoch_seconds

MOST_BYTES = 1 << 20
"""Bytes read at one observation: some 4,000 lines."""
OLD_NEWS = 8 * MOST_BYTES
"""If more bytes than this are unread, only the newest of one observation are read."""

WORDS: Mapping[int, str] = MappingProxyType(
    {
        1: "assumedly before job",
        3: "before writing config",
        4: "before writing PID",
        6: "setting processor set",
        7: "before prolog",
        8: "in prolog",
        9: "before pestart",
        10: "in pestart",
        11: "before job",
        12: "before pestop",
        13: "in pestop",
        14: "before epilog",
        15: "in epilog",
        16: "releasing processor set",
        17: "through signal",
        18: "shepherd returned error",
        19: "before writing exit_status",
        20: "found unexpected error file",
        21: "in recognizing job",
        24: "migrating (checkpointing jobs)",
        25: "rescheduling",
        26: "opening output file",
        27: "searching requested shell",
        28: "changing to working directory",
        29: "AFS setup",
        30: "application error returned",
        31: "accessing sgepasswd file",
        32: "entry is missing in password file",
        33: "wrong password",
        34: "communicating with Grid Engine Helper Service",
        35: "before job in Grid Engine Helper Service",
        36: "checking configured daemons",
        37: "qmaster enforced h_rt, h_cpu, or h_vmem limit",
        38: "adding supplementary group",
        100: "assumedly after job",
    }
)
"""The text of `qacct` for each number (sge_status(5))."""

AGAIN = (24, 25)
"""Starts after which the job waits again: it was migrated or rescheduled."""
AFTER_JOB = range(12, 17)
"""Failures after the job had ended: of its parallel environment, its epilog, its processors."""
_FIELDS = 13
"""Fields between colons, at least."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job or of one of its tasks, as it ended."""

    host: str
    owner: str
    job: int
    failed: int
    """0: Grid Engine ran it, whatever its exit status."""
    task: int = 0
    """0: the job is no array."""

    @property
    def words(self) -> str:
        """`28 : changing to working directory`, as `qacct` prints it."""
        words = WORDS.get(self.failed)
        return f"{self.failed} : {words}" if words else str(self.failed)


def files_of(file: Path) -> tuple[Path, Path]:
    """`accounting` and the file of objects beside it; either may be missing."""
    return file, file.with_name(f"{file.name}.jsonl")


def written_last(file: Path) -> Path:
    """The file of the two that Grid Engine writes to: the one that changed last."""

    def changed(each: Path) -> int:
        try:
            return each.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    return max(files_of(file), key=changed)


def read_on(file: Path, offset: int | None, most: int = MOST_BYTES) -> tuple[int, tuple[Start, ...]]:
    """The starts that were written after `offset`, and the new offset. None: skip all that was written so far.

    A missing file gives nothing. One that is shorter than before has been rotated and is read from its beginning; a
    longer one under the same name goes on. Raises OSError if it exists and cannot be read.
    """
    end, data = _news(file, offset, most)
    return end, read_starts(data)


def _news(file: Path, offset: int | None, most: int) -> tuple[int, bytes]:
    """Whole lines that were written after `offset`, and how far they go."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return offset or 0, b""
    with opened:
        size = os.fstat(opened.fileno()).st_size
        if offset is None or offset == size:
            return size, b""
        begin = offset if offset <= size else 0
        if size - begin > OLD_NEWS:
            begin = size - most
        opened.seek(begin)
        data = opened.read(most)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == most:
        end = most  # no line of Grid Engine's is as long; stopping before it would be for ever
    return begin + end, data[:end]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """One line of accounting: a start of a job or task that is over. Times as Unix seconds; None: it never began."""

    queue: str
    host: str
    task: int
    """0: the job is no array."""
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    failed: int
    exit_status: int
    slots: int
    owner: str = ""
    job: int = 0
    group: str = ""
    project: str = ""
    department: str = ""
    account: str = ""
    part: bool = False
    """A task of a parallel job on one of its hosts: the job has a line of its own."""
    name: str = ""
    pe: str = ""
    """The parallel environment that it was granted."""
    category: str = ""
    """What it asked for, in the scheduler's words (`sge.accounting_category`)."""

    @property
    def ran(self) -> bool:
        """Whether the job itself ran: what failed after it, as an epilog, leaves no times of it either."""
        return self.started_at is not None or self.failed in AFTER_JOB

    @property
    def interrupted(self) -> bool:
        """Whether it ran for a while, and has to run again."""
        return self.failed in AGAIN

    @property
    def how(self) -> str:
        """How it ended, in plain words."""
        words = f"exit status {self.exit_status}"
        return words if not self.failed else f"{words}, failed: {WORDS.get(self.failed, f'code {self.failed}')}"


def read_on_ends(file: Path, offset: int | None, most: int = MOST_BYTES) -> tuple[int, tuple[JobEnd, ...]]:
    """As `read_on`, with times, places and results."""
    upto, data = _news(file, offset, most)
    return upto, tuple(ends_in(data.decode("utf-8", "replace").split("\n")))


def ends_in(lines: Iterable[str]) -> Iterator[JobEnd]:
    """The ends in all lines that are records with all of their times."""
    return (end for end in records_in(lines) if end is not None)


def records_in(lines: Iterable[str]) -> Iterator[JobEnd | None]:
    """The end in each line but comments and empty ones; None for one that is no record with all of its times."""
    return (_end(line) for line in lines if line.strip() and not line.startswith("#"))


MOST_SEARCHED = 64 << 20
"""Bytes at the end of the file that are searched for a job if there is no index."""


def read_ends(file: Path, job: int, most: int = MOST_SEARCHED) -> tuple[JobEnd, ...]:
    """A job's records in `accounting` and the file of objects beside it, in the order written. Empty if there is no
    file; raises OSError if one exists and cannot be read.
    """
    found: list[JobEnd] = []
    for each in files_of(file):
        try:
            opened = each.open("rb")
        except FileNotFoundError:
            continue
        with opened:
            opened.seek(max(os.fstat(opened.fileno()).st_size - most, 0))
            found += ends_among(opened, job)
    return tuple(found)


def ends_among(lines: Iterable[bytes], job: int, task: int | None = None) -> Iterator[JobEnd]:
    """The records of a job, in their order. `task`: those of others may be left out unread."""
    mark = re.compile(rb':%d:|"job_number"\s*:\s*%d\b' % (job, job))
    digits = str(job).encode()  # faster to find
    for line in lines:
        if digits in line and mark.search(line) and (task is None or _may_be_of(line, task)):
            end = _end(line.decode("utf-8", "replace"))
            if end is not None and end.job == job:
                yield end


def _may_be_of(line: bytes, task: int) -> bool:
    """Checks one field, since reading all of them takes ten times as long."""
    if line.startswith(b"{"):
        return str(task).encode() in line
    words = line.split(b":", _TASK_FIELD + 1)
    return words[_TASK_FIELD : _TASK_FIELD + 1] == [str(task).encode()]


_JOB_FIELD, _TASK_FIELD = 5, 35
_JOB_OBJECT = re.compile(rb'"job_number"\s*:\s*(\d+)')


def job_numbers(lines: Iterable[bytes]) -> set[int]:
    """The jobs of which these lines may be; whether one is a record shows when it is read."""
    found: set[bytes] = set()
    for line in lines:
        if line.startswith(b"{"):
            found.update(_JOB_OBJECT.findall(line))
        else:
            found.update(line.split(b":", _JOB_FIELD + 1)[_JOB_FIELD : _JOB_FIELD + 1])
    return {int(text) for text in found if text.isdigit() and len(text) <= _DIGITS}


_NAMES: Mapping[str, int] = MappingProxyType(
    {
        "qname": 0,
        "hostname": 1,
        "group": 2,
        "owner": 3,
        "job_name": 4,
        "job_number": 5,
        "account": 6,
        "submission_time": 8,
        "start_time": 9,
        "end_time": 10,
        "failed": 11,
        "exit_status": 12,
        "project": 31,
        "department": 32,
        "granted_pe": 33,
        "slots": 34,
        "task_number": 35,
        "category": 39,
        "pe_taskid": 41,
    }
)
"""Names of fields in a line of JSON, and their places between colons."""
_TIMES = ("submission_time", "start_time", "end_time")
_DIGITS = 19
_REQUESTED = frozenset({"job_name", "granted_pe", "category"})
_TEXTS = frozenset(
    {"qname", "hostname", "group", "owner", "account", "project", "department", "pe_taskid"} | _REQUESTED
)
_NEEDED = frozenset({"hostname", "owner", "job_number", "failed"})


def read_starts(data: bytes) -> tuple[Start, ...]:
    """Every line that is a record; comments and lines that were cut off are left out."""
    found = (_start(_record(line)) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple(start for start in found if start is not None)


def _record(line: str) -> Mapping[str, Any]:
    """The known fields of a line by name, numbers as such; empty if the line is no record."""
    if line.startswith("{"):
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            return {}
        fields = {name: parsed.get(name) for name in _NAMES}
    else:
        words = fields_of(line)
        fields = {name: words[at] for name, at in _NAMES.items() if at < len(words)} if len(words) >= _FIELDS else {}
        fields = {name: text if name in _TEXTS else _number(text) for name, text in fields.items()}
    known = {name: value for name, value in fields.items() if type(value) is (str if name in _TEXTS else int)}
    return known if known.keys() >= _NEEDED else {}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def _start(record: Mapping[str, Any]) -> Start | None:
    if not record or min(record["job_number"], record["failed"]) < 0:
        return None
    task = max(record.get("task_number", 0), 0)
    return Start(record["hostname"].lower(), record["owner"], record["job_number"], record["failed"], task)


def _end(line: str) -> JobEnd | None:
    record = _record(line.strip())
    start = _start(record)
    if start is None:
        return None
    try:
        submitted, began, ended = (epoch_seconds(record[name]) for name in _TIMES)
        status = record["exit_status"]
    except (KeyError, ValueError):
        return None
    return JobEnd(
        queue=record.get("qname", ""),
        host=start.host,
        task=start.task,
        submitted_at=submitted,
        started_at=began or None,
        ended_at=ended or None,
        failed=start.failed,
        exit_status=status,
        slots=record.get("slots", 1),
        owner=start.owner,
        job=start.job,
        group=record.get("group", ""),
        project=_named(record, "project"),
        department=_named(record, "department"),
        account=record.get("account", ""),
        part=bool(_named(record, "pe_taskid")),
        name=_named(record, "job_name"),
        pe=_named(record, "granted_pe"),
        category=_named(record, "category"),
    )


NO_PROJECT = "NONE"
"""The text in accounting for no project, or for no part of a parallel job."""


def _named(record: Mapping[str, Any], field: str) -> str:
    text = str(record.get(field, ""))
    return "" if text == NO_PROJECT else text
