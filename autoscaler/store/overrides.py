"""Operator overrides: commands of people, with who and when, until they are fulfilled or cancelled.

Commands append; the loop reads them and marks those that are done. Nothing here acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.model.overrides import Overrides
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

TABLE: Migration = (
    """
    CREATE TABLE overrides (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        verb TEXT NOT NULL,
        host TEXT NOT NULL DEFAULT '',
        ended_at REAL,
        ended_by TEXT NOT NULL DEFAULT '',
        effective_at REAL
    ) STRICT
    """,
    "CREATE UNIQUE INDEX overrides_in_force ON overrides(verb, host) WHERE ended_at IS NULL",
)


MOST = 10_000
"""This many ended overrides are kept, besides those whose time still matters."""
AUTOSCALER = "autoscaler"
"""Begins `ended_by` of an override that was fulfilled, not cancelled."""
MAY_COME = "; may still come: "
"""In `ended_by` of a stop: before the machines that no listing showed in time."""


class Verb(StrEnum):
    """The kinds of overrides."""

    PAUSE = "pause"
    RESUME = "resume"
    """Never in force: it is over as soon as it is given, and only its time matters."""
    RETRY = "retry"
    """Like RESUME."""
    KEEP = "keep"
    DRAIN = "drain"
    STOP_DRAIN = "stop-drain"
    STOP_NOW = "stop-now"
    LOG_LEVEL = "log-level"
    """Its level is stored in the place of a host."""


class LogLevel(StrEnum):
    """How much the running service prints."""

    VERBOSE = "verbose"
    """INFO, and each verdict that changes."""
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    SETTINGS = "settings"
    """The level of the settings: no override."""


@dataclass(frozen=True, slots=True)
class LevelInForce:
    """The level in force, and who set it."""

    level: LogLevel
    who: str


@dataclass(frozen=True, slots=True)
class OverrideRow:
    """One override in force."""

    verb: Verb
    host: str
    who: str
    at: float


class OverrideTable(Table):
    """The table of overrides."""

    def ask(self, verb: Verb, *, who: str, at: float, host: str = "") -> bool:
        """Put an override in force; returns whether it is new."""
        return self._database.add_new("overrides", {"at": at, "who": who, "verb": verb.value, "host": host})

    def end(self, verb: Verb, *, who: str, at: float, host: str = "") -> bool:
        """Cancel an override, or mark it as fulfilled; returns whether it was in force."""
        return bool(
            self._database.execute(
                "UPDATE overrides SET ended_at = ?, ended_by = ? WHERE verb = ? AND host = ? AND ended_at IS NULL",
                (at, who, verb.value, host),
            )
        )

    def resume(self, *, who: str, at: float) -> tuple[Verb, ...]:
        """End every pause and every stop; returns which there were. Their time also releases the circuit breaker."""
        with self._database.transaction():
            ended = tuple(
                verb for verb in (Verb.PAUSE, Verb.STOP_DRAIN, Verb.STOP_NOW) if self.end(verb, who=who, at=at)
            )
            self._note_time(Verb.RESUME, who, at)
        return ended

    def retry(self, *, who: str, at: float) -> None:
        """Try again all that failed before this time."""
        with self._database.transaction():
            self._note_time(Verb.RETRY, who, at)

    def set_log_level(self, level: LogLevel, *, who: str, at: float) -> bool:
        """Put a level in force in place of any other; returns whether that changes anything."""
        present = self.log_level()
        if (LogLevel.SETTINGS if present is None else present.level) is level:
            return False
        with self._database.transaction():
            if present is not None:
                self.end(Verb.LOG_LEVEL, who=who, at=at, host=present.level.value)
            if level is not LogLevel.SETTINGS:
                self.ask(Verb.LOG_LEVEL, who=who, at=at, host=level.value)
        return True

    def log_level(self) -> LevelInForce | None:
        """The level in force; None: settings decide."""
        row = self._database.row(
            "SELECT host, who FROM overrides WHERE verb = ? AND ended_at IS NULL", (Verb.LOG_LEVEL.value,)
        )
        return None if row is None else LevelInForce(LogLevel(row["host"]), row["who"])

    @property
    def resumed_at(self) -> float | None:
        """The time at which a person last resumed."""
        return self._last_time(Verb.RESUME)

    @property
    def retried_at(self) -> float | None:
        """The time of the last `retry`."""
        return self._last_time(Verb.RETRY)

    def _note_time(self, verb: Verb, who: str, at: float) -> None:
        """An override of which only the time matters."""
        self.ask(verb, who=who, at=at)
        self.end(verb, who=who, at=at)

    def _last_time(self, verb: Verb, pending_at: float = 0.0) -> float | None:
        """When the last command of this kind took effect. One that no pass has carried out yet takes effect at
        `pending_at`, whatever time it was given: it may have waited for a pass that was under way.
        """
        row = self._database.row(
            "SELECT at, effective_at FROM overrides WHERE verb = ? ORDER BY id DESC LIMIT 1", (verb.value,)
        )
        if row is None:
            return None
        return float(max(row["at"], pending_at) if row["effective_at"] is None else row["effective_at"])

    def took_effect(self, overrides: Overrides) -> None:
        """A plan that was made with these is accepted: the commands up to the last of them have taken effect."""
        for verb, at in ((Verb.RESUME, overrides.resumed_at), (Verb.RETRY, overrides.retried_at)):
            self._database.execute(
                "UPDATE overrides SET effective_at = ? WHERE verb = ? AND effective_at IS NULL AND id <= ?",
                (at, verb.value, overrides.last_command),
            )

    def fulfilled(self, verb: Verb) -> bool:
        """Whether the autoscaler itself ended the last override of this kind."""
        return self._ended_by(verb).startswith(AUTOSCALER)

    def may_come(self, verb: Verb) -> str:
        """What may still come after a stop of this kind that is fulfilled; '' if nothing."""
        return self._ended_by(verb).partition(MAY_COME)[2]

    def _ended_by(self, verb: Verb) -> str:
        row = self._database.row(
            "SELECT ended_by FROM overrides WHERE verb = ? ORDER BY id DESC LIMIT 1", (verb.value,)
        )
        return "" if row is None else str(row["ended_by"])

    @property
    def stopping_since(self) -> float | None:
        """The time of the first stop in force; None: there is none."""
        stops = [each.at for each in self.in_force() if each.verb in (Verb.STOP_DRAIN, Verb.STOP_NOW)]
        return min(stops, default=None)

    def ever(self, verb: Verb, host: str) -> bool:
        """Whether there has ever been such an override, also if it is fulfilled or cancelled."""
        return self._database.row("SELECT 1 FROM overrides WHERE verb = ? AND host = ?", (verb.value, host)) is not None

    def forget(self, before: float) -> None:
        """Drop those that ended before this time, and the oldest if there are too many. The last of each verb is kept,
        because it says when a person resumed or how a stop ended, and so is a drain of a caller's node that a person
        let serve after all.
        """
        self._database.execute(
            "DELETE FROM overrides WHERE ended_at IS NOT NULL"
            " AND (ended_at < ? OR id <= (SELECT id FROM overrides ORDER BY id DESC LIMIT 1 OFFSET ?))"
            " AND id NOT IN (SELECT max(id) FROM overrides GROUP BY verb)"
            " AND NOT (verb = ? AND host IN (SELECT worker_id FROM nodes WHERE worker_id IS NOT NULL))",
            (before, MOST, Verb.DRAIN.value),
        )

    def in_force(self) -> tuple[OverrideRow, ...]:
        rows = self._database.rows("SELECT * FROM overrides WHERE ended_at IS NULL ORDER BY id")
        return tuple(encoding.from_row(row, OverrideRow) for row in rows)

    def load(self, now: float = 0.0) -> Overrides:
        """As a plan has them. `stop-now` wins over `stop-drain`. `now`: of the pass that will carry them out, which is
        later than any other.
        """
        # First: a command that comes meanwhile may then take effect twice, but is never taken for carried out.
        row = self._database.row("SELECT max(id) AS last FROM overrides")
        return replace(
            overrides_from(self.in_force()),
            resumed_at=self._last_time(Verb.RESUME, now),
            retried_at=self._last_time(Verb.RETRY, now),
            last_command=0 if row is None else row["last"] or 0,
        )


def overrides_from(overrides: Iterable[OverrideRow]) -> Overrides:
    """The overrides in force, as the core's value."""
    by_verb: dict[Verb, list[OverrideRow]] = {verb: [] for verb in Verb}
    for override in overrides:
        by_verb[override.verb].append(override)
    pause, stop = by_verb[Verb.PAUSE], by_verb[Verb.STOP_NOW] or by_verb[Verb.STOP_DRAIN]
    return Overrides(
        paused=bool(pause),
        paused_by=pause[0].who if pause else "",
        stop="now" if by_verb[Verb.STOP_NOW] else "drain" if by_verb[Verb.STOP_DRAIN] else None,
        stopped_by=stop[0].who if stop else "",
        keep=frozenset(override.host for override in by_verb[Verb.KEEP]),
        drain=frozenset(override.host for override in by_verb[Verb.DRAIN]),
        # A host that is kept is not drained.
        asked_by={override.host: override.who for verb in (Verb.DRAIN, Verb.KEEP) for override in by_verb[verb]},
    )
