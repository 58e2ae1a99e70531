"""What to launch for a node array: the proposals of its strategy, each for the same demand, then capped.

Every cap that holds appends itself to the launch's reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from autoscaler.core.actions import Launch, LaunchSet, Offer
from autoscaler.core.capacity.offers import LaunchOffer, offers_for
from autoscaler.core.categories import assignment_of
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.core.demand.constraint_demand import unmet_by
from autoscaler.core.demand.run_times import run_times
from autoscaler.core.estimates.estimates import NO_ESTIMATES, Estimates, RunTime
from autoscaler.core.limits.limits import Room, Usage, launches_left, launches_left_in_window, what_is_left
from autoscaler.core.model.cluster import Cluster, Complex, JobRequest
from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import Bucket, InstanceType, OrderedFor, PriceType
from autoscaler.core.model.memory import Backoff, Event, ReportedType
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import main_owner, ordered_for
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import PLENTY, OpenPlacement
from autoscaler.core.policy import FITTING, NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastObjects, PerArguments
from autoscaler.core.requests.arrays import family_of
from autoscaler.core.requests.instance_types import not_offered
from autoscaler.core.sizing.cheapest.spot import not_for_spot, weighed
from autoscaler.core.sizing.cpu_capacity import one_by_one
from autoscaler.core.sizing.fitting_sizes import fitting_first
from autoscaler.core.sizing.problem import Part, Problem, Proposal, most_of_offer, name_of, not_preferred
from autoscaler.core.sizing.strategies import CPU_CAPACITY, preferred, proposals_for, strategy_of
from autoscaler.core.snapshot import BucketVerdict


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What launches of all arrays depend on."""

    policy: Policy
    buckets: Sequence[Bucket]
    backoffs: Sequence[Backoff]
    stopped: Mapping[str, str]
    launches: Sequence[Event]
    complexes: Mapping[str, Complex]
    now: float
    failed_at: Mapping[str, float] = field(default_factory=dict)
    """By node array, when an order of it last failed, as a whole or in part, or was planned and is not seen yet."""
    throttled: Reason | None = None
    """Why the provider takes no launch just now."""
    resumed_at: float | None = None
    """When a person last resumed."""
    reported: Sequence[ReportedType] = ()
    """Values that workers of a type reported."""
    only_cheapest: Sequence[Budget] = ()
    """Spent budgets that allow only the cheapest offers."""
    owners: int = 0
    """How many owners of jobs the cell has had."""
    unhelped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By array of the settings and owner: the workers launched in this hour that helped no job, or not yet."""
    cluster: Cluster | None = None
    """Whose waiting jobs are estimated."""
    estimates: Estimates = NO_ESTIMATES
    boots: Mapping[str, float] = field(default_factory=dict)
    """By node array, the longest boot that was seen."""
    interruptions: Mapping[str, float] = field(default_factory=dict)
    """By type and zone, interruptions of a spot machine an hour."""
    once: frozenset[int] = frozenset()
    """Jobs that are known not to run again if they are interrupted (`-r n`)."""

    def run_times_of(self, shortfall: Shortfall) -> tuple[tuple[RunTime, ...], ...]:
        """Of the tasks that fit nowhere, which are those submitted last. Empty: of some nothing is known."""
        if self.cluster is None or not self.estimates.seconds:
            return ()
        known = run_times(shortfall.wanted, self.cluster, self.estimates)
        found = tuple(times[-count:] if count else () for times, count in zip(known, shortfall.unmet, strict=True))
        missing = any(len(times) < count for times, count in zip(found, shortfall.unmet, strict=True))
        return () if missing else found

    def expected_of(self, shortfall: Shortfall) -> tuple[list[tuple[float, ...]], list[int]]:
        """Of each demand how long its tasks are estimated to run, seconds; empty: not known of all. And how many of
        them are known not to run again.
        """
        if self.cluster is None:
            return [() for _ in shortfall.unmet], [0 for _ in shortfall.unmet]
        known = run_times(shortfall.wanted, self.cluster, self.estimates)
        means = [
            tuple(time.mean for time in times[-count:]) if count else ()
            for times, count in zip(known, shortfall.unmet, strict=True)
        ]
        # Demand without requests is that of jobs on machines that are taken: they may be long ones.
        again = [0 if want.asks else count for want, count in zip(shortfall.wanted, shortfall.unmet, strict=True)]
        if not self.once:
            return means, again
        tasks: dict[JobRequest, int] = {}
        for category in self.cluster.job_categories:
            for job, some in zip(category.jobs, category.tasks, strict=True):
                if job in self.once:
                    tasks[category.ask] = tasks.get(category.ask, 0) + (task_count(some) if some else 1)
        times = [sum(tasks.get(ask, 0) for ask in want.asks) for want in shortfall.wanted]
        return means, [max(pair) for pair in zip(again, times, strict=True)]

    def keeps_to_cheapest(self, demands: Iterable[CategoryDemand] = ()) -> Budget | None:
        """The budget that allows a launch for these jobs only the cheapest offer; None: there is none."""
        if not self.only_cheapest:
            return None
        asks = [ask for want in demands for ask in want.asks]
        owners = {(Whose.USER, ask.owner) for ask in asks} | {(Whose.PROJECT, ask.project or "") for ask in asks}
        owners.add((Whose.CELL, ""))
        return next((each for each in self.only_cheapest if (each.whose, each.name) in owners), None)

    def offers(
        self, array: NodeArrayPolicy, usage: Usage, *, more: Sequence[Backoff] = (), waited: float = float("inf")
    ) -> tuple[tuple[LaunchOffer, ...], tuple[BucketVerdict, ...]]:
        """The offers that can be ordered for an array now, and why other buckets cannot. `more`: further backoffs."""
        backoffs = (*self.backoffs, *more)
        early = len(array.price_types) > 1 and waited < array.price_type_deadline
        return _OFFERS.of(
            (array.name, early),
            (self.buckets, self.complexes),
            lambda: offers_for(
                array, self.buckets, backoffs, usage, self.complexes, waited=waited, reported=self.reported
            ),
            (array, backoffs, usage, self.reported),
        )

    def stopped_by(self, array: NodeArrayPolicy) -> Reason | None:
        """Why the array launches nothing until an operator acts: an error that lasts, of it or of the array that it
        extends, whose settings it has.
        """
        name = next((each for each in (array.name, family_of(array)) if each in self.stopped), None)
        return None if name is None else because(Code.NODE_ARRAY_STOPPED, node_array=name, message=self.stopped[name])

    def most_launches(self, array: NodeArrayPolicy, owner: str) -> int:
        """How many launches of an array for this owner the hour and the window of the circuit breaker allow."""
        hourly = self.room_in_hour(array, owner)
        return min((room.count for room in (hourly, self.room_in_window(owner)) if room is not None), default=PLENTY)

    def room_in_hour(self, array: NodeArrayPolicy, owner: str = "", *, whole: bool = False) -> Room | None:
        """How many more launches of an array this hour allows for an owner of jobs; '': for nobody's."""
        family = family_of(array)
        unhelped = self.unhelped.get((family, owner), 0) if self.owners > 1 else None
        return launches_left(array.limits, self.launches, family, self.now, owner=owner, unhelped=unhelped, whole=whole)

    def room_in_window(self, owner: str = "") -> Room | None:
        """How many more launches the window of the circuit breaker allows for an owner of jobs; '': for nobody's."""
        limits, launches = self.policy.circuit_breaker, self.launches
        return launches_left_in_window(limits, launches, self.now, self.resumed_at, owner=owner, known=self.owners)

    def owners_at_limit(self, array: NodeArrayPolicy) -> Mapping[str, Reason]:
        """Owners of jobs whose part of the window or of the array's hour is used up, where the cell has others."""
        if self.owners < 2:
            return {}
        owners = sorted({event.owner for event in self.launches} - {""})
        rooms = [
            (owner, room) for owner in owners for room in (self.room_in_hour(array, owner), self.room_in_window(owner))
        ]
        return {owner: room.cap for owner, room in rooms if room is not None and room.count <= 0}

    def main_owner_of(self, demands: Sequence[CategoryDemand], tasks: Sequence[int]) -> str:
        """The owner of most of these tasks; '': there are none."""
        return main_owner(_ordered_for(demands, tasks), self.policy.owner)


