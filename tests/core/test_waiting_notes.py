"""Jobs that have waited long get the reason into their context: seldom, many at a time, and not once they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoscaler.core.actions import TellWaiting
from autoscaler.core.model.complexes import runs
from autoscaler.core.model.memory import Memory, UnsatisfiableNote, WaitingNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.waiting_notes import (
    AGAIN,
    AT_ONCE,
    LONG,
    MOST,
    MOST_OF_USER,
    RETRY,
    TEXT_FACTS,
    TOGETHER,
    Waiting,
    WaitingNotes,
    stable,
    tell_waiting,
    with_failures,
)
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot
from autoscaler.report.reasons.waiting import TEXTS, waiting_text
from autoscaler.report.wording import facts_of
from tests.core.building import NOW, a_host, a_job, a_snapshot, a_worker, jobs

CAPPED = because(Code.EXPIRED, lacking=5, fit=0, limit_s=30.0).then(because(Code.CAPPED, cap="max_workers", limit=1))
LIMIT = because(Code.CAPPED, cap="max_workers")
QUOTA = because(Code.BEYOND_QUOTA, quota="licences", limit="slots=4")


class Passes:
    """Passes over waiting jobs, each with the memory of the one before."""

    def __init__(self, *, wanted: bool = True, allowed: bool = True) -> None:
        self.wanted, self.allowed = wanted, allowed
        self.memory, self.now = Memory(), NOW
        self.blocked: Reason | None = None
        self.others: frozenset[int] = frozenset()

    def __call__(
        self,
        waiting: Sequence[int],
        reason: Reason = CAPPED,
        *,
        after: float = 10.0,
        runs: int = 0,
        waited: float = LONG,
    ) -> tuple[TellWaiting, ...]:
        """What is written in a pass in which these jobs wait for that reason. `runs`: jobs 9000… that run."""
        self.now += after
        category = replace(jobs(1), jobs=tuple(waiting), tasks=("",) * len(waiting), count=len(waiting))
        category = replace(category, submitted=(NOW + 10.0 - waited,) * len(waiting))
        verdict = JobCategoryVerdict(category.jobs, category.tasks, category.ask, category.count, True, waited, reason)
        cluster = a_snapshot(category, a_host(used=runs)).cluster
        notes = tell_waiting(
            Waiting(
                replace(cluster, context_allowed=self.allowed),
                self.memory,
                (verdict,),
                self.now,
                wanted=self.wanted,
                blocked=self.blocked,
                others=self.others,
            )
        )
        self._remember(notes)
        return notes.actions

    def fail(self, *jobs: int, refused: bool = False) -> None:
        """The journal has it that the last pass's command for these failed."""
        failed = [(tuple(map(str, jobs)), refused)]
        self.memory = replace(self.memory, waiting_notes=with_failures(self.memory, failed))

    def _remember(self, notes: WaitingNotes) -> None:
        at = self.now if notes.actions else self.memory.waiting_written_at
        self.memory = Memory(waiting_notes=notes.notes, waiting_written_at=at)


def test_jobs_with_the_same_reason_are_annotated_together_once() -> None:
    passes = Passes()
    assert passes([3, 1, 2]) == (TellWaiting(("1", "2", "3"), LIMIT),)
    assert [passes([1, 2, 3]) for _ in range(3)] == [(), (), ()]


def test_without_a_failed_command_the_notes_are_unchanged() -> None:
    passes = Passes()
    passes([1, 2])
    before = passes.memory.waiting_notes
    passes.fail()
    assert passes.memory.waiting_notes == before != ()


def test_a_job_that_has_not_waited_long_is_not_annotated() -> None:
    assert Passes()([1], waited=LONG - 1) == ()


def test_no_job_is_annotated_if_the_setting_is_off() -> None:
    assert Passes(wanted=False)([1]) == ()


def test_no_job_is_annotated_if_a_jsv_does_not_allow_context_changes() -> None:
    assert Passes(allowed=False)([1]) == ()


def test_a_job_is_annotated_only_after_a_pause_ends() -> None:
    passes = Passes()
    passes.blocked = because(Code.PAUSED, by="anna")
    assert (passes([1]), passes.memory.waiting_notes) == ((), ())
    passes.blocked = None
    assert passes([1]) == (TellWaiting(("1",), LIMIT),)


def test_a_changed_reason_is_written_an_hour_later_at_the_earliest() -> None:
    passes = Passes()
    passes([1])
    assert passes([1], QUOTA, after=AGAIN - 1) == ()
    assert passes([1], QUOTA, after=1) == (TellWaiting(("1",), because(Code.BEYOND_QUOTA, quota="licences")),)


def test_a_reason_with_other_figures_is_not_written_again() -> None:
    passes = Passes()
    passes([1])
    other = because(Code.NOT_EXPIRED, lacking=7).then(because(Code.CAPPED, cap="max_workers", limit=9))
    assert passes([1], other, after=2 * AGAIN) == ()


