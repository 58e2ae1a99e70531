"""What the Cloud Pipeline provider does beyond the contract, against a played server."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import provider_findings, type_findings
from autoscaler.core.model.fleet import Bucket, MachineState, PriceType, Worker
from autoscaler.providers.cloud_pipeline import orders
from autoscaler.providers.cloud_pipeline.parameters import launch_body
from autoscaler.providers.cloud_pipeline.provider import CloudPipelineProvider
from autoscaler.providers.cloud_pipeline.runs import BOOT
from autoscaler.providers.interface import (
    GROUP_ID,
    HasRunLog,
    LaunchOrder,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.registry import platform_defaults
from autoscaler.providers.rest import Deadline
from tests.clouds.cloud_pipeline.plane import CloudPipelinePlane, Process, started

CELL = "cell"


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with started() as server:
        yield server


@pytest.fixture
def platform(process: Process) -> Iterator[CloudPipelinePlane]:
    plane = CloudPipelinePlane(process)
    yield plane
    assert process.state["malformed"] == []


@pytest.fixture
def provider(platform: CloudPipelinePlane) -> CloudPipelineProvider:
    return platform.connect(CELL)


def bucket(provider: CloudPipelineProvider, name: str = "m5.large") -> Bucket:
    return next(
        bucket
        for bucket in provider.buckets()
        if bucket.type.name == name and bucket.key.price_type is PriceType.ON_DEMAND
    )


def order(
    provider: CloudPipelineProvider, count: int = 1, token: str = "order-0", name: str = "m5.large"
) -> LaunchOrder:
    return LaunchOrder(token, "order", provider.cell, "execute", (bucket(provider, name),), count, "")


def until_listed(plane: CloudPipelinePlane, provider: CloudPipelineProvider, **expected: object) -> Worker:
    """The one worker, once it has these attributes."""
    for _ in range(100):
        for worker in provider.workers():
            if all(getattr(worker, name) == value for name, value in expected.items()):
                return worker
        plane.settle()
    raise AssertionError(f"no worker with {expected}: {provider.workers()}")


# -- workers ----------------------------------------------------------------------------------------------------------


def test_a_worker_is_ready_only_after_its_set_up_has_ended(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("timing", set_up=3600.0)
    provider.launch(order(provider))
    until_listed(platform, provider, state=MachineState.RUNNING)
    platform.settle()
    assert [worker.ready for worker in provider.workers()] == [False]
    platform.process.control("timing", set_up=0.0)
    assert [worker.ready for worker in provider.workers()] == [True]


def test_a_run_without_a_machine_is_terminated_for_lack_of_capacity(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("set", short_of=["m5.large"])
    provider.launch(order(provider))
    worker = until_listed(platform, provider, state=MachineState.TERMINATED)
    assert (worker.failure, worker.message) == ("capacity", "Insufficient instance capacity.")


def test_a_run_that_the_listing_missed_is_still_listed(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    first, second = provider.launch(order(provider, 2)).ids
    platform.process.control("set", hidden=[int(first)])
    assert {worker.id for worker in provider.workers()} == {first, second}


def test_listings_are_read_to_their_last_page(platform: CloudPipelinePlane) -> None:
    provider = platform.connect(CELL, CP_CAP_AUTOSCALE_CLOUD_PIPELINE_PAGE_SIZE="3")
    launched = provider.launch(order(provider, 10))
    assert {worker.id for worker in provider.workers()} == set(launched.ids)


def test_a_terminated_worker_is_listed_for_an_hour_and_the_allowed_clock_skew(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_id,) = provider.launch(order(provider)).ids
    provider.terminate([run_id])
    until_listed(platform, provider, state=MachineState.TERMINATED)
    ended = provider.listing.known(run_id)
    assert ended is not None
    assert ended.ended_at is not None
    for later, listed in ((3659.0, True), (3660.0, False)):
        monkeypatch.setattr(provider.listing, "_clock", lambda now=ended.ended_at + later: now)
        assert bool(provider.workers()) is listed


def test_static_workers_of_the_master_are_not_ours_and_are_requested_once(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    static = platform.process.control("static")
    assert provider.workers() == ()
    provider.workers()
    assert platform.process.state["calls"].count(f"GET run/{static}") == 1
    with pytest.raises(Refused):
        provider.terminate([str(static)])


def test_workers_of_another_master_run_with_the_same_cell_are_not_ours(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    """A run of a committed image may have the tag of the run that it was committed from, in its Grid Engine's files."""
    ids = provider.launch(order(provider)).ids
    other = platform.connect(CELL, RUN_ID=str(platform.process.control("static")))
    assert other.workers() == ()
    assert other.console(ids[0]) == ""
    with pytest.raises(Refused, match="was not launched by"):
        other.terminate(ids)
    assert ids[0] in platform.billable()


