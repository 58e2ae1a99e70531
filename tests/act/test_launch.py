"""Launching: candidate by candidate, every token stored first, and never twice for the same demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from autoscaler.background import Executor, on_thread
from autoscaler.core.actions import Action, Launch, LaunchSet
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.fleet import OrderState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import Plan
from autoscaler.engine.actor import Actor
from autoscaler.engine.execution import ExecutionContext, Groups
from autoscaler.engine.executors.launch import give_up, recover
from autoscaler.engine.job_owners import Nobody, Owners
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.fake import FakeCloud, FakeProvider, FakeSettings, Faults
from autoscaler.providers.interface import Launched, LaunchOrder, Throttled, Unreachable
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches
from autoscaler.sge.lookup import JobsNow
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.store.journal import Outcome, Result
from autoscaler.store.store import Store
from tests.sge.grid_engine_model import GridEngineModel
from tests.simulated.asking import NamesInMemory
from tests.simulated.executor import at_once

BUCKETS = {bucket.type.name: bucket for bucket in load_catalog().buckets() if bucket.key.price_type == "on_demand"}
REASON = because(Code.DEMAND)
GRACE = 600.0


def launch(*types: str, count: int = 2) -> Launch:
    return Launch("execute", tuple(LaunchSet((BUCKETS[name],), count) for name in types), REASON)


class Bench:
    """An actor with a cloud, a Grid Engine, a store and a clock; `restart` replaces a killed one."""

    def __init__(self, directory: Path, executor: Executor = at_once) -> None:
        self.now = 1000.0
        self.cloud = FakeCloud(clock=lambda: self.now)
        self.grid_engine = GridEngineModel()
        self.provider = FakeProvider(FakeSettings(), cell="tag", cloud=self.cloud)
        self.store = Store.open(directory / "store.sqlite")
        self.executor = executor
        self.names = NamesInMemory()
        self.running: set[int] = set()
        self.waiting: dict[str, JobRequest] = {}
        self.owners: Owners = Nobody()
        self.groups: Groups | None = None
        self.may_act: Callable[[], None] = lambda: None
        self.restart()

    def restart(self, on_late: Callable[[], None] = lambda: None) -> None:
        self.context = ExecutionContext(
            Administrator(self.grid_engine),
            self.provider,
            self.store,
            "tag",
            lambda array: f"join {array}",
            lambda: self.now,
            self.executor,
            ProbeHosts(self.grid_engine, self.names),
            lambda: JobsNow(frozenset(self.running), self.waiting),
            self.owners,
            groups=self.groups,
            may_act=lambda: self.may_act(),
            batches=Batches(Administrator(self.grid_engine)),
        )
        self.actor = Actor(self.context, patience=0.0, on_late=on_late)

    def act(self, *actions: Action, carry_on: Callable[[], bool] = lambda: True) -> list[Outcome]:
        journalled = self.store.accept(Plan(actions, Memory()), pass_number=1, at=self.now)
        return self.actor.act(journalled, self.listing(), carry_on=carry_on)

    def listing(self) -> list[Worker]:
        """What the provider lists, without the faults of other calls."""
        faults, self.cloud.faults = self.cloud.faults, Faults(listing_lag=self.cloud.faults.listing_lag)
        try:
            return list(self.provider.workers())
        finally:
            self.cloud.faults = faults

    def resume(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.actor.resume(self.listing(), grace=GRACE)

    @property
    def states(self) -> list[OrderState]:
        return [record.as_orders()[0].state for record in self.store.journal.orders(0)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_an_order_keeps_its_group_and_nodes(bench: Bench) -> None:
    bench.act(replace(launch("m5.large"), group_id="execute:64-1", nodes=("n1", "n2"), for_requests=True))
    order = bench.store.journal.orders(0)[0].as_orders()[0]
    assert (order.group_id, order.nodes, order.for_requests) == ("execute:64-1", ("n1", "n2"), True)


def test_an_order_keeps_its_assignment_which_the_journal_has_once(bench: Bench) -> None:
    assignment = (("36688decd6f980ec", 2), ("77dde23f2fccfe6d", 1))
    bench.act(replace(launch("m5.large"), assignment=assignment))
    (record,) = bench.store.journal.orders(0)
    assert record.as_orders()[0].assignment == assignment
    actions, orders = (str([*map(dict, bench.store.database.rows(f"SELECT * FROM {name}"))]) for name in _TABLES)
    assert (actions.count("36688decd6f980ec"), orders.count("36688decd6f980ec")) == (0, 1)


_TABLES = ("actions", "orders")


def test_a_machine_of_a_group_carries_it_as_a_tag(bench: Bench) -> None:
    bench.act(replace(launch("m5.large"), group_id="execute:64-1"))
    (attempt,) = bench.store.journal.orders(0)[0].attempts
    assert dict(attempt.launch_order.tags) == {"group_id": "execute:64-1"}


def test_an_order_for_a_node_is_found_however_old(bench: Bench) -> None:
    bench.act(replace(launch("m5.large"), nodes=("n1",)), launch("m5.large"))
    found = bench.store.journal.orders(bench.now + 9999, {"n1", "n9"})
    assert [order.nodes for order in found] == [("n1",)]


def test_an_order_is_accepted_with_the_ids_it_was_given(bench: Bench) -> None:
    outcome = bench.act(launch("m5.large"))[0]
    ids = tuple(worker.id for worker in bench.provider.workers())
    order = bench.store.journal.orders(0)[0].as_orders()[0]
    assert (outcome.result, order.state, order.ids, len(ids)) == (Result.DONE, OrderState.ACCEPTED, ids, 2)


def test_the_token_is_stored_before_the_provider_is_called(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[bool] = []

    def asked(order: LaunchOrder) -> Launched:
        other = Store.open(Path(bench.store.database.row("PRAGMA database_list")["file"]))  # type: ignore[index]
        known.extend(attempt.launch_order == order for attempt in other.journal.orders(0)[0].attempts)
        other.close()
        return Launched(("i-1",))

    monkeypatch.setattr(bench.provider, "launch", asked)
    bench.act(launch("m5.large"))
    assert known == [True]


def test_a_lack_of_capacity_tries_the_next_candidate(bench: Bench) -> None:
    bench.cloud.faults.out_of_capacity.add("m5.large")
    bench.act(launch("m5.large", "m5.xlarge"))
    types = [worker.type.name for worker in bench.provider.workers()]
    kinds = [(failure.bucket.instance_type, failure.kind) for failure in bench.store.journal.failures(0)]
    assert (types, kinds) == (["m5.xlarge", "m5.xlarge"], [("m5.large", "capacity")])


def test_a_launch_completed_in_its_pass_has_one_outcome(bench: Bench) -> None:
    outcomes = bench.act(replace(launch("m5.large"), assignment=(("category", 1),)))
    assert [outcome.result for outcome in outcomes] == [Result.DONE]


def test_a_partial_launch_records_its_shortfall(bench: Bench) -> None:
    bench.cloud.faults.stock = 1
    bench.act(launch("m5.large", "m5.xlarge"))
    order = bench.store.journal.orders(0)[0].as_orders()[0]
    assert (order.count, len(bench.store.journal.failures(0))) == (1, 1)


def test_with_no_candidate_left_the_order_has_failed(bench: Bench) -> None:
    bench.cloud.faults.quota = 0
    outcome = bench.act(launch("m5.large", "m5.xlarge"))[0]
    kinds = {failure.kind for failure in bench.store.journal.failures(0)}
    assert (outcome.result, bench.states, kinds) == (Result.FAILED, [OrderState.FAILED], {"quota"})


def test_a_permanent_refusal_tries_no_other_candidate(bench: Bench) -> None:
    bench.cloud.faults.refused = "bad image"
    outcome = bench.act(launch("m5.large", "m5.xlarge"))[0]
    kinds = [failure.kind for failure in bench.store.journal.failures(0)]
    assert (outcome.result, kinds, bench.cloud.calls.count("launch")) == (Result.REFUSED, ["permanent"], 1)


def test_an_order_without_an_answer_stays_open(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    outcome = bench.act(launch("m5.large"))[0]
    assert (outcome.result, bench.states) == (Result.UNDER_WAY, [OrderState.SENT])


def test_a_lost_answer_is_found_in_the_listing_without_asking_again(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    bench.act(launch("m5.large"))
    bench.resume()
    assert (bench.states, bench.cloud.calls.count("launch")) == ([OrderState.ACCEPTED], 1)


def test_a_launch_with_a_lost_answer_is_repeated_with_the_same_token(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    bench.cloud.faults.listing_lag = 60.0
    bench.act(launch("m5.large"))
    bench.restart()
    bench.resume()
    assert (bench.states, len(bench.cloud.machines)) == ([OrderState.ACCEPTED], 2)


def test_a_throttled_order_has_failed_and_is_not_repeated(bench: Bench) -> None:
    """A later plan decides again: the demand may be gone by then."""
    bench.cloud.faults.throttled = 1
    outcome = bench.act(launch("m5.large", "m5.xlarge"))[0]
    bench.resume(60.0)
    (failure,) = bench.store.journal.failures(0)
    assert (outcome.result, outcome.message, bench.states) == (Result.FAILED, "too many calls", [OrderState.FAILED])
    assert (failure.kind, failure.message, bench.cloud.calls.count("launch")) == ("throttled", "too many calls", 1)


def test_a_throttled_order_stays_open_if_an_earlier_call_lost_its_answer(bench: Bench) -> None:
    """Rule 3: that its second call was throttled does not show what the first did, whose answer was lost."""
    bench.cloud.faults.lost_answers, bench.cloud.faults.listing_lag = 1, 600.0
    bench.act(launch("m5.large"))
    bench.cloud.faults.throttled = 1
    bench.resume(60.0)
    after = bench.states
    bench.resume(60.0)
    assert (after, bench.states, len(bench.cloud.machines)) == ([OrderState.SENT], [OrderState.ACCEPTED], 2)


def test_a_refused_order_stays_open_if_an_earlier_call_lost_its_answer(bench: Bench) -> None:
    """The refusal (as of credentials that have expired since) speaks of the second call alone."""
    bench.cloud.faults.lost_answers, bench.cloud.faults.listing_lag = 1, 600.0
    bench.act(launch("m5.large"))
    bench.cloud.faults.refused = "you are not authorised"
    bench.resume(60.0)
    after, said = bench.states, bench.store.journal.orders(0)[0].as_orders()[0].message
    bench.cloud.faults.refused = None
    bench.resume(60.0)
    assert (after, said, bench.states, len(bench.cloud.machines)) == (
        [OrderState.SENT],
        "you are not authorised",
        [OrderState.ACCEPTED],
        2,
    )


def test_a_repeated_order_says_so_and_has_the_choices_of_the_first_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider's settings may be others by then, and so may its process be."""
    asked, subnets = list[tuple[bool, dict[str, str]]](), iter(("a b", "a"))

    def launch_(order: LaunchOrder) -> Launched:
        asked.append((order.asked_before, dict(order.chosen)))
        raise Unreachable("the answer was lost")

    monkeypatch.setattr(bench.provider, "launch", launch_)
    monkeypatch.setattr(bench.provider, "choose", lambda order: {"subnets": next(subnets)}, raising=False)
    bench.act(launch("m5.large"))
    bench.restart()
    bench.resume(60.0)
    assert asked == [(False, {"subnets": "a b"}), (True, {"subnets": "a b"})]


