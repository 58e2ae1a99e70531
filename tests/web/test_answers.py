"""Answers of the running service: who gets them, which pass they are of, and what they cost."""

from __future__ import annotations

import contextlib
import csv
import grp
import io
import json
import os
import pwd
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest

from autoscaler import answer_client
from autoscaler.answer_client import ServiceAddress, ask
from autoscaler.api import answers, deadlines, dependencies, local_users
from autoscaler.api.answers import BURST, KEPT, OF_STORE, Answers, Asker, Line, Turns
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import SOCKET
from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.local_socket import served_locally
from autoscaler.api.relayed_answers import RelayedAnswers
from autoscaler.api.request_service import RequestService
from autoscaler.core.actions import Launch
from autoscaler.core.cost.shares import Payer
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.engine.record import read_record
from autoscaler.errors import GridEngineNotObservable, NotFound
from autoscaler.report import cost
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.store.accounting_index import AccountingIndex, Found
from autoscaler.store.store import Store
from autoscaler.store.usages import Run, RunKey
from tests.cases.whole import whole
from tests.core.building import a_host, a_job, a_snapshot
from tests.sge.test_job_ends import line
from tests.web.as_user import call_as, python_as
from tests.web.served import until

USER, OTHER = "daemon", "nobody"
NOTHING = '{"arrays": []}'
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")


@dataclass
class Loop:
    """The state that the loop publishes."""

    seen: tuple[ObservedPlan, int] | None = None
    unobserved: str = ""
    quiet_s: float = 0.0

    def observe(self, record: Path, number: int = 7) -> ObservedPlan:
        snapshot = read_record(record)
        seen = ObservedPlan(snapshot, plan(snapshot), {}, None)
        self.seen = seen, number
        return seen


@dataclass
class World:
    path: Path
    loop: Loop
    answers: Answers
    store: Store
    managers: list[str]
    asked_for_managers: list[int]

    def ask(self, question: str, **query: str) -> dict[str, Any]:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return ask(ServiceAddress(str(self.path)), f"{question}?{words}")


