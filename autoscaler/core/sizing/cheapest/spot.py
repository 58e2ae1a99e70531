"""Which tasks are not for spot machines, and what these cost with the work that is lost when they are taken.

A job that is interrupted begins again. With interruptions at a rate r, one that takes t hours takes (exp(rt) - 1) / r
hours of a machine on average, so that spot is dear for long jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, inf

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.spot_seen import domain_of
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.placement.kinds import kind_of
from autoscaler.core.placement.needs import Want, need_of

HOUR = 3600.0
MOST = 50.0
"""Interruptions of one job from which on it counts as never ending."""


def lost(rate: float, seconds: float) -> float:
    """By what factor a job of so many seconds takes longer with so many interruptions an hour."""
    expected = rate * seconds / HOUR
    if expected > MOST:
        return inf
    return (exp(expected) - 1.0) / expected if expected > 1e-6 else 1.0


def weighed(
    offers: Sequence[LaunchOffer], rates: Mapping[str, float], seconds: float | None, boot: float
) -> list[LaunchOffer]:
    """Spot offers with what interruptions are likely to add to their price, for jobs of so many seconds; None: not
    known. Of several zones the one that costs least with that comes first.
    """
    return [_weighed(each, rates, seconds or 0.0, boot) if rates else each for each in offers]


def _weighed(offer: LaunchOffer, rates: Mapping[str, float], seconds: float, boot: float) -> LaunchOffer:
    if offer.price_type is not PriceType.SPOT:
        return offer
    more = {
        bucket: min(lost(rate, seconds) + rate * boot / HOUR, 1e6)
        for bucket in offer.buckets
        for rate in (rates.get(domain_of(bucket.key), 0.0),)
    }
    buckets = sorted(offer.buckets, key=lambda bucket: _price(bucket.price_per_hour) * more[bucket])
    return replace(offer, buckets=tuple(buckets), interrupted=more[buckets[0]])


def _price(price: float | None) -> float:
    return inf if price is None else price


def not_for_spot(
    wants: Sequence[Want],
    offers: Sequence[LaunchOffer],
    rates: Mapping[str, float],
    seconds: Sequence[Sequence[float]],
    once: Sequence[int],
) -> tuple[int, ...]:
    """Parallel to the demands, the tasks that no spot machine is bought for: those that spread over hosts, as one that
    is taken ends the job on all of them; those that may not run again (`once`); and those whose expected run time
    makes spot dearer than on demand. `seconds`: of the tasks of each demand; empty: not known of all.
    """
    return tuple(
        tasks
        if tasks and not demand.one_host
        else min(tasks, max(once[at], sum(_too_long(demand, offers, rates, seconds[at]))))
        for at, (demand, tasks) in enumerate(wants)
    )


def _too_long(
    demand: Demand, offers: Sequence[LaunchOffer], rates: Mapping[str, float], seconds: Sequence[float]
) -> Iterator[bool]:
    """Of each task whether spot is dearer for it than on demand."""
    need = need_of(demand)
    if need is None or not rates:
        return
    on_demand, spot = inf, list[tuple[float, float]]()
    for offer in offers:
        room = kind_of(offer.host, (), 1).room_for(need)
        if room and offer.price_type is PriceType.SPOT:
            spot += [
                (_price(bucket.price_per_hour) / room, rates.get(domain_of(bucket.key), 0.0))
                for bucket in offer.buckets
            ]
        elif room:
            on_demand = min(on_demand, offer.price / room)
    known: dict[float, bool] = {}
    for each in seconds:
        if each not in known:
            known[each] = on_demand < min((price * lost(rate, each) for price, rate in spot), default=inf)
        yield known[each]
