"""The contract of `autoscaler.providers.interface` as tests for any provider (see docs/extend.md):

    class TestMine(ProviderContract):
        @pytest.fixture
        def plane(self, tmp_path): return MyPlane(tmp_path)

A `ControlPlane` is the other side of the provider's API, played by a fake server, a settings change or the real thing.
A fault that cannot happen at a provider is named in `cannot`, with the reason; its tests are then skipped saying so.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

import pytest

from autoscaler.core.model.fleet import Bucket, Ending, FailureKind, MachineState, PriceType, Worker
from autoscaler.providers.interface import (
    GROUP_ID,
    Chooses,
    HasCallBudget,
    HasConsole,
    HasInterruptions,
    HasTroubles,
    Launched,
    LaunchOrder,
    NotAuthenticated,
    OutOfCapacity,
    Provider,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.settings import prefix_of


class Fault(StrEnum):
    """The faults that a control plane can play."""

    OUT_OF_CAPACITY = "out_of_capacity"
    """None of the bucket that `ProviderContract.choose` picks is left."""
    PARTIAL = "partial"
    """Exactly two more machines can be had."""
    QUOTA = "quota"
    """The account may have no machine at all."""
    THROTTLED = "throttled"
    """Every launch meets a rate limit that outlasts the provider's own backoff."""
    REFUSED = "refused"
    """Every launch is refused for good: no permission, no such image."""
    ADVICE = "advice"
    """Every call is refused whose answer decisions can do without: notices, prices, quotas, power states."""
    LONG_PAUSE = "long_pause"
    """Every launch meets a rate limit, and the cloud asks for a pause of twenty minutes."""
    CREDENTIALS = "credentials"
    """No launch is accepted for the credentials that it is requested with, which are being renewed."""
    UNREACHABLE = "unreachable"
    """No call arrives."""
    MALFORMED = "malformed"
    """Answers arrive that cannot be understood."""
    NO_IDS = "no_ids"
    """Answers arrive that lack the ids of their machines: to launches, which happen, and to listings."""
    CUT_LISTING = "cut_listing"
    """A listing has a page for each machine or two, and none after the first arrives whole."""
    LOST_ANSWER = "lost_answer"
    """One launch happens, but its answer never arrives: it raises Unreachable, or LostAnswer."""
    BROKEN_TLS = "broken_tls"
    """One launch happens, and the TLS connection breaks before its answer. It was sent: it is no failed handshake."""
    LOST_THEN_THROTTLED = "lost_then_throttled"
    """One launch happens, its answer never arrives, and every later call for one meets a rate limit."""
    CHANGED_SETTINGS = "changed_settings"
    """Providers connected from now on have other settings of launches: one subnet fewer, another image or disk."""
    HIDE_NEW = "hide_new"
    """What exists is listed; what is launched from now on is not, until this is healed."""
    LAG = "lag"
    """Launches show in listings only after a while, the longer the better: no earlier than this is healed."""
    ACCEPTED_THEN_DEAD = "accepted_then_dead"
    """Launches are accepted, and none of their machines comes up, for a cause that the cloud reports."""
    STOPPED = "stopped"
    """Somebody stops a machine without ending it (`ControlPlane.stop`)."""
    ENDED_OUTSIDE = "ended_outside"
    """Somebody else ends a machine (`ControlPlane.end`)."""
    FORGOTTEN = "forgotten"
    """A machine ended so long ago that the cloud does not know its id any more (`ControlPlane.forget`)."""
    IMAGE_DISKS = "image_disks"
    """The image has data disks, which the cloud by itself would leave behind."""


SECONDS_OF_2001, SECONDS_OF_2286 = 1e9, 1e10
"""Between them a number of seconds has ten digits, and one of milliseconds thirteen."""


class LostAnswer(BaseException):
    """Plays the death of the process between call and answer, for a provider without a network to lose an answer on."""