@contextmanager
def answering_service(
    group: int | None = None, managers_of: Callable[[], list[str]] | None = None, **known: Any
) -> Iterator[World]:
    """A service on a socket that every user can reach, whose last pass observed eight waiting jobs without an owner."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # the temporary folders of pytest are not readable by others
        folder = Path(made)
        folder.chmod(0o755)
        store = Store.open(folder / "cell.sqlite")
        accounting = folder / "accounting"
        accounting.write_text("".join(line(job) for job in range(900, 910)))
        loop, managers, asked = Loop(), list[str](), list[int]()

        def of_grid_engine() -> list[str]:
            asked.append(1)
            return managers

        answers = Answers(
            loop,
            store,
            lambda: {"schema": 1, "sentence": "all is well"},
            AccountingIndex.open(None, accounting),
            **known,
        )
        service = RequestService(store, lambda: ("execute",))
        local = LocalRoles(group, managers_of or of_grid_engine)
        with served_locally(lambda: make_app(Api(requests=service, answers=answers, local=local)), folder / "a.sock"):
            yield World(folder / "a.sock", loop, answers, store, managers, asked)
        answers.close()
        store.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    with answering_service() as made:
        made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        yield made


@pytest.fixture
def served(shared: World) -> World:
    shared.answers.turns = Turns()
    return shared


def first_job(seen: ObservedPlan) -> str:
    """The number of the first waiting job."""
    name: str = seen.jobs()["jobs"][0]["jobs"][0]
    return name.partition(".")[0]


def owned_by(seen: ObservedPlan, owner: str) -> ObservedPlan:
    """The same, with all waiting jobs owned by this user and nothing running."""
    cluster = seen.snapshot.cluster
    job_categories = tuple(
        replace(category, ask=replace(category.ask, owner=owner)) for category in cluster.job_categories
    )
    return replace(
        seen, snapshot=replace(seen.snapshot, cluster=replace(cluster, job_categories=job_categories, hosts=()))
    )


def test_an_answer_states_its_pass_and_age(served: World) -> None:
    answer = served.ask("jobs")
    seen = served.loop.seen
    assert seen is not None
    assert (answer["answers"], answer["pass"], answer["trouble"], answer["age_s"] > 0) == (1, 7, "", True)
    assert answer["document"] == json.loads(json.dumps(seen[0].jobs()))


def test_an_answer_states_why_there_is_no_newer_observation(served: World) -> None:
    served.loop.unobserved = "qstat did not answer"
    try:
        assert served.ask("workers")["trouble"] == "qstat did not answer"
    finally:
        served.loop.unobserved = ""


def test_answers_equal_those_of_a_command_that_observes_itself(served: World) -> None:
    assert served.loop.seen is not None
    seen = served.loop.seen[0]
    assert served.ask("workers")["document"] == json.loads(json.dumps(seen.workers()))
    job = first_job(seen)
    assert served.ask("explain", subject=job)["document"]["waiting"][0]["reason"]["code"]
    (block,) = served.ask("explain", subject=job, form="text")["blocks"]
    assert block[3][0].startswith(f"job {job}")


def test_an_ended_job_is_found_in_accounting(served: World) -> None:
    document = served.ask("explain", subject="905")["document"]
    assert (document["state"], [end["host"] for end in document["ended"]]) == ("ended", ["w1"])


def test_explain_shows_what_an_ended_job_cost(served: World) -> None:
    store, began = served.store, 1_700_000_000.0
    worker = Worker(
        "i-9", InstanceType("m5", "m5", 4, 1), "execute", MachineState.RUNNING, began, name="w9", price_per_hour=2.0
    )
    store.history.note_workers([worker], ["i-9"], began, {"i-9": 4}, "EUR")
    store.usages.account([Run(RunKey("i-9", 906, 0), Payer("ann"), 2, began, began + 3600)])
    cost = served.ask("explain", subject="906")["document"]["cost"]
    assert (cost["estimate"], cost["currencies"]) == (True, [{"currency": "EUR", "cost": 1.0, "slot_h": 2.0}])
    (block,) = served.ask("explain", subject="906", form="text")["blocks"]
    assert "it cost 1.00 EUR, for 2.00 slot hours on 1 worker (an estimate)" in block[3]


def test_other_callers_are_answered_while_the_cost_of_many_jobs_is_computed(
    served: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, end = threading.Event(), threading.Event()
    made = cost.cost_report

    def slowly(*given: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return made(*given)

    monkeypatch.setattr(cost, "cost_report", slowly)
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(served.ask("cost")))
    asking.start()
    try:
        assert begun.wait(60)
        assert served.ask("workers")["document"]["workers"] is not None
        assert asking.is_alive()
    finally:
        end.set()
        asking.join(60)
    assert found[0]["document"]["by"] == "user"


def test_a_client_waits_longer_for_cost_than_for_status() -> None:
    assert answer_client._timeout("/answers/v1/cost?by=user") > answer_client._timeout("/answers/v1/status")


def test_an_unknown_job_or_host_is_reported_as_such(served: World) -> None:
    with pytest.raises(NotFound, match="job 1000000 neither waits nor runs"):
        served.ask("explain", subject="1000000")
    with pytest.raises(NotFound, match="Grid Engine has no host"):
        served.ask("explain", subject="nowhere")


def test_a_job_submitted_after_the_last_pass_is_no_error(served: World) -> None:
    assert served.loop.seen is not None
    newest = max(served.loop.seen[0].owners())
    document = served.ask("explain", subject=str(newest + 1))["document"]
    assert (document["state"], document["waiting"]) == ("unseen", [])
    (block,) = served.ask("explain", subject=str(newest + 1), form="text")["blocks"]
    assert block[3][0].startswith(f"job {newest + 1}: submitted after the last pass")
    assert "the next one, in about" in block[3][0]


def test_with_owner_only_details_a_job_submitted_after_the_last_pass_is_no_error() -> None:
    with answering_service() as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.answers.owners_only = True
        ask = {"subject": str(max(seen.owners()) + 1)}
        assert made.answers.answer("explain", ask, Asker("ann", lambda: False)).status == 200
        assert made.answers.answer("explain", {"subject": "1000000"}, Asker("ann", lambda: False)).status != 200


@pytest.mark.parametrize("owners_only", (False, True))
def test_grid_engine_itself_is_asked_about_a_job_that_no_pass_has_seen(owners_only: bool) -> None:
    owners = {1_000_000: "ann"}
    with answering_service(owner_now=owners.get, owners_only=owners_only) as made:
        newest = max(made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores")).owners())

        def asked(job: int, who: str, **form: str) -> tuple[int, str]:
            reply = made.answers.answer("explain", {"subject": str(job), **form}, Asker(who, lambda: False))
            return reply.status, b"".join(reply.parts).decode()

        status, told = asked(1_000_000, "ann", form="text")
        assert (status, "job 1000000: submitted after the last pass; the next one" in told) == (200, True)
        assert '"state": "unseen"' in asked(1_000_000, "ann")[1]
        assert asked(1_000_000, "eve")[0] == (403 if owners_only else 200)
        assert asked(newest + 1, "ann")[0] == (403 if owners_only else 404)


def test_the_number_decides_where_grid_engine_does_not_answer_about_a_job() -> None:
    def unknown(job: int) -> str | None:
        raise GridEngineNotObservable("qstat failed")

    with answering_service(owner_now=unknown) as made:
        newest = max(made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores")).owners())
        document = made.ask("explain", subject=str(newest + 1))["document"]
        assert (document["state"], document["by_number"]) == ("unseen", True)


def test_grid_engine_is_not_asked_about_jobs_that_passes_have_seen() -> None:
    asked: list[int] = []
    with answering_service(owner_now=asked.append) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.store.history.explain(seen.plan.job_categories, seen.snapshot.now)
        job = first_job(seen)
        assert made.ask("explain", subject=job)["document"]["state"] == "waiting"
        made.loop.observe(whole("shrink/an-idle-worker-is-disabled-first"))
        assert made.ask("explain", subject=job)["document"]["state"] == "ended"
        assert asked == []
        with pytest.raises(NotFound):
            made.ask("explain", subject="1000000")
        assert asked == [1_000_000]


def test_no_launch_for_others_is_shown_of_a_job_that_did_not_count() -> None:
    with answering_service() as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        (row, *_), now = seen.plan.job_categories, seen.snapshot.now
        (launch, *_) = (action for action in seen.plan.actions if isinstance(action, Launch))
        held = replace(row, jobs=(502,), tasks=("",), counted=False, reason=because(Code.HELD, state="hqw"))
        made.store.history.explain([replace(row, jobs=(501,), tasks=("",)), held], now)
        made.store.journal.begin([launch], pass_number=7, at=now, new_id=lambda: "order-1")
        shown = [made.ask("explain", subject=str(job))["document"]["launched"] for job in (501, 502)]
    assert [len(each) for each in shown] == [1, 0]


def test_an_answer_of_the_store_alone_states_when_that_was_written_last() -> None:
    with answering_service(stored=True) as left:
        left.store.memory.save(Memory(), 1_700_000_000.0)
        answer = left.ask("status")
    written = datetime.fromisoformat(answer["as_of"]).timestamp()
    assert (answer["stored"], written, answer["age_s"] > 0) == (True, 1_700_000_000.0, True)


def test_nobody_waits_until_the_whole_accounting_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = Event(), Event()

    def slow(index: AccountingIndex, most: int) -> int:
        begun.set()
        return int(not over.wait(60))

    monkeypatch.setattr(answers, "PAUSE", 0.0)
    monkeypatch.setattr(AccountingIndex, "find", lambda *given: Found((), 5_000_000))
    monkeypatch.setattr(AccountingIndex, "advance", slow)
    with answering_service() as made:
        made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        for _ in range(2):
            with pytest.raises(NotFound, match="not indexed yet"):
                made.ask("explain", subject="1")
        assert begun.wait(60)
        over.set()


def test_history_and_status_are_answered_before_the_first_pass_and_jobs_are_not() -> None:
    with answering_service() as fresh:
        assert fresh.ask("status")["as_of"] is None
        assert "periods" in fresh.ask("history", since="60")["document"]
        with pytest.raises(Exception, match="no pass has been made yet"):
            fresh.ask("jobs")


@pytest.mark.parametrize(
    "query",
    (
        {"since": "99999999999d"},
        {"since": "9" * 40},
        {"since": "0001-01-01T00:00+23:59"},
        {"since": "2026-01-01", "until": "9999-12-31T23:59-23:59"},
        {"month": "0001-01"},
        {"month": "9999-11"},
    ),
)
@pytest.mark.parametrize("form", ("document", "text", "csv"))
def test_cost_refuses_a_time_outside_the_calendar_with_a_message(query: dict[str, str], form: str) -> None:
    with answering_service() as made:
        reply = made.answers.answer("cost", {**query, "form": form}, Asker("eve", lambda: False))
    assert reply.status == 400
    assert "only times from 1970 to 9998" in json.loads(b"".join(reply.parts))["error"]


def test_an_account_never_reads_as_a_formula_or_a_summary_row() -> None:
    formulas = ["=2+5", "@SUM(1)", "-2+3", "+1", "\uff1d1", "\u200b=1", "\ufeff+1", "\xad@a", "\ufe631", "\u22121"]
    accounts = [*formulas, "(idle)", "(none)", "a\x1b[31mb", "plain"]
    with answering_service() as made:
        began = made.answers.clock() - 7200
        kind = InstanceType("m5.2xlarge", "m5", 8, 16 << 30)
        worker = Worker("i-1", kind, "execute", MachineState.RUNNING, began, name="w1", price_per_hour=2.0)
        made.store.history.note_workers([worker], ["i-1"], began, {"i-1": 9}, "USD")
        made.store.usages.account(
            Run(RunKey("i-1", number, 0), Payer("eve", account=name, queue="main.q"), 1, began, began + 3600)
            for number, name in enumerate(accounts, 1)
        )
        text = made.ask("cost", by="account", since="1d", form="csv")["document"]
        keys = [row["account"] for row in csv.DictReader(io.StringIO(text))]
        shown = {row["key"] for row in cost_rows(made.ask("cost", by="account", since="1d"))}
    assert sorted(keys) == sorted(
        [*(f"'{formula}" for formula in formulas), '"(idle)"', '"(none)"', "a\\x1b[31mb", "plain", "(idle)"]
    )
    assert "=2+5" in shown
    assert shown & {"(idle)", "(none)"} == set()


def test_with_owner_only_details_cost_shows_the_jobs_of_others_as_one_row() -> None:
    with answering_service() as made:
        began = made.answers.clock() - 7200
        kind = InstanceType("m5.xlarge", "m5", 4, 16 << 30)
        worker = Worker("i-1", kind, "execute", MachineState.RUNNING, began, name="w1", price_per_hour=2.0)
        made.store.history.note_workers([worker], ["i-1"], began, {}, "USD")
        made.store.usages.account(
            Run(RunKey("i-1", number, 0), Payer(user, queue="main.q"), 2, began, began + 3600)
            for number, user in ((1, "ann"), (2, "ben"))
        )
        assert {row["key"] for row in cost_rows(made.ask("cost", since="1d"))} == {"ann", "ben"}
        made.answers.owners_only = True
        asked = {"by": "job", "since": "1d"}
        nobody, ann = (Asker(name, lambda: False) for name in ("eve", "ann"))
        manager = Asker("root", lambda: True)
        results = [
            {row["key"] for row in cost_rows(json.loads(b"".join(made.answers.answer("cost", asked, by).parts)))}
            for by in (nobody, ann, manager)
        ]
        assert results == [{"(others)"}, {"1", "(others)"}, {"1", "2"}]


def cost_rows(text: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = text["document"]["currencies"][0]["rows"]
    return rows


@pytest.mark.parametrize(
    ("question", "status"),
    (
        ("history?since=nan", 400),
        ("history?since=1e99", 400),
        ("history?step=0", 400),
        ("history?step=1e12", 400),
        ("history?step=1e308", 400),
        ("explain?subject=9223372036854775808", 404),
        ("explain?subject=9999999999999999999", 404),
        ("explain?subject=1.9999999999999999999", 404),
        ("history?array=none", 404),
        ("events?job=x", 400),
        ("events?job=9999999999999999999", 400),
        ("events?since=-1", 400),
        ("events?after=1e9", 400),
        ("events?last=9999999999999999999", 400),
        ("passes?last=many", 400),
        ("cost?by=colour", 400),
        ("cost?month=2026-13", 400),
        ("cost?since=tomorrow", 400),
        ("cost?month=2026-11&until=1d", 400),
        ("jobs?form=csv", 400),
        ("jobs?wrong=1", 400),
        ("explain", 400),
        ("nothing", 404),
    ),
)
def test_a_wrong_question_is_refused_with_its_status_and_an_error(served: World, question: str, status: int) -> None:
    answer = asked_here(served, f"/answers/v1/{question}")
    assert answer[0] == status
    assert answer[1]["error"]


def asked_here(served: World, target: str) -> tuple[int, dict[str, Any]]:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(served.path))  # a socket with a timeout would not wait for a place in a full queue
        made.settimeout(120)
        made.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        result = b"".join(iter(lambda: made.recv(65536), b""))
    head, _, body = result.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


@as_root
@pytest.mark.parametrize(
    "question", ("status", "jobs", "queue", "workers", "explain?subject=905", "history", "events", "passes", "cost")
)
def test_every_local_user_may_read(served: World, question: str) -> None:
    assert call_as(USER, served.path, f"/answers/v1/{question}")[0] == 200


@as_root
def test_an_ordinary_user_may_only_read(served: World) -> None:
    status, answer = call_as(USER, served.path, "/autoscale", method="POST", body=NOTHING)
    assert (status, answer["error"]) == (403, f"{USER} is a reader: this takes a caller")
    assert call_as(USER, served.path, "/requests/standard", method="DELETE")[0] == 403


@as_root
def test_a_grid_engine_manager_may_act_and_the_manager_list_is_read_once() -> None:
    with answering_service() as made:
        made.managers.append(USER)
        for _ in range(3):
            assert call_as(USER, made.path, "/autoscale", method="POST", body=NOTHING)[0] == 200
        assert call_as(OTHER, made.path, "/autoscale", method="POST", body=NOTHING)[0] == 403
        assert len(made.asked_for_managers) == 1


@as_root
def test_members_of_the_socket_group_may_act() -> None:
    gid = grp.getgrnam("games").gr_gid
    with answering_service(gid) as made:
        assert call_as(USER, made.path, "/autoscale", method="POST", body=NOTHING, groups=(gid,))[0] == 200
        assert call_as(USER, made.path, "/autoscale", method="POST", body=NOTHING)[0] == 403


@as_root
def test_with_owner_only_details_others_do_not_see_a_job() -> None:
    with answering_service(owners_only=True) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.loop.seen = owned_by(seen, USER), 8
        job = first_job(seen)
        there = len(seen.jobs()["jobs"])
        mine, others = (call_as(who, made.path, "/answers/v1/jobs")[1]["document"] for who in (USER, OTHER))
        assert ((len(mine["jobs"]), mine["not_shown"]), (len(others["jobs"]), others["not_shown"])) == (
            (there, 0),
            (0, there),
        )
        assert [call_as(who, made.path, f"/answers/v1/explain?subject={job}")[0] for who in (USER, OTHER, "root")] == [
            200,
            403,
            200,
        ]
        assert call_as(OTHER, made.path, "/answers/v1/explain?subject=905")[0] == 403  # of ann, and ended
        made.managers.append(OTHER)
        made.answers.turns = Turns()


@pytest.mark.parametrize("owners_only", (False, True), ids=("all", "owners"))
def test_an_answer_that_is_called_the_same_for_all_is_so(owners_only: bool) -> None:
    """The page shows it to whoever looks: a manager's answer must not be called that where owners see less."""
    with answering_service(owners_only=owners_only) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.loop.seen = owned_by(seen, USER), 8
        budgets = [{"owner": owner} for owner in ("the cell", f"user {USER}", f"user {OTHER}")]
        status = {"sentence": "", "troubles": [], "budgets": budgets}
        made.answers.status, made.answers.clock = (lambda: status), lambda: 1_800_000_000.0
        askers = (Asker("root", lambda: True), Asker(USER, lambda: False), Asker(OTHER, lambda: False))
        same = set[str]()
        for question in sorted(OF_STORE | KEPT | {"waiting"}):
            found = [json.loads(b"".join(made.answers.answer(question, {}, one).parts)) for one in askers]
            assert all("document" in each for each in found), found
            if any(each["for_all"] for each in found):
                same.add(question)
                assert found[0] == found[1] == found[2]
    assert same == ({"history"} if owners_only else (OF_STORE | KEPT) - {"events"})


