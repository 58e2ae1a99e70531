"""How much of a month's budgets is spent, and which launches that prevents. No worker ends because of it."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.cost.spending import Budget, BudgetAction, Spending, Whose
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy

LEVELS = (100, 80, 50)
"""Per cent at which a pass reports it."""


def level(budget: Budget, spending: Spending) -> int:
    """The highest of LEVELS that is reached; 0: none."""
    spent = spending.spent.get(budget.owner, 0.0)
    return next((each for each in LEVELS if spent * 100 >= budget.amount * each), 0)


def budget_notes(policy: Policy, spending: Spending) -> tuple[Reason, ...]:
    """The pass's notes on budgets: the same until the next level is reached."""
    return tuple(
        because(Code.BUDGET_LEVEL, level=reached, owner=budget.owner, budget=budget.amount, currency=policy.currency)
        for budget in policy.budgets
        if (reached := level(budget, spending))
    )


def no_launches(policy: Policy, spending: Spending) -> Reason | None:
    """Why nothing is launched at all: the cell's budget is spent."""
    if policy.budget_action is not BudgetAction.STOP:
        return None
    found = (each for each in _spent(policy, spending) if each.whose is Whose.CELL)
    budget = next(found, None)
    if budget is None or not spending.known:
        return None if budget is None else because(Code.BUDGET_UNKNOWN, owner=budget.owner)
    return because(
        Code.BUDGET_SPENT,
        owner=budget.owner,
        budget=budget.amount,
        currency=policy.currency,
        until_at=spending.ends_at,
    )


def only_cheapest(policy: Policy, spending: Spending) -> tuple[Budget, ...]:
    """Spent budgets that allow only the cheapest offers: the cell's for all launches, others for those that their jobs
    need.
    """
    return _spent(policy, spending) if policy.budget_action is BudgetAction.CHEAPEST else ()


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
        if spending.known
        else because(Code.BUDGET_UNKNOWN, owner=budget.owner)
        for budget in _spent(policy, spending)
        if budget.whose is not Whose.CELL
    }


def _spent(policy: Policy, spending: Spending) -> tuple[Budget, ...]:
    """The budgets that are spent; all of them if that is not known."""
    return tuple(each for each in policy.budgets if not spending.known or level(each, spending) >= LEVELS[0])
