"""Rules in plans: jobs are launched for and placed only on what rules allow; nothing else changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.constraints.library import read_rules
from autoscaler.core.actions import Action, Enrol, Kill, Launch
from autoscaler.core.demand.demand import read_demand
from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.fleet import InstanceType, Interruption
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable.admission import Judge, admission_of
from autoscaler.report.wording import text
from tests.core.building import (
    GIB,
    MAIN,
    NOW,
    XLARGE,
    Thing,
    a_bucket,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    category_of,
    codes,
    details_of,
    jobs,
    launched,
    reason_code,
    verdict_and_code,
    verdict_of,
    with_pes_of_groups,
)

HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}
ONLY_XLARGE = {"node.vm_size": "m5.xlarge"}


def ruled(rules: dict[str, Any], *things: Thing, **world: Any) -> Snapshot:
    """A snapshot of these things under rules."""
    snapshot = a_snapshot(*things, **world)
    return replace(snapshot, policy=under(read_rules(json.dumps(rules)), snapshot.policy))


def planned(rules: dict[str, Any], *things: Thing, **world: Any) -> Plan:
    return plan(ruled(rules, *things, **world))


def applied(constraints: object, **who: object) -> dict[str, Any]:
    return {"apply": [{**who, "constraints": constraints}]}


# -- what is launched -------------------------------------------------------------------------------------------------


def test_a_type_that_rules_allow_is_launched() -> None:
    assert launched(planned({"constraints": [ONLY_XLARGE]}, a_job(), **HYBRID)) == {"m5.xlarge": 1}


def test_rules_that_allow_everything_change_nothing() -> None:
    things = (jobs(40), a_worker("w1", idle=60), a_worker("w2", used=1))
    bare, under_rules = plan(a_snapshot(*things, **HYBRID)), planned({"constraints": [{}]}, *things, **HYBRID)
    assert (unassigned(under_rules), under_rules.workers) == (unassigned(bare), bare.workers)


def unassigned(made: Plan) -> list[Action]:
    """Its actions; which rules hold for a job is part of what its category asks for."""
    return [replace(act, assignment=()) if isinstance(act, Launch) else act for act in made.actions]


@pytest.mark.parametrize(
    ("who", "job", "expected"),
    (
        ({"queue": "main.q"}, {}, "m5.xlarge"),
        ({"queue": "ma*"}, {}, "m5.xlarge"),
        ({"queue": "other.q"}, {}, "m5.large"),
        ({"user": ["bob", "ann"]}, {"owner": "ann"}, "m5.xlarge"),
        ({"user": "bob"}, {"owner": "ann"}, "m5.large"),
        ({"project": "open"}, {"project": "open"}, "m5.xlarge"),
        ({"project": "open"}, {}, "m5.large"),
        ({"project": "open", "user": "bob"}, {"project": "open", "owner": "ann"}, "m5.large"),
        ({"pe": "mpi*"}, {"pe": "mpi"}, "m5.xlarge"),
        ({"pe": "mpi*"}, {"pe": "local"}, "m5.large"),
        ({"pe": "mpi*"}, {}, "m5.large"),
    ),
)
def test_an_entry_applies_to_the_jobs_that_it_selects(who: dict[str, Any], job: dict[str, Any], expected: str) -> None:
    details = details_of(1, group="users", project=job.get("project", ""))
    assert launched(planned(applied(ONLY_XLARGE, **who), a_job(**job), details, **HYBRID)) == {expected: 1}


def test_all_entries_that_select_a_job_apply() -> None:
    both = {
        "apply": [
            {"user": "ann", "constraints": {"node.vm_size": ["m5.xlarge", "m5.2xlarge"]}},
            {"queue": "main.q", "constraints": {"not": ONLY_XLARGE}},
        ]
    }
    assert launched(planned(both, a_job(owner="ann"), **HYBRID)) == {"m5.2xlarge": 1}


def test_jobs_under_different_rules_are_separate_demand() -> None:
    rules = applied(ONLY_XLARGE, user="ann")
    things = (a_job(1, owner="ann"), a_job(2, owner="bob"))
    first = launched(planned(rules, *things, a_worker("w1"), **HYBRID))
    assert first == {"m5.xlarge": 1}, "bob's job fits on the m5.large that is there, ann's does not"


def test_an_entry_may_select_jobs_by_their_context() -> None:
    rules = applied(ONLY_XLARGE, context={"tier": "go*"})
    gold = planned(rules, a_job(), details_of(1, context={"tier": "gold"}), **HYBRID)
    plain = planned(rules, a_job(), details_of(1), **HYBRID)
    assert (launched(gold), launched(plain)) == ({"m5.xlarge": 1}, {"m5.large": 1})


def test_jobs_of_unknown_context_do_not_count_and_qstat_j_is_run() -> None:
    snapshot = ruled(applied(ONLY_XLARGE, context={"tier": "gold"}), a_job(), **HYBRID)
    wanted = details_wanted(snapshot.cluster.job_categories, snapshot.memory, snapshot.policy, snapshot.now)
    assert (reason_code(plan(snapshot)), wanted) == (Code.NOT_READ_YET, (1,))


def test_jobs_of_one_category_are_split_by_their_context() -> None:
    rules = applied({"never": "no gold today"}, context={"tier": "gold"})
    found = planned(rules, jobs(3), details_of(2, context={"tier": "gold"}), details_of(1, 3), **HYBRID)
    assert [(verdict.jobs, verdict.counted) for verdict in found.job_categories] == [((1, 3), True), ((2,), False)]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    (
        ({"node.location": "eu-1b"}, ("eu-1b",)),
        ({"node.spot": False}, ("eu-1a", "eu-1b")),
        ({"in-a-placement-group": True}, ()),
        ({"xor": [{"node.location": "eu-1a"}, {"node.location": "eu-1c"}]}, ("eu-1a",)),
    ),
)
def test_a_launch_names_only_the_zones_that_rules_allow(constraint: dict[str, Any], expected: tuple[str, ...]) -> None:
    found = planned({"constraints": [constraint]}, a_job(), a_bucket(zone="eu-1a"), a_bucket(zone="eu-1b"))
    orders = [action for action in found.actions if isinstance(action, Launch)]
    zones = [bucket.key.zone for order in orders for candidate in order.candidates for bucket in candidate.buckets]
    assert tuple(sorted(zones)) == expected


def test_every_task_uses_up_what_its_constraint_requests() -> None:
    rules = {
        "default_resources": [{"name": "scratchdisk", "value": "size::20g"}],
        "constraints": [{"scratchdisk": "size::10g"}],
    }
    assert launched(planned(rules, jobs(8), instance_type="m5.2xlarge")) == {"m5.2xlarge": 4}


def test_built_in_resources_need_no_default_resource() -> None:
    rules = {"constraints": [{"ncpus": 2}]}
    assert launched(planned(rules, jobs(2), instance_type="m5.large")) == {"m5.large": 2}


def test_a_later_rule_uses_a_joined_hosts_own_value() -> None:
    rules = {
        "default_resources": [{"name": "ngpus", "value": 4}, {"name": "half", "value": "node.resources.ngpus"}],
        "complexes": {"gpus": "ngpus"},
        "constraints": [{"half": [2]}],
    }
    host = a_host("w1", slots=8, consumables={"gpus": "2"})
    assert reason_code(planned(rules, a_job(), a_worker("w1", type_=GPU, host=host), a_bucket(GPU))) == Code.FITS


SCRATCH = {"default_resources": [{"name": "scratchdisk", "value": "size::20g"}]}
TEN_OR_FIVE = {"or": [{"node.spot": True, "scratchdisk": "size::10g"}, {"scratchdisk": "size::5g"}]}


@pytest.mark.parametrize(
    ("constraint", "workers"),
    (
        (TEN_OR_FIVE, 2),
        ({"xor": [TEN_OR_FIVE, {"never": "no"}]}, 2),
        ({"scratchdisk": "size::5g", "or": [TEN_OR_FIVE]}, 4),
        ({"or": [{"exclusive": True}, {"never": "no"}]}, 8),
        ({"or": [{"scratchdisk": "size::15g"}, {"node.spot": False}]}, 1),
        ({"not": {"scratchdisk": "size::30g"}}, 1),
    ),
)
def test_every_task_uses_up_what_its_alternative_requests(constraint: dict[str, Any], workers: int) -> None:
    found = planned({**SCRATCH, "constraints": [constraint]}, jobs(8), instance_type="m5.2xlarge")
    assert launched(found) == {"m5.2xlarge": workers}


def test_a_worker_runs_only_as_many_tasks_as_their_alternative_allows() -> None:
    rules = {**SCRATCH, "constraints": [TEN_OR_FIVE]}
    host = a_host("w1", slots=8)
    things: tuple[Thing, ...] = (jobs(8), a_worker("w1", host=host))
    assert launched(planned(rules, *things, instance_type="m5.2xlarge")) == {"m5.2xlarge": 1}


def test_an_exclusive_job_gets_a_worker_of_its_own() -> None:
    assert launched(planned({"constraints": [{"exclusive": True}]}, jobs(3), instance_type="m5.xlarge")) == {
        "m5.xlarge": 3
    }


def test_tasks_of_one_array_may_share_an_exclusive_worker() -> None:
    array = replace(a_job(tasks="1-4:1", count=4), jobs=(1,))
    found = planned({"constraints": [{"exclusive-task": True}]}, array, details_of(1), instance_type="m5.xlarge")
    assert launched(found) == {"m5.xlarge": 1}


def test_jobs_beyond_a_shared_resource_do_not_count() -> None:
    rules = {
        "shared_resources": [{"name": "licenses", "initial_value": 10, "current_value": 5}],
        "apply": [{"queue": "main.q", "constraints": {"licenses": 2}}],
    }
    found = planned(rules, jobs(4), instance_type="m5.large")
    assert [(verdict.count, verdict.counted) for verdict in found.job_categories] == [(2, True), (2, False)]
    assert text(found.job_categories[1].reason) == "of licenses, which all share, 1 of 10 are left, and 2 is requested"


# -- what counts as supply --------------------------------------------------------------------------------------------


def test_a_free_worker_that_rules_forbid_is_not_supply() -> None:
    found = planned({"constraints": [ONLY_XLARGE]}, a_job(), a_worker("w1"), **HYBRID)
    assert (reason_code(found), launched(found)) == (Code.EXPIRED, {"m5.xlarge": 1})


@pytest.mark.parametrize(
    ("thing", "expected"),
    (
        (a_worker("w1", type_=XLARGE), Code.FITS),
        (a_machine("w1", type_=XLARGE), Code.WAITS_FOR_COMING),
        (a_host("h1", load={"num_proc": "4"}), Code.EXPIRED),
    ),
)
def test_only_joined_or_coming_workers_that_rules_allow_are_supply(thing: Thing, expected: Code) -> None:
    assert reason_code(planned({"constraints": [ONLY_XLARGE]}, a_job(), thing, **HYBRID)) == expected


def test_a_persistent_host_is_judged_by_its_reported_values() -> None:
    rules = {"constraints": [{"node.vcpu_count": 4, "node.memory": "size::8g", "h_vmem": "size::4g"}]}
    host = a_host("h1", load={"num_proc": "4", "mem_total": "8G"}, consumables={"h_vmem": "6G"})
    smaller = replace(host, load={"num_proc": "4", "mem_total": "7.9G"})
    assert [reason_code(planned(rules, a_job(), one)) for one in (host, smaller)] == [Code.FITS, Code.RULES_FORBID]


def test_running_jobs_reduce_the_resources_that_grid_engine_counts() -> None:
    rules = {"constraints": [{"h_vmem": "size::4g"}]}
    host = a_host("h1", slots=4, used=1, consumables={"h_vmem": "2G"}, hard={"h_vmem": "4G"})
    assert reason_code(planned(rules, a_job(), host)) == Code.EXPIRED


def test_an_idle_worker_that_rules_forbid_to_all_waiting_jobs_leaves() -> None:
    things = (a_job(waited=1), a_worker("w1", idle=600))
    kept, left = plan(a_snapshot(*things)), planned({"constraints": [ONLY_XLARGE]}, *things, **HYBRID)
    assert (verdict_and_code(kept, "w1")[1], verdict_and_code(left, "w1")) == (Code.NEEDED, ("disable", Code.IDLE))


def test_a_rule_for_another_queue_does_not_exclude_the_jobs_other_queue() -> None:
    rules = applied({"never": "not here"}, queue="other.q")
    policy = Policy(
        queues=(QueuePolicy("main.q", "execute"), QueuePolicy("other.q", "execute_1")),
        node_arrays=(
            NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.large"),
            NodeArrayPolicy("execute_1", "other.q", "@others", "m5.large"),
        ),
        master="master",
    )
    queues = {"main.q": MAIN, "other.q": replace(MAIN, name="other.q")}
    found = planned(rules, a_job(), policy=policy, queues=queues)
    assert [action.node_array for action in found.actions if isinstance(action, Launch)] == ["execute"]


# -- what workers have, and Grid Engine -------------------------------------------------------------------------------

GPU = InstanceType("p3.2xlarge", "p3", 8, 61 * GIB, gpus=0)
GPUS = {
    "default_resources": [
        {"select": {"node.vm_size": "p3.2xlarge"}, "name": "ngpus", "value": 2},
        {"name": "family", "value": "node.vm_size"},
    ],
    "complexes": {"gpus": "ngpus", "m_topology": "family"},
}


def test_a_mapped_complex_sizes_the_launch_by_the_rules_resource() -> None:
    things: tuple[Thing, ...] = (a_bucket(GPU), *(a_job(n, hard={"gpus": "1"}) for n in range(1, 5)))
    found = planned(GPUS, *things, instance_type="p3.2xlarge")
    assert launched(found) == {"p3.2xlarge": 2}


def test_without_the_mapping_workers_are_not_given_the_requested_complex() -> None:
    found = plan(a_snapshot(a_bucket(GPU), a_job(hard={"gpus": "1"}), instance_type="p3.2xlarge"))
    assert reason_code(found) == Code.NOT_GIVEN_TO_WORKERS


def test_a_worker_is_enrolled_with_the_resources_of_rules() -> None:
    found = planned(GPUS, a_machine("w1", type_=GPU), a_bucket(GPU), instance_type="p3.2xlarge")
    enrol = next(action for action in found.actions if isinstance(action, Enrol))
    assert dict(enrol.complex_values) == {"gpus": "2", "h_vmem": "61G", "m_topology": "p3.2xlarge"}


def test_a_rules_resource_sets_no_unmapped_complex() -> None:
    rules = {"default_resources": [{"name": "arch", "value": "mine"}, {"name": "slots", "value": 99}]}
    enrol = next(action for action in planned(rules, a_machine("w1")).actions if isinstance(action, Enrol))
    assert (enrol.slots, "arch" in dict(enrol.complex_values)) == (2, False)


@pytest.mark.parametrize(("rule", "expected"), ((2, {"p3.2xlarge": 2}), (1, {"p3.2xlarge": 1})))
def test_of_a_rules_and_a_jobs_amount_of_a_mapped_complex_the_larger_is_used(
    rule: int, expected: dict[str, int]
) -> None:
    rules = {**GPUS, "constraints": [{"ngpus": rule}]}
    things: tuple[Thing, ...] = (a_bucket(GPU), *(a_job(n, hard={"gpus": "1"}) for n in (1, 2)))
    assert launched(planned(rules, *things, instance_type="p3.2xlarge")) == expected


@pytest.mark.parametrize(("own", "expected"), (("1", Code.FITS), ("4", Code.EXPIRED)))
def test_a_joined_hosts_own_value_overrides_the_rule(own: str, expected: Code) -> None:
    rules = {**GPUS, "constraints": [{"not": {"ngpus": 3}}]}
    host = a_host("w1", slots=8, consumables={"gpus": own})
    found = planned(rules, a_job(), a_worker("w1", type_=GPU, host=host), a_bucket(GPU), instance_type="p3.2xlarge")
    assert reason_code(found) == expected


def test_a_rule_sees_a_hosts_whole_resource_including_what_jobs_use() -> None:
    rules = {**GPUS, "constraints": [{"or": [{"ngpus": 2}, {"never": "needs two"}]}]}
    host = a_host("w1", slots=8, used=1, consumables={"gpus": "1"}, hard={"gpus": "1"})
    found = planned(rules, a_job(), a_worker("w1", type_=GPU, host=host), a_bucket(GPU), instance_type="p3.2xlarge")
    assert reason_code(found) == Code.FITS


# -- unsatisfiable jobs -----------------------------------------------------------------------------------------------


def test_the_reason_of_a_job_that_rules_forbid_everywhere_names_the_type_and_why() -> None:
    rules = applied({"or": [{"project": "open"}, {"never": "User is denied access"}]}, user="ann")
    reason = category_of(planned(rules, a_job(owner="ann"), instance_type="m5.large")).reason
    assert codes(reason)[:2] == [Code.RULES_FORBID, Code.AGAINST_RULES]
    assert "not execute/m5.large; it meets no alternative of 2; it has no project; User is denied access" in text(
        reason
    )


def test_a_job_forbidden_only_by_rules_is_neither_deleted_nor_held() -> None:
    rules = {"constraints": [{"never": "closed"}]}
    snapshot = ruled(rules, a_job(waited=3600))
    for _ in range(5):
        found = plan(snapshot)
        assert not [
            action for action in found.actions if isinstance(action, Kill) or "hold" in str(type(action)).lower()
        ]
        assert Code.ONLY_RULES in codes(category_of(found).reason)
        snapshot = replace(snapshot, memory=found.memory, now=snapshot.now + 60)


def test_a_job_that_rules_forbid_causes_no_launch_and_keeps_no_worker() -> None:
    found = planned({"constraints": [{"never": "closed"}]}, a_job(), a_worker("w1", idle=600))
    assert acts(found) == [("disable", "w1")]


# -- timeouts, and which workers stay ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    (
        ({"idle_timeout": 3600}, Code.IDLE_NOT_LONG_ENOUGH),
        ({"idle_timeout": {"default": 3600, "execute": 100}}, Code.IDLE),
        ({"idle_timeout": {"default": 100, "other": 3600}}, Code.IDLE),
    ),
)
def test_an_idle_timeout_of_rules_overrides_the_setting(timeouts: dict[str, Any], expected: Code) -> None:
    assert verdict_and_code(planned(timeouts, a_worker("w1", idle=600), idle_timeout=60), "w1")[1] == expected


@pytest.mark.parametrize(("seconds", "expected"), ((3600, "wait"), (60, "terminate")))
def test_a_boot_timeout_of_rules_overrides_the_setting(seconds: int, expected: str) -> None:
    found = planned(
        {"boot_timeout": {"default": 10, "execute": seconds}}, a_machine(None, age=600, note=WorkerNote(NOW - 600))
    )
    assert verdict_of(found, "i-new").verdict == expected


@pytest.mark.parametrize("keep_alive", (True, {"execute": True}, ["w1"]))
def test_a_worker_that_rules_keep_alive_stays(keep_alive: object) -> None:
    assert verdict_and_code(planned({"keep_alive": keep_alive}, a_worker("w1", idle=9000)), "w1") == (
        "keep",
        Code.KEPT_BY_RULES,
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    (
        (Overrides(stop="now"), Code.STOPPING),
        (Overrides(stop="drain"), Code.STOPPING),
        (Overrides(drain=frozenset({"w1"})), Code.DRAINED_BY_COMMAND),
    ),
)
def test_operator_overrides_win_over_keep_alive_of_rules(overrides: Overrides, expected: Code) -> None:
    snapshot = ruled({"keep_alive": True}, a_worker("w1", idle=9000), overrides)
    first = plan(snapshot)
    leaving = a_worker("w1", mark=Disabling.COMMAND, empty=60)
    then = plan(replace(ruled({"keep_alive": True}, leaving, overrides), now=snapshot.now + 60))
    assert (verdict_and_code(first, "w1"), acts(then)) == (("disable", expected), [("remove", "w1")])


def test_a_machine_that_never_comes_up_is_terminated_despite_keep_alive_of_rules() -> None:
    found = planned({"keep_alive": True}, a_machine(None, age=2000, note=WorkerNote(NOW - 2000)))
    assert verdict_of(found, "i-new").verdict == "terminate"


def test_a_hosts_value_of_a_string_complex_is_text() -> None:
    rules = {"constraints": [{"m_topology": "8"}]}
    host = a_host("h1", fixed={"m_topology": "8"})
    assert reason_code(planned(rules, a_job(), host)) == Code.FITS


@pytest.mark.parametrize("keep_alive", (False, {"other": True}, ["w2"]))
def test_an_idle_worker_that_rules_do_not_keep_alive_leaves(keep_alive: object) -> None:
    assert verdict_and_code(planned({"keep_alive": keep_alive}, a_worker("w1", idle=9000)), "w1") == (
        "disable",
        Code.IDLE,
    )


def test_without_rules_no_resource_names_are_read() -> None:
    def names(snapshot: Snapshot) -> frozenset[str]:
        return read_demand(snapshot.cluster, snapshot.memory, snapshot.policy, snapshot.now).names

    assert names(a_snapshot(a_job(), a_worker("w1"))) == frozenset()
    assert "constraints[0]" in names(ruled({"constraints": [{"m_topology": "8"}]}, a_job(), a_worker("w1")))


# -- other places that need rules -------------------------------------------------------------------------------------


def test_a_replacement_for_interrupted_jobs_follows_rules() -> None:
    worker = a_worker("w1", used=1)
    snapshot = ruled(applied(ONLY_XLARGE, user="ann"), worker, **HYBRID)
    taken = replace(snapshot.fleet, interruptions=(Interruption("i-w1", NOW + 120, "terminate"),))
    details = {9000: JobDetail(9000, NOW - 10, rerun=True)}
    found = plan(replace(snapshot, fleet=taken, cluster=replace(snapshot.cluster, details=details)))
    assert launched(found) == {"m5.xlarge": 1}


@pytest.mark.parametrize(("rules", "expected"), ((None, Code.TOO_MUCH_ON_ONE_HOST), (GPUS, None)))
def test_no_job_is_refused_at_submission_for_a_resource_that_rules_may_give(
    rules: dict[str, Any] | None, expected: Code | None
) -> None:
    gpu = replace(GPU, gpus=1)
    world: dict[str, Any] = {"instance_type": "p3.2xlarge", "gpu_complex": "gpus"}
    snapshot = a_snapshot(a_bucket(gpu), **world) if rules is None else ruled(rules, a_bucket(gpu), **world)
    judge = Judge(admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy))
    reason = judge.refusal(a_job(hard={"gpus": "2"}).ask)
    assert (None if reason is None else reason.code) == expected


def test_admission_data_contains_no_rules() -> None:
    snapshot = ruled({"constraints": [{"never": "closed"}]})
    assert admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy).policy.rules is None


def test_a_job_that_requests_a_resource_of_rules_is_not_proven_unsatisfiable() -> None:
    found = planned(GPUS, a_bucket(GPU), a_job(waited=3600, hard={"gpus": "9"}), instance_type="p3.2xlarge")
    assert Code.UNPREDICTABLE_RESOURCE in codes(category_of(found).reason)


def test_no_worker_is_swapped_for_a_job_that_rules_forbid() -> None:
    things = (a_job(waited=3600), a_worker("w1", idle=5))
    found = planned({"constraints": [{"never": "closed"}]}, *things, limits=Limits(max_workers=1), **HYBRID)
    assert acts(found) == []


def test_a_weak_worker_is_swapped_for_a_type_that_rules_require() -> None:
    things: tuple[Thing, ...] = (a_job(waited=3600), a_worker("w1", idle=25))
    limits = Limits(max_workers=1)
    first = ruled({"constraints": [ONLY_XLARGE]}, *things, limits=limits, **HYBRID)
    second = replace(first, memory=plan(first).memory, now=first.now + 20)
    assert ("disable", "w1") in [*acts(plan(first)), *acts(plan(second))]


@pytest.mark.parametrize(
    ("constraint", "worker", "expected"),
    (
        ({"node.keep_alive": False}, a_worker("w1"), Code.EXPIRED),
        ({"node.keep_alive": True}, a_worker("w1"), Code.FITS),
        ({"node.last_match_time_unix": NOW}, a_worker("w1", type_=XLARGE, used=1), Code.FITS),
        ({"node.last_match_time_unix": NOW - 60}, a_worker("w1", idle=60), Code.FITS),
        ({"node.state": "Ready", "node.hostname": "w1", "node.instance_id": "i-w1"}, a_worker("w1"), Code.FITS),
    ),
)
def test_rules_are_checked_against_a_workers_own_properties(
    constraint: dict[str, Any], worker: Thing, expected: Code
) -> None:
    rules = {"constraints": [{"or": [constraint, {"node.exists": False}]}]}
    assert reason_code(planned(rules, a_job(), worker, Overrides(keep=frozenset({"w1"})), **HYBRID)) == expected


@pytest.mark.parametrize(
    ("constraints", "counted"),
    (
        ({"licences": 1}, 3),
        ({"licences": 0.1}, 32),
        ([{"licences": 1}, {"licences": 0.5}], 2),
        ({"licences": 0}, 1_000_000),
        ({"licences": 4}, 0),
    ),
)
def test_as_many_tasks_count_as_a_shared_resource_allows(constraints: object, counted: int) -> None:
    shared = [{"name": "licences", "initial_value": 10, "current_value": 3.2}]
    job = a_job(tasks="1-1000000:1", count=1_000_000)
    found = planned({"shared_resources": shared, **applied(constraints, user="*")}, job, details_of(1))
    assert sum(verdict.count for verdict in found.job_categories if verdict.counted) == counted


def test_a_shared_resource_used_by_one_job_is_not_available_to_the_next() -> None:
    shared = [{"name": "licences", "initial_value": 10, "current_value": 3}]
    rules = {"shared_resources": shared, **applied({"licences": 2}, user="*")}
    found = planned(rules, a_job(1, waited=90), a_job(2, waited=60, hard={"h_vmem": "1G"}))
    assert [(verdict.jobs, verdict.counted) for verdict in found.job_categories] == [((1,), True), ((2,), False)]


def test_the_reason_of_a_type_that_rules_forbid_is_that_rules_forbid_it() -> None:
    found = planned({"constraints": [ONLY_XLARGE]}, jobs(3), **HYBRID)
    why = {verdict.bucket.instance_type: verdict.reason.code for verdict in found.buckets}
    assert (why["m5.large"], why["m5.xlarge"]) == (Code.BUCKET_AGAINST_RULES, Code.BUCKET_CHOSEN)


def test_a_type_that_rules_allow_for_some_jobs_is_not_reported_as_forbidden() -> None:
    found = planned(applied(ONLY_XLARGE, user="ann"), a_job(1, owner="ann"), a_job(2, owner="bob"), **HYBRID)
    assert Code.BUCKET_AGAINST_RULES not in {verdict.reason.code for verdict in found.buckets}


# -- groups -----------------------------------------------------------------------------------------------------------

NEAR = applied({"in-a-placement-group": True}, pe="mpi")


def grouped(*things: Thing, rules: dict[str, Any] = NEAR) -> Snapshot:
    """A snapshot in which jobs of PE `mpi` stay inside one group of workers."""
    snapshot = with_pes_of_groups(ruled(rules, *things, instance_type="m5.large", limits=Limits(max_workers=20)))
    policy = replace(snapshot.policy, group_pes=("mpi",))
    present = arrays_present(snapshot.fleet, snapshot.memory)
    return replace(snapshot, policy=in_force(policy, snapshot.requests, present))


def test_a_group_counts_as_a_placement_group_if_its_cloud_has_none() -> None:
    found = plan(grouped(a_job(slots=4, pe="mpi*")))
    assert [
        (action.group_id, action.candidates[0].count) for action in found.actions if isinstance(action, Launch)
    ] == [("execute:4-1", 2)]


def test_no_group_is_launched_for_a_job_that_must_not_be_in_one() -> None:
    found = plan(grouped(a_job(slots=4, pe="mpi*"), rules=applied({"in-a-placement-group": False}, pe="mpi")))
    assert (acts(found), reason_code(found)) == ([], Code.RULES_FORBID)


@pytest.mark.parametrize("joined", (True, False))
def test_a_coming_or_joined_group_is_supply_for_its_job(joined: bool) -> None:
    make = a_worker if joined else a_machine
    names = [make(name, node_array="execute:4", group_id="execute:4-1", age=20.0) for name in ("w1", "w2")]
    found = plan(grouped(a_job(slots=4, pe="mpi*"), *names))
    assert (launched(found), reason_code(found)) == ({}, Code.FITS if joined else Code.WAITS_FOR_COMING)


def test_a_rule_against_placement_groups_allows_workers_outside_of_them() -> None:
    made = planned(applied({"in-a-placement-group": False}, queue="main.q"), a_job())
    assert (launched(made), reason_code(made)) == ({"m5.large": 1}, Code.EXPIRED)
