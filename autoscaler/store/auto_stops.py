"""Workers that asked whether they may stop, and the answers.

The listener stores the question, a pass answers it together with its plan, and the caller gets the stored answer. So a
caller that reads STOPS reads a durable answer, and a crash in between does not take it back. Only a person does, by
enabling the worker after that answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

TABLE: Migration = (
    """
    CREATE TABLE auto_stops (
        worker_id TEXT PRIMARY KEY,
        asked_at REAL NOT NULL,
        answered_at REAL,
        answer TEXT,
        reason TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
)

_OPEN = "(answered_at IS NULL OR answered_at < asked_at OR answer = 'stops')"


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a worker. `at`: the time of its observation, as Unix seconds."""

    worker_id: str
    at: float
    answer: AutoStopAnswer
    reason: Reason


class AutoStopTable(Table):
    """The table above: the last question and the last answer of every worker."""

    def ask(self, worker_id: str, at: float) -> None:
        """Store that a worker asks. A worker whose answer is STOPS keeps that answer."""
        self._database.execute(
            "INSERT INTO auto_stops (worker_id, asked_at) VALUES (?, ?) ON CONFLICT DO UPDATE"
            " SET asked_at = max(asked_at, excluded.asked_at) WHERE answer IS NOT 'stops'",
            (worker_id, at),
        )

    def open(self) -> frozenset[str]:
        """Workers whose last question has no answer, or whose answer is STOPS and that are not gone."""
        rows = self._database.rows(f"SELECT worker_id FROM auto_stops WHERE {_OPEN}")
        return frozenset(row["worker_id"] for row in rows)

    def answer(self, worker_id: str, answer: AutoStopAnswer, reason: Reason, at: float) -> None:
        """Store the answer of a plan that rests on an observation at `at`. STOPS is taken back only if a person has
        enabled the worker since.
        """
        kept = "" if reason.code is Code.ENABLED_BY_HAND else " AND answer IS NOT 'stops'"
        self._database.execute(
            f"UPDATE auto_stops SET answer = ?, reason = ?, answered_at = ? WHERE worker_id = ?{kept}",
            (answer.value, encoding.write(reason), at, worker_id),
        )

    def answer_all(self, answers: Mapping[str, tuple[AutoStopAnswer, Reason]], at: float) -> None:
        """All answers of one plan."""
        with self._database.transaction():
            for worker_id, (answer, reason) in sorted(answers.items()):
                self.answer(worker_id, answer, reason, at)

    def answered(self, worker_id: str, since: float) -> Answered | None:
        """The answer to a question asked at `since`. An answer from an earlier observation does not count, unless it is
        STOPS.
        """
        row = self._database.row(
            "SELECT * FROM auto_stops WHERE worker_id = ? AND (answered_at >= ? OR answer = 'stops')",
            (worker_id, since),
        )
        return None if row is None else encoding.from_row(row, Answered, at=row["answered_at"])

    def end(self, workers: Iterable[str]) -> None:
        """Forget the questions of workers that are gone."""
        self._database.execute_many("DELETE FROM auto_stops WHERE worker_id = ?", [(each,) for each in sorted(workers)])

    def forget(self, before: float) -> None:
        """Drop the answers of workers that stayed and last asked before this time."""
        self._database.execute(f"DELETE FROM auto_stops WHERE asked_at < ? AND NOT {_OPEN}", (before,))
