"""Node arrays in force: what requests change of the configured ones, and dynamic ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.core.capacity.offers import offers_for
from autoscaler.core.capacity.supply import usage_of
from autoscaler.core.limits.limits import Usage
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.memory import Event, Memory, WorkerNote
from autoscaler.core.model.request_sets import ArrayDefinition, Requests
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy, SwitchedOff
from autoscaler.core.requests.arrays import arrays_present, families, in_force
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.unsatisfiable.best_cluster import allowed_by
from autoscaler.core.workers.worker_observation import observe_workers
from tests.core.building import (
    LARGE,
    M5,
    NOW,
    X2LARGE,
    XLARGE,
    a_bucket,
    a_job,
    a_machine,
    a_snapshot,
    an_order,
    jobs,
    launched,
)

EXECUTE = NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.large", limits=Limits(max_workers=10))
OTHER = NodeArrayPolicy("execute_2", "other.q", "@others", "m5.xlarge", limits=Limits(max_workers=5))
POLICY = Policy(
    queues=(QueuePolicy("main.q", "execute"), QueuePolicy("other.q", "execute_2")),
    node_arrays=(EXECUTE, OTHER),
    master="master",
)


def in_force_with(*definitions: ArrayDefinition, present: tuple[str, ...] = ()) -> Policy:
    return in_force(POLICY, Requests(arrays=definitions), present)


def dynamic(name: str = "burst", extends: str | None = "execute", **more: object) -> ArrayDefinition:
    return ArrayDefinition(name, dynamic=True, extends=extends, **more)  # type: ignore[arg-type]


def array(policy: Policy, name: str) -> NodeArrayPolicy:
    found = policy.node_array(name)
    assert found is not None
    return found


def test_without_requests_the_policy_is_that_of_the_settings() -> None:
    assert in_force(POLICY, Requests()) == POLICY


def test_applying_requests_again_changes_nothing() -> None:
    definitions = (ArrayDefinition("execute", machine_types=("m5.xlarge",), max_count=3), dynamic(max_cores=8))
    once = in_force_with(*definitions)
    assert in_force(once, Requests(arrays=definitions)) == once


def test_a_request_may_set_the_types_of_a_configured_array() -> None:
    made = array(in_force_with(ArrayDefinition("execute", machine_types=("m5.2xlarge", "m5.large"))), "execute")
    buckets = [a_bucket(type_) for type_ in M5]
    assert list(allowed_types(made, buckets)) == ["m5.2xlarge", "m5.large"]


def test_the_order_of_named_types_is_the_preference() -> None:
    made = array(in_force_with(ArrayDefinition("execute", machine_types=("m5.2xlarge", "m5.large"))), "execute")
    options, _ = offers_for(made, [a_bucket(type_) for type_ in M5], (), Usage(), {})
    assert [option.type for option in options] == [X2LARGE, LARGE]


def test_requested_types_are_launched_for_job_demand_too() -> None:
    seen = a_snapshot(jobs(8))
    requests = Requests(arrays=(ArrayDefinition("execute", machine_types=("m5.2xlarge", "m5.large")),))
    assert launched(plan(replace(seen, policy=in_force(seen.policy, requests)))) == {"m5.2xlarge": 1}


def test_a_definition_that_no_live_request_names_changes_nothing() -> None:
    made = in_force_with(ArrayDefinition("execute", machine_types=("m5.xlarge",), requested=False))
    assert made == POLICY


def test_a_definition_decides_the_price_type() -> None:
    assert array(in_force_with(dynamic(price_type=PriceType.SPOT)), "burst").price_types == (PriceType.SPOT,)


def test_a_request_may_choose_among_the_operators_health_checks() -> None:
    checked = replace(EXECUTE, health_check=("/opt/check", "--quick"), health_checks="/etc/checks")
    requests = Requests(arrays=(dynamic(health_check="gpu"), dynamic("plain")))
    made = in_force(replace(POLICY, node_arrays=(checked, OTHER)), requests)
    assert [array(made, name).health_check for name in ("execute", "burst", "plain")] == [
        ("/opt/check", "--quick"),
        ("/etc/checks/gpu",),
        ("/opt/check", "--quick"),
    ]


def test_a_dynamic_array_has_the_queue_and_host_group_of_what_it_extends() -> None:
    made = array(in_force_with(dynamic(extends="execute_2")), "burst")
    assert (made.queue, made.host_group, made.extends) == ("other.q", "@others", "execute_2")


def test_a_dynamic_array_that_extends_nothing_extends_the_first_configured_array() -> None:
    assert array(in_force_with(dynamic(extends=None)), "burst").extends == "execute"


def test_a_dynamic_array_inherits_from_a_dynamic_one() -> None:
    made = in_force_with(dynamic("more", "burst"), dynamic("burst", "execute_2", machine_types=("m5.2xlarge",)))
    assert (array(made, "more").machine_types, array(made, "more").extends) == (("m5.2xlarge",), "execute_2")


def test_arrays_that_extend_each_other_extend_the_first_configured_array() -> None:
    made = in_force_with(dynamic("one", "two"), dynamic("two", "one"))
    assert {entry.extends for entry in made.node_arrays if entry.extends} == {"execute"}


def test_a_dynamic_array_has_no_min_workers() -> None:
    policy = replace(POLICY, node_arrays=(replace(EXECUTE, limits=Limits(min_workers=2)),))
    made = in_force(policy, Requests(arrays=(dynamic(),)))
    assert array(made, "burst").limits.min_workers == 0


def test_job_demand_still_launches_in_the_configured_array() -> None:
    seen = a_snapshot(a_job())
    made = plan(replace(seen, policy=in_force(seen.policy, Requests(arrays=(dynamic("aaa"),)))))
    assert [action.node_array for action in made.actions] == ["execute"]  # type: ignore[union-attr]


def test_an_array_that_no_request_names_has_no_allowed_types() -> None:
    assert allowed_types(array(in_force_with(dynamic(requested=False)), "burst"), [a_bucket(LARGE)]) == {}


def test_after_a_store_loss_a_group_array_belongs_to_its_base_array() -> None:
    assert families(in_force_with(present=("execute_2:64",)))["execute_2"][1].name == "execute_2:64"


def test_after_a_store_loss_any_other_dynamic_array_is_unknown() -> None:
    assert in_force_with(present=("burst", "gone:64")) == POLICY


def test_present_arrays_are_those_of_workers_orders_and_memory() -> None:
    note = WorkerNote(first_seen=NOW, bucket=a_bucket(LARGE, node_array="execute:8").key)
    seen = a_snapshot(
        a_machine(node_array="execute:4"),
        replace(an_order(), node_array="execute:2"),
        Memory(workers={"i-9": note}),
    )
    assert arrays_present(seen.fleet, seen.memory) == {"execute:4", "execute:2", "execute:8"}


# -- limits (rule 5) ------------------------------------------------------------------------------------------------


def usage_in(*machines: object, definitions: tuple[ArrayDefinition, ...]) -> dict[str, Usage]:
    seen = a_snapshot(*machines)  # type: ignore[arg-type]
    policy = in_force(seen.policy, Requests(arrays=definitions))
    return usage_of(seen.fleet, policy, observe_workers(seen.cluster, seen.fleet, seen.memory, policy, NOW), NOW)


def test_workers_of_an_array_and_those_that_extend_it_count_together() -> None:
    usage = usage_in(
        a_machine("w1"), a_machine("w2", node_array="burst", type_=XLARGE), definitions=(dynamic(), dynamic("idle"))
    )
    assert {name: (each.workers, each.cores) for name, each in usage.items()} == dict.fromkeys(
        ("execute", "burst", "idle"), (2, 6)
    )


def test_a_worker_of_an_unknown_array_counts_for_the_first_configured_array() -> None:
    usage = usage_in(a_machine("w1"), a_machine("w2", node_array="lost"), definitions=())
    assert usage["execute"].workers == 2


def test_max_count_limits_an_arrays_own_workers() -> None:
    usage = usage_in(a_machine("w1"), a_machine("w2", node_array="burst"), definitions=(dynamic(max_count=2),))
    burst = array(in_force_with(dynamic(max_count=2)), "burst")
    (option,), _ = offers_for(burst, [a_bucket(LARGE)], (), usage["burst"], {})
    assert (option.room.count, dict(option.room.cap.facts)) == (1, {"cap": "MaxCount", "limit": 2})


def test_max_core_count_limits_an_arrays_own_cores() -> None:
    burst = array(in_force_with(dynamic(max_cores=5)), "burst")
    (option,), _ = offers_for(burst, [a_bucket(LARGE)], (), Usage(own_cores=2), {})
    assert (option.room.count, option.room.cap["cap"]) == (1, "MaxCoreCount")


def test_max_count_does_not_raise_a_configured_limit() -> None:
    burst = array(in_force_with(dynamic(max_count=50)), "burst")
    (option,), _ = offers_for(burst, [a_bucket(LARGE)], (), Usage(workers=9), {})
    assert (option.room.count, option.room.cap["cap"]) == (1, "max_workers")


def test_the_launches_an_hour_count_for_all_arrays_that_extend_one() -> None:
    limits = Limits(max_workers=10, max_launches_per_hour=3)
    seen = a_snapshot(jobs(8), limits=limits, launches=(Event(NOW - 60, 2, "execute:64", "execute"),))
    assert launched(plan(seen)) == {"m5.large": 1}


def test_no_setting_of_a_dynamic_array_is_proposed_as_a_remedy() -> None:
    seen = a_snapshot(a_job(slots=4))
    policy = in_force(seen.policy, Requests(arrays=(dynamic(),)))
    demand = Demand(frozenset({"main.q"}), slots=4, per_host=4)
    lifts = allowed_by(policy, seen.fleet.buckets, seen.cluster).lifts(demand)
    assert {lift.place for lift in lifts} == {"execute"}


@pytest.mark.parametrize(
    ("slots", "settings"), ((2, {"autoscale": "true"}), (4, {"autoscale": "true", "max_workers": "2"}))
)
def test_a_queue_that_is_switched_off_has_to_be_switched_on_and_may_need_more(
    slots: int, settings: Mapping[str, str]
) -> None:
    """Its homogeneous workers have two slots each, and one would be allowed."""
    off = SwitchedOff("main.q", "autoscale", "CP_CAP_AUTOSCALE=false", "true", workers=1)
    seen = a_snapshot(a_bucket(LARGE), limits=Limits(max_workers=0, switched_off=off))
    allowed = allowed_by(seen.policy, seen.fleet.buckets, seen.cluster)
    wanted = Demand(frozenset({"main.q"}), slots=slots)
    assert {change.limit: change.to for change in allowed.changes(wanted)} == settings
    assert [(lift.limit, lift.to) for lift in allowed.lifts(wanted)] == [("autoscale", "true")] * (slots == 2)
