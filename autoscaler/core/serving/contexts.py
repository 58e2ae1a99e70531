"""The contexts of the steps of a pass, made of its facts."""

from __future__ import annotations

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.facts.facts import Facts
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.placement.needs import wants_of
from autoscaler.core.replace.swap_context import SwapContext
from autoscaler.core.scale_down.floors import floors_of, short_of_floors
from autoscaler.core.scale_up.launch_needs import LaunchNeeds
from autoscaler.core.serving.free_in_time import free_in_time
from autoscaler.core.serving.serving import Serving


def swap_context(facts: Facts, supply: Supply, forecast: Forecast, serving: Serving) -> SwapContext:
    """The context of swaps."""
    return SwapContext(
        facts.observed,
        facts.snapshot.cluster,
        facts.demand.wanted,
        facts.demand.names,
        supply,
        forecast,
        facts.usage,
        floors_of(facts.observed, facts.policy, facts.pass_context),
        serving.leaving,
        facts.launch_context,
        facts.pass_context,
        held=frozenset((*serving.holding.held, *facts.requests.service.by_worker)),
    )


def launch_needs(
    facts: Facts, supply: Supply, forecast: Forecast, serving: Serving, protection: Protection
) -> LaunchNeeds:
    """All that workers may be launched for. Hosts in alarm, or of a queue that its calendar opens soon, will serve, so
    nothing is launched in their place; nor for jobs that wait for workers to be free.
    """
    demands, returning, placement = facts.demand.wanted, facts.returning, forecast.placement.copy()
    unmet = facts.delays.launchable(forecast.unmet(demands), demands)
    free = free_in_time(facts, supply, unmet, serving.leaving)
    if free.tasks is not None:
        unmet = tuple([count - waiting for count, waiting in zip(unmet, free.tasks, strict=True)])
    if returning:
        unmet = (*unmet, *placement.place(wants_of(returning)).unmet)
    return LaunchNeeds(
        (*demands, *returning) if returning else demands,
        unmet,
        placement,
        short_of_floors(facts.snapshot, floors_of(facts.observed, facts.policy, facts.pass_context)),
        facts.requests.service.unserved,
        requests=facts.requests.needs,
        holding=serving.holding,
        protection=protection,
        missing=facts.closed.missing,
        waiting_for_free=free.reasons,
        due=free.due,
    )
