"""Notifies a job's owner of its end: by a file beside the job's output, or by mail, as the settings say.

Everything known of an owner is the owner's own text. So a process with only the owner's rights writes the file, and
follows no link in the last place; a mail's address must look like one; and no failure here hinders the action. Root's
own jobs get no file: root writes to no path that somebody else may change.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from autoscaler.core.model.reasons import Reason
from autoscaler.errors import AutoscalerError
from autoscaler.plain_text import plain
from autoscaler.process import Runner
from autoscaler.report.waiting_cause import waiting_cause
from autoscaler.report.wording import text
from autoscaler.settings.process_settings import OwnerNotice
from autoscaler.sge.lookup import JobOwner, Lookup

TIMEOUT = 5.0
"""Seconds for one file or mail: a home on a server that hangs must not hold up the loop."""
_PLAIN_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+%=-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]")
_LONGEST_NAME = 100


class Owners(Protocol):
    """Notifies owners of jobs."""

    def notify(self, jobs: Sequence[str], what: str, reason: Reason) -> str:
        """Notify the owner of each job that it was `what` ("deleted", "held"), and why.

        Returns a sentence on the failures; '' if there were none. Raises nothing.
        """
        ...


class Nobody:
    """Owners are notified by the job's context alone."""

    def notify(self, jobs: Sequence[str], what: str, reason: Reason) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Notices:
    """Files or mails."""

    way: OwnerNotice
    lookup: Lookup
    runner: Runner

    def notify(self, jobs: Sequence[str], what: str, reason: Reason) -> str:
        if self.way is OwnerNotice.NONE:
            return ""
        numbers = dict.fromkeys(int(job.partition(".")[0]) for job in jobs)
        words = (self._notify_one(job, what, reason) for job in numbers)
        return "; ".join(
            f"the owner of {job} was not notified: {why}" for job, why in zip(numbers, words, strict=True) if why
        )

    def _notify_one(self, job: int, what: str, reason: Reason) -> str:
        try:
            owner = self.lookup.owner(job)
            if owner is None:
                return "the job is gone"
            if self.way is OwnerNotice.FILE:
                return self._write(owner, what, reason)
            return self._mail(owner, what, reason)
        except AutoscalerError as error:
            return str(error)

    # -- a file beside the output -------------------------------------------------------------------------------

    def _write(self, job: JobOwner, what: str, reason: Reason) -> str:
        try:
            account = pwd.getpwnam(job.owner)
        except (KeyError, ValueError):
            return "the owner has no account on this host"
        why = ""
        for path in notice_files(job, account.pw_dir):
            argv = as_owner(account, os.geteuid(), append_to(path))
            if argv is None:
                return "the owner is root" if account.pw_uid == 0 else "only root may write as the owner"
            why = self._run(argv, _letter(job, what, reason))
            if not why:
                break
        return why

    # -- a mail -------------------------------------------------------------------------------------------------

    def _mail(self, job: JobOwner, what: str, reason: Reason) -> str:
        mailer = self.lookup.mailer()
        if not mailer.startswith("/"):
            return "Grid Engine's configuration has no mailer (`qconf -sconf`)"
        addresses = [address for address in job.addresses or (job.owner,) if _ADDRESS.fullmatch(address)]
        if not addresses:
            return "no valid address"
        argv = (mailer, "-s", f"Job {job.job} was {what} by sge-autoscaler", *addresses)
        return self._run(argv, _letter(job, what, reason))

    def _run(self, argv: Sequence[str], letter: str) -> str:
        """Run a mailer or writer. Returns why it failed, or ''."""
        ended = self.runner(argv, timeout=TIMEOUT, stdin=letter.encode(), env=_PLAIN_ENVIRONMENT)
        return "" if ended.returncode == 0 else _last_line(ended.stderr) or f"{argv[0]} failed and said nothing"


def notice_files(job: JobOwner, home: str) -> tuple[str, ...]:
    """`<job name>.<job id>.autoscaler` beside the job's output: where `-o` says, else in `-cwd`, else at home.

    The path of `-o` may be a directory or a file, and only its owner may look: both are returned, in the order to be
    tried. Only safe characters of the job's name are kept: the notice is a file in that directory, whatever the job is
    called.
    """
    name = f"{_NOT_IN_NAMES.sub('_', job.name)[:_LONGEST_NAME] or 'job'}.{job.job}.autoscaler"
    # For a job without tasks, Grid Engine sets TASK_ID to `undefined`.
    variables = {"HOME": home, "USER": job.owner, "JOB_ID": str(job.job), "JOB_NAME": job.name, "TASK_ID": "undefined"}
    base = PurePosixPath(job.directory or home)
    output = _expanded(job.output.partition(":")[2] if _names_host(job.output) else job.output, variables)
    if output.startswith("~/"):
        output = f"{home}/{output[2:]}"
    places = (base / output, (base / output).parent) if output else (base,)
    return tuple(str(place / name) for place in places)


def _names_host(output: str) -> bool:
    """`host:path`, as `-o` may say."""
    host, colon, _ = output.partition(":")
    return bool(colon) and "/" not in host


def _expanded(path: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: variables.get(found[1], found[0]), path)


def append_to(path: str) -> tuple[str, ...]:
    """Append standard input to a file, made if missing; never through a link in its place, never into a pipe."""
    return ("dd", f"of={path}", "oflag=append,nofollow,nonblock", "conv=notrunc", "status=none")


def as_owner(account: pwd.struct_passwd, own_uid: int, argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """The same command with this account's rights alone; None if that is impossible, or the account is root's."""
    if account.pw_uid == 0:
        return None
    if account.pw_uid == own_uid:
        return argv
    if own_uid != 0:
        return None
    rights = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", "--no-new-privs")
    return ("setpriv", *rights, "--", *argv)


def _letter(job: JobOwner, what: str, reason: Reason) -> str:
    """Plain words; no line begins with text that a mail program might take for a command."""
    name = plain(" ".join(job.name.split()))[:_LONGEST_NAME]
    remedy = plain(waiting_cause(reason).owner_remedy)
    return f"Job {job.job} ({name}) was {what} by sge-autoscaler:\n  {plain(text(reason))}\n  What to do: {remedy}\n"


def _last_line(stderr: bytes) -> str:
    return next(iter(stderr.decode("utf-8", "replace").strip().splitlines()[-1:]), "")
