"""What a trial saw on a cell: when it watched, hosts, starts and ends of jobs, what waited, and why.

It is a file of its own beside the service's state. Only what changed is written: a pass over a quiet cell moves one
time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.store.database import Database, Migration, Table

TABLES: Migration = (
    "CREATE TABLE trial (only INTEGER PRIMARY KEY CHECK (only = 1), began REAL NOT NULL, ends REAL NOT NULL) STRICT",
    "CREATE TABLE periods (since REAL PRIMARY KEY, until REAL NOT NULL) STRICT",
    """
    CREATE TABLE hosts (
        at REAL NOT NULL,
        name TEXT NOT NULL,
        slots INTEGER NOT NULL,
        cores INTEGER NOT NULL,
        memory REAL NOT NULL,
        PRIMARY KEY (at, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE runs (
        job INTEGER NOT NULL,
        task TEXT NOT NULL,
        started REAL NOT NULL,
        ended REAL,
        owner TEXT NOT NULL,
        slots INTEGER NOT NULL,
        pe TEXT NOT NULL,
        hard TEXT NOT NULL,
        queue TEXT NOT NULL,
        host TEXT NOT NULL,
        eligible REAL,
        PRIMARY KEY (job, task, started)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE waiting (
        job INTEGER PRIMARY KEY,
        submitted REAL NOT NULL,
        tasks INTEGER NOT NULL,
        held_at REAL,
        owner TEXT NOT NULL,
        project TEXT NOT NULL,
        slots INTEGER NOT NULL,
        pe TEXT NOT NULL,
        hard TEXT NOT NULL,
        counts INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE TABLE environments (name TEXT PRIMARY KEY, rule TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """
    CREATE TABLE causes (
        code TEXT NOT NULL,
        job INTEGER NOT NULL,
        sentence TEXT NOT NULL,
        PRIMARY KEY (code, job)
    ) STRICT, WITHOUT ROWID
    """,
)

WITH_COMPLEX_VALUES: Migration = ("ALTER TABLE hosts ADD COLUMN complex_values TEXT NOT NULL DEFAULT '[]'",)

WITH_SCHEDULER: Migration = (
    "CREATE TABLE scheduler (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)

Requests = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TrialTimes:
    """Unix seconds."""

    began: float
    ends: float


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host from this time on."""

    at: float
    name: str
    slots: int
    """That jobs may use; 0: none may start there."""
    cores: int = 0
    """0: not known."""
    memory: float = 0.0
    """Bytes; 0: not known."""
    complex_values: tuple[tuple[str, float], ...] = ()
    """Of its consumables, memory in bytes: what there is if nothing runs."""


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A start of a job, or of a task of an array."""

    job: int
    task: str
    started: float
    owner: str = ""
    slots: int = 1
    pe: str = ""
    hard: Requests = ()
    queue: str = ""
    host: str = ""
    ended: float | None = None
    """Between the two passes of which only the first saw it; None: it still ran in the last one."""
    eligible: float | None = None
    """From when it could have started, had there been a host; None: no pass saw it wait."""

    @property
    def key(self) -> tuple[int, str]:
        return self.job, self.task


@dataclass(frozen=True, slots=True)
class WaitingSeen:
    """A job that waited, as the last pass saw it."""

    job: int
    submitted: float
    tasks: int = 1
    """That waited then; 0: all have started, or it was deleted."""
    held_at: float | None = None
    """When it could last not have started on any host: on hold, beyond `-tc` or a quota, before its time."""
    owner: str = ""
    project: str = ""
    slots: int = 1
    pe: str = ""
    hard: Requests = ()
    counts: bool = True
    """Whether it counted as demand: else no worker would be launched for it."""


@dataclass(frozen=True, slots=True)
class CauseSeen:
    """A reason for which jobs waited."""

    code: str
    sentence: str
    """Of the job of which it was seen first."""
    jobs: int


class TrialTable(Table):
    """The tables above."""

    @classmethod
    def open(cls, path: Path | None) -> TrialTable:
        """Open or make the file; None: in memory. Raises StateNotKept, SettingsError."""
        return cls(Database.open(path, (TABLES, WITH_COMPLEX_VALUES, WITH_SCHEDULER)))

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.transaction = database.transaction
        self.close = database.close

    # -- what the trial writes -----------------------------------------------------------------------------------------

    def begin(self, now: float, ends: float) -> None:
        """Begin a trial, and forget the former one."""
        with self.transaction():
            for table in ("trial", "periods", "hosts", "runs", "waiting", "environments", "causes", "scheduler"):
                self._database.execute(f"DELETE FROM {table}")
            self._database.add("trial", {"only": 1, "began": now, "ends": ends})

    def end_at(self, ends: float) -> None:
        """Set when it is over."""
        self._database.execute("UPDATE trial SET ends = ?", (ends,))

    def watches(self, since: float, until: float) -> None:
        """All was seen from `since`, which names the period, until now."""
        self._database.add(
            "periods", {"since": since, "until": until}, on_conflict="ON CONFLICT DO UPDATE SET until = excluded.until"
        )

    def add_host(self, host: HostSeen) -> None:
        values = {
            "at": host.at,
            "name": host.name,
            "slots": host.slots,
            "cores": host.cores,
            "memory": host.memory,
            "complex_values": json.dumps(host.complex_values),
        }
        self._database.add("hosts", values, on_conflict="ON CONFLICT DO UPDATE SET slots = excluded.slots")

    def add_runs(self, runs: Iterable[RunSeen]) -> None:
        self._database.execute_many(
            "INSERT INTO runs VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ended = NULL",
            (
                (
                    run.job, run.task, run.started, run.owner, run.slots, run.pe, json.dumps(run.hard), run.queue,
                    run.host, run.eligible,
                )
                for run in runs
            ),
        )  # fmt: skip

    def end_runs(self, runs: Iterable[RunSeen], at: float) -> None:
        self._database.execute_many(
            "UPDATE runs SET ended = ? WHERE job = ? AND task = ? AND started = ?",
            ((max(at, run.started), run.job, run.task, run.started) for run in runs),
        )

    def note_waiting(self, jobs: Iterable[WaitingSeen]) -> None:
        self._database.execute_many(
            "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    one.job, one.submitted, one.tasks, one.held_at, one.owner, one.project, one.slots, one.pe,
                    json.dumps(one.hard), one.counts,
                )
                for one in jobs
            ),
        )  # fmt: skip

    def note_environment(self, name: str, rule: str) -> None:
        """A parallel environment with its allocation rule."""
        self._database.add(
            "environments", {"name": name, "rule": rule}, on_conflict="ON CONFLICT DO UPDATE SET rule = excluded.rule"
        )

    def note_scheduler(self, values: Mapping[str, str]) -> None:
        """The scheduler's configuration, as it is now."""
        for name, value in values.items():
            self._database.add(
                "scheduler",
                {"name": name, "value": value},
                on_conflict="ON CONFLICT DO UPDATE SET value = excluded.value",
            )

    def note_causes(self, causes: Iterable[tuple[str, int, str]]) -> None:
        """Code, job, sentence; those that are known stay as they are."""
        self._database.execute_many("INSERT INTO causes VALUES (?, ?, ?) ON CONFLICT DO NOTHING", causes)

    # -- what the report reads -----------------------------------------------------------------------------------------

    @property
    def times(self) -> TrialTimes | None:
        """None: no trial has begun."""
        row = self._database.row("SELECT began, ends FROM trial")
        return None if row is None else TrialTimes(row["began"], row["ends"])

    def periods(self) -> list[tuple[float, float]]:
        """When it watched."""
        return [(row["since"], row["until"]) for row in self._database.rows("SELECT * FROM periods ORDER BY since")]

    def hosts(self) -> list[HostSeen]:
        """All changes, in the order of their time."""
        rows = self._database.rows("SELECT * FROM hosts ORDER BY at, name")
        return [
            HostSeen(
                row["at"], row["name"], row["slots"], row["cores"], row["memory"],
                tuple((name, size) for name, size in json.loads(row["complex_values"])),
            )
            for row in rows
        ]  # fmt: skip

    def runs(self, *, living: bool = False) -> list[RunSeen]:
        """All starts, or those that still run."""
        rows = self._database.rows(f"SELECT * FROM runs {'WHERE ended IS NULL' if living else ''} ORDER BY started")
        return [
            RunSeen(
                row["job"], row["task"], row["started"], row["owner"], row["slots"], row["pe"], _requests(row["hard"]),
                row["queue"], row["host"], row["ended"], row["eligible"],
            )
            for row in rows
        ]  # fmt: skip

    def waiting(self) -> list[WaitingSeen]:
        """Every job that ever waited, as it was seen last."""
        return [
            WaitingSeen(
                row["job"], row["submitted"], row["tasks"], row["held_at"], row["owner"], row["project"], row["slots"],
                row["pe"], _requests(row["hard"]), bool(row["counts"]),
            )
            for row in self._database.rows("SELECT * FROM waiting ORDER BY job")
        ]  # fmt: skip

    def environments(self) -> dict[str, str]:
        return {row["name"]: row["rule"] for row in self._database.rows("SELECT * FROM environments")}

    def scheduler(self) -> dict[str, str]:
        """Empty: it was not read."""
        return {row["name"]: row["value"] for row in self._database.rows("SELECT * FROM scheduler")}

    def causes(self) -> list[CauseSeen]:
        """Those of most jobs first."""
        rows = self._database.rows(
            "SELECT code, sentence, count(*) AS jobs, min(job) FROM causes GROUP BY code ORDER BY jobs DESC, code"
        )
        return [CauseSeen(row["code"], row["sentence"], row["jobs"]) for row in rows]


def _requests(text: str) -> Requests:
    return tuple((name, value) for name, value in json.loads(text))
