"""Launches whose candidates are sets of several offers: all of a set is ordered, once, and the next set only if it
gave nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Launch, LaunchSet, Offer
from autoscaler.core.limits.launched import brought
from autoscaler.core.limits.limits import most_of
from autoscaler.core.model.fleet import Fleet, OrderState
from autoscaler.core.model.memory import Event, Memory
from autoscaler.core.requests.orders import named, outstanding, whole
from autoscaler.core.snapshot import Plan
from autoscaler.report.decisions import decision_lines, find_decisions
from autoscaler.report.document import action_part, document
from autoscaler.report.explain import Past, explain_past
from autoscaler.report.explain_lines import job_lines
from autoscaler.report.sentence import sentence
from autoscaler.report.tables import print_plan
from autoscaler.report.wording import workers_of
from autoscaler.store.history import Explanation
from autoscaler.store.journal import Result
from tests.act.test_launch import BUCKETS, GRACE, REASON, Bench
from tests.core.building import a_snapshot
from tests.report.plans import plan, waiting
from tests.simulated.autoscaler import POLICY

MIX = LaunchSet((BUCKETS["m5.large"],), 2, (Offer((BUCKETS["m5.xlarge"],), 1),))
LAUNCH = Launch("execute", (MIX, LaunchSet((BUCKETS["m5.2xlarge"],), 1)), REASON)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def made(bench: Bench) -> list[str]:
    """Types of the machines that exist."""
    return sorted(worker.type.name for worker in bench.listing())


def orders(bench: Bench) -> list[tuple[str, OrderState, int]]:
    """The orders as a plan reads them."""
    found = (each for record in bench.store.journal.orders(0) for each in record.as_orders())
    return [(order.type.name, order.state, order.count) for order in found]


def test_all_of_a_set_is_ordered_and_nothing_of_the_next(bench: Bench) -> None:
    (outcome,) = bench.act(LAUNCH)
    assert (made(bench), outcome.result) == (["m5.large", "m5.large", "m5.xlarge"], Result.DONE)
    assert orders(bench) == [("m5.large", OrderState.ACCEPTED, 2), ("m5.xlarge", OrderState.ACCEPTED, 1)]


def test_each_offer_has_a_token_of_its_own(bench: Bench) -> None:
    bench.act(LAUNCH)
    (record,) = bench.store.journal.orders(0)
    tokens = [attempt.token.removeprefix(record.id) for attempt in record.attempts]
    assert (tokens, record.closed) == (["-0", "-0-1"], True)


def test_a_set_of_which_one_offer_fails_is_not_replaced_by_the_next(bench: Bench) -> None:
    bench.cloud.faults.out_of_capacity.add("m5.large")
    bench.act(LAUNCH)
    assert (made(bench), orders(bench)) == (["m5.xlarge"], [("m5.xlarge", OrderState.ACCEPTED, 1)])


def test_the_next_set_is_ordered_if_one_gave_nothing(bench: Bench) -> None:
    bench.cloud.faults.out_of_capacity |= {"m5.large", "m5.xlarge"}
    bench.act(LAUNCH)
    assert (made(bench), orders(bench)) == (["m5.2xlarge"], [("m5.2xlarge", OrderState.ACCEPTED, 1)])


def test_with_no_set_left_the_order_has_failed(bench: Bench) -> None:
    bench.cloud.faults.quota = 0
    (outcome,) = bench.act(LAUNCH)
    assert (outcome.result, orders(bench)) == (Result.FAILED, [("m5.2xlarge", OrderState.FAILED, 1)])


def lose_second_answer(bench: Bench) -> None:
    answers = iter((None, "lost"))
    launch = bench.provider.launch

    def losing(order: object) -> object:
        bench.cloud.faults.lost_answers = int(next(answers, None) == "lost")
        return launch(order)  # type: ignore[arg-type]

    bench.provider.launch = losing  # type: ignore[assignment, method-assign]


def test_an_offer_without_an_answer_keeps_the_order_open_and_is_repeated(bench: Bench) -> None:
    lose_second_answer(bench)
    bench.act(LAUNCH)
    between = orders(bench)
    bench.resume(6.0)
    assert between == [("m5.large", OrderState.ACCEPTED, 2), ("m5.xlarge", OrderState.SENT, 1)]
    assert (made(bench), orders(bench)[1]) == (
        ["m5.large", "m5.large", "m5.xlarge"],
        ("m5.xlarge", OrderState.ACCEPTED, 1),
    )


def test_a_refused_offer_is_not_coming_while_the_rest_of_its_set_is_requested(bench: Bench) -> None:
    bench.cloud.faults.out_of_capacity.add("m5.large")
    lose_second_answer(bench)
    bench.act(LAUNCH)
    assert orders(bench) == [("m5.xlarge", OrderState.SENT, 1)]


def test_a_set_whose_process_died_is_completed_by_the_next_process(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1  # of the first offer: its machines exist, and the second was never requested
    bench.act(LAUNCH)
    bench.restart()
    bench.resume(6.0)
    bench.resume(6.0)
    assert (made(bench), len(bench.store.journal.orders(bench.now))) == (["m5.large", "m5.large", "m5.xlarge"], 0)


def test_a_set_that_is_given_up_keeps_its_machines(bench: Bench) -> None:
    bench.act(LAUNCH)
    bench.store.database.execute("UPDATE orders SET closed_at = NULL")
    bench.store.database.execute("DELETE FROM attempts WHERE offer = 1")
    bench.resume(GRACE)
    assert orders(bench) == [("m5.large", OrderState.ACCEPTED, 2)]


def test_workers_of_one_offer_do_not_count_for_another(bench: Bench) -> None:
    bench.cloud.faults.lost_answers = 1
    bench.act(LAUNCH)
    (record,) = bench.store.journal.orders(0)
    fleet = Fleet(tuple(bench.listing()), (), record.as_orders())
    assert [(order.type.name, count) for order, count in outstanding(fleet, POLICY, bench.now)] == [("m5.xlarge", 1)]


def test_outstanding_workers_of_one_set_have_unique_names(bench: Bench) -> None:
    bench.store.accept(Plan((LAUNCH,), Memory()), pass_number=1, at=bench.now)
    (record,) = bench.store.journal.orders(0)
    coming = outstanding(Fleet((), (), record.as_orders()), POLICY, bench.now)
    assert [(order.type.name, len(names)) for order, names in named(coming)] == [("m5.large", 2), ("m5.xlarge", 1)]
    assert len({name for _, names in named(coming) for name in names}) == 3


def test_accepted_offers_of_a_set_count_together(bench: Bench) -> None:
    bench.act(LAUNCH)
    (record,) = bench.store.journal.orders(0)
    (together,) = whole(record.as_orders()).values()
    (event,) = brought([Event(bench.now, 3, "execute")], record.as_orders())
    assert (len(together.ids), event.launched) == (3, 3)


def test_each_created_node_belongs_to_one_offer_of_the_set(bench: Bench) -> None:
    bench.act(replace(LAUNCH, nodes=("n1", "n2", "n3")))
    (record,) = bench.store.journal.orders(0)
    assert [order.nodes for order in record.as_orders()] == [("n1", "n2"), ("n3",)]


def test_limits_count_the_largest_of_the_sets() -> None:
    most = most_of(LAUNCH)
    price = sum((offer.price_per_hour or 0.0) * offer.count for offer in MIX.offers)
    assert (most.workers, most.cores, most.price_per_hour) == (3, 8, price)


def test_a_set_with_an_unknown_price_has_no_price() -> None:
    unpriced = Offer((replace(BUCKETS["m5.xlarge"], price_per_hour=None),), 1)
    assert most_of(Launch("execute", (replace(MIX, besides=(unpriced,)),), REASON)).price_per_hour is None


def test_json_has_the_keys_of_the_first_offer_and_the_others_besides() -> None:
    first, second = action_part(LAUNCH)["candidates"]
    assert (first["instance_type"], first["count"], [each["instance_type"] for each in first["besides"]]) == (
        "m5.large",
        2,
        ["m5.xlarge"],
    )
    assert (second["instance_type"], second["besides"]) == ("m5.2xlarge", [])


def test_the_sentence_names_all_of_the_first_set() -> None:
    assert "launching 2 m5.large and 1 m5.xlarge" in sentence(plan(LAUNCH))


ALL_OF_IT = "2 m5.large and 1 m5.xlarge"


def test_explain_names_all_of_the_set_of_a_launch_to_come_and_of_one_that_was_made(bench: Bench) -> None:
    bench.act(LAUNCH)
    past = Past(Explanation(bench.now, waiting()), bench.store.journal.orders(0))
    explained = explain_past(12, past, ())
    assert explained is not None
    explained["launches"] = [action_part(LAUNCH)]
    lines = "\n".join(job_lines(explained))
    assert f"{ALL_OF_IT} of execute: " in lines
    assert f"launch: {ALL_OF_IT} for execute" in lines


def test_an_order_that_waits_for_the_second_offer_of_its_set_is_explained_by_that_set(bench: Bench) -> None:
    bench.act(LAUNCH)
    bench.store.database.execute("DELETE FROM attempts WHERE offer = 1")
    past = Past(Explanation(bench.now, waiting()), bench.store.journal.orders(0))
    explained = explain_past(12, past, ())
    assert explained is not None
    assert workers_of(explained["launched"][0]) == ALL_OF_IT


def test_plan_shows_all_of_the_set_and_its_price_in_all(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(document(a_snapshot(), plan(LAUNCH), {}))
    price = sum((offer.price_per_hour or 0.0) * offer.count for offer in MIX.offers)
    assert f"{ALL_OF_IT} (execute, {price:.3f} USD an hour in all)" in capsys.readouterr().out


@pytest.mark.parametrize("owner", (None, "ann"))
def test_decisions_name_all_of_the_set_also_to_one_owner(bench: Bench, owner: str | None) -> None:
    bench.store.history.add_pass(1, bench.now, "pass 1", {"actions": [action_part(LAUNCH)]})
    found = find_decisions(bench.store.history, {}, bench.now, owner)
    assert any(line.startswith(f"  launch {ALL_OF_IT}: ") for line in decision_lines(found))
