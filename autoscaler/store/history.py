"""Reports of 30 days: pass documents and each job's last explanation. And each worker's lifetime, for as long as cost
is kept.

A finished or killed job is still explained, and a worker that is gone has still been paid for. Only news is written: a
pass over an unchanged cell writes nothing here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.cluster import short_name
from autoscaler.core.model.fleet import OrderedFor, Worker
from autoscaler.core.snapshot import JobCategoryVerdict
from autoscaler.store import encoding
from autoscaler.store.database import Database, Migration

KEPT_FOR = 30 * 86_400.0
"""Seconds."""
MOST_SEARCHED = 20_000
"""Passes that one question reads: some 60 MB."""
COST_KEPT = 400 * 86_400.0
"""Seconds for which lifetimes are kept unless a setting says otherwise."""

TABLES: Migration = (
    """
    CREATE TABLE passes (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL,
        sentence TEXT NOT NULL,
        document TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX passes_by_time ON passes(at)",
    """
    CREATE TABLE explanations (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        verdict TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE explained (
        job INTEGER PRIMARY KEY,
        explanation INTEGER NOT NULL REFERENCES explanations(id) ON DELETE CASCADE
    ) STRICT
    """,
    "CREATE INDEX explained_by_explanation ON explained(explanation)",
    """
    CREATE TABLE lifetimes (
        worker_id TEXT PRIMARY KEY,
        name TEXT,
        instance_type TEXT NOT NULL,
        node_array TEXT NOT NULL,
        price_type TEXT NOT NULL,
        price_per_hour REAL,
        created_at REAL NOT NULL,
        joined_at REAL,
        removed_at REAL,
        ended_at REAL,
        slots INTEGER,
        currency TEXT NOT NULL DEFAULT '',
        seen_at REAL,
        ordered_for TEXT NOT NULL DEFAULT '[]'
    ) STRICT
    """,
    "CREATE INDEX lifetimes_by_end ON lifetimes(ended_at)",
    "CREATE TABLE lifetimes_seen (only INTEGER PRIMARY KEY CHECK (only = 1), at REAL NOT NULL) STRICT",
)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass with news."""

    number: int
    at: float
    sentence: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The last explanation of a job while it waited."""

    at: float
    verdict: JobCategoryVerdict
    """Without its jobs and tasks."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One worker from its order to its end. Times as Unix seconds; None: not (yet)."""

    worker_id: str
    name: str | None
    instance_type: str
    node_array: str
    price_type: str
    price_per_hour: float | None
    created_at: float
    joined_at: float | None = None
    """The time at which Grid Engine first had it as an execution host in service."""
    removed_at: float | None = None
    """The time at which it was removed from Grid Engine."""
    ended_at: float | None = None
    """The time at which the provider no longer had it."""
    slots: int | None = None
    """Slots that it gave to Grid Engine, or will."""
    currency: str = ""
    """Currency of its price; '': not known."""
    seen_at: float | None = None
    """The time at which it was last listed before its end: nothing is known of the time in between."""
    ordered_for: tuple[OrderedFor, ...] = ()
    """The owners of the jobs that it was ordered for."""

    def seconds(self, now: float) -> float:
        """How long it was (or has been) rented."""
        return max(0.0, (self.ended_at or now) - self.created_at)

    def cost(self, now: float) -> float | None:
        """The cost of that by its price; None if the price is not known."""
        return None if self.price_per_hour is None else self.price_per_hour * self.seconds(now) / 3600


