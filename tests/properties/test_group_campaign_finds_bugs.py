"""The soak's campaign with groups of workers, requests and retries can fail: each bug planted here breaks one of the
rules that it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.capacity import placement_groups as groups_
from autoscaler.core.capacity.group_targets import GroupTarget
from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.capacity.placement_groups import Group
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.requests import group_names as names
from autoscaler.core.scale_down import group_verdicts as verdicts
from autoscaler.core.scale_down.request_needs import RequestNeeds
from autoscaler.core.scale_up import group_launches as growth
from autoscaler.core.scale_up import group_offers as options
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.sge.admin import Administrator, Change
from autoscaler.sge.batches import Batches
from autoscaler.sge.groups import Groups
from tests.properties.test_campaign_finds_bugs import WAIT, WHILE, Bug, Patch, directory, found
from tests.samples import sample
from tests.soak.campaign import History, play
from tests.soak.events import Event
from tests.soak.world import Decide

__all__ = ["directory"]
STEPS = 60


def enables_before_all_are_ready(patch: Patch) -> Decide:
    group_verdict = verdicts._judge_group
    patch.setattr(verdicts, "_judge_group", lambda *of: replace(group_verdict(*of), hold=None))
    return plan


def removes_idle_workers_of_a_busy_group(patch: Patch) -> Decide:
    patch.setattr(verdicts, "_why_kept", lambda *of: None)
    return plan


def completes_with_any_type(patch: Patch) -> Decide:
    def others(group: Group, ledger: options.Ledger) -> Sequence[LaunchOffer]:
        found = options.group_options(group.array, ledger)
        return tuple(each.offer for each in found if each.offer.type != group.type)

    patch.setattr(growth, "options_like", others)
    return plan


def orders_one_more(patch: Patch) -> Decide:
    count = groups_.workers_of
    more: Callable[..., int] = lambda *of: (count(*of) or 0) + 1  # noqa: E731
    patch.setattr(groups_, "workers_of", more)
    patch.setattr(options, "workers_of", more)
    return plan


def keeps_incomplete_groups(patch: Patch) -> Decide:
    patch.setattr(growth, "groups_to_give_up", lambda *of: {})
    patch.setattr(verdicts, "_judge_group", lambda *of: GroupVerdict(hold=because(Code.GROUP_INCOMPLETE)))
    patch.setattr(growth, "_refill", lambda group, ledger, reason: (ledger, None))
    return plan


def leaves_objects_behind(patch: Patch) -> Decide:
    patch.setattr(Groups, "clear", lambda groups, group: ())
    patch.setattr(Groups, "sweep", lambda groups: ())
    return plan


def joins_no_host_group(patch: Patch) -> Decide:
    enrol, several = Administrator.enrol, Batches.enrol

    def alone(*of: object) -> Change:
        return enrol(*of[:6])  # type: ignore[arg-type]

    def together(*of: object) -> Mapping[str, bool]:
        return several(*of[:4])  # type: ignore[arg-type]

    patch.setattr(Administrator, "enrol", alone)
    patch.setattr(Batches, "enrol", together)
    return plan


def gives_every_group_the_same_name(patch: Patch) -> Decide:
    patch.setattr(names, "_written", lambda group: "all_of_1-1")
    return plan


def launches_without_a_request(patch: Patch) -> Decide:
    grow = growth.launch_groups

    def for_all(made: growth.Grouping, *of: object) -> growth.GroupLaunches:
        arrays = [array for array in made.group_context.launch_context.policy.node_arrays if array.group_cores]
        targets = {(array.name, False): GroupTarget(1, because(Code.REQUESTED)) for array in arrays}
        return grow(replace(made, targets=targets), *of)  # type: ignore[arg-type]

    patch.setattr("autoscaler.core.plan.launch_groups", for_all)
    return plan


def forgets_targets(patch: Patch) -> Decide:
    patch.setattr(growth, "_for_target", lambda array, count, reason, ledger: (ledger, None))
    return plan


def removes_workers_of_created_nodes(patch: Patch) -> Decide:
    patch.setattr(RequestNeeds, "nodes", property(lambda asked: {}))
    return plan


def ignores_a_retry_command(patch: Patch) -> Decide:
    patch.setattr("autoscaler.core.facts.facts.without_retried_failures", forgiven := lambda snapshot: snapshot)
    patch.setattr("autoscaler.core.limits.backoff.without_retried_failures", forgiven)
    return plan


def launches_one_more_than_a_spread_job_needs(patch: Patch) -> Decide:
    def more(candidate: LaunchSet) -> LaunchSet:
        return replace(candidate, count=candidate.count + 1) if candidate.count > 1 else candidate

    def decide(snapshot: Snapshot) -> Plan:
        made = plan(snapshot)
        actions = [
            replace(action, candidates=tuple(map(more, action.candidates))) if isinstance(action, Launch) else action
            for action in made.actions
        ]
        return replace(made, actions=tuple(actions))

    return decide


ASK, ASK_ANY, ASK_SMALL = (Event("asks_for_groups", 4, b) for b in (17, 29, 4))
"""For one group: of 8 cores in m5.large, of 8 in m5.xlarge or else m5.large, of 4 in any type."""
NOTHING = Event("asks_for_groups", 4, 0)
HALF, PLENTY = Event("runs_short", 0, 2), Event("runs_short", 0, 1)
MPI, MPI_SMALL = Event("mpi", 3, 3), Event("mpi", 0, 3)
"""Of 8 slots and of 2, for 200 s."""
DEATH, NODE, RETRY = Event("member_dies", 0, 0), Event("creates", 1, 0), Event("retry", 0, 0)
SOLD_OUT = tuple(Event("sold_out", number, 0) for number in range(3))
SLOW = Event("never_boots", 0, 0)
THREE, APART = Event("single", 2, 0), Event("pairs", 3, 0)
"""Small jobs, and one that needs two slots on each of four hosts."""
BUGS = (
    Bug(enables_before_all_are_ready, 10, 3, (SLOW, ASK, *(WHILE,) * 4), groups=True),
    Bug(
        removes_idle_workers_of_a_busy_group,
        10,
        3,
        (ASK, *(WHILE,) * 3, MPI_SMALL, NOTHING, *(WHILE,) * 8),
        groups=True,
    ),
    Bug(completes_with_any_type, 10, 3, (ASK_ANY, *(WHILE,) * 3, DEATH, *(WHILE,) * 3), groups=True),
    Bug(orders_one_more, 10, 3, (ASK, WAIT), groups=True),
    Bug(keeps_incomplete_groups, 10, 3, (HALF, ASK, *(WHILE,) * 40), groups=True),
    Bug(leaves_objects_behind, 8, 3, (MPI, *(WHILE,) * 4), groups=True, calm=True),
    Bug(joins_no_host_group, 10, 3, (ASK, *(WHILE,) * 4), groups=True),
    Bug(gives_every_group_the_same_name, 10, 3, (ASK, ASK_SMALL, *(WHILE,) * 4), groups=True),
    Bug(launches_without_a_request, 3, 3, (MPI, *(WHILE,) * 20), groups=True),
    Bug(forgets_targets, 12, 3, (ASK, WAIT), groups=True, calm=True),
    Bug(removes_workers_of_created_nodes, 12, 3, (NODE, *(WHILE,) * 10), groups=True),
    Bug(ignores_a_retry_command, 11, 3, (*SOLD_OUT, NODE, *(WHILE,) * 3, RETRY, WAIT), groups=True),
    Bug(launches_one_more_than_a_spread_job_needs, 3, 5121, (THREE, APART), groups=True),
)


@pytest.mark.parametrize("seed", sample((3, 7, 8), 8))
def test_without_a_planted_bug_the_campaign_finds_none(seed: int, directory: Path) -> None:
    played = play(History.of(seed, STEPS, groups=True), directory / "store.sqlite")
    assert (played.broken, played.world.injected["workers of groups"] > 0) == ((), True)


def test_slots_taken_by_small_jobs_do_not_count_for_a_larger_job(directory: Path) -> None:
    """Two of three start on the two slots there, one on the worker that comes for it: four more are needed."""
    played = play(History(5121, (THREE, APART), groups=True), directory / "store.sqlite", calm_passes=0)
    workers = [machine for machine in played.world.living if machine.order.order_id == "order2"]
    assert (played.broken, len(workers)) == ((), 4)


def test_a_group_that_cannot_be_completed_is_not_supply_for_a_job(directory: Path) -> None:
    """Two of its machines never came up, so their type has a backoff when another dies: the rest of it is terminated,
    and a job that would fit there gets a worker.
    """
    played = play(History.of(7044, 100, groups=True), directory / "store.sqlite", calm_passes=0)
    assert (played.broken, played.steps) == ((), 100)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_the_campaign_finds_a_planted_bug(bug: Bug, directory: Path, monkeypatch: Patch) -> None:
    assert any(broken.startswith(f"rule {bug.rule}: ") for broken in found(bug, directory, monkeypatch))
