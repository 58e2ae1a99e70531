"""What one owner of jobs causes counts for that owner, and changes nothing of what others get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Hold, Launch, Release, Remove, Terminate
from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.limits.circuit_breaker import slowed_owners, tripped
from autoscaler.core.model.cluster import JobCategory, JobRequest
from autoscaler.core.model.evidence import Answer
from autoscaler.core.model.fleet import OrderedFor, OrderState
from autoscaler.core.model.memory import Event, LaunchTrial, OwnerSeen
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.owners import main_owner, owner_of
from autoscaler.core.plan import plan
from autoscaler.core.policy import CircuitBreaker, Limits, OwnerKind
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    Details,
    a_job,
    a_snapshot,
    a_worker,
    an_order,
    codes,
    details_of,
    jobs,
    launched,
    verdict_of,
)
from tests.core.test_deadlock import History, a_history, jobs_acted_on, to_the_end
from tests.properties.unhelpful_launches import Cause, UnhelpfulLaunches

TWO = CircuitBreaker(window=600.0, max_kills=2, max_removals=2)


class Carried(History):
    """One in which jobs that are deleted or held no longer wait."""

    def observe(self, later: float = 0.0) -> Plan:
        made = super().observe(later)
        gone = set(map(int, jobs_acted_on(made)))
        self.job_categories(*(left for each in self.world.cluster.job_categories if (left := without(each, gone))))
        return made


def without(category: JobCategory, gone: set[int]) -> JobCategory | None:
    left = [at for at, job in enumerate(category.jobs) if job not in gone]
    if not left:
        return None
    return replace(
        category,
        jobs=tuple(category.jobs[at] for at in left),
        tasks=tuple(category.tasks[at] for at in left),
        submitted=tuple(category.submitted[at] for at in left),
        count=len(left),
    )


def with_owners(
    *things: Any, circuit_breaker: CircuitBreaker = TWO, kind: OwnerKind = OwnerKind.USER, **rest: Any
) -> History:
    world = a_history(*things, **rest).world
    return Carried(replace(world, policy=replace(world.policy, circuit_breaker=circuit_breaker, owner=kind)))


def acted_on(history: History, passes: int, apart: float = 15.0) -> list[str]:
    return [job for _ in range(passes) for job in jobs_acted_on(history.observe(apart))]


def reason_of(made: Plan, job: int) -> list[Code]:
    (verdict,) = [each for each in made.job_categories if job in each.jobs]
    return codes(verdict.reason)


# -- jobs that can never run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", (1, 3, 40))
@pytest.mark.parametrize(
    "hostile",
    (
        {"slots": 100, "hard": {"lic": "0.02"}},
        {"hard": {"lic": "2", "mem_free": "900G"}},
        {"hard": {"lic": "2", "arch": "sparc"}},
    ),
)
def test_jobs_that_nothing_can_run_use_up_no_licence_of_others(hostile: dict[str, Any], count: int) -> None:
    """Each with a request of its own: where one no longer counts, the next one must not take its place."""
    own = a_job(1, slots=2, owner="ann", hard={"lic": "1"})
    theirs = [
        a_job(10 + n, owner="eve", waited=900.0, **{**hostile, "hard": {**hostile["hard"], "num_proc": f"{n + 1}"}})
        for n in range(count)
    ]
    alone = plan(a_snapshot(own, global_values={"lic": "2"}))
    made = plan(a_snapshot(own, *theirs, global_values={"lic": "2"}))
    assert (launched(made), reason_of(made, 1)) == (launched(alone), reason_of(alone, 1))
    assert launched(made) == {"m5.large": 1}
    assert Code.BEYOND_GLOBAL not in reason_of(made, 10)


def test_jobs_that_nothing_can_run_use_up_no_slots_of_a_parallel_environment() -> None:
    own = a_job(1, slots=2, owner="ann")
    theirs = [a_job(10 + n, slots=100 + n, owner="eve", waited=900.0) for n in range(5)]
    world = a_snapshot(own, *theirs)
    pes = {name: replace(pe, slots=200) for name, pe in world.cluster.pes.items()}
    made = plan(replace(world, cluster=replace(world.cluster, pes=pes)))
    assert launched(made) == {"m5.large": 1}


def test_jobs_that_can_run_use_up_licences_as_before() -> None:
    jobs_ = [a_job(n, owner="eve", hard={"lic": "1"}, waited=900.0) for n in range(1, 3)]
    unsatisfiable = a_job(5, owner="mal", hard={"lic": "1", "arch": "sparc"})
    made = plan(a_snapshot(*jobs_, unsatisfiable, a_job(9, owner="ann", hard={"lic": "1"}), global_values={"lic": "2"}))
    assert reason_of(made, 9) == [Code.BEYOND_GLOBAL]


@pytest.mark.parametrize("kill", (True, False))
def test_jobs_of_one_owner_that_can_never_run_do_not_stop_launches_for_others(kill: bool) -> None:
    history = with_owners(jobs(12, slots=64, owner="eve"), a_job(99, owner="ann"), kill=kill)
    assert len(acted_on(history, 12)) == 2
    made = history.observe(15)
    assert (launched(made), made.memory.circuit_breaker) == ({"m5.large": 1}, None)
    assert reason_of(made, 9)[-1] is Code.UNSATISFIABLE_OWNER_LIMIT


def test_a_job_that_can_never_run_expires_no_job_of_others() -> None:
    never, fresh = jobs(1, slots=64, waited=9000.0, owner="eve"), a_job(99, waited=5.0, owner="ann")
    history = with_owners(never, fresh)
    made = history.observe(1)
    assert (launched(made), reason_of(made, 99)) == ({}, [Code.NOT_EXPIRED])
    assert made.due is not None
    assert launched(history.observe(30)) == {"m5.large": 1}


def test_more_jobs_of_an_owner_are_deleted_once_the_window_has_passed() -> None:
    history = with_owners(jobs(12, slots=64, owner="eve"), a_job(99, owner="ann"))
    before = acted_on(history, 12)
    assert set(acted_on(history, 4, 300.0)) - set(before)


def test_in_a_cell_of_one_owner_too_many_deleted_jobs_stop_everything() -> None:
    history = with_owners(jobs(12, slots=64, owner="eve"), a_job(99, owner="eve"))
    acted_on(history, 12)
    made = history.observe(15)
    assert (launched(made), made.memory.circuit_breaker and made.memory.circuit_breaker["what"]) == (
        {},
        "deleted or held jobs",
    )


def test_whoever_has_a_job_is_an_owner_of_the_cell_even_if_it_does_not_count() -> None:
    made = plan(a_snapshot(a_job(1, owner="ann"), a_job(2, owner="bob", state="hqw")))
    assert [each.owner for each in made.memory.owners] == ["ann", "bob"]


def test_an_owner_counts_for_a_month_after_their_last_job() -> None:
    history = with_owners(a_job(99, owner="ann"))
    history.observe()
    history.job_categories(jobs(12, slots=64, owner="eve"))
    acted_on(history, 12)
    assert history.world.memory.circuit_breaker is None


def test_deleted_jobs_of_many_owners_stop_deleting_and_not_launches() -> None:
    owners = ("ann", "bob", "cat", "dan")
    history = with_owners(
        *(jobs(3, 10 * at, slots=64, owner=owner) for at, owner in enumerate(owners, start=1)),
        a_job(99, owner="fay"),
        circuit_breaker=replace(TWO, max_kills=3),
    )
    acted_on(history, 12)
    made = history.observe(15)
    assert (launched(made), made.memory.circuit_breaker) == ({"m5.large": 1}, None)
    assert made.memory.kills_stopped is not None
    assert made.memory.kills_stopped.code is Code.KILLS_STOPPED
    assert acted_on(history, 5, 600.0) == []


def test_held_jobs_are_released_also_while_none_may_be_held_any_more() -> None:
    history = a_history(a_job(slots=64, owner="ann"), kill=False)
    to_the_end(history)
    history.job_categories(a_job(slots=16, state="hqw", owner="ann"), a_job(2, slots=64, owner="bob"))
    history.world = replace(
        history.world, memory=replace(history.world.memory, kills_stopped=because(Code.KILLS_STOPPED))
    )
    made = [history.observe(later) for later in (1, 31, 1, 31)]
    kinds = {type(action) for each in made for action in each.actions}
    assert (Release in kinds, Hold in kinds) == (True, False)
    assert reason_of(made[-1], 2)[-1] is Code.KILLS_STOPPED


def test_the_many_jobs_of_one_owner_do_not_delay_what_is_asked_and_done_for_another() -> None:
    """Each is a question of its own, as their requests differ."""
    many = [a_job(number, slots=40 + number, waited=1000.0 - number, owner="eve") for number in range(1, 31)]
    alone = with_owners(a_job(99, slots=64, owner="ann"), a_job(98, owner="bob"), circuit_breaker=CircuitBreaker())
    among = with_owners(
        *many, a_job(99, slots=64, owner="ann"), a_job(98, owner="bob"), circuit_breaker=CircuitBreaker()
    )
    done = [[at for at in range(20) if "99" in jobs_acted_on(history.observe(15))] for history in (alone, among)]
    assert done[1][0] - done[0][0] <= 1


def test_more_jobs_than_are_examined_at_a_time_leave_room_for_those_of_others() -> None:
    history = with_owners(
        jobs(500, slots=64, waited=900.0, owner="eve"),
        a_job(999, slots=64, owner="ann"),
        circuit_breaker=CircuitBreaker(),
    )
    assert "999" in acted_on(history, 6)


@pytest.mark.parametrize("kind", (OwnerKind.PROJECT, OwnerKind.ACCOUNT))
def test_projects_and_accounts_can_tell_owners_apart(kind: OwnerKind) -> None:
    details = details_of(99, group="g", project="q", ckpt="", account="a")
    others = details_of(*range(1, 13), group="g", project="p", ckpt="", account="b")
    known = Details((*details.details, *others.details))
    history = with_owners(jobs(12, slots=64, owner="eve"), a_job(99, owner="eve"), known, kind=kind)
    assert len(acted_on(history, 12)) == 2
    assert launched(history.observe(15)) == {"m5.large": 1}


def test_jobs_of_one_owner_that_must_be_looked_up_leave_room_for_those_of_others() -> None:
    world = a_snapshot(
        *(a_job(number, tasks="1-2", count=2, waited=9000.0, owner="eve") for number in range(1, 301)),
        a_job(999, tasks="1-2", count=2, owner="ann"),
    )
    wanted = details_wanted(world.cluster.job_categories, world.memory, world.policy, NOW)
    assert (len(wanted), 999 in wanted) == (world.policy.detail_lookups, True)


def test_a_job_that_grid_engine_judges_for_too_long_leaves_no_job_of_others_without_an_answer() -> None:
    """A question about it ends without an answer about any of its jobs."""
    history = with_owners(
        a_job(1, slots=64, waited=900.0, owner="eve"),
        a_job(2, slots=64, owner="ann"),
        circuit_breaker=CircuitBreaker(),
    )
    history.answer = None
    answered: set[int] = set()
    for _ in range(8):
        made = history.observe(31)
        for action in made.actions:
            jobs_ = [question.job for question in getattr(action, "questions", ())]
            answered |= set() if 1 in jobs_ else set(jobs_)
    assert answered == {2}


def asked_about(history: History) -> list[list[int]]:
    """The jobs of each question of the next pass."""
    questions = (getattr(action, "questions", ()) for action in history.observe(31).actions)
    return [[question.job for question in each] for each in questions if each]


def test_each_owner_has_a_question_of_their_own_in_the_same_pass() -> None:
    """In a cell of one owner all jobs are in one question."""
    for owners, expected in ((("eve", "mal", "ann"), [[1, 2], [3], [4]]), (("ann", "ann", "ann"), [[1, 2, 3, 4]])):
        first, second, third = owners
        history = with_owners(
            a_job(1, slots=64, waited=900.0, owner=first),
            a_job(2, slots=64, waited=800.0, owner=first),
            a_job(3, slots=64, waited=700.0, owner=second),
            a_job(4, slots=64, owner=third),
        )
        history.observe()
        assert asked_about(history) == expected


def test_of_many_owners_those_are_asked_about_whose_turn_is_longest_ago() -> None:
    """Also if jobs of others that were asked about are gone, and new ones wait."""
    history = with_owners(*(a_job(number, slots=64, owner=f"u{number}") for number in range(1, 8)))
    history.observe()
    assert asked_about(history) == [[1], [2], [3], [4]]
    again = [a_job(10 + number, slots=64, waited=900.0 - 100 * number, owner=f"u{number}") for number in range(1, 8)]
    history.observe(1)  # sees the answers, and asks about the others
    history.observe(1)
    history.job_categories(*again)
    history.observe(1)
    assert asked_about(history) == [[11], [12], [13], [14]]
    history.job_categories(*again[:4], *(replace(each, jobs=(each.jobs[0] + 10,)) for each in again[4:]))
    history.observe(1)
    assert asked_about(history) == [[25], [26], [27]]


def test_of_owners_about_whose_jobs_there_was_no_answer_one_is_asked_about_in_a_pass() -> None:
    """Such a question may take long, also for a new job of theirs once the old one is deleted."""
    history = with_owners(*(a_job(number, slots=64, owner=f"u{number}") for number in (1, 2, 3)))
    history.answer = None
    history.observe()
    assert asked_about(history) == [[1], [2], [3]]
    history.job_categories(*(a_job(10 + number, slots=64, owner=f"u{number}") for number in (1, 2, 3, 4)))
    history.observe(1)
    assert asked_about(history) == [[14], [11]]
    history.answer = Answer.UNSATISFIABLE
    assert asked_about(history) == [[12]]


# -- removals ----------------------------------------------------------------------------------------------------------


class Emptied(UnhelpfulLaunches):
    """A cell where jobs are deleted as soon as their workers are there."""

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        return replace(seen, policy=replace(seen.policy, circuit_breaker=replace(TWO, window=7200.0)))


class Paced(UnhelpfulLaunches):
    """One with two launches in the window of the circuit breaker."""

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        return replace(seen, policy=replace(seen.policy, circuit_breaker=replace(TWO, max_launches=2, window=7200.0)))


@pytest.mark.parametrize("several", (True, False))
def test_removals_of_workers_that_one_owner_had_launched_stop_nothing_for_others(several: bool) -> None:
    world = Emptied(cause=Cause.FREE)
    world.ask(4, "ann" if several else "eve")
    world.step()
    world.waiting.clear()
    removed = 0
    for _ in range(4):
        asked = world.ask(4, "eve")
        before = len(world.launched)
        world.go_on(600.0, until=lambda before=before: len(world.launched) > before)  # type: ignore[misc]
        world.waiting.pop(asked, None)
        world.go_on(1200.0, until=lambda: not world.machines)
        removed += any(isinstance(action, Remove | Terminate) for made in world.plans for action in made.actions)
    assert removed
    assert (world.memory.circuit_breaker is None) == several


def test_what_one_owner_caused_is_left_out_and_what_others_caused_counts() -> None:
    eve, nobody = Event(NOW, 100, "execute", owner="eve"), Event(NOW, 3, "execute")
    assert tripped(TWO, (eve,), NOW, several_owners=True) is None
    assert tripped(TWO, (eve, nobody), NOW, several_owners=True) is not None
    assert tripped(TWO, (eve,), NOW) is not None


@pytest.mark.parametrize(("owners", "agreeing"), ((2, 1), (3, 2), (4, 2), (6, 3), (10, 5)))
def test_owners_who_agree_stop_nothing_for_others_and_a_cause_that_hits_all_does(owners: int, agreeing: int) -> None:
    everybody = [Event(NOW, 100, "execute", owner=f"u{at}") for at in range(owners)]
    caused = everybody[:agreeing]
    assert tripped(TWO, caused, NOW, several_owners=True, known=owners) is None
    assert tripped(TWO, (), NOW, helped_no_job=caused, several_owners=True, known=owners) is None
    assert tripped(TWO, everybody, NOW, several_owners=True, known=owners) is not None


def test_what_the_only_two_owners_of_a_cell_caused_together_trips_the_circuit_breaker() -> None:
    """There is nobody else whom it could stop, and it may be a cause of our own."""
    both = [Event(NOW, 100, "execute", owner=owner) for owner in ("ann", "bob")]
    assert tripped(TWO, both, NOW, several_owners=True, known=2) is not None


def test_two_owners_who_agree_are_slowed_down_and_others_are_not() -> None:
    """No worker of theirs is removed, and nothing is launched for them, until some of the window has passed."""
    owners = tuple(OwnerSeen(owner, NOW) for owner in ("ann", "eve", "mal"))
    removals = tuple(Event(NOW - 60.0, 3, "execute", owner=owner) for owner in ("eve", "mal"))
    idle = [
        replace(each, note=replace(note, ordered_for=(OrderedFor(owner, slots=1),)))
        for owner in ("ann", "mal")
        for each in [a_worker(f"w-{owner}", idle=9000.0)]
        if (note := each.note) is not None
    ]

    def world(*things: Any, now: float = NOW) -> Snapshot:
        made = a_snapshot(*things, circuit_breaker=TWO, now=now)
        return replace(made, memory=replace(made.memory, removals=removals, owners=owners))

    asked = plan(world(a_job(1, slots=2, owner="mal"), a_job(2, slots=2, owner="ann")))
    assert (launched(asked), asked.memory.circuit_breaker) == ({"m5.large": 1}, None)
    assert reason_of(asked, 1) == [Code.OWNER_SLOWED]

    of_ann, of_mal = (plan(world(each)) for each in idle)
    assert [verdict_of(of_ann, "w-ann").verdict, verdict_of(of_mal, "w-mal").verdict] == ["disable", "wait"]
    assert verdict_of(of_mal, "w-mal").reason.trail[-1].code is Code.OWNER_SLOWED
    assert of_mal.due == NOW + 540.0
    later = plan(replace(world(idle[1]), now=NOW + 541.0))
    assert verdict_of(later, "w-mal").verdict == "disable"


@pytest.mark.parametrize("agreeing", (2, 5, 10))
def test_owners_who_agree_slow_nobody_down_who_caused_little(agreeing: int) -> None:
    caused = [Event(NOW, 2, "execute", owner=f"mal{at}") for at in range(agreeing)]
    found = slowed_owners(TWO, (*caused, Event(NOW, 1, "execute", owner="ann")), (), NOW, None)
    assert found
    assert all(owner.startswith("mal") for owner in found)
    assert slowed_owners(TWO, (Event(NOW, 99, "execute", owner="eve"), *caused[:1]), (), NOW, None) == {}


@pytest.mark.parametrize("kind", (OwnerKind.PROJECT, OwnerKind.ACCOUNT))
def test_a_user_without_project_or_account_is_an_owner_apart(kind: OwnerKind) -> None:
    """`-A ann` does not make jobs those of the user ann; what Grid Engine shows without `-A` is nobody's account."""
    asks = [
        JobRequest("qw", owner="ann", account="sge"),
        JobRequest("qw", owner="bob", account="sge"),
        JobRequest("qw", owner="ann"),
        JobRequest("qw", owner="eve", project="ann", account="ann"),
    ]
    assert [owner_of(ask, kind) for ask in asks] == ["@ann", "@bob", "@ann", "ann"]