def test_running_jobs_are_listed_if_asked_for_and_to_their_owners_only() -> None:
    with answering_service(owners_only=True) as made:
        snapshot = a_snapshot(a_job(1, owner=OTHER), a_host(used=2))
        made.loop.seen = ObservedPlan(snapshot, plan(snapshot), {}, None), 7

        def running(name: str, **query: str) -> Any:
            asker = Asker(name, lambda: name == "root")
            return json.loads(b"".join(made.answers.answer("jobs", query, asker).parts))["document"].get("running")

        assert running("root") is None
        assert [each["job"] for each in running("root", running="true")] == ["9000", "9001"]
        assert running("root") is None
        assert [each["job"] for each in running("ann", running="true")] == ["9000", "9001"]
        assert running(OTHER, running="true") == []


@as_root
def test_with_owner_only_details_others_do_not_see_what_an_owner_spent() -> None:
    with answering_service(owners_only=True) as made:
        answer = made.answers.status()
        owners = ("the cell", f"user {USER}", f"user {OTHER}", "project wind")
        one = {"budget": 9.0, "spent": 1.0, "level": 0, "action": "warn", "until": "2026-12-01T00:00:00+00:00"}
        budgets = [{"owner": owner, **one} for owner in owners]
        made.answers.status = lambda: {**answer, "troubles": [], "budgets": budgets}
        seen = {
            who: [each["owner"] for each in call_as(who, made.path, "/answers/v1/status")[1]["document"]["budgets"]]
            for who in ("root", USER, OTHER)
        }
        assert seen == {"root": list(owners), USER: list(owners[:2]), OTHER: [owners[0], owners[2]]}