class ControlPlane(ABC):
    """The cloud behind the provider, as the tests change it. A new one is empty: no machine, no fault."""

    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType({})
    """Faults that cannot happen here, with the reason."""
    deadline: float = 60.0
    """Seconds within which a launch shows, runs, or has ended; longer until a wait made `MINIMUM_CHECKS` checks."""
    many: int = 1000
    """How many workers a long listing has; fewer where machines are real."""

    @abstractmethod
    def connect(self, cell: str) -> Provider:
        """A new provider for the machines of `cell`, as after a restart: it knows only the control plane's state."""

    @abstractmethod
    def billable(self) -> Collection[str]:
        """Everything that costs money now, of all owners, found in a way of its own: machines, disks, addresses."""

    @abstractmethod
    def inject(self, fault: Fault) -> None:
        """Let `fault` happen to providers connected from now on, until `heal`."""

    @abstractmethod
    def heal(self) -> None:
        """Let providers connected from now on meet no fault."""

    def stop(self, worker_id: str) -> None:
        """Stop a machine so that it can be started again, as somebody with the cloud's own tools would."""
        raise NotImplementedError(f"name {Fault.STOPPED} in `cannot`, or do it")

    def end(self, worker_id: str) -> None:
        """End a machine, as somebody with the cloud's own tools would."""
        raise NotImplementedError(f"name {Fault.ENDED_OUTSIDE} in `cannot`, or do it")

    def forget(self, worker_id: str) -> None:
        """End a machine, and let the cloud not know its id any more."""
        raise NotImplementedError(f"name {Fault.FORGOTTEN} in `cannot`, or do it")

    def settle(self) -> None:
        """Let a little time pass: with a simulated clock move it, else sleep."""
        time.sleep(0.05)


def stored(order: LaunchOrder, provider: Provider) -> LaunchOrder:
    """A new order as the journal has it: with the provider's choices."""
    return replace(order, chosen=dict(provider.choose(order))) if isinstance(provider, Chooses) else order


CELL, OTHER_CELL = "contract-cell", "contract-other"
MINIMUM_CHECKS = 200
"""A wait checks at least so often: on a busy machine that takes as many times as long as all else does."""