# -- launches in the window of the circuit breaker ---------------------------------------------------------------------

FOUR = CircuitBreaker(window=600.0, max_launches=4)


def after_launches(*things: Any, owners: tuple[str, ...] = ("ann", "eve"), by: str = "eve", **rest: Any) -> Snapshot:
    """A cell in which four workers were launched a minute ago, and are gone, for each of these owners."""
    rest = {"circuit_breaker": FOUR, **rest}
    world = a_snapshot(*things, **rest)
    launches = tuple(Event(NOW - 60.0, 4, "execute", owner=owner) for owner in by.split())
    seen = tuple(OwnerSeen(owner, NOW) for owner in owners)
    return replace(world, memory=replace(world.memory, launches=launches, owners=seen))


@pytest.mark.parametrize(("owners", "by"), ((("ann", "eve"), "eve"), (("ann", "eve", "mal"), "eve mal")))
def test_owners_who_use_up_the_window_of_launches_stop_none_for_others(owners: tuple[str, ...], by: str) -> None:
    """In a cell with others; the only owner is stopped by what was launched for jobs of nobody else."""
    own, theirs = a_job(1, slots=2, owner="ann"), a_job(2, slots=1, owner="eve")
    made = plan(after_launches(own, theirs, owners=owners, by=by))
    assert launched(made) == {"m5.large": 1}
    assert (reason_of(made, 2)[-1], made.memory.circuit_breaker) == (Code.LAUNCH_RATE_LIMIT, None)
    assert [event.owner for event in made.memory.launches][-1] == "ann"
    assert plan(after_launches(theirs, owners=owners, by=by)).due == NOW + 540.0
    only = plan(after_launches(theirs, owners=("eve",)))
    assert (launched(only), reason_of(only, 2)[-1]) == ({}, Code.LAUNCH_RATE_LIMIT)