_OFFERS = PerArguments[tuple[tuple[LaunchOffer, ...], tuple[BucketVerdict, ...]]](256)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The tasks and the missing workers for which a node array launches."""

    wanted: Sequence[CategoryDemand]
    unmet: Sequence[int]
    """Parallel to `wanted`: tasks that fit nowhere."""
    placement: OpenPlacement
    """The supply with all demand placed on it that fits."""
    workers: int = 0
    """Workers missing to reach the floor; launched if no task is unmet."""

    @property
    def demands(self) -> tuple[Want, ...]:
        return _DEMANDS.value_of(
            (self.wanted, self.unmet),
            lambda: tuple([(want.demand, count) for want, count in zip(self.wanted, self.unmet, strict=True)]),
        )

    @property
    def needing(self) -> list[CategoryDemand]:
        """The demands with unmet tasks."""
        return [want for want, count in zip(self.wanted, self.unmet, strict=True) if count]

    @property
    def oldest(self) -> float:
        """When the oldest of the unmet demand began to wait; -inf: none is unmet."""
        return _OLDEST.value_of(
            (self.wanted, self.unmet), lambda: min([want.oldest for want in self.needing], default=float("-inf"))
        )

    @property
    def since(self) -> tuple[float, ...]:
        """Parallel to `wanted`: when each began to wait."""
        return _SINCE.value_of((self.wanted,), lambda: tuple([want.oldest for want in self.wanted]))

    @property
    def slots(self) -> int:
        """Of the unmet tasks."""
        return _SLOTS.value_of(
            (self.wanted, self.unmet), lambda: sum([demand.slots * count for demand, count in self.demands])
        )


_DEMANDS, _OLDEST = LastObjects[tuple[Want, ...]](4), LastObjects[float](4)
_SINCE, _SLOTS = LastObjects[tuple[float, ...]](2), LastObjects[int](4)


@dataclass(frozen=True, slots=True)
class ArrayLaunch:
    """The launch of one array for unmet demand."""

    launch: Launch | None = None
    covered: tuple[int, ...] = ()
    """Parallel to the wanted demands: tasks that these workers, rate-limited or not, will serve. No other array
    launches for them.
    """
    placement: OpenPlacement | None = None
    """The supply with those tasks placed."""
    buckets: tuple[BucketVerdict, ...] = ()
    note: Reason | None = None
    """Why nothing is launched although something is needed."""
    assigned: tuple[tuple[str, int, int], ...] = ()
    """If the policy asks for it: workers (`m5.large 2`), the position of a wanted demand, and its slots there."""

    def besides(self, reason: Reason | None) -> ArrayLaunch:
        """The same; if nothing is launched, with this reason added to the note."""
        if reason is None or self.launch is not None:
            return self
        return replace(self, note=reason if self.note is None else self.note.then(reason))


@dataclass(frozen=True, slots=True)
class Replacing:
    """What is proposed for a launch that replaces weaker workers."""

    options: tuple[tuple[str, PriceType], ...]
    """Instance and price types, best first."""
    reason: Reason

    def propose(self, problem: Problem) -> tuple[Proposal, ...]:
        """Those of the offers that are among its options, in its order."""
        keys = [(offer.type.name, offer.price_type) for offer in problem.offers]
        return problem.alone(
            [offer for key in self.options for offer, other in zip(problem.offers, keys, strict=True) if other == key]
        )


def size_launch(
    array: NodeArrayPolicy,
    shortfall: Shortfall,
    usage: Usage,
    launch_context: LaunchContext,
    *,
    replacing: Replacing | None = None,
) -> ArrayLaunch:
    """Launch for unmet demand, or for the floor of workers if nothing is unmet. `replacing`: options to use instead of
    the array's strategy.
    """
    wants, unmet = shortfall.demands, sum(shortfall.unmet)
    if not unmet and shortfall.workers <= 0:
        return ArrayLaunch()
    if (stopped := launch_context.stopped_by(array)) is not None:
        return ArrayLaunch(note=stopped)
    offers, refused = launch_context.offers(array, usage, waited=launch_context.now - shortfall.oldest)
    steady: tuple[int, ...] = ()
    if array.weighs_spot and unmet:
        offers, steady = _with_interruptions(array, shortfall, offers, launch_context)
    owner = launch_context.main_owner_of(shortfall.wanted, shortfall.unmet)
    most = launch_context.most_launches(array, owner)
    problem = Problem(
        wants,
        shortfall.placement,
        offers,
        what_is_left(array.limits, usage),
        launch_context.now,
        array.scale_up_batch,
        shortfall.since,
        launch_context.run_times_of(shortfall) if array.compares_paid else (),
        launch_context.boots.get(array.name, 0.0),
        steady,
        array.billing_step,
        array.billing_minimum,
        usage.cores,
        most,
    )
    sized: Sequence[Proposal]
    if unmet:
        sized = _proposed(array, problem, usage, most) if replacing is None else replacing.propose(problem)
        reason = because(Code.DEMAND, queue=array.queue, tasks=unmet, slots=shortfall.slots)
        reason = reason if replacing is None else reason.then(replacing.reason)
    else:
        sized = [_so_many(offer, shortfall.workers) for offer in _by_preference(array, problem)]
        reason = because(Code.MIN_WORKERS_FLOOR, node_array=array.name, min_workers=array.limits.min_workers)
    if replacing is None and (budget := launch_context.keeps_to_cheapest(shortfall.needing)) is not None:
        sized, refused = _cheapest(sized, refused, budget)
    chosen = [proposal for proposal in sized if proposal.count]
    verdicts = _VERDICTS.of(
        array.name, (sized, refused, wants, array.rules), lambda: (*refused, *_verdicts(sized, wants, array.rules))
    )
    if not chosen:
        return ArrayLaunch(buckets=verdicts, note=_nothing_note(array, sized, refused, launch_context, wants))
    growth = _launch(array, chosen, reason, verdicts, launch_context, owner=owner)
    if growth.launch is None or not unmet:
        return growth
    count = growth.launch.candidates[0].workers  # the launch may be rate-limited
    served = chosen[0].served if count == chosen[0].count else problem.served_by(chosen[0].at_most(count))
    launch = replace(
        growth.launch,
        assignment=assignment_of(shortfall.wanted, served),
        ordered_for=_ordered_for(shortfall.wanted, served),
    )
    meant = replace(chosen[0], parts=chosen[0].at_most(count))
    return replace(growth, launch=launch, assigned=_assigned(problem, meant) if launch_context.policy.assigns else ())


_VERDICTS = PerArguments[tuple[BucketVerdict, ...]](64)
_ORDERED_FOR = LastObjects[tuple[OrderedFor, ...]](4)


def _ordered_for(demands: Sequence[CategoryDemand], tasks: Sequence[int]) -> tuple[OrderedFor, ...]:
    return _ORDERED_FOR.value_of((demands, tasks), lambda: ordered_for(demands, tasks))


def _with_interruptions(
    array: NodeArrayPolicy, shortfall: Shortfall, offers: Sequence[LaunchOffer], launch_context: LaunchContext
) -> tuple[tuple[LaunchOffer, ...], tuple[int, ...]]:
    """The offers with what interruptions are likely to add to their prices; and the tasks that are not for spot."""
    seconds, once = launch_context.expected_of(shortfall)
    rates = launch_context.interruptions
    steady = not_for_spot(shortfall.demands, offers, rates, seconds, once)
    # The shorter ones are for spot.
    others = [
        time for times, count in zip(seconds, steady, strict=True) for time in sorted(times)[: len(times) - count]
    ]
    mean = sum(others) / len(others) if others else None
    return tuple(weighed(offers, rates, mean, launch_context.boots.get(array.name, 0.0))), steady


def _assigned(problem: Problem, proposal: Proposal) -> tuple[tuple[str, int, int], ...]:
    names: dict[str, str] = {}
    of_type: dict[str, int] = {}
    for at, part in enumerate(proposal.parts):
        for number in range(part.count):
            of_type[part.offer.type.name] = of_type.get(part.offer.type.name, 0) + 1
            names[name_of(at, number)] = f"{part.offer.type.name} {of_type[part.offer.type.name]}"
    places = {name: place for place, name in enumerate(names)}
    shares = sorted(problem.shares(proposal), key=lambda share: (places.get(share.host, -1), share.demand))
    return tuple((names.get(share.host, share.host), share.demand, share.slots) for share in shares)


def _proposed(array: NodeArrayPolicy, problem: Problem, usage: Usage, most: int) -> Sequence[Proposal]:
    """What the array's strategy proposes. `most`: how many workers may be launched just now."""
    strategy = strategy_of(array)
    if strategy is CPU_CAPACITY and array.hybrid_size == FITTING:

        def fitting(rest: Problem) -> Sequence[LaunchOffer]:
            return fitting_first(preferred(array, rest), rest.unmet, rest.placement, usage, most)

        return _fixed(array, problem, lambda: one_by_one(problem, fitting), (usage, most))
    if strategy is CPU_CAPACITY:
        return _fixed(array, problem, lambda: proposals_for(strategy, problem))
    return proposals_for(strategy, problem)


