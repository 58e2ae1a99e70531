"""Planned actions and their results: plans, actions with outcomes, orders with every attempt, and failures.

A plan's rows are durable before its first outside call, an attempt's token before the provider gets it. After a crash
the next process requests the rows without an answer again; the states of `Order` are derived here and stored nowhere.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, get_args

from autoscaler.core.actions import Action, Enrol, JobAction, Launch, LaunchSet, Offer, Terminate
from autoscaler.core.model.fleet import Assignment, LaunchFailure, Order, OrderedFor, OrderState, RefusedEnd
from autoscaler.providers.interface import LaunchOrder
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

TABLES: Migration = (
    """
    CREATE TABLE plans (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE actions (
        id INTEGER PRIMARY KEY,
        plan INTEGER NOT NULL REFERENCES plans(id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        worker_id TEXT,
        host TEXT,
        order_id TEXT,
        action TEXT NOT NULL,
        ended_at REAL,
        result TEXT,
        message TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    "CREATE INDEX actions_by_host ON actions(host, id)",
    "CREATE INDEX actions_by_worker ON actions(worker_id, id)",
    "CREATE INDEX actions_by_order ON actions(order_id)",
    "CREATE INDEX actions_without_outcome ON actions(id) WHERE result IS NULL",
    """
    CREATE TABLE orders (
        id TEXT PRIMARY KEY,
        node_array TEXT NOT NULL,
        ordered_at REAL NOT NULL,
        candidates TEXT NOT NULL,
        closed_at REAL,
        message TEXT NOT NULL DEFAULT '',
        group_id TEXT NOT NULL DEFAULT '',
        nodes TEXT NOT NULL DEFAULT '[]',
        for_requests INTEGER NOT NULL DEFAULT 0,
        assignment TEXT NOT NULL DEFAULT '[]',
        ordered_for TEXT NOT NULL DEFAULT '[]'
    ) STRICT
    """,
    "CREATE INDEX orders_of_groups ON orders(id) WHERE group_id != ''",
    "CREATE INDEX orders_of_nodes ON orders(id) WHERE nodes != '[]'",
    """
    CREATE TABLE attempts (
        token TEXT PRIMARY KEY,
        order_id TEXT NOT NULL REFERENCES orders(id) ON DELETE CASCADE,
        candidate INTEGER NOT NULL,
        offer INTEGER NOT NULL DEFAULT 0,
        launch_order TEXT NOT NULL,
        sent_at REAL NOT NULL,
        answered_at REAL,
        ids TEXT NOT NULL DEFAULT '[]',
        message TEXT NOT NULL DEFAULT '',
        again_at REAL
    ) STRICT
    """,
    "CREATE INDEX attempts_by_order ON attempts(order_id, candidate)",
    """
    CREATE TABLE failures (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        bucket TEXT NOT NULL,
        kind TEXT NOT NULL,
        message TEXT NOT NULL,
        order_id TEXT NOT NULL,
        worker_id TEXT UNIQUE,
        retry_at REAL
    ) STRICT
    """,
)

_SHORT = "launch_order = json_set(launch_order, '$.boot_script', '', '$.key', '', '$.buckets', json('[]'))"
"""The request without what only a repetition to the provider needs: 13 kB a launch, with its secret."""


NO_ANSWER = "no answer; "
"""Begins what is kept of a request whose answer was read off a listing in part."""


class Result(StrEnum):
    """How an action ended."""

    DONE = "done"
    REFUSED = "refused"
    """Grid Engine or the provider refused; nothing is half done."""
    FAILED = "failed"
    """It failed, or its result is unknown; a later pass observes and decides again."""
    UNDER_WAY = "under way"
    """Off the loop's thread; its outcome is journalled when it comes."""
    NOT_BEGUN = "not begun"
    """The autoscaler was stopped before its turn."""
    INTERRUPTED = "interrupted"
    """The process died between plan and outcome."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one action."""

    action: Action
    result: Result
    message: str = ""


@dataclass(frozen=True, slots=True)
class Journalled:
    """An action that is durable in the journal, and may therefore begin."""

    id: int
    action: Action
    order_id: str | None = None
    """Of a launch."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One requested offer of an order. `answered_at` None: there was no answer, or it is still to come."""

    token: str
    candidate: int
    """Number of the set."""
    launch_order: LaunchOrder
    """The exact request, boot script included: clouds refuse the same token with another request. Once
    answered, or given up, it has neither boot script nor key nor buckets any more.
    """
    sent_at: float
    answered_at: float | None
    ids: tuple[str, ...]
    message: str = ""
    """Why there is no answer yet, or the answer."""
    again_at: float | None = None
    """The time of the next request, while there is no answer."""
    offer: int = 0
    """Number of the offer in its set."""


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """An order with all its attempts, oldest first."""

    id: str
    node_array: str
    ordered_at: float
    candidates: tuple[LaunchSet, ...]
    attempts: tuple[Attempt, ...]
    closed: bool
    """The order is closed: it is not requested again."""
    group_id: str = ""
    nodes: tuple[str, ...] = ()
    """Created nodes that its workers serve."""
    for_requests: bool = False
    """Whether it is for the shortfall of request sets."""
    assignment: Assignment = ()
    """The job categories that it is for."""
    ordered_for: tuple[OrderedFor, ...] = ()
    """The owners of their tasks."""

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """Number of the set and of the offer in it, of all that may be requested, in order."""
        return tuple(
            (number, offer) for number, each in enumerate(self.candidates) for offer in range(len(each.offers))
        )

    @property
    def cell(self) -> str:
        """The tag of its machines; '' as long as nothing was requested."""
        return self.attempts[-1].launch_order.cell if self.attempts else ""

    @property
    def never_answered(self) -> int:
        """How many machines may exist of a request that was given up without an answer, and were in no listing then."""
        attempt = self.attempts[-1] if self.attempts else None
        if attempt is None or not self.closed:
            return 0
        if attempt.answered_at is None:
            return attempt.launch_order.count
        return attempt.launch_order.count - len(attempt.ids) if attempt.message.startswith(NO_ANSWER) else 0

    @property
    def due(self) -> int:
        """Which of `steps` is being requested, or next: the first without an answer."""
        return sum(attempt.answered_at is not None for attempt in self.attempts)

    def ends_set(self, step: int) -> bool:
        """Whether this one of `steps` completes the requests of its set."""
        return self.steps[step][0] != (*self.steps, (-1, 0))[step + 1][0]

    def given(self, candidate: int) -> tuple[str, ...]:
        """Ids of all workers that a set has given so far."""
        return tuple(each for attempt in self.attempts if attempt.candidate == candidate for each in attempt.ids)

    def as_orders(self) -> tuple[Order, ...]:
        """The order as a plan has it: of the set that gave workers, or is being requested, one order for each offer
        that has brought workers or may still bring some.
        """
        asked = {(attempt.candidate, attempt.offer): attempt for attempt in self.attempts}
        number = self.attempts[-1].candidate if self.attempts else 0
        if not self.given(number):
            number = self.steps[min(self.due, len(self.steps) - 1)][0]
        orders: list[Order] = []
        nodes = self.nodes
        for place, offer in enumerate(self.candidates[number].offers):
            mine, nodes = nodes[: offer.count], nodes[offer.count :]
            attempt = asked.get((number, place))
            answered = attempt is not None and attempt.answered_at is not None
            if (attempt is not None and attempt.ids) or not (answered or self.closed):
                orders.append(self._order(offer, attempt, mine))
        return tuple(orders) or (self._order(self.candidates[number].offers[0], None, self.nodes),)

    def _order(self, offer: Offer, attempt: Attempt | None, nodes: tuple[str, ...]) -> Order:
        """An accepted order counts from its acceptance, and for the ids that were given."""
        ids = attempt.ids if attempt else ()
        waits = attempt is not None and attempt.answered_at is None and not self.closed
        return Order(
            id=self.id,
            node_array=self.node_array,
            type=offer.type,
            count=len(ids) or offer.count,
            ordered_at=(attempt.answered_at if ids and attempt else None) or self.ordered_at,
            state=OrderState.ACCEPTED if ids else OrderState.FAILED if self.closed else OrderState.SENT,
            bucket=offer.buckets[0].key,
            price_per_hour=offer.price_per_hour,
            ids=ids,
            group_id=self.group_id,
            nodes=nodes,
            for_requests=self.for_requests,
            message=attempt.message if waits and attempt else "",
            asked_again_at=attempt.again_at if waits and attempt else None,
            planned_at=self.ordered_at,
            assignment=self.assignment,
            ordered_for=self.ordered_for,
        )


class Journal(Table):
    """The tables above. Every method is one transaction, or part of the caller's."""

    def begin(
        self, actions: Sequence[Action], *, pass_number: int, at: float, new_id: Callable[[], str]
    ) -> tuple[Journalled, ...]:
        """Write down a plan's actions, and an order for each launch, before any of them begins."""
        if not actions:
            return ()
        with self._database.transaction():
            plan = self._database.add("plans", {"pass": pass_number, "at": at})
            return tuple(self._journalled(plan, action, at, new_id) for action in actions)

    def _journalled(self, plan: int, action: Action, at: float, new_id: Callable[[], str]) -> Journalled:
        order_id, written = None, action
        if isinstance(action, Launch):
            order_id, written = (
                new_id(),
                replace(action, assignment=(), ordered_for=()),
            )  # these stand once, with the order
            order = {
                "id": order_id,
                "node_array": action.node_array,
                "ordered_at": at,
                "candidates": encoding.write(action.candidates),
                "group_id": action.group_id,
                "nodes": encoding.write(action.nodes),
                "for_requests": action.for_requests,
                "assignment": encoding.write(action.assignment),
                "ordered_for": encoding.write(action.ordered_for),
            }
            self._database.add("orders", order)
        row = {
            "plan": plan,
            "kind": action.kind,
            "worker_id": getattr(action, "worker_id", None),
            "host": getattr(action, "host", None),
            "order_id": order_id,
            "action": encoding.write(written),
        }
        return Journalled(self._database.add("actions", row), action, order_id)

    def end(self, action_id: int, result: Result, message: str, at: float) -> None:
        """Write down an action's outcome."""
        self._database.execute(
            "UPDATE actions SET ended_at = ?, result = ?, message = ? WHERE id = ?",
            (at, result.value, message, action_id),
        )

    def end_launch(self, order_id: str, result: Result, message: str, at: float) -> Launch | None:
        """Write down a launch's outcome, which may come from a later process than the one that began it."""
        with self._database.transaction():
            self._database.execute(
                "UPDATE actions SET ended_at = ?, result = ?, message = ? WHERE order_id = ?",
                (at, result.value, message, order_id),
            )
            row = self._database.row("SELECT action FROM actions WHERE order_id = ?", (order_id,))
            return None if row is None else encoding.read(row["action"], Launch)

    def enrolment(self, worker_id: str) -> Enrol | None:
        """How a worker was last enrolled."""
        row = self._database.row(
            "SELECT action FROM actions WHERE worker_id = ? AND kind = ? ORDER BY id DESC LIMIT 1",
            (worker_id, Enrol.kind),
        )
        return None if row is None else encoding.read(row["action"], Enrol)

    def carried_out(self, kind: str, worker_id: str, planned_at: float) -> bool:
        """Whether the action of this kind of a plan of that time is known to have been done."""
        row = self._database.row(
            "SELECT 1 FROM actions JOIN plans ON plans.id = plan"
            " WHERE kind = ? AND worker_id = ? AND plans.at = ? AND result = ?",
            (kind, worker_id, planned_at, Result.DONE.value),
        )
        return row is not None

    def ended(self, worker_ids: Collection[str]) -> frozenset[str]:
        """Of these workers, those whose termination is known to have been done."""
        return frozenset(self.end_times(worker_ids))

    def end_times(self, worker_ids: Collection[str]) -> Mapping[str, float]:
        """Of these workers, when the first termination that was done was done."""
        rows = self._database.rows(
            "SELECT worker_id, min(ended_at) AS at FROM actions WHERE kind = ? AND result = ?"
            " AND worker_id IN (SELECT value FROM json_each(?)) GROUP BY worker_id",
            (Terminate.kind, Result.DONE.value, encoding.write(sorted(worker_ids))),
        )
        return {row["worker_id"]: row["at"] for row in rows}

    def plans_of_one_kind(self, since: float) -> list[tuple[str, int, float]]:
        """Of each plan since then that had actions of one kind, all of which were done: that kind, how many, and
        the seconds from the beginning of its pass to the last end.
        """
        rows = self._database.rows(
            "SELECT min(kind) AS kind, count(*) AS actions, max(ended_at) - plans.at AS seconds"
            " FROM actions JOIN plans ON plans.id = plan WHERE plans.at >= ?"
            " GROUP BY plan HAVING count(DISTINCT kind) = 1 AND sum(result IS ?) = count(*)",
            (since, Result.DONE.value),
        )
        return [(row["kind"], row["actions"], row["seconds"]) for row in rows]

    def unwritten(self, kind: str, planned_at: float) -> list[tuple[tuple[str, ...], bool]]:
        """The texts for jobs' contexts (actions of this kind) in a plan of that time that are not known to be written:
        the jobs of each command, and whether Grid Engine refused some of them.
        """
        rows = self._database.rows(
            "SELECT action, result FROM actions JOIN plans ON plans.id = plan"
            " WHERE kind = ? AND plans.at = ? AND result IS NOT ?",
            (kind, planned_at, Result.DONE.value),
        )
        return [(tuple(json.loads(row["action"])["jobs"]), row["result"] == Result.REFUSED) for row in rows]

    def sweep(self, at: float) -> int:
        """At start: actions that an earlier process left without an outcome were interrupted; open orders are requested
        again.

        A launch whose order was closed before its own outcome could be written ended as its order did.
        """
        return self._database.execute(
            "UPDATE actions SET ended_at = ?,"
            " result = CASE WHEN order_id IS NULL THEN ?"
            "  WHEN EXISTS (SELECT 1 FROM attempts WHERE attempts.order_id = actions.order_id AND ids != '[]') THEN ?"
            "  ELSE ? END,"
            " message = coalesce((SELECT message FROM orders WHERE id = order_id), message)"
            " WHERE (result IS NULL OR (result = ? AND order_id IS NOT NULL))"
            " AND (order_id IS NULL OR order_id IN (SELECT id FROM orders WHERE closed_at IS NOT NULL))",
            (at, Result.INTERRUPTED, Result.DONE, Result.FAILED, Result.UNDER_WAY),
        )

    # -- orders ------------------------------------------------------------------------------------------------

    def send(self, asked: LaunchOrder, candidate: int, at: float, *, offer: int = 0) -> bool:
        """Store a token with its exact request, before the provider is called. Again: no change.

        Returns whether it may be requested: not for an order that was closed meanwhile.
        """
        with self._database.transaction():
            order = self._database.row("SELECT closed_at FROM orders WHERE id = ?", (asked.order_id,))
            if order is None or order["closed_at"] is not None:
                return False
            attempt = {
                "token": asked.token,
                "order_id": asked.order_id,
                "candidate": candidate,
                "offer": offer,
                "launch_order": encoding.write(asked),
                "sent_at": at,
            }
            self._database.add("attempts", attempt, on_conflict="ON CONFLICT DO NOTHING")
            return True

    def answer(
        self,
        token: str,
        *,
        ids: Sequence[str],
        failures: Sequence[LaunchFailure],
        message: str,
        at: float,
        ends_set: bool = True,
    ) -> None:
        """Store a provider's final answer to one attempt.

        If all of a set was requested, and any of it gave an id, the order is closed as accepted. It is not requested
        again, so the exact request is dropped. Of two answers (one came late, or was read off a listing meanwhile) the
        first stands, and the later one only adds ids: no worker of an order is ever forgotten.
        """
        with self._database.transaction():
            answered = self._database.row(
                "SELECT ids FROM attempts WHERE token = ? AND answered_at IS NOT NULL", (token,)
            )
            if answered is not None:
                known = json.loads(answered["ids"])
                both = [*known, *(each for each in ids if each not in known)]
                self._database.execute("UPDATE attempts SET ids = ? WHERE token = ?", (encoding.write(both), token))
                return
            self._database.execute(
                f"UPDATE attempts SET answered_at = ?, ids = ?, message = ?, {_SHORT} WHERE token = ?",
                (at, encoding.write(list(ids)), message, token),
            )
            if ends_set:
                self._database.execute(
                    "UPDATE orders SET closed_at = ?, message = ?"
                    " WHERE id = (SELECT order_id FROM attempts WHERE token = ?)"
                    " AND EXISTS (SELECT 1 FROM attempts WHERE order_id = orders.id AND ids != '[]')",
                    (at, message, token),
                )
            for failure in failures:
                self.fail(failure)

    def unanswered(self, order_id: str, message: str, *, again_at: float) -> None:
        """Store why an attempt of an order has no answer yet, and the time of the next request."""
        self._database.execute(
            "UPDATE attempts SET message = ?, again_at = ? WHERE order_id = ? AND answered_at IS NULL",
            (message, again_at, order_id),
        )

    def close_order(self, order_id: str, message: str, at: float) -> None:
        """Close this order: it is not requested again."""
        with self._database.transaction():
            self._database.execute(
                "UPDATE orders SET closed_at = ?, message = ? WHERE id = ? AND closed_at IS NULL",
                (at, message, order_id),
            )
            self._database.execute(f"UPDATE attempts SET {_SHORT} WHERE order_id = ?", (order_id,))

    def fail(self, failure: LaunchFailure, worker_id: str | None = None) -> None:
        """Note a failure of its bucket; of one worker only once, however often its end is tried."""
        row = encoding.columns_of(failure) | {"worker_id": worker_id}
        self._database.add("failures", row, on_conflict="ON CONFLICT DO NOTHING")

    def orders(self, since: float, nodes: Collection[str] = ()) -> tuple[OrderRecord, ...]:
        """Orders that are open, were closed after `since`, or are for one of these created nodes; oldest first. One
        query, so that all are of the same moment.
        """
        for_nodes = (
            "nodes != '[]' AND EXISTS (SELECT 1 FROM json_each(orders.nodes) AS ordered"
            " JOIN json_each(?) AS asked ON ordered.value = asked.value)"
        )
        asked = encoding.write(sorted(nodes))
        return self._orders(f"closed_at IS NULL OR closed_at > ? OR {for_nodes}", since, asked)

    def order(self, order_id: str) -> OrderRecord | None:
        """One order, open or closed; None: there is none, or it was forgotten."""
        return next(iter(self._orders("orders.id = ?", order_id)), None)

    def _orders(self, where: str, *values: object) -> tuple[OrderRecord, ...]:
        rows = self._database.rows(
            "SELECT *, attempts.message AS answer FROM orders LEFT JOIN attempts ON attempts.order_id = orders.id"
            f" WHERE {where} ORDER BY ordered_at, orders.id, candidate, offer",
            values,
        )
        return tuple(_order(list(of_one)) for _, of_one in itertools.groupby(rows, key=lambda row: row["id"]))

    def failures(self, since: float) -> tuple[LaunchFailure, ...]:
        """Failures newer than `since`, oldest first."""
        return tuple(
            encoding.from_row(row, LaunchFailure, worker_id=row["worker_id"] or "")
            for row in self._database.rows("SELECT * FROM failures WHERE at > ? ORDER BY at, id", (since,))
        )

    def refused_ends(self, worker_ids: Iterable[str] | None = None) -> tuple[RefusedEnd, ...]:
        """Of these workers (None: of all), those whose last termination was refused."""
        rows = self._database.rows(
            "SELECT worker_id, max(id) AS last, count(*) AS times, ended_at, message FROM actions AS this"
            " WHERE kind = ? AND result = ? AND NOT EXISTS (SELECT 1 FROM actions AS later"
            "  WHERE later.worker_id = this.worker_id AND later.kind = this.kind AND later.id > this.id"
            "  AND later.result = ?)"
            " GROUP BY worker_id ORDER BY last",
            (Terminate.kind, Result.REFUSED.value, Result.DONE.value),
        )
        known = None if worker_ids is None else frozenset(worker_ids)
        return tuple(
            RefusedEnd(row["worker_id"], row["ended_at"], row["times"], row["message"])
            for row in rows
            if known is None or row["worker_id"] in known
        )

    def groups(self) -> dict[str, str]:
        """Order id → id of the group that its workers belong to, of all orders that are remembered."""
        rows = self._database.rows("SELECT id, group_id FROM orders WHERE group_id != ''")
        return {row["id"]: row["group_id"] for row in rows}

    # -- looking back --------------------------------------------------------------------------------------------

    def outcomes_of(self, host: str, limit: int = 20) -> list[sqlite3.Row]:
        """Actions on a host, newest first: rows of at, kind, action (JSON), result, message, ended_at."""
        return self._database.rows(
            "SELECT plans.at, kind, action, result, message, ended_at FROM actions JOIN plans ON plans.id = plan"
            " WHERE host = ? ORDER BY actions.id DESC LIMIT ?",
            (host, limit),
        )

    def outcomes_of_job(self, job: int, limit: int = 20) -> list[dict[str, Any]]:
        """Actions on a job or its tasks, newest first: rows as in `outcomes_of`."""
        rows = self._database.rows(
            "SELECT plans.at, kind, action, result, message, ended_at FROM actions JOIN plans ON plans.id = plan"
            " WHERE kind IN (SELECT value FROM json_each(?3)) AND EXISTS ("
            "SELECT 1 FROM json_each(action, '$.jobs') WHERE value = ?1 OR value LIKE ?1 || '.%')"
            " ORDER BY actions.id DESC LIMIT ?2",
            (str(job), limit, encoding.write([kind.kind for kind in get_args(JobAction)])),
        )
        return [dict(row) for row in rows]

    def forget(self, before: float) -> None:
        """Drop what ended before this time."""
        with self._database.transaction():
            self._database.execute("DELETE FROM plans WHERE at < ?", (before,))
            self._database.execute("DELETE FROM orders WHERE closed_at < ?", (before,))
            self._database.execute("DELETE FROM failures WHERE at < ?", (before,))


def _order(rows: Sequence[sqlite3.Row]) -> OrderRecord:
    """One order, its columns beside those of each of its attempts."""
    order = rows[0]
    return encoding.from_row(
        order,
        OrderRecord,
        attempts=tuple(
            encoding.from_row(row, Attempt, message=row["answer"] or "") for row in rows if row["token"] is not None
        ),
        closed=order["closed_at"] is not None,
        for_requests=bool(order["for_requests"]),
    )