def test_a_real_answer_is_not_replaced_by_one_read_off_a_listing(bench: Bench) -> None:
    """The loop read the order before its answer came, and finds fewer workers in a listing that lags."""
    bench.act(launch("m5.large"))
    (record,) = bench.store.journal.orders(0)
    (attempt,) = record.attempts
    assert len(attempt.ids) == 2
    stale = replace(record, attempts=(replace(attempt, answered_at=None, ids=()),), closed=False)
    give_up(stale, bench.listing()[:1], bench.context)
    recover(stale, [], bench.context)
    assert bench.store.journal.orders(0)[0].attempts == (attempt,)


def test_an_answer_that_comes_after_its_order_was_given_up_adds_its_workers(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    bench.act(launch("m5.large"))
    (record,) = bench.store.journal.orders(0)
    ids = sorted(bench.cloud.machines)
    give_up(record, bench.listing()[:1], bench.context)
    bench.store.journal.answer(record.attempts[0].token, ids=ids, failures=(), message="", at=bench.now)
    assert sorted(bench.store.journal.orders(0)[0].attempts[0].ids) == ids


def test_a_throttled_order_stays_open_if_the_process_died_in_its_first_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(order: LaunchOrder) -> Launched:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bench.provider, "launch", dies)
        with pytest.raises(KeyboardInterrupt):
            bench.act(launch("m5.large"))
    bench.restart()
    bench.cloud.faults.throttled = 1
    bench.resume(60.0)
    assert bench.states == [OrderState.SENT]
    (order,) = bench.store.journal.orders(0)[0].as_orders()
    assert "too many calls" in order.message.lower()