_PROPOSED = PerArguments[Sequence[Proposal]](64)


def _fixed(
    array: NodeArrayPolicy, problem: Problem, propose: Callable[[], Sequence[Proposal]], besides: object = None
) -> Sequence[Proposal]:
    """What a strategy proposes that looks at neither times nor prices of steps."""
    return _PROPOSED.of(
        array.name,
        (problem.unmet, problem.placement.state, problem.offers),
        propose,
        (array, problem.left, problem.batch, besides),
    )


def size_requested(
    array: NodeArrayPolicy,
    reason: Reason,
    count_of: Callable[[InstanceType], int],
    usage: Usage,
    launch_context: LaunchContext,
    *,
    placement_group: str | None = None,
) -> ArrayLaunch:
    """Launch requested workers. `count_of`: how many workers of a type alone would meet the request. Requests are not
    divided into batches; a launch waits only after a failure.
    """
    if (stopped := launch_context.stopped_by(array)) is not None:
        return ArrayLaunch(note=stopped)
    offers, refused = launch_context.offers(array, usage)
    if placement_group is not None:
        offers = tuple(_within(offer, placement_group) for offer in offers)
    problem = Problem((), OpenPlacement(), offers, now=launch_context.now)
    sized = [_so_many(offer, count_of(offer.type)) for offer in _by_preference(array, problem)]
    if array.hybrid and not array.machine_types:  # the smallest type that limits do not cap comes first
        sized = sorted(sized, key=lambda proposal: proposal.count < proposal.wanted)
    if (budget := launch_context.keeps_to_cheapest()) is not None:
        sized, refused = _cheapest(sized, refused, budget)
    chosen = [proposal for proposal in sized if proposal.count]
    verdicts = (*refused, *_verdicts(sized))
    if not chosen:
        return ArrayLaunch(buckets=verdicts, note=reason.then(_nothing_note(array, sized, refused, launch_context)))
    return _launch(array, chosen, reason, verdicts, launch_context, requested=True)


