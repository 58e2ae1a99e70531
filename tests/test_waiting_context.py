"""A reason that qmaster refused for the context of a job is written later; the journal has the result."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoscaler.core.actions import Annotate
from autoscaler.core.model.memory import Memory, UnsatisfiableNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.outcome.waiting_notes import RETRY
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Plan
from autoscaler.core.unsatisfiable.unwritten import RETRY_REFUSED
from autoscaler.engine.observe import Observer
from autoscaler.store.journal import Result
from autoscaler.store.store import Store
from tests.simulated.autoscaler import World, start, step
from tests.simulated.cluster import SimulatedCluster


class Refusing(SimulatedCluster):
    """A cluster whose qmaster refuses `qalter -ac` for a while."""

    out = False
    asked = 0

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        if argv[:2] == ("qalter", "-ac"):
            self.asked += 1
            if self.out:
                return 1, "error: commlib error: got select error (Connection refused)"
        return super().answer(argv)


@pytest.mark.parametrize("restarted", (False, True), ids=("the same process", "another process"))
def test_a_reason_that_qmaster_refused_is_written_ten_minutes_later(tmp_path: Path, restarted: bool) -> None:
    world = World(tmp_path / "store.sqlite")
    array = replace(world.policy.node_arrays[0], limits=Limits(max_workers=1))
    world.policy = replace(world.policy, job_context=True, node_arrays=(array,))
    cluster = world.cluster = Refusing(world.cloud, world.clock)
    world.cluster.submit(3, seconds=9000)
    loop = start(world)
    cluster.out = True
    while not cluster.asked:
        step(world, loop)
    failed_at = world.clock.now
    if restarted:
        loop.store.close()
        loop = start(world)
    cluster.out = False
    while world.clock.now < failed_at + RETRY - 30:
        step(world, loop)
    assert (cluster.asked, {job.context for job in cluster.jobs}) == (1, {""})
    while world.clock.now < failed_at + RETRY + 30:
        step(world, loop)
    assert cluster.asked == 2
    assert all("max_workers" in job.context for job in cluster.waiting)
    rows = loop.store.database.rows("SELECT result FROM actions WHERE kind = 'tell_waiting' ORDER BY id")
    assert [row["result"] for row in rows][-1] == Result.DONE
    loop.store.close()


@pytest.mark.parametrize("result", (Result.DONE, Result.FAILED, Result.REFUSED, None))
def test_a_text_for_an_unsatisfiable_job_whose_command_failed_is_remembered_as_not_written(
    tmp_path: Path, result: Result | None
) -> None:
    """None: the process ended before the command's result was in the journal."""
    why, notes = because(Code.TOO_MANY_SLOTS), {7: UnsatisfiableNote(since=1.0)}
    action = Annotate(("7",), why)
    with contextlib.closing(Store.open(tmp_path / "store.sqlite")) as store:
        memory = Memory(passes=3, unsatisfiable_jobs=notes, observed_at=100.0, annotated_at=100.0)
        accepted = store.accept(Plan((action,), memory), pass_number=3, at=100.0)
        if result is not None:
            store.journal.end(accepted[0].id, result, "", 101.0)
        observer = SimpleNamespace(store=store, _as_done=lambda _, note: note)
        known = Observer._memory(observer, Overrides()).unsatisfiable_jobs[7]  # type: ignore[arg-type]
    later = {Result.DONE: None, Result.REFUSED: 100.0 + RETRY_REFUSED}.get(result, 100.0 + RETRY)  # type: ignore[arg-type]
    assert known.write_at == later
