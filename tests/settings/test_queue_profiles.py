"""The settings of a cell whose queues Cloud Pipeline's launcher started one by one, each with its own profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.core.policy import SwitchedOff
from autoscaler.errors import SettingsError
from autoscaler.settings import Settings, load_settings
from autoscaler.settings.queue_profiles import (
    Profile,
    composed,
    differing_profiles,
    first_queue,
    numbered,
    own_profile,
)

CONTAINER = {"API": "http://x/", "API_TOKEN": "secret-token", "RUN_ID": "1", "instance_size": "m5.large"}
MAIN = {
    "CP_CAP_SGE_QUEUE_NAME": "main.q",
    "CP_CAP_SGE_HOSTLIST_NAME": "@allhosts",
    "CP_CAP_SGE_QUEUE_STATIC": "true",
    "CP_CAP_SGE_QUEUE_DEFAULT": "true",
    "CP_CAP_AUTOSCALE": "true",
}
RUN = {"CP_CAP_AUTOSCALE_1": "true", "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large", "CP_CAP_AUTOSCALE_WORKERS_1": "9"}
SECOND = {
    "CP_CAP_SGE_QUEUE_NAME": "c5.large.q",
    "CP_CAP_SGE_HOSTLIST_NAME": "@c5.large.q",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.large",
    "CP_CAP_AUTOSCALE": "true",
}


def profile(*settings: Mapping[str, str]) -> Profile:
    values = {name: value for each in (RUN, *settings) for name, value in each.items()}
    return Profile(values["CP_CAP_SGE_QUEUE_NAME"], values)


def loaded(*profiles: Profile) -> Settings:
    return load_settings(composed({**CONTAINER, **RUN}, profiles, numbered(profiles, {})))


def test_each_queue_has_its_own_settings_and_inherits_none() -> None:
    settings = loaded(profile(MAIN, {"CP_CAP_AUTOSCALE_WORKERS": "7"}), profile(SECOND))
    assert {suffix: queue.queue for suffix, queue in settings.queues.items()} == {"": "main.q", "1": "c5.large.q"}
    assert [queue.workers for queue in settings.queues.values()] == [7, 3]
    assert [(queue.static, queue.default) for queue in settings.queues.values()] == [(True, True), (False, False)]
    assert settings.scales


def test_suffixed_variables_of_the_run_mean_nothing() -> None:
    settings = loaded(profile(MAIN))
    assert list(settings.queues) == [""]
    assert not any(name.endswith("_1") for name in own_profile({**CONTAINER, **RUN, **MAIN}))


def test_a_queue_that_is_not_scaled_is_watched() -> None:
    settings = loaded(profile(MAIN, {"CP_CAP_AUTOSCALE": "false"}), profile(SECOND))
    assert [queue.watch_only for queue in settings.queues.values()] == [True, False]
    arrays = settings.policy(master="master").node_arrays
    assert [array.limits.max_workers for array in arrays] == [0, 3]
    off, on = (array.limits.switched_off for array in arrays)
    assert off == SwitchedOff("main.q", "autoscale", "CP_CAP_AUTOSCALE=false", "true", workers=3)
    assert on is None


def test_by_hand_a_queue_that_is_only_watched_names_the_setting_that_was_set() -> None:
    settings = load_settings({"CP_CAP_AUTOSCALE_PROVIDER": "local", "CP_CAP_AUTOSCALE_WATCH_ONLY": "true"})
    (array,) = settings.policy(master="master").node_arrays
    assert array.limits.switched_off is not None
    assert array.limits.switched_off.setting == "CP_CAP_AUTOSCALE_WATCH_ONLY=true"


def test_autoscaling_is_off_where_a_profile_does_not_switch_it_on() -> None:
    (queue,) = loaded(
        profile({name: text for name, text in MAIN.items() if name != "CP_CAP_AUTOSCALE"})
    ).queues.values()
    assert queue.watch_only


def test_without_the_first_queue_only_the_others_are_served() -> None:
    assert list(loaded(profile(SECOND)).queues) == ["1"]


@pytest.mark.parametrize(("first", "second", "dry"), (("true", "false", False), ("true", "true", True)))
def test_a_dry_run_beside_others_leaves_its_queue_out(first: str, second: str, *, dry: bool) -> None:
    name = "CP_CAP_AUTOSCALE_DRY_RUN"
    settings = loaded(profile(MAIN, {name: first}), profile(SECOND, {name: second}))
    assert settings.process.dry_run is dry
    assert len(settings.queues) == (2 if dry else 1)


def test_the_shortest_polling_delay_counts() -> None:
    name = "CP_CAP_AUTOSCALE_POLLING_DELAY"
    assert loaded(profile(MAIN, {name: "20"}), profile(SECOND, {name: "5"})).process.polling_delay == 5


def test_a_setting_of_the_whole_cell_is_that_of_the_first_queue_and_others_are_reported() -> None:
    profiles = profile(MAIN, {"CP_CAP_AUTOSCALE_TOTAL_WORKERS": "4"}), profile(SECOND)
    numbers = numbered(profiles, {})
    assert load_settings(composed(CONTAINER, profiles, numbers)).process.total_workers == 4
    ((queue, said),) = differing_profiles(profiles, numbers)
    assert queue == "c5.large.q"
    assert said.startswith("CP_CAP_AUTOSCALE_TOTAL_WORKERS holds for the whole cell: 4, as queue main.q has it")


def test_without_the_first_queue_settings_of_the_cell_are_those_of_the_lowest_suffix() -> None:
    """Not of the first of the alphabet: a queue that `sge create` makes later must not have them."""
    owner = {"CP_CAP_AUTOSCALE_JOB_OWNER": "project"}
    created = profile({**SECOND, "CP_CAP_SGE_QUEUE_NAME": "a.q", "CP_CAP_SGE_HOSTLIST_NAME": "@a.q"})
    profiles = created, profile(SECOND, owner)
    numbers = numbered(profiles, {})
    assert first_queue(profiles, numbers) == ("c5.large.q", False)
    assert load_settings(composed(CONTAINER, profiles, numbers)).process.job_owner == "project"
    assert first_queue((*profiles, profile(MAIN)), numbered((*profiles, profile(MAIN)), {})) == ("main.q", True)


RENAMED = {**MAIN, "CP_CAP_SGE_QUEUE_NAME": "front-1.q", "CP_CAP_SGE_HOSTLIST_NAME": "@frontHosts"}
"""The first queue of a run that gives it a name and a host group of its own."""


@pytest.mark.parametrize("first", (RENAMED, {**RENAMED, "CP_CAP_SGE_HOSTLIST_NAME": "@front-1.q"}))
def test_a_first_queue_with_a_name_and_host_group_of_its_own_is_the_first(first: Mapping[str, str]) -> None:
    """Its settings of the whole cell hold, wherever its name stands in the alphabet, and although another has some."""
    own = {"CP_CAP_AUTOSCALE_TOTAL_WORKERS": "1", "CP_CAP_AUTOSCALE_JOB_OWNER": "project"}
    created = profile({**SECOND, "CP_CAP_SGE_QUEUE_NAME": "a.q", "CP_CAP_SGE_HOSTLIST_NAME": "@a.q"})
    profiles = created, profile(SECOND, {"CP_CAP_AUTOSCALE_TOTAL_WORKERS": "8"}), profile(first, own)
    settings = loaded(*profiles)
    assert settings.queues[""].queue == "front-1.q"
    assert (settings.process.total_workers, settings.process.job_owner) == (1, "project")


def test_a_first_queue_that_was_numbered_as_another_still_has_the_settings_of_the_cell() -> None:
    profiles = profile(SECOND), profile(RENAMED, {"CP_CAP_AUTOSCALE_JOB_OWNER": "project"})
    numbers = numbered(profiles, {"front-1.q": "4711"})
    assert load_settings(composed(CONTAINER, profiles, numbers)).process.job_owner == "project"


def test_a_queue_that_only_inherits_that_it_is_static_is_not_the_first() -> None:
    """The platform's generator gives further queues all that the run says of the first."""
    both = {"CP_CAP_SGE_QUEUE_STATIC": "true", "CP_CAP_SGE_QUEUE_DEFAULT": "true"}
    created = profile({**SECOND, **both, "CP_CAP_SGE_QUEUE_NAME": "a.q", "CP_CAP_SGE_HOSTLIST_NAME": "@a.q"})
    numbers = numbered([created, profile(SECOND, both), profile(MAIN)], {})
    assert [queue for queue, number in numbers.items() if not number] == ["main.q"]
    assert numbers["c5.large.q"] == "1"


