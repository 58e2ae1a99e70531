"""A record reads back as recorded, can be written by hand, and never has a secret."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from autoscaler import outside_files
from autoscaler.commands._observation import observe_and_plan
from autoscaler.commands.context import Invocation
from autoscaler.constraints.rules import load_rules
from autoscaler.core.actions import Launch
from autoscaler.core.cost.spending import Spending
from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.evidence import Answer, Evidence, Finding, Health, JobFailure
from autoscaler.core.model.fleet import (
    Bucket,
    BucketKey,
    FailureKind,
    Fleet,
    InstanceType,
    LaunchFailure,
    MachineState,
    Order,
    OrderState,
    PriceType,
    Worker,
)
from autoscaler.core.model.memory import (
    Backoff,
    Disabling,
    Event,
    LaunchTrial,
    Memory,
    ProtectedArray,
    UnhelpedCategory,
    WorkerNote,
)
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine import record as record_module
from autoscaler.engine.record import read_record, refuse_full, write_record
from autoscaler.errors import AutoscalerError, NotFound, SettingsError
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.registry import known_prefixes
from autoscaler.settings import load_settings
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.detail import read_details
from autoscaler.sge.units import Clock
from tests.core.building import a_snapshot

NOW = datetime(2026, 11, 21, 9, 5, 0, 250000, tzinfo=timezone(timedelta(hours=1)))
QSTAT = b"""<?xml version='1.0'?>
<job_info>
  <queue_info><Queue-List><name>main.q@w1</name><slots_used>0</slots_used><slots_resv>0</slots_resv>
    <slots_total>2</slots_total></Queue-List></queue_info>
  <job_info><job_list state="pending"><JB_job_number>12</JB_job_number><JAT_prio>0.5</JAT_prio><JB_owner>ann</JB_owner>
    <state>qw</state><JB_submission_time>2026-11-21T09:04:00</JB_submission_time><slots>1</slots></job_list></job_info>
