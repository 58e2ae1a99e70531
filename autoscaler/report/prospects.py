"""Buckets as rows, with how many workers each node array could launch now; and the types of catalogues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autoscaler.core.facts.prospects import Prospect
from autoscaler.providers.catalog import Offer
from autoscaler.report.document import reason_part


def prospect_rows(prospects: Iterable[Prospect], currency: str) -> list[dict[str, Any]]:
    """One row a node array and bucket. null: not known; a `reason` of null: it can be launched."""
    return [_row(prospect, currency) for prospect in prospects]


def offer_rows(offers: Iterable[Offer]) -> list[dict[str, Any]]:
    """One row a type of a catalogue; a price that is null is not known."""
    return [
        {
            "instance_type": offer.type.name,
            "family": offer.type.family,
            "vcpus": offer.type.vcpus,
            "memory": offer.type.memory,
            "gpus": offer.type.gpus,
            "arch": offer.type.arch,
            "on_demand": offer.on_demand,
            "spot": offer.spot,
            "currency": offer.currency,
            "cloud": offer.cloud,
            "region": offer.region,
            "as_of": offer.as_of,
        }
        for offer in offers
    ]


def _row(prospect: Prospect, currency: str) -> dict[str, Any]:
    bucket = prospect.bucket
    return {
        "node_array": prospect.node_array,
        "instance_type": bucket.key.instance_type,
        "family": bucket.type.family,
        "zone": bucket.key.zone,
        "price_type": bucket.key.price_type.value,
        "placement_group": bucket.key.placement_group,
        "vcpus": bucket.type.vcpus,
        "memory": bucket.type.memory,
        "gpus": bucket.type.gpus,
        "price_per_hour": bucket.price_per_hour,
        "currency": currency,
        "available": bucket.available,
        "can_be_launched": prospect.count,
        "reason": None if prospect.refusal is None else reason_part(prospect.refusal),
    }
