"""Jobs that nothing allowed could ever run: touched on proof alone, and whatever speaks for them leaves them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from autoscaler.core.actions import Annotate, AskGridEngine, Hold, Kill, Release
from autoscaler.core.model.cluster import Access, Consumable, JobCategory, ParallelEnvironment, Queue, QuotaRule
from autoscaler.core.model.evidence import Answer, Evidence, Finding
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.policy import Brake, DeadlockAnswer, Limits
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.record import read_record
from autoscaler.report.wording import text
from tests.cases.whole import whole
from tests.core.building import (
    COMPLEXES,
    LARGE,
    M5,
    MAIN,
    NOW,
    PES,
    X2LARGE,
    a_bucket,
    a_host,
    a_job,
    a_machine,
    a_quota,
    a_snapshot,
    a_worker,
    category_of,
    codes,
    jobs,
    looked_at,
)

SAID = "verification: no suitable queues"
HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}
HOPELESS = a_job(slots=64)
"""On one host; the largest m5 has 32."""


@dataclass
class History:
    """Looks at a world that changes only as told, Grid Engine answering what it is asked."""

    world: Snapshot
    answer: Answer | None = Answer.IMPOSSIBLE
    """None: it never comes to it."""
    now: float = NOW
    answers: dict[int, Finding] = field(default_factory=dict)
    asked: list[AskGridEngine] = field(default_factory=list)

    def look(self, later: float = 0.0) -> Plan:
        self.now += later
        evidence = Evidence(answers=dict(self.answers))
        made = plan(replace(self.world, now=self.now, evidence=evidence))
        self.world = replace(self.world, memory=made.memory)
        for action in made.actions:
            if isinstance(action, AskGridEngine):
                self.asked.append(action)
                for question in action.questions if self.answer is not None else ():
                    self.answers[question.job] = Finding(
                        question.job, question.fingerprint, self.now, self.answer or Answer.NONE, SAID
                    )
        return made

    def job_categories(self, *job_categories: JobCategory) -> None:
        self.world = replace(self.world, cluster=replace(self.world.cluster, job_categories=job_categories))


def a_history(*things: Any, kill: bool = True, answer: Answer | None = Answer.IMPOSSIBLE, **array: Any) -> History:
    world = a_snapshot(*things, **{**HYBRID, **array})
    chosen = DeadlockAnswer.KILL if kill else DeadlockAnswer.HOLD
    return History(replace(world, policy=replace(world.policy, deadlock=chosen)), answer)


def to_the_end(history: History) -> Plan:
    """Two looks far enough apart, the answer, and what follows."""
    history.look()
    history.look(31)
    return history.look(1)


def touched(made: Plan) -> list[str]:
    return [job for action in made.actions if isinstance(action, Kill | Hold) for job in action.jobs]


# -- the way to the end -------------------------------------------------------------------------------------------


def test_a_hopeless_job_is_deleted_after_two_looks_and_grid_engines_word() -> None:
    history = a_history(HOPELESS)
    kinds = [[type(action).__name__ for action in history.look(later).actions] for later in (0, 1, 15, 15, 1)]
    assert kinds == [[], ["Annotate"], [], ["AskGridEngine"], ["Kill"]]


@pytest.mark.parametrize("kill", (True, False))
def test_what_it_was_judged_by_goes_with_it(kill: bool) -> None:
    made = to_the_end(a_history(HOPELESS, kill=kill))
    assert [action.asks for action in made.actions if isinstance(action, Kill | Hold)] == [(HOPELESS.ask,)]


def test_its_reason_names_the_conflict_the_way_out_and_grid_engines_words() -> None:
    killed = [action for action in to_the_end(a_history(HOPELESS)).actions if isinstance(action, Kill)]
    assert [codes(action.reason) for action in killed] == [
        [Code.TOO_LARGE_FOR_ONE_HOST, Code.WOULD_FIT_WITH_REQUEST, Code.UNSATISFIABLE]
    ]


def test_it_is_held_where_settings_say_so() -> None:
    made = to_the_end(a_history(HOPELESS, kill=False))
    assert [(type(action), action.jobs) for action in made.actions if isinstance(action, Kill | Hold)] == [
        (Hold, ("1",))
    ]


def test_it_is_only_told_where_settings_say_so() -> None:
    history = a_history(HOPELESS)
    history.world = replace(history.world, policy=replace(history.world.policy, deadlock=DeadlockAnswer.REPORT))
    made = to_the_end(history)
    assert (touched(made), codes(category_of(made).reason)[-1]) == ([], Code.UNSATISFIABLE_REPORTED)


def test_the_owner_is_told_before_and_only_once() -> None:
    history = a_history(HOPELESS, answer=Answer.POSSIBLE)
    told = [a for later in (0, 1, 15, 15, 1) for a in history.look(later).actions if isinstance(a, Annotate)]
    assert [(action.jobs, action.reason.code) for action in told] == [(("1",), Code.TOO_LARGE_FOR_ONE_HOST)]


def test_the_second_look_has_to_be_far_enough_from_the_first() -> None:
    history = a_history(HOPELESS)
    history.look()
    history.look(29.9)
    assert history.asked == []


def test_a_slow_scheduler_takes_longer_to_prove_anything() -> None:
    history = a_history(HOPELESS)
    history.world = replace(history.world, cluster=replace(history.world.cluster, schedule_interval=60))
    to_the_end(history)
    assert history.asked == []


def test_the_loop_looks_again_when_the_second_look_is_due() -> None:
    assert a_history(HOPELESS).look().due == NOW + 30


def test_waiting_tasks_of_a_hopeless_array_are_deleted_by_name() -> None:
    array = a_job(slots=64, tasks="5-9:2,12", count=4)
    history = a_history(array)
    history.world = replace(history.world, memory=Memory(details=a_snapshot(array, looked_at(1)).memory.details))
    assert touched(to_the_end(history)) == ["1.5-9:2", "1.12"]


# -- more than there is in all of what all jobs share ------------------------------------------------------------


FEW_SLOTS = {**PES, "mpi": replace(PES["mpi"], slots=2)}
LICENCES: dict[str, Any] = {"global_values": {"lic": "3"}}


@pytest.mark.parametrize(
    ("job", "sentence"),
    (
        (a_job(hard={"lic": "5"}), "it requests lic=5; the whole cell has 3"),
        (a_job(slots=2, hard={"lic": "2"}), "it requests lic=4 for its 2 slots together; the whole cell has 3"),
        (a_job(slots=4, pe="mpi"), "it requests 4 slots of the parallel environment mpi, which has 2 in all"),
    ),
)
@pytest.mark.parametrize("kill", (True, False))
def test_a_job_that_asks_more_than_the_whole_cell_has_is_proven(job: JobCategory, sentence: str, kill: bool) -> None:
    history = a_history(job, kill=kill, **LICENCES)
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=FEW_SLOTS))
    made = to_the_end(history)
    assert (touched(made), text(category_of(made).reason).startswith(sentence)) == (["1"], True)


def test_grid_engine_is_shown_all_that_such_a_job_asks_of_hosts() -> None:
    history = a_history(a_job(slots=40, pe="mpi"))
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=FEW_SLOTS))
    to_the_end(history)
    assert [sum(probe.slots for probe in asking.phantoms) >= 40 for asking in history.asked] == [True]


def test_what_is_held_for_it_is_not_released_before_there_is_enough() -> None:
    history = a_history(a_job(hard={"lic": "5"}), kill=False, **LICENCES)
    to_the_end(history)
    history.job_categories(a_job(hard={"lic": "5"}, state="hqw"))
    kept = history.look(100)
    history.world = replace(history.world, cluster=replace(history.world.cluster, global_values={"lic": "5"}))
    freed = history.look(100)
    assert [[a.jobs for a in made.actions if isinstance(a, Release)] for made in (kept, freed)] == [[], [("1",)]]


@pytest.mark.parametrize(
    ("things", "world", "code"),
    (
        # Only a load sensor tells it: it may rise.
        ([a_job(hard={"lic": "5"})], {"global_consumables": {"lic": "3"}}, Code.BEYOND_GLOBAL),
        (
            [a_job(hard={"lic": "3"})],
            {"global_values": {"lic": "3"}, "global_consumables": {"lic": "1"}},
            Code.BEYOND_GLOBAL,
        ),
        ([a_job(slots=4), a_quota(QuotaRule({"slots": "2"}))], {}, Code.TOO_MUCH_FOR_QUOTA),
        ([a_job(slots=4), a_quota(QuotaRule({"slots": "2"}, each=frozenset({"hosts"})))], {}, Code.TOO_MUCH_FOR_QUOTA),
    ),
)
def test_what_may_rise_and_what_a_quota_says_is_only_told(things: list[Any], world: dict[str, Any], code: Code) -> None:
    history = a_history(*things, **world)
    made = to_the_end(history)
    assert (touched(made), history.asked, category_of(made).reason.code) == ([], [], code)


def test_a_parallel_environment_without_slots_is_closed_for_a_while() -> None:
    history = a_history(a_job(slots=4, pe="mpi"))
    closed = {**PES, "mpi": replace(PES["mpi"], slots=0)}
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=closed))
    assert (touched(to_the_end(history)), history.asked) == ([], [])


# -- what leaves it alone --------------------------------------------------------------------------------------------


def cause(made: Plan, job: int = 1) -> Code:
    """The last of its reasons; that smaller jobs take hosts first is only a hint besides."""
    return [code for code in codes(category_of(made, job).reason) if code is not Code.OTHERS_FIRST][-1]


@pytest.mark.parametrize(
    ("things", "settings", "code"),
    (
        ([a_job(slots=8), a_bucket(LARGE), a_bucket(X2LARGE, problem="no quota")], {}, Code.BUCKET_UNAVAILABLE),
        (
            [a_job(slots=8), a_bucket(LARGE, price=0.1), a_bucket(X2LARGE, price=-1)],
            {"limits": Limits(max_workers=3, max_price_per_hour=1.0)},
            Code.BUCKET_NO_PRICE,
        ),
        ([HOPELESS, a_bucket(LARGE)], {"family": "c5"}, Code.NO_INSTANCE_TYPE),
        ([HOPELESS], {"limits": Limits(max_workers=0)}, Code.NO_WORKER_ALLOWED),
        ([HOPELESS, a_host("big", slots=64, used=3)], {}, Code.FITS_WHEN_FREE),
        ([HOPELESS, a_worker("w1", host=a_host("w1", slots=64, used=64))], {}, Code.FITS_WHEN_FREE),
        (
            [a_job(slots=20, pe="mpi")],
            {"max_cores_per_worker": 16, "limits": Limits(max_workers=3, max_cores=20)},
            Code.MIXED_TYPES,
        ),
        ([HOPELESS, Overrides(paused=True)], {}, Code.PAUSED),
        ([HOPELESS, Overrides(stop="drain")], {}, Code.STOPPING),
        (
            [HOPELESS, Memory(brake=because(Code.CIRCUIT_BREAKER, what="x", count=9, most=1, window_s=1.0))],
            {},
            Code.CIRCUIT_BREAKER,
        ),
        ([HOPELESS, a_host(used=1, job_state="s")], {}, Code.CHECKED_AGAIN_LATER),
        ([a_job(slots=64, hard={"h": "!w1"})], {}, Code.NAMES_HOST_OR_QUEUE),
        ([a_job(slots=64, queues=("main.q@@allhosts",))], {}, Code.NAMES_HOST_OR_QUEUE),
        ([a_job(slots=64, hard={"m_topology": "SCC"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(slots=1, hard={"scratch": "1G"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"num_proc": "3"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"arch": "lx26-amd64"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"exclusive": "true"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([HOPELESS], {"enrols_itself": True}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(slots=80, pe="mpi4")], {"limits": Limits(max_workers=19)}, Code.TOO_MANY_PROBE_HOSTS),
    ),
)
def test_what_may_pass_or_is_not_known_is_never_asked_about(
    things: list[Any], settings: dict[str, Any], code: Code
) -> None:
    history = a_history(*things, **settings)
    first = history.look()
    assert (cause(first), history.asked) == (code, [])


@pytest.mark.parametrize("state", ("r", "s", "t", "dr", "Rr"))
def test_a_job_with_a_task_on_a_host_is_left_alone(state: str) -> None:
    host = a_host("h1", used=1, job_state=state)
    instance = host.instances[0]
    host = replace(host, instances=(replace(instance, jobs=(replace(instance.jobs[0], number=1),)),))
    made = to_the_end(a_history(HOPELESS, host))
    assert (touched(made), cause(made)) == ([], Code.RUNNING_TASKS)


@pytest.mark.parametrize(
    "job",
    (
        a_job(hard={"arch": "lx-amd64"}),
        a_job(hard={"mem_free": "64G"}),
        a_job(hard={"mem_total": "128G"}),
        a_job(hard={"num_proc": "32"}),
        a_job(slots=256, pe="mpi"),
        a_job(slots=64, state="hqw"),
        a_job(slots=64, state="Eqw"),
        a_job(slots=64, unscheduled=True),
        a_job(slots=64, hard={"h": "elsewhere"}),
        a_job(slots=64, queues=("other.q",)),
        a_job(slots=64, owner="ann"),
    ),
)
def test_jobs_that_are_possible_or_do_not_count_survive(job: JobCategory) -> None:
    rule = QuotaRule({"slots": "32"}, users=("ann",))
    history = a_history(job, a_quota(rule))
    assert (touched(to_the_end(history)), history.asked) == ([], [])


@pytest.mark.parametrize("job", (a_job(slots=500, pe="mpi"), HOPELESS))
def test_a_group_of_workers_that_once_was_hides_nothing(job: JobCategory) -> None:
    ended = a_machine("w9", state=MachineState.TERMINATED, node_array="execute:64", group_id="execute:64-1")
    history = a_history(job, ended)
    world = history.world
    present = arrays_present(world.fleet, world.memory)
    policy = in_force(world.policy, world.requests, present, world.fleet.buckets)
    assert [array.name for array in policy.node_arrays] == ["execute", "execute:64"]
    history.world = replace(world, policy=policy)
    assert touched(to_the_end(history)) == ["1"]


def test_a_queue_whose_host_group_gives_a_parallel_environment_is_not_judged() -> None:
    queue = replace(MAIN, pe_list=(), pe_list_by_host={"@allhosts": ("local",)})
    assert cause(a_history(HOPELESS, queues={"main.q": queue}).look()) is Code.UNPREDICTABLE_RESOURCE


def test_another_queue_that_some_may_use_may_let_it_in() -> None:
    queues = {
        "main.q": MAIN,
        "big.q": Queue("big.q", ("fat",), 64, pe_list=("local",), access=Access(user_lists=("staff",))),
    }
    made = a_history(HOPELESS, a_host("fat", slots=64, used=1, queue="big.q"), queues=queues).look()
    assert cause(made) is Code.RESTRICTED_QUEUE


def test_a_wildcard_stands_for_every_parallel_environment_that_it_names() -> None:
    history = a_history(a_job(slots=64, pe="*"))
    assert (touched(to_the_end(history)), history.asked) == ([], [])


def test_memory_in_use_now_does_not_make_a_persistent_host_too_small() -> None:
    host = a_host("big", slots=4, used=3, load={"mem_free": "1G", "mem_total": "500G"})
    assert cause(a_history(a_job(hard={"mem_free": "400G"}), host, queue={}).look()) in {
        Code.FITS,
        Code.FITS_WHEN_FREE,
    }


def test_an_owner_is_told_once_however_the_load_of_persistent_hosts_changes() -> None:
    history = a_history(a_job(hard={"mem_free": "900G"}), a_host("big", slots=1), answer=None)
    told = 0
    for free in ("8G", "7G", "6.5G", "8G", "5G"):
        host = a_host("big", slots=1, load={"mem_free": free, "mem_total": "16G"})
        history.world = replace(history.world, cluster=replace(history.world.cluster, hosts=(host,)))
        told += sum(isinstance(action, Annotate) for action in history.look(20).actions)
    assert told == 1


def test_a_silent_persistent_host_might_be_what_it_asks_for_and_is_named() -> None:
    host = a_host("big", slots=4, heard=False)
    made = a_history(a_job(hard={"mem_total": "400G"}), host).look()
    assert (cause(made), "the value of mem_total on big is not known" in text(category_of(made).reason)) == (
        Code.SILENT_HOSTS,
        True,
    )


@pytest.mark.parametrize("slots", (0, 3))
@pytest.mark.parametrize("asked", ({"mem_free": "400G"}, {"arch": "sol-amd64"}))
def test_a_silent_host_that_can_run_nothing_of_it_hides_nothing(slots: int, asked: dict[str, str]) -> None:
    master = a_host("master", slots=slots, heard=False)
    heard = a_host("node", slots=1, load={"arch": "lx-amd64", "mem_free": "1G", "mem_total": "2G"})
    history = a_history(a_job(slots=4, hard=asked), master, heard)
    assert touched(to_the_end(history)) == ["1"]


@pytest.mark.parametrize(
    ("default", "requested", "seen", "fits"),
    (
        ("0", "7G", True, False),
        ("0", "399G", True, True),
        ("399G", None, True, True),
        ("0", "7G", False, True),
    ),
    ids=("what its job requests is known", "enough with what its job requests", "held by default", "a job not listed"),
)
def test_a_busy_host_counts_with_what_its_jobs_hold_and_without_bound_where_that_is_not_seen(
    default: str, requested: str | None, seen: bool, fits: bool
) -> None:
    host = a_host(
        "big", slots=4, used=1, consumables={"h_vmem": "1G"}, hard={"h_vmem": requested} if requested else None
    )
    if not seen:
        (instance,) = host.instances
        host = replace(host, instances=(replace(instance, used=2),))
    complexes = {**COMPLEXES, "h_vmem": replace(COMPLEXES["h_vmem"], default=default)}
    history = a_history(a_job(hard={"h_vmem": "400G"}), host, memory_complex="h_vmem", complexes=complexes)
    assert (cause(history.look()) is Code.FITS_WHEN_FREE, touched(to_the_end(history)) == []) == (fits, fits)


# -- what begins the proof anew ---------------------------------------------------------------------------------------


def _another_pe(world: Snapshot) -> Snapshot:
    pes = {**PES, "local": ParallelEnvironment("local", 500, "$pe_slots")}
    return replace(world, cluster=replace(world.cluster, pes=pes))


def _another_queue(world: Snapshot) -> Snapshot:
    queues = {"main.q": replace(MAIN, limits={"h_rt": "60"})}
    return replace(world, cluster=replace(world.cluster, queues=queues))


def _another_quota(world: Snapshot) -> Snapshot:
    return replace(world, cluster=replace(world.cluster, quotas=(a_quota(QuotaRule({"slots": "9999"})),)))


def _another_policy(world: Snapshot) -> Snapshot:
    arrays = tuple(replace(array, scale_up_batch=3) for array in world.policy.node_arrays)
    return replace(world, policy=replace(world.policy, node_arrays=arrays))


def _another_catalogue(world: Snapshot) -> Snapshot:
    return replace(world, fleet=replace(world.fleet, buckets=world.fleet.buckets[1:]))


def _another_ask(world: Snapshot) -> Snapshot:
    return replace(world, cluster=replace(world.cluster, job_categories=(a_job(slots=65),)))


def _another_project(world: Snapshot) -> Snapshot:
    return replace(world, cluster=replace(world.cluster, job_categories=(a_job(slots=64, project="p"),)))


def _another_host(world: Snapshot) -> Snapshot:
    return replace(world, cluster=replace(world.cluster, hosts=(a_host("new", used=2),)))


def _a_moments_obstacle(world: Snapshot) -> Snapshot:
    return replace(world, fleet=replace(world.fleet, buckets=()))


CHANGES = (
    *(_another_pe, _another_queue, _another_quota, _another_policy, _another_catalogue, _another_ask),
    *(_another_project, _another_host, _a_moments_obstacle),
)


@pytest.mark.parametrize("change", CHANGES)
def test_when_anything_it_rests_on_changes_the_proof_begins_anew(change: Callable[[Snapshot], Snapshot]) -> None:
    history = a_history(HOPELESS)
    history.look()
    history.look(31)
    before = history.world
    history.world = change(history.world)
    made = history.look(1)
    again = replace(before, memory=made.memory) if change is _a_moments_obstacle else history.world
    history.world = again
    assert (touched(made), touched(history.look(1))) == ([], [])


def test_an_answer_from_before_an_obstacle_is_asked_for_again() -> None:
    history = a_history(HOPELESS)
    history.look()
    history.look(31)
    before = history.world
    history.world = _a_moments_obstacle(before)
    made = history.look(1)
    history.world = replace(before, memory=made.memory)
    looks = [history.look(later) for later in (1, 31, 1)]
    assert ([touched(one) for one in looks], len(history.asked)) == ([[], [], ["1"]], 2)


def test_an_answer_to_another_question_is_none() -> None:
    history = a_history(HOPELESS)
    history.look()
    history.look(31)
    history.answers[1] = replace(history.answers[1], fingerprint="another")
    assert touched(history.look(1)) == []


@pytest.mark.parametrize(
    "limits", (Limits(max_cores=14), Limits(max_workers=3, max_cores=14), Limits(max_workers=30, max_cores=35))
)
def test_probe_hosts_for_a_job_over_several_hosts_offer_no_more_slots_than_all_that_is_allowed(limits: Limits) -> None:
    history = a_history(a_job(slots=40, pe="mpi"), limits=limits)
    to_the_end(history)
    assert [sum(probe.slots for probe in asking.phantoms) for asking in history.asked] == [limits.max_cores]


@pytest.mark.parametrize(
    ("slots", "present", "code"),
    (
        (20, 1, Code.ASKED_BESIDE_WORKERS),
        (23, 1, Code.GRID_ENGINE_DISAGREES),
        (20, 0, Code.GRID_ENGINE_DISAGREES),
    ),
)
def test_what_grid_engine_calls_possible_for_the_workers_beside_the_probe_hosts_is_left_alone_and_said_so(
    slots: int, present: int, code: Code
) -> None:
    """14 cores are allowed, of which the worker has 8: beside the probe hosts Grid Engine counts 22."""
    workers = [a_worker("w1", type_=X2LARGE, host=a_host("w1", slots=8))] * present
    job = a_job(slots=slots, pe="mpi")
    made = to_the_end(a_history(job, *workers, limits=Limits(max_cores=14), answer=Answer.POSSIBLE))
    assert (touched(made), codes(category_of(made).reason)[-1]) == ([], code)


@pytest.mark.parametrize("answer", (Answer.POSSIBLE, Answer.NONE, None))
def test_anything_but_an_explicit_never_leaves_it_alone(answer: Answer | None) -> None:
    history = a_history(HOPELESS, answer=answer)
    made = [to_the_end(history), *(history.look(600) for _ in range(20))]
    assert [touched(one) for one in made] == [[]] * 21


def test_grid_engine_is_not_asked_again_while_its_answer_holds() -> None:
    history = a_history(HOPELESS, answer=Answer.POSSIBLE)
    to_the_end(history)
    for _ in range(8):
        history.look(100)
    assert len(history.asked) == 1


def test_without_an_answer_it_is_asked_less_and_less_often() -> None:
    history = a_history(HOPELESS, answer=Answer.NONE)
    asked: list[float] = []
    for _ in range(100):
        before = len(history.asked)
        history.look(5)
        asked += [history.now - NOW] if len(history.asked) > before else []
    assert [later - earlier for earlier, later in pairwise(asked)] == [30, 60, 120, 240]


# -- how much at a time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "most"), ((1, 1), (9, 1), (25, 2), (49, 4), (400, 5)))
def test_few_jobs_are_deleted_in_a_pass_the_oldest_first(count: int, most: int) -> None:
    assert touched(to_the_end(a_history(jobs(count, slots=64)))) == [str(number) for number in range(1, most + 1)]


def test_one_deletion_names_all_jobs_of_the_same_reason() -> None:
    made = to_the_end(a_history(jobs(60, slots=64)))
    assert [len(action.jobs) for action in made.actions if isinstance(action, Kill)] == [5]


def test_a_pass_asks_once_and_about_few() -> None:
    history = a_history(jobs(200, slots=64), a_job(900, slots=99))
    history.look()
    history.look(31)
    assert [len(asked.questions) for asked in history.asked] == [50]


def test_jobs_whose_phantoms_would_help_each_other_are_asked_about_apart() -> None:
    history = a_history(a_job(1, slots=64), a_job(2, slots=400, pe="mpi"))
    history.look()
    history.look(31)
    history.look(1)
    assert [[question.job for question in asked.questions] for asked in history.asked] == [[1], [2]]


def test_too_many_deletions_press_the_brake() -> None:
    history = a_history(jobs(400, slots=64), brake=Brake(max_kills=7))
    to_the_end(history)
    history.job_categories(jobs(395, 6, slots=64))
    made = history.look(1)
    assert (touched(made), [note.code for note in made.notes]) == ([], [Code.CIRCUIT_BREAKER])


def test_no_more_are_deleted_while_earlier_deletions_do_not_show() -> None:
    history = a_history(jobs(400, slots=64))
    to_the_end(history)
    assert [touched(history.look(later)) for later in (1, 1)] == [[], []]


def test_a_deletion_without_effect_is_not_repeated_at_once() -> None:
    history = a_history(HOPELESS)
    to_the_end(history)
    assert [touched(history.look(later)) for later in (1, 30, 30)] == [[], [], ["1"]]


def test_of_very_many_hopeless_jobs_little_is_remembered() -> None:
    assert len(a_history(jobs(20_000, slots=64)).look().memory.suspicions) == 200


def test_an_unchanged_world_changes_nothing() -> None:
    history = a_history(HOPELESS, answer=Answer.POSSIBLE)
    to_the_end(history)
    one = history.look(1)
    assert (one.actions, history.look(1).memory.suspicions) == ((), one.memory.suspicions)


# -- what we hold ------------------------------------------------------------------------------------------------------


def held_history() -> History:
    history = a_history(HOPELESS, kill=False)
    to_the_end(history)
    history.job_categories(a_job(slots=64, state="hqw"))
    return history


def test_a_job_that_we_hold_says_so() -> None:
    assert codes(category_of(held_history().look(1)).reason)[:2] == [
        Code.UNSATISFIABLE_HELD,
        Code.TOO_LARGE_FOR_ONE_HOST,
    ]


def test_a_job_that_somebody_else_holds_is_no_matter_of_ours() -> None:
    history = a_history(a_job(slots=64, state="hqw"))
    history.look()
    assert category_of(history.look(31)).reason.code is Code.HELD


def test_it_is_released_when_a_worker_could_run_it() -> None:
    history = held_history()
    history.look(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    made = history.look(1)
    assert [(type(action), action.reason.code) for action in made.actions] == [(Release, Code.SATISFIABLE_AGAIN)]


def test_after_a_release_of_ours_all_is_to_be_proven_anew() -> None:
    history = held_history()
    history.look(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    history.look(1)
    history.job_categories(HOPELESS)
    looks = [history.look(later) for later in (1, 1, 28)]
    assert [touched(made) for made in looks] == [[], [], []]


def test_a_hold_that_we_released_is_forgotten() -> None:
    history = held_history()
    history.look(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    history.look(1)
    history.job_categories(HOPELESS)
    note = history.look(1).memory.suspicions[1]
    assert (note.held, note.held_at, note.released_at) == (False, None, None)


def test_it_stays_held_while_a_running_job_hides_what_a_host_has() -> None:
    hopeless = a_job(hard={"h_vmem": "2000G"})
    history = a_history(hopeless, a_host(consumables={"h_vmem": "1G"}), kill=False)
    to_the_end(history)
    history.job_categories(replace(hopeless, ask=replace(hopeless.ask, state="hqw")))
    busy = a_host(used=1, consumables={"h_vmem": "1G"})
    history.world = replace(history.world, cluster=replace(history.world.cluster, hosts=(busy,)))
    assert [type(action) for action in history.look(1).actions] == []


def test_it_stays_held_while_the_catalogue_is_empty() -> None:
    history = held_history()
    history.world = _a_moments_obstacle(history.world)
    assert history.look(1).actions == ()


def test_a_release_is_repeated_only_after_a_while() -> None:
    history = held_history()
    history.job_categories(a_job(slots=16, state="hqw"))
    kinds = [[type(action) for action in history.look(later).actions] for later in (1, 1, 60)]
    assert kinds == [[Release], [], [Release]]


def test_what_a_person_releases_is_not_held_again() -> None:
    history = held_history()
    history.look(1)
    history.job_categories(HOPELESS)
    looks = [history.look(later) for later in (1, 31, 31, 600)]
    assert ([touched(made) for made in looks], cause(looks[-1])) == ([[]] * 4, Code.RELEASED_BY_HAND)


def test_what_we_hold_is_released_when_settings_want_it_no_more() -> None:
    history = held_history()
    history.world = replace(history.world, policy=replace(history.world.policy, deadlock=DeadlockAnswer.REPORT))
    made = history.look(1)
    assert [(type(action), action.reason.code) for action in made.actions] == [(Release, Code.HOLDING_OFF)]


def test_what_was_told_is_taken_back_when_it_is_so_no_more() -> None:
    history = a_history(HOPELESS)
    history.look()
    history.look(1)
    history.job_categories(a_job(slots=16))
    made = history.look(1)
    told = [(action.jobs, action.reason.code) for action in made.actions if isinstance(action, Annotate)]
    assert (told, made.memory.suspicions) == ([(("1",), Code.SATISFIABLE_AGAIN)], {})


def test_what_is_set_aside_proves_nothing() -> None:
    history = a_history(HOPELESS)
    aside = (because(Code.IGNORED, what="queue other.q", why="it is odd"),)
    history.world = replace(history.world, cluster=replace(history.world.cluster, set_aside=aside))
    assert (touched(to_the_end(history)), history.asked) == ([], [])


def test_complexes_that_the_queue_itself_offers_are_not_judged() -> None:
    complexes = {**COMPLEXES, "gpus": replace(COMPLEXES["gpus"], consumable=Consumable.PER_SLOT)}
    queues = {"main.q": replace(MAIN, complex_values_by_host={"@allhosts": {"gpus": "4"}})}
    history = a_history(a_job(hard={"gpus": "1"}), *map(a_bucket, M5), queues=queues, complexes=complexes)
    assert (touched(to_the_end(history)), history.asked) == ([], [])


def test_what_a_job_waits_for_and_what_keeps_it_from_a_proof_is_said_once() -> None:
    made = plan(read_record(whole("limits/an-unknown-price-under-a-price-cap-is-no-launch")))
    (verdict,) = made.job_categories
    links = [link for each in verdict.reason.trail for link in (each, *each.trail)]
    assert Code.UNPROVEN in [link.code for link in links]
    assert len(links) == len(set(links))