@as_root
def test_a_header_does_not_let_a_user_pass_for_another() -> None:
    with answering_service(owners_only=True) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.loop.seen = owned_by(seen, USER), 8
        job = first_job(seen)
        target = f"/answers/v1/explain?subject={job}"
        assert call_as(OTHER, made.path, target, X_Asked_By=USER, X_Asked_Role="admin")[0] == 403
        assert call_as("root", made.path, target, X_Asked_By=USER, X_Asked_Role="reader")[0] == 200
        assert call_as("root", made.path, target, X_Asked_By=OTHER, X_Asked_Role="reader")[0] == 403


def test_a_server_without_a_loop_relays_questions_as_their_asker() -> None:
    with answering_service(owners_only=True) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.loop.seen = owned_by(seen, "ann"), 8
        relay = RelayedAnswers(lambda: str(made.path))
        asked = {"subject": first_job(seen)}
        ann, token = Asker("ann", lambda: False), Asker("token:site", lambda: False)
        admin = Asker("root", lambda: True)
        assert [relay.answer("explain", asked, who).status for who in (ann, token, admin)] == [200, 403, 200]
        assert relay.answer("explain", {"subject": "nowhere"}, admin).missing
        assert RelayedAnswers(lambda: "").answer("status", {}, admin).status == 503


