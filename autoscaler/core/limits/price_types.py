"""When a price type other than the first is launched: after a deadline, and at no more than a premium."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy


def other_price_type(bucket: Bucket, array: NodeArrayPolicy, buckets: Sequence[Bucket], waited: float) -> Reason | None:
    """Why a bucket of a later price type is not launched (yet). None: it may be launched.

    The premium is on the cheapest bucket of the type at the first price type, available or not. If either price is
    unknown, so is the premium, and nothing is launched (rule 5).
    """
    first, own = array.price_types[0], bucket.key.price_type
    if own is first:
        return None
    if waited < array.price_type_deadline:
        return because(
            Code.BUCKET_TOO_EARLY, type=bucket.type.name, price_type=own.value, deadline_s=array.price_type_deadline
        )
    if array.price_type_premium is None:
        return None
    preferred = [
        each.price_per_hour
        for each in buckets
        if (each.type.name, each.key.price_type) == (bucket.type.name, first)
        and array.takes(each.key)
        and each.price_per_hour is not None
    ]
    if bucket.price_per_hour is None or not preferred:
        return because(Code.BUCKET_NO_PRICE, type=bucket.type.name)
    most = min(preferred) * (1 + array.price_type_premium)
    if bucket.price_per_hour <= most:
        return None
    return because(
        Code.BUCKET_TOO_EXPENSIVE,
        type=bucket.type.name,
        price_type=own.value,
        price=bucket.price_per_hour,
        currency=array.limits.currency,
        most=most,
        preferred=first.value,
    )
