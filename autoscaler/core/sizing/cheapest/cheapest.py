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

from autoscaler.core.limits.limits import Left
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.packing.balanced import Balance
from autoscaler.core.packing.packed import Way
from autoscaler.core.packing.patterns import by_patterns
from autoscaler.core.placement.kinds import Kind, kind_of
from autoscaler.core.placement.needs import Need, Want, need_of
from autoscaler.core.sizing.cheapest.bought import machines_for
from autoscaler.core.sizing.cheapest.fewer import with_reserve
from autoscaler.core.sizing.cheapest.paid import paid_price
from autoscaler.core.sizing.cheapest.within_limits import SAME, exchanged, prices_of_places, serves_all
from autoscaler.core.sizing.cpu_capacity import CpuCapacity, order
from autoscaler.core.sizing.problem import Part, Problem, Proposal, most_of_offer, not_preferred

ROUNDS = 4
"""How often what is still unmet is packed again."""
ALONE = 4
"""How many types are tried alone at most."""
SIZES = 3
"""Sizes of machines, from the smallest that holds each task, to which sets are kept where run times are known."""
HALVINGS = 8
"""Steps of the search for how much of the demand limits allow."""
FEW = 8
"""Up to so many machines are exchanged for others where no limit binds."""
LESS = 8
"""With so many parts of it less each time, if placement does not find room for all of it."""


def propose(problem: Problem) -> tuple[Proposal, ...]:
    """The cheapest set; demand that is not for spot gets machines on demand first, and what else fits there."""
    steady = sum(problem.not_for_spot)
    if not steady or all(offer.price_type is not PriceType.SPOT for offer in problem.offers):
        return _cheapest(problem)
    mine = _so_many(problem.unmet, problem.not_for_spot)
    others = [(demand, tasks - no) for (demand, tasks), no in zip(problem.unmet, problem.not_for_spot, strict=True)]
    on_demand = [offer for offer in problem.offers if offer.price_type is not PriceType.SPOT]
    first = next((each for each in _cheapest(replace(problem, unmet=mine, offers=on_demand)) if each.count), None)
    there = problem.placement if first is None or first.placement is None else first.placement
    left = there.copy().place(others).unmet
    rest = replace(problem, unmet=_so_many(others, left), placement=there)
    second = next((each for each in _cheapest(rest) if each.count), None)
    chosen = [each for each in (first, second) if each is not None]
    if not chosen:
        return ()
    counts: dict[int, int] = {}
    for part in (part for each in chosen for part in each.parts):
        at = next(at for at, offer in enumerate(problem.offers) if offer is part.offer)
        counts[at] = counts.get(at, 0) + part.count
    best = problem.fill(_parts(problem, counts))
    reason = because(Code.LAUNCH_CHEAPEST, price=round(best.price, 4), steady=steady)
    return (replace(best, reason=reason), *_not_proposed(problem, best, None))


def _cheapest(problem: Problem) -> tuple[Proposal, ...]:
    """The cheapest set; then the cheapest of one type alone, for the case that the provider has nothing of the set."""
    if not any(tasks for _, tasks in problem.unmet):
        return ()
    packed = _packed_set(problem, by_patterns)
    found = [] if packed is None or not packed.count else [packed]
    least = packed.price if packed is not None and serves_all(problem, packed) else inf
    found += [each for each in _alone(problem, least) if each.count]
    limit = next((left for left in problem.left if packed is not None and left.cap == packed.cap), None)
    if limit is not None:
        found += _within_limits(problem, limit, found)
    if problem.run_times:
        found += [each for each in _leaving_soon(problem) if each.count]
    if not found:
        return CpuCapacity(order)(problem)
    found = _ordered(problem, found)
    if serves_all(problem, found[0]):
        if not problem.run_times:
            most = inf if _runner_up(problem, found[0], found) is None else found[0].price
            found = _ordered(problem, [*found, *_without_main_type(problem, found[0], most)])
            found = _ordered(problem, [*found, *_exchanged(problem, found[0])])
        best = with_reserve(problem, found[0])
        best = replace(best, cap=None, wanted=best.count)  # what a limit has cut was not needed
    else:
        best = found[0] if found[0].cap is None else _longest_waiting(problem, found[0])
    best = replace(best, reason=_reason(problem, best, _runner_up(problem, best, found)))
    second = next((each for each in found if each.types != best.types), None)
    return (best, *([second] if second is not None else []), *_not_proposed(problem, best, second))


