"""The meaning of Grid Engine's sentences for a command that changes something.

Exit codes do not show it: `qconf -purge` of a slot under reservation says "denied" and exits 0, `qmod -rj` of a job
that may not be restarted exits 0, and a command that had nothing to do exits 0 or 1. So every line is read. The texts
are those of 8.1.9, recorded in tests/sge/test_admin_messages.py.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class Meaning(Enum):
    """The meaning of one line about a requested change."""

    CHANGED = auto()
    ALREADY = auto()
    """It is as requested; nothing was done."""
    ABSENT = auto()
    """The host, queue, host group or job itself does not exist."""
    UNREACHABLE = auto()
    """The qmaster gave no answer."""
    REFUSED = auto()
    NOTE = auto()
    """Something else, which no decision uses."""


_PATTERNS: tuple[tuple[Meaning, re.Pattern[str]], ...] = tuple(
    (meaning, re.compile(pattern))
    for meaning, pattern in (
        (Meaning.UNREACHABLE, r"commlib error|unable to send message to qmaster|unable to read qmaster name"),
        (Meaning.UNREACHABLE, r"unable to contact qmaster|got send error|got read error|SGE_ROOT directory .* doesn't"),
        (Meaning.ALREADY, r'" already exists$|^configuration \S+ already exists$|^No modification because "'),
        (Meaning.ALREADY, r"is already in the specified state|is already in deletion$"),
        (Meaning.ALREADY, r'^".*" does not exist in "|^Attribute name \(".*"\) and/or value \(".*"\) not found'),
        (Meaning.ABSENT, r'^(denied: )?(execution host|exechost|submit host|administrative host) ".*" does not exist'),
        (Meaning.ABSENT, r'^denied: (cluster queue|host group|job) ".*" does not exist'),
        (Meaning.ABSENT, r'^job ".*" task ".*" does not exist'),
        (Meaning.ABSENT, r'^error: Cluster queue entry ".*" does not exist'),
        (Meaning.ABSENT, r'^invalid queue "|^invalid queue or job "|is not an execution host$'),
        (Meaning.REFUSED, r"^(error: )?denied|^error|^Unable to run job|you have no permission to"),
        (Meaning.REFUSED, r"where jobs are not rerunable| is not restartable$"),
        (Meaning.REFUSED, r"is still referenced in |^can't resolve hostname|^unable to resolve host|does not exist$"),
        (Meaning.CHANGED, r'^\S+ (added|modified|removed) ".*" (to|in|from) .*list$|added to .* host list$'),
        (Meaning.CHANGED, r"^\S+ changed state of |^modified (hold|context) of job"),
        (Meaning.CHANGED, r"has registered the job|has deleted job|forced the deletion of"),
        (Meaning.CHANGED, r"^(Pushed|Forced) rescheduling of "),
    )
)
"""In this order: a text with an exact meaning comes before one that merely begins with "denied"."""


def meaning(line: str) -> Meaning:
    """The meaning of one line of `qconf`, `qmod`, `qdel`, `qhold`, `qrls` or `qalter`."""
    return next((what for what, pattern in _PATTERNS if pattern.search(line)), Meaning.NOTE)


_TASK_APART = re.compile(r'job "(\d+)" task "(\d+)"')
_TASKS_FIRST = re.compile(r"job-array tasks (?P<tasks>\S+) of job (?P<job>\d+)")
_JOB = re.compile(r'(?:jobs?|job-array task)\s+"?(\d+(?:\.\d+)?)"?')


def job_named(line: str) -> str | None:
    """The job (`12`) or task (`12.3`) that a line is about; of several tasks their job."""
    if match := _TASK_APART.search(line):
        return f"{match[1]}.{match[2]}"
    if match := _TASKS_FIRST.search(line):
        return match["job"]
    return match[1] if (match := _JOB.search(line)) else None