</job_info>
"""
LARGE = InstanceType("m5.large", "m5", 2, 8 * 1024**3)
ODD = InstanceType("odd.one", "odd", 3, 5_000_000_001, gpus=2, arch="lx-arm64")
FLEET = Fleet(
    workers=(
        Worker(
            "i-1",
            LARGE,
            "execute",
            MachineState.RUNNING,
            1795248000.5,
            "w1",
            "10.0.0.3",
            "eu-1a",
            PriceType.SPOT,
            "pg-1",
            0.03,
            "o-1",
            "g-1",
            ready=False,
            message="fine",
        ),
    ),
    buckets=(
        Bucket(BucketKey("m5.large", "execute", "eu-1a", PriceType.SPOT), LARGE, None, 4, "scarce"),
        Bucket(BucketKey("odd.one"), ODD, 1.25),
    ),
    orders=(
        Order("o-2", "execute", ODD, 2, 1795248900.0, OrderState.ACCEPTED, BucketKey("odd.one"), 1.25, ("i-8", "i-9")),
        Order(
            "o-3",
            "execute:8",
            ODD,
            1,
            1795248950.0,
            OrderState.SENT,
            BucketKey("odd.one"),
            group_id="execute:8-1",
            nodes=("n-1",),
            for_requests=True,
            assignment=(("36688decd6f980ec", 2), ("77dde23f2fccfe6d", 1)),
        ),
    ),
    failures=(
        LaunchFailure(BucketKey("odd.one", zone="eu-1b"), 1795248800.0, FailureKind.CAPACITY, "none left", "o-0"),
    ),
    enrols_itself=True,
)
MEMORY = Memory(
    passes=41,
    workers={"i-1": WorkerNote(1.0, 2.0, 3.0, Disabling.IDLE, seen_disabled=True, joined_at=1.5, host="w1")},
    able_since={12: 4.25},
    unable=(13,),
    details={13: JobDetail(13, 5.0, start_after=6.0, concurrency=3, context={"until": "2026-11-21T09:04:00"})},
    backoffs=(Backoff(BucketKey("odd.one"), 9.0, 5, FailureKind.CAPACITY, "none left"),),
    launches=(Event(7.0, 2, "execute"),),
    trials={"o-2": LaunchTrial("execute", 6.0, (("36688decd6f980ec", 2),), 1, 40.0, 6.5, 12.0, seen=("alarm (a)",))},
    protected={"execute": ProtectedArray({"36688decd6f980ec": UnhelpedCategory(2, 5.0, 80.0, ("ann",))}, 2, 1.0)},
    circuit_breaker=because(Code.CIRCUIT_BREAKER, count=201, limit=200),
)
EVIDENCE = Evidence(
    answers={12: Finding(12, "as asked", 8.0, Answer.UNSATISFIABLE, "2026-11-21T09:04:00")},
    failures=(JobFailure("w1", 11, 7.5, "21 : in recognizing job", "ann"),),
    health={"i-1": Health("i-1", 6.5, healthy=False, message="disk full")},
)
REQUESTS = Requests(
    (
        RequestSet(
            "standard", "ann", 1.0, 301.0, (Target("execute", cores=4), Target("big:2", groups=1, group_count=2))
        ),
    ),
    (ArrayDefinition("big:2", dynamic=True, extends="execute", group_count=2, price_type=PriceType.SPOT),),
    (CreatedNode("n-1", "node-1", "execute", 2.0, worker_id="i-1"),),
    frozenset({"i-1"}),
)
OVERRIDES = Overrides(paused=True, paused_by="ann", keep=frozenset({"w1", "w2"}))


def record(directory: Path, environ: dict[str, str] | None = None, **changed: Any) -> Path:
    """Write a record with things of every kind, some of them changed."""
    rules, master = changed.pop("rules", None), changed.pop("master", "master")
    snapshot = a_snapshot()
    observed: dict[str, Any] = {
        "fleet": FLEET,
        "overrides": OVERRIDES,
        "memory": MEMORY,
        "evidence": EVIDENCE,
        "requests": REQUESTS,
        "spending": Spending(),
        "policy": replace(snapshot.policy, rules=rules, master=master),
    }
    read = {name: changed.pop(name) for name in tuple(changed) if name in observed}
    beside: dict[str, Any] = {
        "outputs": Outputs(QSTAT, None, {"shgrp_@allhosts": "group_name @allhosts\nhostlist w1\n"}),
        "settings": load_settings(environ or {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"}),
        "now": NOW,
    }
    write_record(directory, replace(snapshot, **(observed | read)), **(beside | changed))
    return directory


def by_hand(directory: Path, **files: str) -> Path:
    """A folder with `qstat.xml` and these files; `provider_json` stands for `provider.json`."""
    directory.mkdir(exist_ok=True)
    (directory / "qstat.xml").write_bytes(QSTAT)
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text)
    return directory


def documented(directory: Path) -> Path:
    """The record that docs/record-folder.md shows, file by file."""
    page = (Path(__file__).parents[1] / "docs" / "record-folder.md").read_text()
    for name, text in re.findall(r"^### `([^`]+)`\n.*?^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_a_record_reads_back_as_the_snapshot(tmp_path: Path) -> None:
    settings = load_settings({"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large", "CP_CAP_AUTOSCALE_WORKERS": "7"})
    outputs = Outputs(QSTAT, None, {"shgrp_@allhosts": "group_name @allhosts\nhostlist w1\n"})
    zone = NOW.tzinfo
    assert zone is not None
    cluster = cluster_from(outputs, zone=zone, now=NOW.timestamp())
    policy = in_force(settings.policy(master="master"), REQUESTS, arrays_present(FLEET, MEMORY))
    seen = Snapshot(cluster, FLEET, OVERRIDES, MEMORY, policy, NOW.timestamp(), EVIDENCE, REQUESTS)
    assert read_record(record(tmp_path / "r", outputs=outputs, settings=settings)) == seen


BUDGETS = {
    "CP_CAP_AUTOSCALE_BUDGET": "500",
    "CP_CAP_AUTOSCALE_BUDGETS": "user:ann=100",
    "CP_CAP_AUTOSCALE_BUDGET_ACTION": "stop",
}
SPENT = Spending({"the cell": 500.5, "user ann": 12.25}, 1796083200.0)


def test_a_replay_decides_under_the_recorded_budgets(tmp_path: Path) -> None:
    """The waiting job gets no worker: the month's budget is spent."""
    settings = load_settings({"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large", **BUDGETS})
    buckets = (Bucket(BucketKey("m5.large"), LARGE, 0.1),)
    seen: dict[str, Any] = {"fleet": Fleet((), buckets), "spending": SPENT, "memory": Memory()}
    seen |= {"overrides": Overrides(), "requests": Requests(), "evidence": Evidence()}
    full = Outputs(QSTAT.replace(b"<slots_used>0", b"<slots_used>2"), None, {})
    folder = record(tmp_path / "r", settings=settings, outputs=full, **seen)
    assert read_record(folder).spending == SPENT
    assert launches(folder) == []
    (folder / "spending.json").unlink()  # as an older version wrote it
    assert launches(folder) == [1]


