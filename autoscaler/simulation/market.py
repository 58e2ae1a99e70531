"""What a simulated cloud has and charges over time: prices that change, shortages, quotas, and spot interruptions.

A file names them (TOML); without one all prices stand still and everything can be had. Times are durations since the
first job, as `36h`.
"""

from __future__ import annotations

import itertools
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoscaler.core.model.fleet import Bucket, BucketKey, FailureKind, InstanceType, PriceType
from autoscaler.durations import HOW, seconds_of
from autoscaler.simulation.workload import WorkloadError

HOUR = 3600.0
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A price from a moment on."""

    at: float
    type: str
    price_type: PriceType
    price: float


@dataclass(frozen=True, slots=True)
class Limit:
    """How much can be had at once of some offers: a shortage while the cloud has no more, or a quota of the account."""

    kind: FailureKind
    begins: float = 0.0
    ends: float = FOREVER
    type: str = ""
    """Empty: all types."""
    family: str = ""
    """Empty: all families."""
    price_type: PriceType | None = None
    """None: both."""
    machines: int | None = None
    vcpus: int | None = None
    """How many machines, or cores, at most; machines that run already count, and stay."""

    def is_about(self, type_: InstanceType, price_type: PriceType) -> bool:
        return (
            self.type in ("", type_.name)
            and self.family in ("", type_.family)
            and self.price_type in (None, price_type)
        )

    def room(self, type_: InstanceType, rented: Iterable[tuple[InstanceType, PriceType]]) -> int:
        """How many more machines of a type it allows. `rented`: all that exist."""
        counted = [each for each, price_type in rented if self.is_about(each, price_type)]
        rooms = []
        if self.machines is not None:
            rooms.append(self.machines - len(counted))
        if self.vcpus is not None:
            rooms.append((self.vcpus - sum(each.vcpus for each in counted)) // type_.vcpus)
        return max(0, min(rooms, default=0))

    @property
    def message(self) -> str:
        what = self.type or self.family or "any type"
        if self.kind is FailureKind.QUOTA:
            return f"the simulated quota of {what} is reached"
        return f"the simulated cloud has no more of {what}"


@dataclass(frozen=True)
class Market:
    """Everything that changes over time. Empty: nothing does."""

    prices: tuple[PriceChange, ...] = ()
    """In the order of their time."""
    limits: tuple[Limit, ...] = ()
    interruptions_per_hour: float = 0.0
    """Of each spot machine: the rate at which the cloud takes it back."""
    notice: float = 120.0
    """Seconds from its notice to its end."""

    @property
    def moments(self) -> list[float]:
        """When anything changes, after the start."""
        times = {change.at for change in self.prices}
        times |= {at for limit in self.limits for at in (limit.begins, limit.ends)}
        return sorted(at for at in times if 0 < at < FOREVER)

    def price(self, key: BucketKey, listed: float | None, now: float) -> float | None:
        """The price an hour at a moment. `listed`: that of the catalogue, until the first change."""
        changes = self._changes(key)
        at = bisect_right(changes, now, key=lambda change: change.at)
        return changes[at - 1].price if at else listed

    def cost(self, key: BucketKey, listed: float | None, begun: float, until: float) -> float | None:
        """What a machine costs from one moment to another; None: no price is known for a part of it."""
        edges = [begun, *(change.at for change in self._changes(key) if begun < change.at < until), until]
        total = 0.0
        for start, end in itertools.pairwise(edges):
            price = self.price(key, listed, start)
            if price is None:
                return None
            total += price * (end - start) / HOUR
        return total

    def _changes(self, key: BucketKey) -> list[PriceChange]:
        return [each for each in self.prices if each.type == key.instance_type and each.price_type == key.price_type]

    def limit_of(
        self, bucket: Bucket, rented: Iterable[tuple[InstanceType, PriceType]], now: float
    ) -> tuple[int | None, Limit | None]:
        """How many more machines of a bucket can be had now, and by which limit; None: any number."""
        rented = list(rented)
        rooms = [
            (limit.room(bucket.type, rented), limit)
            for limit in self.limits
            if limit.begins <= now < limit.ends and limit.is_about(bucket.type, bucket.key.price_type)
        ]
        return min(rooms, key=lambda pair: pair[0], default=(None, None))


STILL = Market()


def read_market(path: Path, types: Iterable[str]) -> Market:
    """The market of a file. `types`: the names of all types that can be rented. Raises WorkloadError."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror}; check its path and rights") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path} is no TOML file: {error}") from error
    return _Reader(path, frozenset(types)).market(given)


