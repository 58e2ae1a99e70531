"""A catalogue is shown with the operator's own file, and refreshed from the cloud's prices, never from itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autoscaler.commands.main import main
from autoscaler.constraints.vm_sizes import load_vm_sizes
from autoscaler.core.model.fleet import InstanceType
from autoscaler.providers.catalog import GIB, Offer, load_catalog
from autoscaler.providers.fake import FakeProvider
from autoscaler.providers.settings import ExtensionSettings

C9 = InstanceType("c9.large", "c9", 2, 4 * GIB)


class PricedSettings(ExtensionSettings):
    env_prefix = "CP_CAP_AUTOSCALE_PRICED_"
    catalog: Path | None = None


class Priced(FakeProvider):
    """A cloud with prices; with the operator's own catalogue it would return those of that file."""

    Settings: ClassVar[type[Any]] = PricedSettings

    def __init__(self, settings: PricedSettings, *, cell: str) -> None:
        self.own = settings.catalog

    def offers(self, as_of: str) -> Sequence[Offer]:
        offer = Offer(C9, "aws", "eu-west-1", "USD", as_of, on_demand=0.1, spot=0.04)
        return [offer] if self.own is None else list(load_catalog(self.own).offers.values())


@pytest.fixture
def own_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The operator's own catalogue, in which c9.large costs more than the cloud asks for it."""
    file = tmp_path / "own.toml"
    file.write_text('region = "eu-west-1"\n[types]\n"c9.large" = { vcpus = 2, memory_gib = 4, on_demand = 0.2 }\n')
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", f"{__name__}:Priced")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PRICED_CATALOG", str(file))
    monkeypatch.delenv("CP_CAP_AUTOSCALE_CONFIG", raising=False)
    return file


def types(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["catalog", "show", "--json", *words]) == 0
    return {row["instance_type"]: row for row in json.loads(capsys.readouterr().out)["types"]}


@pytest.mark.usefixtures("own_catalog")
def test_the_catalogue_merges_the_own_file_with_the_built_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown = types(capsys)
    assert (shown["c9.large"]["on_demand"], "c5.large" in shown) == (0.2, True)


@pytest.mark.usefixtures("own_catalog")
def test_family_filters_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(types(capsys, "--family", "c9")) == ["c9.large"]


def test_a_refreshed_catalogue_has_the_prices_of_the_cloud_not_its_own_old_ones(
    own_catalog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", "refresh"]) == 0
    assert "1 types of eu-west-1; 0 are new, 1 have other prices" in capsys.readouterr().out
    assert types(capsys, "--family", "c9")["c9.large"]["on_demand"] == 0.1


def test_a_catalogue_written_elsewhere_comes_with_the_setting_to_use_it(
    own_catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "new" / "other.toml"
    assert main(["catalog", "refresh", "--output", str(other)]) == 0
    assert f"set CP_CAP_AUTOSCALE_PRICED_CATALOG={other} to use it" in capsys.readouterr().out
    assert (load_catalog(other).offers["c9.large"].spot, "0.2" in own_catalog.read_text()) == (0.04, True)


def test_a_provider_without_prices_cannot_refresh_a_catalogue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "fake")
    assert main(["catalog", "refresh", "--output", str(tmp_path / "no.toml")]) != 0
    assert "has no prices" in capsys.readouterr().err


SKUS = [
    {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "standardFFamily",
        "locations": ["EastUS", "westus2"],
        "capabilities": [
            {"name": "vCPUs", "value": vcpus},
            {"name": "vCPUsPerCore", "value": "1"},
            {"name": "MemoryGB", "value": "4.5"},
            {"name": "RdmaEnabled", "value": "False"},
            {"name": "HyperVGenerations", "value": "V1,V2"},
        ],
    }
    for name, vcpus in (("Standard_F2", "2"), ("Standard_F4", "4"))
] + [{"resourceType": "disks", "name": "P10"}]


def test_a_file_of_vm_sizes_is_made_from_the_azure_list_and_reads_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "skus.json").write_text(json.dumps(SKUS))
    made = tmp_path / "sizes.json"
    assert main(["catalog", "sizes", str(tmp_path / "skus.json"), "--output", str(made)]) == 0
    assert f"CP_CAP_AUTOSCALE_VM_SIZES={made}" in capsys.readouterr().out
    sizes = load_vm_sizes(made)
    found = {(region, name): sizes.type_of(region, name) for region in ("eastus", "westus2") for name in ("F2", "F4")}
    assert found == dict.fromkeys(found)  # names must match completely
    assert [sizes.type_of(region, "Standard_F4") for region in ("eastus", "westus2", "mars")] == [
        *[InstanceType("Standard_F4", "standardFFamily", 4, int(4.5 * GIB))] * 2,
        None,
    ]
    assert "on 20" in json.loads(made.read_text())["_comment_"]


@pytest.mark.parametrize(
    ("skus", "words", "message"),
    (
        (SKUS, ["--size", "Standard_F2", "--size", "Standard_E32"], "it has no Standard_E32"),
        ([{"resourceType": "disks", "name": "P10"}], [], "az vm list-skus"),
        ({}, [], "a list is expected"),
        ([{**SKUS[0], "capabilities": [{"name": "vCPUs", "value": "two"}]}], [], "[0].capabilities.vCPUs: a number"),
    ),
)
def test_an_unusable_list_of_vm_sizes_is_refused_and_nothing_is_written(
    skus: object, words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "skus.json").write_text(json.dumps(skus))
    made = tmp_path / "sizes.json"
    code = main(["catalog", "sizes", str(tmp_path / "skus.json"), "--output", str(made), *words])
    assert (code, message in capsys.readouterr().err, made.exists()) == (2, True, False)