def test_the_annotation_is_removed_when_the_job_runs() -> None:
    passes = Passes()
    passes([9000, 9001])
    assert passes([9001], runs=1) == (TellWaiting(("9000",), because(Code.WAITS_NO_MORE), over=True),)
    assert passes([9001], runs=1) == ()


def test_a_job_that_is_gone_is_forgotten_without_a_command() -> None:
    passes = Passes()
    passes([1, 2])
    assert (passes([2]), [note.jobs for note in passes.memory.waiting_notes]) == ((), [((2, 2),)])


def test_all_annotations_are_removed_when_the_setting_is_turned_off() -> None:
    passes = Passes()
    passes([1, 2])
    passes.wanted = False
    assert passes([1, 2]) == (TellWaiting(("1", "2"), because(Code.WAITS_NO_MORE), over=True),)
    assert (passes([1, 2]), passes.memory.waiting_notes) == ((), ())


def test_only_a_failed_annotation_is_retried() -> None:
    passes = Passes()
    passes([1, 2])
    passes([1, 2, 3])
    passes.fail(3)
    assert passes([1, 2, 3], after=RETRY - 1) == ()
    assert passes([1, 2, 3], after=1.0) == (TellWaiting(("3",), LIMIT),)
    assert passes([1, 2, 3], after=2 * AGAIN) == ()


def test_an_annotation_that_grid_engine_refused_is_retried_after_an_hour() -> None:
    passes = Passes()
    passes([1, 2])
    passes.fail(1, 2, refused=True)
    assert passes([1, 2], after=AGAIN - 1) == ()
    assert passes([1, 2], after=1.0) == (TellWaiting(("1", "2"), LIMIT),)


def test_a_failed_removal_of_an_annotation_is_retried_while_the_job_runs() -> None:
    passes, over = Passes(), (TellWaiting(("9000",), because(Code.WAITS_NO_MORE), over=True),)
    passes([9000])
    assert passes([], runs=1) == over
    passes.fail(9000)
    assert passes([], runs=1, after=RETRY - 1) == ()
    assert passes([], runs=1, after=1.0) == over
    assert (passes([], runs=1), passes.memory.waiting_notes) == ((), ())


def test_retries_keep_to_the_rate() -> None:
    passes, waiting = Passes(), range(1, 1001)
    for _ in range(3):
        done = passes(waiting)
        passes.fail(*(int(job) for action in done for job in action.jobs))
    commands = [passes(waiting, after=after) for after in (RETRY, 0.5, 0.5)]
    assert [len(each) for each in commands] == [AT_ONCE, 0, AT_ONCE]


def test_jobs_that_we_annotated_for_something_else_are_not_annotated() -> None:
    passes = Passes()
    passes([1, 2])
    passes.others = frozenset({1, 3})
    assert passes([1, 2, 3], QUOTA, after=2 * AGAIN) == (
        TellWaiting(("2",), because(Code.BEYOND_QUOTA, quota="licences")),
    )


def test_at_most_two_commands_a_second_are_run() -> None:
    passes, commands, waiting = Passes(), list[tuple[float, int]](), range(1, 3001)
    while passes.now < NOW + 30:
        commands += [(passes.now, len(action.jobs)) for action in passes(waiting, after=0.3)]
    for begin, _ in commands:
        assert sum(begin <= at < begin + 1.0 for at, _ in commands) <= AT_ONCE
    assert max(count for _, count in commands) == TOGETHER
    assert sum(count for _, count in commands) == 3000


