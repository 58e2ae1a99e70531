"""The tables of phases and steps: every observation has a phase, every step a row, and every phase is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoscaler.core import plan as planning
from autoscaler.core.actions import Action, Disable, Enable, Enrol, Remove, Terminate
from autoscaler.core.model.fleet import FailureKind, MachineState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.transitions import SHOWN, TABLES, steps
from autoscaler.core.workers.phases import (
    BY_PHASE,
    CONDITIONS,
    DECIDING,
    PHASES,
    Condition,
    Conditions,
    Phase,
    WorkerFacts,
    conditions_of,
    phase_of,
)
from autoscaler.core.workers.settled import settled
from autoscaler.core.workers.step import Rule, WorkerStep, always
from tests.core.building import NOW, a_snapshot, a_worker
from tests.core.transition_rows import by_its_row, described, observed_in, steps_of
from tests.core.worker_observations import (
    AGES,
    HOSTS,
    LISTED,
    MARKS,
    NAMES,
    NOTICES,
    OURS,
    Observation,
    snapshot_of,
)

SOME_TIMES = st.sampled_from((None, None, *AGES))
OBSERVATIONS = st.builds(
    Observation,
    listed=st.sampled_from((MachineState.RUNNING, *LISTED)),
    name=st.sampled_from(NAMES),
    host=st.sampled_from(HOSTS),
    heard=st.booleans(),
    known=st.booleans(),
    age=st.sampled_from(AGES),
    mark=st.sampled_from(MARKS),
    disabled=st.sampled_from(AGES),
    seen_disabled=st.booleans(),
    empty=SOME_TIMES,
    idle=SOME_TIMES,
    silent=st.sampled_from((None, 5.0, 100.0, 1000.0)),
    joined=st.booleans(),
    retired=SOME_TIMES,
    fenced=SOME_TIMES,
    enabled=SOME_TIMES,
    ended=SOME_TIMES,
    notice=st.sampled_from(NOTICES),
    array=st.sampled_from(("execute", "execute", "forgotten")),
    enrols_itself=st.booleans(),
    failure=st.sampled_from((None, FailureKind.BOOT)),
    taken=st.sampled_from(("", "", "newer", "older")),
    others_heard=st.booleans(),
    override=st.sampled_from(("", "", "drain", "keep", "stop drain", "stop now")),
    vouched=st.booleans(),
    waiting=st.sampled_from((0, 0, 5)),
)
WALK = settings(max_examples=200, deadline=None)


# -- every observation ---------------------------------------------------------------------------------------------


@given(seen=OBSERVATIONS)
@WALK
def test_every_observed_worker_has_a_phase_and_at_most_one_decisive_condition(seen: Observation) -> None:
    for worker in observed_in(snapshot_of(seen)).known:
        assert worker.phase in BY_PHASE
        assert worker.decisive is None or worker.decisive in worker.conditions
        assert worker.conditions.keys() <= set(Condition)


@given(seen=OBSERVATIONS)
@example(Observation(mark=Disabling.IDLE, host="busy", silent=1000.0, heard=False))
@example(Observation(host="closed and busy", heard=False, mark=Disabling.INTERRUPTED, silent=1000.0))
@WALK
def test_every_step_has_a_matching_row(seen: Observation) -> None:
    snapshot = snapshot_of(seen)
    steps = steps_of(snapshot)
    assert {step.worker.worker.id for step in steps} == {w.worker.id for w in observed_in(snapshot).known}
    for step in steps:
        assert by_its_row(step), described(step)


def follows(step: WorkerStep, snapshot: Snapshot) -> Phase:
    """The phase that a worker has by what is remembered after its step."""
    worker = step.worker
    return phase_of(
        WorkerFacts(
            worker.worker,
            worker.host,
            step.note,
            worker.array,
            snapshot.now,
            before=worker.note,
            notice=worker.notice,
            enrols_itself=snapshot.fleet.enrols_itself,
            missing_values=worker.missing_values,
            name_held=Condition.NAME_TAKEN if worker.decisive is Condition.NAME_TAKEN else None,
            listed=Condition.UNLISTED not in worker.conditions,
        )
    )


def led_to(step: WorkerStep) -> Phase:
    """The phase of the row of a step."""
    assert step.row is not None
    return step.row.to or step.worker.phase


@given(seen=OBSERVATIONS)
@example(Observation(age=20.0, mark=Disabling.SILENT, disabled=20.0, override="drain"))
@example(
    Observation(
        listed=MachineState.PENDING, host="closed", heard=False, known=False, failure=FailureKind.BOOT, override="drain"
    )
)
@WALK
def test_a_step_leads_to_the_phase_of_its_row(seen: Observation) -> None:
    snapshot = snapshot_of(seen)
    for step in steps_of(snapshot):
        if step.action is not None and not isinstance(step.action, Enable):  # the next observation shows it
            assert follows(step, snapshot) == led_to(step), described(step)


REACHED = (
    ("give_back_unneeded", Terminate, Observation(host="none", override="drain")),
    ("give_back_unneeded", Disable, Observation(heard=False, known=False, age=20.0, override="stop drain")),
    ("give_back_unneeded", Disable, Observation(heard=False, mark=Disabling.ENROL, joined=False, override="drain")),
    ("give_up", Terminate, Observation(host="none", failure=FailureKind.BOOT)),
    ("give_up", Disable, Observation(mark=Disabling.ENROL, disabled=4000.0, enrols_itself=True)),
    ("give_up", Disable, Observation(listed=MachineState.PENDING, heard=False, joined=False)),
    ("give_up", Remove, Observation(host="unqueued", mark=Disabling.ENROL, disabled=4000.0, empty=300.0)),
    ("enable_joined", Enable, Observation(host="reserved", mark=Disabling.ENROL)),
    ("complete_host", Enrol, Observation(joined=False, enrols_itself=True)),
    ("enrol_when_up", Enrol, Observation(host="none")),
    ("StoppedNow", Disable, Observation(override="stop now")),
    ("Drained", Disable, Observation(mark=Disabling.AUTO_STOP, override="drain")),
    ("Quarantined", Disable, Observation(host="error")),
    ("Advised", Disable, Observation(notice="rebalance")),
    ("Stopped", Disable, Observation(mark=Disabling.ENROL, override="stop drain")),
    ("IdleTooLong", Disable, Observation(host="unqueued", idle=4000.0)),
    ("end_removed", Terminate, Observation(host="none", retired=4000.0)),
    ("enable_kept", Enable, Observation(host="reserved", mark=Disabling.ADVISED, override="keep")),
    ("enable_needed", Enable, Observation(host="unqueued", mark=Disabling.SWAP)),
    ("drain_further", Disable, Observation(mark=Disabling.GROUP, seen_disabled=False)),
    ("drain_further", Remove, Observation(host="closed", mark=Disabling.ADVISED, empty=300.0)),
    ("remove_gone", Disable, Observation(listed="left out and gone")),
    ("remove_gone", Remove, Observation(listed=MachineState.TERMINATED, host="unqueued")),
    ("confirm_end", Terminate, Observation(listed="left out", heard=False, silent=1000.0)),
    ("watch_fenced", Terminate, Observation(heard=False, fenced=300.0)),
    ("watch_fenced", Enable, Observation(host="reserved", fenced=4000.0)),
    ("disable_ending", Disable, Observation(listed=MachineState.STOPPING, mark=Disabling.ADVISED)),
    (
        "disable_ending",
        Terminate,
        Observation(
            listed=MachineState.STOPPING, host="closed and busy", heard=False, mark=Disabling.COMMAND, silent=1000.0
        ),
    ),
    ("leave_before_interruption", Terminate, Observation(host="none", notice="terminate")),
    ("leave_before_interruption", Disable, Observation(mark=Disabling.AUTO_STOP, notice="terminate")),
    (
        "leave_before_interruption",
        Remove,
        Observation(host="bare", mark=Disabling.GROUP, empty=20.0, notice="terminate"),
    ),
    ("withdrawn_notice", Enable, Observation(host="reserved", mark=Disabling.INTERRUPTED)),
    (
        "fence_cut_off",
        Terminate,
        Observation(host="reserved", heard=False, mark=Disabling.STOP, silent=1000.0, vouched=True),
    ),
    ("watch_silent", Disable, Observation(heard=False, override="stop drain")),
    ("watch_silent", Enable, Observation(host="closed", mark=Disabling.LOST)),
    ("drain_by_command", Terminate, Observation(host="none", array="other", override="drain")),
    ("drain_by_command", Disable, Observation(host="partly", override="drain")),
    ("drain_by_command", Disable, Observation(host="closed", fenced=300.0, array="forgotten", override="drain")),
    (
        "drain_by_command",
        Remove,
        Observation(host="closed", empty=4000.0, joined=False, array="other", enrols_itself=True, override="drain"),
    ),
    (
        "drain_by_command",
        Remove,
        Observation(host="closed", mark=Disabling.GROUP, empty=300.0, fenced=4000.0, array="other", override="drain"),
    ),
    ("give_back_unneeded", Remove, Observation(host="closed", mark=Disabling.ENROL, empty=300.0, override="drain")),
    ("watch_silent", Disable, Observation(heard=False, silent=100.0)),
    (
        "watch_silent",
        Remove,
        Observation(host="closed", heard=False, mark=Disabling.SILENT, empty=300.0, silent=1000.0),
    ),
    (
        "watch_silent",
        Terminate,
        Observation(host="closed and busy", heard=False, mark=Disabling.SILENT, silent=1000.0, vouched=True),
    ),
    (
        "leave_before_interruption",
        Terminate,
        Observation(
            host="closed and busy",
            heard=False,
            mark=Disabling.INTERRUPTED,
            silent=1000.0,
            notice="terminate",
            vouched=True,
        ),
    ),
    (
        "watch_silent",
        Disable,
        Observation(heard=False, mark=Disabling.INTERRUPTED, seen_disabled=False, override="drain"),
    ),
    (
        "watch_silent",
        Disable,
        Observation(heard=False, mark=Disabling.INTERRUPTED, disabled=4000.0, seen_disabled=False, silent=100.0),
    ),
)
"""Of each row with an action that one worker alone can come to: an observation."""


@pytest.mark.parametrize(("rule", "action", "seen"), REACHED)
def test_every_row_with_an_action_has_an_observation_that_reaches_it(
    rule: str, action: type[Action], seen: Observation
) -> None:
    snapshot = snapshot_of(seen)
    step = next(step for step in steps_of(snapshot) if step.worker.worker.id == OURS)
    assert (step.rule, type(step.action)) == (rule, action)
    assert by_its_row(step), described(step)
    assert action is Enable or follows(step, snapshot) == led_to(step)


UNLISTED = (
    Observation(listed="left out", host="alarm", heard=False, age=300.0, joined=False),
    Observation(listed="left out", host="error", heard=False, age=20.0, silent=100.0, joined=False, taken="newer"),
    Observation(listed="left out"),
    Observation(listed="left out", host="closed", mark=Disabling.IDLE),
    Observation(listed="left out", host="closed", mark=Disabling.ENROL),
    Observation(listed="left out", host="unqueued", mark=Disabling.IDLE, retired=20.0),
    Observation(listed="left out", host="closed", mark=Disabling.LOST, fenced=20.0),
)


@pytest.mark.parametrize("seen", UNLISTED)
def test_a_worker_unlisted_in_any_phase_is_left_alone_at_first(seen: Observation) -> None:
    step = next(step for step in steps_of(snapshot_of(seen)) if step.worker.worker.id == OURS)
    assert (step.rule, step.action, step.verdict.reason.code) == ("confirm_end", None, Code.NOT_LISTED)


def test_the_unlisted_examples_cover_all_phases() -> None:
    phases = {worker.phase for seen in UNLISTED for worker in observed_in(snapshot_of(seen)).unlisted}
    assert phases == set(Phase) - {Phase.ORDERED, Phase.GONE}


@given(seen=OBSERVATIONS)
@WALK
def test_after_a_store_loss_no_healthy_worker_is_removed_at_the_first_observation(seen: Observation) -> None:
    snapshot = replace(snapshot_of(replace(seen, override="")), memory=Memory())
    for step in steps_of(snapshot):
        failed = Condition.FAILED in step.worker.conditions
        noticed = step.worker.decisive is Condition.INTERRUPTED
        assert failed or noticed or not isinstance(step.action, Remove | Terminate), described(step)


# -- the tables ----------------------------------------------------------------------------------------------------


ROWS = [row for rules in TABLES for rule in rules for row in rule.rows]
WAYS = [*((row.sources, row.to) for row in SHOWN), *((sources, row.to) for row, sources in steps())]


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_is_left(phase: Phase) -> None:
    assert any(phase in sources and to not in (None, phase) for sources, to in WAYS) or phase is Phase.GONE


def test_every_phase_but_the_first_is_reached() -> None:
    assert {to for _, to in WAYS} - {None} == set(Phase) - {Phase.ORDERED}


def test_every_phase_and_condition_has_a_row() -> None:
    assert {row.phase for row in PHASES} == set(Phase) - {Phase.ORDERED}
    assert [row.condition for row in CONDITIONS] == list(Condition)
    assert BY_PHASE.keys() == set(Phase) - {Phase.ORDERED}
    assert {row.condition for row in DECIDING} <= set(Condition)


HOLDS: Mapping[Condition, tuple[Observation, Observation]] = {
    Condition.UNLISTED: (Observation(listed="left out"), Observation()),
    Condition.UNKNOWN_ARRAY: (
        Observation(array="forgotten"),
        Observation(array="forgotten", listed=MachineState.STOPPING),
    ),
    Condition.NAME_TAKEN: (Observation(host="busy", age=300.0, taken="newer"), Observation(host="busy", age=300.0)),
    Condition.NAME_AWAITED: (
        Observation(heard=False, age=20.0, joined=False, taken="older"),
        Observation(heard=True, age=20.0, joined=False, taken="older"),
    ),
    Condition.FENCED: (Observation(fenced=300.0), Observation(host="none", fenced=300.0)),
    Condition.DISABLED_BY_HAND: (Observation(host="closed"), Observation(host="closed", mark=Disabling.IDLE)),
    Condition.INTERRUPTED: (Observation(notice="terminate"), Observation(notice="rebalance")),
    Condition.ADVISED: (Observation(notice="rebalance"), Observation(notice="terminate")),
    Condition.CORDONED: (
        Observation(host="closed", mark=Disabling.SILENT),
        Observation(host="closed", mark=Disabling.IDLE),
    ),
    Condition.SILENT: (Observation(heard=False), Observation(host="none", heard=False)),
    Condition.SILENT_TOO_LONG: (
        Observation(heard=False, silent=600.0),
        Observation(heard=False, silent=589.0),  # of 600 s, ten of which pass until this observation
    ),
    Condition.CUT_OFF: (
        Observation(host="closed and busy", heard=False, mark=Disabling.IDLE, silent=1000.0),
        Observation(host="closed", heard=False, mark=Disabling.IDLE, silent=1000.0),
    ),
    Condition.QUARANTINED: (
        Observation(host="closed", mark=Disabling.BROKEN),
        Observation(host="closed", mark=Disabling.GROUP),
    ),
    Condition.FOR_GOOD: (
        Observation(host="closed", mark=Disabling.GROUP),
        Observation(host="closed", mark=Disabling.IDLE),
    ),
    Condition.INCOMPLETE: (
        Observation(host="unqueued", mark=Disabling.ENROL, joined=False),
        Observation(host="closed", mark=Disabling.ENROL, joined=False),
    ),
    Condition.JOINED: (
        Observation(host="closed", mark=Disabling.ENROL),
        Observation(host="closed", mark=Disabling.ENROL, heard=False),
    ),
    Condition.FAILED: (
        Observation(host="none", failure=FailureKind.BOOT),
        Observation(host="open", failure=FailureKind.BOOT),
    ),
    Condition.OVERDUE: (
        Observation(host="none", joined=False, age=900.0),
        Observation(host="none", joined=False, age=899.0),
    ),
    Condition.IDLE: (Observation(idle=300.0), Observation(host="busy", idle=300.0)),
    Condition.IN_ALARM: (Observation(host="alarm"), Observation(host="error")),
    Condition.EMPTY: (
        Observation(host="closed", mark=Disabling.IDLE),
        Observation(host="closed and busy", mark=Disabling.IDLE),
    ),
    Condition.DRAINED: (
        Observation(host="closed", mark=Disabling.IDLE, empty=15.0),
        Observation(host="closed", mark=Disabling.IDLE, empty=14.0),
    ),
}
"""Of each condition: an observation in which it holds, and one in which it just does not."""


def conditions_in(seen: Observation) -> Conditions:
    observed = observed_in(snapshot_of(seen))
    return next(each.conditions for each in (*observed.known, *observed.unlisted) if each.worker.id == OURS)


@pytest.mark.parametrize("condition", Condition)
def test_every_condition_has_an_observation_in_which_it_holds_and_one_in_which_it_just_does_not(
    condition: Condition,
) -> None:
    assert condition in HOLDS, f"HOLDS has no observations for the condition `{condition}`"
    with_it, without = HOLDS[condition]
    assert condition in conditions_in(with_it)
    assert condition not in conditions_in(without)


@pytest.mark.parametrize("rules", TABLES)
def test_the_last_row_of_every_table_always_holds(rules: Sequence[Rule[Any]]) -> None:
    rule = rules[-1]
    row = rule.rows[-1]
    assert (rule.applies, row.holds, row.sources) == (always, always, frozenset(Phase))


@pytest.mark.parametrize("rules", TABLES)
def test_no_row_hides_the_rows_after_it(rules: Sequence[Rule[Any]]) -> None:
    hiding = [
        row for rule in rules for row in rule.rows[:-1] if row.holds is always and row.sources == frozenset(Phase)
    ]
    assert hiding == []
    assert [rule.name for rule in rules[:-1] if rule.applies is always and rule.rows[-1].holds is always] == []
    assert len({rule.name for rule in rules}) == len(rules)


def test_only_a_row_with_an_action_leads_to_another_phase() -> None:
    assert [
        row.when for row in ROWS if row.action is None and (row.to is not None or (row.reasons and not row.way_out))
    ] == []


def a_moment(field: Field[Any]) -> bool:
    return field.type == "float | None" and field.name != "price_per_hour"


@pytest.mark.parametrize("name", [each.name for each in fields(WorkerNote) if a_moment(each)])
def test_a_state_that_is_used_again_does_not_depend_on_the_time(name: str) -> None:
    """What a note remembers may make a condition hold after a while; `settled` has to know that."""
    worker = observed_in(a_snapshot(a_worker("w1", used=2))).known[0]
    assert settled(worker)
    remembered: dict[str, Any] = {name: NOW}
    seen = replace(worker, note=replace(worker.note, **remembered))
    if settled(seen):
        early, late = (WorkerFacts(seen.worker, seen.host, seen.note, seen.array, at) for at in (NOW, NOW + 1e7))
        assert (phase_of(early), conditions_of(early).keys()) == (phase_of(late), conditions_of(late).keys())


# -- the same phase with the store lost ----------------------------------------------------------------------------

DERIVABLE = (
    Observation(idle=60.0),
    Observation(host="busy"),
    Observation(heard=False, host="busy"),
    Observation(host="none", joined=False, age=20.0),
    Observation(host="none", name=None, joined=False, age=20.0),
    Observation(listed=MachineState.STOPPING),
    Observation(listed=MachineState.TERMINATED, host="none"),
)


@pytest.mark.parametrize("seen", DERIVABLE)
def test_after_a_store_loss_the_same_phase_is_found_within_two_observations(seen: Observation) -> None:
    snapshot = snapshot_of(seen)
    before = observed_in(snapshot).known[0].phase
    first = planning.plan(replace(snapshot, memory=Memory()))
    again = observed_in(replace(snapshot, memory=first.memory, now=NOW + 30))
    assert [worker.phase for worker in again.known] == [before]


@pytest.mark.parametrize("mark", [mark for mark in Disabling if mark is not Disabling.ENROL])
def test_after_a_store_loss_a_worker_we_disabled_counts_as_hand_disabled(mark: Disabling) -> None:
    """What disabled it is unknown, and to leave it alone is safe (rules 4 and 8)."""
    snapshot = replace(snapshot_of(Observation(mark=mark, host="closed")), memory=Memory())
    worker = observed_in(snapshot).known[0]
    assert (worker.phase, worker.decisive) == (Phase.READY, Condition.DISABLED_BY_HAND)
