"""Filters documents if job details are their owners': removes reasons that name other owners, and job numbers from
notes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.core.model.reasons import Code
from autoscaler.report.owner_names import without_owners
from autoscaler.report.passes import without_numbers

_OF_OWNERS = frozenset({Code.BUDGET_LEVEL.value, Code.ONE_OWNER.value, Code.OWNER_SLOWED.value})
"""Reasons that say nothing without the owner: where they stand beside others, they are left out."""


def budgets_of(owner: str) -> frozenset[str]:
    """The owners whose budgets this user may see."""
    return frozenset({Budget(Whose.CELL, "", 0.0).owner, Budget(Whose.USER, owner, 0.0).owner})


def of_owner(document: Any, owner: str) -> Any:
    """The same document without reasons that name other owners."""
    return _without(document, {owner, f"@{owner}", *budgets_of(owner)})


def _without(part: Any, own: Collection[str]) -> Any:
    if isinstance(part, Mapping):
        kept = {name: _without(each, own) for name, each in part.items()}
        return _reason(kept, own) if "code" in kept and "text" in kept else kept
    if isinstance(part, list | tuple):
        return [_without(each, own) for each in part if not _names_another_owner(each, own)]
    return part


def _reason(reason: dict[str, Any], own: Collection[str]) -> dict[str, Any]:
    """A reason that names no other owner; the text includes that of reasons which are left out."""
    facts = reason.get("facts", {})
    shown = {name: fact for name, fact in facts.items() if name != "owner" or fact in own}
    return reason | {"text": without_owners(reason["text"], own)} | ({"facts": shown} if facts else {})


def _names_another_owner(part: Any, own: Collection[str]) -> bool:
    return isinstance(part, Mapping) and part.get("code") in _OF_OWNERS and part["facts"]["owner"] not in own


def without_jobs(note: Mapping[str, Any]) -> dict[str, Any]:
    """A note without numbers of jobs."""
    facts = {
        name: without_numbers(fact) if isinstance(fact, str) else fact
        for name, fact in note["facts"].items()
        if name != "jobs"
    }
    return {**note, "text": without_numbers(note["text"]), "facts": facts}
