"""Budgets of a month: reported at 50, 80 and 100 %; then any, only the cheapest, or no workers are launched. No worker
is terminated for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.cost.spending import Budget, BudgetAction, Spending, Whose
from autoscaler.core.demand.detail_needs import NOTHING
from autoscaler.core.limits.budgets import level
from autoscaler.core.model.cluster import HostJob, QueueInstance
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.sentence import news, sentence
from tests.core.building import (
    LARGE,
    NOW,
    X2LARGE,
    XLARGE,
    Thing,
    a_bucket,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    acts,
    codes,
    details_of,
    jobs,
    note_codes,
    reason_code,
)

CELL = Budget(Whose.CELL, "", 500.0)
ANN = Budget(Whose.USER, "ann", 100.0)
WIND = Budget(Whose.PROJECT, "wind", 100.0)
MONTH_END = NOW + 86_400.0


def under(snapshot: Snapshot, action: BudgetAction = BudgetAction.WARN, /, **spent: tuple[Budget, float]) -> Snapshot:
    budgets = tuple(budget for budget, _ in spent.values())
    spending = Spending({budget.owner: amount for budget, amount in spent.values()}, MONTH_END)
    return replace(snapshot, policy=replace(snapshot.policy, budgets=budgets, budget_action=action), spending=spending)


def planned(action: BudgetAction, budget: Budget, spent: float, *things: Thing, **array: object) -> Plan:
    return plan(under(a_snapshot(*things, **array), action, it=(budget, spent)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spent", "expected"), ((0.0, 0), (249.99, 0), (250.0, 50), (399.9, 50), (400.0, 80), (500.0, 100), (9e9, 100))
)
def test_budget_levels_of_50_80_and_100_percent_are_noted(spent: float, expected: int) -> None:
    assert level(CELL, Spending({"the cell": spent})) == expected
    levels = [note["level"] for note in planned(BudgetAction.WARN, CELL, spent).notes]
    assert levels == ([expected] if expected else [])


def test_a_budget_level_is_news_once_until_the_next_level() -> None:
    half, more, spent = (planned(BudgetAction.WARN, CELL, spent) for spent in (260.0, 270.0, 420.0))
    assert sentence(half, 1).endswith("; 50 % of the budget of the cell spent")
    assert news(half) == news(more) != news(spent)
    assert sentence(half, 1).startswith("pass 1: no job waits; nothing to do;")


@pytest.mark.parametrize("action", BudgetAction)
@pytest.mark.parametrize("budget", (CELL, ANN, WIND))
def test_a_budget_that_is_not_spent_prevents_no_launch(action: BudgetAction, budget: Budget) -> None:
    done = planned(
        action, budget, budget.amount * 0.99, jobs(2, owner="ann"), details_of(1, 2, group="users", project="wind")
    )
    assert acts(done) == [("launch", {"m5.large": 1})]


def test_a_spent_budget_that_only_warns_prevents_no_launch() -> None:
    done = planned(BudgetAction.WARN, CELL, 600.0, jobs(2))
    assert (acts(done), note_codes(done)) == ([("launch", {"m5.large": 1})], [Code.BUDGET_LEVEL])


def test_with_the_cells_budget_spent_nothing_is_launched_and_jobs_have_that_reason() -> None:
    done = planned(BudgetAction.STOP, CELL, 500.0, jobs(2))
    assert (acts(done), note_codes(done)) == ([], [Code.BUDGET_SPENT, Code.BUDGET_LEVEL])
    (category,) = done.job_categories
    assert Code.BUDGET_SPENT in codes(category.reason)
    assert "nothing to do: the budget of the cell is spent (500 USD a month): nothing is launched until" in sentence(
        done
    )


def test_without_pending_jobs_a_spent_budget_is_not_noted_as_the_cause() -> None:
    done = planned(BudgetAction.STOP, CELL, 500.0)
    assert note_codes(done) == [Code.BUDGET_LEVEL]


def test_min_workers_and_requests_launch_nothing_beyond_the_cells_budget() -> None:
    requests = Requests(sets=(RequestSet("mine", "ann", NOW, None, (Target("execute", count=2),)),))
    floor = planned(BudgetAction.STOP, CELL, 500.0, limits=Limits(max_workers=9, min_workers=2))
    snapshot = replace(a_snapshot(), requests=requests)
    asked = plan(under(snapshot, BudgetAction.STOP, it=(CELL, 500.0)))
    assert [acts(each) for each in (floor, asked)] == [[], []]
    assert [Code.BUDGET_SPENT in note_codes(each) for each in (floor, asked)] == [True, True]
    assert launched_types(plan(snapshot)) == ["m5.large"]


def launched_types(done: Plan) -> list[str]:
    return [offer.type.name for one in done.actions if isinstance(one, Launch) for offer in one.candidates[0].offers]


def test_a_spent_budget_does_not_change_scale_down() -> None:
    busy = replace(
        a_host("w1", slots=2),
        instances=(QueueInstance("main.q", "w1", 2, 1, 0, "", (HostJob(7, "", "r", 1, "ann", NOW - 60),)),),
    )
    things = (a_worker("w1", host=busy), a_worker("w2", idle=4000.0))
    spent = planned(BudgetAction.STOP, CELL, 9999.0, *things)
    assert acts(spent) == acts(planned(BudgetAction.STOP, CELL, 0.0, *things)) == [("disable", "w2")]


@pytest.mark.parametrize(("budget", "name"), ((ANN, "ann"), (WIND, "wind")))
def test_with_a_users_or_projects_budget_spent_only_other_jobs_are_launched_for(budget: Budget, name: str) -> None:
    theirs, others = jobs(2, owner="ann"), jobs(2, first=10, owner="ben")
    details = (details_of(1, 2, group="users", project="wind"), details_of(10, 11, group="users", project="sun"))
    done = planned(BudgetAction.STOP, budget, 100.0, theirs, others, *details)
    assert acts(done) == [("launch", {"m5.large": 1})]
    assert (reason_code(done, 1), done.counted) == (Code.JOB_OVER_BUDGET, 2)
    assert reason_code(done, 10) is not Code.JOB_OVER_BUDGET
    assert name in str(
        dict(next(category.reason for category in done.job_categories if 1 in category.jobs).facts)["owner"]
    )


def test_a_users_spent_budget_prevents_launches_only_with_stop() -> None:
    for action in (BudgetAction.WARN, BudgetAction.CHEAPEST):
        assert acts(planned(action, ANN, 999.0, jobs(2, owner="ann"))) == [("launch", {"m5.large": 1})]


@pytest.mark.parametrize("budget", (ANN, WIND))
@pytest.mark.parametrize(("owner", "project", "type_"), (("ann", "wind", "m5.xlarge"), ("ben", "sun", "m5.2xlarge")))
def test_only_launches_for_jobs_of_a_spent_budget_use_the_cheapest_type(
    budget: Budget, owner: str, project: str, type_: str
) -> None:
    waiting = a_job(tasks="1-8:1", count=8, waited=60, owner=owner)
    detail = details_of(1, group="users", project=project)
    offers = a_bucket(X2LARGE, price=1.0), a_bucket(XLARGE, price=0.1)
    hybrid = {"hybrid": True, "instance_type": "m5.2xlarge"}
    done = planned(BudgetAction.CHEAPEST, budget, 100.0, waiting, detail, *offers, **hybrid)
    assert launched_types(done) == [type_]
    reasons = {verdict.bucket.instance_type: verdict.reason for verdict in done.buckets}
    assert (dict(reasons["m5.2xlarge"].facts).get("owner") == budget.owner) is (owner == "ann")


@pytest.mark.parametrize("budget", (CELL, ANN))
def test_nothing_is_launched_while_spending_is_unknown(budget: Budget) -> None:
    """As after a lost store: the budget may have been spent before."""
    snapshot = under(a_snapshot(jobs(2, owner="ann")), BudgetAction.STOP, it=(budget, 0.0))
    done = plan(replace(snapshot, spending=replace(snapshot.spending, known=False)))
    assert acts(done) == []
    assert Code.BUDGET_UNKNOWN in {
        *note_codes(done),
        *(code for category in done.job_categories for code in codes(category.reason)),
    }


def test_with_cheapest_only_the_cheapest_offer_is_launched_and_others_have_that_reason() -> None:
    dear, cheap = a_bucket(X2LARGE, price=1.0), a_bucket(XLARGE, price=0.1)
    things = (a_job(tasks="1-8:1", count=8, waited=60), details_of(1), dear, cheap)
    hybrid = {"hybrid": True, "instance_type": "m5.2xlarge"}
    assert launched_types(planned(BudgetAction.CHEAPEST, CELL, 400.0, *things, **hybrid)) == ["m5.2xlarge"]
    done = planned(BudgetAction.CHEAPEST, CELL, 500.0, *things, **hybrid)
    (launch,) = (one for one in done.actions if isinstance(one, Launch))
    assert [offer.type.name for candidate in launch.candidates for offer in candidate.offers] == ["m5.xlarge"]
    reasons = {verdict.bucket.instance_type: verdict.reason.code for verdict in done.buckets}
    assert reasons["m5.2xlarge"] is Code.BUCKET_NOT_CHEAPEST


def test_the_cheapest_offer_is_the_one_with_the_lowest_price_a_task() -> None:
    """Two for 0.3 serve eight tasks for less than four at 0.2."""
    things = (
        a_job(tasks="1-16:1", count=16, waited=60),
        details_of(1),
        a_bucket(XLARGE, price=0.2),
        a_bucket(X2LARGE, price=0.3),
    )
    done = planned(BudgetAction.CHEAPEST, CELL, 500.0, *things, hybrid=True, instance_type="m5.xlarge")
    assert launched_types(done) == ["m5.2xlarge"]


def test_a_cheaper_price_type_comes_first_once_the_budget_is_spent() -> None:
    both = (a_bucket(LARGE, price=0.1), a_bucket(LARGE, price=0.03, price_type=PriceType.SPOT))
    kinds = {"price_types": (PriceType.ON_DEMAND, PriceType.SPOT)}
    prices = [
        one.candidates[0].offers[0].buckets[0].price_per_hour
        for spent in (0.0, 500.0)
        for one in planned(BudgetAction.CHEAPEST, CELL, spent, jobs(2), *both, **kinds).actions
        if isinstance(one, Launch)
    ]
    assert prices == [0.1, 0.03]


def test_without_any_known_price_the_strategy_decides() -> None:
    done = planned(BudgetAction.CHEAPEST, CELL, 500.0, jobs(2), a_bucket(LARGE, price=-1))
    assert launched_types(done) == ["m5.large"]


def test_a_projects_budget_needs_the_projects_of_running_jobs() -> None:
    policy = replace(a_snapshot().policy, budgets=(WIND,))
    needs = NOTHING.under(policy)
    assert (needs.project, needs.of_running) == (True, True)
    assert not NOTHING.under(replace(policy, budgets=(CELL, ANN))).any


@pytest.mark.parametrize("code", (Code.BUDGET_LEVEL, Code.BUDGET_SPENT, Code.JOB_OVER_BUDGET, Code.BUCKET_NOT_CHEAPEST))
def test_each_budget_reason_has_a_remedy(code: Code) -> None:
    assert REASONS[code].remedy


def test_no_worker_is_swapped_once_the_cells_budget_is_spent() -> None:
    weak, large = a_worker("w1", idle=10.0), a_job(slots=4, waited=60)
    array = {"hybrid": True, "instance_type": "m5.xlarge", "limits": Limits(max_workers=1)}
    before = planned(BudgetAction.STOP, CELL, 0.0, weak, large, **array)
    after = planned(BudgetAction.STOP, CELL, 500.0, weak, large, **array)
    assert before.memory.swaps["execute"].leaving == ("i-w1",)
    assert not any(note.leaving for note in after.memory.swaps.values())
