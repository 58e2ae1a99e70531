"""Looks up facts right before a job is changed: the jobs that run and wait now, and how the job's owner is notified.

Both are questions about a few jobs, asked rarely; the listing for plans is read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC

from autoscaler.core.model.cluster import JobRequest, names_of
from autoscaler.errors import GridEngineNotObservable
from autoscaler.process import Runner
from autoscaler.sge.detail import plain_text
from autoscaler.sge.job_categories import UNREADABLE
from autoscaler.sge.messages import Meaning, meaning
from autoscaler.sge.qstat import COMMAND, read_qstat

TIMEOUT = 30.0

_MAIL = re.compile(rb"<MR_user>([^<]*)</MR_user>\s*(?:<MR_host>([^<]*)</MR_host>)?")
_NAMES = re.compile(
    rb"<JB_job_number>(\d{1,18})</JB_job_number>(?:(?!</job_list>).)*?<JB_name>([^<]*)</JB_name>", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class JobOwner:
    """A job's owner and output. Every text is the owner's own: it may contain anything."""

    job: int
    owner: str
    name: str = ""
    output: str = ""
    """`-o`: a file or directory, with pseudo variables as written; '' if not given."""
    directory: str = ""
    """`-cwd` or `-wd`; '' if not given: then output goes to the owner's home."""
    addresses: tuple[str, ...] = ()
    """`-M`."""


@dataclass(frozen=True, slots=True)
class JobsNow:
    """The jobs at this moment."""

    running: frozenset[int]
    """Those with a task on a host, in whatever state (also suspended, in transfer, being deleted)."""
    waiting: Mapping[str, JobRequest]
    """The request and state of each waiting one, by its name in commands: `12`, `12.3-9:2`."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Grid Engine for questions about single jobs."""

    runner: Runner
    timeout: float = TIMEOUT

    def jobs(self) -> JobsNow:
        """All jobs, in one observation. Raises GridEngineNotObservable: an incomplete one does not show that nothing
        runs.
        """
        listing = read_qstat(self._ask(*COMMAND), UTC)
        running = frozenset(job.number for instance in listing.instances for job in instance.jobs)
        if listing.set_aside or UNREADABLE.number in running:
            raise GridEngineNotObservable("qstat's list of jobs is incomplete, so no job is deleted or held")
        return JobsNow(
            running,
            {
                name: category.ask
                for category in listing.job_categories
                for job, tasks in zip(category.jobs, category.tasks, strict=True)
                for name in names_of(job, tasks)
            },
        )

    def names(self, owner: str = "*") -> Mapping[int, str]:
        """The name of each job that waits, held and failed ones included. Raises GridEngineNotObservable."""
        answer = self._ask("qstat", "-u", owner, "-s", "p", "-xml")
        return {int(job): plain_text(name) for job, name in _NAMES.findall(answer)}

    def owner(self, job: int) -> JobOwner | None:
        """None: there is no such job (any more). Raises GridEngineNotObservable."""
        answer = self._ask("qstat", "-j", str(job), "-xml")
        return read_owner(answer, job)

    def mailer(self) -> str:
        """The program with which Grid Engine sends mail; '' if none is configured."""
        answer = self._ask("qconf", "-sconf").decode("utf-8", "replace")
        found = re.search(r"(?m)^mailer\s+(\S+)", answer)
        return "" if found is None or found[1].lower() == "none" else found[1]

    def _ask(self, *argv: str) -> bytes:
        completed = self.runner(argv, timeout=self.timeout)
        output = completed.stderr.decode("utf-8", "replace").strip()
        if completed.returncode != 0 or Meaning.UNREACHABLE in map(meaning, output.splitlines()):
            raise GridEngineNotObservable(f"{' '.join(argv)} failed: {output or 'it printed nothing'}")
        return completed.stdout


def read_owner(answer: bytes, job: int) -> JobOwner | None:
    """The owner in the output of `qstat -j JOB -xml`; None if it does not have this job."""
    if _text(answer, b"JB_job_number") != str(job):
        return None
    return JobOwner(
        job=job,
        owner=_text(answer, b"JB_owner"),
        name=_text(answer, b"JB_job_name"),
        # `JB_stderr_path_list` has a PN_path as well.
        output=_text(_inner(answer, b"JB_stdout_path_list"), b"PN_path"),
        directory=_text(answer, b"JB_cwd"),
        addresses=tuple(
            f"{plain_text(user)}@{plain_text(host)}" if host else plain_text(user)
            for user, host in _MAIL.findall(_inner(answer, b"JB_mail_list"))
        ),
    )


def _inner(answer: bytes, tag: bytes) -> bytes:
    found = re.search(rb"<%b>(.*?)</%b>" % (tag, tag), answer, re.DOTALL)
    return b"" if found is None else found[1]


def _text(answer: bytes, tag: bytes) -> str:
    found = re.search(rb"<%b>([^<]*)</%b>" % (tag, tag), answer)
    return "" if found is None else plain_text(found[1])
