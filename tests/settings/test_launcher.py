"""Names under CP_CAP_SGE_ and CP_CAP_GE_: mistyped ones are found, those of Cloud Pipeline's launcher reported."""

from __future__ import annotations

import pytest

from autoscaler.core.placement.hosts import host_values_of
from autoscaler.errors import SettingsError
from autoscaler.settings import load_settings
from autoscaler.settings.launcher import close_to
from autoscaler.settings.policies import node_array_policy
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.sge.prepare import Preparation, Present, differences
from tests.core.building import COMPLEXES, LARGE

WITHOUT_EFFECT = (
    "CP_CAP_SGE_EXTRA_PE_PATH",
    "CP_CAP_SGE_REPORTING_PARAMS",
    "CP_CAP_SGE_SCHEDULER_DEFAULT_QUEUE",
    "CP_CAP_SGE_GPU_RSMAP_DEVICES",
    "CP_CAP_SGE_GPU_EXCLUSIVE_MODE",
    "CP_CAP_GE_CONSUMABLE_RESOURCE_LOCKS_GPU",
    "CP_CAP_GE_CONSUMABLE_RESOURCE_EXCLUSIVE_ENABLED",
    "CP_CAP_AUTOSCALE_DNS_HOSTS",
    "CP_CAP_AUTOSCALE_RESOLVE_ATTEMPTS",
    "CP_CAP_AUTOSCALE_OWNER",
    "CP_CAP_AUTOSCALE_NODE_MEM_RESERVATIONS",
    "CP_CAP_AUTOSCALE_CUSTOM_REQUIREMENTS_PURGE",
    "CP_CAP_SGE_PROFILE_GENERATION_LOGGING_LEVEL",
    "CP_CAP_SGE_VERSION",
    "CP_CAP_SGE_PREINSTALLED",
    "CP_CAP_SGE_UTILITY_LOGGING_LEVEL_RUN",
    "CP_CAP_SGE_UTILITY_LOGGING_FORMAT_CONSOLE",
    "CP_CAP_SGE_UTILITY_LOG_DIR",
    "CP_CAP_SGE_UTILITY_BACKUP_PATH",
    "CP_CAP_AUTOSCALE_DNS_HOSTS_RESOLVE_ATTEMPTS",
    "CP_CAP_AUTOSCALE_DNS_HOSTS_RESOLVE_DELAY",
)


def the_error(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, strict=True)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    (
        ("CP_CAP_SGE_QUEUENAME", "CP_CAP_SGE_QUEUE_NAME"),
        ("CP_CAP_SGE_MASTER_CORE", "CP_CAP_SGE_MASTER_CORES"),
        ("CP_CAP_SGE_MASTR_CORES_1", "CP_CAP_SGE_MASTER_CORES_1"),
        ("CP_CAP_SGE_PE_SLOT", "CP_CAP_SGE_PE_SLOTS"),
        ("CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_GPUS", "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_GPU"),
        ("CP_CAP_AUTOSCALE_HYBRD", "CP_CAP_AUTOSCALE_HYBRID"),
    ),
)
def test_a_mistyped_name_is_an_error_with_a_suggestion(mistyped: str, meant: str) -> None:
    assert f"did you mean {meant}?" in the_error(**{mistyped: "1"})
    assert any(mistyped in warning for warning in load_settings({mistyped: "1"}).warnings), "and a warning in `run`"


def test_a_mistyped_name_is_an_error_on_a_master_container_too() -> None:
    assert "did you mean CP_CAP_SGE_QUEUE_NAME?" in the_error(CP_CAP_SGE_QUEUENAME="x.q", RUN_ID="12")


def test_an_unknown_name_is_an_error_unless_the_launcher_may_have_set_it() -> None:
    assert "is not a setting" in the_error(CP_CAP_SGE_FROBNICATE="1")
    (result,) = load_settings({"CP_CAP_SGE_FROBNICATE": "1", "RUN_ID": "12"}, strict=True).warnings
    assert "nothing in the autoscaler reads it" in result


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_ignored_launcher_setting_is_reported_as_without_effect(name: str) -> None:
    result = list(load_settings({name: "true"} if name[-4:] != "PATH" else {name: "/x"}, strict=True).warnings)
    assert len(result) == 1, result
    assert result[0].startswith(f"{name} is known but has no effect: ")


def test_variables_with_the_type_of_a_parameter_are_ignored() -> None:
    types = {"CP_CAP_AUTOSCALE_WORKERS_PARAM_TYPE": "int", "CP_CAP_SGE_QUEUE_NAME_PARAM_TYPE": "string"}
    assert load_settings(types, strict=True).warnings == ()


@pytest.mark.parametrize(("value", "good"), (("SGE", True), ("sge", True), ("SLURM", False), ("KUBE", False)))
def test_another_scheduler_is_an_error(value: str, good: bool) -> None:
    if good:
        assert load_settings({"CP_CAP_AUTOSCALE_GRID_ENGINE": value}, strict=True).warnings == ()
    else:
        assert "the autoscaler serves Grid Engine only" in the_error(CP_CAP_AUTOSCALE_GRID_ENGINE=value)


def test_suggestions_compare_what_follows_the_prefix() -> None:
    known = ("CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_PE_NAME", "CP_CAP_AUTOSCALE_WORKERS")
    assert close_to("CP_CAP_SGE_SHELL", known) is None
    assert close_to("CP_CAP_AUTOSCALE_WORKER_2", known) == "CP_CAP_AUTOSCALE_WORKERS_2"


def test_queue_and_pes_are_created_as_the_launcher_variables_say() -> None:
    wanted = Preparation(
        "main.q",
        "@allhosts",
        "local",
        "mpi",
        100,
        "master",
        pe_mpi_slots=64,
        terminate_method="SIGTERM",
        shell_start_mode="unix_behavior",
    )
    made = {each.name: each.after for each in differences((wanted,), Present({}, {}, {}, {}, ()))}
    attributes = dict(line.split(None, 1) for line in made["main.q"].splitlines())
    assert (attributes["terminate_method"], attributes["shell_start_mode"]) == ("SIGTERM", "unix_behavior")
    slots = [
        line.split()[1] for name in ("local", "mpi") for line in made[name].splitlines() if line.startswith("slots")
    ]
    assert slots == ["100", "64"]


def test_a_worker_offers_its_cores_in_the_named_complex() -> None:
    queue = QueueSettings.model_validate(
        {"CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_CPU": "lic", "CP_CAP_SGE_WORKER_FREE_CORES": "1"}
    )
    offer = host_values_of(LARGE, node_array_policy(queue, "", Process()), COMPLEXES)
    assert dict(offer.complex_values)["lic"] == "1"
