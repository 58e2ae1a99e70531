"""What a comparison says in words: which policy it puts forward, and which limits were reached."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autoscaler.commands._simulated import simulated_alike
from autoscaler.core.policy import Limits, Policy
from autoscaler.simulation.baselines import ORACLE
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.comparison import remarks, sentences
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.results import Document
from autoscaler.simulation.tables import csv_text
from autoscaler.simulation.workload import LOCAL, Workload
from tests.simulation.playing import a_policy, a_rule, a_simulation, buckets, jobs_of


@pytest.fixture(scope="module")
def played() -> Document:
    return try_policy(Candidate("played", a_policy()), Workload("test", jobs_of(4)), Conditions(buckets()))


def said(played: Document, **policies: tuple[float, float]) -> str:
    """By name of the policy its price and mean wait."""
    documents = [
        {**played, "policy": name, "rule": ORACLE if name == ORACLE else None, "price": price}
        | {"wait_s": {**played["wait_s"], "mean": wait}}
        for name, (price, wait) in policies.items()
    ]
    return " ".join(sentences(documents, ["one"]))


def test_a_policy_that_is_cheaper_and_no_slower_is_put_forward(played: Document) -> None:
    text = said(played, today=(100.0, 60.0), slow=(80.0, 600.0), better=(90.0, 60.9))
    assert "better would have cost 10.0% less than today" in text
    assert "slow" not in text


def test_a_lower_price_for_longer_waits_is_told_as_such(played: Document) -> None:
    text = said(played, today=(100.0, 108.0), slow=(89.4, 1_200.0))
    assert "slow would have cost 10.6% less than today" in text
    assert "but a task would have waited 20m on average instead of 1m48s" in text
    assert "Nothing here costs less without longer waits." in text
    assert "without longer waits" not in said(played, today=(100.0, 108.0), dear=(120.0, 1_200.0))


def test_a_price_within_half_a_percent_is_told_as_the_same(played: Document) -> None:
    text = said(played, today=(100.0, 108.0), alike=(99.7, 60.0))
    assert "alike would have cost about as much as today (99.70 USD instead of 100.00 USD), and a task would" in text
    assert "Most of the difference" not in text
    assert "Most of the difference" in said(played, today=(100.0, 108.0), other=(99.0, 60.0))


def test_csv_has_no_more_digits_than_say_anything(played: Document) -> None:
    head, row = csv_text([{**played, "price": 1.23456789, "price_ratio": 2.0 / 3.0}]).splitlines()
    of_row = dict(zip(head.split(","), row.split(","), strict=True))
    assert (of_row["price"], of_row["price_ratio"]) == ("1.2346", "0.6667")
    assert all(len(value.partition(".")[2]) <= 4 for value in of_row.values())


def test_what_nobody_can_set_is_not_put_forward(played: Document) -> None:
    assert "oracle" not in said(played, today=(100.0, 60.0), oracle=(50.0, 60.0), better=(90.0, 60.0))
    assert said(played, oracle=(50.0, 60.0), today=(100.0, 60.0)) == ""


def limited(policy: Policy, rule: str = "", count: int = 4) -> tuple[Measures, str]:
    """A run of tasks that fill a worker each, and its remarks."""
    jobs = jobs_of(count, slots=2, pe=LOCAL, seconds=3_600.0)
    decider = a_rule(rule, policy, 2) if rule else None
    run = a_simulation(jobs, policy, decider=decider)
    document = try_policy(Candidate("x", policy, rule), Workload("test", jobs), Conditions(buckets()))
    return run.run(), " ".join(remarks([document]))


@pytest.mark.parametrize(
    ("rule", "setting", "limits"),
    (
        ("one-per-job", "CP_CAP_AUTOSCALE_WORKERS", Limits(max_workers=2)),
        ("", "CP_CAP_AUTOSCALE_WORKERS", Limits(max_workers=2)),
        ("", "CP_CAP_AUTOSCALE_MAX_CORES", Limits(max_workers=20, max_cores=4)),
        ("", "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR", Limits(max_workers=20, max_price_per_hour=0.2)),
    ),
)
def test_a_limit_that_kept_tasks_waiting_is_told(rule: str, setting: str, limits: Limits) -> None:
    policy = a_policy(scale_up_batch=10)
    policy = replace(policy, node_arrays=(replace(policy.node_arrays[0], limits=limits),))
    measures, text = limited(policy, rule)
    (seconds,) = measures.limited.values()
    # Two tasks start at once, and two after them: from soon after the submission until then the limit holds.
    assert seconds == pytest.approx(max(measures.waits), abs=90.0)
    assert re.search(rf"x: tasks waited at the limit {setting} for 1h\d+m", text)


def test_no_limit_is_told_where_none_was_reached() -> None:
    measures, text = limited(a_policy(scale_up_batch=10))
    assert not measures.limited
    assert text == ""


def test_settings_that_are_simulated_as_others_are_named() -> None:
    policy = a_policy()
    other = replace(policy, job_context=not policy.job_context)
    longer = a_policy(idle_timeout=900.0)
    candidates = [Candidate(name, each) for name, each in (("a", policy), ("b", other), ("c", longer))]
    assert simulated_alike(candidates) == ["b is simulated as a: nothing that matters here is set otherwise."]
    assert simulated_alike([candidates[0], Candidate("oracle", policy, ORACLE)]) == []