def test_jobs_that_ask_alike_do_not_wait_for_the_owner_who_used_up_the_window() -> None:
    alike = [a_job(number, slots=2, owner="eve") for number in range(1, 11)]
    waiting = (*alike, a_job(11, slots=2, owner="ann"))
    made = plan(after_launches(*waiting))
    (launch,) = made.actions
    assert isinstance(launch, Launch)
    assert (launched(made), launch.ordered_for) == ({"m5.large": 1}, (OrderedFor("ann", slots=2),))
    assert launched(plan(after_launches(*alike))) == {}
    coming = an_order(ids=(), state=OrderState.SENT, age=20)
    assert launched(plan(after_launches(*waiting, coming))) == {}


def test_a_launch_is_for_who_has_most_of_it_also_if_each_job_has_an_account_of_its_own() -> None:
    """Else the launch, its idle time and its removal would count for the twenty who have larger jobs in it."""
    others = [a_job(number, slots=2, owner=f"u{number:02d}", project=f"p{number}") for number in range(1, 26)]
    many = [a_job(number, slots=1, owner="eve", project="wind", account=f"a{number}") for number in range(100, 300)]
    made = plan(a_snapshot(*others, *many, limits=Limits(max_workers=200), scale_up_batch=200))
    launch = next(action for action in made.actions if isinstance(action, Launch))
    most = max(launch.ordered_for, key=lambda each: each.slots)
    assert (most.user, most.project, len(launch.ordered_for)) == ("eve", "wind", 20)
    assert main_owner(launch.ordered_for, OwnerKind.USER) == "eve"