class ProviderContract:
    """Subclass it as `Test…` and give the fixture `plane`; override `choose` where another bucket suits better."""

    @pytest.fixture
    def plane(self) -> ControlPlane:
        raise NotImplementedError("give the contract a fixture `plane` that makes your ControlPlane")

    @pytest.fixture
    def provider(self, plane: ControlPlane) -> Provider:
        return plane.connect(CELL)

    def choose(self, buckets: Sequence[Bucket]) -> Bucket:
        """The bucket that the tests order from: the smallest available on-demand one."""
        usable = [bucket for bucket in buckets if bucket.problem is None]
        on_demand = [bucket for bucket in usable if bucket.key.price_type is PriceType.ON_DEMAND]
        return min(on_demand or usable, key=lambda bucket: (bucket.type.vcpus, bucket.key))

    def order(self, provider: Provider, *, count: int = 1, token: str = "", cell: str = CELL) -> LaunchOrder:
        token = token or f"{uuid.uuid4()}-0"
        return LaunchOrder(
            token=token,
            order_id=token.removesuffix("-0"),
            cell=cell,
            node_array="execute",
            buckets=(self.choose(provider.buckets()),),
            count=count,
            boot_script="#!/bin/sh\necho booted\n",
        )

    def until(self, plane: ControlPlane, what: Callable[[], bool]) -> None:
        """Wait for something that the contract promises only for later."""
        end, checks = time.monotonic() + plane.deadline, 0
        while not what():
            checks += 1
            assert checks < MINIMUM_CHECKS or time.monotonic() < end, (
                f"not within {plane.deadline:g} s and {checks} checks"
            )
            plane.settle()

    def possible(self, plane: ControlPlane, *faults: Fault) -> None:
        """Skip the test if one of these cannot happen."""
        for fault in faults:
            if reason := plane.cannot.get(fault):
                pytest.skip(f"{fault.value} does not apply: {reason}")

    def at_fault(self, plane: ControlPlane, fault: Fault) -> tuple[Provider, LaunchOrder]:
        """A provider that meets `fault`, and an order made before, while all was well."""
        self.possible(plane, fault)
        healthy = plane.connect(CELL)
        order = stored(self.order(healthy), healthy)
        plane.inject(fault)
        return plane.connect(CELL), order

    # -- name and checks -------------------------------------------------------------------------------

    def test_a_provider_has_a_name_and_its_own_prefix_of_settings(self, provider: Provider) -> None:
        assert provider.name == provider.name.strip() != ""
        assert isinstance(provider.enrols_itself, bool)
        assert prefix_of(provider.Settings)

    def test_a_check_has_no_fatal_problem_and_creates_nothing(self, plane: ControlPlane, provider: Provider) -> None:
        assert [problem for problem in provider.check() if problem.fatal] == []
        assert list(plane.billable()) == []

    def test_problems_have_a_cause_and_a_remedy(self, provider: Provider) -> None:
        assert all(problem.what and problem.remedy for problem in provider.check())

    # -- buckets ---------------------------------------------------------------------------------------

    def test_there_are_buckets_with_unique_keys(self, provider: Provider) -> None:
        keys = [bucket.key for bucket in provider.buckets()]
        assert keys
        assert len(set(keys)) == len(keys)

    def test_a_bucket_carries_the_type_its_key_names(self, provider: Provider) -> None:
        for bucket in provider.buckets():
            assert bucket.key.instance_type == bucket.type.name
            assert bucket.type.family
            assert bucket.type.vcpus > 0
            assert bucket.type.memory > 0

    def test_prices_and_stock_are_unknown_or_not_negative(self, provider: Provider) -> None:
        for bucket in provider.buckets():
            assert bucket.price_per_hour is None or bucket.price_per_hour >= 0
            assert bucket.available is None or bucket.available >= 0

    # -- launching -------------------------------------------------------------------------------------

    def test_workers_of_a_group_are_listed_with_it_and_are_in_one_place(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        order = replace(self.order(provider, count=2), node_array="execute:4", tags={GROUP_ID: "execute:4-1"})
        launched = provider.launch(order)
        self.until(plane, lambda: set(launched.ids) == _existing(provider))
        workers = [worker for worker in provider.workers() if worker.exists]
        assert {(worker.node_array, worker.group_id) for worker in workers} == {("execute:4", "execute:4-1")}
        assert len({(worker.type, worker.zone, worker.placement_group) for worker in workers}) == 1

    def test_an_empty_cell_has_no_workers(self, provider: Provider) -> None:
        assert list(provider.workers()) == []

    def test_a_launch_gives_as_many_workers_as_ordered_and_lists_all_of_them(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        launched = provider.launch(self.order(provider, count=3))
        assert len(set(launched.ids)) == 3
        assert launched.shortfalls == ()
        self.until(plane, lambda: set(launched.ids) == _existing(provider))

    def test_a_listed_worker_is_what_was_ordered(self, plane: ControlPlane, provider: Provider) -> None:
        order = self.order(provider)
        (worker_id,) = provider.launch(order).ids
        self.until(plane, lambda: worker_id in _existing(provider))
        worker = _worker(provider, worker_id)
        assert worker is not None
        assert (worker.order_id, worker.node_array) == (order.order_id, order.node_array)
        assert (worker.type.name, worker.price_type) == (order.buckets[0].type.name, order.buckets[0].key.price_type)

    def test_a_worker_runs_under_a_lower_case_host_name(self, plane: ControlPlane, provider: Provider) -> None:
        (worker_id,) = provider.launch(self.order(provider)).ids
        self.until(plane, lambda: _state(provider, worker_id) is MachineState.RUNNING)
        worker = _worker(provider, worker_id)
        assert worker is not None
        assert worker.name
        assert worker.name == worker.name.lower()

    def test_a_restarted_autoscaler_lists_the_same_workers(self, plane: ControlPlane, provider: Provider) -> None:
        launched = provider.launch(self.order(provider, count=2))
        self.until(plane, lambda: _existing(plane.connect(CELL)) == set(launched.ids))

    def test_ids_names_and_creation_times_stay_the_same_in_every_listing(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        launched = provider.launch(self.order(provider, count=2))
        self.until(plane, lambda: all(_state(provider, each) is MachineState.RUNNING for each in launched.ids))
        first = {(worker.id, worker.name, worker.created_at) for worker in provider.workers()}
        plane.settle()
        assert {(worker.id, worker.name, worker.created_at) for worker in plane.connect(CELL).workers()} == first

    def test_creation_times_are_seconds_since_1970(self, plane: ControlPlane, provider: Provider) -> None:
        """Milliseconds, which many clouds tell, would make every machine come from the far future."""
        (worker_id,) = provider.launch(self.order(provider)).ids
        self.until(plane, lambda: worker_id in _existing(provider))
        worker = _worker(provider, worker_id)
        assert worker is not None
        assert SECONDS_OF_2001 < worker.created_at < SECONDS_OF_2286

    def test_existing_workers_have_unique_names(self, plane: ControlPlane, provider: Provider) -> None:
        launched = (*provider.launch(self.order(provider, count=2)).ids, *provider.launch(self.order(provider)).ids)
        self.until(plane, lambda: all(_state(provider, each) is MachineState.RUNNING for each in launched))
        assert len({worker.name for worker in provider.workers() if worker.exists}) == 3

    def test_a_listing_of_many_workers_is_complete_and_all_can_be_terminated(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        share = max(1, plane.many // 10)
        orders = [self.order(provider, count=share) for _ in range(plane.many // share)]
        ids = {worker_id for order in orders for worker_id in provider.launch(order).ids}
        self.until(plane, lambda: ids == _existing(provider))
        assert len(ids) == share * len(orders)
        provider.terminate(sorted(ids))
        self.until(plane, lambda: not _existing(provider) and not plane.billable())

    # -- once and only once ----------------------------------------------------------------------------

    def test_the_same_token_launched_twice_gives_the_same_workers(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        order = self.order(provider, count=2)
        first, before = provider.launch(order), sorted(plane.billable())
        assert set(provider.launch(order).ids) == set(first.ids)
        assert sorted(plane.billable()) == before

    def test_the_same_token_after_a_restart_gives_the_same_workers(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        order = self.order(provider, count=2)
        first, before = provider.launch(order), sorted(plane.billable())
        assert set(plane.connect(CELL).launch(order).ids) == set(first.ids)
        assert sorted(plane.billable()) == before

    def test_the_same_token_from_two_threads_at_once_gives_one_set_of_workers(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        order, answers = self.order(provider, count=2), list[Launched]()
        threads = [threading.Thread(target=lambda: answers.append(provider.launch(order))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({worker_id for answer in answers for worker_id in answer.ids}) == 2
        self.until(plane, lambda: len(_existing(provider)) == 2)

    def test_another_token_gives_other_workers(self, provider: Provider) -> None:
        first, second = provider.launch(self.order(provider)), provider.launch(self.order(provider))
        assert set(first.ids).isdisjoint(second.ids)

    def test_a_launch_repeated_after_a_lost_answer_gives_one_set_of_workers(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.LOST_ANSWER)
        with pytest.raises((Unreachable, LostAnswer)):
            provider.launch(order)
        plane.heal()
        restarted = plane.connect(CELL)
        again = restarted.launch(order)
        self.until(plane, lambda: _existing(restarted) == set(again.ids))
        assert len(again.ids) == order.count

    def test_a_machine_whose_launch_was_never_answered_is_listed_and_can_be_terminated(
        self, plane: ControlPlane
    ) -> None:
        """Nothing is left behind, even if the order is never requested again."""
        provider, order = self.at_fault(plane, Fault.LOST_ANSWER)
        with pytest.raises((Unreachable, LostAnswer)):
            provider.launch(order)
        plane.heal()
        restarted = plane.connect(CELL)
        self.until(plane, lambda: len(_existing(restarted)) == order.count)
        assert {worker.order_id for worker in restarted.workers()} == {order.order_id}
        restarted.terminate(sorted(_existing(restarted)))
        self.until(plane, lambda: not _existing(restarted) and not plane.billable())

    @pytest.mark.parametrize("fault", (Fault.BROKEN_TLS, Fault.LOST_THEN_THROTTLED))
    def test_a_launch_that_may_have_happened_is_answered_or_unreachable_and_happens_once(
        self, plane: ControlPlane, fault: Fault
    ) -> None:
        """Whatever a later try of the same call met, that says nothing about the first one."""
        provider, order = self.at_fault(plane, fault)
        with contextlib.suppress(Unreachable):
            assert len(provider.launch(order).ids) == order.count
        self.met_once(plane, order)

    def test_a_lost_launch_repeated_by_another_process_at_once_gives_one_set_of_workers(
        self, plane: ControlPlane
    ) -> None:
        """A restart within seconds, while no listing shows what the launch made."""
        self.possible(plane, Fault.LAG)
        provider, order = self.at_fault(plane, Fault.LOST_ANSWER)
        plane.inject(Fault.LAG)
        with pytest.raises((Unreachable, LostAnswer)):
            provider.launch(order)
        with contextlib.suppress(Unreachable, LostAnswer):
            plane.connect(CELL).launch(replace(order, asked_before=True))
        self.met_once(plane, order)

    def test_a_lost_launch_repeated_with_other_settings_gives_one_set_of_workers(self, plane: ControlPlane) -> None:
        self.possible(plane, Fault.CHANGED_SETTINGS)
        provider, order = self.at_fault(plane, Fault.LOST_ANSWER)
        with pytest.raises((Unreachable, LostAnswer)):
            provider.launch(order)
        plane.heal()
        plane.inject(Fault.CHANGED_SETTINGS)
        with contextlib.suppress(Unreachable):
            plane.connect(CELL).launch(replace(order, asked_before=True))
        self.met_once(plane, order)

    def met_once(self, plane: ControlPlane, order: LaunchOrder) -> None:
        """In the end the order has as many workers as it asked for, and no others exist."""
        plane.heal()
        later, ids = plane.connect(CELL), set[str]()

        def answered() -> bool:
            with contextlib.suppress(Unreachable):
                ids.update(later.launch(replace(order, asked_before=True)).ids)
            return len(ids) >= order.count

        self.until(plane, answered)
        self.until(plane, lambda: len(_existing(later)) >= order.count)
        plane.settle()
        assert (_existing(later), len(ids)) == (ids, order.count)

    # -- failures --------------------------------------------------------------------------------------

    def test_a_lack_of_capacity_is_a_shortfall_of_its_bucket(self, plane: ControlPlane) -> None:
        self.all_short(plane, Fault.OUT_OF_CAPACITY, OutOfCapacity)

    def test_a_full_quota_is_a_shortfall_of_its_bucket(self, plane: ControlPlane) -> None:
        self.all_short(plane, Fault.QUOTA, QuotaReached)

    def all_short(self, plane: ControlPlane, fault: Fault, error: type[ProviderError]) -> None:
        provider, order = self.at_fault(plane, fault)
        launched = provider.launch(order)
        assert launched.ids == ()
        assert {key for key, _ in launched.shortfalls} == {bucket.key for bucket in order.buckets}
        assert all(isinstance(reason, error) and str(reason) for _, reason in launched.shortfalls)
        assert list(plane.billable()) == []

    def test_a_partial_launch_reports_the_shortfall(self, plane: ControlPlane) -> None:
        provider, _ = self.at_fault(plane, Fault.PARTIAL)
        launched = provider.launch(self.order(provider, count=3))
        assert len(launched.ids) == 2
        assert [type(reason) for _, reason in launched.shortfalls] in ([OutOfCapacity], [QuotaReached])
        self.until(plane, lambda: _existing(provider) == set(launched.ids))

    def test_a_partial_order_launched_again_gives_no_more_workers(self, plane: ControlPlane) -> None:
        provider, _ = self.at_fault(plane, Fault.PARTIAL)
        order = self.order(provider, count=3)
        first = provider.launch(order)
        plane.heal()
        assert set(plane.connect(CELL).launch(order).ids) == set(first.ids)

    def test_a_throttled_launch_raises_throttled_and_its_token_works_later(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.THROTTLED)
        with pytest.raises(Throttled):
            provider.launch(order)
        assert list(plane.billable()) == []
        plane.heal()
        assert len(plane.connect(CELL).launch(order).ids) == 1

    def test_a_permanent_error_raises_refused_and_leaves_nothing(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.REFUSED)
        with pytest.raises(Refused, match=r"."):
            provider.launch(order)
        assert list(plane.billable()) == []

    def test_credentials_that_are_not_taken_refuse_nothing_for_good(self, plane: ControlPlane) -> None:
        """A hiccup of their source: as Refused it would stop the node array until a person resumes it."""
        provider, order = self.at_fault(plane, Fault.CREDENTIALS)
        with pytest.raises(NotAuthenticated):
            provider.launch(order)
        assert list(plane.billable()) == []
        self.met_once(plane, order)

    def test_an_unreachable_cloud_is_not_an_empty_listing(self, plane: ControlPlane) -> None:
        provider, _ = self.at_fault(plane, Fault.UNREACHABLE)
        with pytest.raises(Unreachable):
            provider.workers()

    def test_a_source_of_advice_that_refuses_fails_alone_and_is_told(self, plane: ControlPlane) -> None:
        """Without notices, prices or quotas workers are listed, ordered and ended all the same."""
        provider, order = self.at_fault(plane, Fault.ADVICE)
        ids = set(provider.launch(order).ids)
        self.until(plane, lambda: _existing(provider) == ids)
        assert list(provider.buckets())
        if isinstance(provider, HasInterruptions):
            assert list(provider.interruptions()) == []
        provider.terminate(sorted(ids))
        self.until(plane, lambda: not _existing(provider))
        assert not isinstance(provider, HasTroubles) or provider.troubles()

    def test_a_pause_that_the_cloud_asks_for_stops_only_calls_of_that_kind(self, plane: ControlPlane) -> None:
        self.possible(plane, Fault.LONG_PAUSE)
        provider = plane.connect(CELL)
        ids = set(provider.launch(self.order(provider)).ids)
        self.until(plane, lambda: _existing(provider) == ids)
        order = self.order(provider)
        plane.inject(Fault.LONG_PAUSE)
        provider = plane.connect(CELL)
        for _ in range(2):
            with pytest.raises(Throttled):
                provider.launch(order)
        assert _existing(provider) == ids
        provider.terminate(sorted(ids))
        self.until(plane, lambda: not _existing(provider))
        assert not isinstance(provider, HasTroubles) or provider.troubles()

    def test_an_unreadable_answer_fails_the_listing(self, plane: ControlPlane) -> None:
        if Fault.MALFORMED not in plane.cannot:
            plane.connect(CELL).launch(self.order(plane.connect(CELL)))
        provider, _ = self.at_fault(plane, Fault.MALFORMED)
        with pytest.raises(Unreachable):
            provider.workers()

    def test_buckets_are_there_or_said_to_be_unknown_while_answers_are_unreadable(self, plane: ControlPlane) -> None:
        """Without buckets no instance type would be allowed, and jobs would be told that none can run them."""
        provider, _ = self.at_fault(plane, Fault.MALFORMED)
        try:
            found = list(provider.buckets())
        except Unreachable:
            return
        assert found

    def test_a_listing_that_is_cut_at_a_later_page_is_no_shorter_listing(self, plane: ControlPlane) -> None:
        """The machines that it lacks would look lost, and would be replaced while they run."""
        self.possible(plane, Fault.CUT_LISTING)
        healthy = plane.connect(CELL)
        ids = set(healthy.launch(self.order(healthy, count=3)).ids)
        self.until(plane, lambda: _existing(healthy) == ids)
        plane.inject(Fault.CUT_LISTING)
        with pytest.raises(Unreachable):
            plane.connect(CELL).workers()

    def test_a_machine_without_an_id_fails_the_listing(self, plane: ControlPlane) -> None:
        """Left out, it would run unseen, and nothing could end it."""
        self.possible(plane, Fault.NO_IDS)
        healthy = plane.connect(CELL)
        ids = set(healthy.launch(self.order(healthy, count=2)).ids)
        self.until(plane, lambda: _existing(healthy) == ids)
        plane.inject(Fault.NO_IDS)
        with pytest.raises(Unreachable):
            plane.connect(CELL).workers()

    def test_a_launch_whose_answer_names_no_machine_may_have_happened_and_happens_once(
        self, plane: ControlPlane
    ) -> None:
        """Taken as an answer, it would close the order, and its machines would run for nobody."""
        provider, order = self.at_fault(plane, Fault.NO_IDS)
        with contextlib.suppress(Unreachable):
            assert len(provider.launch(order).ids) == order.count
        self.met_once(plane, order)

    def test_a_worker_that_is_not_listed_yet_is_listed_later(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.LAG)
        launched = provider.launch(order)
        assert list(provider.workers()) == []
        plane.heal()
        self.until(plane, lambda: _existing(plane.connect(CELL)) == set(launched.ids))

    def test_a_worker_that_is_not_listed_yet_can_be_terminated(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.LAG)
        provider.terminate(provider.launch(order).ids)
        self.until(plane, lambda: list(plane.billable()) == [])

    def test_an_earlier_process_worker_that_is_not_listed_yet_is_terminated_or_said_not_to_be(
        self, plane: ControlPlane
    ) -> None:
        """To count it as gone would leave it running."""
        provider, order = self.at_fault(plane, Fault.LAG)
        ids, later = provider.launch(order).ids, plane.connect(CELL)
        try:
            later.terminate(ids)
        except Unreachable:
            plane.heal()
            self.until(plane, lambda: _ended(later, ids))
        self.until(plane, lambda: list(plane.billable()) == [])

    def test_a_new_worker_that_listings_hide_is_not_listed_as_ended_and_appears_later(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        """Those that are listed may all have ended, and nothing says that one more is there."""
        self.possible(plane, Fault.HIDE_NEW)
        seen = set(provider.launch(self.order(provider)).ids)
        self.until(plane, lambda: _existing(provider) == seen)
        order = self.order(provider)
        plane.settle()
        plane.inject(Fault.HIDE_NEW)
        provider = plane.connect(CELL)
        (hidden,) = provider.launch(order).ids
        assert {worker.id for worker in provider.workers()} == seen
        provider.terminate(sorted(seen))
        self.until(plane, lambda: not _existing(provider))
        assert hidden not in {worker.id for worker in provider.workers()}
        plane.heal()
        self.until(plane, lambda: _existing(plane.connect(CELL)) == {hidden})
        self.until(plane, lambda: _ended(provider, [hidden]))
        self.until(plane, lambda: list(plane.billable()) == [])

    def test_an_accepted_machine_that_never_comes_up_has_failure_and_message(self, plane: ControlPlane) -> None:
        """Without its `failure` it looks like one that was lost: it would be ordered again for ever."""
        provider, order = self.at_fault(plane, Fault.ACCEPTED_THEN_DEAD)
        (worker_id,) = provider.launch(order).ids
        self.until(plane, lambda: (found := _worker(provider, worker_id)) is not None and found.failure is not None)
        for each in (provider, plane.connect(CELL)):
            worker = _worker(each, worker_id)
            assert worker is not None
            assert worker.failure in (FailureKind.BOOT, FailureKind.CAPACITY, FailureKind.QUOTA)
            assert worker.message
            assert worker.ending is Ending.UNKNOWN
            assert (worker.order_id, worker.type.name) == (order.order_id, order.buckets[0].type.name)
        provider.terminate([worker_id])
        self.until(plane, lambda: list(plane.billable()) == [])

    # -- ending ----------------------------------------------------------------------------------------

    def test_terminated_workers_are_gone_and_nothing_billable_is_left(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        launched = provider.launch(self.order(provider, count=2))
        provider.terminate(launched.ids)
        self.until(plane, lambda: not _existing(provider) and not plane.billable())

    def test_a_machine_that_we_terminated_is_not_a_failed_launch(self, plane: ControlPlane, provider: Provider) -> None:
        launched = provider.launch(self.order(provider, count=2))
        self.until(plane, lambda: _existing(provider) == set(launched.ids))
        provider.terminate(launched.ids)
        self.until(plane, lambda: not _existing(provider))
        assert [worker.failure for worker in provider.workers()] == [None] * len(provider.workers())

    @pytest.mark.parametrize("state", ("new", "running", "stopped", "ending"))
    def test_a_machine_that_somebody_else_terminated_is_gone_and_not_a_failed_launch(
        self, plane: ControlPlane, provider: Provider, state: str
    ) -> None:
        self.possible(plane, Fault.ENDED_OUTSIDE, *([Fault.STOPPED] if state == "stopped" else []))
        (worker_id,) = provider.launch(self.order(provider)).ids
        if state in ("running", "stopped"):
            self.until(plane, lambda: _state(provider, worker_id) is MachineState.RUNNING)
        if state == "stopped":
            plane.stop(worker_id)
        if state == "ending":
            provider.terminate([worker_id])
        plane.end(worker_id)
        self.until(plane, lambda: not _existing(provider) and not plane.billable())
        assert [worker.failure for worker in provider.workers()] == [None] * len(provider.workers())
        provider.terminate([worker_id])
        plane.connect(CELL).terminate([worker_id])
        assert list(plane.billable()) == []

    def test_a_machine_that_somebody_stops_has_not_failed_and_exists_until_it_is_terminated(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        """One that counted as ending would hold its place and its disks for ever: nothing would terminate it. One that
        counted as failed would be held against its instance type.
        """
        self.possible(plane, Fault.STOPPED)
        (worker_id,) = provider.launch(self.order(provider)).ids
        self.until(plane, lambda: _state(provider, worker_id) is MachineState.RUNNING)
        plane.stop(worker_id)
        self.until(plane, lambda: _state(plane.connect(CELL), worker_id) is MachineState.PENDING)
        assert list(plane.billable()) != []
        later = plane.connect(CELL)
        worker = _worker(later, worker_id)
        assert worker is not None
        assert worker.message
        assert (worker.failure, worker.ending) == (None, Ending.STOPPED)
        later.terminate([worker_id])
        self.until(plane, lambda: not _existing(later) and not plane.billable())

    def test_disks_of_the_image_are_deleted_with_their_machine(self, plane: ControlPlane) -> None:
        provider, order = self.at_fault(plane, Fault.IMAGE_DISKS)
        (worker_id,) = provider.launch(order).ids
        assert len(plane.billable()) > 2
        provider.terminate([worker_id])
        self.until(plane, lambda: not _existing(provider) and not plane.billable())

    def test_terminating_one_worker_keeps_the_others(self, plane: ControlPlane, provider: Provider) -> None:
        ended, *kept = provider.launch(self.order(provider, count=3)).ids
        provider.terminate([ended])
        self.until(plane, lambda: _existing(provider) == set(kept))

    def test_terminating_twice_is_allowed(self, plane: ControlPlane, provider: Provider) -> None:
        launched = provider.launch(self.order(provider))
        provider.terminate(launched.ids)
        self.until(plane, lambda: not plane.billable())
        provider.terminate(launched.ids)
        plane.connect(CELL).terminate(launched.ids)
        assert list(plane.billable()) == []

    def test_a_terminated_worker_is_not_launched_again_by_its_token(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        order = self.order(provider)
        first = provider.launch(order)
        provider.terminate(first.ids)
        self.until(plane, lambda: not plane.billable())
        try:
            again = provider.launch(order)
        except ProviderError:
            again = Launched(())
        assert set(again.ids) <= set(first.ids)
        assert list(plane.billable()) == []

    def test_terminating_an_unknown_id_is_allowed_and_keeps_the_others(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        launched = provider.launch(self.order(provider))
        provider.terminate(["no-such-machine"])
        self.until(plane, lambda: _existing(provider) == set(launched.ids))

    def test_a_machine_that_the_cloud_has_forgotten_keeps_no_other_from_being_terminated_and_counts_as_gone(
        self, plane: ControlPlane, provider: Provider
    ) -> None:
        """Soon, or after some minutes if it might be too new to be known."""
        self.possible(plane, Fault.FORGOTTEN)
        forgotten, *others = provider.launch(self.order(provider, count=3)).ids
        self.until(plane, lambda: _existing(provider) == {forgotten, *others})
        plane.forget(forgotten)
        with contextlib.suppress(Unreachable):
            provider.terminate([forgotten, *others])
        self.until(plane, lambda: list(plane.billable()) == [])
        self.until(plane, lambda: _ended(provider, [forgotten]))
        later = plane.connect(CELL)
        self.until(plane, lambda: _ended(later, [forgotten]))

    def test_terminating_nothing_is_allowed(self, provider: Provider) -> None:
        provider.terminate([])

    # -- whose ------------------------------------------------------------------------------------------

    def test_a_machine_of_another_cell_is_not_listed(self, plane: ControlPlane, provider: Provider) -> None:
        other = plane.connect(OTHER_CELL)
        theirs = other.launch(self.order(other, cell=OTHER_CELL))
        self.until(plane, lambda: _existing(other) == set(theirs.ids))
        assert list(provider.workers()) == []

    def test_terminating_a_machine_of_another_cell_is_refused(self, plane: ControlPlane, provider: Provider) -> None:
        other = plane.connect(OTHER_CELL)
        theirs = other.launch(self.order(other, cell=OTHER_CELL))
        with pytest.raises(Refused):
            provider.terminate(theirs.ids)
        self.until(plane, lambda: _existing(other) == set(theirs.ids))

    def test_two_cells_may_use_the_same_token(self, plane: ControlPlane, provider: Provider) -> None:
        other = plane.connect(OTHER_CELL)
        ours = provider.launch(self.order(provider, token="same-0"))
        theirs = other.launch(self.order(other, token="same-0", cell=OTHER_CELL))
        assert set(ours.ids).isdisjoint(theirs.ids)

    # -- optional abilities -----------------------------------------------------------------------------

    def test_a_console_shows_text(self, plane: ControlPlane, provider: Provider) -> None:
        if not isinstance(provider, HasConsole):
            pytest.skip("console does not apply: the provider has none")
        (worker_id,) = provider.launch(self.order(provider)).ids
        self.until(plane, lambda: _state(provider, worker_id) is MachineState.RUNNING)
        self.until(plane, lambda: provider.console(worker_id).strip() != "")

    def test_the_call_budget_counts_calls(self, provider: Provider) -> None:
        if not isinstance(provider, HasCallBudget):
            pytest.skip("call_budget does not apply: the provider paces no calls")
        before = provider.call_budget().calls
        provider.launch(self.order(provider))
        assert provider.call_budget().calls > before


def _ended(provider: Provider, ids: Sequence[str]) -> bool:
    """Whether the provider could end these machines, or knows that they are gone."""
    try:
        provider.terminate(ids)
    except Unreachable:
        return False
    return True


def _worker(provider: Provider, worker_id: str) -> Worker | None:
    return next((worker for worker in provider.workers() if worker.id == worker_id), None)


def _state(provider: Provider, worker_id: str) -> MachineState | None:
    worker = _worker(provider, worker_id)
    return None if worker is None else worker.state


def _existing(provider: Provider) -> set[str]:
    return {worker.id for worker in provider.workers() if worker.exists}
