"""Several queues: which of them are served, and the names that Cloud Pipeline's launcher would derive."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from autoscaler.commands.context import Invocation
from autoscaler.commands.run import command
from autoscaler.errors import SettingsError
from autoscaler.settings import Settings, load_settings

MASTER = {"instance_size": "m5.large", "CP_CAP_AUTOSCALE_PROVIDER": "cloud_pipeline"}
ELSEWHERE = {"instance_size": "m5.large", "CP_CAP_AUTOSCALE_PROVIDER": "local", "CP_CAP_SGE_QUEUE_NAME_1": "gpu.q"}


def there(**environ: str) -> Settings:
    """As users of Cloud Pipeline set it."""
    return load_settings({**MASTER, **environ}, strict=True)


def queues(settings: Settings) -> dict[str, str]:
    return {suffix: queue.queue for suffix, queue in settings.queues.items()}


# -- Cloud Pipeline's meaning ------------------------------------------------------------------------------------------


def test_a_further_queue_is_enabled_by_its_own_switch() -> None:
    settings = there(CP_CAP_AUTOSCALE="true", CP_CAP_AUTOSCALE_1="true", CP_CAP_AUTOSCALE_WORKERS_2="4")
    assert queues(settings) == {"": "main.q", "1": "m5.large.1.q"}
    assert [
        note
        for note in settings.warnings
        if "the autoscaler does not scale queue m5.large.2.q: CP_CAP_AUTOSCALE_2 is not true" in note
    ]


def test_with_the_first_off_and_another_on_only_the_other_is_scaled() -> None:
    settings = there(CP_CAP_AUTOSCALE="false", CP_CAP_AUTOSCALE_1="true")
    assert (queues(settings), settings.scales) == ({"1": "m5.large.q"}, True)


def test_the_first_queue_needs_its_own_switch_once_another_is_on() -> None:
    assert queues(there(CP_CAP_AUTOSCALE_1="true")) == {"1": "m5.large.q"}
    assert queues(there()) == {"": "main.q"}, "alone, only an explicit false stops it"


def test_with_all_switches_off_nothing_is_scaled() -> None:
    environ = {**MASTER, "CP_CAP_AUTOSCALE": "false", "CP_CAP_AUTOSCALE_1": "false"}
    assert not load_settings(environ).scales
    done = CliRunner().invoke(command, [], obj=Invocation(environ))
    assert (done.exit_code, "does not scale this cluster" in done.output) == (0, True), done.output


def test_a_further_queue_inherits_unset_values_from_the_first() -> None:
    settings = there(
        CP_CAP_AUTOSCALE="true",
        CP_CAP_AUTOSCALE_1="true",
        CP_CAP_AUTOSCALE_WORKERS="7",
        CP_CAP_AUTOSCALE_IDLE_TIMEOUT="90",
        CP_CAP_AUTOSCALE_PRICE_TYPE="spot",
        CP_CAP_AUTOSCALE_IDLE_TIMEOUT_1="20",
    )
    one = settings.queues["1"]
    assert (one.workers, one.idle_timeout, [str(kind) for kind in one.price_types]) == (7, 20, ["spot"])
    assert (one.static, one.default) == (False, False)
    assert settings.origins["CP_CAP_AUTOSCALE_WORKERS_1"].source == "inherited (CP_CAP_AUTOSCALE_WORKERS)"
    assert settings.array_settings("execute_1")["CP_CAP_AUTOSCALE_PRICE_TYPE"] == "spot"


@pytest.mark.parametrize(
    ("own", "name"),
    (
        ({}, "m5.large.q"),
        ({"CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "p3.2xlarge"}, "p3.2xlarge.q"),
        ({"CP_CAP_AUTOSCALE_HYBRID_1": "true"}, "m5.large.family.q"),
        ({"CP_CAP_AUTOSCALE_HYBRID_1": "true", "CP_CAP_AUTOSCALE_HYBRID_FAMILY_1": "c5"}, "c5.family.q"),
        ({"CP_CAP_SGE_QUEUE_NAME_1": "gpu.q", "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "p3.2xlarge"}, "gpu.q"),
    ),
)
def test_queue_names_are_derived_and_the_host_group_follows_the_queue(own: dict[str, str], name: str) -> None:
    queue = there(CP_CAP_AUTOSCALE_1="true", **own).queues["1"]
    assert (queue.queue, queue.host_group) == (name, f"@{name}")


def test_queues_of_one_name_are_numbered() -> None:
    settings = there(CP_CAP_AUTOSCALE_1="true", CP_CAP_AUTOSCALE_2="true", CP_CAP_AUTOSCALE_INSTANCE_TYPE_2="m5.large")
    assert queues(settings) == {"1": "m5.large.1.q", "2": "m5.large.2.q"}


def test_a_host_group_that_is_overridden_is_reported() -> None:
    settings = there(CP_CAP_AUTOSCALE_1="true", CP_CAP_SGE_QUEUE_NAME_1="g.q", CP_CAP_SGE_HOSTLIST_NAME_1="@mine")
    assert settings.queues["1"].host_group == "@g.q"
    assert any("CP_CAP_SGE_HOSTLIST_NAME_1 is @g.q and not @mine" in note for note in settings.warnings)


def test_the_default_queue_can_be_left_out() -> None:
    environ = {"CP_CAP_SGE_DISABLE_DEFAULT_QUEUE": "true", "CP_CAP_AUTOSCALE": "true"}
    assert queues(there(CP_CAP_AUTOSCALE_1="true", **environ)) == {"1": "m5.large.q"}
    with pytest.raises(SettingsError, match="leaves no queue to serve"):
        there(**environ)


def test_a_suffix_on_a_process_setting_is_reported() -> None:
    settings = there(CP_CAP_AUTOSCALE_1="true", CP_CAP_AUTOSCALE_VERBOSE_1="true")
    assert any("CP_CAP_AUTOSCALE_VERBOSE applies to all of them" in note for note in settings.warnings)


# -- dry queues, everywhere --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", (MASTER, ELSEWHERE))
def test_a_dry_run_queue_beside_others_is_not_served(provider: dict[str, str]) -> None:
    on = {"CP_CAP_AUTOSCALE": "true", "CP_CAP_AUTOSCALE_1": "true", "CP_CAP_AUTOSCALE_DRY_RUN_1": "true"}
    settings = load_settings({**provider, **on}, strict=True)
    assert (list(settings.queues), settings.process.dry_run) == ([""], False)
    assert any("has a dry run (CP_CAP_AUTOSCALE_DRY_RUN_1) and others have none" in note for note in settings.warnings)


def test_with_only_dry_run_queues_the_whole_run_is_dry() -> None:
    settings = there(CP_CAP_AUTOSCALE="false", CP_CAP_AUTOSCALE_1="true", CP_CAP_AUTOSCALE_DRY_RUN_1="true")
    assert (list(settings.queues), settings.process.dry_run) == (["1"], True)


def test_dry_run_is_inherited_unless_a_queue_sets_it() -> None:
    on = {"CP_CAP_AUTOSCALE": "true", "CP_CAP_AUTOSCALE_1": "true", "CP_CAP_AUTOSCALE_DRY_RUN": "true"}
    assert (list(there(**on).queues), there(**on).process.dry_run) == (["", "1"], True)
    settings = there(**on, CP_CAP_AUTOSCALE_DRY_RUN_1="false")
    assert (list(settings.queues), settings.process.dry_run) == (["1"], False)


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_elsewhere_a_further_queue_is_served_by_default_and_inherits_nothing() -> None:
    settings = load_settings({**ELSEWHERE, "CP_CAP_AUTOSCALE_WORKERS": "7"}, strict=True)
    assert queues(settings) == {"": "main.q", "1": "gpu.q"}
    assert (settings.queues["1"].workers, settings.queues["1"].host_group) == (3, "@allhosts_1")
    assert queues(load_settings({**ELSEWHERE, "CP_CAP_AUTOSCALE_1": "false"}, strict=True)) == {"": "main.q"}


def test_elsewhere_an_explicit_false_stops_all_queues_without_a_switch() -> None:
    assert not load_settings({**ELSEWHERE, "CP_CAP_AUTOSCALE": "false"}).scales
    settings = load_settings({**ELSEWHERE, "CP_CAP_AUTOSCALE": "false", "CP_CAP_AUTOSCALE_1": "true"})
    assert (queues(settings), settings.scales) == ({"1": "gpu.q"}, True)


def test_an_invalid_switch_is_an_error() -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_1 = 'perhaps': write true or false"):
        there(CP_CAP_AUTOSCALE_1="perhaps")
