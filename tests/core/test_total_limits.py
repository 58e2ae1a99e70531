"""One limit for the whole cell: all queues and callers together stay within it (rule 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.facts.prospects import prospects
from autoscaler.core.limits.limits import Usage, most_of, room_for
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, Requests, RequestSet, Target
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.scale_up.launch_needs import LaunchNeeds
from autoscaler.core.scale_up.launches import launch_all
from autoscaler.core.sizing.replacement import Replacement, SwapPlan
from autoscaler.core.sizing.sizing import LaunchContext, Replacing, Shortfall
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    COMPLEXES,
    LARGE,
    MAIN,
    NOW,
    XLARGE,
    Thing,
    a_bucket,
    a_job,
    a_snapshot,
    a_worker,
    codes,
    jobs,
    note_codes,
)

QUEUES = {"main.q": replace(MAIN, pe_list=("local", "mpi")), "big.q": replace(MAIN, name="big.q", hostlist=("@big",))}


def two_queues(*things: Thing, limits: Limits, **array: object) -> Snapshot:
    """A cell of two queues with these limits each."""
    arrays = tuple(
        NodeArrayPolicy(name, queue, group, "m5.large", limits=limits, scale_up_batch=10, **array)  # type: ignore[arg-type]
        for name, queue, group in (("execute", "main.q", "@allhosts"), ("execute_1", "big.q", "@big"))
    )
    queues = (QueuePolicy("main.q", "execute"), QueuePolicy("big.q", "execute_1", default=False, static=False))
    return a_snapshot(*things, policy=Policy(queues, arrays, "master"), queues=QUEUES)


def demand(count: int = 6) -> Sequence[Thing]:
    return jobs(count, queues=("main.q",)), jobs(count, first=100, queues=("big.q",))


def brought(made: Plan) -> tuple[int, int, float]:
    """Most workers, cores and price that the launches of a plan may bring."""
    most = [most_of(action) for action in made.actions if isinstance(action, Launch)]
    return (
        sum(each.workers for each in most),
        sum(each.cores for each in most),
        round(sum(each.price_per_hour or 0.0 for each in most), 6),
    )


@pytest.mark.parametrize(
    ("limits", "most"),
    (
        (Limits(max_workers=10, total_workers=4), (4, 8, 0.4)),
        (Limits(max_workers=10, total_cores=9), (4, 8, 0.4)),
        (Limits(max_workers=10, total_price_per_hour=0.4), (4, 8, 0.4)),
    ),
)
def test_queues_share_the_limits_of_the_whole_cell(limits: Limits, most: tuple[int, int, float]) -> None:
    made = plan(two_queues(*demand(), limits=limits))
    assert brought(made) == most
    assert Code.CAPPED in note_codes(made) + [
        code for category in made.job_categories for code in codes(category.reason)
    ], "and the cap is reported"


def test_workers_of_another_queue_count_towards_the_total_limits() -> None:
    there = [a_worker(f"w{n}", used=2, node_array="execute") for n in range(3)]
    made = plan(two_queues(*there, *demand(), limits=Limits(max_workers=10, total_workers=4)))
    assert brought(made)[0] == 1


def test_min_workers_keep_to_the_total_limits() -> None:
    made = plan(two_queues(limits=Limits(max_workers=10, min_workers=3, total_workers=4)))
    assert brought(made)[0] == 4


def test_a_type_of_unknown_price_is_launched_for_no_queue_under_a_total_price_cap() -> None:
    unpriced = a_bucket(LARGE, price=-1)
    made = plan(two_queues(*demand(), unpriced, limits=Limits(max_workers=10, total_price_per_hour=5.0)))
    assert brought(made)[0] == 0
    assert all(Code.BUCKET_NO_PRICE in codes(category.reason) for category in made.job_categories)


def test_a_worker_of_unknown_price_in_another_queue_blocks_launches_under_a_total_price_cap() -> None:
    odd = a_worker("w1", used=4, type_=XLARGE, node_array="execute_1")
    odd = replace(odd, worker=replace(odd.worker, price_per_hour=None))
    limits = Limits(max_workers=10, total_price_per_hour=5.0)
    made = plan(two_queues(odd, a_job(queues=("main.q",)), a_bucket(LARGE), limits=limits))
    assert brought(made)[0] == 0


def test_prospects_are_capped_by_the_total_limits() -> None:
    there = [a_worker(f"w{n}", used=2, node_array="execute") for n in range(3)]
    found = prospects(two_queues(*there, a_bucket(LARGE), limits=Limits(max_workers=10, total_workers=5)))
    assert {(each.node_array, each.count) for each in found} == {("execute", 2), ("execute_1", 2)}


def test_the_reason_of_a_job_too_large_for_the_cell_names_the_total_limit() -> None:
    made = plan(two_queues(a_job(slots=12, pe="mpi"), limits=Limits(max_workers=10, total_workers=4)))
    assert "total_workers" in text(made.job_categories[0].reason), text(made.job_categories[0].reason)


def test_a_setting_of_the_whole_cell_is_named_without_a_suffix() -> None:
    remedy = text(because(Code.WOULD_FIT_WITH_SETTING, limit_setting=("total_workers", "execute_1")))
    assert remedy == "set CP_CAP_AUTOSCALE_TOTAL_WORKERS"


@pytest.mark.parametrize(("of_profile", "name"), ((False, "WORKERS_1 to 6"), (True, "WORKERS of queue big.q to 6")))
def test_a_setting_of_a_profile_is_named_by_its_queue_and_without_a_suffix(*, of_profile: bool, name: str) -> None:
    """A suffix means nothing in a profile."""
    snapshot = two_queues(a_job(slots=12, pe="mpi", queues=("big.q",)), a_bucket(LARGE), limits=Limits(max_workers=4))
    arrays = tuple(replace(array, of_profile=of_profile) for array in snapshot.policy.node_arrays)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, node_arrays=arrays)))
    assert f"CP_CAP_AUTOSCALE_{name}" in text(made.job_categories[0].reason), text(made.job_categories[0].reason)


# -- groups -----------------------------------------------------------------------------------------------------------


def test_groups_of_two_queues_share_the_total_limits() -> None:
    seen = two_queues(a_bucket(LARGE), limits=Limits(max_workers=10, total_workers=6))
    names = ("execute:8", "execute_1:8")
    arrays = tuple(ArrayDefinition(name, dynamic=True, extends=name.partition(":")[0], group_cores=8) for name in names)
    targets = tuple(Target(name, groups=1, group_cores=8) for name in names)
    requests = Requests((RequestSet("standard", "ann", NOW, None, targets),), arrays)
    policy = in_force(seen.policy, requests, frozenset(), seen.fleet.buckets)
    assert brought(plan(replace(seen, requests=requests, policy=policy)))[0] == 4, "one group of 4 workers, not two"


# -- swaps: the capacity that a worker freed --------------------------------------------------------------------------


def a_context(policy: Policy, **more: Any) -> LaunchContext:
    return LaunchContext(policy, (a_bucket(LARGE),), (), {}, complexes=COMPLEXES, now=NOW, **{"launches": (), **more})


def a_replacement(*options: tuple[str, PriceType], total: int, before: int) -> Replacement:
    """Room is kept so that the cell has `total` workers, of which there were `before` when the pass began."""
    one = Usage(total_workers=before)
    kept = replace(one, total_workers=total)
    reason = because(Code.LAUNCH_REPLACES, worker="w1")
    return Replacement(frozenset(), Replacing(options, reason), kept, one, Host("", {"main.q": 2}), 0)


def test_a_launch_beside_a_swap_respects_launches_of_another_queue() -> None:
    policy = two_queues(limits=Limits(max_workers=10, total_workers=4)).policy
    mine, now = policy.node_arrays[0], Usage(total_workers=3)
    swap, short = a_replacement(total=2, before=1), Shortfall((), (), OpenPlacement(()), workers=3)
    growth = swap.size_launch(mine, short, now, a_context(policy))
    assert growth.launch is None, "2 kept and 2 launched elsewhere are 4"
    growth = swap.size_launch(mine, short, Usage(total_workers=1), a_context(policy))
    assert growth.launch is not None
    assert growth.launch.candidates[0].count == 2


@pytest.mark.parametrize("cap", ({"total_workers": 4}, {"total_cores": 8}, {"total_price_per_hour": 0.4}), ids=str)
def test_another_queue_does_not_use_the_capacity_freed_by_a_swap(cap: dict[str, Any]) -> None:
    policy = two_queues(limits=Limits(max_workers=10, **cap)).policy
    usage = {
        array.name: Usage(total_workers=3, total_cores=6, total_price_per_hour=0.3) for array in policy.node_arrays
    }
    needs = LaunchNeeds((), (), OpenPlacement(()), {"execute_1": 2})
    swaps = SwapPlan(replacements={"execute": a_replacement(("m5.large", PriceType.ON_DEMAND), total=3, before=3)})
    assert launch_all(needs, a_context(policy), usage, swaps, None).launches == ()
    assert launch_all(needs, a_context(policy), usage, SwapPlan(), None).launches != ()


def test_a_cap_of_one_of_several_node_arrays_names_it() -> None:
    room = room_for(a_bucket(), Limits(max_workers=8, of="execute_1"), Usage(8))
    assert (room.count, text(room.cap)) == (0, "capped by max_workers (8) of execute_1")
    assert text(room_for(a_bucket(), Limits(max_workers=8), Usage(8)).cap) == "capped by max_workers (8)"
