"""Jobs move between `qstat` and `qhost`: the two readings launch no more than some state in between would have.

Whatever was dispatched, ended or suspended in between is tried in every order in which it can have come about, since
two readings do not tell which it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from autoscaler.core.plan import plan
from autoscaler.providers.fake import FakeCloud
from autoscaler.sge.cluster import Outputs, cluster_from
from tests.core.building import LARGE, M5, a_bucket, a_snapshot, launched
from tests.samples import examples
from tests.sge.printed import host, queue_of_host
from tests.simulated.cluster import Clock, Job, SimulatedCluster

GIB = 2**30


@dataclass(frozen=True)
class Event:
    """Something that happens to a job or, where it is suspended, to a host."""

    what: str
    """dispatch, end or suspend."""
    job: int = 0
    host: str = ""


@dataclass(frozen=True)
class Situation:
    """Hosts with slots and GiB; jobs with slots, GiB a slot and where they run; what happens while they are read."""

    hosts: dict[str, tuple[int, int]]
    jobs: tuple[tuple[int, int, str | None], ...]
    events: tuple[Event, ...] = ()

    def after(self, events: Sequence[Event]) -> MemoryCluster | None:
        """The cell after these; None where they cannot have come about so."""
        clock = Clock()
        cluster = MemoryCluster(
            FakeCloud(clock=clock, boot_delay=5.0), clock, {n: s for n, (s, _) in self.hosts.items()}
        )
        cluster.suspended = set()
        cluster.memory = {name: memory for name, (_, memory) in self.hosts.items()}
        cluster.jobs = [Job(n, clock.now, 60.0, slots, on) for n, (slots, _, on) in enumerate(self.jobs, start=1)]
        cluster.asked = {n: each for n, (_, each, _) in enumerate(self.jobs, start=1)}
        return cluster if all(map(cluster.happens, events)) else None


class MemoryCluster(SimulatedCluster):
    """Its jobs ask for memory too, its queue instances can be suspended, and the scheduler does what the test says."""

    memory: dict[str, int]
    asked: dict[int, int]
    suspended: set[str]

    def happens(self, event: Event) -> bool:
        if event.what == "suspend":
            self.suspended.add(event.host)
            return True
        job = self.jobs[event.job - 1]
        if event.what == "dispatch" and job.host is None and not job.ended and self._takes(event.host, job):
            job.host = event.host
            return True
        if event.what == "end" and job.host is not None:
            job.host, job.ended = None, True
            return True
        return False

    def _left(self, name: str) -> int:
        return self.memory[name] - sum(self.asked[job.number] * job.slots for job in self.jobs if job.host == name)

    def _takes(self, name: str, job: Job) -> bool:
        room = self.asked[job.number] * job.slots <= self._left(name)
        return super()._takes(name, job) and name not in self.suspended and room

    def _states(self, name: str) -> str:
        return super()._states(name) + ("S" if name in self.suspended else "")

    def _host(self, name: str) -> str:
        shown = queue_of_host(self.queue, used=self._used(name), total=self.slots[name], state=self._states(name))
        left = f"   <resourcevalue name='h_vmem' dominance='hc'>{self._left(name)}G</resourcevalue>\n"
        return host(name, shown, more=left)

    def qstat(self) -> bytes:
        text = self._qstat()
        for job in self.jobs:
            asked = f'<hard_request name="h_vmem" resource_contribution="0">{self.asked[job.number]}G</hard_request>'
            plain = f"<JB_job_number>{job.number}</JB_job_number>"
            if self.asked[job.number] and plain in text:
                begin, _, rest = text.partition(plain)
                head, full_name, tail = rest.partition("</full_job_name>\n")
                text = begin + plain + head + full_name + asked + tail
        return text.encode()

    def qhost(self) -> bytes:
        return self._qhost().encode()


def launches(qstat: bytes, qhost: bytes, now: float) -> int:
    """How many workers of 2 cores are launched on these."""
    cluster = cluster_from(Outputs(qstat, qhost), zone=UTC, now=now)
    complexes = a_snapshot().cluster.complexes
    snapshot = a_snapshot(*(a_bucket(type_) for type_ in M5), queue={"scale_up_timeout": 0.0}, now=now)
    return launched(plan(replace(snapshot, cluster=replace(cluster, complexes=complexes)))).get(LARGE.name, 0)


def moments(situation: Situation) -> Iterator[MemoryCluster]:
    """Every state that the cell can have been in, whichever of the events came first."""
    for order in itertools.permutations(situation.events):
        for count in range(len(order) + 1):
            found = situation.after(order[:count])
            if found is not None:
                yield found


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    hosts = {f"h{n}": (draw(st.integers(1, 4)), draw(st.integers(0, 4))) for n in range(draw(st.integers(1, 3)))}
    jobs: list[tuple[int, int, str | None]] = []
    empty = Situation(hosts, ())
    for _ in range(draw(st.integers(1, 5))):
        job = draw(st.integers(1, 2)), draw(st.sampled_from((0, 0, 1)))
        on = draw(st.sampled_from((None, None, *hosts)))
        there = replace(empty, jobs=(*jobs, (*job, None))).after(())
        assert there is not None
        fits = on is not None and there.happens(Event("dispatch", len(jobs) + 1, on))
        jobs.append((*job, on if fits else None))
    situation, events = replace(empty, jobs=tuple(jobs)), list[Event]()
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(("dispatch", "dispatch", "end", "suspend")))
        event = Event(what, draw(st.integers(1, len(jobs))), draw(st.sampled_from(sorted(hosts))))
        if event.what == "suspend":
            event = replace(event, job=0)
        if event not in events and situation.after((*events, event)) is not None:
            events.append(event)
    return replace(situation, events=tuple(events))


@settings(max_examples=examples(100))
@given(situations())
def test_no_more_is_launched_than_for_some_state_between_the_two_reads(situation: Situation) -> None:
    first, last = situation.after(()), situation.after(situation.events)
    assert first is not None
    assert last is not None
    now = first.clock.now
    most = max(launches(cell.qstat(), cell.qhost(), now) for cell in moments(situation))
    assert launches(first.qstat(), last.qhost(), now) <= most


HELD_NOTHING = Situation(
    {"h0": (2, 1), "h1": (1, 0), "h2": (2, 0)},
    ((1, 0, None), (2, 0, None), (1, 1, None)),
    (Event("dispatch", 1, "h0"),),
)
"""With 1 GiB added for the job in flight, h0 is the host with most memory, and the job of two slots is placed there
before the one that needs its memory.
"""


@settings(max_examples=examples(100))
@example(HELD_NOTHING)
@given(situations())
def test_dispatches_between_the_reads_do_not_increase_launches(situation: Situation) -> None:
    events = tuple(event for event in situation.events if event.what == "dispatch")
    first, last = situation.after(()), situation.after(events)
    assume(events and last is not None)
    assert first is not None
    assert last is not None
    now = first.clock.now
    assert launches(first.qstat(), last.qhost(), now) <= launches(first.qstat(), first.qhost(), now)
