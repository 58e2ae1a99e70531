"""Buckets as rows: what each node array could launch of them now, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autoscaler.core.prospects import Prospect
from autoscaler.report.document import reason_part


def prospect_rows(prospects: Iterable[Prospect]) -> list[dict[str, Any]]:
    """One row a node array and bucket; null: not known, and as `reason`: it can be had."""
    return [_row(prospect) for prospect in prospects]


def _row(prospect: Prospect) -> dict[str, Any]:
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
        "available": bucket.available,
        "can_be_launched": prospect.count,
        "reason": None if prospect.refusal is None else reason_part(prospect.refusal),
    }
