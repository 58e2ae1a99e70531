"""Filters documents if job details are their owners': removes reasons that name other owners, and job numbers from
notes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.core.model.reasons import Code
from autoscaler.report.passes import without_numbers, without_owners

_OF_OWNERS = frozenset({Code.BUDGET_LEVEL.value, Code.ONE_OWNER.value})
"""Reasons that name an owner."""


def budgets_of(owner: str) -> frozenset[str]:
    """The owners whose budgets this user may see."""
    return frozenset({Budget(Whose.CELL, "", 0.0).owner, Budget(Whose.USER, owner, 0.0).owner})


def of_owner(document: Any, owner: str) -> Any:
    """The same document without reasons that name other owners."""
    return _without(document, {owner, *budgets_of(owner)})


def _without(part: Any, own: Collection[str]) -> Any:
    if isinstance(part, Mapping):
        kept = {name: _without(each, own) for name, each in part.items()}
        # A kept reason of _OF_OWNERS names the reader; every other text may name someone else.
        other = "code" in kept and "text" in kept and kept["code"] not in _OF_OWNERS
        return {**kept, "text": without_owners(kept["text"])} if other else kept
    if isinstance(part, list | tuple):
        return [_without(each, own) for each in part if not _names_another_owner(each, own)]
    return part


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
