"""VM sizes: our file, a user's own, proxy regions, and differences from what a provider reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoscaler.constraints.library import candidates_of, read_rules
from autoscaler.constraints.vm_sizes import load_vm_sizes, vm_sizes_from
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType
from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import load_catalog

GIB = 1024**3
OWN = {
    "proxied_locations": {"_comment_": "as you like", "usgov": "eastus"},
    "eastus": {"NC6": {"family": "standardNCFamily", "capabilities": {"vCPUs": "6", "MemoryGB": "56", "GPUs": "1"}}},
    "westus2": {"NC6": {"capabilities": {"vCPUs": 6, "vCPUsAvailable": 4, "MemoryGB": 0.75, "RdmaEnabled": "True"}}},
    "*": {"F2": {"capabilities": {"vCPUs": 2, "vCPUsPerCore": 2, "MemoryGB": 4}}},
}  # fmt: skip
SIZES = vm_sizes_from(OWN)
REPORTED = InstanceType("NC6", "NC", 6, 50 * GIB, gpus=0, arch="lx-arm64")


def test_our_size_file_agrees_with_the_catalogue() -> None:
    ours = load_vm_sizes()
    azure = {name: offer.type for name, offer in load_catalog().offers.items() if offer.cloud == "azure"}
    found = {name: ours.type_of("anywhere", name) for name in azure}
    assert {name: (one.vcpus, one.memory, one.gpus) for name, one in found.items() if one} == {
        name: (one.vcpus, one.memory, one.gpus) for name, one in azure.items()
    }


@pytest.mark.parametrize("location", ("eastus", "westus2", "southcentralus", "usgovvirginia", "usdodeast"))
def test_our_size_file_has_the_sizes_of_cyclecloud_examples_in_their_regions(location: str) -> None:
    names = ("F2", "F16", "NC6", "E32_v3", "D4_v3", "F32s_v2", "HC44rs")
    found = [load_vm_sizes().type_of(location, f"Standard_{name}") for name in names]
    assert [(one.vcpus, one.memory // GIB, one.gpus) for one in found if one] == [
        (2, 4, 0), (16, 32, 0), (6, 56, 1), (32, 256, 0), (4, 16, 0), (32, 64, 0), (44, 352, 0),
    ]  # fmt: skip
    facts = load_vm_sizes().facts(location, "Standard_HC44rs")
    assert facts is not None
    assert facts.infiniband


def test_government_regions_of_our_size_file_share_one_proxy_region() -> None:
    assert set(load_vm_sizes().proxies.values()) == {"southcentralus"}


@pytest.mark.parametrize(
    ("location", "size", "gpus"),
    (("eastus", "NC6", 1), ("usgov", "NC6", 1), ("westus2", "NC6", 0), ("usgov", "F2", 0), ("mars", "F2", 0)),
)
def test_a_size_comes_from_its_region_or_the_proxy_region(location: str, size: str, gpus: int) -> None:
    found = SIZES.type_of(location, size)
    assert found is not None
    assert found.gpus == gpus


@pytest.mark.parametrize(("location", "size"), (("mars", "NC6"), ("eastus", "unheard-of")))
def test_an_unknown_size_reads_as_none(location: str, size: str) -> None:
    assert SIZES.type_of(location, size) is None


def test_a_size_unknown_to_the_provider_comes_from_the_file() -> None:
    assert SIZES.type_of("eastus", "NC6") == InstanceType("NC6", "standardNCFamily", 6, 56 * GIB, gpus=1)


def test_the_provider_overrides_the_file_except_for_a_higher_gpu_count() -> None:
    assert SIZES.type_of("eastus", "NC6", REPORTED) == InstanceType("NC6", "NC", 6, 50 * GIB, gpus=1, arch="lx-arm64")


def test_a_lower_gpu_count_in_the_file_is_ignored() -> None:
    reported = InstanceType("NC6", "NC", 6, 50 * GIB, gpus=4)
    assert SIZES.type_of("eastus", "NC6", reported) == reported


def test_available_cores_override_total_cores() -> None:
    facts = SIZES.facts("westus2", "NC6")
    assert facts is not None
    assert (facts.vcpu_count, facts.memory, facts.infiniband) == (4, 768 * 1024**2, True)


def test_default_resources_override_provider_and_file() -> None:
    rules = read_rules("""{"default_resources": [
        {"select": {"node.vm_size": "NC6"}, "name": "ngpus", "value": 8},
        {"name": "ngpus", "value": "node.gpu_count"}]}""")
    candidate, = candidates_of(
        [Bucket(BucketKey("NC6", "execute"), REPORTED)], rules.default_resources, location="eastus", sizes=SIZES
    )  # fmt: skip
    assert (candidate.properties.gpu_count, candidate.node("execute-1").resources["ngpus"]) == (1, 8)


def test_an_own_size_file_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "sizes.json").write_text(json.dumps(OWN))
    own = load_vm_sizes(tmp_path / "sizes.json")
    assert (own.type_of("anywhere", "Standard_D2s_v5"), own.type_of("eastus", "F2") is not None) == (None, True)


@pytest.mark.parametrize(
    ("document", "error"),
    (
        ('{"eastus": []}', "eastus: an object is expected, not a list"),
        ('{"eastus": {"F2": 1}}', "eastus.F2: an object is expected, not 1"),
        ('{"eastus": {"F2": {"capabilities": {"vCPUs": "two"}}}}', "eastus.F2.capabilities.vCPUs: a number is"),
        ('{"eastus": {"F2": {"capabilities": {"vCPUs": 2.5}}}}', "eastus.F2.capabilities.vCPUs: a whole number"),
        ('{"eastus": {"F2": {"capabilities": {"GPUs": -1}}}}', "eastus.F2.capabilities.GPUs: a number of at least 0"),
        ('{"eastus": {"F2": {"capabilities": {"MemoryGB": true}}}}', "eastus.F2.capabilities.MemoryGB: a number is"),
        ('{"eastus": {"F2": {"capabilities": {"RdmaEnabled": 1}}}}', "eastus.F2.capabilities.RdmaEnabled: true or f"),
        ('{"eastus": {"F2": {"family": ""}}}', "eastus.F2.family: text is expected"),
        ('{"proxied-locations": {"usgov": 1}}', "proxied-locations.usgov: text is expected, not 1"),
        ('{"eastus": {"F2": {', "eastus.F2: the text ends inside this"),
    ),
)  # fmt: skip
def test_an_error_names_file_and_place(tmp_path: Path, document: str, error: str) -> None:
    path = tmp_path / "sizes.json"
    path.write_text(document)
    with pytest.raises(SettingsError) as raised:
        load_vm_sizes(path)
    assert str(raised.value).startswith(f"{path}: {error}")


def test_an_unreadable_size_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the VM sizes .*absent\.json"):
        load_vm_sizes(tmp_path / "absent.json")
