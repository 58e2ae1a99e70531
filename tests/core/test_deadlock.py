"""Unsatisfiable jobs: deleted or held only if that is proven, and left alone if anything speaks against it."""

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
from autoscaler.core.policy import CircuitBreaker, DeadlockAnswer, Limits, QueuePolicy, SwitchedOff
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable.deadlock import ANNOTATED
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
    details_of,
    jobs,
)

ANSWER = "verification: no suitable queues"
HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}
UNSATISFIABLE = a_job(slots=64)
"""On one host; the largest m5 has 32."""


@dataclass
class History:
    """Passes over a snapshot that changes only as a test sets it; Grid Engine answers what it is asked."""

    world: Snapshot
    answer: Answer | None = Answer.UNSATISFIABLE
    """None: it never answers."""
    now: float = NOW
    answers: dict[int, Finding] = field(default_factory=dict)
    asked: list[AskGridEngine] = field(default_factory=list)

    def observe(self, later: float = 0.0) -> Plan:
        self.now += later
        evidence = Evidence(answers=dict(self.answers))
        made = plan(replace(self.world, now=self.now, evidence=evidence))
        self.world = replace(self.world, memory=made.memory)
        for action in made.actions:
            if isinstance(action, AskGridEngine):
                self.asked.append(action)
                for question in action.questions if self.answer is not None else ():
                    self.answers[question.job] = Finding(
                        question.job, question.fingerprint, self.now, self.answer or Answer.NONE, ANSWER
                    )
        return made

    def job_categories(self, *job_categories: JobCategory) -> None:
        self.world = replace(self.world, cluster=replace(self.world.cluster, job_categories=job_categories))


def a_history(*things: Any, kill: bool = True, answer: Answer | None = Answer.UNSATISFIABLE, **array: Any) -> History:
    world = a_snapshot(*things, **{**HYBRID, **array})
    chosen = DeadlockAnswer.KILL if kill else DeadlockAnswer.HOLD
    return History(replace(world, policy=replace(world.policy, deadlock=chosen)), answer)


def to_the_end(history: History) -> Plan:
    """Two observations far enough apart, the answer, and what follows."""
    history.observe()
    history.observe(31)
    return history.observe(1)


def jobs_acted_on(made: Plan) -> list[str]:
    return [job for action in made.actions if isinstance(action, Kill | Hold) for job in action.jobs]


# -- from suspicion to deletion ---------------------------------------------------------------------------------------


def test_an_unsatisfiable_job_is_deleted_after_two_observations_and_grid_engines_answer() -> None:
    history = a_history(UNSATISFIABLE)
    kinds = [[type(action).__name__ for action in history.observe(later).actions] for later in (0, 1, 15, 15, 1)]
    assert kinds == [[], ["Annotate"], [], ["AskGridEngine"], ["Kill"]]


@pytest.mark.parametrize("kill", (True, False))
def test_a_deletion_or_hold_carries_the_request_that_was_judged(kill: bool) -> None:
    made = to_the_end(a_history(UNSATISFIABLE, kill=kill))
    assert [action.asks for action in made.actions if isinstance(action, Kill | Hold)] == [(UNSATISFIABLE.ask,)]


def test_the_reason_of_a_deletion_has_the_conflict_the_remedy_and_the_proof() -> None:
    killed = [action for action in to_the_end(a_history(UNSATISFIABLE)).actions if isinstance(action, Kill)]
    assert [codes(action.reason) for action in killed] == [
        [Code.TOO_LARGE_FOR_ONE_HOST, Code.WOULD_FIT_WITH_REQUEST, Code.UNSATISFIABLE]
    ]


@pytest.mark.parametrize(("kill", "code"), ((True, Code.UNSATISFIABLE_DELETED), (False, Code.UNSATISFIABLE_HELD)))
def test_a_jobs_reason_says_that_it_is_deleted_or_held(kill: bool, code: Code) -> None:
    assert codes(category_of(to_the_end(a_history(UNSATISFIABLE, kill=kill))).reason)[-1] is code


def test_an_unsatisfiable_job_is_held_if_configured() -> None:
    made = to_the_end(a_history(UNSATISFIABLE, kill=False))
    assert [(type(action), action.jobs) for action in made.actions if isinstance(action, Kill | Hold)] == [
        (Hold, ("1",))
    ]