class History:
    """The tables above."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written: dict[int, str] = {}
        """The explanation of each job that this process last wrote, so that the same is not written again."""

    # -- passes ------------------------------------------------------------------------------------------------

    def add_pass(self, number: int, at: float, sentence: str, document: Mapping[str, Any]) -> None:
        """Keep a pass with news."""
        self._database.execute(
            "INSERT INTO passes (pass, at, sentence, document) VALUES (?, ?, ?, ?)",
            (number, at, sentence, json.dumps(document, ensure_ascii=False)),
        )

    def passes(self, limit: int = 20) -> tuple[PassRecord, ...]:
        """The newest ones, newest first."""
        rows = self._database.rows("SELECT * FROM passes ORDER BY id DESC LIMIT ?", (limit,))
        return tuple(PassRecord(row["pass"], row["at"], row["sentence"], json.loads(row["document"])) for row in rows)

    def passes_between(
        self, since: float, until: float, *, kind: str = "", before: int | None = None, limit: int = 50
    ) -> tuple[list[tuple[int, PassRecord]], int | None]:
        """Those of a period, newest first, each with the number of its row; and the number before which to ask for
        more, None: there are no more. `kind`: only those with such an action; `before`: only rows of a lower number. At
        most `MOST_SEARCHED` rows are searched, so there may be more also if none is found.
        """
        newest = self._database.row(
            "SELECT max(id) AS id FROM passes WHERE at >= ? AND at <= ? AND id < ?", (since, until, before or 1 << 62)
        )
        if newest is None or newest["id"] is None:
            return [], None
        last = newest["id"] - MOST_SEARCHED
        # A name in the document cannot contain this text: JSON escapes quotes.
        rows = self._database.rows(
            "SELECT * FROM passes WHERE at >= ? AND id <= ? AND id > ? AND (? = '' OR instr(document, ?))"
            " ORDER BY id DESC LIMIT ?",
            (since, newest["id"], last, kind, json.dumps({"kind": kind})[1:-1], limit + 1),
        )
        found = [
            (row["id"], PassRecord(row["pass"], row["at"], row["sentence"], json.loads(row["document"])))
            for row in rows[:limit]
        ]
        if len(rows) > limit:
            return found, found[-1][0]
        older = self._database.row("SELECT 1 FROM passes WHERE at >= ? AND id <= ?", (since, last))
        return found, None if older is None else last + 1

    # -- jobs --------------------------------------------------------------------------------------------------

    def explain(self, verdicts: Iterable[JobCategoryVerdict], at: float) -> None:
        """Keep the last explanation of every waiting job; writes only for jobs whose explanation changed."""
        changed: dict[int, str] = {}
        for verdict in verdicts:
            mark = _mark(verdict)
            changed.update(dict.fromkeys(verdict.jobs, mark))
            new = [job for job in verdict.jobs if self._written.get(job) != mark]
            if new:
                self._write(verdict, new, at)
        self._written = changed

    def _write(self, verdict: JobCategoryVerdict, jobs: list[int], at: float) -> None:
        text = encoding.write(dataclasses.replace(verdict, jobs=(), tasks=()))
        with self._database.transaction():
            row = self._database.insert("INSERT INTO explanations (at, verdict) VALUES (?, ?)", (at, text))
            self._database.execute_many(
                "INSERT INTO explained VALUES (?, ?) ON CONFLICT DO UPDATE SET explanation = excluded.explanation",
                ((job, row) for job in jobs),
            )

    def explanation(self, job: int) -> Explanation | None:
        """The last explanation of this job, or None if no pass saw it wait, or that was too long ago."""
        row = self._database.row(
            "SELECT at, verdict FROM explained JOIN explanations ON explanations.id = explanation WHERE job = ?", (job,)
        )
        return None if row is None else Explanation(row["at"], encoding.read(row["verdict"], JobCategoryVerdict))

    def newest_job(self) -> int | None:
        """The highest number of a job that some pass saw wait; None: none is kept."""
        row = self._database.row("SELECT MAX(job) AS newest FROM explained", ())
        return None if row is None else row["newest"]

    # -- workers -----------------------------------------------------------------------------------------------

    def note_workers(
        self,
        workers: Iterable[Worker],
        joined: Iterable[str],
        at: float,
        slots: Mapping[str, int] = MappingProxyType({}),
        currency: str = "",
        ordered_for: Mapping[str, tuple[OrderedFor, ...]] = MappingProxyType({}),
        made_at: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Update lifetimes from one complete listing. `joined`: ids of execution hosts in service; by id: `slots`, the
        slots that each gives to Grid Engine; `ordered_for`, the owners of the jobs that it was ordered for; `made_at`,
        when each was made, by the clock of `at`, where that is not what its cloud says.
        """
        listed = {worker.id: worker for worker in workers}
        known = self._known(listed)
        serving, before = frozenset(joined), self.seen_at
        seen = [
            _seen(worker, known.get(worker.id), worker.id in serving, at, slots.get(worker.id), currency, before)
            for worker in (_by_our_clock(each, made_at) for each in listed.values())
        ]
        seen = [replace(each, ordered_for=each.ordered_for or ordered_for.get(each.worker_id, ())) for each in seen]
        changed = [lifetime for lifetime in seen if lifetime != known.get(lifetime.worker_id)]
        changed += [
            dataclasses.replace(lifetime, ended_at=at, seen_at=before)
            for lifetime in known.values()
            if lifetime.ended_at is None and lifetime.worker_id not in listed
        ]
        with self._database.transaction():
            if changed:
                columns = [field.name for field in dataclasses.fields(Lifetime)]
                self._database.execute_many(
                    f"INSERT OR REPLACE INTO lifetimes ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                    [tuple(encoding.columns_of(lifetime)[name] for name in columns) for lifetime in changed],
                )
            self._database.execute("INSERT OR REPLACE INTO lifetimes_seen VALUES (1, ?)", (at,))

    @property
    def seen_at(self) -> float | None:
        """The time at which workers were last listed."""
        row = self._database.row("SELECT at FROM lifetimes_seen")
        return None if row is None else row["at"]

    def _known(self, ids: Collection[str]) -> Mapping[str, Lifetime]:
        """Those of living workers, and of these ids."""
        rows = self._database.rows(
            # All ids in one value: SQLite limits the number of values of a statement.
            "SELECT * FROM lifetimes WHERE ended_at IS NULL OR worker_id IN (SELECT value FROM json_each(?))"
            " ORDER BY created_at, worker_id",
            (json.dumps(list(ids)),),
        )
        return {row["worker_id"]: encoding.from_row(row, Lifetime) for row in rows}

    def removed(self, worker_id: str, at: float) -> None:
        """Note that it was removed from Grid Engine."""
        self._database.execute("UPDATE lifetimes SET removed_at = ? WHERE worker_id = ?", (at, worker_id))

    def names(self) -> list[str]:
        """Host names that workers have or had."""
        return [
            row["name"] for row in self._database.rows("SELECT DISTINCT name FROM lifetimes WHERE name IS NOT NULL")
        ]

    def left(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Those of these hosts that workers had which have ended. Domains are ignored."""
        rows = self._database.rows(
            "SELECT lower(substr(name, 1, instr(name || '.', '.') - 1)) AS short, count(*) = count(ended_at) AS ended"
            " FROM lifetimes WHERE name IS NOT NULL GROUP BY short HAVING short IN (SELECT value FROM json_each(?))",
            (json.dumps([short_name(host) for host in hosts]),),
        )
        ended = {row["short"] for row in rows if row["ended"]}
        return tuple(sorted(host for host in hosts if short_name(host) in ended))

    def renting(self) -> tuple[Lifetime, ...]:
        """Of workers that exist. Oldest first."""
        return self.lifetimes(float("inf"))

    def lifetimes(self, since: float | None = None) -> tuple[Lifetime, ...]:
        """Oldest first. `since`: those that had not ended by then."""
        where = "" if since is None else "WHERE ended_at IS NULL OR ended_at > ?"
        rows = self._database.rows(
            f"SELECT * FROM lifetimes {where} ORDER BY created_at, worker_id", () if since is None else (since,)
        )
        return tuple(encoding.from_row(row, Lifetime) for row in rows)

    def lives_of(self, ids: Collection[str]) -> tuple[Lifetime, ...]:
        """Of these workers."""
        sql = "SELECT * FROM lifetimes WHERE worker_id IN (SELECT value FROM json_each(?)) ORDER BY worker_id"
        return tuple(encoding.from_row(row, Lifetime) for row in self._database.rows(sql, (json.dumps(list(ids)),)))

    def ended_after(self, at: float) -> frozenset[str]:
        """Ids of workers whose last listing was later than this."""
        rows = self._database.rows("SELECT worker_id FROM lifetimes WHERE ended_at > ?", (at,))
        return frozenset(row["worker_id"] for row in rows)

    def living(self) -> Mapping[str, int]:
        """Node array → how many of its machines existed at the last listing."""
        sql = "SELECT node_array, count(*) AS living FROM lifetimes WHERE ended_at IS NULL GROUP BY node_array"
        return {row["node_array"]: row["living"] for row in self._database.rows(sql)}

    def forget(self, before: float) -> None:
        """Drop what is older than this time and no longer applies."""
        with self._database.transaction():
            self._database.execute("DELETE FROM passes WHERE at < ?", (before,))
            self._database.execute("DELETE FROM explanations WHERE at < ?", (before,))
            self._database.execute(
                "DELETE FROM explanations WHERE id NOT IN (SELECT explanation FROM explained)",
            )
        self._written.clear()

    def forget_lifetimes(self, before: float) -> None:
        """Drop those that had ended by then."""
        self._database.execute("DELETE FROM lifetimes WHERE ended_at < ?", (before,))


def _mark(verdict: JobCategoryVerdict) -> str:
    """The key of an explanation: its codes and the requests, not how long the job has waited."""
    codes = [verdict.reason.code.value, *(link.code.value for link in verdict.reason.trail)]
    return f"{verdict.counted} {' '.join(codes)} {verdict.ask.state}"


def _by_our_clock(worker: Worker, made_at: Mapping[str, float]) -> Worker:
    at = made_at.get(worker.id, worker.created_at)
    return worker if at == worker.created_at else dataclasses.replace(worker, created_at=at)


def _seen(
    worker: Worker,
    before: Lifetime | None,
    joined: bool,
    at: float,
    slots: int | None,
    currency: str,
    seen_at: float | None,
) -> Lifetime:
    price = worker.price_per_hour
    lifetime = before or Lifetime(
        worker.id, worker.name, worker.type.name, worker.node_array, worker.price_type.value, price, worker.created_at
    )
    if lifetime.price_per_hour is None and price is not None:  # the provider gave the price later
        lifetime = dataclasses.replace(lifetime, price_per_hour=price)
    ended = None if worker.exists else lifetime.ended_at or at
    if before is None and seen_at is None and ended is not None:
        # It ended before this store's first listing, so its times are unknown: it does not count as a worker of this
        # record.
        ended = worker.created_at
    return dataclasses.replace(
        lifetime,
        name=worker.name or lifetime.name,
        joined_at=lifetime.joined_at or (at if joined else None),
        ended_at=ended,
        slots=slots or lifetime.slots or worker.type.vcpus or None,
        currency=lifetime.currency or (currency if lifetime.price_per_hour is not None else ""),
        seen_at=None if ended is None else lifetime.seen_at or seen_at,
    )
