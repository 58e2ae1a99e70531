"""Rule 6 over any history: whenever a job is deleted or held, a checker of its own confirms every clause.

The checker keeps its own record of the state at every observation, and judges by brute force: every number of every
allowed type, one by one. It uses plain values of `autoscaler.core`, and none of its judgement.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autoscaler.core.actions import AskGridEngine, Hold, Kill, ProbeHost
from autoscaler.core.demand.job_requests import ReadRequest, RequestReader
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.evidence import Answer, Evidence, Finding
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.core.policy import DeadlockAnswer, Limits
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable.best_cluster import allowed_by
from autoscaler.core.unsatisfiable.probe_hosts import probe_hosts_for
from tests.core.building import GIB, M5, MAIN, NOW, PES, a_bucket, a_host, a_job, a_snapshot
from tests.samples import examples

LIMITS = (
    Limits(max_workers=2),
    Limits(max_workers=3, max_cores=20),
    Limits(max_workers=3, max_price_per_hour=1.7),
    Limits(max_workers=0),
)
SPREADING = {"local": None, "mpi": 1, "mpi4": 4}
"""By PE how many slots stand together at least; None: all."""


@dataclass(frozen=True)
class Asked:
    """What a job asks for."""

    slots: int
    pe: str
    memory: int = 0
    """GiB a slot."""
    running: bool = False
    held: bool = False
    project: str | None = None


ASKED = st.builds(
    Asked,
    slots=st.sampled_from((1, 8, 16, 20, 33, 40, 48, 64, 100)),
    pe=st.sampled_from(sorted(SPREADING)),
    memory=st.sampled_from((0, 0, 2, 5, 100)),
)


@dataclass(frozen=True)
class Setting:
    """What the operator, the cloud and the administrator decide."""

    most_cores: int = 16
    limits: Limits = LIMITS[0]
    sold: int = 5
    """How many of the types the cloud knows."""
    unavailable: frozenset[int] = frozenset()
    """Of these a quota forbids any."""
    persistent: int = 0
    """Slots of a persistent host; 0: there is none."""
    pe_slots: int = 999_999
    paused: bool = False

    def chosen(self) -> Setting:
        """Without what is temporary, and without types that are not allowed: unavailable ones count as available."""
        return replace(self, unavailable=frozenset(), paused=False, sold=len(self.types()))

    def types(self) -> list[tuple[int, int, float]]:
        """Cores, GiB and price of every allowed type."""
        known = ((type_.vcpus, type_.memory // GIB, type_.vcpus * 0.05) for type_ in M5[: self.sold])
        return [type_ for type_ in known if type_[0] <= self.most_cores]

    def clusters(self) -> Iterator[list[tuple[int, int]]]:
        """Slots and GiB of every host, of every cluster that is allowed, persistent hosts included."""
        own = [(self.persistent, 10**6)] if self.persistent else []
        for count in range(self.limits.max_workers + 1):
            for some in itertools.combinations_with_replacement(self.types(), count):
                cores, price = sum(cores for cores, _, _ in some), sum(price for _, _, price in some)
                if self.limits.max_cores is not None and cores > self.limits.max_cores:
                    continue
                if self.limits.max_price_per_hour is not None and price > self.limits.max_price_per_hour + 1e-9:
                    continue
                yield [*own, *((cores, memory) for cores, memory, _ in some)]


def fits(asked: Asked, hosts: list[tuple[int, int]]) -> bool:
    """Whether Grid Engine would start it there, were all of it empty."""
    rooms = [min(slots, memory // asked.memory if asked.memory else slots) for slots, memory in hosts]
    match asked.pe:
        case "local":
            return any(room >= asked.slots for room in rooms)
        case "mpi":
            return sum(rooms) >= asked.slots
        case _:
            return sum(room >= 4 for room in rooms) >= -(-asked.slots // 4)


def gigabytes(probe: ProbeHost) -> int:
    text = dict(probe.complex_values)["h_vmem"]
    return int(text[:-1]) * {"M": 2**20, "G": 2**30, "T": 2**40}[text[-1]] // GIB


class Deadlocks(RuleBasedStateMachine):
    """A cell whose set-up changes at will, and a Grid Engine that answers truly, or not at all."""

    @initialize(kill=st.booleans(), interval=st.sampled_from((1.0, 15.0, 40.0)), jobs=st.lists(ASKED, max_size=5))
    def begin(self, kill: bool, interval: float, jobs: list[Asked]) -> None:
        self.now = NOW
        self.kill, self.interval = kill, interval
        self.memory = Memory()
        self.setting = Setting()
        self.jobs = dict(enumerate(jobs, 1))
        self.answers: dict[int, Finding] = {}
        self.given: dict[int, list[tuple[float, Answer]]] = {}
        """By job, Grid Engine's answers and when they were given."""
        self.record: list[tuple[float, Setting, dict[int, Asked]]] = []
        self.silent = False
        self.number = len(jobs)

    # -- events --------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.jobs) < 8)
    @rule(asked=ASKED)
    def submit(self, asked: Asked) -> None:
        self.number += 1
        self.jobs[self.number] = asked

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), what=st.sampled_from(("slots", "project", "running", "held", "gone")))
    def a_job_changes(self, data: st.DataObject, what: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.jobs)))
        asked = self.jobs[number]
        match what:
            case "slots":
                self.jobs[number] = replace(asked, slots=data.draw(st.sampled_from((1, 16, 33, 48))))
            case "project":
                self.jobs[number] = replace(asked, project="p" if asked.project is None else None)
            case "running":
                self.jobs[number] = replace(asked, running=not asked.running)
            case "held":
                self.jobs[number] = replace(asked, held=not asked.held)
            case _:
                del self.jobs[number]

    @rule(data=st.data(), what=st.sampled_from(("cores", "limits", "sold", "unavailable", "persistent", "pe")))
    def something_else_changes(self, data: st.DataObject, what: str) -> None:
        match what:
            case "cores":
                change: dict[str, Any] = {"most_cores": data.draw(st.sampled_from((2, 8, 16, 32)))}
            case "limits":
                change = {"limits": data.draw(st.sampled_from(LIMITS))}
            case "sold":
                change = {"sold": data.draw(st.sampled_from((0, 2, 4, 5, 5)))}
            case "unavailable":
                change = {"unavailable": data.draw(st.frozensets(st.integers(0, 4), max_size=3))}
            case "persistent":
                change = {"persistent": data.draw(st.sampled_from((0, 4, 20)))}
            case _:
                change = {"pe_slots": data.draw(st.sampled_from((999_999, 500)))}
        self.setting = replace(self.setting, **change)

    @rule(what=st.sampled_from(("silent", "speaks", "speaks", "pause", "resume", "resume", "lose")))
    def an_outage_pause_or_store_loss(self, what: str) -> None:
        match what:
            case "silent" | "speaks":
                self.silent = what == "silent"
            case "pause" | "resume":
                self.setting = replace(self.setting, paused=what == "pause")
            case _:
                self.memory, self.answers, self.given, self.record = Memory(), {}, {}, []

    @rule(seconds=st.sampled_from((0.0, 1.0, 5.0, 29.0, 31.0, 85.0, 1000.0)))
    def observe(self, seconds: float) -> None:
        self._observe(seconds)

    @rule(last=st.integers(1, 4))
    def undisturbed_observations(self, last: int) -> None:
        """As a proof takes: the first, one far enough apart that asks, and those that follow the answer."""
        for seconds in (1.0, 85.0, *(1.0 for _ in range(last))):
            self._observe(seconds)

    @rule(last=st.integers(1, 2))
    def more_undisturbed_observations(self, last: int) -> None:
        self.undisturbed_observations(last)

    # -- one observation --------------------------------------------------------------------------------------------

    def _observe(self, seconds: float) -> None:
        self.now += seconds
        self.record.append((self.now, self.setting, dict(self.jobs)))
        made = plan(self._snapshot())
        self.memory = made.memory
        asks = [action for action in made.actions if isinstance(action, AskGridEngine)]
        assert len(asks) <= 1, "one asking a pass"
        self._check(made)
        for ask in asks:
            self._answer(ask)
        for action in made.actions:
            if isinstance(action, Kill):
                self.jobs = {number: asked for number, asked in self.jobs.items() if str(number) not in action.jobs}
            if isinstance(action, Hold):
                self.jobs |= {int(number): replace(self.jobs[int(number)], held=True) for number in action.jobs}

    def _snapshot(self) -> Snapshot:
        set_ = self.setting
        running = tuple(HostJob(number, "", "r", 1) for number, asked in self.jobs.items() if asked.running)
        busy = a_host("busy", slots=1, queue="other.q")
        busy = replace(busy, instances=(replace(busy.instances[0], jobs=running, used=len(running)),))
        hosts = [busy, *([a_host("own", slots=set_.persistent, used=1)] if set_.persistent else [])]
        hosts = [*hosts[:1], *(replace(host, consumables={"h_vmem": f"{10**6}G"}) for host in hosts[1:])]
        job_categories = [
            a_job(
                number,
                slots=asked.slots,
                pe=asked.pe,
                state="hqw" if asked.held else "qw",
                hard={"h_vmem": f"{asked.memory}G"} if asked.memory else {},
                project=asked.project,
            )
            for number, asked in sorted(self.jobs.items())
        ]
        buckets = [
            a_bucket(type_, problem="no quota" if number in set_.unavailable else None)
            for number, type_ in enumerate(M5[: set_.sold])
        ]
        made = a_snapshot(
            *hosts, *job_categories, *buckets, self.memory, Overrides(paused=set_.paused),
            hybrid=True, family="m5", max_cores_per_worker=set_.most_cores, memory_complex="h_vmem", limits=set_.limits,
            now=self.now, queues={"main.q": replace(MAIN, pe_list=tuple(PES))},
        )  # fmt: skip
        pes = {name: replace(pe, slots=set_.pe_slots) for name, pe in PES.items()}
        fleet = made.fleet if set_.sold else replace(made.fleet, buckets=())
        answer = DeadlockAnswer.KILL if self.kill else DeadlockAnswer.HOLD
        return replace(
            made,
            cluster=replace(made.cluster, pes=pes, schedule_interval=self.interval),
            fleet=fleet,
            policy=replace(made.policy, deadlock=answer),
            evidence=Evidence(answers=dict(self.answers)),
        )

    def _answer(self, ask: AskGridEngine) -> None:
        """As `qalter -w v` does: against all hosts that are there, were they empty, probe hosts among them."""
        probes = [(probe.slots, gigabytes(probe)) for probe in ask.probe_hosts]
        own = [(self.setting.persistent, 10**6)] if self.setting.persistent else []
        for question in ask.questions:
            asked = self.jobs[question.job]
            possible = any(fits(asked, cluster) for cluster in self.setting.clusters())
            found = fits(asked, [*own, *probes])
            assert found or not possible, f"the probe hosts {ask.probe_hosts} offer {asked} less than is allowed"
            answer = Answer.NONE if self.silent or asked.held else Answer.SATISFIABLE if found else Answer.UNSATISFIABLE
            self.answers[question.job] = Finding(question.job, question.fingerprint, self.now, answer, "said")
            self.given.setdefault(question.job, []).append((self.now, answer))

    # -- rule 6 -----------------------------------------------------------------------------------------------------

    def _check(self, made: Plan) -> None:
        chosen = [int(job) for action in made.actions if isinstance(action, Kill | Hold) for job in action.jobs]
        assert len(chosen) <= max(1, min(5, len(self.jobs) // 10)), "few in a pass"
        for action in made.actions:
            assert not isinstance(action, Hold if self.kill else Kill), "as settings say"
        for job in chosen:
            self._confirm(job)

    def _confirm(self, job: int) -> None:
        asked, now_so = self.jobs[job], self.setting
        assert not asked.running, "never a job with a running task"
        assert not asked.held, "never what is held"
        assert not now_so.paused, "never while paused"
        since = self.now
        for at, setting, jobs in reversed(self.record):
            if setting.chosen() != now_so.chosen() or jobs.get(job) != asked:
                break
            since = at
        assert self.now - since >= max(30.0, 2 * self.interval), "two observations apart, all of it unchanged"
        assert now_so.types(), "never on an empty catalogue"
        assert now_so.limits.max_workers > 0, "never where nothing is allowed at all"
        assert not any(fits(asked, cluster) for cluster in now_so.clusters()), "never a satisfiable job"
        answers = [answer for at, answer in self.given.get(job, []) if at >= since]
        assert answers, "Grid Engine itself was asked since"
        assert answers[-1] is Answer.UNSATISFIABLE, "and said never"

    @invariant()
    def only_recorded_jobs_are_suspected(self) -> None:
        if hasattr(self, "memory"):
            assert self.memory.unsatisfiable_jobs.keys() <= {job for _, _, jobs in self.record for job in jobs}


@settings(max_examples=examples(300))
@given(
    asked=st.builds(
        Asked,
        slots=st.integers(1, 80),
        pe=st.sampled_from(sorted(SPREADING)),
        memory=st.sampled_from((0, 1, 3, 4, 7, 60)),
    ),
    limits=st.sampled_from(LIMITS[:3]),
    most_cores=st.sampled_from((2, 4, 8, 16, 32)),
    sold=st.integers(1, 5),
)
def test_probe_hosts_offer_whatever_an_allowed_cluster_could(
    asked: Asked, limits: Limits, most_cores: int, sold: int
) -> None:
    setting = Setting(most_cores, limits, sold)
    machine = Deadlocks()
    machine.begin(kill=True, interval=1.0, jobs=[asked])
    machine.setting = setting
    seen = machine._snapshot()
    served = RequestReader(seen.cluster, seen.policy, frozenset()).read(seen.cluster.job_categories[0].ask)
    assume(isinstance(served, ReadRequest))
    assert isinstance(served, ReadRequest)
    probes = probe_hosts_for([served.demand], allowed_by(seen.policy, seen.fleet.buckets, seen.cluster))
    assert probes is not None
    possible = any(fits(asked, cluster) for cluster in setting.clusters())
    assert fits(asked, [(probe.slots, gigabytes(probe)) for probe in probes]) or not possible


TestDeadlocks: Any = Deadlocks.TestCase
TestDeadlocks.settings = settings(max_examples=examples(20), stateful_step_count=25)