@pytest.mark.parametrize("name", ("TOTAL_WORKERS", "TOTAL_CORES", "TOTAL_PRICE_PER_HOUR", "BUDGET"))
def test_the_least_limit_of_the_whole_cell_holds_whichever_queue_has_it(name: str) -> None:
    name = f"CP_CAP_AUTOSCALE_{name}"
    profiles = profile(MAIN, {name: "10"}), profile(SECOND, {name: "9"})
    numbers = numbered(profiles, {})
    assert composed(CONTAINER, profiles, numbers)[name] == "9"
    ((queue, said),) = differing_profiles(profiles, numbers)
    assert queue == "main.q"
    assert (
        said == f"{name} holds for the whole cell: 9, as queue c5.large.q has it, the least of all; queue main.q has 10"
    )


def test_what_a_queue_says_of_the_whole_cell_holds_while_its_process_is_away() -> None:
    """As while `sge configure` verifies its profile, or after a kill: otherwise a cap would be lifted meanwhile."""
    name = "CP_CAP_AUTOSCALE_TOTAL_WORKERS"
    first = replace(profile(MAIN, {name: "1", "CP_CAP_AUTOSCALE_JOB_OWNER": "project"}), away=True)
    profiles = profile(SECOND, {name: "5"}), first
    settings = load_settings(composed(CONTAINER, profiles, numbered(profiles, {})))
    assert (settings.process.total_workers, settings.process.job_owner) == (1, "project")
    assert [queue.queue for queue in settings.queues.values()] == ["c5.large.q"], "it is not served"
    said = dict(differing_profiles(profiles, numbered(profiles, {})))
    assert said.keys() == {"c5.large.q"}
    assert "as queue main.q, whose process is away, has it" in said["c5.large.q"]


