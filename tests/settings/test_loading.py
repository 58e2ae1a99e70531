"""Settings: environment over file over default; wrong or unknown names say what to write instead."""

from pathlib import Path

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.errors import SettingsError
from autoscaler.settings import load_settings, master_type_problem


def the_error(environ: dict[str, str], file: Path | None = None, *, strict: bool = False) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, file, strict=strict)
    return str(caught.value)


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_the_environment_wins_over_the_file(settings_file: Path) -> None:
    settings_file.write_text("CP_CAP_AUTOSCALE_WORKERS = 5\nCP_CAP_AUTOSCALE_HYBRID = true\n")

    settings = load_settings({"CP_CAP_AUTOSCALE_WORKERS": "7", "CP_CAP_AUTOSCALE_CONFIG": str(settings_file)})

    assert (settings.queues[""].workers, settings.queues[""].hybrid) == (7, True)
    assert settings.origins["CP_CAP_AUTOSCALE_WORKERS"].source == "environment"
    assert settings.origins["CP_CAP_AUTOSCALE_HYBRID"].source == f"file {settings_file}"


@pytest.mark.parametrize(
    ("text", "value"), (("true", True), ("Yes", True), ("on", True), ("no", False), ("OFF", False))
)
def test_booleans_may_be_written_in_several_ways(text: str, value: bool) -> None:
    assert load_settings({"CP_CAP_AUTOSCALE_HYBRID": text}).queues[""].hybrid is value


def test_an_unset_switch_is_not_an_explicit_false() -> None:
    assert load_settings({}).process.autoscale is None


def test_an_unknown_key_in_the_file_is_an_error_with_a_suggestion(settings_file: Path) -> None:
    settings_file.write_text("CP_CAP_AUTOSCALE_WORKRES = 5\n")

    assert "did you mean CP_CAP_AUTOSCALE_WORKERS?" in the_error({}, settings_file)


def test_an_unknown_variable_is_one_warning_in_run_and_an_error_in_config_check() -> None:
    environ = {"CP_CAP_AUTOSCALE_HYBRD": "true"}

    assert "CP_CAP_AUTOSCALE_HYBRD" in load_settings(environ).warnings[0]
    assert "did you mean CP_CAP_AUTOSCALE_HYBRID?" in the_error(environ, strict=True)


def test_unrelated_variables_of_the_platform_are_ignored() -> None:
    assert load_settings({"CP_CAP_LIMIT_MOUNTS": "x"}, strict=True).warnings == ()


def test_all_wrong_values_are_reported_at_once() -> None:
    message = the_error({"CP_CAP_AUTOSCALE_WORKERS": "many", "CP_CAP_SGE_HOSTLIST_NAME": "hosts"})

    assert "CP_CAP_AUTOSCALE_WORKERS = 'many'" in message
    assert "write '@hosts'" in message


def test_a_suffix_is_a_further_queue_with_its_own_settings() -> None:
    environ = {"CP_CAP_AUTOSCALE_WORKERS": "9", "CP_CAP_SGE_QUEUE_NAME_2": "gpu.q", "CP_CAP_AUTOSCALE_WORKERS_2": "2"}

    policy = load_settings(environ | {"instance_size": "m5.large"}).policy(master="master")

    assert [(array.name, array.queue, array.limits.max_workers) for array in policy.node_arrays] == [
        ("execute", "main.q", 9),
        ("execute_2", "gpu.q", 2),
    ]
    assert [(queue.default, queue.static) for queue in policy.queues] == [(True, True), (False, False)]
    assert policy.node_arrays[1].host_group == "@allhosts_2"


def test_a_suffix_without_a_queue_name_is_an_error() -> None:
    assert "set its name in CP_CAP_SGE_QUEUE_NAME_3" in the_error({"CP_CAP_AUTOSCALE_WORKERS_3": "1"})


def test_two_queues_never_share_a_host_group() -> None:
    environ = {"CP_CAP_SGE_QUEUE_NAME_1": "gpu.q", "CP_CAP_SGE_HOSTLIST_NAME_1": "@allhosts"}

    assert "two queues have @allhosts" in the_error(environ)


