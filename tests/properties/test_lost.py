"""Rule 7 in any history: machines freeze, die, fall silent, are interrupted and replaced under their names, people
interfere, and the autoscaler is killed anywhere. No job ever has two running processes, and in the end all is gone.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autoscaler.core.model.fleet import Interruption
from autoscaler.core.policy import LostJobs
from tests.samples import examples
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, start, step
from tests.simulated.failing_machines import FailingCluster, InterruptingProvider, NameReusingCloud
from tests.simulated.killing import Instants, MortalRunner, mortal_store

PATIENT = replace(POLICY, silence_timeout=60.0)
FAST = Path("/dev/shm")


class Lost(RuleBasedStateMachine):
    """Drives a cell of failing machines; the truth about processes is checked after every step."""

    @initialize(lost_jobs=st.sampled_from(LostJobs))
    def begin(self, lost_jobs: LostJobs) -> None:
        self.directory = tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None, prefix="sge-autoscaler-test-")
        world = World(Path(self.directory.name) / "store.sqlite", policy=replace(PATIENT, lost_jobs=lost_jobs))
        world.cloud = NameReusingCloud(clock=world.clock, boot_delay=world.boot_delay)
        self.cluster = FailingCluster(world.cloud, world.clock, {"h1": 1})
        self.cluster.begin()
        world.cluster = self.cluster
        self.world, self.instants = world, Instants()
        self._start()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.calm_down()
        self.loop.store.close()
        self.directory.cleanup()

    # -- the autoscaler ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.instants.killing = frozenset()
        store = mortal_store(self.world.store_file, self.instants)
        provider = InterruptingProvider(self.world.provider(), self.instants)
        self.loop = start(self.world, store=store, runner=MortalRunner(self.cluster, self.instants), provider=provider)

    def _pass(self) -> None:
        try:
            step(self.world, self.loop)
        except Killed:
            self.loop.store.close()
            self._start()

    @rule(count=st.sampled_from((1, 2, 4, 15)))
    def passes(self, count: int) -> None:
        for _ in range(count):
            self._pass()

    @rule(after=st.integers(1, 12), count=st.integers(1, 4))
    def passes_in_which_it_is_killed(self, after: int, count: int) -> None:
        self.instants.killing = frozenset({len(self.instants.names) + after})
        for _ in range(count):
            self._pass()
        self.instants.killing = frozenset()

    @rule(seconds=st.sampled_from((4.0, 30.0, 90.0, 700.0)))
    def time_passes_without_observation(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    # -- work and people -----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.cluster.waiting) < 6)
    @rule(count=st.integers(1, 3), seconds=st.sampled_from((10.0, 60.0, 400.0)), again=st.booleans())
    def submit(self, count: int, seconds: float, again: bool) -> None:
        for job in self.cluster.submit(count, seconds=seconds):
            if not again:
                self.cluster.fixed.add(job.number)

    @precondition(lambda self: self.cluster.workers)
    @rule(data=st.data(), off=st.booleans())
    def a_person_disables_or_enables(self, data: st.DataObject, off: bool) -> None:
        host = data.draw(st.sampled_from(sorted(self.cluster.workers)))
        self.cluster.switch(off, f"*@{host}")

    # -- failures --------------------------------------------------------------------------------------------------

    def _living(self) -> list[str]:
        return sorted(machine.id for machine in self.world.cloud.living(TAG))

    @precondition(lambda self: self._living())
    @rule(data=st.data(), how=st.sampled_from(("freeze", "thaw", "mute", "unmute", "kill", "withdraw")))
    def machine_fails(self, data: st.DataObject, how: str) -> None:
        machine, truth = data.draw(st.sampled_from(self._living())), self.cluster.truth
        match how:
            case "freeze":
                truth.frozen.add(machine)
            case "thaw":
                truth.frozen.discard(machine)
            case "mute":
                truth.mute.add(machine)
            case "unmute":
                truth.mute.discard(machine)
            case "kill":
                self.world.cloud.kill(machine)
            case _:
                self.world.cloud.notices = []

    @precondition(lambda self: self._living())
    @rule(data=st.data(), seconds=st.sampled_from((5.0, 40.0, 120.0)), kind=st.sampled_from(("terminate", "rebalance")))
    def give_interruption_notice(self, data: st.DataObject, seconds: float, kind: str) -> None:
        machine = data.draw(st.sampled_from(self._living()))
        self.world.cloud.notices.append(Interruption(machine, self.world.clock.now + seconds, kind))

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def no_job_ever_runs_twice(self) -> None:
        if hasattr(self, "world"):
            assert self.cluster.truth.twice == []

    @invariant()
    def never_more_than_allowed(self) -> None:
        if hasattr(self, "world"):
            assert len(self._living()) <= PATIENT.node_arrays[0].limits.max_workers

    def calm_down(self) -> None:
        """No more failures: all jobs end, and nothing of ours is left anywhere."""
        cluster = self.cluster
        cluster.truth.frozen.clear()
        cluster.truth.mute.clear()
        self.world.cloud.notices = []
        for host in list(cluster.disabled):
            cluster.switch(False, f"*@{host}")
        for number in range(200):
            self._pass()
            if number % 20 == 10:
                self._operator_cleans_up()
            if all(job.ended for job in cluster.jobs) and not left_over(self.world, self.loop):
                break
        assert cluster.truth.twice == []
        unended = [(job.number, job.host, job.starts) for job in cluster.jobs if not job.ended]
        assert (unended, left_over(self.world, self.loop)) == ([], [])

    def _operator_cleans_up(self) -> None:
        """As the reports ask: lost jobs that may not start again are deleted, hosts disabled by hand are enabled."""
        cluster = self.cluster
        for job in cluster.jobs:
            processes = [one for one in cluster.truth.processes if one.job == job.number]
            if job.number in cluster.fixed and job.host is not None and not processes:
                cluster.answer(("qdel", "-f", str(job.number)))


TestLost: Any = Lost.TestCase
TestLost.settings = settings(max_examples=examples(15), stateful_step_count=40, deadline=None)
