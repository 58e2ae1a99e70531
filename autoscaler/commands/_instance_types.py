"""Whether the provider knows the instance types and families of the settings: a misspelt one never launches."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from dataclasses import replace

from autoscaler.background import on_thread
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.policy import Limits
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.errors import NotObservable
from autoscaler.providers.interface import Provider
from autoscaler.settings import Settings
from autoscaler.settings.policies import array_name, node_array_policy

PATIENCE = 30.0
"""Seconds that a check waits for the provider's list of types."""


def unknown_types(settings: Settings, buckets: Sequence[Bucket]) -> Iterator[str]:
    """Types and families of the settings that the provider does not have, with similar ones. Nothing if it lists no
    types, or gives none: its list is then one of its own.
    """
    if refusal(buckets):
        return
    for suffix, queue in settings.queues.items():
        array = node_array_policy(queue, suffix, settings.process)
        types = [bucket.type for bucket in buckets if array.takes(bucket.key)]
        if not types:
            continue
        if array.hybrid and array.family:
            env, given, known = "CP_CAP_AUTOSCALE_HYBRID_FAMILY", array.family, {type_.family for type_ in types}
        else:
            env, given, known = "CP_CAP_AUTOSCALE_INSTANCE_TYPE", array.instance_type, {type_.name for type_ in types}
        if not given or given in known:  # the check of settings reports a missing type
            continue
        if env.endswith("FAMILY"):
            missing = [part for part in given.split(",") if not any(map(replace(array, family=part).of_family, known))]
            if not missing:
                continue
            given = ",".join(missing)
        name = f"{env}_{suffix}" if suffix else env
        origin = settings.origins.get(name)
        where = f" ({origin.source})" if origin is not None and "(" in origin.source else ""
        what = "instance family" if env.endswith("FAMILY") else "instance type"
        close = difflib.get_close_matches(given, sorted(known), n=1, cutoff=0.6)
        advice = f"did you mean {close[0]}?" if close else f"it has {_some(known)}"
        yield (
            f"{name} = {given}{where}: provider {settings.process.provider} has no such {what} for "
            f"{array_name(suffix)}; {advice}"
        )


def refusal(buckets: Sequence[Bucket]) -> str:
    """Why the provider gives no type at all; empty: it gives some, or lists none."""
    return buckets[0].problem or "" if buckets and all(bucket.problem for bucket in buckets) else ""


def no_type_fits(settings: Settings, buckets: Sequence[Bucket]) -> Iterator[str]:
    """For each hybrid queue whose family has no type with as few cores as its cap: that nothing is ever launched."""
    for suffix, queue in settings.queues.items():
        array = node_array_policy(queue, suffix, settings.process)
        own = next((each.type.family for each in buckets if each.type.name == array.instance_type), "")
        array = array if array.family else replace(array, family=own)
        types = {each.type.vcpus: each.type.name for each in buckets if array.of_family(each.type.family)}
        cap, least = array.max_cores_per_worker, min(types, default=0)
        if array.hybrid and cap and least > cap:
            name = f"CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE{f'_{suffix}' if suffix else ''}"
            yield (
                f"{name} = {cap}: no type of family {array.family} has so few cores; the smallest, "
                f"{types[least]}, has {least}"
            )


def beyond_limits(settings: Settings, buckets: Sequence[Bucket]) -> Iterator[str]:
    """For each queue of whose types none can ever be launched: one worker alone is beyond a limit."""
    if refusal(buckets):
        return
    for suffix, queue in settings.queues.items():
        array = node_array_policy(queue, suffix, settings.process)
        types = allowed_types(array, buckets)
        found = {
            bucket.key: _beyond(bucket, array.limits, suffix)
            for bucket in buckets
            if array.takes(bucket.key) and bucket.type.name in types and bucket.key.price_type in array.price_types
        }
        if found and all(found.values()):
            key, why = min(found.items())
            others = len({each.instance_type for each in found}) - 1
            more = f", and {others} other type{'s' * (others > 1)} are beyond a limit, too" if others else ""
            yield f"{array_name(suffix)} can never launch anything: {key.instance_type} {why}{more}"


def _beyond(bucket: Bucket, limits: Limits, suffix: str) -> str:
    """Why not even one worker of this bucket is allowed; '' if one is."""
    own, cores, price = f"_{suffix}" if suffix else "", bucket.type.vcpus, bucket.price_per_hour
    for name, most in (
        (f"CP_CAP_AUTOSCALE_MAX_CORES{own}", limits.max_cores),
        ("CP_CAP_AUTOSCALE_TOTAL_CORES", limits.total_cores),
    ):
        if most is not None and cores > most:
            return f"has {cores} cores, and {name} allows {most}"
    for name, cap in (
        (f"CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR{own}", limits.max_price_per_hour),
        ("CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR", limits.total_price_per_hour),
    ):
        if cap is not None and (price is None or price > cap):
            costs = "has no known price" if price is None else f"costs {price:g} {limits.currency} an hour"
            return f"{costs}, and {name} allows {cap:g}"
    return ""


def offers_in_time(provider: Provider) -> tuple[Bucket, ...]:
    """The provider's offers. Raises AutoscalerError; NotObservable if the provider takes too long."""
    answer = on_thread(lambda: tuple(provider.buckets()), "instance-types")
    if not wait([answer], PATIENCE).done:
        raise NotObservable(f"no answer within {PATIENCE:g} s")
    return answer.result()


def _some(known: set[str]) -> str:
    names = sorted(known)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