def test_the_launches_of_many_owners_count_against_the_window_of_each() -> None:
    """Half of the owners are left out: a cause that hits all of them still stops launches for all."""
    owners = tuple(f"u{number}" for number in range(8))
    job = a_job(1, slots=2, owner="ann")
    few, most = (" ".join(owners[:number]) for number in (4, 8))
    assert launched(plan(after_launches(job, owners=("ann", *owners), by=few))) == {"m5.large": 1}
    assert launched(plan(after_launches(job, owners=("ann", *owners), by=most))) == {}


def test_jobs_that_are_deleted_as_their_workers_come_stop_no_launch_for_others() -> None:
    world = Paced(cause=Cause.FREE)
    world.ask(4, "ann")
    world.step()
    world.waiting.clear()
    for _ in range(4):
        before = len(world.launched)
        world.ask(4, "eve")
        world.go_on(120.0, until=lambda before=before: len(world.launched) > before)  # type: ignore[misc]
        world.waiting.clear()
        world.go_on(1800.0, until=lambda: not world.machines)
    assert len(world.launched) == 2
    world.go_on(900.0)
    world.ask(2, "eve")
    world.ask(4, "ann")
    world.go_on(90.0)
    assert [launch.ordered_for[0].user for launch in world.launched[2:]] == ["ann"]


