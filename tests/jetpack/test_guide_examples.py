"""Every call that CycleCloud's guide to autoscaling shows, with one import line changed, and the requests it makes.

The guide exists in two editions. One of them lost the ends of its examples: those are syntax errors; with
their ends completed they do what those of the other edition do.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoscaler import jetpack
from autoscaler.constraints.json_text import read_json
from autoscaler.constraints.request_documents import read_update
from autoscaler.core.model.request_sets import ArrayDefinition, Target
from autoscaler.errors import SettingsError
from autoscaler.store.store import Store

IMPORT = "from autoscaler import jetpack\n"

CORES = """
jetpack.autoscale.set(name='execute', corecount=128)
"""
LIST = """
array = {
    'Name': 'execute',
    'TargetCoreCount': 128
}
jetpack.autoscale.update([array])
"""
DEFINED = """
array = {
    'Name': 'execute',
    'TargetCoreCount': 128,
    'MachineType': "%s",
    'Configuration': {
        'custom_setting': 123
    }
}
jetpack.autoscale.update([array])
"""
DYNAMIC = """
execute = {
    'Name': 'execute',
    'TargetCoreCount': 128
}
dynamic = {
    'Name': 'dynamic_array',
    'Extends': 'execute',
    'TargetCount': 3,
    'Configuration': {
        'application_version': '1.2.3'
    },
    'Dynamic': True
}
jetpack.autoscale.update([execute, dynamic])
"""
GROUPS = """
array = {
    'Name': 'execute',
    'TargetGroupCount': 4,
    'GroupCoreCount': 64,
    'MachineType': "%s"
}
jetpack.autoscale.update([array])
"""
BROKEN_LIST = """
array = {
    'Name': 'execute',
    'TargetCoreCount': 128
"""
BROKEN_DEFINED = """
array = {
    'Name': 'execute',
    'TargetCoreCount': 128,
    'MachineType': "Standard_D4v3",
    'Configuration': {
        'custom_setting': 123
"""
BROKEN_DYNAMIC = """
execute = {
    'Name': 'execute',
    'TargetCoreCount': 128
dynamic = {
    'Name': 'dynamic_array',
    'Extends': 'execute',
    'TargetCount': 3,
    'Configuration': {
        'application_version': '1.2.3'
    'Dynamic': True
jetpack.autoscale.update([execute, dynamic])
"""
BROKEN_GROUPS = """
array = {
    'Name': 'execute',
    'TargetGroupCount': 4,
    'GroupCoreCount': 64,
    'MachineType': "Standard_D4v3"
"""


def run(script: str) -> None:
    exec(compile(IMPORT + script, "script", "exec"), {})


def stored(store: Store) -> tuple[tuple[Target, ...], tuple[ArrayDefinition, ...]]:
    found = store.requests.load(1001.0)
    return found.sets[0].targets, found.arrays


@pytest.mark.parametrize("script", (CORES, LIST))
def test_a_number_of_cores_is_requested_of_an_array(service: Store, script: str) -> None:
    run(script)
    assert stored(service) == ((Target("execute", cores=128),), (ArrayDefinition("execute"),))


@pytest.mark.parametrize("machine_type", ("Standard_D4v3", "c3.xlarge"))
def test_a_definition_is_stored_with_the_request(service: Store, machine_type: str) -> None:
    run(DEFINED % machine_type)
    targets, (array,) = stored(service)
    assert (targets, array.machine_types, json.loads(array.configuration)) == (
        (Target("execute", cores=128),),
        (machine_type,),
        {"custom_setting": 123},
    )


def test_a_dynamic_array_is_made_beside_the_one_it_extends(service: Store) -> None:
    run(DYNAMIC)
    targets, (dynamic, execute) = stored(service)
    assert (targets, dynamic.name, dynamic.dynamic, dynamic.extends, json.loads(dynamic.configuration), execute) == (
        (Target("execute", cores=128), Target("dynamic_array", count=3)),
        "dynamic_array",
        True,
        "execute",
        {"application_version": "1.2.3"},
        ArrayDefinition("execute"),
    )


@pytest.mark.parametrize("machine_type", ("Standard_D4v3", "c3.xlarge"))
def test_groups_are_requested_of_the_array_of_their_size(service: Store, machine_type: str) -> None:
    run(GROUPS % machine_type)
    targets, (_, grouped) = stored(service)
    assert (targets, grouped.name, grouped.extends, grouped.machine_types, grouped.group_cores) == (
        (Target("execute:64", groups=4, group_cores=64),),
        "execute:64",
        "execute",
        (machine_type,),
        64,
    )


def test_groups_may_be_sized_in_instances(service: Store) -> None:
    run((GROUPS % "Standard_D4v3").replace("'GroupCoreCount': 64", "'GroupInstanceCount': 16"))
    assert stored(service)[0] == (Target("execute:16", groups=4, group_count=16),)


def test_groups_of_another_size_are_another_array(service: Store) -> None:
    sizes = "[{'Name': 'execute', 'TargetGroupCount': 1, 'GroupCoreCount': cores} for cores in (64, 128)]"
    run(f"jetpack.autoscale.update({sizes})")
    assert [target.node_array for target in stored(service)[0]] == ["execute:64", "execute:128"]


def test_several_machine_types_keep_their_order(service: Store) -> None:
    run((GROUPS % "x").replace('"x"', "['c3.8xlarge', 'c3.4xlarge']"))
    assert stored(service)[1][1].machine_types == ("c3.8xlarge", "c3.4xlarge")


def test_an_array_that_is_no_longer_named_is_flagged(service: Store) -> None:
    run(DYNAMIC)
    run(LIST)
    assert [(array.name, array.requested) for array in stored(service)[1]] == [
        ("dynamic_array", False),
        ("execute", True),
    ]


def test_a_dynamic_array_of_one_set_is_not_changed_by_another(service: Store) -> None:
    run(DYNAMIC)
    run("jetpack.autoscale.update([{'Name': 'execute', 'TargetCount': 1}], request_set='other')")
    assert [array.requested for array in stored(service)[1]] == [True, True]


def test_the_caller_chooses_set_and_interval(service: Store) -> None:
    run("jetpack.autoscale.update([], request_set='nightly', expiration_interval=7200)")
    (nightly,) = service.requests.load(1001.0).sets
    assert (nightly.name, nightly.expires_at) == ("nightly", 8200.0)


def test_an_update_lapses_after_five_minutes(service: Store) -> None:
    run(CORES)
    assert [len(service.requests.load(now).sets) for now in (1299.9, 1300.0)] == [1, 0]


@pytest.mark.parametrize(
    ("script", "line"), ((BROKEN_LIST, 3), (BROKEN_DEFINED, 7), (BROKEN_DYNAMIC, 5), (BROKEN_GROUPS, 3))
)
def test_an_example_without_its_end_is_a_syntax_error_at_its_line(service: Store, script: str, line: int) -> None:
    with pytest.raises(SyntaxError) as raised:
        run(script)
    assert (raised.value.lineno, service.requests.load(1001.0).sets) == (line, ())


@pytest.mark.parametrize(
    ("script", "end", "whole"),
    (
        (BROKEN_LIST, "}\njetpack.autoscale.update([array])", LIST),
        (BROKEN_DEFINED, "}}\njetpack.autoscale.update([array])", DEFINED % "Standard_D4v3"),
        (BROKEN_GROUPS, "}\njetpack.autoscale.update([array])", GROUPS % "Standard_D4v3"),
    ),
)
def test_an_example_with_its_end_completed_does_the_same(service: Store, script: str, end: str, whole: str) -> None:
    run(script + end)
    repaired = stored(service)
    run(whole)
    assert stored(service) == repaired


def test_the_example_with_missing_brackets_does_the_same_when_completed(service: Store) -> None:
    completed = (
        BROKEN_DYNAMIC.replace("128\n", "128}\n").replace("'1.2.3'\n", "'1.2.3'},\n").replace("True\n", "True}\n")
    )
    run(completed)
    repaired = stored(service)
    run(DYNAMIC)
    assert stored(service) == repaired


def _as_json(script: str) -> str:
    """The list of arrays that a script holds, as JSON, broken where it is broken."""
    body = script.split("jetpack")[0].replace("'", '"').replace("True", "true")
    for name in ("array", "execute", "dynamic"):
        body = body.replace(f"\n{name} = {{", ",\n{")
    return "[" + body.removeprefix(",") + "]"


@pytest.mark.parametrize(
    ("script", "place"),
    (
        (BROKEN_LIST, "[0].TargetCoreCount: "),
        (BROKEN_DEFINED, "[0].Configuration.custom_setting: "),
        (BROKEN_DYNAMIC, "[0]: "),
        (BROKEN_GROUPS, "[0].MachineType: "),
    ),
)
def test_a_broken_example_as_json_is_an_error_with_key_and_line(script: str, place: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_json(_as_json(script))
    assert (str(raised.value)[: len(place)], "(line " in str(raised.value)) == (place, True)


@pytest.mark.parametrize("script", (LIST, DEFINED % "c3.xlarge", DYNAMIC, GROUPS % "c3.xlarge"))
def test_a_complete_example_as_json_requests_the_same(service: Store, script: str) -> None:
    run(script)
    assert read_update(read_json(_as_json(script)), node_arrays=("execute",)).targets == stored(service)[0]


@pytest.mark.parametrize(
    ("jobs", "targets"),
    (
        ([{"name": "1", "nodearray": "execute", "request_cpus": 4}, {"name": "2"}], (Target("execute", cores=5),)),
        (
            [{"nodearray": "execute", "request_cpus": 8, "grouped": True}] * 2,
            (Target("execute:8", groups=2, group_cores=8),),
        ),
        ([], ()),
    ),
)
def test_requests_of_jobs_are_summed(
    service: Store, jobs: list[dict[str, object]], targets: tuple[Target, ...]
) -> None:
    jetpack.autoscale.scale_by_jobs(jobs)
    assert stored(service)[0] == targets


def test_definitions_are_stored_with_the_requests_of_jobs(service: Store) -> None:
    jobs = [{"nodearray": "execute", "request_cpus": 2}]
    jetpack.autoscale.scale_by_jobs(jobs, [{"Name": "execute", "MaxCount": 3}])
    assert stored(service)[1][0].max_count == 3


def test_an_error_names_the_key_and_changes_nothing(service: Store) -> None:
    run(CORES)
    before = stored(service)
    with pytest.raises(jetpack.autoscale.Rejected, match=r"^\[1\]\.TargetCount: a whole number"):
        jetpack.autoscale.update([{"Name": "execute"}, {"Name": "execute", "TargetCount": "three"}])
    assert stored(service) == before


def test_one_array_without_a_list_is_an_error_with_a_remedy(service: Store) -> None:
    with pytest.raises(jetpack.autoscale.Rejected, match="put it in brackets"):
        run("jetpack.autoscale.update({'Name': 'execute', 'TargetCount': 1})")


@pytest.mark.parametrize("arrays", (None, "execute", 3))
def test_a_value_that_is_not_a_list_is_refused(service: Store, arrays: Any) -> None:
    with pytest.raises(jetpack.autoscale.Rejected, match="the arrays: a list is expected"):
        jetpack.autoscale.update(arrays)


def test_an_array_without_a_number_is_refused_and_changes_nothing(service: Store) -> None:
    run(CORES)
    before = stored(service)
    with pytest.raises(jetpack.autoscale.Rejected, match="execute: give corecount or count"):
        jetpack.autoscale.set(name="execute")
    assert stored(service) == before


def test_a_value_that_is_not_json_is_refused_by_the_client(service: Store) -> None:
    with pytest.raises(jetpack.autoscale.Rejected, match="cannot be written as JSON"):
        jetpack.autoscale.update([{"Name": "execute", "Configuration": {"x": object()}}])
