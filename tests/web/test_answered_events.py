"""Events, waiting jobs by reason, and the sentences of passes, as the running service answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.api.answers import Turns
from autoscaler.core.actions import Hold
from autoscaler.core.categories import category_key
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import KnownEvents
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan
from autoscaler.engine.record import read_record
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.passes import without_names
from autoscaler.report.sentence import sentence
from autoscaler.report.wording import text
from autoscaler.store.store import Store
from tests.cases.whole import HERE as CASES
from tests.cases.whole import whole
from tests.core.building import a_machine
from tests.store.test_store import LAUNCH, MEMORY, order_for
from tests.web.as_user import call_as
from tests.web.test_answers import OTHER, USER, World, answering_service, as_root, first_job, owned_by

WAITING = whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores")
NOW = 1_700_000_000.0


def happened(store: Store, *events: JobEvent) -> None:
    store.events.keep(PassEvents(KnownEvents(), events))


def an_event(kind: EventKind, jobs: str = "", owner: str = "", at: float = NOW, **given: object) -> JobEvent:
    count = 0 if not jobs else 1
    return JobEvent(kind, at, at, at, jobs, count=count, owner=owner, **given)  # type: ignore[arg-type]


@pytest.fixture
def served() -> Iterator[World]:
    with answering_service() as made:
        made.loop.observe(WAITING)
        happened(
            made.store,
            an_event(EventKind.SUBMITTED, "4-7", "ann"),
            an_event(EventKind.ORDERED, "4-9", order_id="o-1", message="2 m5.large of execute"),
            an_event(EventKind.JOINED, hosts=("w1",), worker_id="i-1", order_id="o-1", message="m5.large of execute"),
            an_event(EventKind.STARTED, "4", "ann", hosts=("w1",), queue="main.q"),
            an_event(EventKind.STARTED, "8", "bob", hosts=("w2",), queue="main.q"),
        )
        yield made


def kinds(made: World, **query: str) -> list[str]:
    return [one["kind"] for one in made.ask("events", **query)["document"]["events"]]


def test_events_are_filtered_by_job_and_host(served: World) -> None:
    assert kinds(served) == ["submitted", "ordered", "joined", "started", "started"]
    assert kinds(served, job="4") == ["submitted", "ordered", "joined", "started"]
    assert kinds(served, host="w2") == ["started"]
    assert kinds(served, host="i-1") == ["joined"]
    assert kinds(served, job="12345") == []


def test_only_events_after_the_given_id_are_sent(served: World) -> None:
    first = served.ask("events")["document"]["events"]
    assert kinds(served, after=str(first[2]["id"])) == ["started", "started"]
    assert kinds(served, after=str(first[-1]["id"])) == []
    assert kinds(served, last="1") == ["started"]


def test_events_since_a_duration_are_those_noticed_within_it(served: World) -> None:
    served.answers.clock = lambda: NOW + 100
    happened(served.store, an_event(EventKind.JOINED, at=NOW + 60, hosts=("w9",), worker_id="i-9", message="m5"))
    assert kinds(served, since="50") == ["joined"]
    assert len(kinds(served, since="200")) == 6
    assert kinds(served, since="50", job="4") == []


def test_text_shows_an_event_a_line_and_says_when_there_is_none(served: World) -> None:
    (block,) = served.ask("events", host="w2", form="text")["blocks"]
    assert block[3] == ["2023-11-14 22:13:20 UTC job 8 of bob started on main.q@w2"]
    (block,) = served.ask("events", host="none", form="text")["blocks"]
    assert block[3] == ["nothing of the kind happened in the last 30 days"]


@as_root
def test_with_owner_only_details_others_do_not_see_the_events_of_a_job() -> None:
    with answering_service(owners_only=True) as made:
        happened(
            made.store,
            an_event(EventKind.SUBMITTED, "4-7", USER),
            an_event(EventKind.SUBMITTED, "8", OTHER),
            an_event(EventKind.ORDERED, "4-8", order_id="o-1", message="2 m5.large of execute"),
            an_event(EventKind.JOINED, hosts=("w1",), worker_id="i-1", order_id="o-1", message="m5.large"),
            an_event(EventKind.FAILED, order_id="o-1", message="the account may start no m5.large"),
        )

        def seen_by(user: str, query: str = "") -> list[tuple[str, str]]:
            status, answer = call_as(user, made.path, f"/answers/v1/events{query}")
            assert status == 200
            return [(one["kind"], one["jobs"]) for one in answer["document"]["events"]]

        assert seen_by(USER) == [("submitted", "4-7"), ("ordered", ""), ("joined", "")]
        assert seen_by("root")[2] == ("ordered", "4-8")
        assert call_as(USER, made.path, "/answers/v1/events?job=8")[0] == 403
        assert seen_by(USER, "?job=5") == [("submitted", "4-7"), ("ordered", ""), ("joined", "")]
        happened(
            made.store, an_event(EventKind.ORDERED, "8", OTHER, project="wind", order_id="o-2", message="1 m5.large")
        )
        answer = call_as(USER, made.path, "/answers/v1/events?last=1")[1]["document"]["events"]
        assert [(one["kind"], one["owner"], one["project"]) for one in answer] == [("ordered", None, None)]
        assert "4-8" not in str(call_as(USER, made.path, "/answers/v1/events?job=5&form=text")[1])


def test_explain_job_shows_the_events_of_the_job(served: World) -> None:
    assert served.loop.seen is not None
    job = first_job(served.loop.seen[0])
    happened(served.store, an_event(EventKind.COUNTED, job, "ann", code="COUNTED"))
    document = served.ask("explain", subject=job)["document"]
    assert [one["kind"] for one in document["events"]] == ["counted"]
    (block,) = served.ask("explain", subject=job, form="text")["blocks"]
    assert f"  2023-11-14 22:13:20 UTC job {job} of ann counts as demand [COUNTED]" in block[3]


def test_explain_shows_a_job_known_only_from_events(served: World) -> None:
    document = served.ask("explain", subject="7")["document"]
    assert (document["state"], [one["kind"] for one in document["events"]]) == (
        "ended",
        ["submitted", "ordered", "joined"],
    )


def test_queue_counts_each_waiting_task_once_under_its_reason(served: World) -> None:
    assert served.loop.seen is not None
    seen = served.loop.seen[0]
    document = served.ask("queue")["document"]
    assert sum(row["tasks"] for row in document["reasons"]) == seen.plan.waiting == document["waiting"] > 0
    row = document["reasons"][0]
    assert {one["job"] for one in row["first"]} <= {
        str(job) for category in seen.plan.job_categories for job in category.jobs
    }
    (block,) = served.ask("queue", form="text")["blocks"]
    assert f"[{row['cause']['code']}]" in block[2][0][-1]


@as_root
def test_with_owner_only_details_queue_shows_other_tasks_only_as_a_number() -> None:
    with answering_service(owners_only=True) as made:
        seen: ObservedPlan = made.loop.observe(WAITING)
        job_categories = tuple(seen.plan.job_categories)
        made.loop.seen = owned_by(seen, USER), 8
        tasks = sum(category.count for category in job_categories)
        _, answer = call_as(OTHER, made.path, "/answers/v1/queue")
        assert (answer["document"]["reasons"], answer["document"]["not_shown"]) == ([], tasks)


def test_passes_are_shown_oldest_first(served: World) -> None:
    for number in (3, 4, 5):
        served.store.history.add_pass(number, NOW + number, f"pass {number}: fine", {})
    document = served.ask("passes", last="2")["document"]
    assert [(one["pass"], one["sentence"]) for one in document["passes"]] == [(4, "pass 4: fine"), (5, "pass 5: fine")]


WHOLE = (
    "pass 8: 3 jobs wait; holding job 41.2-9:1 (no host has 900G), job 42 (no host has 900G); "
    "keeping w1 (job 43 runs); cannot read job 44; jobs 45, 46.3 ended with it; 80 % of the budget of user ann b spent"
    f"; nothing to do: w2: suspected to be broken; {text(because(Code.ONE_OWNER, owner='cy'))}"
)
WITHOUT_NAMES = (
    "pass 8: 3 jobs wait; holding a job (no host has 900G), a job (no host has 900G); keeping w1 (a job runs); "
    "cannot read a job; jobs ended with it; 80 % of the budget of a user spent"
    f"; nothing to do: w2: suspected to be broken; {text(because(Code.ONE_OWNER, owner='one owner'))}"
)


@as_root
def test_with_owner_only_details_pass_sentences_name_no_job_or_owner_of_others() -> None:
    with answering_service(owners_only=True) as made:
        made.store.history.add_pass(8, NOW, WHOLE, {})
        made.answers.status = lambda: {"sentence": WHOLE, "troubles": ["job 41 is odd"], "budgets": []}

        def seen_by(user: str) -> tuple[str, str, list[str]]:
            (one,) = call_as(user, made.path, "/answers/v1/passes")[1]["document"]["passes"]
            status = call_as(user, made.path, "/answers/v1/status")[1]["document"]
            return one["sentence"], status["sentence"], status["troubles"]

        assert seen_by(OTHER) == (WITHOUT_NAMES, WITHOUT_NAMES, ["a job is odd"])
        assert seen_by("root") == (WHOLE, WHOLE, ["job 41 is odd"])


@pytest.mark.parametrize("case", sorted(CASES.glob("*/*/expect.toml")), ids=lambda case: case.parent.name)
def test_a_pass_sentence_names_no_job_after_names_are_removed(case: Path) -> None:
    snapshot = read_record(whole(str(case.parent.relative_to(CASES))))
    assert not re.search(r"\bjobs? [0-9]", without_names(sentence(plan(snapshot), 8)))


@as_root
def test_with_owner_only_details_no_reason_names_another_owner() -> None:
    """This covers notes besides the jobs, and the reason why a worker is suspected."""
    budgets = [
        because(Code.BUDGET_LEVEL, owner=owner, level=100, budget=5.0, currency="USD")
        for owner in ("user ann", "project wind", f"user {OTHER}", "the cell")
    ]
    unread = because(Code.JOBS_NOT_READ, count=2, why="they have no state", jobs=("7654321", "7654322"))
    suspect = Reason(Code.SUSPECT, (), (because(Code.ONE_OWNER, owner="ann"),))
    with answering_service(owners_only=True) as made:
        seen = made.loop.observe(whole("shrink/a-held-job-keeps-nobody"))
        workers = (replace(seen.plan.workers[0], reason=suspect), *seen.plan.workers[1:])
        made.loop.seen = replace(seen, plan=replace(seen.plan, notes=(*budgets, unread), workers=workers)), 8
        questions = ("jobs", "workers", f"explain?subject={workers[0].name}", "explain?subject=12345")
        result = {
            user: "".join(
                json.dumps(call_as(user, made.path, f"/answers/v1/{each}{'&' if '?' in each else '?'}form={form}")[1])
                for each in questions
                for form in ("document", "text")
            )
            for user in (OTHER, "root")
        }
    secret = ("ann", "wind", "7654321")
    assert [word for word in secret if re.search(rf"\b{word}\b", result[OTHER])] == []
    assert [word for word in secret if re.search(rf"\b{word}\b", result["root"])] == list(secret)
    assert [of for of in (f"user {OTHER}", "the cell") if of not in result[OTHER]] == []


@as_root
def test_with_owner_only_details_explain_job_shows_nothing_of_other_jobs() -> None:
    """This covers jobs that are held with it, and launches for others' jobs of the same category."""
    with answering_service(owners_only=True) as made:
        seen = owned_by(made.loop.observe(WAITING), USER)
        mine = first_job(seen)
        held = Hold((mine, f"{mine}1.2"), because(Code.UNSATISFIABLE_LIMIT, most=5))
        made.loop.seen = replace(seen, plan=replace(seen.plan, actions=(held,))), 8
        verdict = next(category for category in seen.plan.job_categories if int(mine) in category.jobs)
        read = RequestReader(seen.snapshot.cluster, seen.snapshot.policy, frozenset()).read(verdict.ask)
        assert not isinstance(read, Reason)
        launch = replace(LAUNCH, assignment=((category_key(read.demand), 1),))
        made.store.history.explain(seen.plan.job_categories, NOW)
        made.store.accept(Plan((launch,), MEMORY), pass_number=7, at=NOW)

        def seen_by(user: str) -> tuple[list[list[str]], int]:
            status, explained = call_as(user, made.path, f"/answers/v1/explain?subject={mine}")
            assert status == 200
            return [action["jobs"] for action in explained["document"]["actions"]], len(
                explained["document"]["launched"]
            )

        assert seen_by("root") == ([[mine]], 1)
        assert seen_by(USER) == ([[mine]], 0)
        (order,) = made.store.journal.orders(0.0)
        happened(made.store, an_event(EventKind.ORDERED, mine, order_id=order.id, message="2 m5.large of execute"))
        assert seen_by(USER) == ([[mine]], 1)