def _by_preference(array: NodeArrayPolicy, problem: Problem) -> Sequence[LaunchOffer]:
    return problem.offers if array.hybrid else preferred(array, problem)


def _within(option: LaunchOffer, placement_group: str) -> LaunchOffer:
    """The option in one placement group, if its provider has or creates that group."""
    found = [bucket for bucket in option.buckets if bucket.key.placement_group == placement_group]
    made = [
        replace(bucket, key=replace(bucket.key, placement_group=placement_group))
        for bucket in option.buckets
        if bucket.any_group
    ]
    buckets = tuple(found or made)
    return replace(option, buckets=buckets) if buckets else option


def _launch(
    array: NodeArrayPolicy,
    chosen: Sequence[Proposal],
    reason: Reason,
    verdicts: tuple[BucketVerdict, ...],
    launch_context: LaunchContext,
    *,
    requested: bool = False,
    owner: str = "",
) -> ArrayLaunch:
    """The launch of the chosen proposals, capped by batch, launches an hour and the circuit breaker's window. `owner`:
    of most of the jobs that it is for.
    """
    first = chosen[0]
    placement = None if first.placement is None else first.placement.copy()
    growth = ArrayLaunch(covered=first.served, placement=placement, buckets=verdicts)
    if launch_context.throttled is not None:
        return replace(growth, note=launch_context.throttled)
    if _too_soon(array, launch_context, requested=requested):
        note = because(Code.BATCH_DELAY, node_array=array.name, delay_s=launch_context.policy.batch_delay)
        return replace(growth, note=note)
    hourly = launch_context.room_in_hour(array, owner)
    batch = None if requested else Room(array.scale_up_batch, because(Code.SCALE_UP_BATCH, batch=array.scale_up_batch))
    reason = reason.then(because(Code.LAUNCH_WANTED, workers=first.wanted, type=first.types))
    if first.reason is not None:
        reason = reason.then(first.reason)
    if first.cap is not None:
        reason = reason.then(first.cap)
    rooms = [room for room in (batch, hourly, launch_context.room_in_window(owner)) if room is not None]
    tightest = min(rooms, key=lambda room: room.count, default=None)
    if tightest is not None and tightest.count <= 0:
        return replace(growth, note=tightest.cap)
    if tightest is not None and tightest.count < first.count:
        reason = reason.then(tightest.cap)
    most = PLENTY if tightest is None else tightest.count
    candidates = tuple(_launch_set(proposal.at_most(most)) for proposal in chosen)
    return replace(growth, launch=Launch(array.name, candidates, reason))