def test_an_unsatisfiable_job_is_only_reported_if_configured() -> None:
    history = a_history(UNSATISFIABLE)
    history.world = replace(history.world, policy=replace(history.world.policy, deadlock=DeadlockAnswer.REPORT))
    made = to_the_end(history)
    assert (jobs_acted_on(made), codes(category_of(made).reason)[-1]) == ([], Code.UNSATISFIABLE_REPORTED)


def test_a_suspected_unsatisfiable_job_is_annotated_once() -> None:
    history = a_history(UNSATISFIABLE, answer=Answer.SATISFIABLE)
    annotations = [a for later in (0, 1, 15, 15, 1) for a in history.observe(later).actions if isinstance(a, Annotate)]
    assert [(action.jobs, action.reason.code) for action in annotations] == [(("1",), Code.TOO_LARGE_FOR_ONE_HOST)]


def annotated(history: History, *, passes: int = 3) -> list[str]:
    """The jobs into whose contexts so many further passes write."""
    actions = [action for _ in range(passes) for action in history.observe(20).actions]
    return [job for action in actions if isinstance(action, Annotate) for job in action.jobs]


def test_nothing_is_written_into_a_jobs_context_while_paused() -> None:
    assert annotated(a_history(UNSATISFIABLE, Overrides(paused=True))) == []
    assert annotated(a_history(UNSATISFIABLE)) == ["1"]


def test_nothing_is_written_into_the_context_of_a_job_that_is_not_proven_unsatisfiable() -> None:
    mixed = a_history(a_job(slots=20, pe="mpi"), max_cores_per_worker=16, limits=Limits(max_workers=3, max_cores=20))
    assert (last_code(mixed.observe()), annotated(mixed)) == (Code.MIXED_TYPES, [])


def test_a_jobs_context_keeps_its_text_while_nothing_can_be_proven() -> None:
    history = a_history(UNSATISFIABLE)
    assert annotated(history, passes=2) == ["1"]
    history.world = _a_temporary_obstacle(history.world)
    assert annotated(history) == []


def test_grid_engine_is_not_asked_before_30_seconds_have_passed() -> None:
    history = a_history(UNSATISFIABLE)
    history.observe()
    history.observe(29.9)
    assert history.asked == []


def test_with_a_long_schedule_interval_a_proof_takes_longer() -> None:
    history = a_history(UNSATISFIABLE)
    history.world = replace(history.world, cluster=replace(history.world.cluster, schedule_interval=60))
    to_the_end(history)
    assert history.asked == []


def test_the_next_pass_is_due_for_the_second_observation_of_a_suspected_job() -> None:
    assert a_history(UNSATISFIABLE).observe().due == NOW + 30


def test_pending_tasks_of_an_unsatisfiable_array_are_deleted_by_task_id() -> None:
    array = a_job(slots=64, tasks="5-9:2,12", count=4)
    history = a_history(array)
    history.world = replace(history.world, memory=Memory(details=a_snapshot(array, details_of(1)).memory.details))
    assert jobs_acted_on(to_the_end(history)) == ["1.5-9:2", "1.12"]


# -- more than the whole cell has -------------------------------------------------------------------------------------


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
def test_a_job_that_requests_more_than_the_whole_cell_has_is_deleted_or_held(
    job: JobCategory, sentence: str, kill: bool
) -> None:
    history = a_history(job, kill=kill, **LICENCES)
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=FEW_SLOTS))
    made = to_the_end(history)
    assert (jobs_acted_on(made), text(category_of(made).reason).startswith(sentence)) == (["1"], True)


def test_probe_hosts_offer_all_slots_that_the_job_requests() -> None:
    history = a_history(a_job(slots=40, pe="mpi"))
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=FEW_SLOTS))
    to_the_end(history)
    assert [sum(probe.slots for probe in asking.probe_hosts) >= 40 for asking in history.asked] == [True]


def test_a_held_job_is_released_only_when_the_cell_has_enough() -> None:
    history = a_history(a_job(hard={"lic": "5"}), kill=False, **LICENCES)
    to_the_end(history)
    history.job_categories(a_job(hard={"lic": "5"}, state="hqw"))
    kept = history.observe(100)
    history.world = replace(history.world, cluster=replace(history.world.cluster, global_values={"lic": "5"}))
    freed = history.observe(100)
    assert [[a.jobs for a in made.actions if isinstance(a, Release)] for made in (kept, freed)] == [[], [("1",)]]


