"""The catalogue: figures as published, families by name, an operator's own file merged over ours."""

from pathlib import Path

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import GIB, family_of, load_catalog


@pytest.mark.parametrize(
    ("name", "family"),
    (
        ("c5.2xlarge", "c5"),
        ("m5.metal", "m5"),
        ("u-6tb1.metal", "u-6tb1"),
        ("n2-standard-8", "n2-standard"),
        ("c2d-standard-8-lssd", "c2d-standard-lssd"),
        ("a2-highgpu-1g", "a2-highgpu"),
        ("n2-custom-4-16384", "n2-custom"),
        ("e2-micro", "e2"),
        ("Standard_D2s_v3", "Dsv3"),
        ("Standard_NC24ads_A100_v4", "NCadsA100v4"),
        ("Standard_NC4as_T4_v3", "NCasT4v3"),
        ("Standard_E4-2s_v5", "Esv5"),
        ("Basic_A1", "A"),
        ("D2s_v3", "Dsv3"),
        ("bigmem", "bigmem"),
    ),
)
def test_a_family_is_read_from_the_name_of_the_type(name: str, family: str) -> None:
    assert family_of(name) == family


@pytest.mark.parametrize(
    ("name", "cloud", "family"),
    (("ExtraLarge", "AZURE", "ExtraLarge"), ("n2-standard-8", "GCP", "n2-standard"), ("A-4", "azure", "A-4")),
)
def test_a_named_cloud_decides_how_an_ambiguous_type_name_is_read(name: str, cloud: str, family: str) -> None:
    assert family_of(name, cloud) == family


@pytest.mark.parametrize(
    ("name", "vcpus", "gib", "gpus", "price"),
    (
        ("m5.large", 2, 8, 0, 0.096),
        ("m5.2xlarge", 8, 32, 0, 0.384),
        ("m5.24xlarge", 96, 384, 0, 4.608),
        ("c5.9xlarge", 36, 72, 0, 1.53),
        ("c5.18xlarge", 72, 144, 0, 3.06),
        ("r5.large", 2, 16, 0, 0.126),
        ("r5.24xlarge", 96, 768, 0, 6.048),
        ("g4dn.xlarge", 4, 16, 1, 0.526),
        ("g4dn.12xlarge", 48, 192, 4, 3.912),
        ("Standard_D96s_v5", 96, 384, 0, 4.608),
        ("Standard_F72s_v2", 72, 144, 0, 3.045),
        ("Standard_NC16as_T4_v3", 16, 110, 1, 1.204),
        ("Standard_NC96ads_A100_v4", 96, 880, 4, 14.692),
    ),
)
def test_types_have_the_size_and_price_their_cloud_publishes(
    name: str, vcpus: int, gib: int, gpus: int, price: float
) -> None:
    offer = load_catalog().offers[name]

    assert (offer.type.vcpus, offer.type.memory, offer.type.gpus, offer.on_demand) == (vcpus, gib * GIB, gpus, price)


@pytest.mark.parametrize("family", ("m5", "c5", "r5", "g4dn", "Dsv5", "Fsv2", "NCasT4v3", "NCadsA100v4", "NCadsH100v5"))
def test_each_family_the_readme_names_has_types(family: str) -> None:
    assert [name for name, known in load_catalog().types.items() if known.family == family]


@pytest.mark.parametrize("family", ("m5", "c5", "r5", "Dsv5"))
def test_a_family_sold_by_the_core_costs_the_same_a_core_in_every_size(family: str) -> None:
    offers = [offer for offer in load_catalog().offers.values() if offer.type.family == family]

    assert len({round((offer.on_demand or 0) / offer.type.vcpus, 6) for offer in offers}) == 1


def test_every_offer_has_region_date_and_currency_of_its_price() -> None:
    offers = load_catalog().offers.values()

    assert all(offer.region and offer.as_of and offer.currency == "USD" for offer in offers)


def test_an_unconfirmed_price_is_unknown() -> None:
    offer = load_catalog().offers["Standard_NC40ads_H100_v5"]

    assert (offer.price(PriceType.ON_DEMAND), offer.price(PriceType.SPOT)) == (None, None)


def test_there_is_a_bucket_for_every_type_and_price_type() -> None:
    catalog = load_catalog()

    keys = {(bucket.key.instance_type, bucket.key.price_type) for bucket in catalog.buckets()}

    assert keys == {(name, price_type) for name in catalog.types for price_type in PriceType}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own.toml"


def test_an_own_file_adds_types_and_overrides_single_figures(own: Path) -> None:
    own.write_text(
        'region = "eu-west-1"\n[types]\n"m5.large" = { on_demand = 0.107, spot = 0.04 }\n'
        '"bigmem" = { vcpus = 4, memory_gib = 1.5 }\n'
    )

    offers = load_catalog(own).offers

    assert (offers["m5.large"].on_demand, offers["m5.large"].spot, offers["m5.large"].region) == (
        0.107,
        0.04,
        "eu-west-1",
    )
    assert (offers["m5.large"].type.vcpus, offers["m5.xlarge"].on_demand) == (2, 0.192)
    assert offers["bigmem"].type.memory == int(1.5 * GIB)


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("[types]\nx = { vcpu = 2, memory_gib = 1 }", "x: vcpu is not known; did you mean vcpus?"),
        ("[type]\n", "type is not known; did you mean types?"),
        ("[types]\nx = { vcpus = 2 }", "x: memory_gib must be given"),
        ("[types]\nx = { vcpus = -2, memory_gib = 1 }", "vcpus = -2 is not a number of at least 0"),
        ('[types]\n"m5.large" = { vcpus = 0 }', "m5.large: vcpus must be above 0"),
        ('[types]\n"m5.large" = { memory_gib = 0 }', "m5.large: memory_gib must be above 0"),
        ('[types]\n"m5.large" = { on_demand = inf }', "on_demand = inf is not a number"),
        ('[types]\n"m5.large" = { memory_gib = inf }', "memory_gib = inf is not a number"),
        ("currency = 5\n[types]", "currency = 5 is not a text"),
        ("[types]\nx = { vcpus = true, memory_gib = 1 }", "vcpus = True is not a number"),
        ("[types]\nx = 4", "x: write {"),
        ("types = 4", "types must be a table"),
        ("[types", "is not valid TOML"),
    ),
)
def test_a_wrong_catalogue_file_is_refused_with_file_and_cause(own: Path, text: str, message: str) -> None:
    own.write_text(text)

    with pytest.raises(SettingsError) as caught:
        load_catalog(own)

    assert message in str(caught.value)
    assert str(own) in str(caught.value)


def test_an_own_file_of_another_region_drops_the_shipped_price(own: Path) -> None:
    own.write_text('region = "eu-west-1"\nas_of = 2026-11-01\n[types]\n"m5.large" = { spot = 0.04 }\n')
    offer = load_catalog(own).offers["m5.large"]
    assert (offer.on_demand, offer.spot, offer.region) == (None, 0.04, "eu-west-1")


def test_the_date_of_an_own_file_applies_to_its_prices_only(own: Path) -> None:
    own.write_text('as_of = 2026-11-01\n[types]\n"m5.large" = { gpus = 1 }\n"m5.xlarge" = { on_demand = 0.2 }\n')
    offers, shipped = load_catalog(own).offers, load_catalog().offers
    assert (offers["m5.large"].as_of, offers["m5.xlarge"].as_of) == (shipped["m5.large"].as_of, "2026-11-01")


def test_a_missing_own_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the catalogue"):
        load_catalog(tmp_path / "none.toml")
