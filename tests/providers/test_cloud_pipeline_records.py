"""What the platform's records and messages mean: pure, without a server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.core.model.fleet import Bucket, BucketKey, Ending, InstanceType, MachineState, PriceType
from autoscaler.providers.cloud_pipeline.api import NotKnown, date_text, is_interruption, refusal, unix_time
from autoscaler.providers.cloud_pipeline.catalogue import arch_of, instance_type
from autoscaler.providers.cloud_pipeline.credential import Credential, expiry
from autoscaler.providers.cloud_pipeline.parameters import Inheritance, inheritance, launch_body
from autoscaler.providers.cloud_pipeline.runs import run_from, worker_from
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.interface import LaunchOrder, OutOfCapacity, QuotaReached, Refused, Throttled, Unreachable
from autoscaler.providers.settings import read_settings

ENVIRONMENT = {
    "API": "https://platform.example/pipeline/restapi/",
    "API_TOKEN": "a-token",
    "RUN_ID": "1001",
    "instance_disk": "50",
    "docker_image": "registry/library/cluster:latest",
    "CLOUD_PROVIDER": "AWS",
    "CLOUD_REGION_ID": "1",
}
M5 = InstanceType("m5.large", "m5", 2, 8 * 1024**3)


def settings(**given: str) -> CloudPipelineSettings:
    return read_settings(CloudPipelineSettings, {**ENVIRONMENT, **given})


def order(price_type: PriceType = PriceType.ON_DEMAND, given: Mapping[str, str] | None = None) -> LaunchOrder:
    bucket = Bucket(BucketKey("m5.large", price_type=price_type), M5)
    return LaunchOrder("order-0", "order", "cell", "execute_1", (bucket,), 2, "", settings=given or {})


def record(status: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    return {
        "id": 12,
        "status": status,
        "startDate": "2026-11-21 10:00:00.000",
        "podId": "Pipeline-12",
        "instance": {"nodeType": "m5.large", "spot": False},
        "pipelineRunParameters": [{"name": "SGE_AUTOSCALER_CELL", "value": "cell"}],
        **fields,
    }


def parameters_of(body: dict[str, Any]) -> dict[str, str]:
    return {name: parameter["value"] for name, parameter in body["params"].items()}


@pytest.mark.parametrize("name", sorted(ENVIRONMENT))
def test_a_missing_variable_is_an_error_that_names_it(name: str) -> None:
    shown = {
        "instance_disk": "CP_CAP_AUTOSCALE_INSTANCE_DISK",
        "docker_image": "CP_CAP_AUTOSCALE_INSTANCE_IMAGE",
        "CLOUD_PROVIDER": "CP_CAP_AUTOSCALE_CLOUD_PROVIDER",
        "CLOUD_REGION_ID": "CP_CAP_AUTOSCALE_CLOUD_REGION_ID",
    }
    with pytest.raises(Exception, match=shown.get(name, name)):
        settings(**{name: ""})


def test_a_token_is_not_in_the_repr_of_settings_and_credential() -> None:
    assert "a-token" not in f"{settings()!r} {Credential('a-token', 60)!r}"


def test_a_setting_of_ours_overrides_the_variable_of_the_container() -> None:
    assert settings(CP_CAP_AUTOSCALE_INSTANCE_DISK="200").disk == 200


# -- what a worker is given --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("CP_CAP_SGE", "false"),
        ("CP_CAP_AUTOSCALE", "false"),
        ("CP_CAP_AUTOSCALE_WORKERS", "0"),
        ("CP_DISABLE_RUN_ENDPOINTS", "true"),
        ("cluster_role", "worker"),
        ("cluster_role_type", "additional"),
        ("CP_CAP_SGE_QUEUE_NAME", "main.q"),
        ("CP_CAP_SGE_HOSTLIST_NAME", "@allhosts"),
    ),
)
def test_parameters_of_a_worker_make_it_join_and_never_become_a_master(name: str, value: str) -> None:
    assert (
        parameters_of(launch_body(order(), 0, settings(), {"CP_CAP_AUTOSCALE": "true", "CP_CAP_SGE": "true"}))[name]
        == value
    )


def test_a_further_node_array_has_its_own_queue_host_group_image_and_disk() -> None:
    own = {
        "CP_CAP_SGE_QUEUE_NAME": "gpu.q",
        "CP_CAP_SGE_HOSTLIST_NAME": "@gpus",
        "CP_CAP_AUTOSCALE_INSTANCE_IMAGE": "registry/group/gpu:1",
        "CP_CAP_AUTOSCALE_INSTANCE_DISK": "300",
    }
    body = launch_body(order(given=own), 0, settings(), {})
    queue = (parameters_of(body)["CP_CAP_SGE_QUEUE_NAME"], parameters_of(body)["CP_CAP_SGE_HOSTLIST_NAME"])
    assert (*queue, body["dockerImage"], body["hddSize"]) == ("gpu.q", "@gpus", "registry/group/gpu:1", 300)


@pytest.mark.parametrize("disk", ("0", "-1", "1.5", "100G", "\u00b2"))
def test_a_disk_of_a_node_array_that_is_no_size_is_refused_by_name(disk: str) -> None:
    with pytest.raises(Refused, match=r"CP_CAP_AUTOSCALE_INSTANCE_DISK = .* is not a size in GB"):
        launch_body(order(given={"CP_CAP_AUTOSCALE_INSTANCE_DISK": disk}), 0, settings(), {})


def test_cell_and_order_of_a_run_are_in_the_creating_call() -> None:
    body = launch_body(order(), 1, settings(), {})
    marks = {name: value for name, value in parameters_of(body).items() if name.startswith("SGE_AUTOSCALER_")}
    assert marks == {
        "SGE_AUTOSCALER_CELL": "cell",
        "SGE_AUTOSCALER_ORDER": "order",
        "SGE_AUTOSCALER_TOKEN": "order-0",
        "SGE_AUTOSCALER_INDEX": "1",
        "SGE_AUTOSCALER_NODE_ARRAY": "execute_1",
    }
    assert body["tags"]["sge-autoscaler-order"] == "order"


@pytest.mark.parametrize(("price_type", "spot"), ((PriceType.SPOT, True), (PriceType.ON_DEMAND, False)))
def test_a_run_has_the_price_type_of_its_bucket(price_type: PriceType, spot: bool) -> None:
    assert launch_body(order(price_type), 0, settings(), {})["isSpot"] is spot


def test_a_worker_inherits_parameters_named_by_settings_and_by_the_platform() -> None:
    marked = json.dumps([{"name": "LIMIT", "passToWorkers": True}, {"name": "NOT", "passToWorkers": False}])
    chosen = inheritance(settings(CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_NAMES="OWN"), marked)
    parameters = {"CP_CAP_MOUNT_OPTIONS_4": "rw,vers=4", "LIMIT": "1", "OWN": "x", "NOT": "y", "EMPTY": ""}
    assert chosen.taken(parameters) == {"CP_CAP_MOUNT_OPTIONS_4": "rw,vers=4", "LIMIT": "1", "OWN": "x"}


@pytest.mark.parametrize("nonsense", (None, "", "{", "3", [{"passToWorkers": True}]))
def test_an_unreadable_preference_adds_no_inherited_parameter(nonsense: object) -> None:
    assert inheritance(settings(), nonsense) == Inheritance((), ("CP_CAP_MOUNT_OPTIONS_",))


def test_the_owner_is_passed_under_the_parameter_name_of_the_settings() -> None:
    chosen = settings(CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME="BILLED_TO", OWNER="ann")
    assert parameters_of(launch_body(order(), 0, chosen, {}))["BILLED_TO"] == "ann"


# -- what a run's record means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "address", "state"),
    (
        ("RUNNING", None, MachineState.PENDING),
        ("RUNNING", "10.0.0.1", MachineState.RUNNING),
        ("PAUSING", "10.0.0.1", MachineState.PENDING),
        ("PAUSED", None, MachineState.PENDING),
        ("RESUMING", None, MachineState.PENDING),
        ("SUCCESS", None, MachineState.TERMINATED),
        ("FAILURE", None, MachineState.TERMINATED),
        ("STOPPED", None, MachineState.TERMINATED),
    ),
)
def test_every_status_of_a_run_maps_to_a_machine_state(status: str, address: str | None, state: MachineState) -> None:
    assert worker_from(run_from(record(status, podIP=address)), M5, ready=False).state is state


@pytest.mark.parametrize(
    ("fields", "failure"),
    (
        ({"status": "FAILURE", "stateReasonMessage": "Insufficient instance capacity."}, "capacity"),
        ({"status": "FAILURE", "stateReasonMessage": "Node failed to start."}, "boot"),
        ({"status": "FAILURE"}, "boot"),
        ({"status": "FAILURE", "initialized": True}, None),
        ({"status": "STOPPED"}, None),
        ({"status": "RUNNING"}, None),
    ),
)
def test_a_run_that_fails_before_it_is_up_has_the_kind_of_failure(fields: dict[str, Any], failure: str | None) -> None:
    assert worker_from(run_from(record(**fields)), M5, ready=False).failure == failure


@pytest.mark.parametrize(
    ("status", "spot", "reason", "ending"),
    (
        ("SUCCESS", False, None, Ending.RELEASED),
        ("FAILURE", True, "Spot instance was preempted", Ending.INTERRUPTED),
        ("FAILURE", False, "Spot instance was preempted", Ending.UNKNOWN),
        ("FAILURE", True, "Insufficient instance capacity.", Ending.UNKNOWN),
        ("STOPPED", False, None, Ending.UNKNOWN),
        ("PAUSED", False, None, Ending.STOPPED),
        ("PAUSING", False, None, Ending.UNKNOWN),
        ("RESUMING", False, None, Ending.UNKNOWN),
    ),
)
def test_the_kind_of_the_end_of_a_run_is_read_from_status_and_reason(
    status: str, spot: bool, reason: str | None, ending: Ending
) -> None:
    run = run_from(record(status, instance={"nodeType": "m5.large", "spot": spot}, stateReasonMessage=reason))
    assert worker_from(run, M5, ready=False).ending is ending


def test_a_worker_has_the_host_name_of_its_pod() -> None:
    assert worker_from(run_from(record()), M5, ready=False).name == "pipeline-12"


@pytest.mark.parametrize(
    "damage", ({"id": None}, {"id": "12"}, {"status": None}, {"status": "SLEEPING"}, {"startDate": "yesterday"})
)
def test_an_unreadable_record_of_a_run_raises_unreachable(damage: dict[str, Any]) -> None:
    with pytest.raises(Unreachable):
        run_from({**record(), **damage})


# -- what its messages mean ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "error"),
    (
        ("Insufficient instance capacity.", OutOfCapacity),
        ("Launch of new jobs is restricted as [ANN] user will exceed [<user-limit>] runs limit [5]", QuotaReached),
        ("Launch of new jobs is restricted due to quota applied", QuotaReached),
        ("Too many requests", Throttled),
        ("Could not open JDBC Connection for transaction", Unreachable),
        ("Read timed out", Unreachable),
        ("Instance type 'x9.large' is not allowed.", Refused),
        ("Access is denied", Refused),
        ("Run with id: 7 was not found.", NotKnown),
        ("Preference with name: 'scale.up.timeout' was not found.", NotKnown),
        ("something nobody has seen yet", Refused),
    ),
)
def test_the_message_of_an_error_decides_its_kind(message: str, error: type[Exception]) -> None:
    assert isinstance(refusal("POST run", message), error)


@pytest.mark.parametrize(
    ("message", "interrupted"),
    (
        ("Spot instance was reclaimed by its cloud", True),
        ("Insufficient instance capacity of spot", False),
        ("the disk is full", False),
    ),
)
def test_an_interrupted_machine_is_distinguished_from_a_lack_of_capacity(message: str, interrupted: bool) -> None:
    assert is_interruption(message) is interrupted


def test_an_error_has_the_call_and_the_message_of_the_platform() -> None:
    assert str(refusal("POST run", "Access is denied")) == "POST run: the platform says: Access is denied"


@pytest.mark.parametrize(("text", "seconds"), (("1970-01-01 00:01:00.250", 60.25), ("1970-01-01 00:01:00", 60.0)))
def test_dates_are_utc(text: str, seconds: float) -> None:
    assert unix_time(text, "a run") == seconds


def test_a_written_date_reads_back_the_same() -> None:
    assert unix_time(date_text(1_800_000_000.125), "a run") == 1_800_000_000.125


# -- what is available ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cloud", "family", "arch"),
    (
        ("c5.2xlarge", "AWS", "c5", "lx-amd64"),
        ("c6g.2xlarge", "AWS", "c6g", "lx-arm64"),
        ("c7gn.large", "AWS", "c7gn", "lx-arm64"),
        ("g5.xlarge", "AWS", "g5", "lx-amd64"),
        ("g4dn.xlarge", "AWS", "g4dn", "lx-amd64"),
        ("g5g.xlarge", "AWS", "g5g", "lx-arm64"),
        ("u-6tb1.metal", "AWS", "u-6tb1", "lx-amd64"),
        ("n2-standard-8", "GCP", "n2-standard", "lx-amd64"),
        ("c2d-standard-8-lssd", "GCP", "c2d-standard-lssd", "lx-amd64"),
        ("t2a-standard-4", "GCP", "t2a-standard", "lx-arm64"),
        ("Standard_D2s_v3", "AZURE", "Dsv3", "lx-amd64"),
        ("Standard_NC24ads_A100_v4", "AZURE", "NCadsA100v4", "lx-amd64"),
        ("Standard_D4ps_v5", "AZURE", "Dpsv5", "lx-arm64"),
    ),
)
def test_family_and_architecture_of_a_type_are_read_from_its_name(
    name: str, cloud: str, family: str, arch: str
) -> None:
    kind = instance_type({"name": name, "vcpu": 8, "memory": 16.5, "gpu": 1}, cloud)
    assert (kind.family, kind.arch, arch_of(name, cloud)) == (family, arch, arch)
    assert (kind.vcpus, kind.memory, kind.gpus) == (8, 16.5 * 1024**3, 1)


@pytest.mark.parametrize("damage", ({"name": None}, {"vcpu": None}, {"vcpu": -1}, {"memory": "16"}))
def test_an_unreadable_instance_type_raises_unreachable(damage: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match="cannot understand an allowed instance type"):
        instance_type({"name": "m5.large", "vcpu": 2, "memory": 8, **damage}, "AWS")


# -- the token --------------------------------------------------------------------------------------------------------


def jwt(end: float | None) -> str:
    claims = {} if end is None else {"exp": end}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.c2ln"


@pytest.mark.parametrize(("token", "end"), ((jwt(1234), 1234.0), (jwt(None), None), ("plain", None), ("a.b.c", None)))
def test_the_expiry_of_a_token_is_read_from_it(token: str, end: float | None) -> None:
    assert expiry(token) == end


@pytest.mark.parametrize(("now", "due"), ((1000.0, False), (1700.0, False), (1760.0, True), (5000.0, True)))
def test_a_token_is_due_for_renewal_before_it_expires(now: float, due: bool) -> None:
    moment = [1000.0]
    credential = Credential(jwt(2000), 86400, lambda: moment[0])
    moment[0] = now
    assert credential.due is due


def test_a_failed_renewal_keeps_the_old_token_and_is_retried_later() -> None:
    moment = [1000.0]
    credential = Credential(jwt(1001), 100, lambda: moment[0])
    moment[0] = 1000.9

    def silent() -> str:
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        credential.renew(silent)
    assert (credential.token, credential.due) == (jwt(1001), False)
    moment[0] += 60
    assert credential.renew(lambda: jwt(9000))
    assert credential.token == jwt(9000)


def test_a_refused_token_that_another_thread_renewed_is_not_renewed_again() -> None:
    credential = Credential("new", 100)
    assert credential.renew(lambda: pytest.fail("asked for nothing"), refused="old")