@pytest.mark.parametrize(
    ("things", "world", "code"),
    (
        # Only a load sensor reports it: it may rise.
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
def test_a_load_value_that_may_rise_or_a_quota_proves_nothing(
    things: list[Any], world: dict[str, Any], code: Code
) -> None:
    history = a_history(*things, **world)
    made = to_the_end(history)
    assert (jobs_acted_on(made), history.asked, category_of(made).reason.code) == ([], [], code)


def test_a_job_for_a_pe_without_slots_is_not_proven_unsatisfiable() -> None:
    history = a_history(a_job(slots=4, pe="mpi"))
    closed = {**PES, "mpi": replace(PES["mpi"], slots=0)}
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=closed))
    assert (jobs_acted_on(to_the_end(history)), history.asked) == ([], [])


# -- what leaves it alone --------------------------------------------------------------------------------------------


def last_code(made: Plan, job: int = 1) -> Code:
    """The last of its reasons; that smaller jobs take hosts first is only a hint."""
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
        ([UNSATISFIABLE, a_bucket(LARGE)], {"family": "c5"}, Code.NO_INSTANCE_TYPE),
        ([UNSATISFIABLE], {"limits": Limits(max_workers=0)}, Code.NO_WORKER_ALLOWED),
        (
            [UNSATISFIABLE],
            {"limits": Limits(max_workers=0, switched_off=SwitchedOff("main.q", "max_workers", "WORKERS", "1", 1))},
            Code.AUTOSCALING_OFF,
        ),
        ([UNSATISFIABLE, a_host("big", slots=64, used=3)], {}, Code.FITS_WHEN_FREE),
        ([UNSATISFIABLE, a_worker("w1", host=a_host("w1", slots=64, used=64))], {}, Code.FITS_WHEN_FREE),
        (
            [a_job(slots=20, pe="mpi")],
            {"max_cores_per_worker": 16, "limits": Limits(max_workers=3, max_cores=20)},
            Code.MIXED_TYPES,
        ),
        ([UNSATISFIABLE, Overrides(paused=True)], {}, Code.PAUSED),
        ([UNSATISFIABLE, Overrides(stop="drain")], {}, Code.STOPPING),
        (
            [
                UNSATISFIABLE,
                Memory(circuit_breaker=because(Code.CIRCUIT_BREAKER, what="x", count=9, most=1, window_s=1.0)),
            ],
            {},
            Code.CIRCUIT_BREAKER,
        ),
        ([UNSATISFIABLE, a_host(used=1, job_state="s")], {}, Code.CHECKED_AGAIN_LATER),
        ([a_job(slots=64, hard={"h": "!w1"})], {}, Code.NAMES_HOST_OR_QUEUE),
        ([a_job(slots=64, queues=("main.q@@allhosts",))], {}, Code.NAMES_HOST_OR_QUEUE),
        ([a_job(slots=64, hard={"m_topology": "SCC"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(slots=1, hard={"scratch": "1G"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"num_proc": "3"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"arch": "lx26-amd64"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(hard={"exclusive": "true"})], {}, Code.UNPREDICTABLE_RESOURCE),
        ([UNSATISFIABLE], {"enrols_itself": True}, Code.UNPREDICTABLE_RESOURCE),
        ([a_job(slots=80, pe="mpi4")], {"limits": Limits(max_workers=19)}, Code.TOO_MANY_PROBE_HOSTS),
    ),
)
def test_grid_engine_is_not_asked_about_temporary_or_unknown_obstacles(
    things: list[Any], settings: dict[str, Any], code: Code
) -> None:
    history = a_history(*things, **settings)
    first = history.observe()
    assert (last_code(first), history.asked) == (code, [])


@pytest.mark.parametrize("state", ("r", "s", "t", "dr", "Rr"))
def test_a_job_with_a_task_on_a_host_is_left_alone(state: str) -> None:
    host = a_host("h1", used=1, job_state=state)
    instance = host.instances[0]
    host = replace(host, instances=(replace(instance, jobs=(replace(instance.jobs[0], number=1),)),))
    made = to_the_end(a_history(UNSATISFIABLE, host))
    assert (jobs_acted_on(made), last_code(made)) == ([], Code.RUNNING_TASKS)


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
def test_satisfiable_jobs_and_jobs_that_do_not_count_are_left_alone(job: JobCategory) -> None:
    rule = QuotaRule({"slots": "32"}, users=("ann",))
    history = a_history(job, a_quota(rule))
    assert (jobs_acted_on(to_the_end(history)), history.asked) == ([], [])


@pytest.mark.parametrize("job", (a_job(slots=500, pe="mpi"), UNSATISFIABLE))
def test_a_terminated_group_of_workers_does_not_prevent_a_proof(job: JobCategory) -> None:
    ended = a_machine("w9", state=MachineState.TERMINATED, node_array="execute:64", group_id="execute:64-1")
    history = a_history(job, ended)
    world = history.world
    present = arrays_present(world.fleet, world.memory)
    policy = in_force(world.policy, world.requests, present, world.fleet.buckets)
    assert [array.name for array in policy.node_arrays] == ["execute", "execute:64"]
    history.world = replace(world, policy=policy)
    assert jobs_acted_on(to_the_end(history)) == ["1"]


def test_nothing_is_proven_for_a_queue_with_a_pe_list_for_its_host_group() -> None:
    queue = replace(MAIN, pe_list=(), pe_list_by_host={"@allhosts": ("local",)})
    assert last_code(a_history(UNSATISFIABLE, queues={"main.q": queue}).observe()) is Code.UNPREDICTABLE_RESOURCE


def test_a_job_that_a_restricted_queue_could_run_is_not_proven_unsatisfiable() -> None:
    queues = {
        "main.q": MAIN,
        "big.q": Queue("big.q", ("fat",), 64, pe_list=("local",), access=Access(user_lists=("staff",))),
    }
    made = a_history(UNSATISFIABLE, a_host("fat", slots=64, used=1, queue="big.q"), queues=queues).observe()
    assert last_code(made) is Code.RESTRICTED_QUEUE


@pytest.mark.parametrize("named", (("main.q", "big.q"), ("@*",)))
def test_a_job_that_names_an_autoscaled_restricted_queue_is_not_proven_unsatisfiable(named: tuple[str, ...]) -> None:
    big = Queue("big.q", ("fat",), 64, pe_list=("local",), access=Access(user_lists=("staff",)))
    fat = a_host("fat", slots=64, used=1, queue="big.q")
    history = a_history(a_job(slots=64, queues=named), fat, queues={"main.q": MAIN, "big.q": big})
    policy = history.world.policy
    array = replace(policy.node_arrays[0], name="big", queue="big.q", host_group="@big")
    policy = replace(
        policy, queues=(*policy.queues, QueuePolicy("big.q", "big")), node_arrays=(*policy.node_arrays, array)
    )
    history.world = replace(history.world, policy=policy)
    assert last_code(history.observe()) is Code.RESTRICTED_QUEUE


def test_a_job_whose_pe_wildcard_matches_one_of_another_queues_hosts_is_left_alone() -> None:
    other = Queue("other.q", ("a", "b"), 64, pe_list_by_host={"a": ("elsewhere",), "b": ("make",)})
    history = a_history(a_job(slots=64, pe="[le]*"), queues={"main.q": MAIN, "other.q": other})
    pes = {**PES, "elsewhere": ParallelEnvironment("elsewhere", 999, "$pe_slots")}
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes=pes))
    assert last_code(history.observe()) is Code.OTHER_PE