@pytest.mark.parametrize("name", ("GRID\\ann", "ann@grid.example.org", "ann%5C", "a" * 80))
def test_a_server_without_a_loop_relays_user_names_unshortened(name: str) -> None:
    with answering_service(owners_only=True) as made:
        seen = made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        made.loop.seen = owned_by(seen, name), 8
        relay, asked = RelayedAnswers(lambda: str(made.path)), {"subject": first_job(seen)}
        askers = [Asker(each, lambda: False) for each in (name, name[:64] + "b")]
        assert [relay.answer("explain", asked, who).status for who in askers] == [200, 403]


def test_an_older_service_is_told_from_a_wrong_question() -> None:
    with answering_service() as made:
        made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        relay, admin = RelayedAnswers(lambda: str(made.path)), Asker("root", lambda: True)
        for question, query in (("future", {}), ("waiting", {"future": "1"})):
            answer = relay.answer(question, query, admin)
            assert (answer.status, b"earlier version" in b"".join(answer.parts)) == (501, True)
        assert relay.answer("waiting", {"first": "none"}, admin).status == 400
        assert relay.answer("explain", {"subject": "nowhere"}, admin).status == 404


def test_hosts_that_share_a_token_through_a_relay_are_rate_limited_separately() -> None:
    with answering_service() as made:
        made.answers.turns = Turns(lambda: 0.0)
        relay = RelayedAnswers(lambda: str(made.path))
        flood, calm = (Asker("token:site", lambda: False, address) for address in ("10.0.0.1", "10.0.0.2"))
        assert [relay.answer("status", {}, flood).status for _ in range(BURST + 1)][-1] == 429
        assert relay.answer("status", {}, calm).status == 200


