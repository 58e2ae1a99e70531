"""What a strategy decides on, and what it answers: a `Problem`, and `Proposal`s in order of preference.

A strategy decides what to buy and nothing else. Backoff, protected mode, budgets, batches, launches an hour and the
circuit breaker are applied around it. What it claims is not trusted: demand is placed anew on the workers that it
proposes (`Problem.fill`), because the next pass and Grid Engine's scheduler will place it in that way as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.estimates.estimates import RunTime
from autoscaler.core.limits.limits import Left
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import PLENTY, OpenPlacement


@dataclass(frozen=True, slots=True)
class Part:
    """So many workers of one offer."""

    offer: LaunchOffer
    count: int

    @property
    def price(self) -> float:
        """An hour, all of them; inf: not known."""
        return self.offer.price * self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """What one host has of one demand."""

    demand: int
    """The demand's position in the problem."""
    host: str
    """A worker of the proposal, as `name_of` names it, or a host of the supply, for a job that spreads over both."""
    slots: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set of workers that are ordered together. Of several proposals the next one counts if the one before gives no
    worker at all.
    """

    parts: tuple[Part, ...]
    reason: Reason | None = None
    """Why the strategy prefers it, if it says so; it joins the reason of the launch."""
    served: tuple[int, ...] = ()
    """Parallel to the demands of the problem: tasks that these workers serve."""
    wanted: int = 0
    """How many workers of it the demand would use without limits."""
    cap: Reason | None = None
    """The limit that makes it fewer; None: no limit does."""
    placement: OpenPlacement | None = field(default=None, repr=False, compare=False)
    """The supply and these workers, with those tasks placed."""

    @property
    def count(self) -> int:
        """Workers of all parts."""
        return sum(part.count for part in self.parts)

    @property
    def price(self) -> float:
        """An hour; inf: some price is not known."""
        return sum(part.price for part in self.parts)

    @property
    def types(self) -> str:
        """`m5.large`, or `m5.large + c5.xlarge`."""
        return " + ".join(dict.fromkeys(part.offer.type.name for part in self.parts))

    @property
    def machines(self) -> str:
        """`2 m5.large`, or `2 m5.large + 1 c5.xlarge`."""
        counts: dict[str, int] = {}
        for part in self.parts:
            counts[part.offer.type.name] = counts.get(part.offer.type.name, 0) + part.count
        return " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))

    def at_most(self, count: int) -> tuple[Part, ...]:
        """Its parts in order, cut down to so many workers."""
        parts: list[Part] = []
        for part in self.parts:
            taken = min(part.count, count)
            count -= taken
            parts += [Part(part.offer, taken)] if taken else []
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """What one node array needs, and what it may order now."""

    unmet: Sequence[Want]
    """Demands with the tasks that fit nowhere, 0 of those that are not this array's."""
    placement: OpenPlacement
    """The supply with all demand placed on it that fits."""
    offers: Sequence[LaunchOffer]
    """With price, how many are available, and how many of each alone the limits allow; smallest first."""
    left: Sequence[Left] = ()
    """What each limit leaves, for sets of several offers."""
    now: float = 0.0
    """Unix seconds."""
    batch: int | None = None
    """Most workers that one launch brings; the next one follows in a later pass. None: any number."""
    since: Sequence[float] = ()
    """Parallel to the unmet demand: since when its oldest task could run, Unix seconds. Empty: not known."""
    run_times: Sequence[Sequence[RunTime]] = ()
    """Parallel to the unmet demand: how long each of its tasks is estimated to run, in the order of submission. Empty:
    of some nothing is known.
    """
    boot: float = 0.0
    """How long a worker is paid before it can run a job, seconds."""
    not_for_spot: Sequence[int] = ()
    """Parallel to the unmet demand: tasks that no spot machine should be bought for. Empty: none."""
    billing_step: float = 1.0
    billing_minimum: float = 60.0
    """Its time is billed in such steps, and for so long at least, seconds."""
    cores: int = 0
    """Of the workers that there are or are ordered."""
    most: int | None = None
    """Most workers that may be launched just now, by the hour and the circuit breaker. None: any number."""

    def alone(self, offers: Sequence[LaunchOffer]) -> tuple[Proposal, ...]:
        """For each of these offers, in their order: as many workers of it alone as demand uses, within limits. One of
        which no worker is of use or to be had is among them, with 0: it says why.
        """
        found: list[Proposal] = []
        for offer in offers:
            most, cap = most_of_offer(offer)
            grown = self.placement.with_new(offer.host, most)
            placed = grown.place(self.unmet)
            wanted = placed.new_used
            if not placed.complete and not any(each.count for each in found):  # only the preferred one needs its cap
                wanted = self.placement.with_new(offer.host, PLENTY).place(self.unmet).new_used
            part = Part(offer, placed.new_used)
            found.append(Proposal((part,), None, placed.placed, wanted, cap if wanted > most else None, grown))
        return tuple(found)

    def fill(self, parts: Sequence[Part], reason: Reason | None = None) -> Proposal:
        """The proposal of these parts: demand is placed on their workers in this order, and workers that get nothing
        are left out. It is cut down to limits and to what is available, the last parts first.
        """
        useful = sum(tasks * (demand.slots // (demand.per_host or 1)) for demand, tasks in self.unmet)
        parts = [Part(part.offer, min(part.count, useful)) for part in parts]
        allowed, cap = self._allowed(parts)
        grown = self._with(allowed)
        placed = grown.place(self.unmet)
        used = tuple(
            Part(part.offer, sum(name_of(at, number) in placed.used for number in range(part.count)))
            for at, part in enumerate(allowed)
        )
        wanted = sum(part.count for part in parts) if cap is not None else sum(part.count for part in used)
        left = tuple(part for part in used if part.count) or used[:1]
        return Proposal(left, reason, placed.placed, wanted, cap, grown)

    def shares(self, proposal: Proposal) -> tuple[Share, ...]:
        """The assignment of a proposal, worker by worker: slots of each demand on each worker, and on hosts of the
        supply that a job spreads to.
        """
        _, found = self._with(proposal.parts).trace(self.unmet)
        slots: dict[tuple[int, str], int] = {}
        for demand, host, visits in found:
            key = demand, host
            slots[key] = slots.get(key, 0) + visits * (self.unmet[demand][0].per_host or 1)
        return tuple(Share(demand, host, count) for (demand, host), count in slots.items())

    def served_by(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """Parallel to the demands: how many tasks so many workers serve."""
        grown = self.placement
        for part in parts:
            grown = grown.with_new(part.offer.host, part.count)
        return (grown if parts else grown.copy()).place(self.unmet).placed

    def exceeded(self, parts: Sequence[Part]) -> Reason | None:
        """The first limit that these workers together would exceed, or that an offer has too few; None: they may be
        ordered.
        """
        allowed, cap = self._allowed(parts)
        return cap if [part.count for part in allowed] != [part.count for part in parts] else None

    def _allowed(self, parts: Sequence[Part]) -> tuple[list[Part], Reason | None]:
        """As many of these parts as limits and availability allow, the first ones first, and the cap that held."""
        left, taken = list(self.left), dict[int, int]()
        allowed: list[Part] = []
        cap: Reason | None = None
        for part in parts:
            at = next((at for at, each in enumerate(self.offers) if each is part.offer), None)
            if at is None:
                raise ValueError(f"{part.offer.type.name} is none of the offers of this problem")
            most, why = most_of_offer(part.offer)
            rooms = [(most - taken.get(at, 0), why)]
            rooms += [(room.count, room.cap) for each in left for room in (each.room(dearest(part.offer)),)]
            room, why = min(rooms, key=lambda each: each[0])
            count = min(part.count, max(room, 0))
            cap = why if cap is None and count < part.count else cap
            allowed.append(Part(part.offer, count))
            taken[at] = taken.get(at, 0) + count
            left = [each.after(dearest(part.offer), count) for each in left]
        return allowed, cap

    def _with(self, parts: Sequence[Part]) -> OpenPlacement:
        """The supply with these workers after it, each with a name of its own."""
        grown = self.placement.copy()
        for at, part in enumerate(parts):
            names = tuple(name_of(at, number) for number in range(part.count))
            grown = grown.with_new(part.offer.host, part.count, names)
        return grown


Strategy = Callable[[Problem], Sequence[Proposal]]
"""Proposals for a problem, best first. The same problem gives the same proposals."""

Order = Callable[[Sequence[Want], OpenPlacement, Sequence[LaunchOffer]], Sequence[LaunchOffer]]


@dataclass(frozen=True, slots=True)
class ByType:
    """A strategy that proposes sets of one type only: an order of offers, each of them with as many workers as the
    demand uses.
    """

    order: Order

    def __call__(self, problem: Problem) -> tuple[Proposal, ...]:
        return problem.alone(self.order(problem.unmet, problem.placement, problem.offers))


class Settled(ABC):
    """A strategy of others whose proposals are placed and capped anew already, by `settled`."""

    @abstractmethod
    def __call__(self, problem: Problem) -> Sequence[Proposal]: ...


def reason_of(why: str) -> Reason:
    """The reason of a proposal, in the strategy's own words: `the cheapest mix`."""
    return because(Code.LAUNCH_PREFERRED, why=why)


def name_of(part: int, number: int) -> str:
    """The name of a proposal's worker: no host has such a one."""
    return f"\0{part}:{number}"


def dearest(offer: LaunchOffer) -> Bucket:
    """The bucket of an offer that counts for limits: any of its buckets may be the one that gives the workers."""
    return max(offer.buckets, key=lambda bucket: inf if bucket.price_per_hour is None else bucket.price_per_hour)


def most_of_offer(offer: LaunchOffer) -> tuple[int, Reason]:
    """How many workers of this offer could be had now, and the cap behind that number."""
    if offer.available is not None and offer.available < offer.room.count:
        return offer.available, because(Code.CAPPED, cap="availability", limit=offer.available)
    return offer.room.count, offer.room.cap


def settled(problem: Problem, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """The proposals of a strategy that is not ours, with demand placed anew on their workers. One that holds what is
    not offered is left out; offers that it does not propose follow, each with the reason.
    """
    found: list[Proposal] = []
    for proposal in proposals:
        parts = tuple(part for part in proposal.parts if part.count > 0)
        if parts and all(any(part.offer is each for each in problem.offers) for part in parts):
            found.append(problem.fill(parts, proposal.reason))
    chosen = next((proposal for proposal in found if proposal.count), None)
    if chosen is not None:
        proposed, nothing = [part.offer for each in found for part in each.parts], (0,) * len(problem.unmet)
        found += [
            Proposal((Part(offer, 0),), served=nothing, wanted=1, cap=not_preferred(offer, chosen))
            for offer in problem.offers
            if all(offer is not each for each in proposed)
        ]
    return tuple(found)


def not_preferred(offer: LaunchOffer, chosen: Proposal) -> Reason:
    return because(Code.BUCKET_NOT_PREFERRED, type=offer.type.name, preferred=chosen.types)
