"""The rules that `plan` is compared with do what their descriptions say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.core.policy import Policy
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Delays
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.results import document_of
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import LOCAL, SPREAD, WorkloadError, WorkloadJob
from tests.simulation.playing import a_policy, a_rule, a_simulation, a_workload, buckets, jobs_of, numbered

HYBRID = a_policy(hybrid=True)


def under(
    name: str, jobs: Sequence[WorkloadJob], policy: Policy = HYBRID, max_workers: int = 20, **cell: Any
) -> tuple[Simulation, Measures]:
    rule = a_rule(name, policy, max_workers)
    run = a_simulation(jobs, policy, decider=rule, cell=CellConfiguration(**cell))
    return run, run.run()


def test_a_fixed_cluster_is_paid_from_the_first_job_to_the_last() -> None:
    run, measures = under("static:2:m5.xlarge", jobs_of(3, seconds=3600.0))
    assert measures.launched == {"m5.xlarge": 2}
    assert measures.price == pytest.approx(2 * 0.192 * measures.last_end / 3600, rel=0.01)
    assert run.over


def test_one_machine_a_job_is_the_cheapest_that_holds_it() -> None:
    _, measures = under("one-per-job", numbered(jobs_of(1, slots=3, pe=LOCAL), jobs_of(1)))
    assert measures.launched == {"m5.xlarge": 1, "m5.large": 1}


def test_one_node_takes_the_batch_as_far_as_a_type_holds_it() -> None:
    _, measures = under("karpenter", jobs_of(6))
    assert measures.launched == {"m5.2xlarge": 1}
    _, measures = under("karpenter", jobs_of(1, slots=100, pe=SPREAD))
    assert measures.launched == {"m5.24xlarge": 1, "m5.xlarge": 1}


def test_cloud_pipelines_rule_launches_the_smallest_type_for_the_sum_of_what_waits() -> None:
    _, measures = under("cloud-pipeline", numbered(jobs_of(1, slots=4, pe=LOCAL), jobs_of(1, slots=8, pe=LOCAL)))
    assert measures.launched == {"m5.4xlarge": 1}  # 12 cores asked, 16 is the next size


def test_cloud_pipelines_rule_launches_one_worker_at_a_time() -> None:
    _, measures = under("cloud-pipeline", jobs_of(10), a_policy())
    times = [at for at, _, _ in measures.launches_at]
    assert len(times) > 1
    assert all(later - earlier > 120 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("name", ("one-per-job", "karpenter", "cloud-pipeline", "static:8:m5.24xlarge"))
def test_every_rule_ends_with_all_jobs_run_and_no_machine_left(name: str) -> None:
    run, measures = under(name, list(a_workload()))
    assert measures.finished == 40
    assert not [machine for machine in run.cloud.machines.values() if machine.ending is None]


@pytest.mark.parametrize("name", ("one-per-job", "karpenter", "oracle"))
@pytest.mark.parametrize("pe", (LOCAL, SPREAD))
def test_idle_workers_that_are_too_small_make_room_for_a_larger_one(name: str, pe: str) -> None:
    small = [jobs_of(1, slots=2, pe=LOCAL, seconds=1_200.0 + 3_600.0 * number) for number in range(3)]
    run, measures = under(name, numbered(*small, jobs_of(1, submitted=900.0, slots=36, pe=pe)), max_workers=3)
    assert run.over
    # Three small workers are at the limit: the first of them that is idle leaves, and the large one boots.
    assert measures.waits[-1] < 1_200.0
    assert measures.hours.idle < 1.0


def test_an_idle_worker_stays_for_a_task_that_it_is_large_enough_for() -> None:
    jobs = numbered(jobs_of(4, owner="ann", seconds=900.0))
    rule = a_rule("one-per-job", HYBRID, 20)
    run = a_simulation(jobs, HYBRID, decider=rule, cell=CellConfiguration(user_slots=1))
    assert sum(run.run().launched.values()) == 4
    assert run.over


RAM = "h_vmem"
RULES = ("one-per-job", "karpenter", "cloud-pipeline", "oracle")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("slots", "memory", "pe", "launched"),
    (
        (1, "12G", None, {"m5.xlarge": 1}),  # m5: 4 GiB a core
        (2, "12G", LOCAL, {"m5.2xlarge": 1}),
        (1, "2G", None, {"m5.large": 1}),
        (3, "24G", SPREAD, {"m5.8xlarge": 1}),
    ),
)
def test_rules_launch_what_holds_the_memory_that_is_asked_for(
    name: str, slots: int, memory: str, pe: str | None, launched: dict[str, int]
) -> None:
    run, measures = under(name, jobs_of(1, slots=slots, hard=((RAM, memory),), pe=pe), consumables=(RAM,))
    assert measures.launched == launched
    assert run.over


@pytest.mark.parametrize("name", ("one-per-job", "karpenter", "oracle"))
def test_cores_that_workers_keep_free_run_no_jobs_of_rules_either(name: str) -> None:
    run, measures = under(name, jobs_of(1, slots=4, pe=LOCAL), a_policy(hybrid=True, free_cores=1))
    assert measures.launched == {"m5.2xlarge": 1}
    assert run.over


@pytest.mark.parametrize("name", RULES)
def test_memory_that_jobs_hold_is_no_room_for_others(name: str) -> None:
    jobs = numbered(jobs_of(1, hard=((RAM, "6G"),), seconds=7_200.0), jobs_of(1, submitted=900.0, hard=((RAM, "6G"),)))
    run, measures = under(name, jobs, consumables=(RAM,))
    assert measures.launched == {"m5.large": 2}
    assert max(measures.waits) < 600.0
    assert run.over


@pytest.mark.parametrize("name", RULES)
def test_memory_of_all_waiting_tasks_together_is_bought(name: str) -> None:
    run, measures = under(name, jobs_of(4, hard=((RAM, "8G"),)), consumables=(RAM,))
    gib = {offer.type.name: offer.type.memory / 2**30 for offer in buckets()}
    assert 32 <= sum(gib[kind] * count for kind, count in measures.launched.items()) < 48
    assert max(measures.waits) < 600.0
    assert run.over


@pytest.mark.parametrize("name", RULES)
def test_a_task_that_no_type_holds_launches_nothing_and_keeps_no_other_from_a_worker(name: str) -> None:
    jobs = numbered(jobs_of(1, hard=((RAM, "2000G"),)), jobs_of(1, hard=((RAM, "1G"),)))
    run, measures = under(name, jobs, consumables=(RAM,))
    assert measures.launched == {"m5.large": 1}
    assert (measures.finished, run.engine.waiting) == (1, 1)
    assert measures.worker_seconds < 1_800.0 or name == "cloud-pipeline"  # which lets none go while any task waits


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("slots", "quota", "left_out"), ((60, None, 0), (61, None, 1), (60, 59, 1)), ids=("at", "beyond", "over quota")
)
def test_a_task_that_all_workers_together_never_hold_launches_nothing_and_is_counted(
    name: str, slots: int, quota: int | None, left_out: int
) -> None:
    month = 30 * 86_400.0  # for so long there is time to launch in vain
    jobs = numbered(jobs_of(1), jobs_of(1, slots=slots, pe=SPREAD), jobs_of(1, submitted=month))
    run, measures = under(name, jobs, a_policy(), 30, user_slots=quota)
    assert document_of(name, run, None, "USD")["left_out_tasks"] == left_out
    assert (measures.finished, run.engine.waiting) == (3 - left_out, left_out)
    assert sum(measures.launched.values()) <= (2 if left_out else 32)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("slots", "quota"), ((61, None), (8, 8)), ids=("never held", "kept waiting by a quota"))
def test_while_a_task_waits_and_nothing_changes_no_rule_decides(name: str, slots: int, quota: int | None) -> None:
    month = 30 * 86_400.0
    first = jobs_of(1, slots=8, pe=SPREAD, seconds=month - 3_600.0) if quota else []
    jobs = numbered(first, jobs_of(1, submitted=60.0, slots=slots, pe=SPREAD), jobs_of(1, submitted=month))
    run, measures = under(name, jobs, a_policy(), 30, user_slots=quota)
    assert run.engine.waiting == (0 if quota else 1)
    assert measures.last_end >= month
    assert run.passes < 200  # one every ten seconds would be 260,000


def test_a_worker_of_cloud_pipelines_rule_leaves_once_no_job_has_waited_for_the_timeout() -> None:
    two = {"slots": 2, "pe": LOCAL}
    anns = jobs_of(2, owner="ann", seconds=600.0, **two)  # the second one waits for the first one's quota
    run, measures = under("cloud-pipeline", numbered(anns, jobs_of(1, seconds=120.0, **two)), a_policy(), user_slots=2)
    second_starts = max(measures.waits)
    first_leaves = min(at for at, _ in measures.removals_at)
    assert run.over
    assert 30.0 <= first_leaves - second_starts <= 35.0


@pytest.mark.parametrize("name", ("one-per-job", "karpenter", "cloud-pipeline", "oracle", "static:2:m5.xlarge"))
def test_a_machine_that_never_boots_is_given_up_and_another_one_comes(name: str) -> None:
    policy = a_policy(hybrid=True, boot_timeout=300.0)
    run = a_simulation(
        jobs_of(4, slots=4, pe=LOCAL, seconds=600.0), policy, decider=a_rule(name, policy), delays=Delays(failing=0.5)
    )
    measures = run.run()
    assert run.over
    assert sum(measures.launched.values()) == sum(measures.removed.values()) > (2 if name.startswith("static") else 1)
    assert measures.hours.boot < 20.0


@pytest.mark.parametrize("name", ("static", "static:x", "static:2:nosuch.type", "static:1:m5.large:x", "bogus"))
def test_an_unknown_rule_is_an_error_that_says_what_there_is(name: str) -> None:
    with pytest.raises(WorkloadError, match=r"static:N|these are allowed"):
        under(name, jobs_of(1))
