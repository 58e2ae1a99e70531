"""What others get does not depend on hostile owners, whatever they submit, and if they agree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.actions import Hold, Kill, Launch
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.evidence import Answer, Evidence, Finding
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.policy import CircuitBreaker, DeadlockAnswer
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import NOW, a_job, a_snapshot, codes, launched
from tests.properties.unhelpful_launches import Cause, UnhelpfulLaunches
from tests.samples import examples

PASSES, EVERY = 12, 15.0
LIMITS = CircuitBreaker(window=120.0, max_launches=20, max_removals=10, max_kills=8)


HOSTILE = ("eve", "mal")
"""Two who agree."""


def cannot_start(random: Random, number: int) -> JobCategory:
    """A job of a hostile owner, which no worker could ever help: too large, held, in error or waiting for others."""
    slots = random.choice((64, 100, 1000 + number))
    kind: dict[str, Any] = random.choice(
        (
            {"slots": slots},
            {"slots": slots, "pe": random.choice(("local", "mpi")), "hard": {"h_vmem": "900G"}},
            {"state": "hqw", "hard": {"h_rt": str(number)}},
            {"state": "hqw", "dependent": True},
            {"state": "Eqw"},
            {"slots": slots, "queues": (f"no{number}.q",)},
            {"queues": (f"no{number}.q",)},
            {"state": "qw", "fault": because(Code.REQUESTS_UNREAD)},
            {"slots": (100_000, 10_000_000), "pe": "mpi"},
            {"tasks": "1-75000", "count": 75_000, "queues": ("no.q",)},
            {"hard": {f"x{number}": "1"}},
        )
    )
    return a_job(number, owner=random.choice(HOSTILE), waited=random.choice((40.0, 5000.0)), **kind)


def is_judged_for_long(number: int) -> bool:
    """Whether Grid Engine would judge this job for longer than is waited: some of hostile owners."""
    return number >= 10_000 and number % 7 == 0


def of_others(random: Random, number: int, never: dict[str, int]) -> JobCategory:
    """A job of somebody else: most can run, one of each owner never."""
    owner = random.choice(("ann", "bob"))
    slots = random.choice((1, 1, 2, 4))
    if owner in never and random.random() < 0.5:
        slots = never.pop(owner)
    return a_job(number, slots=slots, owner=owner, waited=random.uniform(0.0, 300.0))


@dataclass
class Cell:
    """Passes over one cell: jobs that are deleted leave, and Grid Engine answers what it is asked."""

    world: Snapshot
    jobs: dict[int, JobCategory] = field(default_factory=dict)
    answers: dict[int, Finding] = field(default_factory=dict)
    now: float = NOW

    def observe(self) -> Plan:
        self.now += EVERY
        cluster = replace(self.world.cluster, job_categories=tuple(self.jobs.values()))
        self.world = replace(self.world, cluster=cluster, now=self.now, evidence=Evidence(answers=dict(self.answers)))
        made = plan(self.world)
        self.world = replace(self.world, memory=replace(made.memory, launches=()))
        for action in made.actions:
            if isinstance(action, Kill | Hold):
                for job in action.jobs:
                    self.jobs.pop(int(job), None)
            questions = getattr(action, "questions", ())
            if any(is_judged_for_long(question.job) for question in questions):
                continue  # then there is no answer about any of them
            for question in questions:
                self.answers[question.job] = Finding(question.job, question.fingerprint, self.now, Answer.UNSATISFIABLE)
        return made


def a_cell() -> Cell:
    world = a_snapshot(hybrid=True, family="m5", scale_up_batch=5)
    policy = replace(world.policy, circuit_breaker=LIMITS, deadlock=DeadlockAnswer.KILL, job_context=True)
    known = {number: a_job(number, state="hqw", owner=owner) for number, owner in ((1, "ann"), (2, "bob"))}
    return Cell(replace(world, policy=policy), known)


def shown(made: Plan) -> dict[int, tuple[bool, tuple[Code, ...], str]]:
    """What is said of each job of others."""
    return {
        job: (verdict.counted, tuple(codes(verdict.reason)), text(verdict.reason))
        for verdict in made.job_categories
        for job in verdict.jobs
        if verdict.ask.owner not in HOSTILE
    }


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_jobs_that_cannot_start_change_nothing_for_others(seed: int) -> None:
    """Verdicts, sentences and launches are those without them, in the same pass: also what Grid Engine is asked, and
    what is deleted.
    """
    random = Random(seed)
    alone, among = a_cell(), a_cell()
    never = {"ann": 64, "bob": 100}
    for at in range(PASSES):
        if at < PASSES // 2:
            for number in range(random.randint(0, 3)):
                job = of_others(random, 100 * at + number + 10, never)
                alone.jobs[job.jobs[0]] = among.jobs[job.jobs[0]] = job
            for number in range(random.choice((0, 1, 25))):
                job = cannot_start(random, 10_000 + 100 * at + number)
                among.jobs[job.jobs[0]] = job
        without, made = alone.observe(), among.observe()
        assert shown(made) == shown(without)
        assert launched(made) == launched(without)
        assert (made.memory.circuit_breaker, made.memory.kills_stopped) == (None, None)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_jobs_that_fail_at_once_stop_nothing_for_others(seed: int) -> None:
    """They share slots and limits with others, but each job of others starts, and no array and no launch is stopped."""
    random = Random(seed)
    world = UnhelpfulLaunches(cause=Cause.NONE, failing=frozenset(HOSTILE))
    own: list[int] = []
    for _ in range(40):
        if random.random() < 0.7:
            world.ask(random.choice((1, 2, 3, 4)), random.choice(HOSTILE))
        if random.random() < 0.3:
            own.append(world.ask(random.choice((1, 2, 3, 4)), random.choice(("ann", "bob"))))
        if random.random() < 0.3:  # deleted as soon as its worker may be there
            for job in [job for job in world.waiting if world.owners[job] in HOSTILE]:
                del world.waiting[job]
        for _ in range(random.randint(1, 4)):
            world.step()
        assert world.memory.circuit_breaker is None
        assert all(array.stopped is None for array in world.memory.protected.values())
    world.go_on(3600.0, until=lambda: not set(own) & world.waiting.keys())
    assert not set(own) & world.waiting.keys()
    assert any(isinstance(action, Launch) for made in world.plans for action in made.actions)