@dataclass(frozen=True)
class _Reader:
    """Reads one file; every error names the entry and what may stand there."""

    path: Path
    types: frozenset[str]

    def market(self, given: Mapping[str, Any]) -> Market:
        self._only(given, "the file", ("interruptions_per_hour", "notice", "price", "shortage", "quota"))
        rate = given.get("interruptions_per_hour", 0.0)
        limits = [self._limit(one, FailureKind.CAPACITY, at) for at, one in self._tables(given, "shortage")]
        limits += [self._limit(one, FailureKind.QUOTA, at) for at, one in self._tables(given, "quota")]
        prices = [self._price(one, at) for at, one in self._tables(given, "price")]
        return Market(
            tuple(sorted(prices, key=lambda change: change.at)),
            tuple(limits),
            self._number(rate, "interruptions_per_hour"),
            self._time(given.get("notice", "120s"), "notice"),
        )

    def _tables(self, given: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
        tables = given.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            raise self._error(name, f"write [[{name}]] before each of them")
        return [(f"{name} {number}", one) for number, one in enumerate(tables, start=1)]

    def _price(self, one: Mapping[str, Any], where: str) -> PriceChange:
        self._only(one, where, ("type", "price_type", "at", "price"))
        price_type = self._price_type(one, where) or PriceType.ON_DEMAND
        if not one.get("type"):
            raise self._error(where, "it needs a type")
        at, price = self._time(one.get("at", 0), f"{where}: at"), self._number(one.get("price"), f"{where}: price")
        return PriceChange(at, self._type(one, where), price_type, price)

    def _limit(self, one: Mapping[str, Any], kind: FailureKind, where: str) -> Limit:
        self._only(one, where, ("type", "family", "price_type", "from", "to", "machines", "vcpus"))
        numbers = {name: self._number(one[name], f"{where}: {name}") for name in ("machines", "vcpus") if name in one}
        if kind is FailureKind.QUOTA and not numbers:
            raise self._error(where, "it needs machines or vcpus: how many at most")
        begins = self._time(one.get("from", 0), f"{where}: from")
        ends = self._time(one["to"], f"{where}: to") if "to" in one else FOREVER
        if ends <= begins:
            raise self._error(where, "it ends before it begins")
        return Limit(
            kind,
            begins,
            ends,
            self._type(one, where),
            str(one.get("family", "")),
            self._price_type(one, where),
            int(numbers["machines"]) if "machines" in numbers else None if numbers else 0,
            int(numbers["vcpus"]) if "vcpus" in numbers else None,
        )

    def _type(self, one: Mapping[str, Any], where: str) -> str:
        name = one.get("type", "")
        if name and name not in self.types:
            raise self._error(where, f"the catalogue has no type {name!r}")
        return str(name)

    def _price_type(self, one: Mapping[str, Any], where: str) -> PriceType | None:
        name = one.get("price_type")
        if name is not None and name not in tuple(PriceType):
            raise self._error(where, f"price_type {name!r}: write spot or on_demand")
        return None if name is None else PriceType(name)

    def _number(self, value: object, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < FOREVER:
            raise self._error(where, f"{value!r} is no number of 0 or more")
        return float(value)

    def _time(self, value: object, where: str) -> float:
        seconds = seconds_of(str(value))
        if seconds is None:
            raise self._error(where, f"{value!r} is no duration: {HOW}")
        return seconds

    def _only(self, given: Mapping[str, Any], where: str, names: tuple[str, ...]) -> None:
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise self._error(where, f"{unknown[0]!r} is not known here; write {', '.join(names)}")

    def _error(self, where: str, what: str) -> WorkloadError:
        return WorkloadError(f"{self.path}, {where}: {what}")
