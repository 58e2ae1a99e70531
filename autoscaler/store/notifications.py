"""Notifications of operators: which causes were reported, which messages wait to be sent, and the state of sending."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from autoscaler.core.notifications.due import Due, KnownCauses, Notification, gravity_of
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

log = logging.getLogger("autoscaler.store")

MOST_WAITING = 200
"""Bound of waiting messages; of those beyond it the least grave and then the oldest are dropped, which is counted."""

TABLES: Migration = (
    """
    CREATE TABLE notifications (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        at REAL NOT NULL,
        reason TEXT NOT NULL,
        passed INTEGER NOT NULL,
        owner TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE notification_state (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        known TEXT NOT NULL,
        upto INTEGER,
        delivered TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        failing_since REAL,
        next_at REAL NOT NULL,
        message TEXT NOT NULL,
        sent_at REAL,
        dropped INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO notification_state VALUES (1, '{\"watched\": {}}', NULL, '[]', 0, NULL, 0, '', NULL, 0)",
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of sending."""

    waiting: int = 0
    upto: int | None = None
    """Id of the last notification of a message that only some services have received; None: there is none."""
    newest: int | None = None
    """Id of the last notification that waits."""
    delivered: tuple[int, ...] = ()
    """Lines of the file of URLs whose services have received it."""
    attempts: int = 0
    """Failed attempts in a row."""
    failing_since: float | None = None
    next_at: float = 0.0
    message: str = ""
    """Why the last attempt failed."""
    sent_at: float | None = None
    """The time at which a message was last sent to all."""
    dropped: int = 0
    """Notifications that were given up."""


class NotificationTable(Table):
    """The tables above."""

    def known(self) -> KnownCauses:
        """The reported causes; none if they cannot be read: then present ones are reported once more."""
        row = self._database.row("SELECT known FROM notification_state")
        try:
            return KnownCauses() if row is None else encoding.read(row["known"], KnownCauses)
        except encoding.Unreadable as error:
            log.warning("the record of sent notifications cannot be read, so they may be sent again: %s", error)
            return KnownCauses()

    def keep(self, due: Due) -> None:
        """Store the causes that are known from now on, and the messages to be sent: both or neither."""
        with self._database.transaction():
            self._database.execute("UPDATE notification_state SET known = ?", (encoding.write(due.known),))
            for each in due.notifications:
                self._database.add("notifications", encoding.columns_of(each))
            rows = self._database.rows("SELECT id, kind, passed FROM notifications")
            kept = sorted(rows, key=lambda row: (row["passed"], gravity_of(row["kind"]), -row["id"]))
            dropped = len(kept[MOST_WAITING:])
            self._database.execute_many(
                "DELETE FROM notifications WHERE id = ?", [(row["id"],) for row in kept[MOST_WAITING:]]
            )
            if dropped:
                self._database.execute("UPDATE notification_state SET dropped = dropped + ?", (dropped,))

    def waiting(self, upto: int | None = None, after: int = 0) -> tuple[tuple[int, Notification], ...]:
        """With their ids, in their order. `upto`: none with a greater one. `after`: only those with a greater one."""
        rows = self._database.rows(
            "SELECT * FROM notifications WHERE (? IS NULL OR id <= ?) AND id > ? ORDER BY id", (upto, upto, after)
        )
        return tuple((row["id"], encoding.from_row(row, Notification)) for row in rows)

    def delivery(self) -> Delivery:
        row = self._database.row(
            "SELECT *, (SELECT count(*) FROM notifications) AS waiting,"
            " (SELECT max(id) FROM notifications) AS newest FROM notification_state"
        )
        return Delivery() if row is None else encoding.from_row(row, Delivery)

    def sent(self, upto: int, at: float, next_at: float) -> None:
        """All services have received the notifications up to this one."""
        self._end(upto, next_at, "sent_at = ?", at)

    def give_up(self, upto: int, next_at: float) -> None:
        """The notifications up to this one are not sent any more."""
        with self._database.transaction():
            row = self._database.row("SELECT count(*) FROM notifications WHERE id <= ?", (upto,))
            self._end(upto, next_at, "dropped = dropped + ?", 0 if row is None else row[0])

    def _end(self, upto: int, next_at: float, also: str, value: float) -> None:
        with self._database.transaction():
            self._database.execute("DELETE FROM notifications WHERE id <= ?", (upto,))
            self._database.execute(
                "UPDATE notification_state SET upto = NULL, delivered = '[]', attempts = 0, failing_since = NULL,"
                f" next_at = ?, message = '', {also}",
                (next_at, value),
            )

    def went_on(self, upto: int, delivered: tuple[int, ...]) -> None:
        """The services with all earlier notifications have those up to this one, too; the others wait for them."""
        self._database.execute("UPDATE notification_state SET upto = ?, delivered = ?", (upto, json.dumps(delivered)))

    def failed(self, upto: int, delivered: tuple[int, ...], message: str, at: float, next_at: float) -> None:
        """Store that some services have not received the notifications up to this one, and when to try again."""
        self._database.execute(
            "UPDATE notification_state SET upto = ?, delivered = ?, attempts = attempts + 1,"
            " failing_since = coalesce(failing_since, ?), next_at = ?, message = ?",
            (upto, json.dumps(delivered), at, next_at, message),
        )
