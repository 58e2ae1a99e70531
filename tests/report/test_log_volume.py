"""What an afternoon of jobs leaves in the log: passes by the dozen, not by the hundred, and short ones."""

from __future__ import annotations

import logging
from random import Random

import pytest

from autoscaler.core.model.evidence import JobSuccess
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.sge.cluster import Outputs
from tests.properties.unhelpful_launches import Cause, UnhelpfulLaunches

STEP, QUARTER = 5.0, 16 * 60
OWNERS = ("ann", "bob", "cat", "dan", "eve")


class Afternoon(UnhelpfulLaunches):
    """Jobs that run for a minute and a half on average."""

    def _run(self) -> None:
        for name, host in self.hosts.items():
            for job in [job for job in host.jobs if CHANCE.random() < STEP / 90]:
                del host.jobs[job]
                self.successes.append(JobSuccess(name, self.owners[job], self.now))
        before = dict(self.waiting)
        self.dispatch()
        self.submitted.update({job: before[job][1] for job in before if job not in self.waiting})


CHANCE = Random(3)


def test_sixteen_minutes_of_changing_jobs_fill_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A pilot counted 389 lines of 448 bytes in that time."""
    caplog.set_level(logging.INFO, "autoscaler.pass")
    world, reporter, submitted = Afternoon(cause=Cause.NONE, boot_s=60.0), PassReporter(), 0
    end = world.now + QUARTER
    while world.now < end:
        for _ in range(CHANCE.choice((0, 0, 1, 1, 2))):
            world.ask(CHANCE.choice((1, 1, 1, 2)), CHANCE.choice(OWNERS))
            submitted += 1
        seen = world.snapshot()
        reporter.report(Observation(seen, Outputs(b""), {}), world.step(STEP))
    lines = [record.getMessage() for record in caplog.records]
    assert submitted > 100
    assert len(world.plans) > 150
    assert len(lines) < 80
    assert sum(map(len, lines)) / len(lines) < 200