def test_a_run_whose_tags_were_edited_is_still_ours(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    (run_id,) = provider.launch(order(provider)).ids
    platform.process.control("run", id=int(run_id), tags={})
    assert [worker.id for worker in platform.connect(CELL).workers()] == [run_id]


def test_a_paused_run_is_terminated_by_the_call_for_paused_runs(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    (run_id,) = provider.launch(order(provider)).ids
    provider.workers()
    platform.process.control("run", id=int(run_id), status="PAUSED")
    provider.terminate([run_id])
    assert platform.billable() == []
    assert f"POST run/{run_id}/terminate" in platform.process.state["calls"]


@pytest.mark.parametrize("status", ("PAUSING", "RESUMING"))
def test_a_run_that_is_being_paused_or_resumed_is_ended_once_that_is_over(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, status: str
) -> None:
    ids = provider.launch(order(provider, count=2)).ids
    provider.workers()
    platform.process.control("run", id=int(ids[0]), status=status)
    with pytest.raises(Unreachable) as caught:
        provider.terminate(ids)
    assert (caught.value.ids, list(platform.billable())) == (ids[:1], [ids[0]])
    platform.process.control("run", id=int(ids[0]), status="PAUSED" if status == "PAUSING" else "RUNNING")
    provider.terminate(ids)
    assert list(platform.billable()) == []


def test_a_paused_worker_is_pending_with_a_message(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    (run_id,) = provider.launch(order(provider)).ids
    platform.process.control("run", id=int(run_id), status="PAUSED")
    worker = until_listed(platform, provider, state=MachineState.PENDING)
    assert "paused" in (worker.message or "")


def test_a_worker_inherits_parameters_of_the_master_run(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    provider.launch(order(provider))
    (body,) = platform.process.state["bodies"]
    given = {name: parameter["value"] for name, parameter in body["params"].items()}
    inherited = {name: given.get(name) for name in ("CP_CAP_LIMIT_MOUNTS", "CP_CAP_MOUNT_OPTIONS_4", "OWN_PARAMETER")}
    assert inherited == {"CP_CAP_LIMIT_MOUNTS": "1,2,3", "CP_CAP_MOUNT_OPTIONS_4": "rw,vers=4", "OWN_PARAMETER": None}
    assert "CP_CAP_NOT_FOR_WORKERS" not in given


def test_a_worker_inherits_values_of_the_launchers_environment_first(platform: CloudPipelinePlane) -> None:
    """The record of the run lacks what was exported since, and cannot hold every value."""
    platform.launcher = {
        "CP_CAP_LIMIT_MOUNTS": "9",
        "CP_CAP_MOUNT_OPTIONS_12": "rw,vers=4.1|ro",
        "OWN_PARAMETER": "mine",
    }
    provider = platform.connect(CELL, CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_NAMES="CP_CAP_LIMIT_MOUNTS")
    provider.launch(order(provider))
    (body,) = platform.process.state["bodies"]
    given = {name: parameter["value"] for name, parameter in body["params"].items()}
    inherited = {name: given.get(name) for name in (*platform.launcher, "CP_CAP_MOUNT_OPTIONS_4")}
    assert inherited == {**platform.launcher, "OWN_PARAMETER": None, "CP_CAP_MOUNT_OPTIONS_4": "rw,vers=4"}


@pytest.mark.parametrize("verb", ("", "/status"), ids=["looked up", "ended"])
def test_a_run_whose_end_has_no_answer_keeps_no_other_from_being_ended(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, verb: str
) -> None:
    ids = provider.launch(order(provider, count=4)).ids
    call = f"{'POST' if verb else 'GET'} run/{ids[1]}{verb}"
    platform.process.control("fault", call=call, kind="error", times=9999, message="Connection timed out")
    with pytest.raises(Unreachable) as caught:
        provider.terminate(ids)
    assert (caught.value.ids, list(platform.billable())) == ((ids[1],), [ids[1]])


@pytest.mark.parametrize("cell", ("a|b", "a=b", "50%7Coff", "|", "site=x|y=string"))
def test_a_cell_tag_with_characters_that_split_parameters_orphans_no_run(
    platform: CloudPipelinePlane, cell: str
) -> None:
    provider = platform.connect(cell)
    wanted = replace(order(provider, count=2), cell=cell, node_array="gpu=a|b", tags={GROUP_ID: "gpu=a|b-1"})
    ids = provider.launch(wanted).ids
    again = platform.connect(cell).launch(replace(wanted, asked_before=True)).ids
    workers = platform.connect(cell).workers()
    marks = {(worker.node_array, worker.group_id, worker.order_id) for worker in workers}
    assert (set(again), {worker.id for worker in workers}) == (set(ids), set(ids))
    assert marks == {("gpu=a|b", "gpu=a|b-1", wanted.order_id)}
    assert list(platform.connect("a").workers()) == []
    platform.connect(cell).terminate(ids)
    assert list(platform.billable()) == []


@pytest.mark.parametrize("name", ("CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME"))
def test_a_name_that_the_platform_would_split_is_refused(platform: CloudPipelinePlane, name: str) -> None:
    provider = platform.connect(CELL, **{name: "a|b.q"})
    with pytest.raises(Refused, match="rename it"):
        provider.launch(order(provider))
    assert list(platform.billable()) == []


def test_no_boot_script_comes_back_as_the_name_of_a_parameter(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    """The `=` that fill up base64 would make the platform take the whole script, with its secret, for a name."""
    for length in range(6):
        asked = replace(order(provider, token=f"order-{length}"), boot_script=f"#!/bin/sh\n: {'x' * length}\n")
        (run_id,) = provider.launch(asked).ids
        provider.workers()
        known = provider.listing.known(run_id)
        assert known is not None
        assert not [name for name in known.parameters if name.startswith(BOOT)]
    assert not [body for body in platform.process.state["bodies"] if "=" in body["params"][BOOT]["value"]]


def test_a_platform_that_may_launch_no_runs_now_is_tried_again_soon(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("set", scheduled=0)
    with pytest.raises(Throttled, match="scheduled at once"):
        provider.launch(order(provider))
    platform.process.control("set", scheduled=1000)
    assert len(provider.launch(order(provider)).ids) == 1


SCRIPT = '#!/bin/sh\necho "it\'s told: ${SECRET:-none}"\n'


def test_a_worker_runs_the_boot_script_before_its_command_without_printing_it(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    (run_id,) = provider.launch(replace(order(provider), boot_script=SCRIPT)).ids
    (body,) = platform.process.state["bodies"]
    assert body["cmdTemplate"].endswith("; sleep infinity")
    assert "told" not in json.dumps({**body, "params": {}})
    command = body["cmdTemplate"].replace("sleep infinity", "echo goes on")
    environment = {"PATH": os.environ["PATH"], BOOT: body["params"][BOOT]["value"]}
    ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("it's told: none\ngoes on\n", "")
    provider.workers()
    known = provider.listing.known(run_id)
    assert known is not None
    assert BOOT not in known.parameters


def test_the_launch_body_of_an_order_is_always_the_same(provider: CloudPipelineProvider) -> None:
    asked = replace(order(provider), boot_script=SCRIPT)
    assert len({json.dumps(launch_body(asked, 0, provider.settings, {})) for _ in range(3)}) == 1


def test_a_boot_script_too_large_for_the_environment_is_refused(provider: CloudPipelineProvider) -> None:
    noise = random.Random(1).randbytes(60_000).hex()
    with pytest.raises(Refused, match="make the Configuration of its node array smaller"):
        provider.launch(replace(order(provider), boot_script=noise))


# -- orders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", (1, 2), ids=("one-call-was-under-way", "perhaps-two-were"))
def test_after_a_lost_answer_nothing_is_created_until_the_platform_has_settled(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    monkeypatch.setattr(orders, "LANES", lanes)
    asked = order(provider, 2)
    platform.process.control("set", lag=3600.0)
    platform.process.control("fault", call="POST run", kind="lost", times=2)
    with pytest.raises(Unreachable):
        provider.launch(asked)
    assert len(made := platform.billable()) in range(1, lanes + 1)
    with pytest.raises(Unreachable):
        provider.launch(asked)
    assert platform.billable() == made
    monkeypatch.setattr(orders, "SETTLED", 0.0)
    platform.process.control("set", lag=0.0)
    assert sorted(provider.launch(asked).ids) == sorted(platform.billable())


def test_an_order_without_runs_is_repeated_once_the_platform_has_settled(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(provider.orders, "clock", lambda: now[0])
    platform.process.control("fault", call="POST run", kind="status", times=1)
    for now[0] in (0.0, orders.SETTLED - 1):
        with pytest.raises(Unreachable):
            provider.launch(order(provider))
    now[0] = orders.SETTLED
    assert len(provider.launch(order(provider)).ids) == 1


def test_an_order_cut_short_by_a_crash_keeps_the_runs_it_got(platform: CloudPipelinePlane) -> None:
    provider = platform.connect(CELL)
    platform.process.control("set", limit=2)
    got = provider.launch(order(provider, 5))
    platform.heal()
    again = platform.connect(CELL).launch(order(provider, 5))
    assert (set(again.ids), len(again.shortfalls)) == (set(got.ids), 1)


def test_an_order_of_another_cell_is_refused_and_makes_nothing(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    with pytest.raises(Refused, match="for another, not for cell"):
        provider.launch(replace(order(provider), cell="another"))
    assert platform.billable() == []


def test_a_full_quota_is_reported_with_its_name_and_limit(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("set", limit=0)
    ((_, error),) = provider.launch(order(provider)).shortfalls
    assert isinstance(error, QuotaReached)
    assert "[<user-global-limit>] runs limit [0]" in str(error)


def test_an_order_takes_one_call_a_worker_and_at_most_four_more(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    asked = order(provider, 50)
    before = len(platform.process.state["calls"])
    provider.launch(asked)
    assert len(platform.process.state["calls"]) - before <= 50 + 4


def test_a_listing_of_50_workers_takes_two_calls(platform: CloudPipelinePlane, provider: CloudPipelineProvider) -> None:
    platform.process.control("timing", initialized=3600.0)
    provider.launch(order(provider, 50))
    before = len(platform.process.state["calls"])
    assert len(provider.workers()) == 50
    assert len(platform.process.state["calls"]) - before == 2


# -- failures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ("status", "reset"))
def test_a_listing_is_repeated_after_a_temporary_fault(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, kind: str
) -> None:
    (run_id,) = provider.launch(order(provider)).ids
    platform.process.control("fault", call="* run/*", kind=kind, times=1)
    assert [worker.id for worker in provider.workers()] == [run_id]


def test_an_error_in_the_answer_is_not_an_empty_listing(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("fault", call="POST run/filter", kind="error", message="Access is denied")
    with pytest.raises(Unreachable, match="Access is denied"):
        provider.workers()


def test_a_launch_with_a_server_error_is_not_repeated_at_once(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("fault", call="POST run", kind="status", times=1)
    with pytest.raises(Unreachable):
        provider.launch(order(provider))
    assert platform.process.state["calls"].count("POST run") == 1


def test_a_slow_answer_is_awaited(platform: CloudPipelinePlane, provider: CloudPipelineProvider) -> None:
    platform.process.control("fault", call="POST run", kind="slow", seconds=0.3)
    assert len(provider.launch(order(provider)).ids) == 1


def test_an_expired_token_is_renewed_and_the_call_repeated(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    platform.process.control("expire")
    assert provider.workers() == ()
    assert provider.api.credential.token == platform.process.state["tokens"][-1]


def test_a_renewal_that_gives_the_expired_token_again_is_an_error_that_names_the_variable(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider.api, "_new_token", lambda: provider.api.credential.token)
    platform.process.control("expire")
    with pytest.raises(Unreachable, match="API_TOKEN"):
        provider.workers()


def test_a_token_that_cannot_be_renewed_is_an_error_that_names_the_variable_and_hides_the_token(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider, caplog: pytest.LogCaptureFixture
) -> None:
    platform.process.control("withdraw")
    with caplog.at_level(logging.DEBUG), pytest.raises(Unreachable, match="API_TOKEN") as caught:
        provider.workers()
    assert platform.environment["API_TOKEN"] not in f"{caught.value} {caplog.text}"


@pytest.mark.parametrize(
    ("given", "words"),
    (
        ({"RUN_ID": "424242"}, "was not found"),
        ({"API_TOKEN": "made-up"}, "API_TOKEN"),
        ({"CLOUD_REGION_ID": "7"}, "no instance type is allowed in region 7"),
        ({"docker_image": "ubuntu"}, "ubuntu is not an image of the platform"),
    ),
)
def test_a_check_reports_wrong_settings_as_fatal_with_a_remedy(
    platform: CloudPipelinePlane, given: dict[str, str], words: str
) -> None:
    fatal = [problem for problem in platform.connect(CELL, **given).check() if problem.fatal]
    assert any(words in problem.what and problem.remedy for problem in fatal)


def test_doctor_names_a_type_that_is_not_allowed_once(platform: CloudPipelinePlane) -> None:
    given = {"CP_CAP_AUTOSCALE_PROVIDER": "cloud_pipeline", "CP_CAP_AUTOSCALE_TAG": CELL, "instance_size": "x9.large"}
    invocation = Invocation({**platform.environment, **given})
    found = (*provider_findings(invocation), *type_findings(invocation))
    assert [finding.what for finding in found if "x9.large" in finding.found] == ["instance types"]


def test_an_unreachable_platform_is_not_a_wrong_setting(platform: CloudPipelinePlane) -> None:
    with pytest.raises(Unreachable):
        platform.connect(CELL, API="http://127.0.0.1:1/").check()


# -- prices, defaults, log and tags -----------------------------------------------------------------------------------


def test_prices_are_the_estimates_of_the_platform_or_unknown(
    provider: CloudPipelineProvider,
) -> None:
    assert (bucket(provider).price_per_hour, bucket(provider, "p3.2xlarge").price_per_hour) == (0.096, None)


def test_spot_has_its_own_price(provider: CloudPipelineProvider) -> None:
    prices = {
        offer.key.price_type: offer.price_per_hour for offer in provider.buckets() if offer.type.name == "m5.large"
    }
    assert prices == {PriceType.ON_DEMAND: 0.096, PriceType.SPOT: 0.048}


def test_prices_are_requested_once(platform: CloudPipelinePlane, provider: CloudPipelineProvider) -> None:
    provider.buckets()
    before = len(platform.process.state["calls"])
    provider.buckets()
    assert len(platform.process.state["calls"]) == before


def test_preferences_of_the_platform_are_defaults_of_settings(platform: CloudPipelinePlane) -> None:
    assert platform_defaults("cloud_pipeline", platform.environment) == {
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "45",
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "1200",
    }


def test_a_log_line_is_written_to_the_log_of_the_master_run(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    assert isinstance(provider, HasRunLog)
    provider.tell("pass 1: nothing waits")
    (line,) = platform.process.state["master"]["log"]
    assert (line["taskName"], line["logText"]) == ("GridEngineAutoscaling-main", "pass 1: nothing waits")


def test_tagging_the_master_run_keeps_its_other_tags(
    platform: CloudPipelinePlane, provider: CloudPipelineProvider
) -> None:
    provider.mark({"sge-autoscaler-cell": CELL})
    assert platform.process.state["master"]["tags"] == {"project": "genomes", "sge-autoscaler-cell": CELL}


def test_an_existing_tag_is_not_written_again(platform: CloudPipelinePlane, provider: CloudPipelineProvider) -> None:
    for _ in range(2):
        provider.mark({"sge-autoscaler-cell": CELL})
    assert platform.process.state["calls"].count(f"POST run/{platform.environment['RUN_ID']}/tag") == 1


def test_a_set_up_log_is_not_read_after_the_time_of_its_listing(provider: CloudPipelineProvider) -> None:
    with pytest.raises(Unreachable):
        provider.listing.set_up_log("1", Deadline(0.0))
    assert provider.listing.set_up_log("1", Deadline(30.0)) == []