def launches(folder: Path) -> list[int]:
    """How many workers each launch of a replay is for."""
    return [action.count for action in plan(read_record(folder)).actions if isinstance(action, Launch)]


def test_without_budgets_a_record_has_no_spending_file(tmp_path: Path) -> None:
    assert not (record(tmp_path / "r") / "spending.json").exists()


def test_configuration_and_attributes_of_workers_are_not_recorded(tmp_path: Path) -> None:
    array = ArrayDefinition("execute", configuration='{"db": "hunter22"}', attributes='{"Password": "hunter22"}')
    folder = record(tmp_path / "r", requests=Requests(arrays=(array,)))
    assert "hunter22" not in (folder / "requests.json").read_text()


JOBS = (Path(__file__).parent / "sge" / "recorded" / "jobs" / "qstat-j.xml").read_bytes()
VARIABLE = b"<job_sublist><VA_variable>TOKEN</VA_variable><VA_value>hunter22</VA_value></job_sublist>"


def details(data: bytes) -> dict[int, JobDetail]:
    return read_details(data, Clock(UTC), now=1.0)


@pytest.mark.parametrize("whole", (True, False), ids=("whole", "cut short"))
def test_environment_and_arguments_of_jobs_are_not_recorded_and_all_else_is(tmp_path: Path, whole: bool) -> None:
    """`qsub -V` puts all of a user's environment into what `qstat -j` prints."""
    begun = JOBS.replace(b"<JB_env_list>", b"<JB_env_list>" + VARIABLE).replace(
        b"<JB_job_number>",
        b"<JB_job_args><element><ST_name>--password=hunter22</ST_name></element></JB_job_args><JB_job_number>",
    )
    data = begun if whole else begun[: begun.rindex(b"hunter22") + 8]
    written = (record(tmp_path / "r", outputs=Outputs(QSTAT, None, {}, data)) / "qstat-j.xml").read_bytes()
    assert (b"hunter22" in data, b"hunter22" in written) == (True, False)
    assert (details(written), len(details(written)) > 2) == (details(data), True)


def test_a_record_has_the_rules_of_its_snapshot(tmp_path: Path) -> None:
    (tmp_path / "licences").write_text("5")
    shared = [{"name": "licences", "source": str(tmp_path / "licences"), "initial_value": 9}]
    (tmp_path / "rules.json").write_text(json.dumps({"shared_resources": shared, "idle_timeout": 77}))
    rules = load_rules(tmp_path / "rules.json")
    folder = record(tmp_path / "r", rules=rules)
    (tmp_path / "licences").unlink()
    policy = read_record(folder).policy
    assert policy.rules is not None
    assert (policy.rules.shared, policy.node_arrays[0].idle_timeout) == (rules.shared, 77)