def _too_soon(array: NodeArrayPolicy, launch_context: LaunchContext, *, requested: bool) -> bool:
    """Whether a launch comes too soon after the last one of this array; for requests, after the last failed one."""
    launched = (event.at for event in launch_context.launches if event.node_array == array.name)
    last = launch_context.failed_at.get(array.name) if requested else max(launched, default=None)
    return last is not None and launch_context.now - last < launch_context.policy.batch_delay


def _launch_set(parts: Sequence[Part]) -> LaunchSet:
    first, *others = parts
    return LaunchSet(
        first.offer.buckets, first.count, besides=tuple(Offer(part.offer.buckets, part.count) for part in others)
    )


def _cheapest(
    sized: Sequence[Proposal], refused: tuple[BucketVerdict, ...], budget: Budget
) -> tuple[list[Proposal], tuple[BucketVerdict, ...]]:
    """Of the available proposals only the one with the least price for the service, if any price is known. Unavailable
    ones stay, because they say why.
    """
    known = [proposal for proposal in sized if proposal.count and proposal.price < float("inf")]
    if not known:
        return list(sized), refused
    best = min(known, key=_price_of_service)
    more_expensive = [proposal for proposal in sized if proposal.count and proposal is not best]
    verdicts = [
        BucketVerdict(
            bucket.key,
            False,
            because(
                Code.BUCKET_NOT_CHEAPEST,
                type=part.offer.type.name,
                cheapest=best.types,
                owner=budget.owner,
            ),
        )
        for proposal in more_expensive
        for part in proposal.parts
        if all(part.offer is not each.offer for each in best.parts)
        for bucket in part.offer.buckets
    ]
    return [best, *(proposal for proposal in sized if not proposal.count)], (*refused, *verdicts)


