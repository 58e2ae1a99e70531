"""Which rules the workers that could be had do not meet, those that miss the fewest first.

Only for demand that rules forbid. Each kind of worker is checked once against each entry, whatever the number of
categories.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.constraints.constraint import And, Constraint, NodeUse
from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.fleet import Bucket, BucketKey
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.constraint_effects import refusal_of
from autoscaler.core.placement.hosts import as_node
from autoscaler.core.policy import NodeArrayPolicy

Kind = tuple[NodeArrayPolicy, Bucket]
_Key = tuple[str, int | None, BucketKey]
"""Node array, whether as one of groups, and bucket."""
MOST_REPORTED = 3
"""For how many workers a reason says why rules forbid them, and how many causes of each."""


@dataclass(frozen=True, slots=True)
class Miss:
    """What one kind of worker does not meet."""

    at: int
    """Its place among the kinds that were checked."""
    entries: int
    parts: int
    why: Reason | None
    """None: it meets all."""
    nevers: tuple[tuple[str, Reason], ...] = ()
    """Messages of `never` constraints that it does not meet, each with its reason."""


@dataclass(slots=True)
class Misses:
    """Remembers what it found for one plan."""

    rules: Rules
    complexes: Mapping[str, Complex]
    _nodes: dict[_Key, Node] = field(default_factory=dict)
    _refusals: dict[tuple[str, _Key], tuple[Reason, ...]] = field(default_factory=dict)
    """By entry."""
    _nearest: dict[tuple[tuple[str, ...], Hashable], tuple[Miss, ...]] = field(default_factory=dict)

    def reason(
        self, entries: Sequence[Entry], kinds: Sequence[Kind], of: Hashable, serves: Callable[[int], bool]
    ) -> Reason | None:
        """Why rules forbid these kinds, largest first, if some of them would serve without these entries; None: none
        would. `of`: a key for these very kinds. `serves`: whether the kind at this place would.
        """
        nearest = self._in_order(entries, kinds, of)
        reasons: list[Reason | None] = []
        for miss in nearest:
            if miss.why not in reasons and serves(miss.at):
                reasons.append(miss.why)
                if len(reasons) == MOST_REPORTED:
                    break
        if not reasons:
            return None
        reason = because(Code.RULES_FORBID, places=tuple(entry.place for entry in entries))
        known: set[str] = set()
        for why in filter(None, reasons):
            reason = reason.then(why)
            known.update(_messages(why))
        for message, why in (never for miss in nearest for never in miss.nevers):
            if message not in known:
                reason = reason.then(why)
                known.add(message)
        return reason

    def _in_order(self, entries: Sequence[Entry], kinds: Sequence[Kind], of: Hashable) -> tuple[Miss, ...]:
        """Kinds that miss the fewest entries first, then those that miss the fewest parts; kinds that miss nothing
        last.
        """
        key = tuple(entry.place for entry in entries), of
        if key not in self._nearest:
            found = (self._miss(at, entries, kind) for at, kind in enumerate(kinds))
            order = sorted(found, key=lambda miss: (not miss.entries, miss.entries, miss.parts))
            self._nearest[key] = tuple(order)
        return self._nearest[key]

    def _miss(self, at: int, entries: Sequence[Entry], kind: Kind) -> Miss:
        refusals = [found for entry in entries if (found := self._refused(entry, kind))]
        parts = [each for found in refusals for each in found]
        if not parts:
            return Miss(at, 0, 0, None)
        array, bucket = kind
        not_it = because(Code.AGAINST_RULES, node=f"{array.name}/{bucket.type.name}")
        nevers = [(message, not_it.then(each)) for each in parts for message in _messages(each)]
        parts.sort(key=lambda each: not any(_messages(each)))
        why = not_it
        for each in dict.fromkeys(parts[:MOST_REPORTED]):
            why = why.then(each)
        return Miss(at, len(refusals), len(parts), why, tuple(nevers))

    def _refused(self, entry: Entry, kind: Kind) -> tuple[Reason, ...]:
        array, bucket = kind
        this = array.name, array.group_count, bucket.key
        key = entry.place, this
        if key not in self._refusals:
            if this not in self._nodes:
                self._nodes[this] = as_node(bucket, array, self.complexes, self.rules)
            self._refusals[key] = _refusals_of(entry, self._nodes[this], frozenset({array.queue}))
        return self._refusals[key]


def _refusals_of(entry: Entry, node: Node, queues: frozenset[str]) -> tuple[Reason, ...]:
    """Every part of an entry that a node does not meet, each checked against the whole node."""
    whole = refusal_of(entry, node, queues)
    if whole is None:
        return ()
    use = NodeUse(node)
    parts = (part.take(use) for part in _conjuncts(entry.parts.checked))
    return tuple(each for each in parts if isinstance(each, Reason)) or (whole,)


def _conjuncts(constraint: Constraint) -> Iterator[Constraint]:
    """The constraints that must all hold."""
    if not isinstance(constraint, And):
        yield constraint
        return
    for child in constraint.children:
        yield from _conjuncts(child)


def _messages(reason: Reason) -> Iterator[str]:
    """The messages of `never` constraints in it."""
    if reason.code is Code.NEVER:
        yield str(reason["message"])
    for link in reason.trail:
        yield from _messages(link)
