"""What can be compared after a scenario: the provider's records, and the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler.core.model.memory import WorkerNote
from autoscaler.providers.local.machines import Machine, Records
from autoscaler.store.store import Store
from tests.grid_engine.autoscaling import Autoscaling

Shown = dict[str, Callable[[], str]]
"""What `show_on_failure` is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An action as the journal has it. `result` is None while its outcome is unknown."""

    pass_number: int
    kind: str
    host: str | None
    result: str | None
    message: str


def machines(scaling: Autoscaling) -> list[Machine]:
    """Every machine that the provider ever made, by its records, oldest first."""
    return Records(Path(scaling.environment["CP_CAP_AUTOSCALE_LOCAL_STATE"])).all()


def journal(scaling: Autoscaling) -> list[Entry]:
    """All actions, oldest first; none if the autoscaler has not begun its journal."""
    if not any(scaling.state.glob("*.sqlite")):
        return []
    with _store(scaling) as store:
        rows = store.database.rows(
            "SELECT pass, kind, host, result, message FROM actions JOIN plans ON plans.id = plan ORDER BY actions.id"
        )
        return [Entry(*row) for row in rows]


def notes(scaling: Autoscaling) -> list[WorkerNote]:
    """What the last pass remembered of every worker."""
    with _store(scaling) as store:
        return list(store.memory.load().workers.values())


def open_orders(scaling: Autoscaling) -> list[str]:
    """Orders that may still be repeated."""
    with _store(scaling) as store:
        return [row["id"] for row in store.database.rows("SELECT id FROM orders WHERE closed_at IS NULL")]


def log_and_journal(scaling: Autoscaling) -> str:
    """For a failure's report: what the autoscaler logged, and its journal."""
    lines = [str(entry) for entry in journal(scaling)] if any(scaling.state.glob("*.sqlite")) else ["no journal"]
    return "\n".join([scaling.log_text(), *lines])


@contextmanager
def _store(scaling: Autoscaling) -> Iterator[Store]:
    (file,) = scaling.state.glob("*.sqlite")
    store = Store.open(file)
    try:
        yield store
    finally:
        store.close()
