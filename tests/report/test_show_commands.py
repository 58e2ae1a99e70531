"""The read-only commands: from a record folder, from the store, and with exit codes that programs can rely on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands._observation import read_only
from autoscaler.commands.main import main
from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Hold,
    Kill,
    ProbeHost,
    Question,
    Release,
    Reschedule,
)
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import Target
from autoscaler.errors import WriteRefused
from autoscaler.providers.fake import FakeProvider
from autoscaler.providers.interface import LaunchOrder
from autoscaler.report.blocks import print_blocks
from autoscaler.report.document import document
from autoscaler.report.schema import PlanDocument
from autoscaler.report.tables import print_plan, workers_blocks
from autoscaler.store.lock import CellKey, hold, lock_directory
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.cases.whole import HERE, whole
from tests.cell_files import cell_files
from tests.report.plans import kept, plan, snapshot, waiting

HYBRID = whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores")
HELD = whole("eligibility/held-jobs-do-not-count")
IDLE = whole("shrink/an-idle-worker-is-disabled-first")


@pytest.fixture(autouse=True)
def _no_grid_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands that need no Grid Engine must not find one."""
    for name in ("SGE_ROOT", "SGE_CELL", "CP_CAP_AUTOSCALE_CONFIG", "CP_CAP_AUTOSCALE_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CellKey:
    """The files of a cell whose qmaster does not exist, and a folder for its store."""
    for name, value in cell_files(tmp_path / "sge").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CP_CAP_AUTOSCALE_WORKDIR", str(tmp_path / "state"))
    return CellKey("master", 6444, "default", str((tmp_path / "sge").resolve()))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """The JSON that a command prints."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_plan_from_a_record_needs_no_grid_engine(capsys: pytest.CaptureFixture[str]) -> None:
    result = PlanDocument.model_validate(shown(capsys, "plan", "--from", HYBRID))
    assert [action.kind for action in result.actions] == ["launch"]


def test_plan_for_people_begins_with_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--from", str(HYBRID)])
    assert capsys.readouterr().out.startswith("plan: 8 jobs wait; launching 1 m5.2xlarge")


def test_plan_by_job_has_a_row_for_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    wide = whole("pe/fill-up-spreads-over-hosts")
    result = shown(capsys, "plan", "--jobs", "--from", wide)
    assert sorted(row["jobs"] for row in result["job_categories"]) == [["12"], ["13"], ["14"]]


def test_jobs_lists_waiting_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    result = shown(capsys, "jobs", "--from", HELD)
    assert [(row["jobs"], row["counted"], row["reason"]["code"]) for row in result["jobs"]] == [(["12"], False, "HELD")]


def test_workers_shows_machine_slots_and_price(capsys: pytest.CaptureFixture[str]) -> None:
    row = shown(capsys, "workers", "--from", IDLE)["workers"][0]
    assert (row["name"], row["instance_type"], row["slots"], row["used"], row["price_per_hour"]) == (
        "w1",
        "m5.large",
        2,
        0,
        0.096,
    )


def test_explain_job_shows_reason_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "12", "--from", str(HELD)])
    printed = capsys.readouterr().out
    assert ("job 12 waits 1m" in printed, "does not count" in printed, "[HELD]" in printed, "qrls" in printed) == (
        True,
    ) * 4


def test_explain_job_shows_which_launch_may_serve_it(capsys: pytest.CaptureFixture[str]) -> None:
    explained = shown(capsys, "explain", "12", "--from", HYBRID)
    assert [launch["instance_type"] for launch in explained["launches"]] == ["m5.2xlarge"]


def test_explain_job_shows_where_its_tasks_run(capsys: pytest.CaptureFixture[str]) -> None:
    explained = shown(capsys, "explain", "12", "--from", HYBRID)
    assert [(run["host"], run["task"]) for run in explained["running"]] == [("master", "1"), ("master", "2")]


def test_explain_task_shows_only_it_and_an_unknown_task_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    explained = shown(capsys, "explain", "12.1", "--from", HYBRID)
    assert (explained["job"], [run["task"] for run in explained["running"]]) == ("12.1", ["1"])
    assert (main(["explain", "12.99999", "--from", str(HYBRID)]), "no task 99999" in capsys.readouterr().err) == (
        3,
        True,
    )


@pytest.mark.parametrize("name", ("w1", "W1.example.org", "i-1"))
def test_explain_host_takes_a_name_or_id(capsys: pytest.CaptureFixture[str], name: str) -> None:
    explained = shown(capsys, "explain", name, "--from", IDLE)
    assert (explained["verdict"], [action["kind"] for action in explained["actions"]]) == ("disable", ["disable"])


@pytest.mark.parametrize("subject", ("99", "w99"))
def test_a_subject_missing_from_the_record_is_not_found(subject: str) -> None:
    assert main(["explain", subject, "--from", str(HYBRID)]) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    (
        (["plan", "--from", "/no/such/folder"], 3),
        (["plan", "--from", str(HERE)], 2),
        (["plan", "--frm"], 2),
    ),
)
def test_exit_codes_distinguish_kinds_of_failure(arguments: list[str], code: int) -> None:
    assert main(arguments) == code


def test_record_refuses_a_directory_that_is_not_empty(cell: CellKey, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    assert main(["record", str(tmp_path / "full")]) == 2


def test_a_plan_that_cannot_observe_creates_no_store(
    cell: CellKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "fake")
    assert (main(["plan"]), (tmp_path / "state").exists()) == (4, False)


def store_of(cell: CellKey, tmp_path: Path) -> Store:
    return Store.open(tmp_path / "state" / f"{cell.slug}.sqlite")


def test_status_before_any_pass(cell: CellKey, capsys: pytest.CaptureFixture[str]) -> None:
    result = shown(capsys, "status")
    assert (result["serving"], result["sentence"], result["workers"], result["price_per_hour"]) == (False, None, 0, 0)


def test_status_shows_the_last_news_pause_and_lock(
    cell: CellKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(cell, tmp_path)
    store.memory.save(Memory(passes=9), 1.0)
    store.overrides.ask(Verb.PAUSE, who="ann", at=1.0)
    store.history.add_pass(9, 1.0, "pass 9: no job waits", {"waiting": 0, "counted": 0, "fitting": 0})
    store.close()
    with hold(cell, lock_directory()):
        result = shown(capsys, "status")
    assert (result["pass"], result["sentence"], result["paused"], result["serving"], result["lock"]["host"] != "") == (
        9,
        "pass 9: no job waits",
        {"by": "ann"},
        True,
        True,
    )


def test_status_distinguishes_the_last_pass_from_the_last_news(
    cell: CellKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An idle service has no news for hours; a monitor of its age must distinguish it from one that hangs."""
    store, now = store_of(cell, tmp_path), time.time()
    store.memory.save(Memory(passes=9, observed_at=now - 5), now)
    store.history.add_pass(3, now - 7200, "pass 3: no job waits", {"waiting": 0, "counted": 0, "fitting": 0})
    store.close()
    result = shown(capsys, "status")
    assert (result["pass"], round(result["pass_age_s"] / 60), round(result["sentence_age_s"] / 60)) == (9, 0, 120)
    main(["status"])
    screen = " ".join(capsys.readouterr().out.split())
    assert "pass 3: no job waits (2h ago)" in screen
    assert "passes 9 so far, the last" in screen


@pytest.mark.parametrize(
    ("verb", "message"),
    (
        (Verb.STOP_NOW, "stopping by ann, --now: each worker is removed"),
        (Verb.STOP_DRAIN, "stopping by ann, --drain: each worker is removed"),
    ),
)
def test_status_shows_how_it_stops_and_which_worker_is_kept(
    cell: CellKey, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: Verb, message: str
) -> None:
    store = store_of(cell, tmp_path)
    store.overrides.ask(verb, who="ann", at=1.0)
    store.overrides.ask(Verb.KEEP, who="ann", at=2.0, host="w7")
    store.close()
    main(["status"])
    screen = " ".join(capsys.readouterr().out.split())
    assert message in screen
    assert "does not end while w7 is kept" in screen
    assert "`sge-autoscaler run` goes on with it, and ends then" in screen


def test_status_shows_what_callers_request_and_who_they_are(
    cell: CellKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, targets = store_of(cell, tmp_path), (Target("execute", count=2), Target("big", cores=64))
    store.requests.update("policy:warm_buffer", "policy", 1.0, None, targets, ())
    store.requests.update("nightly", "ann", 1.0, None, (Target("execute", count=1),), ())
    store.requests.update("lapsed", "ann", 1.0, 2.0, (Target("execute", count=9),), ())
    store.close()
    result = shown(capsys, "status")
    main(["status"])
    line = "big: 64 vCPUs (policy:warm_buffer); execute: 3 workers (nightly, policy:warm_buffer)"
    assert ([one["name"] for one in result["request_sets"]], result["requested"], line in capsys.readouterr().out) == (
        ["nightly", "policy:warm_buffer"],
        line,
        True,
    )


def test_status_prints_a_screen_for_people(cell: CellKey, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status"])
    assert "not running" in capsys.readouterr().out


def test_the_store_keeps_why_an_ended_job_waited(cell: CellKey, tmp_path: Path) -> None:
    store = store_of(cell, tmp_path)
    store.history.explain(plan(job_categories=(waiting(1),), workers=(kept("w1"),)).job_categories, snapshot().now)
    past = store.history.explanation(12)
    store.close()
    assert past is not None
    assert past.verdict.reason.code == "EXPIRED"


def test_a_read_only_provider_refuses_to_launch() -> None:
    kind = InstanceType("m5.large", "m5", 2, 8 * 1024**3)
    order = LaunchOrder("t", "o", "cell", "execute", (Bucket(BucketKey("m5.large"), kind),), 1, "")
    with pytest.raises(WriteRefused):
        read_only(FakeProvider(FakeProvider.Settings(), cell="c")).launch(order)


def test_a_read_only_provider_refuses_to_terminate() -> None:
    with pytest.raises(WriteRefused):
        read_only(FakeProvider(FakeProvider.Settings(), cell="c")).terminate(["i-1"])


@pytest.mark.parametrize(
    "action",
    (
        AskGridEngine((Question(12, "f"),), (ProbeHost("main.q", 64, ()),), because(Code.ASKING_GRID_ENGINE)),
        Annotate(("12",), because(Code.SATISFIABLE_AGAIN)),
        Hold(("12",), because(Code.SATISFIABLE_AGAIN)),
        Release(("12",), because(Code.SATISFIABLE_AGAIN)),
        Kill(("12",), because(Code.SATISFIABLE_AGAIN)),
        Reschedule(("12",), "i-1", "w1", because(Code.SATISFIABLE_AGAIN)),
    ),
    ids=lambda action: type(action).__name__,
)
def test_actions_on_jobs_are_shown_with_their_numbers(action: Action, capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(document(snapshot(), plan(action), {}))
    assert "jobs 12" in capsys.readouterr().out


def test_buckets_shows_allowed_ones_and_all_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    allowed = shown(capsys, "buckets", "--from", HYBRID)["buckets"]
    every = shown(capsys, "buckets", "--all", "--from", HYBRID)["buckets"]
    refused = {row["reason"]["code"] for row in every if row not in allowed}
    assert (bool(allowed), refused <= {"BUCKET_NOT_ALLOWED"}) == (True, True)
    assert any(row["can_be_launched"] > 0 and row["reason"] is None for row in allowed)


def test_the_price_of_a_terminated_machine_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = a_row("w1", "NO_LOAD_REPORT")
    print_blocks(workers_blocks([row | {"state": state} for state in ("running", "terminated")]))
    _, running, terminated = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert ("0.096" in running, "0.096" in terminated) == (True, False)


def a_row(name: str, code: str, **more: Any) -> dict[str, Any]:
    """One worker as `workers` has it."""
    row: dict[str, Any] = {
        "name": name,
        "id": f"i-{name}",
        "instance_type": "m5.large",
        "node_array": "execute:4",
        "group_id": None,
    }
    row |= {"phase": "ready", "conditions": []}
    row |= {"state": "running", "slots": None, "verdict": "wait", "price_per_hour": 0.096, "currency": "USD"}
    return row | {"reason": {"code": code, "text": "so"}} | more


def test_gone_machines_are_counted_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_blocks(workers_blocks([a_row("w1", "GONE"), a_row("w2", "GONE"), a_row("w3", "GONE", verdict="remove")]))
    _, remains, besides = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert (remains.startswith("w3"), besides) == (True, "2 machines are gone: --json lists them")


def test_a_worker_is_shown_with_its_array_or_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    print_blocks(workers_blocks([a_row("w1", "BOOTING"), a_row("w2", "BOOTING", group_id="execute:4-w1")]))
    _, one, other = (line.split() for line in capsys.readouterr().out.splitlines() if line.strip())
    assert (one[3], other[3]) == ("execute:4", "execute:4-w1")


def test_a_worker_is_shown_with_its_phase_and_its_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    held = [{"name": "idle", "since": None}, {"name": "in alarm", "since": None}]
    print_blocks(workers_blocks([a_row("w1", "IDLE", conditions=held), a_row("h1", "PERSISTENT", phase=None)]))
    _, worker, persistent = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert ("ready: idle, in alarm" in worker, "ready" in persistent) == (True, False)