def test_a_limit_of_the_whole_cell_that_is_no_number_is_refused_and_not_passed_over() -> None:
    name = "CP_CAP_AUTOSCALE_TOTAL_WORKERS"
    with pytest.raises(SettingsError, match=name):
        loaded(profile(MAIN, {name: "4"}), profile(SECOND, {name: "few"}))


def test_a_command_that_is_not_set_is_not_that_of_the_first_queue() -> None:
    settings = loaded(profile(MAIN, {"CP_CAP_AUTOSCALE_CMD_TEMPLATE": "mine"}), profile(SECOND))
    commands = [settings.array_settings(array)["CP_CAP_AUTOSCALE_CMD_TEMPLATE"] for array in ("execute", "execute_1")]
    assert commands == ["mine", "sleep infinity"]


def test_workers_of_the_platforms_own_autoscaler_are_taken_over_by_queue() -> None:
    profiles = profile(MAIN), profile(SECOND)
    made = composed(CONTAINER, profiles, numbered(profiles, {}))
    assert made["CP_CAP_AUTOSCALE_CLOUD_PIPELINE_TAKE_OVER"] == "main.q=execute,c5.large.q=execute_1"


def test_secrets_stay_with_the_process_that_has_them() -> None:
    profiles = (profile(MAIN),)
    assert composed(CONTAINER, profiles, numbered(profiles, {}))["API_TOKEN"] == "secret-token"


def test_a_queue_keeps_its_number() -> None:
    """Its workers are tagged by it."""
    created = profile({**SECOND, "CP_CAP_SGE_QUEUE_NAME": "new.q"})
    numbers = numbered([profile(MAIN), profile(SECOND), created], {})
    assert numbers["main.q"] == ""
    assert numbers["c5.large.q"] == "1", "as the run's own variables number it, and `run` by hand does"
    assert numbered([created], numbers) == numbers
    assert numbered([created, profile(MAIN)], {})["new.q"] == numbers["new.q"], "also where nothing is remembered"


def test_a_queue_that_the_platforms_tool_numbers_by_the_time_has_a_shorter_number() -> None:
    created = profile({**SECOND, "CP_CAP_SGE_QUEUE_NAME": "new.q"}, {"CP_CAP_SGE_QUEUE_NAME_1795861234": "new.q"})
    (queue,) = loaded(created).queues.values()
    assert queue.queue == "new.q"


def test_two_queues_named_alike_have_numbers_of_their_own() -> None:
    first, second = profile(MAIN), profile(MAIN, {"CP_CAP_SGE_QUEUE_NAME": "other.q"})
    assert sorted(numbered([first, second], {}).values()) == ["", "1001"]


def test_cloud_pipeline_is_the_provider_in_the_container_of_a_run() -> None:
    assert load_settings(CONTAINER).process.provider == "cloud_pipeline"
    assert load_settings({**CONTAINER, "CP_CAP_AUTOSCALE_PROVIDER": "local"}).process.provider == "local"
    assert load_settings({"RUN_ID": "1"}).process.provider is None