# -- launches of an hour -----------------------------------------------------------------------------------------------

TEN = Limits(max_workers=20, max_launches_per_hour=10)


def in_an_hour(*things: Any, unhelped: int = 0, open_: int = 0, owners: tuple[str, ...] = ("ann", "eve")) -> Plan:
    """A plan half an hour after five launches for eve. `open_`: of them, how many may help yet."""
    world = a_snapshot(*things, limits=TEN)
    events = tuple(Event(NOW - 1800.0, 1, "execute", owner="eve") for _ in range(5))
    trials = {
        f"order-{number}": LaunchTrial("execute", NOW - 1800.0, workers=1, ordered_for=(OrderedFor("eve", slots=2),))
        for number in range(open_)
    }
    orders = [an_order(ids=(f"i-{at}",), state=OrderState.ACCEPTED, age=1800) for at in range(open_)]
    orders = [replace(order, id=f"order-{at}") for at, order in enumerate(orders)]
    memory = replace(
        world.memory,
        launches=events,
        unhelpful=events[:unhelped],
        trials=trials,
        owners=tuple(OwnerSeen(owner, NOW) for owner in owners),
    )
    return plan(replace(world, memory=memory, fleet=replace(world.fleet, orders=tuple(orders))))


def test_launches_that_helped_no_job_are_half_of_what_an_owner_may_use_up_of_an_hour() -> None:
    own, theirs = a_job(1, slots=2, owner="ann"), a_job(2, slots=1, owner="eve")
    made = in_an_hour(own, theirs, unhelped=5)
    assert ([codes(launch.reason)[0] for launch in made.actions if isinstance(launch, Launch)], launched(made)) == (
        [Code.DEMAND],
        {"m5.large": 1},
    )
    assert reason_of(made, 2)[-1] is Code.CAPPED
    assert launched(in_an_hour(theirs, unhelped=5)) == {}
    assert launched(in_an_hour(theirs, unhelped=4)) == {"m5.large": 1}
    assert launched(in_an_hour(theirs, unhelped=4, open_=1)) == {}
    assert launched(in_an_hour(theirs)) == {"m5.large": 1}
    assert launched(in_an_hour(theirs, unhelped=5, owners=("eve",))) == {"m5.large": 1}


