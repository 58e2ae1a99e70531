"""The amount spent of a month's budgets, read from the store: the same as `cost` shows for the month."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from autoscaler.core.cost.spending import Budget, BudgetAction, Whose
from autoscaler.core.model.fleet import OrderedFor
from autoscaler.core.plan import plan
from autoscaler.core.policy import Policy
from autoscaler.engine import cost_keeper
from autoscaler.engine.spending import AGAIN, SpendingReader
from autoscaler.errors import SettingsError
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.settings import load_settings
from tests.core.building import NOW, a_job, a_snapshot
from tests.cost_world import PAYER, CostWorld, Job, Machine

HOUR = 3600.0
BEN = PAYER._replace(user="ben", project="")
BUDGETS = (
    Budget(Whose.CELL, "", 10.0),
    Budget(Whose.USER, "ann", 1.0),
    Budget(Whose.USER, "eve", 1.0),
    Budget(Whose.PROJECT, "wind", 1.0),
)


def policy(*budgets: Budget, action: BudgetAction = BudgetAction.STOP) -> Policy:
    return replace(a_snapshot().policy, budgets=budgets, budget_action=action)


@pytest.fixture
def two_workers(tmp_path: Path) -> CostWorld:
    world = CostWorld(tmp_path / "two_workers", [Machine("w1", 0), Machine("w2", 0, 1800)])
    world.jobs = [
        Job(1, "w1", 0, HOUR / 2, slots=4),
        Job(2, "w1", HOUR / 2, slots=2, payer=BEN),
        Job(3, "w2", 0, 900, 4),
    ]
    for at in (0, 900, 1800):
        world.account(at)
        world.see(at)
    return world


def test_without_budgets_nothing_counts_as_spent(two_workers: CostWorld) -> None:
    assert SpendingReader(two_workers.store).read(policy(), NOW).spent == {}


def test_without_any_pass_the_amount_spent_is_unknown(two_workers: CostWorld) -> None:
    """The store may have been lost: the first pass finds out what workers are for, and the next one knows it."""
    two_workers.restart(lost=True)
    reader = SpendingReader(two_workers.store)
    before = reader.read(policy(*BUDGETS), NOW + 1700)
    moment = Now(NOW + 1700, "cell", "local", True, None, policy=policy(*BUDGETS), spending=before)
    document = status(two_workers.store, moment)
    lines = [value for name, value in status_pairs(document) if name == "budget"]
    assert {budget["spent"] for budget in document["budgets"]} == {None}
    assert lines[1] == (
        "of user ann: what is spent of 1 USD this month is not yet known: nothing is launched for its jobs until a "
        "pass knows it"
    )
    two_workers.see(1700)
    assert reader.read(policy(*BUDGETS), NOW + 1701).spent["user ann"] > 0


def test_the_amount_spent_is_unknown_until_all_accounting_is_read(
    two_workers: CostWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part would give less than was spent, and launch in spite of a spent budget."""
    monkeypatch.setattr(cost_keeper, "AT_FIRST", 200)
    two_workers.restart(lost=True)
    reader, passes = SpendingReader(two_workers.store), 0
    while not (spending := reader.read(policy(*BUDGETS), NOW + 1700 + passes)).known:
        passes += 1
        two_workers.see(1700 + passes)
    assert passes == 2
    assert spending.spent["user ann"] > 0
    assert two_workers.store.usages.since == NOW + 1701


def test_all_workers_count_for_the_cell_and_used_slots_for_users_and_projects(two_workers: CostWorld) -> None:
    spending = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + HOUR)
    assert spending.spent == {"the cell": 1.5, "user ann": 0.75, "user eve": 0.0, "project wind": 0.75}
    ends = datetime.fromtimestamp(spending.ends_at, UTC)
    assert (ends.day, ends.hour, spending.ends_at > NOW) == (1, 0, True)


def test_starting_and_idle_time_count_for_those_whose_jobs_the_worker_was_ordered_for(two_workers: CostWorld) -> None:
    """Also if these were deleted when it came; and no job of others pays for it."""
    for_both = (OrderedFor("eve", "wind", slots=3), OrderedFor("ben", slots=1))
    two_workers.machines.append(Machine("w3", 1800, 1800 + HOUR, joins=600.0, ordered_for=for_both))
    before = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800).spent
    for at in (1800, 2400, 1800 + HOUR):
        two_workers.see(at)
    after = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800 + HOUR).spent
    assert {name: round(after[name] - before[name], 6) for name in ("user eve", "project wind")} == {
        "user eve": 0.75,
        "project wind": 0.75,
    }


@pytest.mark.parametrize("seconds", (0, 1, 1500))
def test_jobs_of_another_that_keep_a_worker_do_not_use_up_the_budget_of_those_it_was_ordered_for(
    two_workers: CostWorld, seconds: int
) -> None:
    """One slot of 64 for as long as they like, or for a moment whenever the worker would leave."""
    for_ann = (OrderedFor("ann", slots=64),)
    two_workers.machines = [Machine("w3", 1800, 1800 + HOUR, price=64.0, slots=64, ordered_for=for_ann)]
    two_workers.jobs = [Job(7, "w3", 1800, 2400, slots=64, payer=PAYER._replace(project=""))]
    two_workers.jobs += [Job(8, "w3", 3600, 3600 + seconds, payer=PAYER._replace(user="eve", project=""))]
    two_workers.restart(lost=True)
    for at in (1800, 2400, 3600, 3600 + seconds, 1800 + HOUR):
        two_workers.account(at)
        two_workers.see(at)
    spent = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800 + HOUR).spent
    # Her job until 2400, and the idle time until the job of the other began at 3600.
    assert spent["user ann"] == pytest.approx(64 * 1800 / HOUR, abs=0.02)
    assert spent["user eve"] == pytest.approx(seconds / HOUR, abs=0.001)