def _within_limits(problem: Problem, limit: Left, others: Sequence[Proposal]) -> Iterator[Proposal]:
    """Sets that serve all within this limit, which cut the packed one, if there are any."""
    able = [each for each in others if serves_all(problem, each) and each.price < inf]
    if able:  # nothing dearer than this is chosen
        least = min(able, key=lambda each: each.price)
        able += _without_main_type(problem, least, least.price)
    for surcharges in prices_of_places(problem, limit, _room(problem, {})):
        fitting = _packed_set(problem, by_patterns, surcharges=surcharges)
        if fitting is not None and serves_all(problem, fitting):
            able.append(fitting)
            break
    yield from able
    if able:
        yield exchanged(problem, min(able, key=lambda each: each.price))


def _price_of(problem: Problem) -> Callable[[Proposal], float]:
    """What sets are compared by: what is paid until workers can leave; where run times are not known, an hour."""
    return partial(paid_price, problem) if problem.run_times else lambda proposal: proposal.price


def _leaving_soon(problem: Problem) -> Iterator[Proposal]:
    """Sets that cost no less an hour, but perhaps until they are empty: others from packing, and those without larger
    sizes than the largest task on one host needs, or twice that, on which fewer free slots remain while their last job
    runs.
    """
    least = max((demand.slots for demand, tasks in problem.unmet if tasks and demand.one_host), default=1)
    sizes = sorted({offer.offer.slots for offer in problem.offers if offer.offer.slots >= least})
    for size in (*sizes[:SIZES], inf):
        larger = frozenset(offer.type.name for offer in problem.offers if offer.offer.slots > size)
        found = _packed_set(problem, Balance(), without=larger) if larger or size == inf else None
        if found is not None:
            yield found


def _alone(problem: Problem, least: float) -> Iterator[Proposal]:
    """Types alone that could cost less than so much, and that which costs least by its bound."""
    bounds = sorted((bound, at) for at, bound in _least_prices(problem))
    for number, (bound, at) in enumerate(bounds[:ALONE]):
        if bound < least or not number:
            yield from problem.alone(problem.offers[at : at + 1])


def _ordered(problem: Problem, sets: Sequence[Proposal]) -> list[Proposal]:
    """Those first that leave least, of these the cheapest, of these those with most workers, which leave soonest."""
    price = _price_of(problem)
    return sorted(sets, key=lambda each: (_tasks_left(problem, each), round(price(each), 9), -each.count))


def _without_main_type(problem: Problem, best: Proposal, most: float) -> Iterator[Proposal]:
    """The set that serves all without the type on which most is spent, if balance finds one for less than so much."""
    main = max(best.parts, key=lambda part: part.price).offer.type.name
    counts, complete = machines_for(problem.offers, problem.unmet, _room(problem, {}, frozenset({main})), Balance())
    parts = _parts(problem, counts)
    if complete and sum(part.price for part in parts) < most and problem.exceeded(parts) is None:
        found = problem.fill(parts)
        if serves_all(problem, found):
            yield found


def _exchanged(problem: Problem, best: Proposal) -> Iterator[Proposal]:
    """A set that costs less than this one of few machines, with some of them exchanged: the linear program easily
    misses few machines that are filled to the brim.
    """
    found = exchanged(problem, best) if best.count <= FEW else best
    if found.price < best.price - SAME:
        yield found


def _runner_up(problem: Problem, best: Proposal, others: Sequence[Proposal]) -> Proposal | None:
    """The next best of the sets that were tried, which are in order: of other machines, and for as many tasks."""
    left = _tasks_left(problem, best)
    able = (each for each in others if each.price < inf and _tasks_left(problem, each) == left)
    return next((each for each in able if each.machines != best.machines), None)


def _packed_set(
    problem: Problem, way: Way, *, surcharges: Sequence[float] = (), without: frozenset[str] = frozenset()
) -> Proposal | None:
    """The set that packing finds, with what placement puts on it. `surcharges`: as in `machines_for`; `without`: as in
    `_room`.
    """
    counts: dict[int, int] = {}
    found: Proposal | None = None
    unmet: Sequence[Want] = problem.unmet
    for _ in range(ROUNDS):
        more, _ = machines_for(problem.offers, unmet, _room(problem, counts, without), way, surcharges=surcharges)
        if not more:
            break
        for at, count in more.items():
            counts[at] = counts.get(at, 0) + count
        found = problem.fill(_parts(problem, counts))
        unmet = _left(problem, found)
        if found.cap is not None or not any(tasks for _, tasks in unmet):
            break
    return found


