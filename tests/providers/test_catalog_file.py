"""A catalogue that was written down reads as what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import InstanceType
from autoscaler.providers.catalog import GIB, Offer, catalog_text, load_catalog

SMALL_TYPE = InstanceType("c9.medium", "c9", 1, int(1.75 * GIB), arch="lx-arm64")
LARGE_TYPE = InstanceType("c9.96xlarge", "c9", 384, 768 * GIB, gpus=8)
SMALL = Offer(SMALL_TYPE, "aws", "eu-west-1", "USD", "2026-01-02", 0.0345)
LARGE = Offer(LARGE_TYPE, "aws", "eu-west-1", "USD", "2026-01-02", 17.0, 1e-05)


def test_a_written_catalogue_reads_back_the_same(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(catalog_text([LARGE, SMALL]))
    offers = load_catalog(file).offers
    assert [offers["c9.medium"], offers["c9.96xlarge"]] == [SMALL, LARGE]


def test_an_unknown_price_is_left_out() -> None:
    assert "spot" not in catalog_text([SMALL])


def test_offers_of_two_regions_cannot_be_in_one_file() -> None:
    with pytest.raises(ValueError, match="one cloud, region"):
        catalog_text([SMALL, replace(LARGE, region="us-east-1")])
