"""Lists of node arrays as callers write them: their meaning, and how errors name their place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.constraints.request_documents import Caller, Update, ask, read_update, set_name_from
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.request_sets import ArrayDefinition, Target
from autoscaler.errors import SettingsError
from autoscaler.store.store import Store

ARRAYS = ("execute", "execute_1")
NEW = {"Name": "new", "Dynamic": True}


def read(*elements: Mapping[str, Any], dynamic: Mapping[str, ArrayDefinition] | None = None) -> Update:
    return read_update(list(elements), node_arrays=ARRAYS, dynamic=dynamic or {})


def defined(**given: Any) -> ArrayDefinition:
    (definition,) = read({"Name": "execute", **given}).definitions
    return definition


def error_in(*elements: Mapping[str, Any], dynamic: Mapping[str, ArrayDefinition] | None = None) -> str:
    with pytest.raises(SettingsError) as raised:
        read(*elements, dynamic=dynamic)
    return str(raised.value)


@pytest.mark.parametrize(
    ("given", "target"),
    (
        ({"TargetCount": 3}, Target("execute", count=3)),
        ({"TargetCount": 0}, Target("execute", count=0)),
        ({"TargetCoreCount": 128}, Target("execute", cores=128)),
        ({"TargetCoreCount": 128.0}, Target("execute", cores=128)),
        ({"TargetGroupCount": 4, "GroupCoreCount": 64}, Target("execute:64", groups=4, group_cores=64)),
        ({"TargetGroupCount": 4, "GroupInstanceCount": 16}, Target("execute:16", groups=4, group_count=16)),
    ),
)
def test_a_target_counts_workers_vcpus_or_groups(given: dict[str, Any], target: Target) -> None:
    assert read({"Name": "execute", **given}).targets == (target,)


def test_an_array_may_be_named_without_a_target() -> None:
    assert read({"Name": "execute"}) == Update((), (ArrayDefinition("execute"),))


def test_an_empty_list_requests_nothing() -> None:
    assert read() == Update()


@pytest.mark.parametrize(
    ("given", "types"),
    (
        ("m5.large", ("m5.large",)),
        ("m5.large, m5.xlarge", ("m5.large", "m5.xlarge")),
        (["m5.xlarge", "m5.large"], ("m5.xlarge", "m5.large")),
        (["m5.large", "m5.large"], ("m5.large",)),
        (None, ()),
    ),
)
def test_machine_types_keep_their_order(given: Any, types: tuple[str, ...]) -> None:
    assert defined(MachineType=given).machine_types == types


@pytest.mark.parametrize(("given", "price_type"), ((True, PriceType.SPOT), (False, PriceType.ON_DEMAND), (None, None)))
def test_interruptible_means_spot(given: Any, price_type: PriceType | None) -> None:
    assert defined(Interruptible=given).price_type is price_type


def test_limits_and_configuration_are_read() -> None:
    found = defined(MaxCount=5, MaxCoreCount=40, Configuration={"a": {"b": [1, None]}})
    assert (found.max_count, found.max_cores, json.loads(found.configuration)) == (5, 40, {"a": {"b": [1, None]}})


def test_a_health_check_is_chosen_by_name() -> None:
    assert (defined(HealthCheck="gpu.sh").health_check, defined().health_check) == ("gpu.sh", None)


def test_any_other_attribute_is_kept_unchanged() -> None:
    found = defined(SubnetId="a/b/c", custom_setting={"x": 1.5}, CoreCount=4)
    assert json.loads(found.attributes) == {
        "SubnetId": "a/b/c",
        "custom_setting": {"x": 1.5},
        "CoreCount": 4,
    }


@pytest.mark.parametrize("given", (True, False, None))
def test_keepalive_is_read(given: bool | None) -> None:
    assert defined(KeepAlive=given).keep_alive == (() if given is None else (("standard", given),))


def test_with_groups_keepalive_applies_to_the_array_of_the_groups() -> None:
    update = read({"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 4, "KeepAlive": True})
    assert {each.name: each.keep_alive for each in update.definitions} == {
        "execute": (),
        "execute:4": (("standard", True),),
    }


def test_a_dynamic_array_names_the_array_it_extends() -> None:
    assert read({**NEW, "Extends": "execute", "TargetCount": 1}).definitions == (
        ArrayDefinition("new", dynamic=True, extends="execute"),
    )


def test_a_dynamic_array_may_extend_a_later_one_of_the_list() -> None:
    found = read({**NEW, "Extends": "base"}, {"Name": "base", "Dynamic": True})
    assert [array.extends for array in found.definitions] == ["base", None]


def test_an_existing_dynamic_array_is_updated_like_others() -> None:
    there = {"new": ArrayDefinition("new", dynamic=True)}
    assert read({"Name": "new", "TargetCount": 2}, dynamic=there).targets == (Target("new", count=2),)


def test_groups_define_an_array_of_their_size_and_do_not_change_their_base() -> None:
    found = read({"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 64, "MachineType": "m5.xlarge"})
    of_groups = ArrayDefinition("execute:64", True, "execute", machine_types=("m5.xlarge",), group_cores=64)
    assert found.definitions == (ArrayDefinition("execute"), of_groups)


def test_groups_of_a_new_dynamic_array_define_both() -> None:
    found = read({**NEW, "Extends": "execute", "TargetGroupCount": 1, "GroupInstanceCount": 2})
    assert [(array.name, array.extends, array.group_count) for array in found.definitions] == [
        ("new", "execute", None),
        ("new:2", "new", 2),
    ]


def test_one_array_may_have_targets_for_several_group_sizes_and_for_workers() -> None:
    sized = [{"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": cores} for cores in (64, 128)]
    found = read(*sized, {"Name": "execute", "TargetCount": 2, "MaxCount": 9})
    assert (
        [target.node_array for target in found.targets],
        [(array.name, array.max_count) for array in found.definitions],
    ) == (
        ["execute:64", "execute:128", "execute"],
        [("execute", 9), ("execute:64", None), ("execute:128", None)],
    )


@pytest.mark.parametrize(
    ("elements", "error"),
    (
        ([{"TargetCount": 1}], "[0]: Name is missing: give the name of the node array"),
        ([{"Name": ""}], "[0].Name: text is expected, not ''"),
        ([{"Name": 5}], "[0].Name: text is expected, not 5"),
        ([{"Name": "a b"}], "[0].Name: 'a b' is not a name: use up to 64 letters, digits and any of _ . - + : @"),
        (
            [{"Name": "execute:64", "TargetCount": 1}],
            "[0].Name: execute:64 is an array of groups: name execute, with TargetGroupCount and GroupCoreCount",
        ),
        *(
            (
                [{"Name": "execute", "HealthCheck": given}],
                f"[0].HealthCheck: {given!r} is not a health check: name a file of the directory of health checks",
            )
            for given in ("/bin/sh", "../sh", "..", "a b", "a\n")
        ),
        ([{}, "x"], "[1]: an object is expected, not 'x'"),
        (
            [{"Name": "execute"}, {"Name": "execute_1", "TargetCount": -1}],
            "[1].TargetCount: a whole number from 0 to 1000000 is expected, not -1",
        ),
        (
            [{"Name": "execute", "TargetCoreCount": "128"}],
            "[0].TargetCoreCount: a whole number from 0 to 1000000 is expected, not '128'",
        ),
        (
            [{"Name": "execute", "TargetCount": True}],
            "[0].TargetCount: a whole number from 0 to 1000000 is expected, not True",
        ),
        (
            [{"Name": "execute", "TargetCount": float("inf")}],
            "[0].TargetCount: a whole number from 0 to 1000000 is expected, not inf",
        ),
        (
            [{"Name": "execute", "TargetCount": 1, "TargetCoreCount": 4}],
            "[0].TargetCoreCount: TargetCount is given too: give only one of them",
        ),
        (
            [{"Name": "execute", "TargetGroupCount": 4}],
            "[0].TargetGroupCount: give the size of a group as GroupCoreCount or ",
        ),
        (
            [{"Name": "execute", "TargetGroupCount": 4, "GroupCoreCount": 0}],
            "[0].GroupCoreCount: a whole number from 1 to 1000000 is expected, not 0",
        ),
        (
            [{"Name": "execute", "TargetGroupCount": 4, "GroupCoreCount": 4, "GroupInstanceCount": 4}],
            "[0].GroupInstanceCount: GroupCoreCount is given too: give only one of them as the size of a group",
        ),
        (
            [{"Name": "execute", "GroupCoreCount": 4}],
            "[0].GroupCoreCount: give the number of groups as TargetGroupCount",
        ),
        ([{"Name": "execute", "TargetCont": 4}], "[0].TargetCont: it is not known; did you mean TargetCount?"),
        ([{"Name": "execute", "targetcount": 4}], "[0].targetcount: it is not known; did you mean TargetCount?"),
        ([{"name": "execute"}], "[0].name: it is not known; did you mean Name?"),
        ([{"Name": "execute", "machine_type": "x"}], "[0].machine_type: it is not known; did you mean MachineType?"),
        ([{"Name": "execute", "MachineType": []}], "[0].MachineType: name at least one machine type, or leave it out"),
        ([{"Name": "execute", "MachineType": ["a", 3]}], "[0].MachineType[1]: text is expected, not 3"),
        ([{"Name": "execute", "MachineType": "a\ud800"}], "[0].MachineType: 'a\\ud800' is not a machine type"),
        ([{"Name": "execute", "MachineType": "a,,b"}], "[0].MachineType[1]: text is expected, not ''"),
        ([{"Name": "execute", "Interruptible": 2}], "[0].Interruptible: true or false is expected, not 2"),
        ([{"Name": "execute", "Configuration": [1]}], "[0].Configuration: an object is expected, not a list"),
        (
            [{"Name": "execute", "Configuration": {"a": float("nan")}}],
            "[0].Configuration: it cannot be kept as JSON: ",
        ),
        ([{"Name": "execute", "x": object()}], "[0]: it cannot be kept as JSON: "),
        (
            [{"Name": "exceute", "TargetCount": 1}],
            "[0].Name: there is no node array 'exceute'; did you mean execute?; to make it, say Dynamic: true",
        ),
        (
            [{"Name": "gpu"}],
            "[0].Name: there is no node array 'gpu'; known are execute, execute_1; to make it, say Dynamic: true",
        ),
        (
            [{"Name": "execute", "Dynamic": True}],
            "[0].Dynamic: execute is an array of the settings: leave it out, or use another name",
        ),
        ([{"Name": "execute", "Extends": "execute_1"}], "[0].Extends: execute is an array of the settings and extends"),
        ([{**NEW, "Extends": "exe"}], "[0].Extends: there is no node array 'exe'; did you mean execute?"),
        ([{**NEW, "Extends": "new"}], "[0].Extends: new would extend itself"),
        (
            [{**NEW, "Extends": "b"}, {"Name": "b", "Dynamic": True, "Extends": "new"}],
            "[0].Extends: new would extend itself",
        ),
        (
            [{"Name": "execute", "TargetCount": 1}, {"Name": "execute", "TargetCount": 2}],
            "[1]: execute is named twice: give each array once, with one target",
        ),
        (
            [{"Name": "execute", "MaxCount": 1}, {"Name": "execute", "MaxCount": 2}],
            "[1]: execute is named twice: give each array once, with all its attributes",
        ),
    ),
)
def test_an_error_names_its_place(elements: list[Any], error: str) -> None:
    assert error_in(*elements).startswith(error)


def test_a_cycle_through_existing_arrays_is_refused() -> None:
    there = {"b": ArrayDefinition("b", dynamic=True, extends="new")}
    assert error_in({**NEW, "Extends": "b"}, dynamic=there) == "[0].Extends: new would extend itself"


@pytest.mark.parametrize(
    ("value", "error"),
    (
        ({"Name": "execute"}, "the arrays: a list is expected, not one object: put it in brackets, as in [{…}]"),
        ("execute", "the arrays: a list is expected, not 'execute'"),
        ([{"Name": "execute"}] * 1001, "the arrays: 1001 are more than the 1000 that one update may name"),
    ),
)
def test_anything_but_a_list_of_arrays_is_refused(value: Any, error: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_update(value, node_arrays=ARRAYS)
    assert str(raised.value) == error


@pytest.mark.parametrize("name", ("queue", "policy:warm", "", "a\nb", "x" * 129, 3))
def test_reserved_or_invalid_set_names_are_refused(name: Any) -> None:
    with pytest.raises(SettingsError, match=r"^request_set: "):
        set_name_from(name)


def test_a_policy_may_use_only_set_names_with_its_prefix() -> None:
    assert set_name_from("policy:warm", of_policy=True) == "policy:warm"
    with pytest.raises(SettingsError):
        set_name_from("warm", of_policy=True)


@pytest.mark.parametrize("interval", (0, -1, float("nan"), float("inf"), True, "300"))
def test_an_invalid_expiration_interval_is_refused(interval: Any) -> None:
    with pytest.raises(SettingsError, match=r"^expiration_interval: "):
        ask(Store.open(None), [], Caller("root", 0.0, ARRAYS), expiration_interval=interval)


def test_by_default_a_request_holds_for_five_minutes_in_the_set_standard() -> None:
    store = Store.open(None)
    ask(store, [{"Name": "execute", "TargetCount": 1}], Caller("root", 10.0, ARRAYS))
    (standard,) = store.requests.load(11.0).sets
    assert (standard.name, standard.expires_at) == ("standard", 310.0)


def test_a_list_with_an_error_changes_nothing() -> None:
    store = Store.open(None)
    ask(store, [{"Name": "execute", "TargetCount": 1}], Caller("root", 10.0, ARRAYS))
    before = store.requests.load(11.0)
    wrong = [{"Name": "execute", "TargetCount": 5}, {"Name": "execute_1", "TargetCount": -5}]
    with pytest.raises(SettingsError, match=r"^\[1\]\.TargetCount"):
        ask(store, wrong, Caller("root", 11.0, ARRAYS))
    assert store.requests.load(11.0) == before


def test_groups_sized_in_vcpus_and_in_workers_share_an_array_of_that_size() -> None:
    found = read(
        {"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 16},
        {"Name": "execute", "TargetGroupCount": 2, "GroupInstanceCount": 16},
    )
    sizes = {each.name: (each.group_cores, each.group_count) for each in found.definitions}
    assert (found.targets, sizes) == (
        (Target("execute:16", groups=1, group_cores=16), Target("execute:16", groups=2, group_count=16)),
        {"execute": (None, None), "execute:16": (16, 16)},
    )


def test_groups_that_share_an_array_must_have_the_same_attributes() -> None:
    other = {"Name": "execute", "TargetGroupCount": 2, "GroupInstanceCount": 16, "MachineType": "m5.large"}
    result = error_in(
        {"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 16, "MachineType": "m5.xlarge"}, other
    )
    assert result.startswith("[1]: execute:16 is named twice")


TOO_MUCH = {"a": "x" * 8192}


@pytest.mark.parametrize(
    ("elements", "error"),
    (
        ([{"Name": "execute_1"}, {"Name": "execute", "Configuration": TOO_MUCH}], "[1].Configuration: it would have "),
        ([{"Name": "execute"}, {"Name": "execute", "Configuration": TOO_MUCH}], "[1].Configuration: it would have "),
        ([{"Name": "execute", "own": "x" * 65536}], "[0]: all other attributes would have "),
    ),
)
def test_a_definition_that_cannot_be_stored_is_refused_with_its_place(elements: list[Any], error: str) -> None:
    store = Store.open(None)
    groups = {"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 16}
    ask(store, [groups], Caller("root", 0.0, ARRAYS))
    with pytest.raises(SettingsError, match=f"^{re.escape(error)}"):
        ask(store, elements, Caller("root", 1.0, ARRAYS))


def test_a_reserved_set_name_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^request_set: "):
        ask(Store.open(None), [], Caller("root", 0.0, ARRAYS), request_set="queue")


def test_a_dynamic_array_is_known_to_updates_of_other_sets() -> None:
    store = Store.open(None)
    ask(store, [NEW], Caller("root", 0.0, ARRAYS))
    ask(store, [{"Name": "new", "TargetCount": 2}], Caller("root", 1.0, ARRAYS), request_set="other")
    assert [one.name for one in store.requests.load(2.0).sets] == ["other", "standard"]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
numbers = st.integers(-1, 70) | scalars
arrays = st.fixed_dictionaries(
    {"Name": st.sampled_from(("execute", "execute_1", "new", "newer", "execute:64")) | scalars},
    optional={
        **dict.fromkeys(("TargetCount", "TargetCoreCount", "TargetGroupCount", "MaxCount", "MaxCoreCount"), numbers),
        **dict.fromkeys(("GroupCoreCount", "GroupInstanceCount"), numbers),
        "MachineType": st.lists(st.text(), max_size=3) | scalars,
        "Configuration": st.dictionaries(st.text(), values, max_size=3) | scalars,
        "Extends": st.sampled_from(("execute", "new", "newer")) | scalars,
        "Dynamic": scalars,
        "Interruptible": scalars,
        "HealthCheck": scalars,
        "other": values,
    },
)


@given(st.lists(st.lists(arrays, max_size=3) | values, max_size=4))
def test_an_update_is_stored_completely_or_refused_with_its_place(updates: list[Any]) -> None:
    """A stored update can also be read back after a restart."""
    store = Store.open(None)
    kept = Update()
    for number, update in enumerate(updates):
        before = store.requests.load(1.0)
        try:
            kept = ask(store, update, Caller("root", 0.0, ARRAYS), request_set=f"set {number}")
        except SettingsError as error:
            json.dumps(str(error)).encode()
            assert store.requests.load(1.0) == before
            continue
        (mine,) = (each for each in store.requests.load(1.0).sets if each.name == f"set {number}")
        assert mine.targets == kept.targets
    store.close()
