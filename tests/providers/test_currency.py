"""The currency of prices: that of the operator's own catalogue, else dollars; a setting overrides both."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.limits.price_types import other_price_type
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.policy import Limits
from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import currency_of
from autoscaler.providers.registry import currency
from autoscaler.report.wording import text
from autoscaler.settings import load_settings
from tests.core.building import LARGE, a_bucket, a_snapshot

OWN = 'cloud = "aws"\nregion = "x"\ncurrency = "EUR"\nas_of = 2026-11-01\n[types]\n"m5.large" = { on_demand = 0.1 }\n'


def test_the_currency_comes_from_the_own_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    assert (currency_of(file), currency_of(None), currency_of(tmp_path / "none")) == ("EUR", "USD", "USD")
    settings = {"CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(tmp_path)}
    assert currency("local", settings) == "USD"
    assert currency("local", {**settings, "CP_CAP_AUTOSCALE_LOCAL_CATALOG": str(file)}) == "EUR"


def test_the_currency_setting_overrides_the_catalogue_and_applies_to_every_limit() -> None:
    policy = load_settings({"CP_CAP_AUTOSCALE_CURRENCY": "CHF"}).policy(master="master", currency="EUR")
    assert (policy.currency, {array.limits.currency for array in policy.node_arrays}) == ("CHF", {"CHF"})
    assert load_settings({}).policy(master="master", currency="EUR").currency == "EUR"
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_CURRENCY"):
        load_settings({"CP_CAP_AUTOSCALE_CURRENCY": "francs"})


def test_a_reason_with_a_price_names_the_currency() -> None:
    kinds = (PriceType.SPOT, PriceType.ON_DEMAND)
    snapshot = a_snapshot(price_types=kinds, price_type_premium=0.5, limits=Limits(currency="EUR"))
    spot, dear = a_bucket(LARGE, price=0.1, price_type=PriceType.SPOT), a_bucket(LARGE, price=0.2)
    reason = other_price_type(dear, snapshot.policy.node_arrays[0], (spot, dear), 1e9)
    assert reason is not None
    assert "costs 0.2 EUR an hour; beside spot at most 0.15 EUR is allowed" in text(reason)
