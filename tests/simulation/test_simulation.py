"""The simulation as a whole: the seed's worked examples, sums that add up, and passes that are safely skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.policy import Policy
from autoscaler.engine.pass_timing import GATHER
from autoscaler.engine.qmaster_guard import SHARE as GUARD_SHARE
from autoscaler.engine.qmaster_guard import WINDOW as GUARD_WINDOW
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Billing, Delays
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.results import document_of
from autoscaler.simulation.run import PassDurations, Simulation
from autoscaler.simulation.workload import LOCAL, WorkloadJob
from tests.simulation.playing import a_policy, a_rule, a_simulation, a_workload, jobs_of, numbered

HYBRID = a_policy(hybrid=True, scale_up_batch=10, scale_down_batch=10)


def test_ten_single_core_jobs_get_two_workers_of_the_masters_type() -> None:
    run = a_simulation(jobs_of(10), a_policy(max_workers=2))
    assert run.run().launched == {"m5.large": 2}
    assert run.over


def test_ten_single_core_jobs_beside_a_master_of_two_cores_get_one_worker_of_eight() -> None:
    cell = CellConfiguration(persistent=(("master", 2),))
    assert a_simulation(jobs_of(10), a_policy(hybrid=True), cell=cell).run().launched == {"m5.2xlarge": 1}


def test_every_job_runs_once_and_every_worker_leaves() -> None:
    run = a_simulation(a_workload(), HYBRID)
    measures = run.run()
    assert measures.finished == measures.submitted == len(measures.waits) == 40
    assert sum(measures.launched.values()) == sum(measures.removed.values()) > 0
    assert not run.cloud.machines


def test_what_was_paid_adds_up() -> None:
    run = a_simulation(a_workload(), HYBRID)
    measures = run.run()
    assert measures.money.all == pytest.approx(measures.price)
    assert sum(measures.price_by_type.values()) == pytest.approx(measures.price)
    assert sum(measures.price_by_project.values()) == pytest.approx(measures.money.busy)
    assert measures.hours.busy == pytest.approx(measures.busy_core_seconds / 3600)


def test_one_worker_costs_from_its_creation_to_its_end() -> None:
    run = a_simulation(jobs_of(2, seconds=3600.0), a_policy(), delays=Delays(boot=120.0, join=10.0))
    measures = run.run()
    begun = measures.launches_at[0][0]
    ended = measures.removals_at[0][0]
    assert measures.price == pytest.approx(0.096 * (ended - begun) / 3600, rel=1e-3)
    assert measures.money.busy == pytest.approx(0.096)  # both cores for an hour
    assert measures.hours.boot == pytest.approx(2 * 130 / 3600, abs=0.02)


@pytest.mark.parametrize(
    ("minimum", "step", "used", "billed"),
    ((60, 1, 30, 60), (60, 1, 61.5, 62), (0, 3600, 3601, 7200), (0, 3600, 1, 3600)),
)
def test_billing_rounds_up(minimum: float, step: float, used: float, billed: float) -> None:
    assert Billing(minimum, step).seconds(used) == billed


def test_equal_arguments_give_equal_results() -> None:
    delays = Delays(spread=0.4, failing=0.1)
    first, second = (a_simulation(a_workload(), HYBRID, delays=delays, seed=3) for _ in range(2))
    first.run(), second.run()

    def shown(run: Simulation) -> object:
        return {key: value for key, value in document_of("x", run, 0.048, "USD").items() if key != "cpu_s"}

    assert shown(first) == shown(second)
    other = a_simulation(a_workload(), HYBRID, delays=delays, seed=4)
    other.run()
    assert shown(other) != shown(first)


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize(
    "policy", (HYBRID, a_policy(max_workers=4, idle_timeout=300.0)), ids=["hybrid", "four workers"]
)
def test_a_skipped_pass_would_not_have_acted(seed: int, policy: Policy) -> None:
    jobs = a_workload(12, seed, days=0.05)
    run = a_simulation(jobs, policy, durations=PassDurations(every_pass=True))
    run.run(until=7_000.0)
    skipping = a_simulation(jobs, policy)
    skipping.run(until=7_000.0)
    assert run.passes > skipping.passes
    assert run.needless_acts == 0


def test_a_job_is_answered_when_qmaster_delivers_its_event_and_the_pass_has_observed() -> None:
    policy = a_policy()
    policy = replace(policy, queues=(replace(policy.queues[0], scale_up_timeout=0.0),))
    run = a_simulation(jobs_of(1, submitted=10.3), policy, durations=PassDurations(observing=0.25))
    ((launched, _, _),) = run.run().launches_at
    assert launched == pytest.approx(11.0 + GATHER + 0.25)


def test_passes_leave_qmaster_alone_as_the_services_do() -> None:
    jobs = numbered(*(jobs_of(1, submitted=float(second), seconds=30.0) for second in range(600)))
    busy, quick = (
        a_simulation(jobs, a_policy(scale_up_batch=10), durations=PassDurations(observing=seconds, asking=1.0))
        for seconds in (2.0, 0.02)
    )
    for run in (busy, quick):
        run.run(until=600.0)
    spent = 2.0 * (busy.passes + busy.skipped)
    assert GUARD_SHARE * GUARD_WINDOW < spent < 2 * GUARD_SHARE * (GUARD_WINDOW + 600.0)
    assert quick.passes + quick.skipped > 4 * (busy.passes + busy.skipped)


def test_an_action_in_a_skippable_pass_is_noticed() -> None:
    """The check above can fail: a decider that acts in every other pass is caught."""
    policy = a_policy(max_workers=4)

    class Restless(PlanDecider):
        acts = False

        def decide(self, run: Simulation) -> float | None:
            due = super().decide(run)
            self.acts = not self.acts
            if self.acts:
                run.acted()
            return due

    run = a_simulation(a_workload(), policy, durations=PassDurations(every_pass=True), decider=Restless(policy))
    run.run(until=3_000.0)
    assert run.needless_acts > 0


def test_a_machine_that_never_boots_is_replaced() -> None:
    run = a_simulation(jobs_of(4), a_policy(boot_timeout=300.0, scale_up_batch=2), delays=Delays(failing=0.5), seed=4)
    measures = run.run()
    assert measures.finished == 4
    # Drawn of this seed: one of the first two fails.
    assert sum(measures.launched.values()) > 2
    assert measures.hours.boot > 2 * 300 / 3600


def test_jobs_that_nothing_allowed_runs_do_not_keep_it_running() -> None:
    run = a_simulation(jobs_of(1, slots=64, pe=LOCAL), a_policy())
    measures = run.run()
    assert (measures.finished, run.engine.waiting, run.over) == (0, 1, False)
    assert not measures.launched


def test_it_stops_where_it_is_asked_to_and_keeps_what_it_has() -> None:
    run = a_simulation(a_workload(), HYBRID)
    run.progress = lambda now, tasks: run.stop()
    many = a_workload(600)
    run.workload = many
    measures = run.run()
    assert run.stopped
    assert 0 < measures.finished < 600
    assert measures.money.all == pytest.approx(measures.price)


def test_a_job_waits_for_its_predecessor() -> None:
    jobs = [WorkloadJob(1, 0.0, 600.0), WorkloadJob(2, 1.0, 60.0, after=1)]
    measures = a_simulation(jobs, a_policy()).run()
    assert measures.waits[1] >= measures.waits[0] + 600 - 1


def test_machines_that_always_boot_too_slowly_do_not_keep_a_simulation_from_its_end() -> None:
    run = a_simulation(jobs_of(1), a_policy(boot_timeout=300.0), delays=Delays(boot=1000.0))
    run.run()
    assert not run.over
    assert run.passes < 20_000


def test_a_long_job_is_waited_for_although_others_wait_too() -> None:
    long, waits = jobs_of(1, seconds=4 * 86_400.0, slots=2, pe=LOCAL), jobs_of(1, submitted=10.0, slots=2, pe=LOCAL)
    rule = a_rule("one-per-job", a_policy(), 1)
    run = a_simulation(numbered(long, waits), a_policy(max_workers=1), decider=rule)
    assert run.run().finished == 2


def test_a_quota_of_slots_holds_for_each_user_and_nothing_is_launched_beyond_it() -> None:
    jobs = numbered(jobs_of(8, owner="ann", seconds=900.0), jobs_of(2, owner="ben", seconds=900.0))
    free, held = (
        a_simulation(jobs, a_policy(scale_up_batch=10), cell=CellConfiguration(user_slots=most)) for most in (None, 2)
    )
    assert sum(free.run().launched.values()) == 5
    measures = held.run()
    assert held.over
    assert sum(measures.launched.values()) == 2
    waits = sorted(measures.waits)
    assert waits[3] < 900.0 < waits[4]  # two of each first, then ann's others one after the other
    assert max(measures.series.means(measures.last_end)["busy_slots"]) == 4