def test_workers_have_phase_conditions_and_load(served: World) -> None:
    served.answers.turns = Turns()
    rows = served.ask("workers")["document"]["workers"]
    assert rows
    for row in rows:
        assert {"phase", "conditions", "load"} <= row.keys()
        assert (row["phase"] is None) == (row["id"] is None)


def test_a_machine_that_never_joined_and_is_gone_is_explained_with_its_failure(served: World) -> None:
    machine = a_machine("w9", state=MachineState.TERMINATED).worker
    served.store.history.note_workers([replace(machine, state=MachineState.RUNNING)], (), NOW)
    served.store.history.note_workers([machine], (), NOW + 60)
    happened(
        served.store,
        an_event(
            EventKind.FAILED, hosts=("w9",), worker_id="i-w9", code="boot", message="m5.large of execute: no disk"
        ),
    )
    document = served.ask("explain", subject="i-w9")["document"]
    assert [(event["kind"], event["code"]) for event in document["events"]] == [("failed", "boot")]
    (block,) = served.ask("explain", subject="i-w9", form="text")["blocks"]
    assert block[3][-1].endswith("worker w9 never joined: m5.large of execute: no disk")


def test_explain_order_shows_its_launch(served: World) -> None:
    store = served.store
    store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=NOW)
    (order,) = store.journal.orders(0.0)
    sent = replace(order_for(0), order_id=order.id)
    assert store.journal.send(sent, 0, NOW + 1)
    store.journal.answer(sent.token, ids=["i-1"], failures=(), message="", at=NOW + 2)
    happened(
        store,
        an_event(EventKind.ORDERED, "4-9", order_id=order.id, message="2 m5.large of execute"),
        an_event(EventKind.JOINED, hosts=("w1",), worker_id="i-1", order_id=order.id, message="m5.large of execute"),
        an_event(EventKind.JOINED, hosts=("w2",), worker_id="i-2", order_id="another", message="m5.large of execute"),
    )
    document = served.ask("explain", subject=order.id)["document"]
    assert (document["order"], [each["workers"] for each in document["attempts"]]) == (order.id, [["i-1"]])
    assert [event["worker_id"] for event in document["events"]] == [None, "i-1"]
    (block,) = served.ask("explain", subject=order.id, form="text")["blocks"]
    assert block[3][0].startswith(f"order {order.id} of 2023-11-14 22:13:20 UTC for execute")
    assert "asked for at 2023-11-14 22:13:21 UTC: gave 1 worker: i-1" in block[3][1]
    assert "worker w1 joined" in block[3][-1]