def test_a_launch_that_is_not_known_to_help_yet_takes_half_of_an_hour_at_most() -> None:
    for owners, expected in ((("ann", "eve"), 5), (("eve",), 10)):
        world = a_snapshot(jobs(40, slots=2, owner="eve"), limits=TEN, scale_up_batch=20)
        seen = tuple(OwnerSeen(owner, NOW) for owner in owners)
        made = plan(replace(world, memory=replace(world.memory, owners=seen)))
        assert launched(made) == {"m5.large": expected}


# -- jobs that fail at their start -------------------------------------------------------------------------------------


def test_a_start_that_failed_at_once_is_no_help_and_the_next_launches_for_its_owner_wait() -> None:
    world = UnhelpfulLaunches(cause=Cause.NONE, failing=frozenset({"eve"}))
    for _ in range(40):
        if not world.waiting:
            world.ask(4, "eve")
        world.go_on(300.0, until=lambda: not world.waiting and not world.machines)
    assert len(world.launched) <= 8


def test_launches_for_others_with_the_same_requests_do_not_wait_for_jobs_that_fail_at_their_start() -> None:
    world = UnhelpfulLaunches(cause=Cause.NONE, failing=frozenset({"eve"}))
    for _ in range(20):
        if not world.waiting:
            world.ask(4, "eve")
        world.go_on(300.0, until=lambda: not world.waiting and not world.machines)
    world.go_on(900.0, until=lambda: bool(world.waiting) and not world.machines)
    world.ask(4, "eve")
    world.go_on(60.0)
    before = len(world.launched)
    assert world.waiting
    assert not world.machines
    world.ask(4, "ann")
    world.go_on(90.0)
    assert len(world.launched) == before + 1
    assert world.memory.protected["execute"].stopped is None


