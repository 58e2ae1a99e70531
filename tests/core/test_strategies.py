"""Strategies propose: ours, and one of others, keep the contract; what a pass does with a set of several types."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.fleet import InstanceType, PriceType
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.sizing.problem import Part, Problem, Proposal, Strategy, name_of, reason_of
from autoscaler.core.sizing.strategies import CPU_CAPACITY, NAIVE_CPU_CAPACITY, STRATEGIES, proposals_for
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.errors import SettingsError
from autoscaler.settings.strategies import OfOthers, known_name, of_others
from autoscaler.simulation.strategy_contract import Sample, StrategyContract, broken, samples
from tests.core.building import GIB, LARGE, X4LARGE, Thing, a_bucket, a_job, a_snapshot, codes, jobs
from tests.providers.test_extend import blocks

C5 = InstanceType("c5.large", "c5", 2, 4 * GIB)


class TestCpuCapacity(StrategyContract):
    def strategy(self) -> Strategy:
        return CPU_CAPACITY


class TestNaiveCpuCapacity(StrategyContract):
    def strategy(self) -> Strategy:
        return NAIVE_CPU_CAPACITY


class TestCost(StrategyContract):
    name, many = "cost", 120

    def strategy(self) -> Strategy:
        return STRATEGIES["cost"]


def pairs(problem: Problem) -> Sequence[Proposal]:
    """One set of the largest offer and of far too many of the smallest."""
    if not problem.offers:
        return ()
    both = Proposal((Part(problem.offers[-1], 1), Part(problem.offers[0], 99)), reason_of("one of each"))
    return (both, *problem.alone(problem.offers))


class TestPairs(StrategyContract):
    def strategy(self) -> Strategy:
        return pairs


def test_the_strategy_of_the_document_keeps_the_contract(tmp_path: Path) -> None:
    for name, text in zip(("mix.py", "test_mix.py"), blocks("python")[2:4], strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mix.py"]
    env = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


# -- the checker finds what is wrong ---------------------------------------------------------------------------------


def launching() -> tuple[Sample, Proposal]:
    """A sample with its first proposal of two workers or more that serves all tasks."""
    for sample in samples(500):
        for proposal in CPU_CAPACITY(sample.problem):
            if proposal.count > 1 and proposal.served == tuple(tasks for _, tasks in sample.problem.unmet):
                return sample, proposal
    raise AssertionError("no sample has such a proposal")


def test_the_checker_finds_a_set_beyond_limits() -> None:
    sample, proposal = launching()
    more = replace(proposal, parts=(replace(proposal.parts[0], count=60),))
    assert any("max_workers" in words for words in broken(sample, more))


def test_the_checker_finds_tasks_that_are_not_served() -> None:
    sample, proposal = launching()
    assert broken(sample, replace(proposal, served=tuple(count + 1 for count in proposal.served)))


def test_the_checker_finds_a_worker_without_a_task() -> None:
    sample, proposal = launching()
    part = replace(proposal.parts[0], count=proposal.count + 1)
    assert f"{name_of(0, proposal.count)!r} gets nothing" in broken(sample, replace(proposal, parts=(part,)))


# -- in a pass -------------------------------------------------------------------------------------------------------


def with_strategy(strategy: Strategy, *things: Thing, **array: object) -> Snapshot:
    made = a_snapshot(*things, hybrid=True, proposes=strategy, **array)  # type: ignore[arg-type]
    assert made.policy.node_arrays[0].proposes is strategy
    return made


def launch_of(made: Plan) -> Launch:
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    return launch


def sets(launch: Launch) -> list[dict[str, int]]:
    return [{offer.type.name: offer.count for offer in candidate.offers} for candidate in launch.candidates]


def test_a_set_of_two_types_is_launched_together_with_its_assignment_and_reason() -> None:
    made = plan(
        with_strategy(pairs, a_job(1, slots=16), a_job(2), a_bucket(LARGE), a_bucket(X4LARGE), scale_up_batch=5)
    )
    launch = launch_of(made)
    assert sets(launch)[0] == {"m5.4xlarge": 1, "m5.large": 1}
    assert sum(tasks for _, tasks in launch.assignment) == 2
    assert Code.LAUNCH_PREFERRED in codes(launch.reason)
    assert {verdict.bucket.instance_type for verdict in made.buckets if verdict.chosen} == {"m5.4xlarge", "m5.large"}


def test_a_batch_cuts_a_set_from_its_end_and_its_assignment_with_it() -> None:
    launch = launch_of(
        plan(with_strategy(pairs, a_job(1, slots=16), a_job(2), a_bucket(LARGE), a_bucket(X4LARGE), scale_up_batch=1))
    )
    assert sets(launch)[0] == {"m5.4xlarge": 1}
    assert sum(tasks for _, tasks in launch.assignment) == 1


@pytest.mark.parametrize(
    ("limits", "first"),
    (
        (Limits(max_workers=20, max_cores=17), {"m5.4xlarge": 1}),
        (Limits(max_workers=20, max_cores=18), {"m5.4xlarge": 1, "m5.large": 1}),
        (Limits(max_workers=20, max_price_per_hour=0.85), {"m5.4xlarge": 1}),
        (Limits(max_workers=20, total_workers=1), {"m5.4xlarge": 1}),
    ),
)
def test_limits_hold_for_a_set_as_a_whole(limits: Limits, first: dict[str, int]) -> None:
    things = (a_job(1, slots=16), a_job(2), a_bucket(LARGE), a_bucket(X4LARGE))
    assert sets(launch_of(plan(with_strategy(pairs, *things, limits=limits, scale_up_batch=5))))[0] == first


def test_offers_that_are_not_the_problems_are_left_out() -> None:
    other = samples(1)

    def stranger(problem: Problem) -> Sequence[Proposal]:
        return (Proposal((Part(next(other).problem.offers[0], 1),)), *problem.alone(problem.offers))

    made = plan(with_strategy(stranger, a_job(1), a_bucket(LARGE)))
    assert sets(launch_of(made)) == [{"m5.large": 1}]


def test_what_a_strategy_does_not_propose_is_said_to_be_not_preferred() -> None:
    def smallest(problem: Problem) -> Sequence[Proposal]:
        return problem.alone(problem.offers[:1])

    made = plan(with_strategy(smallest, a_job(1), a_bucket(LARGE), a_bucket(X4LARGE)))
    verdicts = {verdict.bucket.instance_type: verdict.reason.code for verdict in made.buckets}
    assert verdicts == {"m5.large": Code.BUCKET_CHOSEN, "m5.4xlarge": Code.BUCKET_NOT_PREFERRED}


def test_where_a_strategy_of_others_raises_ours_decides(caplog: pytest.LogCaptureFixture) -> None:
    def defective(_: Problem) -> Sequence[Proposal]:
        raise ZeroDivisionError("no price")

    with caplog.at_level(logging.ERROR):
        snapshot = with_strategy(OfOthers("mine", defective), a_job(1), a_bucket(LARGE))
        launches = [sets(launch_of(plan(snapshot))) for _ in range(2)]
    assert launches == [[{"m5.large": 1}]] * 2
    assert [record.message for record in caplog.records] == [
        "the strategy mine failed, so cpu-capacity decides: ZeroDivisionError: no price"
    ]


@pytest.mark.parametrize("answer", (lambda _: None, lambda problem: problem.offers), ids=("None", "offers"))
def test_where_a_strategy_of_others_answers_no_proposals_ours_decides(
    answer: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = with_strategy(OfOthers("mine", answer), a_job(1), a_bucket(LARGE))
    assert sets(launch_of(plan(snapshot))) == [{"m5.large": 1}]
    assert "the strategy mine failed, so cpu-capacity decides: " in caplog.text


# -- by name ---------------------------------------------------------------------------------------------------------


def test_a_strategy_is_found_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mix.py").write_text(blocks("python")[2], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = of_others("mix:propose")
    assert isinstance(found, OfOthers)
    proposals = proposals_for(found, next(samples(1)).problem)
    assert all(proposal.parts for proposal in proposals)
    monkeypatch.delitem(sys.modules, "mix")


@pytest.mark.parametrize("name", ("cpu-capacity", "naive-cpu-capacity", "default"))
def test_our_strategies_need_no_function(name: str) -> None:
    assert (known_name(name), of_others(name)) == (name, None)


def test_an_unknown_strategy_is_an_error_that_names_ours() -> None:
    with pytest.raises(ValueError, match=r"'cpu-capcity'.*ours are cpu-capacity, naive"):
        known_name("cpu-capcity")
    with pytest.raises(SettingsError, match="is no function"):
        of_others("autoscaler.core.policy:Limits")


# -- several families ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "allowed"),
    (
        ("m5", {"m5.large", "m5.4xlarge"}),
        ("m5,c5", {"m5.large", "m5.4xlarge", "c5.large"}),
        ("c*", {"c5.large"}),
        ("?5", {"m5.large", "m5.4xlarge", "c5.large"}),
        (None, {"m5.large", "m5.4xlarge"}),
    ),
)
def test_an_array_may_name_several_families(family: str | None, allowed: set[str]) -> None:
    types = (LARGE, X4LARGE, C5)
    made = plan(a_snapshot(jobs(40), *map(a_bucket, types), hybrid=True, family=family, scale_up_batch=5))
    assert {candidate.type.name for candidate in launch_of(made).candidates} == allowed


def test_several_families_and_price_types_are_all_tried() -> None:
    offers = [a_bucket(type_, price_type=kind) for type_ in (LARGE, C5) for kind in PriceType]
    price_types = (PriceType.SPOT, PriceType.ON_DEMAND)
    made = plan(a_snapshot(jobs(2), *offers, hybrid=True, family="m5,c5", price_types=price_types))
    tried = [(each.type.family, each.buckets[0].key.price_type) for each in launch_of(made).candidates]
    assert sorted(tried) == sorted((family, kind) for family in ("m5", "c5") for kind in PriceType)


def test_a_job_that_another_allowed_family_can_run_is_not_unsatisfiable() -> None:
    big = InstanceType("r5.4xlarge", "r5", 16, 512 * GIB)
    things = (a_job(1, slots=16, hard={"h_vmem": "30G"}), a_bucket(LARGE), a_bucket(big))
    known = {"hybrid": True, "memory_complex": "h_vmem"}
    refused = plan(a_snapshot(*things, family="m5", **known))  # type: ignore[arg-type]
    assert not any(isinstance(action, Launch) for action in refused.actions)
    assert sets(launch_of(plan(a_snapshot(*things, family="m5,r5", **known)))) == [{"r5.4xlarge": 1}]  # type: ignore[arg-type]
