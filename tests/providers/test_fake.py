"""The provider in memory keeps the contract, and plays exactly the faults that it is given."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import ClassVar

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.providers.contract import CELL, ControlPlane, Fault, ProviderContract
from autoscaler.providers.fake import FakeCloud, FakeProvider, FakeSettings, Faults
from autoscaler.providers.interface import LaunchOrder, OutOfCapacity, Provider, Unreachable

FAULTS = {
    Fault.OUT_OF_CAPACITY: Faults(stock=0),
    Fault.PARTIAL: Faults(stock=2),
    Fault.QUOTA: Faults(quota=0),
    Fault.THROTTLED: Faults(throttled=1000),
    Fault.REFUSED: Faults(refused="no permission to launch"),
    Fault.UNREACHABLE: Faults(unreachable=1000),
    Fault.MALFORMED: Faults(malformed=1000),
    Fault.LOST_ANSWER: Faults(lost_answers=1),
    Fault.LAG: Faults(listing_lag=30),
    Fault.ACCEPTED_THEN_DEAD: Faults(dies_at_once="Client.InternalError: Client error on launch"),
}


class Clock:
    """Simulated time."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakePlane(ControlPlane):
    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {
            Fault.STOPPED: "a played machine exists or does not",
            Fault.IMAGE_DISKS: "a played machine has no disks",
            Fault.ADVICE: "notices are a list in memory",
            Fault.LONG_PAUSE: "it has no rate limiter",
            Fault.CREDENTIALS: "a client in memory has none",
            Fault.BROKEN_TLS: "there is no network",
            Fault.LOST_THEN_THROTTLED: "a launch is one call, which is not repeated",
            Fault.CHANGED_SETTINGS: "no setting is part of a launch",
            Fault.NO_IDS: "an answer in memory has them",
            Fault.CUT_LISTING: "a listing in memory has no pages",
        }
    )

    def __init__(self) -> None:
        self.clock = Clock()
        self.cloud = FakeCloud(clock=self.clock, sleep=self.clock.sleep, boot_delay=20)

    def connect(self, cell: str) -> Provider:
        return FakeProvider(FakeSettings(), cell=cell, cloud=self.cloud)

    def billable(self) -> Collection[str]:
        return self.cloud.billable()

    def inject(self, fault: Fault) -> None:
        """Beside those that are played already."""
        if fault is Fault.HIDE_NEW:
            self.cloud.faults.hidden_from = self.clock()
            return
        usual, played = Faults(), FAULTS[fault]
        for name in (each.name for each in fields(Faults)):
            if getattr(played, name) != getattr(usual, name):
                setattr(self.cloud.faults, name, getattr(played, name))

    def heal(self) -> None:
        self.cloud.faults = Faults()

    def end(self, worker_id: str) -> None:
        self.cloud.kill(worker_id)

    def forget(self, worker_id: str) -> None:
        del self.cloud.machines[worker_id]

    def settle(self) -> None:
        self.clock.sleep(5)


class TestFake(ProviderContract):
    @pytest.fixture
    def plane(self) -> ControlPlane:
        return FakePlane()


@pytest.fixture
def fake_plane() -> FakePlane:
    return FakePlane()


def order(plane: FakePlane, *types: str, zone: str = "", count: int = 1) -> LaunchOrder:
    offers = plane.cloud.catalog.buckets()
    named = {bucket.key.instance_type: bucket for bucket in reversed(offers)}
    buckets = tuple(named[name] for name in types or ("m5.large",))
    if zone:
        bucket = buckets[0]
        buckets = (replace(bucket, key=replace(bucket.key, zone=zone)), *buckets)
    return LaunchOrder(str(uuid.uuid4()), "order", CELL, "execute", buckets, count, "#!/bin/sh\n")


def test_a_shortage_of_one_bucket_is_met_by_the_next(fake_plane: FakePlane) -> None:
    fake_plane.cloud.faults = Faults(out_of_capacity={"m5.large/a"})

    launched = fake_plane.connect(CELL).launch(order(fake_plane, zone="a"))

    assert (len(launched.ids), launched.shortfalls) == (1, ())


def test_only_the_type_that_is_out_of_capacity_is_short(fake_plane: FakePlane) -> None:
    fake_plane.cloud.faults = Faults(out_of_capacity={"m5.large"})
    provider = fake_plane.connect(CELL)

    (error,) = [error for _, error in provider.launch(order(fake_plane)).shortfalls]

    assert isinstance(error, OutOfCapacity)
    assert len(provider.launch(order(fake_plane, "m5.xlarge")).ids) == 1


def test_a_killed_machine_is_listed_as_terminated_with_its_message(fake_plane: FakePlane) -> None:
    provider = fake_plane.connect(CELL)
    (worker_id,) = provider.launch(order(fake_plane)).ids

    fake_plane.cloud.kill(worker_id, "host failure")

    (worker,) = provider.workers()
    assert (worker.state, worker.message) == (MachineState.TERMINATED, "host failure")


def test_a_terminated_machine_leaves_the_listing_after_a_while(fake_plane: FakePlane) -> None:
    provider = fake_plane.connect(CELL)
    provider.terminate(provider.launch(order(fake_plane)).ids)

    fake_plane.clock.sleep(601)

    assert provider.workers() == []


def test_a_slow_answer_advances_the_simulated_clock(fake_plane: FakePlane) -> None:
    fake_plane.cloud.faults = Faults(answer_delay=7)
    before = fake_plane.clock.now

    fake_plane.connect(CELL).workers()

    assert fake_plane.clock.now == before + 7


def test_a_lost_answer_can_be_a_crash(fake_plane: FakePlane) -> None:
    class Crashed(BaseException):
        pass

    fake_plane.cloud.faults = Faults(lost_answers=1, crash=Crashed)
    with pytest.raises(Crashed):
        fake_plane.connect(CELL).launch(order(fake_plane))

    assert len(fake_plane.connect(CELL).workers()) == 1


def test_a_counted_fault_ends_after_its_count(fake_plane: FakePlane) -> None:
    fake_plane.cloud.faults = Faults(unreachable=1)
    provider = fake_plane.connect(CELL)
    with pytest.raises(Unreachable):
        provider.workers()

    assert provider.workers() == []