def test_a_throttled_order_keeps_the_retry_time_of_its_provider(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def throttled(order: LaunchOrder) -> Launched:
        error = Throttled("too many calls")
        error.retry_after = 90.0
        raise error

    monkeypatch.setattr(bench.provider, "launch", throttled)
    bench.act(launch("m5.large"))
    assert [failure.retry_at for failure in bench.store.journal.failures(0)] == [bench.now + 90]


def test_an_order_without_an_answer_has_the_cause_and_the_time_of_its_retry(bench: Bench) -> None:
    bench.cloud.faults.unreachable = 1
    bench.act(launch("m5.large"))
    order = bench.store.journal.orders(0)[0].as_orders()[0]
    bench.resume(60.0)
    answered = bench.store.journal.orders(0)[0].as_orders()[0]
    assert (order.message, order.asked_again_at) == ("the cloud did not answer", 1005.0)
    assert (answered.state, answered.message, answered.asked_again_at) == (OrderState.ACCEPTED, "", None)


def test_an_order_without_an_answer_is_given_up_after_the_grace(bench: Bench) -> None:
    bench.cloud.faults.unreachable = 100
    bench.act(launch("m5.large"))
    bench.cloud.faults.unreachable = 0
    bench.resume(GRACE)
    assert (bench.states, bench.cloud.calls.count("launch")) == ([OrderState.FAILED], 1)


@pytest.mark.parametrize(("sent", "why"), ((True, "the provider gave no answer"), (False, "never requested")))
def test_an_order_that_is_given_up_says_whether_it_was_sent(bench: Bench, sent: bool, why: str) -> None:
    bench.cloud.faults.unreachable = 100
    if sent:
        bench.act(launch("m5.large"))
    else:
        bench.store.accept(Plan((launch("m5.large"),), Memory()), pass_number=1, at=bench.now)
    (record,) = bench.store.journal.orders(0)
    assert give_up(record, (), bench.context) == why


def test_while_launches_are_stopped_an_order_that_was_never_sent_is_closed(bench: Bench) -> None:
    bench.store.accept(Plan((launch("m5.large"),), Memory()), pass_number=1, at=bench.now)
    bench.actor.abandon((), grace=GRACE)
    assert (bench.states, bench.cloud.machines) == ([OrderState.FAILED], {})


def test_while_launches_are_stopped_an_order_that_may_have_machines_stays_open(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    bench.cloud.faults.listing_lag = 60.0
    bench.act(launch("m5.large"))
    bench.actor.abandon((), grace=GRACE)
    assert (bench.states, bench.actor.uncertain) == ([OrderState.SENT], True)


def test_a_defect_of_a_provider_counts_as_no_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(order: LaunchOrder) -> Launched:
        raise KeyError("instances")

    monkeypatch.setattr(bench.provider, "launch", broken)
    bench.act(launch("m5.large"))
    assert bench.states == [OrderState.SENT]


def test_a_provider_that_hangs_does_not_hang_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, answer = Bench(tmp_path, on_thread), Event()

    def slow(order: LaunchOrder) -> Launched:
        answer.wait(120)
        raise Unreachable("too late")

    monkeypatch.setattr(bench.provider, "launch", slow)
    outcome = bench.act(launch("m5.large"))[0]
    under_way = bench.actor.busy
    answer.set()
    bench.actor.finish(120)
    assert (outcome.result, under_way, bench.actor.busy) == (Result.UNDER_WAY, 1, 0)


def test_a_closed_order_cannot_send_a_candidate(bench: Bench) -> None:
    bench.store.accept(Plan((launch("m5.large"),), Memory()), pass_number=1, at=bench.now)
    record = bench.store.journal.orders(0)[0]
    bench.store.journal.close_order(record.id, "given up", bench.now)
    asked = LaunchOrder(f"{record.id}-0", record.id, "tag", "execute", (BUCKETS["m5.large"],), 1, "")
    assert bench.store.journal.send(asked, 0, bench.now) is False


def test_an_order_closed_while_the_provider_answers_tries_no_further_candidate(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = bench.provider.launch

    def closing(order: LaunchOrder) -> Launched:
        bench.store.journal.close_order(order.order_id, "given up", bench.now)
        return ask(order)

    monkeypatch.setattr(bench.provider, "launch", closing)
    bench.cloud.faults.out_of_capacity.add("m5.large")
    outcome = bench.act(launch("m5.large", "m5.xlarge"))[0]
    assert (outcome.result, bench.states, bench.cloud.calls.count("launch"), bench.listing()) == (
        Result.FAILED,
        [OrderState.FAILED],
        1,
        [],
    )