def test_a_setting_for_all_queues_takes_no_suffix() -> None:
    assert "takes no suffix" in the_error({"CP_CAP_AUTOSCALE_VERBOSE_1": "true"}, strict=True)


def test_instance_type_and_price_type_default_to_the_master_container() -> None:
    settings = load_settings({"instance_size": "m5.large", "price_type": "spot"})

    assert (settings.queues[""].instance_type, settings.queues[""].price_types) == ("m5.large", (PriceType.SPOT,))


def test_an_explicit_instance_type_overrides_that_of_the_master() -> None:
    environ = {"instance_size": "m5.large", "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.xlarge"}

    assert load_settings(environ).queues[""].instance_type == "c5.xlarge"


def test_a_missing_instance_type_is_reported_with_the_setting() -> None:
    assert "set CP_CAP_AUTOSCALE_INSTANCE_TYPE" in (master_type_problem(load_settings({}).queues[""]) or "")


def test_price_types_keep_their_order() -> None:
    settings = load_settings({"CP_CAP_AUTOSCALE_PRICE_TYPE": "spot, on_demand"})

    assert settings.queues[""].price_types == (PriceType.SPOT, PriceType.ON_DEMAND)


def test_a_setting_without_effect_is_a_warning() -> None:
    warnings = load_settings({"CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT": "10"}).warnings

    assert warnings[0].startswith("CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT is known but has no effect")


def test_a_secret_in_the_file_must_be_a_reference(settings_file: Path) -> None:
    settings_file.write_text('CP_CAP_AUTOSCALE_CLOUD_TOKEN = "abc"\n')

    assert "write env:NAME or file:PATH" in the_error({}, settings_file)