def test_the_answers_of_a_pass_are_computed_once(served: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    jobs = ObservedPlan.jobs

    def counted(seen: ObservedPlan) -> dict[str, Any]:
        made.append(1)
        return jobs(seen)

    monkeypatch.setattr(ObservedPlan, "jobs", counted)
    served.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"), 8)
    with ThreadPoolExecutor(4) as many:
        answers = list(many.map(lambda _: served.ask("jobs")["document"], range(12)))
    assert (len(made), all(each == answers[0] for each in answers)) == (1, True)
    served.loop.observe(whole("eligibility/held-jobs-do-not-count"), 9)
    assert (served.ask("jobs")["pass"], len(made)) == (9, 2)
    served.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))


def test_a_user_who_asks_too_often_is_refused_and_others_are_answered(served: World) -> None:
    frozen = Turns(lambda: 0.0)
    served.answers.turns = frozen
    flood = Asker("flood", lambda: False)
    statuses = [served.answers.answer("status", {}, flood).status for _ in range(BURST + 3)]
    assert (statuses[: BURST // 2], statuses[-3:]) == ([200] * (BURST // 2), [429] * 3)
    assert served.answers.answer("status", {}, Asker("calm", lambda: False)).status == 200


@as_root
@pytest.mark.slow
def test_a_user_with_many_open_questions_leaves_room_for_others() -> None:
    """The socket is real, and so are both users; no answer is made before all requests were judged."""
    asked, judged = 20, Semaphore(0)
    with answering_service() as made, ThreadPoolExecutor(asked + 1) as many:
        made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        go = Event()
        made.answers.status = lambda: {"schema": 1, "sentence": f"{go.wait(60)}"}

        def flood(_: int) -> int:
            status = asked_here(made, "/answers/v1/status")[0]
            judged.release()
            return status

        floods = [many.submit(flood, number) for number in range(asked)]
        try:
            for _ in range(asked // 2):
                assert judged.acquire(timeout=60), "the questions of one asker may all wait"
            calm = many.submit(call_as, OTHER, made.path, "/answers/v1/workers")
            wait_for([calm], 3)  # refused at once, or in the queue
        finally:
            go.set()
        assert calm.result()[0] == 200
        assert {each.result() for each in floods} == {200, 429}


def test_a_token_leaves_room_for_others_and_for_each_of_its_hosts() -> None:
    line = Line()
    hosts = [Asker("token:site", lambda: False, f"10.0.0.{number}") for number in range(9)]
    taken = [[line.enter(host) is None for _ in range(6)].count(True) for host in hosts]
    assert (sum(taken), max(taken)) == (8, 4)
    assert line.enter(Asker("token:site", lambda: False, "10.0.0.10")) is not None
    assert line.enter(Asker("ann", lambda: False, "10.0.0.0")) is None
    line.leave(hosts[0])
    assert [line.enter(hosts[8]) is None, line.enter(hosts[8]) is None] == [True, False]


def test_an_ipv6_network_counts_as_one_place() -> None:
    one, other = (Asker("token:site", lambda: False, address) for address in ("2001:db8::1", "2001:db8::ffff:2"))
    assert one.place == other.place != Asker("token:site", lambda: False, "2001:db8:1::1").place


def test_a_user_who_asks_for_large_answers_may_ask_less_often() -> None:
    now = [0.0]
    turns = Turns(lambda: now[0])
    assert turns.take("large")
    turns.charge("large", 4.0)  # seconds of processor time
    assert (turns.take("large"), turns.take("small")) == (False, True)
    now[0] = 8.0
    assert turns.take("large")


@as_root
def test_silent_connections_of_a_user_leave_room_for_others(served: World) -> None:
    """Root's connections are not limited: it is the user who runs the service."""
    assert SOCKET.of_user is not None
    program = f"""
import socket, sys
held = []
for _ in range({SOCKET.of_user + 5}):
    one = socket.socket(socket.AF_UNIX); one.settimeout(60); one.connect({str(served.path)!r}); held.append(one)
reply = held[-1].recv(100)
sys.stdout.write(reply.decode().split(" ")[1])
"""
    done = python_as(USER, program)
    assert (done.stdout, call_as(OTHER, served.path, "/answers/v1/status")[0]) == (b"503", 200), done.stderr


_MANY_OF = """
import os, socket, sys
held = []
path, target, uids, each = sys.argv[1], sys.argv[2], range(*map(int, sys.argv[3:5])), int(sys.argv[5])
held_back = sys.argv[6] == "True"
for uid in uids:
    os.seteuid(uid)
    for _ in range(each):
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        one.settimeout(60)
        one.sendall(f"GET {target} HTTP/1.0\\r\\n".encode())
        if len(held) + 1 == len(uids) * each or not held_back:
            one.sendall(b"\\r\\n")
        held.append(one)
    os.seteuid(0)
print("there", flush=True)
print(held[-1].recv(100).decode().split(" ")[1] if sys.stdin.readline() == "read\\n" else "", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def many_of(
    path: Path, target: str, uids: range, each: int, *, held_back: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Open connections of processes with these uids, which ask and do not read. `held_back`: only the last one asks to
    the end of its question.
    """
    words = [str(path), target, str(uids.start), str(uids.stop), str(each), str(held_back)]
    command = ["/usr/bin/python3", "-I", "-S", "-c", _MANY_OF, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "there\n"
            yield program
        finally:
            program.stdin.close()


@as_root
@pytest.mark.parametrize("patience", (600.0, 0.0))
def test_connections_of_many_users_that_ask_and_do_not_read_leave_places(
    patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root has places of its own, and others get that of the client that has not read for longest."""
    monkeypatch.setattr(deadlines, "UNTAKEN_IF_FULL", patience, raising=False)
    with answering_service() as made:
        for number in range(100):
            made.store.history.add_pass(number, 1.0 + number, "x" * 5000, {})
        with many_of(made.path, "/answers/v1/passes?last=100", range(61001, 61009), 28):
            assert [asked_here(made, "/requests")[0] for _ in range(20)] == [200] * 20
            if not patience:
                assert until(lambda: call_as(OTHER, made.path, "/requests")[0] == 200)


@as_root
def test_uids_that_a_user_may_take_count_as_that_user(
    served: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "subuid").write_text(f"# comment\n{USER}:61000:1000\nnobody-known:1:2\n")
    monkeypatch.setattr(local_users, "_PEOPLE", local_users.People(tmp_path / "subuid"))
    assert SOCKET.of_user is not None
    with many_of(served.path, "/nothing", range(61001, 61001 + SOCKET.of_user + 2), 1, held_back=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("read\n")
        program.stdin.flush()
        assert program.stdout.readline() == "503\n"
    assert local_users.person_of(61001) == pwd.getpwnam(USER).pw_uid
    assert local_users.person_of(1) == 1


@as_root
@pytest.mark.parametrize("target", ("/metrics", "/requests", "/settings", "/nothing", "/answers/v1/status"))
def test_a_user_who_reads_too_often_is_refused_whatever_they_read(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "Turns", lambda: Turns(lambda: 0.0))
    with answering_service() as made:
        program = f"""
import socket
for _ in range({BURST + 5}):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(120); one.connect({str(made.path)!r}); one.sendall(b"GET {target} HTTP/1.0\\r\\n\\r\\n")
        print(one.makefile().readline().split(" ")[1])
"""
        statuses = python_as(USER, program).stdout.decode().split()
        if target == "/nothing":  # costs nothing, and shows nothing
            assert set(statuses) == {"404"}
            return
        assert (len(statuses), "429" in statuses[: BURST // 2], set(statuses[BURST:])) == (BURST + 5, False, {"429"})
        assert call_as(OTHER, made.path, "/requests")[0] == 200
        assert asked_here(made, "/requests")[0] == 200


def test_nobody_counts_as_manager_while_grid_engine_does_not_list_managers() -> None:
    def broken() -> list[str]:
        raise GridEngineNotObservable("qconf hangs")

    now = [0.0]
    roles = LocalRoles(None, broken, lambda: now[0])
    assert not roles.manages("ann")
    roles.managers = lambda: ["ann"]
    assert not roles.manages("ann")
    now[0] = 61.0
    assert roles.manages("ann")


def test_a_new_manager_counts_soon_and_a_known_one_is_checked_at_most_once_a_minute() -> None:
    asked, now, managers = 0, 0.0, ["ann"]

    def read() -> list[str]:
        nonlocal asked
        asked += 1
        return list(managers)

    roles = LocalRoles(None, read, lambda: now)
    assert (roles.manages("ann"), roles.manages("bob")) == (True, False)
    managers.append("bob")
    now = 4.0
    assert (roles.manages("bob"), asked) == (False, 1)
    now = 5.0
    assert (roles.manages("bob"), asked) == (True, 2)
    now = 64.0
    assert (roles.manages("ann"), roles.manages("bob"), asked) == (True, True, 2)
    managers.remove("ann")
    now = 65.0
    assert (roles.manages("ann"), asked) == (False, 3)


@as_root
def test_a_hanging_qmaster_delays_only_the_caller_whose_role_is_read() -> None:
    asked, go = Semaphore(0), Event()

    def hanging() -> list[str]:
        asked.release()
        go.wait(60)
        return []

    with answering_service(owners_only=True, managers_of=hanging) as made, ThreadPoolExecutor(1) as beside:
        made.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        first = beside.submit(call_as, OTHER, made.path, "/answers/v1/jobs")
        try:
            assert asked.acquire(timeout=60)
            assert made.ask("status")["document"]["sentence"] == "all is well"  # root is not limited
            status, answer = call_as(USER, made.path, "/answers/v1/jobs")
            assert (status, answer["document"]["jobs"], first.done()) == (200, [], False)
        finally:
            go.set()
        assert first.result()[0] == 200
