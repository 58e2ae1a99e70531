"""Notifies operators: keeps what is due after each pass, and sends it off the loop's thread, by a program of its own.

All waiting notifications go out as one message, so there is at most one in an interval. A message that could not be
sent is tried again, later each time, and given up after a day. Meanwhile services that have received everything so far
get new notifications.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import asdict, dataclass, field, replace
from datetime import date, tzinfo
from pathlib import Path

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.waits import doubled_wait
from autoscaler.core.notifications.causes import NotificationContext, Observed
from autoscaler.core.notifications.due import KnownCauses, Notification, notifications_due
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.deliver import PATIENCE, Message, Sent
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.errors import CommandError, SettingsError, StateNotKept
from autoscaler.plain_text import plain
from autoscaler.process import PythonProgram, Runner
from autoscaler.providers.interface import OLD_PRICES
from autoscaler.report.notifications import body, subject_line
from autoscaler.store.notifications import NotificationTable

FIRST_WAIT, LONGEST_WAIT = 30.0, 3600.0
"""Seconds until a message that could not be sent is tried again, doubled each time."""
GIVEN_UP_AFTER = 86_400.0
LONGEST_END = 5.0
"""Seconds that the end waits for a message that is under way; it is sent again after a restart."""
PRICES_HOLD = 3600.0
"""Seconds between two readings of the date of prices."""
PROGRAM = PythonProgram.module("autoscaler.engine.deliver")
_ENVIRONMENT = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
    | {each for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY") for each in (name, name.lower())}
)
"""The only variables of our environment that the program gets: no credentials of a cloud."""

log = logging.getLogger("autoscaler.notifications")


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """From the settings. A file of None: nobody is notified."""

    file: Path | None = None
    group: str | None = None
    resolved: bool = True
    interval: float = 60.0
    limit_after: float = 1800.0


@dataclass(slots=True)
class Notifications(PassListener):
    """One for the life of a process. The loop never waits for a service."""

    title = "notifications"

    table: NotificationTable
    runner: Runner
    cell: str
    settings: NotificationSettings
    clock: Callable[[], float]
    oldest_price: Callable[[], date | None] = lambda: None
    zone: tzinfo | None = None
    executor: Executor = on_thread
    _known: KnownCauses | None = None
    _prices: tuple[float, date | None] | None = None
    _sending: Future[None] | None = None
    _logged: str = ""
    _go_on_at: float = 0.0
    """The time at which services that are up to date may get new notifications while others are tried again."""
    _environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def passed(self, done: Pass) -> None:
        """Raises StateNotKept."""
        self.note(done.snapshot, done.plan)

    def note(self, snapshot: Snapshot, plan: Plan) -> None:
        """After a whole pass. Raises StateNotKept."""
        if self.settings.file is not None:
            self._keep(
                NotificationContext(
                    snapshot.now,
                    Observed(snapshot, plan),
                    oldest_price=self._oldest_price(snapshot.now),
                    limit_after=self.settings.limit_after,
                    old_after_days=OLD_PRICES,
                )
            )

    def failed(self, failure: FailedPass) -> None:
        """Raises nothing: the next pass finds again what is due."""
        if self.settings.file is None:
            return
        try:
            self._keep(NotificationContext(failure.at, unobserved=str(failure.error)))
        except StateNotKept as full:
            log.debug("due notifications cannot be stored: %s", full)

    def _keep(self, context: NotificationContext) -> None:
        known = self.table.known() if self._known is None else self._known
        due = notifications_due(known, context, resolved=self.settings.resolved)
        if due.known is not known or due.notifications:
            self.table.keep(due)
        self._known = due.known
        self._begin()

    def _oldest_price(self, now: float) -> date | None:
        if self._prices is None or now - self._prices[0] >= PRICES_HOLD:
            self._prices = now, self.oldest_price()
        return self._prices[1]

    # -- sending ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Send the waiting notifications, if it is time and no message is under way."""
        if self._sending is not None:
            if not self._sending.done():
                return
            if error := self._sending.exception():
                log.error("a notification could not be sent: %s", plain(str(error)))
            self._sending = None
        state, now = self.table.delivery(), self.clock()
        if not state.waiting:
            return
        if now >= state.next_at:
            self._sending = self.executor(self._send, "notifications")
        elif state.delivered and now >= self._go_on_at and (state.newest or 0) > (state.upto or 0):
            self._sending = self.executor(self._go_on, "notifications")

    def _message(self, file: Path, notifications: Sequence[Notification]) -> Message:
        title, words = subject_line(self.cell, notifications), body(notifications, self.zone)
        return Message(str(file.absolute()), title, words, self.settings.group)

    def _go_on(self) -> None:
        """Send new notifications to the services that have all earlier ones. A service that fails is tried again with
        the others.
        """
        before, file = self.table.delivery(), self.settings.file
        waiting = self.table.waiting(after=before.upto or 0)
        if not waiting or file is None:
            return
        self._go_on_at = self.clock() + self.settings.interval
        message = replace(self._message(file, [each for _, each in waiting]), only=before.delivered)
        try:
            sent = call(self.runner, message, self._environ)
        except (CommandError, SettingsError) as error:
            self._log_once(plain(str(error)))
            return
        self.table.went_on(waiting[-1][0], tuple(each.line for each in sent if not each.why))

    def _send(self) -> None:
        """Send one message with all that waits, or again one that only some services have received."""
        before, file = self.table.delivery(), self.settings.file
        if file is None:
            return
        waiting = self.table.waiting(before.upto)
        if not waiting:  # so many were added since that these were dropped
            self.table.give_up(before.upto or 0, self.clock())
            return
        notifications, upto = [each for _, each in waiting], waiting[-1][0]
        message = replace(self._message(file, notifications), done=before.delivered)
        try:
            sent = call(self.runner, message, self._environ)
            failed = [each for each in sent if each.why]
            delivered = (*before.delivered, *(each.line for each in sent if not each.why))
            why = "; ".join(f"{each.service} (line {each.line}): {each.why}" for each in failed)
        except (CommandError, SettingsError) as error:
            delivered, why = before.delivered, plain(str(error))
        now = self.clock()
        if not why:
            self.table.sent(upto, now, now + self.settings.interval)
            self._log_once("")
        elif before.failing_since is not None and now - before.failing_since >= GIVEN_UP_AFTER:
            self.table.give_up(upto, now + self.settings.interval)
            log.error("%d notifications are given up after a day: %s", len(notifications), why)
        else:
            pause = doubled_wait(before.attempts + 1, FIRST_WAIT, LONGEST_WAIT)
            self.table.failed(upto, delivered, why, now, now + pause)
            self._go_on_at = now + self.settings.interval
            self._log_once(why)

    def _log_once(self, why: str) -> None:
        """Log it. The same words in several attempts are logged once."""
        if why and why != self._logged:
            log.warning("notifications cannot be sent, and are tried again later: %s", why)
        if self._logged and not why:
            log.info("notifications are sent again")
        self._logged = why

    def close(self) -> None:
        """Wait briefly for a message that is under way."""
        if self._sending is not None:
            wait_for([self._sending], LONGEST_END)


def unusable_services(settings: NotificationSettings, runner: Runner, environ: Mapping[str, str]) -> list[str]:
    """Errors in the file of services and in each of its lines, as far as they show without sending a message."""
    if settings.file is None:
        return []
    try:
        found = call(runner, Message(str(settings.file.absolute()), "", "", settings.group, send=False), environ)
    except (CommandError, SettingsError) as error:
        return [str(error)]
    return [f"line {each.line} of {settings.file}, {each.service}: {each.why}" for each in found if each.why]


def call(runner: Runner, message: Message, environ: Mapping[str, str]) -> Sequence[Sent]:
    """Have the program send it; returns the result of each URL. Raises CommandError, SettingsError."""
    environment = {name: value for name, value in environ.items() if name in _ENVIRONMENT or name.startswith("LC_")}
    stdin = json.dumps(asdict(message)).encode()
    done = PROGRAM.run(runner, timeout=PATIENCE + 20.0, stdin=stdin, env=environment)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SettingsError(lines[-1] if lines else f"the program that sends them ended with {done.returncode}")
    return [Sent(**each) for each in json.loads(done.stdout)]