def _room(problem: Problem, counts: Mapping[int, int], without: frozenset[str] = frozenset()) -> Mapping[int, int]:
    """How many more of each offer may be bought. `without`: names of types that are not used."""
    return {
        at: most_of_offer(offer)[0] - counts.get(at, 0)
        for at, offer in enumerate(problem.offers)
        if offer.price < inf and offer.type.name not in without
    }


def _longest_waiting(problem: Problem, best: Proposal) -> Proposal:
    """The cheapest set for as much of the demand as limits allow, those tasks first that have waited longest, and what
    else fits the limits after it.
    """
    since = problem.since or (0.0,) * len(problem.unmet)
    able = _able(problem)
    order_of_age = sorted(able, key=lambda at: since[at])
    most = _most_by_age(problem, order_of_age, sum(problem.unmet[at][1] for at in able))
    for number in range(LESS if most else 0):
        some = replace(problem, unmet=_first(problem.unmet, order_of_age, most - number * most // LESS))
        found = next(((each, all_) for each in _surcharges(problem) if (all_ := _whole(some, Balance(), each))), None)
        if found is not None:
            break
    else:
        return best
    surcharges, oldest = found
    better = _whole(some, by_patterns, surcharges)
    oldest = oldest if better is None or oldest.price <= better.price else better
    grown = problem.fill([*oldest.parts, *best.parts])
    return grown if grown.count else best


def _most_by_age(problem: Problem, order_of_age: Sequence[int], tasks: int) -> int:
    """For about how many of these tasks, by age, limits allow a set, as balance finds it."""
    low, high, room = 0, tasks, _room(problem, {})
    for _ in range(HALVINGS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        some = _first(problem.unmet, order_of_age, middle)
        sets = (machines_for(problem.offers, some, room, Balance(), surcharges=each) for each in _surcharges(problem))
        fits = any(complete and problem.exceeded(_parts(problem, counts)) is None for counts, complete in sets)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _whole(problem: Problem, way: Way, surcharges: Sequence[float]) -> Proposal | None:
    """The set for all of the demand, if limits allow it."""
    found = _packed_set(problem, way, surcharges=surcharges)
    return found if found is not None and found.cap is None and serves_all(problem, found) else None


def _surcharges(problem: Problem) -> Iterator[Sequence[float]]:
    """Where limits allow too few machines of the cheapest set, they may allow larger ones."""
    dearest = max((offer.price for offer in problem.offers if offer.price < inf), default=0.0)
    for surcharge in (0.0, dearest):
        yield [surcharge] * len(problem.offers)


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


def _so_many(wants: Sequence[Want], tasks: Sequence[int]) -> list[Want]:
    return [(demand, count) for (demand, _), count in zip(wants, tasks, strict=True)]


def _parts(problem: Problem, counts: Mapping[int, int]) -> list[Part]:
    return [Part(problem.offers[at], count) for at, count in counts.items() if count]


def _tasks_left(problem: Problem, proposal: Proposal) -> int:
    return sum(tasks for _, tasks in _left(problem, proposal))


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


def _reason(problem: Problem, best: Proposal, runner_up: Proposal | None) -> Reason:
    """What it costs, and how much less than the runner-up."""
    price, cost = round(best.price, 4), _price_of(problem)
    other = None if runner_up is None else runner_up.machines
    more = None if runner_up is None else round(cost(runner_up) - cost(best), 4)
    second, equal = (other, None) if more else (None, other)
    if not problem.run_times:
        return because(Code.LAUNCH_CHEAPEST, price=price, more=more, second=second, equal=equal)
    paid = round(cost(best), 4)
    return because(Code.LAUNCH_LEAST_PAID, price=price, paid=paid, more=more, second=second, equal=equal)


def _not_proposed(problem: Problem, best: Proposal, second: Proposal | None) -> Iterator[Proposal]:
    """For each other offer a set of none, which says that another is preferred."""
    proposed = [part.offer for each in (best, second) if each is not None for part in each.parts]
    for offer in problem.offers:
        if all(offer is not each for each in proposed):
            yield Proposal(
                (Part(offer, 0),), served=(0,) * len(problem.unmet), wanted=1, cap=not_preferred(offer, best)
            )
