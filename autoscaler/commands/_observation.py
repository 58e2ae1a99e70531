"""One observation for commands that only show: of the live cell, or of a record folder.

It cannot change anything: the runner of Grid Engine's commands and the provider refuse to write.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from autoscaler.commands.context import Invocation
from autoscaler.errors import WriteRefused
from autoscaler.report.observed_plan import ObservedPlan

if TYPE_CHECKING:
    from autoscaler.core.model.fleet import Bucket, Interruption, Worker
    from autoscaler.core.snapshot import Plan
    from autoscaler.engine.observe import Observation, Observer
    from autoscaler.providers.interface import Launched, LaunchOrder, Problem, Provider
    from autoscaler.store.store import Store

from_record = click.option(
    "--from",
    "record",
    type=click.Path(path_type=Path, file_okay=False),
    help="Read a record folder instead of the live cell; needs no Grid Engine.",
)


def read_only(provider: Provider) -> Provider:
    """The provider, read-only: each call that would change anything raises WriteRefused."""
    from autoscaler.providers.interface import HasInterruptions

    class ReadOnly:
        """Forwards reading calls."""

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
    """The same invocation with the settings of the autoscaler that serves this cell, if there is one. Settings of this
    shell that differ are reported and not used.
    """
    from autoscaler.settings.sharing import differing

    who = invocation.running
    if who is None:
        message = f"no autoscaler serves cell {invocation.cell.title} on this machine"
        invocation.note(f"{message}: this command uses the settings of this shell")
        return invocation
    shared = invocation.settings_of_running
    if not shared:
        invocation.note(
            f"the autoscaler of this cell (process {who.pid}) does not publish its settings: this command uses the "
            "settings of this shell"
        )
        return invocation
    others = differing(invocation.environ, shared)
    if others:
        shown = ", ".join(
            f"{name} ({value} here, {there or 'not set'} there)" for name, (value, there) in others.items()
        )
        invocation.note(
            f"this command uses the settings of the running autoscaler (process {who.pid}); these differ here: {shown}"
        )
    return invocation.as_running


def observe_and_plan(invocation: Invocation, record: Path | None, *, assigns: bool = False) -> ObservedPlan:
    """Observe once. `assigns`: the plan says what each worker of its launches is meant for. Raises what observing or
    reading the record raises.
    """
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
    if assigns:
        snapshot = replace(snapshot, policy=replace(snapshot.policy, assigns=True))
    decided, seconds = _timed(lambda: plan(snapshot))
    return ObservedPlan(snapshot, decided, timings | {"decide": seconds}, zone)


def observe(invocation: Invocation) -> Observation:
    """Observe the live cell as the loop would, with the settings of the autoscaler that serves it, if there is one."""
    from autoscaler.process import ReadOnlyRunner

    invocation = as_running(invocation)
    provider = invocation.provider()
    with reading_store(invocation, lenient=True) as store:
        observer = observer_of(invocation, store, provider)
        observer.runner, observer.provider = ReadOnlyRunner(invocation.runner), read_only(provider)
        return observer.observe()


def observer_of(invocation: Invocation, store: Store, provider: Provider) -> Observer:
    """An observer of this cell, as the loop has it."""
    from autoscaler.core.demand.eligibility import details_wanted
    from autoscaler.engine.observe import Observer
    from autoscaler.store.run_time_history import RunTimeHistory

    return Observer(
        invocation.runner,
        provider,
        store,
        invocation.policy,
        details_wanted,
        invocation.zone,
        grid_engine_timeout=invocation.settings.process.grid_engine_timeout,
        rule_files=invocation.rule_files(provider),
        tag=invocation.tag(make=False),
        estimates=RunTimeHistory(invocation.common / "accounting").estimates,
    )


@contextlib.contextmanager
def reading_store(invocation: Invocation, *, lenient: bool = False) -> Iterator[Store]:
    """This cell's store; if there is none, an empty one that leaves nothing behind. `lenient`: the same if this user
    may not use the running autoscaler's store, which is reported.
    """
    state = invocation.running.state if invocation.running is not None else ""
    # Even a reader of a SQLite database in WAL mode writes: into its shared memory file.
    closed = bool(state) and not os.access(state, os.W_OK | os.X_OK)
    if closed and lenient:
        invocation.note(
            f"{state} is not yours to use (it has to be writable): this command works without what the autoscaler "
            "remembers"
        )
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


def _timed(decide: Callable[[], Plan]) -> tuple[Plan, float]:
    began = time.perf_counter()
    return decide(), time.perf_counter() - began
