"""How much of a month's budgets is spent, and what that keeps from being launched. No worker ends for it."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.cost.spending import Budget, BudgetAction, Spending, Whose
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy

LEVELS = (100, 80, 50)
"""Per cent at which it is told."""


def level(budget: Budget, spending: Spending) -> int:
    """The highest of LEVELS that is reached; 0: none."""
    spent = spending.spent.get(budget.owner, 0.0)
    return next((each for each in LEVELS if spent * 100 >= budget.amount * each), 0)


def budget_notes(policy: Policy, spending: Spending) -> tuple[Reason, ...]:
    """What a pass says of budgets: the same until the next level is reached."""
    return tuple(
        because(Code.BUDGET_LEVEL, level=reached, owner=budget.owner, budget=budget.amount, currency=policy.currency)
        for budget in policy.budgets
        if (reached := level(budget, spending))
    )


def no_launches(policy: Policy, spending: Spending) -> Reason | None:
    """Why nothing is launched at all: the cell's budget is spent."""
    spent = _of_cell(policy, spending)
    if spent is None or policy.budget_action is not BudgetAction.STOP:
        return None
    return because(
        Code.BUDGET_SPENT,
        owner=spent.owner,
        budget=spent.amount,
        currency=policy.currency,
        until_at=spending.ends_at,
    )


def only_cheapest(policy: Policy, spending: Spending) -> bool:
    """Whether only the cheapest offers are launched."""
    return policy.budget_action is BudgetAction.CHEAPEST and _of_cell(policy, spending) is not None


def over_budget(policy: Policy, spending: Spending) -> Mapping[tuple[Whose, str], Reason]:
    """Users and projects for whose jobs nothing is launched."""
    if policy.budget_action is not BudgetAction.STOP:
        return {}
    return {
        (budget.whose, budget.name): because(
            Code.JOB_OVER_BUDGET,
            owner=budget.owner,
            budget=budget.amount,
            currency=policy.currency,
            until_at=spending.ends_at,
        )
        for budget in policy.budgets
        if budget.whose is not Whose.CELL and level(budget, spending) >= LEVELS[0]
    }


def _of_cell(policy: Policy, spending: Spending) -> Budget | None:
    return next(
        (each for each in policy.budgets if each.whose is Whose.CELL and level(each, spending) >= LEVELS[0]), None
    )
