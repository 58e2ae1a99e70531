"""Motives for which workers leave: each applies in a snapshot for each of the reasons it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.actions import Disable
from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.scale_down.motives import MOTIVES, Motive
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.step import WorkerStep
from tests.core.building import a_snapshot, a_worker
from tests.core.test_auto_stop import asked_by
from tests.core.test_groups import a_member, in_groups
from tests.core.test_quarantine import failures, unhealthy
from tests.core.test_swap import a_full_cluster, busy, idle
from tests.core.transition_rows import steps_of
from tests.core.worker_observations import Observation, snapshot_of


def with_evidence(evidence: Evidence) -> Snapshot:
    """A busy worker whose array has a health check."""
    return replace(a_snapshot(a_worker(used=1), health_check=("/opt/check",)), evidence=evidence)


EXAMPLES: tuple[tuple[str, Code, Snapshot], ...] = (
    ("StoppedNow", Code.STOPPING, snapshot_of(Observation(override="stop now"))),
    ("Drained", Code.DRAINED_BY_COMMAND, snapshot_of(Observation(override="drain"))),
    ("Quarantined", Code.BLACK_HOLE, with_evidence(Evidence(failures=failures(owners=("ann", "bob"))))),
    ("Quarantined", Code.UNHEALTHY, with_evidence(Evidence(health=unhealthy()))),
    ("Quarantined", Code.INSTANCE_IN_ERROR, snapshot_of(Observation(host="error"))),
    ("Swapped", Code.SWAP, a_full_cluster(idle("w1"), busy("w2"))),
    ("Advised", Code.REBALANCE_RECOMMENDED, snapshot_of(Observation(notice="rebalance"))),
    ("Stopped", Code.STOPPING, a_snapshot(a_worker(idle=5.0), Overrides(stop="drain"))),
    ("GroupLeaves", Code.IDLE, in_groups(a_member("w1", idle=60), a_member("w2", idle=60))),
    ("AskedToStop", Code.ASKED_TO_STOP, asked_by("w1", things=(a_worker(idle=0.0),))),
    ("IdleTooLong", Code.IDLE, snapshot_of(Observation(idle=4000.0))),
)
"""For each motive, and for each code of its reasons: a snapshot in which it disables the worker w1."""
FROM_A_VERDICT = ("GroupLeaves",)
"""Motives that name no codes: their reason is the verdict on the whole group (core/scale_down/group_verdicts.py)."""


def step_of_w1(snapshot: Snapshot) -> WorkerStep:
    return next(step for step in steps_of(snapshot) if step.worker.name == "w1")


@pytest.mark.parametrize(("motive", "code", "snapshot"), EXAMPLES)
def test_a_motive_disables_the_worker_for_its_reason_and_marks_it(motive: str, code: Code, snapshot: Snapshot) -> None:
    step = step_of_w1(snapshot)
    mark = next(each.mark for each in MOTIVES if each.name == motive)
    assert (step.rule, type(step.action), step.verdict.reason.code) == (motive, Disable, code)
    assert step.note.disabling is mark


@pytest.mark.parametrize("motive", MOTIVES, ids=lambda motive: motive.name)
def test_the_reasons_of_a_motive_are_those_of_its_example_snapshots(motive: Motive) -> None:
    name = motive.name
    shown = {code for each, code, _ in EXAMPLES if each == name}
    assert shown, f"no snapshot of EXAMPLES shows {name}"
    if name not in FROM_A_VERDICT:
        assert shown == set(motive.reasons)
    assert bool(motive.reasons) == (name not in FROM_A_VERDICT)