def test_a_job_whose_pe_wildcard_matches_a_sufficient_pe_is_left_alone() -> None:
    history = a_history(a_job(slots=64, pe="*"))
    assert (jobs_acted_on(to_the_end(history)), history.asked) == ([], [])


def test_memory_in_use_now_does_not_make_a_persistent_host_too_small() -> None:
    host = a_host("big", slots=4, used=3, load={"mem_free": "1G", "mem_total": "500G"})
    assert last_code(a_history(a_job(hard={"mem_free": "400G"}), host, queue={}).observe()) in {
        Code.FITS,
        Code.FITS_WHEN_FREE,
    }


def test_a_job_is_annotated_once_however_the_load_of_persistent_hosts_changes() -> None:
    history = a_history(a_job(hard={"mem_free": "900G"}), a_host("big", slots=1), answer=None)
    annotations = 0
    for free in ("8G", "7G", "6.5G", "8G", "5G"):
        host = a_host("big", slots=1, load={"mem_free": free, "mem_total": "16G"})
        history.world = replace(history.world, cluster=replace(history.world.cluster, hosts=(host,)))
        annotations += sum(isinstance(action, Annotate) for action in history.observe(20).actions)
    assert annotations == 1


def test_a_silent_persistent_host_that_might_fit_prevents_a_proof_and_is_named() -> None:
    host = a_host("big", slots=4, heard=False)
    made = a_history(a_job(hard={"mem_total": "400G"}), host).observe()
    assert (last_code(made), "the value of mem_total on big is not known" in text(category_of(made).reason)) == (
        Code.SILENT_HOSTS,
        True,
    )