def test_a_job_of_those_a_worker_was_ordered_for_makes_it_theirs_again(two_workers: CostWorld) -> None:
    for_ann = (OrderedFor("ann", slots=4),)
    two_workers.machines = [Machine("w3", 1800, 1800 + HOUR, ordered_for=for_ann)]
    two_workers.jobs = [
        Job(8, "w3", 1800, 2700, payer=PAYER._replace(user="eve", project="")),
        Job(9, "w3", 3600, 3601, payer=PAYER._replace(project="")),
    ]
    two_workers.restart(lost=True)
    for at in (1800, 2700, 3600, 3601, 1800 + HOUR):
        two_workers.account(at)
        two_workers.see(at)
    spent = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800 + HOUR).spent
    assert spent["user ann"] == pytest.approx(0.5, abs=0.001)


def test_a_launch_is_kept_with_those_for_whose_jobs_it_was_ordered(two_workers: CostWorld) -> None:
    made = plan(a_snapshot(a_job(slots=2, owner="eve", project="wind")))
    two_workers.store.accept(made, pass_number=1, at=NOW)
    (order,) = (order for record in two_workers.store.journal.orders(0) for order in record.as_orders())
    assert order.ordered_for == (OrderedFor("eve", "wind", slots=2),)


def test_a_worker_of_unknown_price_counts_against_no_budget(two_workers: CostWorld) -> None:
    before = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800).spent
    two_workers.machines.append(Machine("w3", 0, price=None))
    two_workers.jobs.append(Job(4, "w3", 0, slots=4))
    two_workers.see(1800)
    assert SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + 1800).spent == before


def test_a_new_reader_finds_the_same_amount_as_an_old_one(two_workers: CostWorld) -> None:
    """The store keeps the cost of ended workers."""
    kept, chance, at = SpendingReader(two_workers.store), Random(1), 1800.0
    for number in range(10, 40):
        at += AGAIN + chance.uniform(1, 400)
        two_workers.jobs.append(Job(number, "w1", round(at), round(at) + 30, 2))
        if number == 20:
            two_workers.machines.append(Machine("w3", at, at + 2000))
        two_workers.account(at)
        two_workers.see(at)
        fresh = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + at)
        assert kept.read(policy(*BUDGETS), NOW + at) == fresh
    result = {row.key: row.used for row in two_workers.report(at, "user").tables[0].sorted()}
    assert fresh.spent["user ann"] == result["ann"] / 1e6


def test_a_budget_starts_again_each_month(two_workers: CostWorld) -> None:
    first = SpendingReader(two_workers.store).read(policy(*BUDGETS), NOW + HOUR)
    later = first.ends_at + HOUR
    two_workers.see(later - NOW)
    assert SpendingReader(two_workers.store).read(policy(*BUDGETS), later).spent["the cell"] == 1.0


def test_status_shows_the_amount_spent_and_its_effect(two_workers: CostWorld) -> None:
    held = policy(*BUDGETS[:2], Budget(Whose.PROJECT, "wind", 0.5))
    spending = SpendingReader(two_workers.store).read(held, NOW + HOUR)
    document = status(two_workers.store, Now(NOW + HOUR, "cell", "local", True, None, policy=held, spending=spending))
    lines = [value for name, value in status_pairs(document) if name == "budget"]
    assert lines[:2] == [
        "of the cell: 1.50 of 10 USD are spent this month",
        "of user ann: 0.75 of 1 USD are spent this month (50 % reached)",
    ]
    assert lines[2].startswith(
        "of project wind: 0.75 of 0.5 USD are spent this month: nothing is launched for its jobs"
    )
    assert [budget["level"] for budget in document["budgets"]] == [0, 50, 100]
    assert dict(status_pairs(document))["price"] == "1.000 USD an hour"


def test_budgets_are_set_for_the_cell_users_and_projects() -> None:
    given = {"CP_CAP_AUTOSCALE_BUDGET": "500", "CP_CAP_AUTOSCALE_BUDGETS": "user:ann=200, project:wind=1500.5"}
    found = load_settings({**given, "CP_CAP_AUTOSCALE_BUDGET_ACTION": "stop"}).policy(master="master")
    assert (found.budgets, found.budget_action) == (
        (Budget(Whose.CELL, "", 500.0), Budget(Whose.USER, "ann", 200.0), Budget(Whose.PROJECT, "wind", 1500.5)),
        BudgetAction.STOP,
    )


@pytest.mark.parametrize(
    "wrong",
    ("ann=200", "user:ann", "user:=5", "group:x=5", "user:ann=-1", "user:ann=nan", "cell:=5", "user:a=1,user:a=2"),
)
def test_an_invalid_budget_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_BUDGETS"):
        load_settings({"CP_CAP_AUTOSCALE_BUDGETS": wrong})
