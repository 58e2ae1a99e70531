"""The strategy `cost`: the cheapest set of workers, of several types at once, that serves what waits.

Machines are chosen by packing demand on them. What counts is what placement finds on them: demand is placed on the set,
and what remains is packed again. Sets of one type alone are tried too where they could be cheaper. If limits leave too
little for all, the set is the one for the demand that has waited longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.packing.balanced import WAYS, Way, ways
from autoscaler.core.placement.kinds import Kind, kind_of
from autoscaler.core.placement.needs import Need, Want, need_of
from autoscaler.core.sizing.cheapest.bought import machines_for
from autoscaler.core.sizing.cheapest.paid import paid_price
from autoscaler.core.sizing.cpu_capacity import order
from autoscaler.core.sizing.problem import Part, Problem, Proposal, most_of_offer, not_preferred

ROUNDS = 4
"""How often what is still unmet is packed again."""
ALONE = 4
"""How many types are tried alone at most."""
SIZES = 3
"""Sizes of machines, from the smallest that holds each task, to which sets are kept where run times are known."""
HALVINGS = 8
"""Steps of the search for how much of the demand limits allow."""


def propose(problem: Problem) -> tuple[Proposal, ...]:
    """The cheapest set; then each type alone, for the case that the provider has nothing of the set."""
    if not any(tasks for _, tasks in problem.unmet):
        return ()
    found = [each for each in _candidates(problem) if each.count]
    others = problem.alone(order(problem.unmet, problem.placement, problem.offers)) if not found else ()
    if not found:
        return others
    price = _price_of(problem)
    found.sort(key=lambda each: (sum(tasks for _, tasks in _left(problem, each)), price(each), -each.count))
    best = found[0]
    if best.cap is not None:
        best = _longest_waiting(problem, best)
    second = next((each for each in found[1:] if each.types != best.types), None)
    best = replace(best, reason=_reason(best, second) if not problem.run_times else _reason_paid(problem, best, second))
    return (best, *([second] if second is not None else []), *_not_proposed(problem, best, second))


def _price_of(problem: Problem) -> Callable[[Proposal], float]:
    """What sets are compared by: what is paid until workers can leave; where run times are not known, an hour."""
    return partial(paid_price, problem) if problem.run_times else lambda proposal: proposal.price


def _candidates(problem: Problem) -> Iterator[Proposal]:
    """Sets from packing; one that does without the type on which most is spent, so that there is another; and types
    alone that could cost less than these.
    """
    packed = list(_packed(problem))
    yield from packed
    complete = [each for each in packed if each.count and not any(tasks for _, tasks in _left(problem, each))]
    least = min((each.price for each in complete), default=inf)
    if complete:
        best = min(complete, key=lambda each: each.price)
        most = max(best.parts, key=lambda part: part.price).offer.type.name
        without = _packed_set(problem, WAYS[0], frozenset({most}))
        if without is not None:
            yield without
    bounds = sorted((bound, at) for at, bound in _least_prices(problem) if bound < least)
    for _, at in bounds[:ALONE]:
        yield from problem.alone(problem.offers[at : at + 1])
    if problem.run_times:
        yield from _of_smaller_sizes(problem)


def _of_smaller_sizes(problem: Problem) -> Iterator[Proposal]:
    """Sets without larger sizes than the largest task on one host needs, or twice that: fewer free slots remain on them
    while their last job runs.
    """
    least = max((demand.slots for demand, tasks in problem.unmet if tasks and demand.one_host), default=1)
    sizes = sorted({offer.offer.slots for offer in problem.offers if offer.offer.slots >= least})
    for size in sizes[:SIZES]:
        larger = frozenset(offer.type.name for offer in problem.offers if offer.offer.slots > size)
        found = _packed_set(problem, WAYS[0], larger) if larger else None
        if found is not None:
            yield found


def _packed(problem: Problem) -> Iterator[Proposal]:
    for way in ways(len(problem.offers)):
        found = _packed_set(problem, way)
        if found is not None:
            yield found


def _packed_set(problem: Problem, way: Way, without: frozenset[str] = frozenset()) -> Proposal | None:
    """The set that packing finds, with what placement puts on it. `without`: names of types that are not used."""
    counts: dict[int, int] = {}
    found: Proposal | None = None
    unmet: Sequence[Want] = problem.unmet
    for _ in range(ROUNDS):
        room = {
            at: most_of_offer(offer)[0] - counts.get(at, 0)
            for at, offer in enumerate(problem.offers)
            if offer.price < inf and offer.type.name not in without
        }
        more = machines_for(problem.offers, unmet, room, way)
        if not more:
            break
        for at, count in more.items():
            counts[at] = counts.get(at, 0) + count
        found = problem.fill(_parts(problem, counts))
        unmet = _left(problem, found)
        if found.cap is not None or not any(tasks for _, tasks in unmet):
            break
    return found


def _longest_waiting(problem: Problem, best: Proposal) -> Proposal:
    """The cheapest set for as much of the demand as limits allow, those tasks first that have waited longest, and what
    else fits the limits after it.
    """
    since = problem.since or (0.0,) * len(problem.unmet)
    able = _able(problem)
    order_of_age = sorted(able, key=lambda at: since[at])
    low, high = 0, sum(problem.unmet[at][1] for at in able)
    counts: dict[int, int] = {}
    for _ in range(HALVINGS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        wanted = _first(problem.unmet, order_of_age, middle)
        part = replace(problem, unmet=wanted)
        found = min(
            (each for each in _packed(part) if each.cap is None and not any(n for _, n in _left(part, each))),
            key=lambda each: each.price,
            default=None,
        )
        if found is None:
            high = middle
        else:
            low, counts = middle, {_at(problem, each): each.count for each in found.parts}
    if not counts:
        return best
    parts = [*_parts(problem, counts), *best.parts]
    grown = problem.fill(parts)
    return grown if grown.count else best


def _able(problem: Problem) -> list[int]:
    """Positions of the demands of which some offer takes a part: others would stop the search at their age."""
    kinds = [kind_of(offer.host, (), 1) for offer in problem.offers]
    needs = ((at, need_of(demand)) for at, (demand, tasks) in enumerate(problem.unmet) if tasks)
    return [at for at, need in needs if need is not None and any(kind.room_for(need) for kind in kinds)]


def _first(unmet: Sequence[Want], order_of_age: Sequence[int], tasks: int) -> tuple[Want, ...]:
    """So many tasks of this demand, by age."""
    counts = [0] * len(unmet)
    for at in order_of_age:
        counts[at] = min(unmet[at][1], tasks)
        tasks -= counts[at]
    return tuple((demand, count) for (demand, _), count in zip(unmet, counts, strict=True))


def _at(problem: Problem, part: Part) -> int:
    return next(at for at, offer in enumerate(problem.offers) if offer is part.offer)


def _parts(problem: Problem, counts: Mapping[int, int]) -> list[Part]:
    return [Part(problem.offers[at], count) for at, count in counts.items() if count]


def _left(problem: Problem, proposal: Proposal) -> list[Want]:
    """What the proposal does not serve."""
    return [(demand, tasks - served) for (demand, tasks), served in zip(problem.unmet, proposal.served, strict=True)]


def _least_prices(problem: Problem) -> Iterator[tuple[int, float]]:
    """By position of an offer: no set of it alone costs less, as it has to hold all slots and all of each consumable.
    Offers that could not serve each demand are left out.
    """
    needs = [(need, tasks) for demand, tasks in problem.unmet if tasks and (need := need_of(demand))]
    slots = sum(need.visit * need.visits * tasks for need, tasks in needs)
    taken: dict[str, int] = {}
    for need, tasks in needs:
        for name, amount in need.required:
            taken[name] = taken.get(name, 0) + amount * need.visits * tasks
    for at, offer in enumerate(problem.offers):
        kind = kind_of(offer.host, (), 1)
        if offer.price < inf and most_of_offer(offer)[0] > 0 and _serves(kind, needs):
            yield at, offer.price * max(slots / kind.free_slots, *_shares(kind, taken), 1.0) - 1e-9


def _serves(kind: Kind, needs: Sequence[tuple[Need, int]]) -> bool:
    return all(kind.room_for(need) > 0 for need, _ in needs)


def _shares(kind: Kind, taken: Mapping[str, int]) -> Iterator[float]:
    """How many machines each consumable takes; free room of the supply may take part of it, but none that is unmet."""
    return (amount / left for name, amount in taken.items() if (left := kind.left_of(name)))


def _reason(best: Proposal, second: Proposal | None) -> Reason:
    if second is None or second.price == inf:
        return because(Code.LAUNCH_CHEAPEST, price=round(best.price, 4))
    more = round(second.price - best.price, 4)
    return because(Code.LAUNCH_CHEAPEST, price=round(best.price, 4), second=second.types, more=more)


def _reason_paid(problem: Problem, best: Proposal, second: Proposal | None) -> Reason:
    paid, price = paid_price(problem, best), round(best.price, 4)
    if second is None or second.price == inf:
        return because(Code.LAUNCH_LEAST_PAID, price=price, paid=round(paid, 4))
    more = round(paid_price(problem, second) - paid, 4)
    return because(Code.LAUNCH_LEAST_PAID, price=price, paid=round(paid, 4), second=second.types, more=more)


def _not_proposed(problem: Problem, best: Proposal, second: Proposal | None) -> Iterator[Proposal]:
    """For each other offer a set of none, which says that another is preferred."""
    proposed = [part.offer for each in (best, second) if each is not None for part in each.parts]
    for offer in problem.offers:
        if all(offer is not each for each in proposed):
            yield Proposal(
                (Part(offer, 0),), served=(0,) * len(problem.unmet), wanted=1, cap=not_preferred(offer, best)
            )
