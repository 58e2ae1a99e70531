"""How many more workers a node array may have, and which limit says so (rule 5). Limits win over targets.

Whatever exists or was ordered counts until its provider says it is gone, and launches of the last hour count whether
they came to something or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.actions import Launch
from autoscaler.core.asking.arrays import GROUPS
from autoscaler.core.brake import within
from autoscaler.core.fleet import Bucket
from autoscaler.core.memory import Event
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy
from autoscaler.core.reasons import Code, Reason, because

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What the additional workers of all node arrays that stem from one amount to, ordered ones included."""

    workers: int = 0
    cores: int = 0
    price_per_hour: float | None = 0.0
    """None: some worker's price is unknown."""
    own_workers: int = 0
    """Of these, those of the one array."""
    own_cores: int = 0

    def plus(self, vcpus: int, price: float | None, count: int) -> Usage:
        """With so many more workers of so many cores each in the one array."""
        total = 0.0 if not count else None if price is None else price * count
        grown = self.plus_others(Usage(count, vcpus * count, total))
        return replace(grown, own_workers=self.own_workers + count, own_cores=self.own_cores + vcpus * count)

    def plus_others(self, others: Usage) -> Usage:
        """With workers of other arrays of its kin."""
        mine, theirs = self.price_per_hour, others.price_per_hour
        total = None if mine is None or theirs is None else mine + theirs
        return replace(
            self, workers=self.workers + others.workers, cores=self.cores + others.cores, price_per_hour=total
        )

    def at_least(self, other: Usage) -> Usage:
        """Of each the greater: what is kept for others counts as taken."""
        mine, theirs = self.price_per_hour, other.price_per_hour
        return replace(
            self,
            workers=max(self.workers, other.workers),
            cores=max(self.cores, other.cores),
            price_per_hour=None if mine is None or theirs is None else max(mine, theirs),
        )

    def plus_launch(self, launch: Launch, array: NodeArrayPolicy) -> Usage:
        """With all that a launch of its kin may bring; `array` is the one whose usage this is."""
        most = most_of(launch)
        grown = self.plus_others(most)
        if launch.node_array != array.name:
            return grown
        return replace(
            grown, own_workers=self.own_workers + most.own_workers, own_cores=self.own_cores + most.own_cores
        )


def most_of(launch: Launch) -> Usage:
    """What a launch amounts to at most, whichever of its candidates it gets."""
    prices = [candidate.price_per_hour for candidate in launch.candidates]
    dearest = [
        price * candidate.count for price, candidate in zip(prices, launch.candidates, strict=True) if price is not None
    ]
    workers = max(candidate.count for candidate in launch.candidates)
    cores = max(candidate.count * candidate.type.vcpus for candidate in launch.candidates)
    return Usage(workers, cores, max(dearest) if len(dearest) == len(prices) else None, workers, cores)


def as_event(launch: Launch, policy: Policy, now: float) -> Event:
    """What a launch takes of those of an hour, whichever of its candidates it gets."""
    array = policy.node_array(launch.node_array)
    # An array of groups that this very launch brings stems from the one that its name begins with.
    family = array.extends or "" if array is not None else launch.node_array.rpartition(GROUPS)[0]
    return Event(now, most_of(launch).workers, launch.node_array, family)


@dataclass(frozen=True, slots=True)
class Room:
    """How many more, and the cap that says so."""

    count: int
    cap: Reason

    def caps(self, wanted: int) -> bool:
        return wanted > self.count


def room_for(bucket: Bucket, limits: Limits, usage: Usage) -> Room:
    """How many more workers of this bucket the standing limits leave room for."""
    rooms = [
        Room(limits.max_workers - usage.workers, because(Code.CAPPED, cap="max_workers", limit=limits.max_workers))
    ]
    if limits.max_cores is not None:
        left = (limits.max_cores - usage.cores) // bucket.type.vcpus
        rooms.append(Room(left, because(Code.CAPPED, cap="max_cores", limit=limits.max_cores)))
    if limits.max_price_per_hour is not None:
        rooms.append(_room_for_price(bucket, limits.max_price_per_hour, usage))
    if limits.max_own_workers is not None:
        cap = because(Code.CAPPED, cap="MaxCount", limit=limits.max_own_workers)
        rooms.append(Room(limits.max_own_workers - usage.own_workers, cap))
    if limits.max_own_cores is not None:
        cap = because(Code.CAPPED, cap="MaxCoreCount", limit=limits.max_own_cores)
        rooms.append(Room((limits.max_own_cores - usage.own_cores) // bucket.type.vcpus, cap))
    room = min(rooms, key=lambda room: room.count)
    return Room(max(room.count, 0), room.cap)


def most_ever(bucket: Bucket, limits: Limits) -> Room:
    """How many workers of this bucket the limits would allow if there were no others."""
    return room_for(bucket, limits, Usage())


def _room_for_price(bucket: Bucket, limit: float, usage: Usage) -> Room:
    """An unknown price, of the bucket or of what runs, is no room under a price cap."""
    cap = because(Code.CAPPED, cap="max_price_per_hour", limit=limit)
    price = bucket.price_per_hour
    if price is None or usage.price_per_hour is None:
        return Room(0, cap)
    if price <= 0:
        return Room(2**31, cap)
    return Room(int((limit - usage.price_per_hour + 1e-9) // price), cap)


def launches_left(limits: Limits, launches: Sequence[Event], family: str, now: float) -> Room | None:
    """How many more launches this hour allows to the arrays that stem from one; None: as many as wanted."""
    if limits.max_launches_per_hour is None:
        return None
    done = within([event for event in launches if (event.family or event.node_array) == family], HOUR, now)
    cap = because(Code.CAPPED, cap="max_launches_per_hour", limit=limits.max_launches_per_hour)
    return Room(max(limits.max_launches_per_hour - done, 0), cap)