def test_a_floor_above_the_maximum_of_workers_is_an_error() -> None:
    environ = {"CP_CAP_AUTOSCALE_MIN_WORKERS": "4", "CP_CAP_AUTOSCALE_WORKERS": "3"}

    assert "is above CP_CAP_AUTOSCALE_WORKERS (3)" in the_error(environ)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "none.toml") in the_error({"CP_CAP_AUTOSCALE_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("environ", "answer"),
    (
        ({}, "hold"),
        ({"RUN_ID": "1234"}, "kill"),
        ({"RUN_ID": ""}, "hold"),
        ({"RUN_ID": "1234", "CP_CAP_AUTOSCALE_DEADLOCK": "report"}, "report"),
        ({"CP_CAP_AUTOSCALE_DEADLOCK": "kill"}, "kill"),
    ),
)
def test_unsatisfiable_jobs_are_deleted_only_on_the_platform_or_if_set(environ: dict[str, str], answer: str) -> None:
    assert load_settings(environ).policy(master="m").deadlock == answer


HYBRID_SIZE = "CP_CAP_AUTOSCALE_HYBRID_SIZE"


@pytest.mark.parametrize(
    ("environ", "size"),
    (
        ({}, "fitting"),
        ({"RUN_ID": "1234"}, "largest"),
        ({"RUN_ID": ""}, "fitting"),
        ({"RUN_ID": "1", HYBRID_SIZE: "fitting", f"{HYBRID_SIZE}_1": "fitting"}, "fitting"),
    ),
)
def test_on_the_platform_every_queue_chooses_sizes_as_its_users_know_it(environ: dict[str, str], size: str) -> None:
    policy = load_settings({"CP_CAP_SGE_QUEUE_NAME_1": "gpu.q", **environ}).policy(master="m")
    assert [array.hybrid_size for array in policy.node_arrays] == [size, size]


def test_the_policy_made_from_settings_has_no_rules() -> None:
    settings = load_settings({"CP_CAP_AUTOSCALE_RULES": "/etc/rules.json"})
    assert settings.process.rules is not None
    assert settings.policy(master="m").rules is None


def test_the_platform_provides_values_that_nobody_set_in_every_queue() -> None:
    environ = {"CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "7", "CP_CAP_SGE_QUEUE_NAME_1": "gpu.q"}

    settings = load_settings(environ, platform={"CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "45"})

    assert [queue.scale_up_timeout for queue in settings.queues.values()] == [7, 45]
    assert settings.origins["CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT"].source == "environment"
    assert settings.origins["CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT_1"].source == "platform"


def test_a_file_overrides_the_platform(settings_file: Path) -> None:
    settings_file.write_text("CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT = 9\n")

    settings = load_settings({}, settings_file, platform={"CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "45"})

    assert settings.queues[""].scale_up_timeout == 9


def test_a_node_array_gets_its_own_settings_without_suffix() -> None:
    environ = {
        "instance_disk": "50",
        "CP_CAP_SGE_QUEUE_NAME_1": "gpu.q",
        "CP_CAP_AUTOSCALE_INSTANCE_DISK_1": "300",
        "CP_CAP_AUTOSCALE_WORKERS": "9",
    }

    settings = load_settings(environ)

    assert settings.array_settings("execute")["CP_CAP_AUTOSCALE_INSTANCE_DISK"] == "50"
    assert settings.array_settings("execute_1") == {
        "CP_CAP_SGE_QUEUE_NAME": "gpu.q",
        "CP_CAP_SGE_HOSTLIST_NAME": "@allhosts_1",
        "CP_CAP_AUTOSCALE_INSTANCE_DISK": "300",
    }


def test_a_setting_used_by_the_chosen_provider_is_no_warning() -> None:
    environ = {"CP_CAP_AUTOSCALE_INSTANCE_DISK": "100"}

    assert "known but has no effect" in load_settings(environ).warnings[0]
    assert load_settings(environ | {"CP_CAP_AUTOSCALE_PROVIDER": "cloud_pipeline"}).warnings == ()


@pytest.mark.parametrize(("seconds", "warned"), (("59", 1), ("60", 0)))
def test_a_silence_timeout_shorter_than_a_qmaster_restart_is_a_warning(seconds: str, warned: int) -> None:
    warnings = load_settings({"CP_CAP_AUTOSCALE_SILENCE_TIMEOUT": seconds}).warnings
    assert sum("CP_CAP_AUTOSCALE_SILENCE_TIMEOUT" in warning for warning in warnings) == warned


def test_health_checks_are_beside_the_settings_file_by_default() -> None:
    """A search-and-replace over the code had put a module's name into the path."""
    assert load_settings({}).queues[""].health_checks == Path("/etc/sge-autoscaler/health-checks")


@pytest.mark.parametrize("name", ("CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR", "CP_CAP_AUTOSCALE_POLLING_DELAY"))
@pytest.mark.parametrize("value", ("inf", "-inf", "nan", "1e999"))
def test_an_infinite_or_invalid_number_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} = '{value}'"):
        load_settings({name: value})


@pytest.mark.parametrize(
    "digits", ("1" * 100_000, f"0x{'1' * 100_000}", "1" * 4000), ids=("decimal", "hexadecimal", "long")
)
def test_a_number_of_many_digits_in_the_file_is_a_wrong_setting(tmp_path: Path, digits: str) -> None:
    (tmp_path / "settings.toml").write_text(f"CP_CAP_AUTOSCALE_WORKERS = {digits}\n")
    with pytest.raises(SettingsError, match=r"digits|bits") as error:
        load_settings({}, tmp_path / "settings.toml")
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "name", ("CP_CAP_AUTOSCALE_WORKERS", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT", "CP_CAP_AUTOSCALE_LEASE")
)
def test_a_number_of_many_digits_in_the_environment_is_a_wrong_setting(name: str) -> None:
    with pytest.raises(SettingsError, match=name) as error:
        load_settings({name: "1" * 100_000})
    assert len(str(error.value)) < 1000


def test_a_queue_of_many_digits_is_an_unknown_setting() -> None:
    name = f"CP_CAP_AUTOSCALE_WORKERS_{'1' * 100_000}"
    (warning,) = load_settings({name: "1"}).warnings
    assert warning.startswith(f"{name} in the environment is not a setting; `sge-autoscaler config show`")