@pytest.mark.parametrize("slots", (0, 3))
@pytest.mark.parametrize("asked", ({"mem_free": "400G"}, {"arch": "sol-amd64"}))
def test_a_silent_host_too_small_for_the_job_does_not_prevent_a_proof(slots: int, asked: dict[str, str]) -> None:
    master = a_host("master", slots=slots, heard=False)
    reporting = a_host("node", slots=1, load={"arch": "lx-amd64", "mem_free": "1G", "mem_total": "2G"})
    history = a_history(a_job(slots=4, hard=asked), master, reporting)
    assert jobs_acted_on(to_the_end(history)) == ["1"]


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
def test_a_busy_host_counts_as_if_empty_and_as_unbounded_if_its_jobs_are_not_known(
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
    assert (last_code(history.observe()) is Code.FITS_WHEN_FREE, jobs_acted_on(to_the_end(history)) == []) == (
        fits,
        fits,
    )


# -- what begins a proof again ----------------------------------------------------------------------------------------


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


def _a_temporary_obstacle(world: Snapshot) -> Snapshot:
    return replace(world, fleet=replace(world.fleet, buckets=()))


CHANGES = (
    *(_another_pe, _another_queue, _another_quota, _another_policy, _another_catalogue, _another_ask),
    *(_another_project, _another_host, _a_temporary_obstacle),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_proof_begins_again_if_anything_it_depends_on_changes(change: Callable[[Snapshot], Snapshot]) -> None:
    history = a_history(UNSATISFIABLE)
    history.observe()
    history.observe(31)
    before = history.world
    history.world = change(history.world)
    made = history.observe(1)
    again = replace(before, memory=made.memory) if change is _a_temporary_obstacle else history.world
    history.world = again
    assert (jobs_acted_on(made), jobs_acted_on(history.observe(1))) == ([], [])


def test_a_proof_goes_on_if_grid_engine_lists_the_same_in_another_order() -> None:
    by_host = {"a": ("local",), "b": ("mpi",)}
    queue = replace(MAIN, pe_list_by_host=by_host)
    history = a_history(UNSATISFIABLE, queues={"main.q": queue})
    history.observe()
    history.observe(31)
    turned = replace(queue, pe_list=queue.pe_list[::-1], pe_list_by_host=dict(reversed(by_host.items())))
    history.world = replace(history.world, cluster=replace(history.world.cluster, queues={"main.q": turned}))
    assert jobs_acted_on(history.observe(1)) == ["1"]


def test_grid_engine_is_asked_again_after_a_temporary_obstacle() -> None:
    history = a_history(UNSATISFIABLE)
    history.observe()
    history.observe(31)
    before = history.world
    history.world = _a_temporary_obstacle(before)
    made = history.observe(1)
    history.world = replace(before, memory=made.memory)
    plans = [history.observe(later) for later in (1, 31, 1)]
    assert ([jobs_acted_on(one) for one in plans], len(history.asked)) == ([[], [], ["1"]], 2)


def test_an_answer_with_another_fingerprint_is_not_used() -> None:
    history = a_history(UNSATISFIABLE)
    history.observe()
    history.observe(31)
    history.answers[1] = replace(history.answers[1], fingerprint="another")
    assert jobs_acted_on(history.observe(1)) == []


@pytest.mark.parametrize(
    "limits", (Limits(max_cores=14), Limits(max_workers=3, max_cores=14), Limits(max_workers=30, max_cores=35))
)
def test_probe_hosts_for_a_job_over_several_hosts_offer_no_more_slots_than_allowed(limits: Limits) -> None:
    history = a_history(a_job(slots=40, pe="mpi"), limits=limits)
    to_the_end(history)
    assert [sum(probe.slots for probe in asking.probe_hosts) for asking in history.asked] == [limits.max_cores]


def test_probe_hosts_with_fewer_slots_than_their_type_have_all_its_memory() -> None:
    job = a_job(slots=40, pe="mpi", hard={"h_vmem": "1G"})
    history = a_history(job, limits=Limits(max_cores=14), memory_complex="h_vmem", max_cores_per_worker=8)
    to_the_end(history)
    (asking,) = history.asked
    assert [(probe.slots, dict(probe.complex_values)["h_vmem"]) for probe in asking.probe_hosts] == [
        (5, "32G"),
        (5, "32G"),
        (4, "32G"),
    ]


@pytest.mark.parametrize(
    ("slots", "present", "code"),
    (
        (20, 1, Code.ASKED_BESIDE_WORKERS),
        (23, 1, Code.GRID_ENGINE_DISAGREES),
        (20, 0, Code.GRID_ENGINE_DISAGREES),
    ),
)
def test_a_job_that_fits_only_on_workers_and_probe_hosts_together_is_left_alone_with_a_reason(
    slots: int, present: int, code: Code
) -> None:
    """14 cores are allowed, of which the worker has 8: beside the probe hosts Grid Engine counts 22."""
    workers = [a_worker("w1", type_=X2LARGE, host=a_host("w1", slots=8))] * present
    job = a_job(slots=slots, pe="mpi")
    made = to_the_end(a_history(job, *workers, limits=Limits(max_cores=14), answer=Answer.SATISFIABLE))
    assert (jobs_acted_on(made), codes(category_of(made).reason)[-1]) == ([], code)


def test_grid_engine_is_asked_again_once_the_workers_beside_which_it_was_asked_have_left() -> None:
    job, limits = a_job(slots=20, pe="mpi"), Limits(max_cores=14)
    beside = a_worker("w1", type_=X2LARGE, host=a_host("w1", slots=8))
    history = a_history(job, beside, limits=limits, answer=Answer.SATISFIABLE)
    left_alone = to_the_end(history)
    history.world = replace(a_history(job, limits=limits).world, memory=history.world.memory, now=history.world.now)
    history.answer = Answer.UNSATISFIABLE
    plans = [history.observe(later) for later in (1, 31, 1)]
    assert [jobs_acted_on(made) for made in (left_alone, *plans)] == [[], [], [], ["1"]]


@pytest.mark.parametrize("answer", (Answer.SATISFIABLE, Answer.NONE, None))
def test_a_job_is_left_alone_unless_grid_engine_says_it_can_never_run(answer: Answer | None) -> None:
    history = a_history(UNSATISFIABLE, answer=answer)
    made = [to_the_end(history), *(history.observe(600) for _ in range(20))]
    assert [jobs_acted_on(one) for one in made] == [[]] * 21


def test_grid_engine_is_not_asked_again_while_its_answer_holds() -> None:
    history = a_history(UNSATISFIABLE, answer=Answer.SATISFIABLE)
    to_the_end(history)
    for _ in range(8):
        history.observe(100)
    assert len(history.asked) == 1


def test_without_an_answer_grid_engine_is_asked_at_growing_intervals() -> None:
    history = a_history(UNSATISFIABLE, answer=Answer.NONE)
    asked: list[float] = []
    for _ in range(100):
        before = len(history.asked)
        history.observe(5)
        asked += [history.now - NOW] if len(history.asked) > before else []
    assert [later - earlier for earlier, later in pairwise(asked)] == [30, 60, 120, 240]


# -- how much at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "most"), ((1, 1), (9, 1), (25, 2), (49, 4), (400, 5)))
def test_few_jobs_are_deleted_in_a_pass_the_oldest_first(count: int, most: int) -> None:
    assert jobs_acted_on(to_the_end(a_history(jobs(count, slots=64)))) == [str(number) for number in range(1, most + 1)]


def test_one_deletion_names_all_jobs_of_the_same_reason() -> None:
    made = to_the_end(a_history(jobs(60, slots=64)))
    assert [len(action.jobs) for action in made.actions if isinstance(action, Kill)] == [5]


def test_a_pass_asks_grid_engine_about_at_most_50_jobs() -> None:
    history = a_history(jobs(200, slots=64), a_job(900, slots=99))
    history.observe()
    history.observe(31)
    assert [len(asked.questions) for asked in history.asked] == [50]


def test_jobs_whose_probe_hosts_would_help_each_other_are_asked_about_separately() -> None:
    history = a_history(a_job(1, slots=64), a_job(2, slots=400, pe="mpi"))
    history.observe()
    made = history.observe(31)
    assert [last_code(made, job) for job in (1, 2)] == [Code.ASKING_GRID_ENGINE, Code.OLDER_JOBS_FIRST]
    history.observe(1)
    assert [[question.job for question in asked.questions] for asked in history.asked] == [[1], [2]]


def test_too_many_deletions_trip_the_circuit_breaker() -> None:
    history = a_history(jobs(400, slots=64), circuit_breaker=CircuitBreaker(max_kills=7))
    to_the_end(history)
    history.job_categories(jobs(395, 6, slots=64))
    made = history.observe(1)
    assert (jobs_acted_on(made), [note.code for note in made.notes]) == ([], [Code.CIRCUIT_BREAKER])


def test_no_more_jobs_are_deleted_while_earlier_deletions_do_not_show() -> None:
    history = a_history(jobs(400, slots=64))
    to_the_end(history)
    assert [jobs_acted_on(history.observe(later)) for later in (1, 1)] == [[], []]


def test_a_deletion_without_effect_is_not_repeated_at_once() -> None:
    history = a_history(UNSATISFIABLE)
    to_the_end(history)
    assert [jobs_acted_on(history.observe(later)) for later in (1, 30, 30)] == [[], [], ["1"]]


def test_suspicions_are_remembered_for_at_most_200_jobs() -> None:
    assert len(a_history(jobs(20_000, slots=64)).observe().memory.unsatisfiable_jobs) == 200


def test_a_second_pass_over_an_unchanged_snapshot_changes_nothing() -> None:
    history = a_history(UNSATISFIABLE, answer=Answer.SATISFIABLE)
    to_the_end(history)
    one = history.observe(1)
    assert (one.actions, history.observe(1).memory.unsatisfiable_jobs) == ((), one.memory.unsatisfiable_jobs)


# -- what we hold -----------------------------------------------------------------------------------------------------


def held_history() -> History:
    history = a_history(UNSATISFIABLE, kill=False)
    to_the_end(history)
    history.job_categories(a_job(slots=64, state="hqw"))
    return history


def test_the_reason_of_a_job_that_we_hold_names_the_hold() -> None:
    assert codes(category_of(held_history().observe(1)).reason)[:2] == [
        Code.UNSATISFIABLE_HELD,
        Code.TOO_LARGE_FOR_ONE_HOST,
    ]


def test_a_job_that_somebody_else_holds_is_only_reported_as_held() -> None:
    history = a_history(a_job(slots=64, state="hqw"))
    history.observe()
    assert category_of(history.observe(31)).reason.code is Code.HELD


def test_a_held_job_is_released_when_a_worker_could_run_it() -> None:
    history = held_history()
    history.observe(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    made = history.observe(1)
    assert [(type(action), action.reason.code) for action in made.actions] == [(Release, Code.SATISFIABLE_AGAIN)]


def test_after_a_release_by_us_a_proof_begins_again() -> None:
    history = held_history()
    history.observe(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    history.observe(1)
    history.job_categories(UNSATISFIABLE)
    plans = [history.observe(later) for later in (1, 1, 28)]
    assert [jobs_acted_on(made) for made in plans] == [[], [], []]


def test_a_hold_released_by_us_is_forgotten() -> None:
    history = held_history()
    history.observe(1)
    history.job_categories(a_job(slots=16, state="hqw"))
    history.observe(1)
    history.job_categories(UNSATISFIABLE)
    note = history.observe(1).memory.unsatisfiable_jobs[1]
    assert (note.held, note.held_at, note.released_at) == (False, None, None)


def test_a_job_stays_held_while_a_running_job_hides_a_hosts_consumables() -> None:
    unsatisfiable = a_job(hard={"h_vmem": "2000G"})
    history = a_history(unsatisfiable, a_host(consumables={"h_vmem": "1G"}), kill=False)
    to_the_end(history)
    history.job_categories(replace(unsatisfiable, ask=replace(unsatisfiable.ask, state="hqw")))
    busy = a_host(used=1, consumables={"h_vmem": "1G"})
    history.world = replace(history.world, cluster=replace(history.world.cluster, hosts=(busy,)))
    assert [type(action) for action in history.observe(1).actions] == []


def test_a_job_stays_held_while_the_catalogue_is_empty() -> None:
    history = held_history()
    history.world = _a_temporary_obstacle(history.world)
    assert history.observe(1).actions == ()


def test_a_job_stays_held_while_its_parallel_environment_is_gone() -> None:
    history = held_history()
    history.world = replace(history.world, cluster=replace(history.world.cluster, pes={}))
    assert history.observe(1).actions == ()


def test_a_release_is_repeated_only_after_a_while() -> None:
    history = held_history()
    history.job_categories(a_job(slots=16, state="hqw"))
    kinds = [[type(action) for action in history.observe(later).actions] for later in (1, 1, 60)]
    assert kinds == [[Release], [], [Release]]


def test_a_job_that_a_person_released_is_not_held_again() -> None:
    history = held_history()
    history.observe(1)
    history.job_categories(UNSATISFIABLE)
    plans = [history.observe(later) for later in (1, 31, 31, 600)]
    assert ([jobs_acted_on(made) for made in plans], last_code(plans[-1])) == ([[]] * 4, Code.RELEASED_BY_HAND)


def test_a_job_that_we_hold_is_released_when_holding_is_turned_off() -> None:
    history = held_history()
    history.world = replace(history.world, policy=replace(history.world.policy, deadlock=DeadlockAnswer.REPORT))
    made = history.observe(1)
    assert [(type(action), action.reason.code) for action in made.actions] == [(Release, Code.HOLDING_OFF)]


def test_the_annotation_is_replaced_when_the_job_becomes_satisfiable() -> None:
    history = a_history(UNSATISFIABLE)
    history.observe()
    history.observe(1)
    history.job_categories(a_job(slots=16))
    made = history.observe(1)
    annotations = [(action.jobs, action.reason.code) for action in made.actions if isinstance(action, Annotate)]
    assert (annotations, made.memory.unsatisfiable_jobs) == ([(("1",), Code.SATISFIABLE_AGAIN)], {})


def test_the_annotations_of_one_owner_that_no_longer_hold_delay_none_of_another() -> None:
    history = a_history(jobs(ANNOTATED, slots=64, owner="eve", waited=900.0), a_job(999, slots=64, owner="ann"))
    for _ in range(3):
        history.observe(1)
    history.job_categories(jobs(ANNOTATED, slots=1, owner="eve", waited=900.0), a_job(999, slots=1, owner="ann"))
    annotated = [job for each in history.observe(1).actions if isinstance(each, Annotate) for job in each.jobs]
    assert (len(annotated), "999" in annotated) == (ANNOTATED, True)


def test_nothing_is_proven_while_an_object_is_set_aside() -> None:
    history = a_history(UNSATISFIABLE)
    aside = (because(Code.IGNORED, what="queue other.q", why="it is odd"),)
    history.world = replace(history.world, cluster=replace(history.world.cluster, set_aside=aside))
    assert (jobs_acted_on(to_the_end(history)), history.asked) == ([], [])


def test_nothing_is_proven_about_complexes_that_the_queue_defines() -> None:
    complexes = {**COMPLEXES, "gpus": replace(COMPLEXES["gpus"], consumable=Consumable.PER_SLOT)}
    queues = {"main.q": replace(MAIN, complex_values_by_host={"@allhosts": {"gpus": "4"}})}
    history = a_history(a_job(hard={"gpus": "1"}), *map(a_bucket, M5), queues=queues, complexes=complexes)
    assert (jobs_acted_on(to_the_end(history)), history.asked) == ([], [])


def test_an_unproven_jobs_trail_names_each_reason_once() -> None:
    made = plan(read_record(whole("limits/a-type-of-unknown-price-is-not-launched-under-a-price-cap")))
    (verdict,) = made.job_categories
    links = [link for each in verdict.reason.trail for link in (each, *each.trail)]
    assert Code.UNPROVEN in [link.code for link in links]
    assert len(links) == len(set(links))
