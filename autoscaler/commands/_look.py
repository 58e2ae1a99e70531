"""One look for the commands that only show: at the live cell without changing anything, or at a record folder.

Dry by construction: Grid Engine's commands run on a runner that refuses to write, and so does the provider.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from autoscaler.commands.context import Invocation
from autoscaler.errors import WriteRefused

if TYPE_CHECKING:
    from autoscaler.core.model.fleet import Bucket, Interruption, Worker
    from autoscaler.core.snapshot import Plan, Snapshot
    from autoscaler.engine.observe import Observation
    from autoscaler.store.store import Store
    from providers.interface import Launched, LaunchOrder, Problem, Provider

from_record = click.option(
    "--from",
    "record",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at a record folder instead of the live cell; needs no Grid Engine.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot, what would be done about it, and how long that took."""

    snapshot: Snapshot
    plan: Plan
    timings: Mapping[str, float]
    zone: tzinfo | None

    def document(self, *, by_job: bool = False) -> dict[str, Any]:
        """Schema 1, told as a plan that nobody carries out."""
        from autoscaler.report.document import document

        return document(self.snapshot, self.plan, self.timings, by_job=by_job, zone=self.zone)


def read_only(provider: Provider) -> Provider:
    """The same provider, only to be looked at: what would change anything raises WriteRefused."""
    from providers.interface import HasInterruptions

    class ReadOnly:
        """Passes questions on."""

        name: ClassVar[str] = provider.name
        enrols_itself: ClassVar[bool] = provider.enrols_itself
        Settings: ClassVar[type[Any]] = provider.Settings

        def buckets(self) -> Sequence[Bucket]:
            return provider.buckets()

        def workers(self) -> Sequence[Worker]:
            return provider.workers()

        def interruptions(self) -> Sequence[Interruption]:
            return provider.interruptions() if isinstance(provider, HasInterruptions) else ()

        def check(self) -> Sequence[Problem]:
            return provider.check()

        def launch(self, order: LaunchOrder) -> Launched:
            raise WriteRefused(f"refused in a read-only run: launch {order.count} {order.buckets[0].key.instance_type}")

        def terminate(self, ids: Sequence[str]) -> None:
            raise WriteRefused(f"refused in a read-only run: terminate {', '.join(ids)}")

    return ReadOnly()


def as_running(invocation: Invocation) -> Invocation:
    """The same call by the settings of the autoscaler that serves this cell, where one does. What is set otherwise in
    this shell is told, and not heeded.
    """
    from autoscaler.settings.sharing import differing

    who = invocation.running
    if who is None:
        cell = invocation.cell
        said = f"no autoscaler serves cell {cell.cell} of {cell.master}:{cell.port} on this machine"
        click.echo(f"{said}: judged by this shell's settings", err=True)
        return invocation
    shared = invocation.settings_of_running
    if not shared:
        said = f"the autoscaler of this cell (process {who.pid}) does not tell its settings: judged by this shell's"
        click.echo(said, err=True)
        return invocation
    others = differing(invocation.environ, shared)
    if others:
        told = ", ".join(
            f"{name} ({value} here, {there or 'not set'} there)" for name, (value, there) in others.items()
        )
        click.echo(f"judged by the settings of the running autoscaler (process {who.pid}), not by: {told}", err=True)
    return invocation.as_running


def look(invocation: Invocation, record: Path | None) -> Look:
    """Look once. Raises what observing or reading the record raises."""
    from autoscaler.core.plan import plan
    from autoscaler.engine.record import read_record

    if record is not None:
        began = time.perf_counter()
        snapshot = read_record(record)
        timings = {"parse": time.perf_counter() - began}
        zone = snapshot.cluster.zone
    else:
        observation = observe(invocation)
        snapshot, timings, zone = observation.snapshot, dict(observation.timings), None
    decided, seconds = _timed(lambda: plan(snapshot))
    return Look(snapshot, decided, timings | {"decide": seconds}, zone)


def observe(invocation: Invocation) -> Observation:
    """The live cell as the loop would see it now, by the settings of the autoscaler that serves it where one does."""
    from autoscaler.core.plan import details_wanted
    from autoscaler.engine.observe import Observer
    from autoscaler.process import ReadOnlyRunner

    invocation = as_running(invocation)
    provider = invocation.provider()
    with reading_store(invocation, lenient=True) as store:
        observer = Observer(
            ReadOnlyRunner(invocation.runner),
            read_only(provider),
            store,
            invocation.policy,
            details_wanted,
            invocation.zone,
            grid_engine_timeout=invocation.settings.process.grid_engine_timeout,
            rule_files=invocation.rule_files(provider),
        )
        return observer.observe()


@contextlib.contextmanager
def reading_store(invocation: Invocation, *, lenient: bool = False) -> Iterator[Store]:
    """This cell's store; where there is none an empty one that leaves nothing behind. `lenient`: likewise where the
    running autoscaler's may not be read, which is told.
    """
    who = invocation.running
    closed = who is not None and bool(who.state) and not os.access(who.state, os.W_OK | os.X_OK)
    if closed and lenient:
        click.echo(f"{who.state if who else ''} may not be read by you: judged without what was remembered", err=True)
    if not (closed and lenient) and invocation.store_file.exists():
        with invocation.store() as store:
            yield store
        return
    from autoscaler.store.store import Store

    with tempfile.TemporaryDirectory(prefix="sge-autoscaler-") as directory:
        store = Store.open(Path(directory) / "none.sqlite")
        try:
            yield store
        finally:
            store.close()


def print_json(told: Mapping[str, Any]) -> None:
    click.echo(json.dumps(told, indent=2, ensure_ascii=False))


def _timed(decide: Callable[[], Plan]) -> tuple[Plan, float]:
    began = time.perf_counter()
    return decide(), time.perf_counter() - began
