"""Rule files of a process: valid at its start, read again at every observation, kept as they were while invalid."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.constraints.library import read_rules
from autoscaler.constraints.rule_files import RuleFiles, document_of
from autoscaler.core.constraints.node import SizeFacts
from autoscaler.core.constraints.values import Size
from autoscaler.core.model.fleet import Fleet, InstanceType
from autoscaler.core.model.request_sets import ArrayDefinition, Requests
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.requests.arrays import in_force
from autoscaler.errors import SettingsError
from tests.core.building import GIB, a_bucket, a_machine, a_snapshot

SIZES = {
    "*": {"odd.gpu": {"family": "odd", "capabilities": {"vCPUs": 8, "vCPUsPerCore": 2, "MemoryGB": 32, "GPUs": 2}}},
    "here": {"odd.gpu": {"capabilities": {"vCPUs": 8, "MemoryGB": 32, "GPUs": 4, "RdmaEnabled": True}}},
}
ODD = InstanceType("odd.gpu", "odd", 8, 32 * GIB, gpus=1)


def files(folder: Path, rules: object = None, *, location: str = "") -> RuleFiles:
    """Those of a folder that has `rules` and SIZES."""
    path, sizes = folder / "rules.json", folder / "sizes.json"
    sizes.write_text(json.dumps(SIZES))
    if rules is not None:
        path.write_text(json.dumps(rules))
    return RuleFiles.load(None if rules is None else path, sizes, location=location)


def fleet(type_: InstanceType = ODD) -> Fleet:
    return a_snapshot(a_bucket(type_), a_machine("w1", type_=type_)).fleet


def test_wrong_rules_stop_the_start_with_file_and_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        files(tmp_path, {"apply": [{"queue": "main.q", "constraints": {"node.vmsize": "m5.large"}}]})
    message = "apply[0].constraints.node.vmsize: node.vmsize is not known; did you mean node.vm_size?"
    assert str(raised.value) == f"{tmp_path / 'rules.json'}: {message}"


def test_wrong_vm_sizes_stop_the_start_with_file_and_place(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"here": {"odd": {"capabilities": {"GPUs": "many"}}}}')
    with pytest.raises(SettingsError) as raised:
        RuleFiles.load(None, tmp_path / "own.json")
    assert str(raised.value).startswith(f"{tmp_path / 'own.json'}: here.odd.capabilities.GPUs: a number is expected")


def test_without_a_file_there_are_no_rules(tmp_path: Path) -> None:
    assert files(tmp_path).rules() is None


def test_changed_rules_are_read_at_the_next_reading(tmp_path: Path) -> None:
    ours = files(tmp_path, {"idle_timeout": 60})
    (tmp_path / "rules.json").write_text('{"idle_timeout": 90}')
    again = ours.rules()
    assert again is not None
    assert again.idle_timeout is not None
    assert again.idle_timeout.default == 90


def test_rules_that_become_invalid_stay_in_force_and_this_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = files(tmp_path, {"idle_timeout": 60})
    (tmp_path / "rules.json").write_text('{"idle_timeout": ')
    with caplog.at_level(logging.INFO, "autoscaler.rules"):
        found = [ours.rules() for _ in range(3)]
        (tmp_path / "rules.json").write_text('{"idle_timeout": 60}')
        ours.rules()
    assert all(rules is not None and rules.idle_timeout is not None for rules in found)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the former rules stay in force",
        "the changed rules apply now",
    ]


def test_a_missing_file_of_a_shared_resource_keeps_the_old_rules(tmp_path: Path) -> None:
    (tmp_path / "licences").write_text("5")
    shared = [{"name": "licences", "source": str(tmp_path / "licences"), "initial_value": 10}]
    ours = files(tmp_path, {"shared_resources": shared})
    (tmp_path / "licences").unlink()
    kept = ours.rules()
    assert kept is not None
    assert kept.shared["licences"].current_value == 5


@pytest.mark.parametrize(("location", "gpus"), (("", 2), ("here", 4), ("elsewhere", 2)))
def test_a_higher_gpu_count_in_the_file_overrides_the_provider(tmp_path: Path, location: str, gpus: int) -> None:
    found = files(tmp_path, location=location).sized(fleet())
    assert [found.buckets[0].type.gpus, found.workers[0].type.gpus] == [gpus, gpus]


def test_a_lower_gpu_count_in_the_file_changes_nothing(tmp_path: Path) -> None:
    result = fleet(replace(ODD, gpus=8))
    assert files(tmp_path).sized(result) == result


def test_a_size_known_to_the_provider_by_name_only_comes_from_the_file(tmp_path: Path) -> None:
    found = files(tmp_path).sized(fleet(InstanceType("odd.gpu", "odd", 0, 0)))
    assert found.buckets[0].type == InstanceType("odd.gpu", "odd", 8, 32 * GIB, gpus=2)


def test_an_unknown_size_is_left_out_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours, result = files(tmp_path), fleet(InstanceType("strange", "odd", 0, 0))
    assert [ours.sized(result).buckets for _ in range(2)] == [(), ()]
    assert len(caplog.records) == 1


def test_a_location_in_the_rules_overrides_that_of_the_provider(tmp_path: Path) -> None:
    found = files(tmp_path, {"location": "here"}, location="elsewhere").sized(fleet())
    assert found.buckets[0].type.gpus == 4


def test_sizes_in_the_rules_override_the_file(tmp_path: Path) -> None:
    rules = {"vm_sizes": {"odd.gpu": {"capabilities": {"GPUs": 7}}}}
    assert files(tmp_path, rules).sized(fleet()).buckets[0].type.gpus == 7


def test_rules_have_size_facts_that_no_provider_reports(tmp_path: Path) -> None:
    ours = files(tmp_path, {"location": "here"})
    rules = ours.facts(ours.rules(), fleet())
    assert rules is not None
    assert rules.facts["odd.gpu"] == SizeFacts(
        vcpu_count=8, memory=Size(32 * GIB), gpu_count=4, infiniband=True, vm_family=None
    )


def test_rules_read_back_from_their_document_without_any_file(tmp_path: Path) -> None:
    (tmp_path / "licences").write_text("5")
    (tmp_path / "version").write_text("1.2")
    ours = files(
        tmp_path,
        {
            "shared-resources": [
                {"name": "licences", "source": str(tmp_path / "licences"), "initial_value": "size::1k"},
                {"name": "version", "source": str(tmp_path / "version")},
            ],
            "apply": [{"user": "ann", "context": {"tier": "gold"}, "constraints": {"licences": 2, "version": "1.2"}}],
            "complexes": {"gpu": "ngpus"},
            "keep_alive": ["w1"],
            "location": "here",
        },
    )
    rules = ours.facts(ours.rules(), fleet())
    (tmp_path / "licences").unlink()
    (tmp_path / "version").unlink()
    document = document_of(rules)
    assert document is not None
    assert read_rules(document) == replace(rules, document=read_rules(document).document)  # type: ignore[type-var]


def test_a_toml_document_is_kept_as_json(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('constraints = [{ "node.create_time" = 2026-11-21T09:00:00+01:00 }]\n')
    rules = RuleFiles.load(tmp_path / "rules.toml").rules()
    document = document_of(rules)
    assert document is not None
    assert read_rules(document).constraints == rules.constraints  # type: ignore[union-attr]


def test_dynamic_arrays_have_the_timeouts_of_the_array_they_extend() -> None:
    snapshot = a_snapshot(idle_timeout=5)
    policy = under(read_rules('{"idle_timeout": {"default": 70, "execute": 90}}'), snapshot.policy)
    requests = Requests(arrays=(ArrayDefinition("big", dynamic=True, extends="execute"),))
    assert [array.idle_timeout for array in in_force(policy, requests).node_arrays] == [90, 90]