def test_qstat_alone_is_a_record(tmp_path: Path) -> None:
    snapshot = read_record(by_hand(tmp_path))
    assert (snapshot.fleet.buckets, snapshot.memory, snapshot.overrides) == (
        load_catalog().buckets(),
        Memory(),
        Overrides(),
    )


def test_a_record_with_bytes_that_are_no_utf_8_can_be_read(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (folder / "qconf").mkdir()
    (folder / "qconf" / "sel.txt").write_bytes(b"w1\n")
    (folder / "qconf" / "scal_leave.txt").write_bytes(b"calendar_name cong\xe9\nyear NONE\nweek NONE\n")
    assert read_record(folder).cluster.execution_hosts == {"w1"}


def test_without_now_the_newest_time_in_qstat_is_used(tmp_path: Path) -> None:
    assert read_record(by_hand(tmp_path)).now == datetime(2026, 11, 21, 9, 4, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("now", (None, "2026-11-21T09:05:00+05:00"))
def test_qstat_of_a_record_is_read_once(tmp_path: Path, now: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = by_hand(tmp_path) if now is None else by_hand(tmp_path, now=now)
    opened: list[str] = []
    read_regular = outside_files.read_regular

    def noted(path: Path, most: int) -> bytes:
        opened.append(path.name)
        return read_regular(path, most)

    monkeypatch.setattr(record_module, "read_regular", noted)
    shown = observe_and_plan(Invocation({}), folder)
    assert opened.count("qstat.xml") == 1
    assert shown.zone == read_record(folder).cluster.zone


def test_times_without_a_zone_have_the_zone_of_now(tmp_path: Path) -> None:
    worker = '{"workers": [{"id": "i", "instance_type": "m5.large", "created_at": "2026-11-21T09:04:00"}]}'
    snapshot = read_record(by_hand(tmp_path, now="2026-11-21T09:05:00+05:00", provider_json=worker))
    submitted = datetime.fromisoformat("2026-11-21T09:04:00+05:00").timestamp()
    assert (snapshot.cluster.job_categories[0].submitted, snapshot.fleet.workers[0].created_at) == (
        (submitted,),
        submitted,
    )


def test_the_environment_of_the_reader_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_WORKERS", "77")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_CONFIG", str(tmp_path / "missing"))
    assert read_record(by_hand(tmp_path)).policy.node_arrays[0].limits.max_workers == 3


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(SettingsError, match="is not empty"):
        record(tmp_path)


def test_a_file_in_the_place_of_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SettingsError, match="is not empty"):
        refuse_full(tmp_path / "file")


def test_an_empty_directory_and_a_missing_one_are_no_other_record(tmp_path: Path) -> None:
    refuse_full(tmp_path)
    refuse_full(tmp_path / "missing")
    record(tmp_path)
    assert (tmp_path / "qstat.xml").is_file()


def test_no_secret_is_recorded(tmp_path: Path) -> None:
    """Neither a provider's settings nor anything named like a secret, by name or by value."""
    environ = {"CP_CAP_AUTOSCALE_AWS_SECRET": "hunter22", "API_TOKEN": "hunter22", "CP_CAP_AUTOSCALE_WORKERS": "4"}
    settings = load_settings(environ, known_prefixes=lambda _: ("CP_CAP_AUTOSCALE_AWS_",))
    origins = {**settings.origins, "CP_CAP_AUTOSCALE_TOKEN": settings.origins["CP_CAP_AUTOSCALE_WORKERS"]}
    folder = record(tmp_path / "r", settings=replace(settings, origins=origins))
    written = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert re.findall(r"hunter22|SECRET|TOKEN", written) == []


def test_a_command_in_the_settings_is_recorded_without_its_arguments(tmp_path: Path) -> None:
    environ = {
        "CP_CAP_AUTOSCALE_HEALTH_CHECK": "/opt/check --key hunter22",
        "CP_CAP_AUTOSCALE_URL": "https://ann:hunter22@cloud.example.org/api",
    }
    text = (record(tmp_path / "r", environ) / "settings.toml").read_text()
    assert "hunter22" not in text
    assert "/opt/check" in text


@pytest.mark.parametrize("umask", (0, 0o022, 0o377))
def test_a_record_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = record(tmp_path / "made" / "r")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (folder.parent, *folder.parent.rglob("*")) if path.is_dir()}
    assert modes == {0o700 & ~umask}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}


