"""Why nothing allowed could ever serve a demand: the smallest conflict, and its remedy.

A conflict is small if the demand would fit with one request changed. It depends only on the request and on the best
that is allowed, so that a job gets the same reason when it is submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autoscaler.core.capacity.max_capacity import has_amount, not_given
from autoscaler.core.model.demand_vector import Demand, Property
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.amounts import shown_property, written
from autoscaler.core.placement.needs import requested_amounts
from autoscaler.core.unsatisfiable.best_cluster import Allowed, slots_in


def conflict(demand: Demand, allowed: Allowed) -> Reason:
    """Why this demand can never be served; remedies, if there are any, are the reason's trail.

    Only for a demand that `allowed` does not serve, and for which it knows node arrays with instance types.
    """
    reason = _conflict(demand, allowed)
    ask = _spread_instead(demand, allowed)
    changes = allowed.changes(demand)
    if changes:
        first, *others = changes
        setting = (first.limit, first.place)
        reason = reason.then(because(Code.WOULD_FIT_WITH_SETTING, request=ask, limit_setting=setting, to=first.to))
        for other in others:
            setting = (other.limit, other.place)
            reason = reason.then(because(Code.SETTING_NEEDED_TOO, limit_setting=setting, to=other.to))
        return reason
    lift = next(allowed.lifts(demand), None)
    if lift is not None:
        setting = (lift.limit, lift.place)
        return reason.then(because(Code.WOULD_FIT_WITH_SETTING, request=ask, limit_setting=setting, to=lift.to))
    return reason if ask is None else reason.then(because(Code.WOULD_FIT_WITH_REQUEST, request=ask))


def _conflict(demand: Demand, allowed: Allowed) -> Reason:
    bare = replace(demand, per_slot=(), per_job=(), once_a_host=(), properties=(), assumed=(), exclusive=False)
    if not allowed.serves(bare):
        return _of_slots(bare, allowed)
    for requested in demand.properties:
        others = tuple(one for one in demand.properties if one is not requested)
        entry = allowed.complexes.get(requested.name)
        exclusive = demand.exclusive and not (entry is not None and entry.relop == "EXCL")
        alone = replace(bare, slots=1, per_host=None, properties=(requested,))
        if not allowed.serves(alone) and allowed.serves(replace(demand, properties=others, exclusive=exclusive)):
            return because(
                Code.NO_SUCH_HOST,
                requested=shown_property(requested, allowed.complexes),
                offered=_offered(requested, demand, allowed),
            )
    for name, amount in requested_amounts(demand):
        if allowed.serves(_without(demand, name)):
            return _of_resource(demand, name, amount, allowed)
    _, most = _largest(demand, allowed)
    return because(
        Code.NO_TYPE_FITS,
        slots=demand.slots,
        where="one host" if demand.one_host else None,
        largest=most,
        workers=max((kind.most(each.array.limits) for each in allowed.of(demand) for kind in each.kinds), default=0),
        besides=tuple(_besides(demand, allowed)),
    )


def _of_slots(demand: Demand, allowed: Allowed) -> Reason:
    """The demand needs too many slots, whatever its other requests."""
    largest, most = _largest(demand, allowed)
    if demand.one_host or (demand.per_host or 1) > most:
        together = demand.per_host or 1
        return because(Code.TOO_LARGE_FOR_ONE_HOST, slots=together, largest=largest, most=most)
    if demand.per_host is not None:
        hosts, there = demand.slots // demand.per_host, allowed.most_slots(demand) // demand.per_host
        return because(Code.TOO_MANY_HOSTS, hosts=hosts, slots=demand.per_host, most=there)
    workers = sum(max((kind.most(each.array.limits) for kind in each.kinds), default=0) for each in allowed.of(demand))
    return because(
        Code.TOO_MANY_SLOTS, slots=demand.slots, most=allowed.most_slots(demand), workers=workers, largest=largest
    )


def _of_resource(demand: Demand, name: str, amount: float, allowed: Allowed) -> Reason:
    """It requests more of one consumable than any host has, or than all have together."""
    kind = allowed.complexes[name].type if name in allowed.complexes else "DOUBLE"
    per_slot = name in dict(demand.per_slot)
    together = amount * (demand.per_host or 1) if per_slot else amount
    hosts = allowed.hosts(demand)
    richest = max(hosts, key=lambda host: host.most_of(name), default=None)
    most = richest.most_of(name) if richest is not None else 0.0
    if name in allowed.complexes and not any(has_amount(host, name) for host in hosts):
        return not_given({name: amount}, allowed.complexes)
    if not most:
        return because(Code.NO_SUCH_RESOURCE, resource=name, requested=written(amount, kind))
    if richest is None or together <= most:
        return because(
            Code.TOO_MUCH_TOGETHER,
            resource=name,
            requested=written(amount, kind),
            slots=demand.slots if per_slot else None,
        )
    return because(
        Code.TOO_MUCH_ON_ONE_HOST,
        resource=name,
        requested=written(amount, kind),
        slots=demand.per_host if per_slot and together != amount else None,
        together=written(together, kind),
        largest=richest.name,
        most=written(most, kind),
    )


def _without(demand: Demand, name: str) -> Demand:
    return replace(
        demand,
        per_slot=tuple(pair for pair in demand.per_slot if pair[0] != name),
        per_job=tuple(pair for pair in demand.per_job if pair[0] != name),
        once_a_host=tuple(pair for pair in demand.once_a_host if pair[0] != name),
    )


def _largest(demand: Demand, allowed: Allowed) -> tuple[str, int]:
    """The allowed type or existing host with the most slots for it, and their number."""
    best: Host | None = max(allowed.hosts(demand), key=lambda host: slots_in(demand.pools, host), default=None)
    return ("", 0) if best is None else (best.name, slots_in(demand.pools, best))


def _spread_instead(demand: Demand, allowed: Allowed) -> str | None:
    """The request to use instead, if the same slots would fit on several hosts."""
    if demand.per_host is None or demand.slots == 1 or not allowed.serves(replace(demand, per_host=None)):
        return None
    pes = [allowed.spreading[pool] for pool in sorted(demand.pools) if pool in allowed.spreading]
    return f"-pe {pes[0]} {demand.slots}" if pes else None


def _offered(requested: Property, demand: Demand, allowed: Allowed) -> tuple[str, ...]:
    """The values that new workers would have instead. Existing hosts are left out, because their load values differ in
    every pass.
    """
    kinds = (kind.host for each in allowed.of(demand) for kind in each.kinds)
    found = {host.properties[requested.name] for host in kinds if requested.name in host.properties}
    shown = [
        shown_property(replace(requested, relop="==", value=value), allowed.complexes).partition("=")[2]
        for value in found
    ]
    return tuple(sorted(shown, key=lambda text: (len(text), text)))


def _besides(demand: Demand, allowed: Allowed) -> Iterator[str]:
    """All requests besides slots."""
    for name, amount in requested_amounts(demand):
        kind = allowed.complexes[name].type if name in allowed.complexes else "DOUBLE"
        yield f"{name}={written(amount, kind)}"
    yield from (shown_property(requested, allowed.complexes) for requested in demand.properties)
    if demand.exclusive:
        yield "the host for itself"