class Unstarted(UnhelpfulLaunches):
    """A cell where no job of two owners who agree starts on workers that are well."""

    def dispatch(self, name: str | None = None) -> None:
        theirs = {job: self.waiting.pop(job) for job in list(self.waiting) if self.owners[job] in ("eve", "mal")}
        super().dispatch(name)
        self.waiting |= theirs


def test_two_owners_whose_jobs_do_not_start_stop_no_launch_for_others() -> None:
    world = Unstarted(cause=Cause.NONE)
    for _ in range(5):
        for slots, owner in ((1, "eve"), (2, "mal"), (3, "eve"), (4, "mal")):
            world.ask(slots, owner)
        world.go_on(3600.0)
        world.waiting.clear()  # they delete their jobs
        world.go_on(3600.0, until=lambda: not world.machines)
    assert world.memory.protected["execute"].stopped is not None
    own = world.ask(2, "ann")
    world.go_on(900.0, until=lambda: own not in world.waiting)
    assert own not in world.waiting
    world.go_on(300.0)
    assert world.memory.protected["execute"].stopped is None


def test_a_stopped_array_tries_one_worker_for_each_owner_and_no_more() -> None:
    """If it helps nobody whoever asks, each further owner costs one worker."""
    world = UnhelpfulLaunches(cause=Cause.NO_SLOTS)
    for slots, owner in ((1, "eve"), (2, "mal"), (3, "eve"), (4, "mal")):
        world.ask(slots, owner)
        world.go_on(1800.0)
    world.go_on(6 * 3600.0, until=lambda: world.memory.protected["execute"].stopped is not None)
    before = len(world.launched)
    for owner in ("ann", "bob"):
        for slots in (1, 2, 3):
            world.ask(slots, owner)
    world.go_on(6 * 3600.0)
    assert before < len(world.launched) <= before + 2
    assert world.memory.protected["execute"].stopped is not None
