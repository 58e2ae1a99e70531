"""With `predicted`, workers exchange sequence numbers so that jobs go first where work ends latest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.core.actions import Renumber
from autoscaler.core.estimates.estimates import Estimates
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.memory import HostOrder, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.core.policy import PACK_FIXED, PACK_OFF, PACK_PREDICTED
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import MAIN, NOW, XLARGE, AWorker, Thing, a_host, a_snapshot, a_worker

Ends = Mapping[str, float | None]
"""By worker, in how many seconds its job is estimated to end; None: none runs."""


def worker(name: str, number: int, *, runs: bool, slots: int = 1) -> AWorker:
    host = a_host(name, slots=4, used=slots if runs else 0)
    job = HostJob(number, "", "r", slots, "ann", started=NOW - 600)
    host = replace(host, instances=(replace(host.instances[0], jobs=(job,) if runs else ()),))
    return a_worker(name, type_=XLARGE, host=host)


def cell(
    ends: Ends,
    *things: Thing,
    numbers: Mapping[str, int] | None = None,
    order: HostOrder | None = None,
    pack: str = PACK_PREDICTED,
    full: frozenset[str] = frozenset(),
) -> Snapshot:
    """Workers in this order, with the numbers 1, 2, … that the autoscaler gave them."""
    workers = [
        worker(name, 100 + at, runs=end is not None, slots=4 if name in full else 1)
        for at, (name, end) in enumerate(ends.items())
    ]
    given = numbers or {name: at for at, name in enumerate(ends, start=1)}
    known = order or HostOrder(NOW - 3_600, {f"i-{name}": at for at, name in enumerate(ends, start=1)})
    snapshot = a_snapshot(
        *workers,
        *things,
        Memory(passes=7, host_orders={"main.q": known}),
        pack=pack,
        queues={"main.q": replace(MAIN, seq_no_by_host=given)},
    )
    estimates = {str(100 + at): NOW + end for at, end in enumerate(ends.values()) if end is not None}
    return replace(snapshot, estimates=Estimates(ends=estimates))


def changes(made: Plan) -> list[dict[str, int]]:
    return [
        {each.host: each.seq_no for each in action.workers} for action in made.actions if isinstance(action, Renumber)
    ]


def test_the_worker_whose_work_ends_last_gets_the_lowest_number() -> None:
    made = plan(cell({"w1": 300.0, "w2": 7_200.0, "w3": 900.0}))
    assert changes(made) == [{"w1": 3, "w2": 1, "w3": 2}]


def test_an_empty_worker_comes_last() -> None:
    assert changes(plan(cell({"w1": None, "w2": 3_600.0}))) == [{"w1": 2, "w2": 1}]


@pytest.mark.parametrize(
    "snapshot",
    (
        pytest.param(cell({"w1": 7_200.0, "w2": 300.0}), id="the order is right"),
        pytest.param(cell({"w1": 300.0, "w2": 360.0}), id="they end at the same time, nearly"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, full=frozenset({"w2"})), id="no job could go to the later one"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, full=frozenset({"w1"})), id="nor to the earlier one"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, pack=PACK_FIXED), id="the order is fixed"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, pack=PACK_OFF), id="there is none"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, Overrides(paused=True)), id="the autoscaler is paused"),
        pytest.param(cell({"w1": 300.0, "w2": 7_200.0}, numbers={"w1": 1, "w2": 7}), id="a person wrote one"),
    ),
)
def test_nothing_is_written_if(snapshot: Snapshot) -> None:
    assert changes(plan(snapshot)) == []


def test_a_number_of_a_person_stays_and_the_others_are_exchanged() -> None:
    snapshot = cell({"w1": 300.0, "w2": 900.0, "w3": 7_200.0}, numbers={"w1": 1, "w2": 8, "w3": 3})
    assert changes(plan(snapshot)) == [{"w1": 3, "w3": 1}]


def test_a_queue_is_changed_once_a_minute_at_most() -> None:
    numbers = {"i-w1": 1, "i-w2": 2}
    made = plan(cell({"w1": 300.0, "w2": 7_200.0}, order=HostOrder(NOW - 20, numbers)))
    assert (changes(made), made.due) == ([], NOW + 40)
    assert changes(plan(cell({"w1": 300.0, "w2": 7_200.0}, order=HostOrder(NOW - 60, numbers)))) != []


def test_after_a_change_that_failed_the_old_numbers_are_no_persons() -> None:
    first = plan(cell({"w1": 300.0, "w2": 7_200.0}))
    noted = replace(first.memory.host_orders["main.q"], written_at=NOW - 60)
    assert changes(plan(cell({"w1": 300.0, "w2": 7_200.0}, order=noted))) == changes(first)


def test_once_written_the_order_stays() -> None:
    ends = {"w1": 300.0, "w2": 7_200.0}
    noted = replace(plan(cell(ends)).memory.host_orders["main.q"], written_at=NOW - 600)
    assert changes(plan(cell(ends, order=noted, numbers=dict(changes(plan(cell(ends)))[0])))) == []


def test_what_is_known_of_a_worker_that_has_left_is_forgotten() -> None:
    made = plan(cell({"w1": 300.0}, order=HostOrder(NOW, {"i-w1": 1, "i-gone": 2}, {"i-gone": 1})))
    assert made.memory.host_orders["main.q"] == HostOrder(NOW, {"i-w1": 1}, {})


def with_gpu(snapshot: Snapshot, *names: str) -> Snapshot:
    """The same with GPUs on these workers."""
    policy = snapshot.policy
    arrays = tuple(replace(array, gpu_complex="gpus") for array in policy.node_arrays)
    fleet, kind = snapshot.fleet, replace(XLARGE, name="g4dn.xlarge", family="g4dn", gpus=1)
    workers = tuple(replace(each, type=kind) if each.name in names else each for each in fleet.workers)
    return replace(snapshot, policy=replace(policy, node_arrays=arrays), fleet=replace(fleet, workers=workers))


def test_a_worker_with_gpus_comes_last_whenever_its_work_ends() -> None:
    made = plan(with_gpu(cell({"w1": 90_000.0, "w2": 300.0, "w3": None, "w4": 7_200.0}), "w1"))
    assert changes(made) == [{"w1": 4, "w4": 1}]


def test_workers_with_gpus_exchange_numbers_among_themselves_alone() -> None:
    made = plan(with_gpu(cell({"w1": 300.0, "w2": 300.0, "w3": 7_200.0}), "w2", "w3"))
    assert changes(made) == [{"w2": 3, "w3": 2}]


def test_where_all_have_gpus_ends_alone_decide() -> None:
    assert changes(plan(with_gpu(cell({"w1": 300.0, "w2": 7_200.0}), "w1", "w2"))) == [{"w1": 2, "w2": 1}]
