"""One observation: Grid Engine, the provider, our journal, overrides of operators. All of it, or none (rule 2).

The provider is asked on a thread of its own while Grid Engine is read, so that a hung cloud never hangs the loop. A
reading that took too long is stale: the state that it shows may be gone, so it decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from autoscaler.background import Executor, on_thread
from autoscaler.constraints.rule_files import RuleFiles
from autoscaler.core.actions import Annotate, Disable, Enable, TellWaiting, Terminate
from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.estimates.estimates import NO_ESTIMATES, Estimates
from autoscaler.core.model.cluster import Cluster, JobCategory
from autoscaler.core.model.evidence import SchedulerSays
from autoscaler.core.model.fleet import Bucket, Fleet, Interruption, Order, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.outcome.unstarted_jobs import jobs_to_ask
from autoscaler.core.outcome.waiting_notes import with_failures
from autoscaler.core.policy import Policy
from autoscaler.core.readable.screening import readable
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.requests.orders import still_coming
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.unwritten import with_unwritten
from autoscaler.engine.foreign_names import ForeignNames
from autoscaler.engine.spending import SpendingReader
from autoscaler.engine.steady_clock import SteadyClock
from autoscaler.errors import NotObservable, ProviderNotObservable
from autoscaler.process import Runner
from autoscaler.providers.advice import Advice
from autoscaler.providers.interface import HandsBack, HasInterruptions, HasTroubles, Provider, ProviderError
from autoscaler.sge.cluster import Outputs, cluster_from, read_outputs
from autoscaler.sge.detail_lookups import DetailLookups
from autoscaler.sge.notices import reported_notices
from autoscaler.sge.qstat import ListingReader
from autoscaler.sge.reading import TIMEOUT, ConfigurationReader
from autoscaler.sge.shared_listing import SharedListing
from autoscaler.store.store import Store

LISTING_DEADLINE = 60.0
"""Seconds that a provider may take to list its workers and buckets."""
CLOCK_SLACK = 60.0
"""Seconds by which a clock may be set back without effect."""
STALE_AFTER = 120.0
"""Seconds from the first call to the last answer after which a reading is stale."""

Wanted = Callable[[Sequence[JobCategory], Memory, Policy, float, Needs], Sequence[int]]
"""Core's choice of jobs to ask `qstat -j` about."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a provider reports in one observation."""

    workers: tuple[Worker, ...]
    buckets: tuple[Bucket, ...]
    interruptions: tuple[Interruption, ...] = ()


def list_all(provider: Provider, advice: Advice | None = None, last: Sequence[Interruption] = ()) -> Listing:
    """Ask the provider for everything; a failed call for workers or buckets fails the whole listing. Raises
    ProviderError. Interruption notices fail alone: then those of the `last` listing stand.

    Pages that shift while they are read may list a worker twice: the later entry counts.
    """
    notices: Sequence[Interruption] = ()
    if isinstance(provider, HasInterruptions):
        notices = (advice or Advice()).read(
            "interruption notices", lambda: tuple(provider.interruptions()), tuple(last)
        )
    workers = {worker.id: worker for worker in provider.workers()}
    return Listing(tuple(workers.values()), tuple(provider.buckets()), tuple(notices))


@dataclass(frozen=True, slots=True)
class Observation:
    """A snapshot, with the raw outputs it was made of (for a record) and how long that took."""

    snapshot: Snapshot
    outputs: Outputs
    timings: Mapping[str, float]
    """Seconds: `read` (waiting for Grid Engine and provider), `parse`."""


def _nothing(_: float) -> None:
    """Gathers no evidence, for those who only show: they use what the autoscaler has found."""