def _price_of_service(proposal: Proposal) -> float:
    """Price an hour to serve one task, or the whole request."""
    served = sum(proposal.served) or proposal.count / max(proposal.wanted, 1)
    return proposal.price / served


def _so_many(offer: LaunchOffer, count: int) -> Proposal:
    """A number of workers that does not come from demand: for the floor, for requests."""
    most, cap = most_of_offer(offer)
    return Proposal((Part(offer, min(count, most)),), wanted=count, cap=cap if count > most else None)


def _verdicts(
    sized: Sequence[Proposal], wants: Sequence[Want] = (), rules: Rules | None = None
) -> tuple[BucketVerdict, ...]:
    """A verdict on every available bucket: chosen, not preferred, or of no use."""
    verdicts: list[BucketVerdict] = []
    judged: list[LaunchOffer] = []
    chosen = next((proposal for proposal in sized if proposal.count), None)
    for proposal in sized:
        for part in proposal.parts:
            if any(part.offer is each for each in judged):
                continue
            judged.append(part.offer)
            reason = _verdict(proposal, part, chosen, wants, rules)
            verdicts.extend(BucketVerdict(bucket.key, proposal is chosen, reason) for bucket in part.offer.buckets)
    return tuple(verdicts)


def _verdict(
    proposal: Proposal, part: Part, chosen: Proposal | None, wants: Sequence[Want], rules: Rules | None
) -> Reason:
    if proposal is chosen:
        return because(Code.BUCKET_CHOSEN, type=part.offer.type.name, count=part.count)
    if proposal.count and chosen is not None:
        return not_preferred(part.offer, chosen)
    if proposal.cap is None:
        return _no_use(part.offer, wants, rules)
    return proposal.cap if proposal.wanted else _no_use(part.offer, wants, rules).then(proposal.cap)


