"""A catalogue written down: what `load_catalog` reads again, as the same figures."""

from __future__ import annotations

import json
from collections.abc import Iterable

from providers.catalog import GIB, Offer


def catalog_text(offers: Iterable[Offer]) -> str:
    """The file (TOML) of these offers, which all are of one cloud, region, currency and date (ISO 8601)."""
    ordered = sorted(offers, key=lambda offer: (offer.type.family, offer.type.vcpus, offer.type.name))
    heads = {(offer.cloud, offer.region, offer.currency, offer.as_of) for offer in ordered}
    if len(heads) != 1:
        raise ValueError(f"a catalogue file has one cloud, region, currency and date, not {sorted(heads)}")
    ((cloud, region, currency, as_of),) = heads
    head = [f"{name} = {json.dumps(value)}" for name, value in (("cloud", cloud), ("region", region))]
    return "\n".join(
        [*head, f"currency = {json.dumps(currency)}", f"as_of = {as_of}", "", "[types]", *map(_line, ordered), ""]
    )


def _line(offer: Offer) -> str:
    figures = {
        "vcpus": f"{offer.type.vcpus}",
        "memory_gib": _number(offer.type.memory / GIB),
        "gpus": f"{offer.type.gpus}",
        "arch": json.dumps(offer.type.arch),
        "on_demand": None if offer.on_demand is None else _number(offer.on_demand),
        "spot": None if offer.spot is None else _number(offer.spot),
    }
    given = ", ".join(f"{name} = {value}" for name, value in figures.items() if value is not None)
    return f"{json.dumps(offer.type.name)} = {{ {given} }}"


def _number(value: float) -> str:
    """As TOML writes it, and nothing of it lost."""
    return f"{int(value)}" if value == int(value) else repr(value)
