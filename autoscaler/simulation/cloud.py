"""A cloud in memory: it lists offers, boots machines after a delay, fails some, runs short, takes spot machines back,
and bills what was used.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.model.fleet import (
    Bucket,
    Ending,
    Fleet,
    Interruption,
    LaunchFailure,
    MachineState,
    Order,
    OrderState,
    PriceType,
    Worker,
)
from autoscaler.simulation.market import HOUR, STILL, Market

NAMES = "ip-{number}"
"""What machines are called, with `{number}` and `{type}`."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a machine takes, seconds; each is drawn around its mean (lognormal, `spread` in its logarithm)."""

    boot: float = 120.0
    """From its order to a running machine with a name."""
    join: float = 10.0
    """From its enrolment to the first load report."""
    end: float = 30.0
    """From its termination until the cloud lists it as terminated."""
    spread: float = 0.0
    failing: float = 0.0
    """Share of machines that never come up."""
    boots: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By instance type whose own mean is known: in place of `boot`."""

    def boot_of(self, type_: str) -> float:
        return self.boots.get(type_, self.boot)


@dataclass(frozen=True, slots=True)
class Billing:
    """How a cloud bills: from creation to termination, in steps of `granularity` seconds, at least `minimum`."""

    minimum: float = 60.0
    granularity: float = 1.0

    def seconds(self, used: float) -> float:
        return max(self.minimum, math.ceil(used / self.granularity - 1e-9) * self.granularity) if used >= 0 else 0.0


@dataclass(slots=True, eq=False)
class Machine:
    """One rented machine."""

    worker: Worker
    created: float
    boots: float | None
    """When it is up; None: never."""
    listed_price: float | None = None
    """Its price an hour in the catalogue."""
    taken: float | None = None
    """When the cloud takes it back; None: never."""
    noticed: bool = False
    """Whether the cloud has said so."""
    ending: float | None = None
    """When its end was ordered."""
    ended: float | None = None


class Cloud:
    """Machines by id. `epoch` is the Unix time of second 0."""

    def __init__(
        self,
        buckets: Sequence[Bucket],
        delays: Delays,
        billing: Billing,
        epoch: float,
        chance: random.Random,
        market: Market = STILL,
        names: str = NAMES,
    ) -> None:
        self._names = names
        self._listed = tuple(buckets)
        self.delays, self.billing, self.epoch, self.market = delays, billing, epoch, market
        self.buckets = self._priced(0.0)
        """All offers, at the prices of now."""
        self.failures: list[LaunchFailure] = []
        self.shortfalls = 0
        """Machines that were ordered and could not be had."""
        self._chance = chance
        self.machines: dict[str, Machine] = {}
        """Those that are listed: terminated ones leave after a while."""
        self._orders: dict[str, Order] = {}
        self._made = 0
        self._rented: tuple[int, float] | None = None

    @property
    def rented(self) -> tuple[int, float]:
        """How many machines there are whose end was not ordered, and what an hour of them costs."""
        if self._rented is None:
            machines = [machine.worker for machine in self.machines.values() if machine.ending is None]
            self._rented = len(machines), sum(worker.price_per_hour or 0.0 for worker in machines)
        return self._rented

    def launch(self, bucket: Bucket, count: int, node_array: str, now: float, **of_order: object) -> list[Machine]:
        """Order machines. What cannot be had now is a failed launch, and fewer or none come."""
        made = [self._make(bucket, node_array, now) for _ in range(self._possible(bucket, count, node_array, now))]
        if not made:
            return []
        count = len(made)
        order_id = f"order-{self._made}"
        for machine in made:
            machine.worker = replace(machine.worker, order_id=order_id)
        order = Order(
            order_id, node_array, bucket.type, count, self.epoch + now, OrderState.ACCEPTED, bucket.key,
            bucket.price_per_hour, tuple(machine.worker.id for machine in made), planned_at=self.epoch + now,
        )  # fmt: skip
        self._orders[order_id] = replace(order, **of_order)  # type: ignore[arg-type]
        return made

    def _possible(self, bucket: Bucket, count: int, node_array: str, now: float) -> int:
        """How many of so many can be had; a shortfall is kept as a failed launch."""
        if not self.market.limits:
            return count
        rented = [(each.worker.type, each.worker.price_type) for each in self.machines.values() if each.ended is None]
        room, limit = self.market.limit_of(bucket, rented, now)
        if room is None or limit is None or room >= count:
            return count
        self.shortfalls += count - room
        key = replace(bucket.key, node_array=bucket.key.node_array or node_array)
        self.failures.append(LaunchFailure(key, self.epoch + now, limit.kind, limit.message))
        return room

    def _priced(self, now: float) -> tuple[Bucket, ...]:
        return tuple(
            replace(each, price_per_hour=self.market.price(each.key, each.price_per_hour, now)) for each in self._listed
        )

    def market_changes(self, now: float) -> None:
        """Offers and machines cost what they cost from now on."""
        self.buckets = self._priced(now)
        self._rented = None
        prices = {each.key: each.price_per_hour for each in self.buckets}
        for machine in self.machines.values():
            key = replace(machine.worker.bucket, node_array="")
            price = prices.get(key, machine.worker.price_per_hour)
            if machine.ended is None and price != machine.worker.price_per_hour:
                machine.worker = replace(machine.worker, price_per_hour=price)

    def now_of(self, bucket: Bucket) -> Bucket:
        """The same offer at the price of now."""
        return next((each for each in self.buckets if each.key == bucket.key), bucket)

    def _make(self, bucket: Bucket, node_array: str, now: float) -> Machine:
        self._made += 1
        fails = self.delays.failing > 0 and self._chance.random() < self.delays.failing
        worker = Worker(
            f"i-{self._made}", bucket.type, node_array, MachineState.PENDING, self.epoch + now,
            zone=bucket.key.zone, price_type=bucket.key.price_type, price_per_hour=bucket.price_per_hour,
        )  # fmt: skip
        machine = Machine(worker, now, None if fails else now + self.draw(self.delays.boot_of(bucket.type.name)))
        listed = (each.price_per_hour for each in self._listed if each.key == bucket.key)
        machine.listed_price = next(listed, bucket.price_per_hour)
        if bucket.key.price_type is PriceType.SPOT and self.market.interruptions_per_hour:
            machine.taken = now + self._chance.expovariate(self.market.interruptions_per_hour / HOUR)
        self.machines[worker.id] = machine
        self._rented = None
        return machine

    def draw(self, mean: float) -> float:
        """A delay around its mean."""
        if not self.delays.spread or not mean:
            return mean
        spread = self.delays.spread
        return mean * self._chance.lognormvariate(-spread * spread / 2, spread)

    def boot(self, machine: Machine) -> bool:
        """It is up; False: its end was ordered before."""
        if machine.ending is not None:
            return False
        type_, number = machine.worker.type.name.replace(".", "-"), machine.worker.id[2:]
        name = self._names.format(type=type_, number=number)
        machine.worker = replace(machine.worker, state=MachineState.RUNNING, name=name, address=name)
        return True

    def terminate(self, machine: Machine, now: float) -> bool:
        """Order its end; False: that was done before."""
        if machine.ending is not None:
            return False
        machine.ending, self._rented = now, None
        machine.worker = replace(machine.worker, state=MachineState.STOPPING)
        return True

    def take(self, machine: Machine, now: float) -> bool:
        """The cloud takes it back; False: its end was ordered before."""
        if machine.ending is not None:
            return False
        machine.ending = machine.ended = now
        self._rented = None
        machine.worker = replace(machine.worker, state=MachineState.TERMINATED, ending=Ending.INTERRUPTED)
        return True

    def end(self, machine: Machine, now: float) -> None:
        machine.ended = now
        machine.worker = replace(machine.worker, state=MachineState.TERMINATED)

    def forget(self, machine: Machine) -> None:
        """The listing leaves it out from now on."""
        self.machines.pop(machine.worker.id, None)

    def paid_seconds(self, machine: Machine, now: float) -> float:
        """Billed until its end was ordered, as clouds bill no machine that shuts down."""
        until = now if machine.ending is None else machine.ending
        return self.billing.seconds(until - machine.created)

    def cost(self, machine: Machine, now: float) -> float | None:
        """What it cost until now, or until its end; None: a price is not known."""
        until = machine.created + self.paid_seconds(machine, now)
        return self.market.cost(machine.worker.bucket, machine.listed_price, machine.created, until)

    def fleet(self, now: float, grace: float, failures_for: float = 0.0) -> Fleet:
        """What provider and journal report together. `grace`: for how long an order is kept, `failures_for`: for how
        long a failed launch is, seconds.
        """
        self.failures = [each for each in self.failures if each.at > self.epoch + now - failures_for]
        oldest = self.epoch + now - grace
        for order_id in [key for key, order in self._orders.items() if order.ordered_at < oldest]:
            del self._orders[order_id]
        workers = tuple(machine.worker for machine in self.machines.values())
        notices = tuple(
            Interruption(machine.worker.id, self.epoch + (machine.taken or 0.0), "terminate")
            for machine in self.machines.values()
            if machine.noticed and machine.ended is None
        )
        orders = tuple(self._orders.values())
        return Fleet(workers, self.buckets, orders, tuple(self.failures), interruptions=notices)
