"""Asks the scheduler why a waiting job does not start: its messages (`qstat -j`), and `qalter -w p` and `-w v`.

`qalter -w p` judges the cluster as it is now and ignores reservations; `-w v` judges it as if it were empty. The
messages are those of the last scheduler run, if `schedd_job_info` allows them. Nothing here changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from autoscaler.core.model.evidence import Answer, KeptBy, SchedulerSays
from autoscaler.errors import AutoscalerError
from autoscaler.process import Runner
from autoscaler.sge.configuration import run
from autoscaler.sge.probe_hosts import verdicts

TIMEOUT = 3.0
"""Seconds for each command: the pass goes on without an answer."""
WORDS = 300
"""The most characters of what is told."""
_MESSAGE = re.compile(
    rb"<MES_job_number_list>(.*?)</MES_job_number_list>.*?<MES_message>(.*?)</MES_message>", re.DOTALL
)
_NUMBER = re.compile(rb"<ULNG_value>\s*(\d+)\s*</ULNG_value>")
_JOB = re.compile(r"^Job \d+ |^\(-l [^)]*\) ")
_QUOTA = re.compile(r'exceeds limit "([^"]*)"')
_OF_HOST = re.compile(r'(?:at|on) host "|in queue "[^"]*@|queue instance "')
_EVERYWHERE = re.compile(r"\bgc:|globally|global host|\bglobal\b")
_FULL = re.compile(r"dropped because it is full|All queues dropped because of overload or full")
_TRANSIENT = re.compile(r"overload|temporarily not available|is disabled|is suspended|in error state")
_OF_PE = re.compile(r"in PE \"")


def ask_scheduler(runner: Runner, jobs: Sequence[int], now: float) -> dict[int, SchedulerSays]:
    """What the scheduler says of each of these jobs. A job about which nothing can be learnt has an answer, too. It is
    asked about each by itself: one that it judges for a minute must not leave the others without an answer.
    """
    found = {}
    for job in jobs:
        messages = messages_in(_said(runner, "qstat", "-j", str(job), "-xml").encode("utf-8", "surrogateescape"))
        present = verdicts([job], _said(runner, "qalter", "-w", "p", str(job)))
        # What took too long on the hosts that are there takes as long on empty ones.
        answered = present[job][0] is not Answer.NONE
        empty = verdicts([job], _said(runner, "qalter", "-w", "v", str(job)) if answered else "")
        now_, ever = present[job][0], empty[job][0]
        sentences = messages.get(job, []) or [
            part for part in present[job][1].split("; ") if "verification" not in part
        ]
        kept_by = kept_by_of(sentences, now_, ever)
        found[job] = SchedulerSays(job, now, kept_by, _told(sentences, now_))
    return found


def messages_in(answer: bytes) -> dict[int, list[str]]:
    """The scheduler's messages about single jobs, by job."""
    found: dict[int, list[str]] = {}
    for numbers, text in _MESSAGE.findall(answer):
        message = unescape(text.decode("utf-8", "replace")).strip()
        for number in _NUMBER.findall(numbers):
            found.setdefault(int(number), []).append(message)
    return found


def kept_by_of(sentences: Sequence[str], present: Answer, empty: Answer) -> KeptBy:
    """What keeps a job from starting. Of several causes one that no host lifts decides."""
    quotas = [found[1] for sentence in sentences if (found := _QUOTA.search(sentence))]
    # The subject of a quota: user/project/pe/queue/host/. Without a host, or without anything, no other host helps.
    if any(len(parts := quota.split("/")) < 5 or not parts[4] for quota in quotas):
        return KeptBy.ALL
    telling = [one for one in sentences if not _FULL.search(one) and not _OF_PE.search(one)]
    if any(_EVERYWHERE.search(one) for one in telling):
        return KeptBy.ALL
    if any(_TRANSIENT.search(one) for one in telling):
        return KeptBy.UNKNOWN
    if telling and all(_OF_HOST.search(one) or _QUOTA.search(one) for one in telling):
        return KeptBy.HOSTS
    if present is Answer.UNSATISFIABLE and empty is Answer.SATISFIABLE and not telling:
        return KeptBy.HOSTS
    return KeptBy.NOTHING if present is Answer.SATISFIABLE and not telling else KeptBy.UNKNOWN


def _told(sentences: Sequence[str], present: Answer) -> str:
    words = "; ".join(dict.fromkeys(_JOB.sub("", sentence) for sentence in sentences))
    if not words:
        words = (
            "it could start now (qalter -w p), and gives no cause"
            if present is Answer.SATISFIABLE
            else "it gives no cause"
        )
    return words if len(words) <= WORDS else f"{words[: WORDS - 1]}…"


def _said(runner: Runner, *argv: str) -> str:
    """The output of a command; '' if it failed."""
    try:
        done = run(runner, argv, TIMEOUT)
    except AutoscalerError:
        return ""
    return (done.stdout + done.stderr if argv[0] == "qalter" else done.stdout).decode("utf-8", "replace")