@pytest.mark.thorough
def test_the_number_of_remembered_jobs_is_bounded() -> None:
    passes = Passes()
    for _ in range(2 * MOST // TOGETHER):
        passes(range(1, MOST + 500), after=1.0)
    assert sum(last - first + 1 for note in passes.memory.waiting_notes for first, last in note.jobs) == MOST


def test_runs_are_ranges_of_consecutive_numbers() -> None:
    assert runs([5, 1, 2, 3, 7, 6]) == ((1, 3), (5, 7))


def limited(*more: object, **policy: object) -> Snapshot:
    """Nine jobs that have waited long, and a limit that allows no worker."""
    snapshot = a_snapshot(jobs(9, waited=900.0), a_worker("w1", used=2), *more, limits=Limits(max_workers=1))  # type: ignore[arg-type]
    return replace(snapshot, policy=replace(snapshot.policy, **policy))  # type: ignore[arg-type]


def written_by(made: Plan) -> list[TellWaiting]:
    return [action for action in made.actions if isinstance(action, TellWaiting)]


def test_a_plan_annotates_waiting_jobs_if_configured_and_not_paused() -> None:
    made = plan(limited(job_context=True))
    assert written_by(made) == [TellWaiting(tuple(map(str, range(1, 10))), LIMIT)]
    assert made.memory.waiting_notes
    assert (written_by(plan(limited())), written_by(plan(limited(Overrides(paused=True), job_context=True)))) == (
        [],
        [],
    )


def test_a_plan_does_not_annotate_a_suspected_unsatisfiable_job() -> None:
    suspected = Memory(passes=7, unsatisfiable_jobs={1: UnsatisfiableNote(annotated=LIMIT)})
    assert [action.jobs[0] for action in written_by(plan(limited(suspected, job_context=True)))] == ["2"]


@pytest.mark.parametrize("code", TEXT_FACTS)
def test_an_annotation_has_only_names_no_figures_and_no_comma(code: Code) -> None:
    needed, optional = facts_of(TEXTS[code])
    assert needed | optional == set(TEXT_FACTS[code])
    assert not any(name.endswith(("_s", "_at")) for name in needed)
    shown = waiting_text(because(code, **dict.fromkeys(TEXT_FACTS[code], "name")))
    assert not any(letter.isdigit() or letter == "," for letter in shown)


def test_there_is_a_text_for_every_annotated_reason() -> None:
    assert TEXTS.keys() == TEXT_FACTS.keys()


def test_the_text_is_of_the_innermost_cause_alone() -> None:
    capped = because(Code.EXPIRED).then(because(Code.LAUNCH_WANTED).then(LIMIT)).then(because(Code.NO_SWAP))
    assert stable(capped) == LIMIT
    assert stable(because(Code.FITS)) is None
    assert stable(because(Code.HELD, state="hqw").then(LIMIT)) is None


def test_the_text_names_the_licence_that_the_cell_lacks_and_not_a_doubt_about_another_queue() -> None:
    doubt = because(Code.UNPROVEN).then(because(Code.RESTRICTED_QUEUE, queue="wind.q", by=("users",)))
    lacks = because(Code.TOO_MUCH_FOR_CELL, resource="lic", requested="5", slots=None, most="1").then(doubt)
    text = stable(lacks)
    assert text is not None
    assert "it requests more lic than the whole cell has" in waiting_text(text)
    lacks = because(Code.NO_SUCH_RESOURCE, resource="gpu", requested="1").then(doubt)
    assert stable(lacks) == because(Code.NO_SUCH_RESOURCE, resource="gpu")


def test_what_keeps_a_proof_back_is_never_the_text() -> None:
    none = because(Code.UNPROVEN).then(because(Code.NO_WORKER_ALLOWED, node_array="execute"))
    assert stable(because(Code.TOO_LARGE_FOR_ONE_HOST).then(none)) == because(Code.TOO_LARGE_FOR_ONE_HOST)


def told_at(now: float, world: Snapshot, memory: Memory, verdicts: Sequence[JobCategoryVerdict]) -> WaitingNotes:
    return tell_waiting(Waiting(world.cluster, memory, verdicts, now, wanted=True, blocked=None, others=frozenset()))


def test_one_owner_whose_jobs_each_have_a_text_of_their_own_keeps_no_job_of_another_from_having_one() -> None:
    """Each command is for one text, and there are two in a pass."""
    missing = [because(Code.QUEUE_MISSING, what=f"no{number}.q") for number in range(1, 400)]
    eve = [a_job(number, owner="eve", waited=2 * LONG) for number in range(1, 400)]
    ann = a_job(999, owner="ann", waited=LONG)
    verdicts = [
        JobCategoryVerdict(each.jobs, ("",), each.ask, 1, counted=False, waited=LONG, reason=reason)
        for each, reason in zip((*eve, ann), (*missing, QUOTA), strict=True)
    ]
    world, memory, told = a_snapshot(*eve, ann), Memory(), list[str]()
    for at in range(3):
        now = NOW + 10.0 * at
        made = tell_waiting(
            Waiting(world.cluster, memory, verdicts, now, wanted=True, blocked=None, others=frozenset())
        )
        told += [job for action in made.actions for job in action.jobs]
        memory = replace(memory, waiting_notes=made.notes, waiting_written_at=now)
    assert "999" in told


def test_one_owner_has_a_part_of_the_jobs_that_have_a_text() -> None:
    eve, ann = jobs(MOST + 100, owner="eve", waited=2 * LONG), jobs(1, MOST + 200, owner="ann", waited=LONG)
    memory = Memory(waiting_notes=(WaitingNote(QUOTA, NOW - 60.0, ((1, MOST_OF_USER),)),))
    verdicts = [
        JobCategoryVerdict(each.jobs, each.tasks, each.ask, each.count, counted=False, waited=LONG, reason=QUOTA)
        for each in (eve, ann)
    ]
    world = a_snapshot(eve, ann)
    made = told_at(NOW, world, memory, verdicts)
    assert [action.jobs for action in made.actions] == [(str(MOST + 200),)]