def _no_use(offer: LaunchOffer, wants: Sequence[Want], rules: Rules | None) -> Reason:
    """Why a worker of this offer would run no waiting task."""
    type_, host = offer.type.name, offer.host
    unmet = [unmet_by(host, demand, rules) for demand, count in wants if count] if rules is not None else []
    if unmet and all(unmet):
        return because(Code.BUCKET_AGAINST_RULES, type=type_, places=tuple(sorted({*chain.from_iterable(unmet)})))
    return because(Code.BUCKET_TOO_SMALL, type=type_, reported=_reported_of(offer, wants))


def _reported_of(offer: LaunchOffer, wants: Sequence[Want]) -> tuple[str, ...] | None:
    """Values that pending jobs ask for and that its hosts report differently from what the type promises."""
    if offer.reported is None:
        return None
    requested = {requested.name for demand, count in wants if count for requested in demand.properties}
    forced = offer.host.forced - frozenset().union(*(demand.names for demand, count in wants if count))
    values = offer.reported.values
    texts = [f"no {name}" if text is None else f"{name}={text}" for name, text in values if name in requested - forced]
    texts += [f"{name}={text}, which is FORCED" for name, text in values if name in forced]
    return tuple(texts) or None


def _nothing_note(
    array: NodeArrayPolicy,
    sized: Sequence[Proposal],
    refused: Sequence[BucketVerdict],
    launch_context: LaunchContext,
    wants: Sequence[Want] = (),
) -> Reason:
    """Why nothing is launched although something is needed: the cap of the preferred proposal, or that nothing is
    available, with the cause for the first allowed type.
    """
    capped = next((proposal for proposal in sized if proposal.cap is not None), None)
    if capped is not None and capped.cap is not None:
        reason = because(Code.LAUNCH_WANTED, workers=capped.wanted, type=capped.types)
        return reason.then(capped.cap)
    types = not_offered(array, launch_context.buckets) or array.machine_types
    nothing = because(Code.NOTHING_TO_LAUNCH, node_array=array.name, requested=types or None)
    proposed = [part.offer for proposal in sized for part in proposal.parts]
    disproved = (_no_use(offer, wants, array.rules) for offer in proposed if _reported_of(offer, wants))
    others = (verdict.reason for verdict in refused if verdict.reason.code is not Code.BUCKET_NOT_ALLOWED)
    why = next(chain(disproved, others), None)
    return nothing if why is None else nothing.then(why)
