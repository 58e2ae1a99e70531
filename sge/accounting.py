"""Grid Engine's accounting file: what became of every start of a job. Read on from where the last observation ended.

The file grows by a line a start and is rotated by people; a missing, shrunken or replaced one is no error, and of a
long one only so many bytes are read at an observation. Its times of failed starts are 0, so a line is dated by when it
is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

MOST_BYTES = 1 << 20
"""Read at one observation: some 4,000 lines."""
OLD_NEWS = 8 * MOST_BYTES
"""What is further behind than this is skipped."""

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
"""What `qacct` prints beside the number (sge_status(5))."""

_HOST, _OWNER, _JOB, _FAILED, _FIELDS, _TASK = 1, 3, 5, 11, 13, 35


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job or of one of its tasks, as it ended."""

    host: str
    owner: str
    job: int
    failed: int
    """0: Grid Engine ran it, whatever it ended with."""
    task: int = 0
    """0: the job is no array."""

    @property
    def words(self) -> str:
        """`28 : changing to working directory`, as `qacct` prints it."""
        said = WORDS.get(self.failed)
        return f"{self.failed} : {said}" if said else str(self.failed)


def read_on(file: Path, offset: int | None, most: int = MOST_BYTES) -> tuple[int, tuple[Start, ...]]:
    """What was written after `offset`, and how far that goes. None: from now on, nothing of what was before.

    A file that is not there gives nothing. One that is shorter than it was has been rotated and is read from its
    beginning; a longer one under the same name goes on. Raises OSError where it is there and cannot be read.
    """
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return offset or 0, ()
    with opened:
        size = os.fstat(opened.fileno()).st_size
        if offset is None:
            return size, ()
        begin = offset if offset <= size else 0
        if size - begin > OLD_NEWS:
            begin = size - most
        opened.seek(begin)
        data = opened.read(most)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == most:
        end = most  # no line of Grid Engine's is as long; standing still before it would be for ever
    return begin + end, read_starts(data[:end])


@dataclass(frozen=True, slots=True)
class JobEnd:
    """One start of a job or task from its submission to its end. Times as Unix seconds; None: it never began."""

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

    @property
    def how(self) -> str:
        """How it ended, as people say it."""
        said = f"exit status {self.exit_status}"
        return said if not self.failed else f"{said}, failed: {WORDS.get(self.failed, f'code {self.failed}')}"


MOST_SEARCHED = 256 << 20
"""Bytes of the end of the file in which a job is looked for."""


def read_ends(file: Path, job: int, most: int = MOST_SEARCHED) -> tuple[JobEnd, ...]:
    """What the file says of a job, in the order written. Nothing where there is no file; raises OSError where it is
    there and cannot be read.
    """
    mark = f":{job}:".encode()
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return ()
    with opened:
        opened.seek(max(os.fstat(opened.fileno()).st_size - most, 0))
        found = [_end(line.decode("utf-8", "replace").rstrip("\n"), job) for line in opened if mark in line]
    return tuple(end for end in found if end is not None)


_QUEUE, _SUBMITTED, _STARTED, _ENDED, _EXIT, _SLOTS = 0, 8, 9, 10, 12, 34


def _end(line: str, job: int) -> JobEnd | None:
    fields, start = line.split(":"), _start(line)
    if start is None or start.job != job:
        return None
    try:
        submitted, began, ended = (_seconds(fields[at]) for at in (_SUBMITTED, _STARTED, _ENDED))
        slots = int(fields[_SLOTS]) if len(fields) > _SLOTS else 1
        status = int(fields[_EXIT])
    except ValueError:
        return None
    return JobEnd(
        fields[_QUEUE], start.host, start.task, submitted, began or None, ended or None, start.failed, status, slots
    )


def _seconds(text: str) -> float:
    """Epoch seconds; Univa writes milliseconds."""
    value = int(text)
    return value / 1000 if value > 10**11 else float(value)


def read_starts(data: bytes) -> tuple[Start, ...]:
    """Every line that is a record; comments, beginnings of lines that were cut off and the like are none."""
    found = (_start(line) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple(start for start in found if start is not None)


def _start(line: str) -> Start | None:
    fields = line.split(":")
    if len(fields) < _FIELDS or not (fields[_JOB].isdecimal() and fields[_FAILED].isdecimal()):
        return None
    task = int(fields[_TASK]) if len(fields) > _TASK and fields[_TASK].isdecimal() else 0
    return Start(fields[_HOST].lower(), fields[_OWNER], int(fields[_JOB]), int(fields[_FAILED]), task)
