"""Monthly budgets, and how much of them is spent. Amounts in the currency of prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Whose(StrEnum):
    """The kind of owner of a budget."""

    CELL = "cell"
    USER = "user"
    PROJECT = "project"


class BudgetAction(StrEnum):
    """What happens to launches once a budget is spent."""

    WARN = "warn"
    CHEAPEST = "cheapest"
    """Only the cheapest offers: for the cell's budget in all launches, for others in launches that their jobs need."""
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount for a calendar month, in UTC."""

    whose: Whose
    name: str
    """Name of the user or project; '': the cell."""
    amount: float

    @property
    def owner(self) -> str:
        return f"{self.whose} {self.name}" if self.name else f"the {self.whose}"


@dataclass(frozen=True, slots=True)
class Spending:
    """What has been spent since the month began."""

    spent: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By owner of a budget."""
    ends_at: float = 0.0
    """When the month ends, and all budgets begin anew."""
    known: bool = True
    """False as long as passes have not read what workers were for, as after a lost store: each budget may be spent."""
