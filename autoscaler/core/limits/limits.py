"""How many more workers a node array may have, and which limit says so (rule 5). Limits win over targets.

Limits hold at three levels: for an array that a request defines, for all arrays that stem from one of the settings, and
for the whole cell. Every worker that exists or was ordered counts until its provider says it is gone. Launches of the
last hour count even if their workers are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.limits.circuit_breaker import most_left_out
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import main_owner
from autoscaler.core.policy import CircuitBreaker, Limits, NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.requests.arrays import GROUPS

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The additional workers of all node arrays of one family in numbers, ordered ones included."""

    workers: int = 0
    cores: int = 0
    price_per_hour: float | None = 0.0
    """None: some worker's price is unknown."""
    own_workers: int = 0
    """Workers of this one array."""
    own_cores: int = 0
    total_workers: int = 0
    """Workers of all node arrays together."""
    total_cores: int = 0
    total_price_per_hour: float | None = 0.0

    def plus(self, vcpus: int, price: float | None, count: int) -> Usage:
        """This usage with `count` more workers of `vcpus` vCPUs each in one array."""
        cores, total = vcpus * count, 0.0 if not count else None if price is None else price * count
        return Usage(
            workers=self.workers + count,
            cores=self.cores + cores,
            price_per_hour=_sum(self.price_per_hour, total),
            own_workers=self.own_workers + count,
            own_cores=self.own_cores + cores,
            total_workers=self.total_workers + count,
            total_cores=self.total_cores + cores,
            total_price_per_hour=_sum(self.total_price_per_hour, total),
        )

    def plus_others(self, others: Usage) -> Usage:
        """This usage with workers of other arrays of its family, the total unchanged."""
        total = _sum(self.price_per_hour, others.price_per_hour)
        return replace(
            self, workers=self.workers + others.workers, cores=self.cores + others.cores, price_per_hour=total
        )

    def plus_elsewhere(self, others: Usage) -> Usage:
        """This usage with workers of any array, in the total alone."""
        return replace(
            self,
            total_workers=self.total_workers + others.workers,
            total_cores=self.total_cores + others.cores,
            total_price_per_hour=_sum(self.total_price_per_hour, others.price_per_hour),
        )

    def at_least(self, other: Usage) -> Usage:
        """The greater of each: reserved room counts as used."""
        return replace(
            self,
            workers=max(self.workers, other.workers),
            cores=max(self.cores, other.cores),
            price_per_hour=_greater(self.price_per_hour, other.price_per_hour),
            total_workers=max(self.total_workers, other.total_workers),
            total_cores=max(self.total_cores, other.total_cores),
            total_price_per_hour=_greater(self.total_price_per_hour, other.total_price_per_hour),
        )

    def total_alone(self) -> Usage:
        """The part that counts for the limits of arrays of other families."""
        return Usage(
            total_workers=self.total_workers,
            total_cores=self.total_cores,
            total_price_per_hour=self.total_price_per_hour,
        )

    def since(self, before: Usage, now: Usage) -> Usage:
        """This usage with the growth of the total from `before` to `now`."""
        old, new = before.total_price_per_hour, now.total_price_per_hour
        return replace(
            self,
            total_workers=self.total_workers + now.total_workers - before.total_workers,
            total_cores=self.total_cores + now.total_cores - before.total_cores,
            total_price_per_hour=_sum(self.total_price_per_hour, None if old is None or new is None else new - old),
        )

    def plus_launch(self, launch: Launch, array: NodeArrayPolicy) -> Usage:
        """This usage with the most that a launch of its family may bring; `array`: the one whose usage this is."""
        most = most_of(launch)
        grown = self.plus_others(most).plus_elsewhere(most)
        if launch.node_array != array.name:
            return grown
        return replace(
            grown, own_workers=self.own_workers + most.own_workers, own_cores=self.own_cores + most.own_cores
        )