@dataclass(slots=True)
class Observer:
    """Whom to ask, and how long to wait."""

    runner: Runner
    provider: Provider
    store: Store
    policy: Policy
    wanted: Wanted
    zone: tzinfo
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.monotonic
    executor: Executor = on_thread
    grid_engine_timeout: float = TIMEOUT
    """Seconds for one of Grid Engine's commands."""
    listing_deadline: float = LISTING_DEADLINE
    stale_after: float = STALE_AFTER
    tag: str = ""
    """The tag of the cell's machines, as the provider lists them; '' if every order counts."""
    requests: Callable[[float], Requests] | None = None
    """Callers' requests of node arrays at a time; None: those in the store."""
    rule_files: RuleFiles | None = None
    """The rules and VM sizes to apply; None: there are none."""
    policies: Callable[[Snapshot, Policy], Snapshot] | None = None
    """Adds the requests of autoscale policies to a snapshot, given the policy that holds without any requests."""
    gather: Callable[[float], None] = _nothing
    """Brings new evidence into the store; missing evidence is no error. Raises StateNotKept."""
    estimates: Callable[[Cluster, float], Estimates] | None = None
    """Estimates how long jobs will run, where anything is decided by that; None: nothing is known."""
    ask_scheduler: Callable[[Sequence[int], float], Mapping[int, SchedulerSays]] | None = None
    """Asks the scheduler why jobs that fit do not start; None: for those who only show."""
    _advice: Advice = field(default_factory=Advice, init=False)
    _notices: tuple[Interruption, ...] = field(default=(), init=False)
    """Those of the last listing."""
    _spending: SpendingReader | None = field(default=None, init=False)
    _left: tuple[tuple[str, ...], frozenset[str | None], tuple[str, ...]] = field(
        default=((), frozenset(), ()), init=False
    )
    """Silent hosts of no worker, hosts of workers, and which of the former have the names of workers that have left."""
    _listing: Future[Listing] | None = field(default=None, init=False)
    _configuration: ConfigurationReader = field(default_factory=ConfigurationReader, init=False)
    _listings: ListingReader = field(default_factory=ListingReader, init=False)
    _shared_listing: SharedListing = field(init=False)
    _lookups: DetailLookups = field(init=False)
    _foreign: ForeignNames = field(default_factory=ForeignNames, init=False)

    def __post_init__(self) -> None:
        self._shared_listing, self._lookups = SharedListing(self.stopwatch), DetailLookups(self.stopwatch)

    def observe(self) -> Observation:
        """Observe once. Raises NotObservable if any part cannot be read, or all of it took too long."""
        if isinstance(self.clock, SteadyClock):
            self.clock.adjust()
        began, now = self.stopwatch(), self.clock()
        # A clock that was set back must not put a command before what the last pass knew.
        overrides = self.store.overrides.load(max(now, self.store.memory.saved_at + 0.001))
        memory = self._memory(overrides)
        requests = (self.requests or self.store.requests.load)(now)
        rules = None if self.rule_files is None else self.rule_files.rules()
        policy = under(rules, self.policy)
        listing = self._begin_listing()
        outputs, timings = read_outputs(
            self.runner,
            wanted=lambda job_categories, needs: self.wanted(job_categories, memory, policy, now, needs),
            ours=[note.host for note in memory.workers.values() if note.host],
            zone=self.zone,
            timeout=self.grid_engine_timeout,
            reader=self._configuration,
            listings=self._listings,
            listing=self._shared_listing,
            lookups=self._lookups,
        )
        # Only where Grid Engine answered, a missing answer about a job says something of it.
        memory = replace(memory, lookups=tuple(job for job in memory.lookups if job not in self._lookups.unanswered))
        listed = self._end_listing(listing, began)
        self._notices = listed.interruptions
        memory = _without_handed_back(memory, self.provider)
        read = self.stopwatch()
        # After the listing: an order that is answered meanwhile then has ids that are not in the listing, and still
        # counts.
        fleet = self._fleet(listed, requests, memory, now)
        cluster = cluster_from(outputs, zone=self.zone, now=now)
        memory = replace(memory, left_hosts=self._left_hosts(cluster, memory))
        fleet = fleet if self.rule_files is None else self.rule_files.sized(fleet)
        fleet = self._foreign.without(fleet, cluster, memory, policy.master, now)
        fleet = _with_notices(fleet, reported_notices(cluster.hosts, fleet.workers))
        parsed = self.stopwatch()
        if parsed - began > self.stale_after:
            raise NotObservable(
                f"reading Grid Engine and provider took {parsed - began:.0f} s, longer than {self.stale_after:g} s: "
                "stale; nothing was decided; the qmaster or this machine is overloaded"
            )
        self.gather(now)
        evidence = self.store.findings(now)
        asked = jobs_to_ask(memory.unstarted, now) if self.ask_scheduler is not None else ()
        if asked and self.ask_scheduler is not None:
            evidence = replace(evidence, scheduler=self.ask_scheduler(asked, now))
        if self.rule_files is not None:
            policy = under(self.rule_files.facts(rules, fleet), self.policy)
        allowed = in_force(policy, requests, arrays_present(fleet, memory), fleet.buckets)
        # Explanations of a plan use the same readings as the plan.
        if self._spending is None:
            self._spending = SpendingReader(self.store)
        spending = self._spending.read(policy, now)
        wanted = self.estimates if allowed.estimates else None
        estimates = NO_ESTIMATES if wanted is None else wanted(cluster, now)
        snapshot = readable(
            Snapshot(cluster, fleet, overrides, memory, allowed, now, evidence, requests, spending, estimates)
        )
        if self.policies is not None:
            snapshot = self.policies(snapshot, policy)
        parse = timings["parse"] + parsed - read
        return Observation(snapshot, outputs, {"read": parsed - began - parse, "parse": parse})

    def troubles(self) -> dict[str, str]:
        """What of the provider's advice fails, which of its calls pause, and whose jobs take long to read: by source,
        why.
        """
        provider = self.provider
        own = provider.troubles() if isinstance(provider, HasTroubles) else {}
        found = {f"{provider.name}: {source}": why for source, why in {**self._advice.troubles(), **own}.items()}
        reading = {"qstat": self._shared_listing.trouble, "qstat -j": self._lookups.trouble}
        return {**{source: why for source, why in reading.items() if why}, **found}

    def _memory(self, overrides: Overrides) -> Memory:
        """The memory of the last pass; a later command of a person releases a circuit breaker in it."""
        memory, resumed_at = self.store.memory.load(), overrides.resumed_at
        memory = replace(memory, workers={key: self._as_done(key, note) for key, note in memory.workers.items()})
        written_at = memory.waiting_written_at
        if written_at is not None and written_at == memory.observed_at:  # the last pass wrote
            unwritten = self.store.journal.unwritten(TellWaiting.kind, written_at)
            memory = replace(memory, waiting_notes=with_failures(memory, unwritten))
        if (annotated_at := memory.annotated_at) is not None:
            unwritten = self.store.journal.unwritten(Annotate.kind, annotated_at)
            notes = with_unwritten(memory.unsatisfiable_jobs, unwritten, annotated_at)
            memory = replace(memory, unsatisfiable_jobs=notes)
        stopped = memory.circuit_breaker is not None or memory.kills_stopped is not None
        if stopped and resumed_at is not None and resumed_at > self.store.memory.saved_at:
            return replace(memory, circuit_breaker=None, kills_stopped=None)
        return memory

    def _left_hosts(self, cluster: Cluster, memory: Memory) -> tuple[str, ...]:
        """The hosts that do not report, are no worker's, and have the name of one that has left."""
        own = frozenset(note.host for note in memory.workers.values() if not note.left)
        silent = tuple(host.name for host in cluster.hosts if not host.heard and host.name not in own)
        if (silent, own) != self._left[:2]:
            self._left = silent, own, self.store.history.left(silent) if silent else ()
        return self._left[2]

    def _as_done(self, worker_id: str, note: WorkerNote) -> WorkerNote:
        """A step that the journal has as done needs no observation: any change since is a person's."""
        journal = self.store.journal
        if note.missing_since is not None and note.terminated_at is not None and not note.gone:
            # Asked to end and not listed: a listing that begins after that and does not have it confirms its end.
            note = replace(note, gone=journal.carried_out(Terminate.kind, worker_id, note.terminated_at))
        if note.disabling is None:
            return note
        if note.enabled_at is not None:
            if not journal.carried_out(Enable.kind, worker_id, note.enabled_at):
                return note
            note = replace(note, disabled_at=None, disabling=None, seen_disabled=False, enabled_at=None)
            return replace(note, empty_since=None, retired_at=None)
        if note.seen_disabled or note.disabled_at is None:
            return note
        return replace(note, seen_disabled=journal.carried_out(Disable.kind, worker_id, note.disabled_at))

    def _fleet(self, listed: Listing, requests: Requests, memory: Memory, now: float) -> Fleet:
        policy, journal = self.policy, self.store.journal
        ids = {worker.id for worker in listed.workers}
        longest_rest = max((array.unavailability_delay for array in policy.node_arrays), default=0.0)
        return Fleet(
            workers=_in_groups(listed.workers, journal.groups()),
            buckets=listed.buckets,
            orders=still_coming(self._orders(requests, now), ids, memory),
            failures=journal.failures(now - longest_rest),
            enrols_itself=self.provider.enrols_itself,
            interruptions=listed.interruptions,
            refused_ends=journal.refused_ends([worker.id for worker in listed.workers if worker.exists]),
        )

    def _orders(self, requests: Requests, now: float) -> tuple[Order, ...]:
        """Orders that may still bring workers, and those for created nodes whose worker is not noted yet: however long
        nothing could be observed since, a node gets no second machine. If the clock was set back, old orders seem new
        again: machines with an end in the future came and went, and do not come again.
        """
        orders = self.orders(now, {node.id for node in requests.nodes if node.worker_id is None})
        if not any(order.ids for order in orders):
            return orders
        gone = self.store.history.ended_after(now + CLOCK_SLACK)
        return tuple(replace(order, ids=tuple(one for one in order.ids if one not in gone)) for order in orders)

    def orders(self, now: float, nodes: Collection[str] = ()) -> tuple[Order, ...]:
        """Orders that may still bring workers, and those for these created nodes. The machines of an order of a former
        tag are not listed, whether they are there or not: none of them is coming.
        """
        found: list[Order] = []
        for record in self.store.journal.orders(now - self.policy.order_grace, nodes):
            former = self.tag and record.cell not in ("", self.tag)
            found += (replace(order, ids=()) if former else order for order in record.as_orders())
        return tuple(found)

    def _begin_listing(self) -> Future[Listing]:
        """One listing at a time: a provider that hangs gets no second thread to hang."""
        if self._listing is not None and not self._listing.done():
            raise ProviderNotObservable(
                f"{self.provider.name} has still not answered an earlier listing; nothing was decided"
            )
        self._listing = self.executor(lambda: list_all(self.provider, self._advice, self._notices), "provider-listing")
        return self._listing

    def _end_listing(self, listing: Future[Listing], began: float) -> Listing:
        patience = max(0.0, self.listing_deadline - (self.stopwatch() - began))
        try:
            return listing.result(patience)
        except TimeoutError:
            raise ProviderNotObservable(
                f"{self.provider.name} did not list its workers within {self.listing_deadline:g} s; "
                "nothing was decided; check its network and service"
            ) from None
        except NotObservable:
            raise
        except ProviderError as error:
            raise ProviderNotObservable(
                f"{self.provider.name} did not list its workers: {error}; nothing was decided"
            ) from error


