"""Reads off the store, for each observation, how much of each budget has been spent since the month began.

A user's or project's budget counts what their jobs held, and the starting and idle time of workers that were ordered
for them, until only jobs of others use these (docs/decisions/0068).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from autoscaler.core.cost.amounts import MICROS, divided
from autoscaler.core.cost.shares import UNKNOWN, CostKind, Use, Window, parts_of, rent_of, unused_by
from autoscaler.core.cost.spending import Spending, Whose
from autoscaler.core.policy import Policy
from autoscaler.report.cost import month_of, rental_of
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store

SETTLED = 300.0
"""Seconds after a worker's end from which on accounting has all of its jobs."""
AGAIN = 60.0
"""Seconds between two computations of what users and projects have spent."""


@dataclass(slots=True)
class SpendingReader:
    """One for the life of a process. It keeps what jobs of ended workers spent until the month ends."""

    store: Store
    _month: float = 0.0
    _settled: dict[str, dict[tuple[Whose, str], int]] = field(default_factory=dict)
    _owners: dict[tuple[Whose, str], int] = field(default_factory=dict)
    _at: float | None = None

    def read(self, policy: Policy, now: float) -> Spending:
        """Empty if no budget is set. Unknown until passes have read which jobs used the workers: before that the store
        may be new because it was lost.
        """
        if not policy.budgets:
            return Spending()
        since, until = month_of(datetime.fromtimestamp(now, UTC).strftime("%Y-%m"))
        if self.store.usages.since is None:
            return Spending(ends_at=until, known=False)
        window = Window(round(since * 1000), round(until * 1000), round(now * 1000))
        lives = self.store.history.lifetimes(since)
        spent = {(Whose.CELL, ""): sum(rent_of(rental_of(life), window) for life in lives)}
        if any(budget.whose is not Whose.CELL for budget in policy.budgets):
            spent |= self._of_owners(lives, window, now)
        return Spending(
            {budget.owner: spent.get((budget.whose, budget.name), 0) / MICROS for budget in policy.budgets}, until
        )

    def _of_owners(self, lives: tuple[Lifetime, ...], window: Window, now: float) -> dict[tuple[Whose, str], int]:
        if self._month != window.since:
            self._month, self._settled, self._at = window.since, {}, None
        if self._at is not None and 0 <= now - self._at < AGAIN:
            return self._owners
        total: dict[tuple[Whose, str], int] = {}
        for life in lives:
            found = self._settled.get(life.worker_id)
            if found is None:
                found = self._of_worker(life, window)
                if life.ended_at is not None and now - life.ended_at > SETTLED:
                    self._settled[life.worker_id] = found
            for owner, micros in found.items():
                total[owner] = total.get(owner, 0) + micros
        self._owners, self._at = total, now
        return total

    def _of_worker(self, life: Lifetime, window: Window) -> dict[tuple[Whose, str], int]:
        found: dict[tuple[Whose, str], int] = {}
        uses = self.store.usages.of_worker(life.worker_id, window.since / 1000, window.until / 1000)
        rental = rental_of(life)
        for part in parts_of(rental, uses, window):
            if part.kind is CostKind.USED and part.use is not None:
                payers = [(part.use.payer.user, part.use.payer.project, part.micros)]
            else:
                micros = part.micros
                if part.kind is CostKind.IDLE and life.ordered_for:
                    unused = unused_by(rental, uses, window, lambda use: _is_theirs(life, use))
                    micros = divided(micros, unused)[0] if any(unused) else micros
                payers = _ordered_by(life, micros)
            for user, project, micros in payers:
                for owner in ((Whose.USER, user), (Whose.PROJECT, project)):
                    found[owner] = found.get(owner, 0) + micros
        return found


def _is_theirs(life: Lifetime, use: Use) -> bool:
    """Whether a job is of those for whom its worker was ordered, or perhaps."""
    payer = use.payer
    return payer.user == UNKNOWN or any(
        payer.user == each.user or (payer.project and payer.project == each.project) for each in life.ordered_for
    )


def _ordered_by(life: Lifetime, micros: int) -> list[tuple[str, str, int]]:
    """The time in which no job held a slot, by user and project for whose jobs the worker was ordered."""
    shares = divided(micros, [each.slots for each in life.ordered_for])
    return [(each.user, each.project, share) for each, share in zip(life.ordered_for, shares, strict=True)]