@dataclass(slots=True)
class UsageCount:
    """The workers of one node array, added up one by one: a pass adds them all."""

    workers: int = 0
    cores: int = 0
    price_per_hour: float | None = 0.0

    def add(self, vcpus: int, price: float | None) -> None:
        """One more worker."""
        self.workers += 1
        self.cores += vcpus
        self.price_per_hour = _sum(self.price_per_hour, price)

    @property
    def usage(self) -> Usage:
        workers, cores, price = self.workers, self.cores, self.price_per_hour
        return Usage(workers, cores, price, workers, cores, workers, cores, price)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _greater(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def most_of(launch: Launch) -> Usage:
    """The most that a launch may bring, whichever of its sets it gets."""
    return _MOST_OF.value_of((launch.candidates,), lambda: _most_of(launch))


_MOST_OF = LastObjects[Usage](2)


def _most_of(launch: Launch) -> Usage:
    workers = max(candidate.workers for candidate in launch.candidates)
    cores = max(sum(offer.count * offer.type.vcpus for offer in candidate.offers) for candidate in launch.candidates)
    prices = [_price_of(candidate) for candidate in launch.candidates]
    known = [price for price in prices if price is not None]
    return Usage(workers, cores, max(known) if len(known) == len(prices) else None, workers, cores)


def _price_of(candidate: LaunchSet) -> float | None:
    """The price of a whole set; None: not known."""
    prices = [None if each.price_per_hour is None else each.price_per_hour * each.count for each in candidate.offers]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def as_event(launch: Launch, policy: Policy, now: float) -> Event:
    """A launch as an event that counts against the launches of an hour, and of a window for its owner."""
    array = policy.node_array(launch.node_array)
    # An array of groups that this launch creates stems from the one that its name begins with.
    family = array.extends or "" if array is not None else launch.node_array.rpartition(GROUPS)[0]
    owner = main_owner(launch.ordered_for, policy.owner)
    return Event(now, most_of(launch).workers, launch.node_array, family, owner)


@dataclass(frozen=True, slots=True)
class Room:
    """How many more workers, and the cap behind that number."""

    count: int
    cap: Reason


class Measure(StrEnum):
    """What a limit counts of each worker."""

    WORKERS = "workers"
    CORES = "cores"
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Left:
    """What one limit leaves of workers, cores or price an hour."""

    measure: Measure
    amount: float | None
    """None: not known, because the price of a running worker is unknown: nothing may be added."""
    cap: Reason

    def room(self, bucket: Bucket) -> Room:
        """How many workers of this bucket alone it allows; less than none if it is exceeded already."""
        if self.measure is Measure.PRICE:
            return Room(_room_for_price(bucket, self.amount), self.cap)
        each = bucket.type.vcpus if self.measure is Measure.CORES else 1
        return Room(int(self.amount or 0) // each, self.cap)

    def after(self, bucket: Bucket, count: int) -> Left:
        """What is left once so many workers of this bucket are there as well."""
        if self.measure is Measure.PRICE:
            price = bucket.price_per_hour
            left = None if self.amount is None or price is None else self.amount - count * price
            return replace(self, amount=left) if count else self
        each = bucket.type.vcpus if self.measure is Measure.CORES else 1
        return replace(self, amount=(self.amount or 0) - each * count)


def switched_off(limits: Limits) -> Reason | None:
    """That nothing is launched for the queue, which is only watched; None: it is not switched off."""
    off = limits.switched_off
    return None if off is None else because(Code.AUTOSCALING_OFF, queue=off.queue, setting=off.setting)


def what_is_left(limits: Limits, usage: Usage) -> tuple[Left, ...]:
    """What each limit leaves to a node array; of several that allow the same, the first is named."""
    if (off := switched_off(limits)) is not None:
        return (Left(Measure.WORKERS, -usage.workers, off),)
    price, total_price = limits.max_price_per_hour, limits.total_price_per_hour
    found = (
        (Measure.WORKERS, limits.max_workers, usage.workers, "max_workers"),
        (Measure.CORES, limits.max_cores, usage.cores, "max_cores"),
        (Measure.PRICE, price, usage.price_per_hour, "max_price_per_hour"),
        (Measure.WORKERS, limits.max_own_workers, usage.own_workers, "MaxCount"),
        (Measure.CORES, limits.max_own_cores, usage.own_cores, "MaxCoreCount"),
        (Measure.WORKERS, limits.total_workers, usage.total_workers, "total_workers"),
        (Measure.CORES, limits.total_cores, usage.total_cores, "total_cores"),
        (Measure.PRICE, total_price, usage.total_price_per_hour, "total_price_per_hour"),
    )
    return tuple(
        Left(measure, None if taken is None else limit - taken, _cap(measure, name, limit, limits))
        for measure, limit, taken, name in found
        if limit is not None
    )


def _cap(measure: Measure, name: str, limit: float, limits: Limits) -> Reason:
    currency = limits.currency if measure is Measure.PRICE else None
    if name.startswith("max_"):
        return _own_cap(name, limit, limits, currency)
    return because(Code.CAPPED, cap=name, limit=limit, **({"currency": currency} if currency else {}))


def _own_cap(name: str, limit: float, limits: Limits, currency: str | None = None) -> Reason:
    """A limit of one node array, with the array's name where others have limits of their own."""
    if limits.of is None:
        return because(Code.CAPPED, cap=name, limit=limit, **({"currency": currency} if currency else {}))
    return because(Code.CAPPED, cap=name, limit=limit, currency=currency, node_array=limits.of)


def room_under(left: Sequence[Left], bucket: Bucket) -> Room:
    """How many more workers of this bucket all limits together allow."""
    room = min((each.room(bucket) for each in left), key=lambda room: room.count)
    return Room(max(room.count, 0), room.cap)


def room_for(bucket: Bucket, limits: Limits, usage: Usage) -> Room:
    """How many more workers of this bucket the limits allow."""
    return room_under(what_is_left(limits, usage), bucket)


def most_ever(bucket: Bucket, limits: Limits) -> Room:
    """How many workers of this bucket the limits would allow if there were no others."""
    return room_for(bucket, limits, Usage())


def _room_for_price(bucket: Bucket, left: float | None) -> int:
    """The room under a price limit: none if the price of the bucket or of a running worker is unknown."""
    price = bucket.price_per_hour
    if price is None or left is None:
        return 0
    if price <= 0:
        return 2**31
    return int((left + 1e-9) // price)


def launches_left_in_window(
    circuit_breaker: CircuitBreaker,
    launches: Sequence[Event],
    now: float,
    resumed_at: float | None = None,
    *,
    owner: str = "",
    known: int = 0,
) -> Room | None:
    """How many more launches of all node arrays together the window of the circuit breaker allows for an owner of jobs
    ('': for nobody's jobs); None: no limit.

    `known`: how many owners the cell has had. If there are others, those of them who had most launched are left out, as
    many as the circuit breaker leaves out: else they would use up the window for all (docs/decisions/0099).
    """
    if circuit_breaker.max_launches is None:
        return None
    done: Counter[str] = Counter()
    for event in launches:
        if now - event.at < circuit_breaker.window and event.at > (resumed_at or 0.0):
            done[event.owner] += event.count if event.launched is None else event.launched
    others = sorted((count for name, count in done.items() if name not in ("", owner)), reverse=True)
    owners = max(known, len(others) + bool(owner))
    left_out = others[: most_left_out(owners)]
    cap = because(
        Code.LAUNCH_RATE_LIMIT,
        most=circuit_breaker.max_launches,
        whose="one owner" if owner and owners > 1 else None,
        window_s=circuit_breaker.window,
    )
    return Room(max(circuit_breaker.max_launches - sum(done.values()) + sum(left_out), 0), cap)


def launches_left(
    limits: Limits,
    launches: Sequence[Event],
    family: str,
    now: float,
    *,
    owner: str = "",
    unhelped: int | None = None,
    whole: bool = False,
) -> Room | None:
    """How many more launches this hour allows for one array and those that extend it; None: no limit.

    `unhelped`: of this owner, how many workers of the hour have not helped a job, or not yet; None: there are no other
    owners. Such workers may be half of what others left, since nothing would be left for these; with `whole`, all of it
    if there is none so far.
    """
    if limits.max_launches_per_hour is None:
        return None
    recent = [event for event in launches if now - event.at < HOUR and (event.family or event.node_array) == family]
    # A launch that brought nothing may have been given up without an answer: it counts as the most that it may bring.
    done = sum(event.launched or event.count for event in recent)
    cap = _own_cap("max_launches_per_hour", limits.max_launches_per_hour, limits)
    left = limits.max_launches_per_hour - done
    if owner and unhelped is not None and (unhelped or not whole):
        own = sum(event.launched or event.count for event in recent if event.owner == owner)
        left = min(left, -(-(left + own) // 2) - unhelped)
    return Room(max(left, 0), cap)