def _in_groups(workers: Sequence[Worker], groups: Mapping[str, str]) -> tuple[Worker, ...]:
    """Every worker with its group: from its machine's tag, else from its order. `groups`: by order id."""
    return tuple(
        replace(worker, group_id=group)
        if worker.group_id is None and (group := groups.get(worker.order_id or "")) is not None
        else worker
        for worker in workers
    )


def _with_notices(fleet: Fleet, interruptions: Iterable[Interruption]) -> Fleet:
    """An interruption that the provider reports replaces one that the machine itself reports."""
    known = {(notice.worker_id, notice.kind) for notice in fleet.interruptions}
    further = tuple(notice for notice in interruptions if (notice.worker_id, notice.kind) not in known)
    return replace(fleet, interruptions=(*fleet.interruptions, *further)) if further else fleet


def _without_handed_back(memory: Memory, provider: Provider) -> Memory:
    """The memory without workers that are somebody else's again: nothing waits for them, and their hosts stay.
    One whose end we asked for stays until its host is removed.
    """
    others = provider.handed_back() if isinstance(provider, HandsBack) else frozenset()
    kept = {key: note for key, note in memory.workers.items() if key not in others or note.terminated_at is not None}
    return memory if len(kept) == len(memory.workers) else replace(memory, workers=kept)