def test_settings_of_providers_and_policies_are_not_recorded_and_the_record_can_be_read(tmp_path: Path) -> None:
    own = {"CP_CAP_AUTOSCALE_LOCAL_NETWORK": "/net", "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_BROKER": "redis://:pw@b"}
    settings = load_settings({**own, "CP_CAP_AUTOSCALE_WORKERS": "4"}, known_prefixes=known_prefixes)
    folder = record(tmp_path / "r", settings=settings)
    assert re.findall(r"LOCAL|CELERY|redis", (folder / "settings.toml").read_text()) == []
    assert read_record(folder).policy.node_arrays[0].limits.max_workers == 4


def test_a_documented_case_can_be_read(tmp_path: Path) -> None:
    snapshot = read_record(documented(tmp_path))
    assert (
        [category.count for category in snapshot.cluster.job_categories],
        snapshot.cluster.set_aside,
        [bucket.price_per_hour for bucket in snapshot.fleet.buckets],
        snapshot.memory.backoffs[0].until,
        snapshot.overrides.keep,
        [array.name for array in snapshot.policy.node_arrays],
    ) == (
        [10],
        (),
        [0.096, load_catalog().offers["m5.large"].spot, 6.5],
        datetime.fromisoformat("2026-11-21T09:20:00+01:00").timestamp(),
        frozenset({"w1"}),
        ["execute", "big"],
    )


def test_the_documented_files_are_the_known_ones(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).parts[0] for path in documented(tmp_path).rglob("*")}
    assert written == {
        "qstat.xml",
        "qhost.xml",
        "qstat-j.xml",
        "qconf",
        "provider.json",
        "settings.toml",
        "memory.json",
        "overrides.json",
        "requests.json",
        "spending.json",
        "estimates.json",
        "master",
        "now",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    (
        ("notes_txt", "hello"),
        ("now", "2026-11-21T09:05:00"),
        ("now", "yesterday"),
        ("provider_json", "{"),
        ("provider_json", '{"wokers": []}'),
        ("provider_json", '{"buckets": [{"instance_type": "m5.huge"}]}'),
        ("provider_json", '{"workers": [{"id": "i", "instance_type": "m5.large", "created_at": "soon"}]}'),
        ("memory_json", '{"pases": 4}'),
        ("memory_json", '{"workers": {"i": {"first_seen": 1, "idle": 2}}}'),
        ("memory_json", '{"workers": {"i": {}}}'),
        ("wishes_json", '{"paused": "perhaps"}'),
        ("settings_toml", "CP_CAP_AUTOSCALE_WORKRES = 3"),
        ("settings_toml", "= 3"),
    ),
)
def test_an_error_is_reported_with_its_path(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(str(tmp_path / name.replace("_", ".")))):
        read_record(by_hand(tmp_path, **{name: text}))


@pytest.mark.parametrize("missing", ("no/such/folder", "empty"))
def test_a_missing_record_is_not_found(tmp_path: Path, missing: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=missing):
        read_record(tmp_path / missing)


def test_a_record_that_cannot_be_read_as_a_cluster_is_named(tmp_path: Path) -> None:
    by_hand(tmp_path, now="2026-11-21T09:05:00+01:00")
    (tmp_path / "qstat.xml").write_bytes(QSTAT[:200])
    with pytest.raises(AutoscalerError, match=re.escape(str(tmp_path))) as raised:
        read_record(tmp_path)
    assert raised.value.exit_code == 4
