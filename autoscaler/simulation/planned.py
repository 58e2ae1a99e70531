"""The landed `plan` as the decider of a simulation: the same function as in the service, on values made in memory.

Its actions are carried out as the service's executors do, with no failures but those of the cloud. What concerns
unsatisfiable jobs is only counted: nothing asks a Grid Engine here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import assert_never

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Launch,
    LaunchSet,
    Reimage,
    Release,
    Remove,
    Renumber,
    Reschedule,
    Restart,
    TellWaiting,
    Terminate,
)
from autoscaler.core.estimates.estimates import NO_ESTIMATES
from autoscaler.core.model.changed import changed
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.plan import plan
from autoscaler.core.policy import PACK_PREDICTED, Policy
from autoscaler.core.requests.orders import still_coming
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.arrivals import ON_THE_WAY
from autoscaler.simulation.cloud import Machine
from autoscaler.simulation.estimates import SimulatedEstimates
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import WorkloadJob

Decide = Callable[[Snapshot], Plan]


POLL_ON_THE_WAY = 60.0
"""Seconds between two passes while a worker is on its way in or out and nothing else happens."""


CHANGES_NOTHING = (Restart, Reimage, AskGridEngine, Kill, Annotate, TellWaiting)
"""Actions without effect here: nobody asks for the first two, and jobs that can never run are only reported."""


CONTINUE = (Launch, Disable, Remove)
"""Actions after which a worker is paid until the next step."""


class PlanDecider:
    """Keeps the memory between passes and carries out the actions."""

    def __init__(self, policy: Policy, decide: Decide = plan, earlier: Iterable[WorkloadJob] = ()) -> None:
        """`earlier`: jobs that ran before, by which run times are estimated."""
        self._policy, self._decide = policy, decide
        self.orders_hosts = any(array.pack == PACK_PREDICTED for array in policy.node_arrays)
        self._estimator = SimulatedEstimates(earlier) if policy.estimates else None
        self._memory = Memory()
        self._failures_for = max((array.unavailability_delay for array in policy.node_arrays), default=0.0)
        self.actions: Counter[str] = Counter()
        """By kind."""

    def decide(self, run: Simulation) -> float | None:
        now = run.cloud.epoch + run.now
        fleet = run.cloud.fleet(run.now, self._policy.order_grace, self._failures_for)
        fleet = changed(fleet, orders=still_coming(fleet.orders, run.cloud.machines, self._memory))
        cluster = run.engine.cluster()
        estimates = NO_ESTIMATES if self._estimator is None else self._estimator.read(run, cluster, now)
        snapshot = Snapshot(cluster, fleet, Overrides(), self._memory, self._policy, now, estimates=estimates)
        made = self._decide(snapshot)
        self._memory = made.memory
        run.measures.limits(_limits_of(made), run.now)
        for action in made.actions:
            self.actions[action.kind] += 1
            run.plan(partial(self._carry_out, action, run), action.kind)
        if made.actions:
            run.acted(
                changed=any(not isinstance(action, CHANGES_NOTHING) for action in made.actions),
                continues=any(isinstance(action, CONTINUE) for action in made.actions),
            )
        run.arriving = [worker for worker in made.workers if worker.reason.code in ON_THE_WAY]
        due = None if made.due is None else made.due - run.cloud.epoch
        if not _on_the_way(run):
            return due
        # `due` names no time at which a boot takes too long: the service finds it by polling.
        poll = run.now + POLL_ON_THE_WAY
        return poll if due is None or due <= run.now else min(due, poll)

    def ended(self, run: Run) -> None:
        """Its run time is known from now on."""
        if self._estimator is not None:
            self._estimator.add(run.job)

    def _carry_out(self, action: Action, run: Simulation) -> None:
        match action:
            case Launch():
                self._launch(action, run)
            case Enrol():
                values = _values(run, action.worker_id)
                run.engine.add_host(
                    action.host, action.slots, dict(action.complex_values), values, seq_no=action.seq_no
                )
                run.measures.joins(run.cloud.machines[action.worker_id], action.host)
                run.enrolled(action.host)
            case Enable():
                run.enable(action.host)
            case Disable():
                run.engine.change(action.host, disabled=True)
            case Remove():
                run.remove(action.host)
            case Terminate():
                machine = run.cloud.machines.get(action.worker_id)
                if machine is not None:
                    run.terminate(machine)
            case Reschedule():
                run.put_back(action.jobs)
            case Hold():
                run.engine.hold(action.jobs)
            case Release():
                run.release(action.jobs)
            case Restart() | Reimage() | AskGridEngine() | Kill() | Annotate() | TellWaiting():
                pass
            case Renumber():
                run.engine.renumber((each.host, each.seq_no) for each in action.workers)
            case _:
                assert_never(action)

    def _launch(self, launch: Launch, run: Simulation) -> None:
        """Set by set until one gives a machine, as the service does."""
        for candidate in launch.candidates:
            machines = self._launch_set(candidate, launch, run)
            if machines:
                run.order(machines)
                return

    @staticmethod
    def _launch_set(candidate: LaunchSet, launch: Launch, run: Simulation) -> list[Machine]:
        machines: list[Machine] = []
        for offer in candidate.offers:
            left = offer.count
            for bucket in offer.buckets:
                made = run.cloud.launch(
                    bucket, left, launch.node_array, run.now,
                    for_requests=launch.for_requests, assignment=launch.assignment, group_id=launch.group_id,
                )  # fmt: skip
                machines += made
                left -= len(made)
                if not left:
                    break
        return machines


def _limits_of(made: Plan) -> frozenset[str]:
    """The limits for which waiting tasks get no worker."""
    return frozenset(str(link["cap"]) for each in made.job_categories for link in _capped(each.reason))


def _capped(reason: Reason) -> Iterator[Reason]:
    if reason.code is Code.CAPPED:
        yield reason
    for link in reason.trail:
        yield from _capped(link)


def _on_the_way(run: Simulation) -> bool:
    hosts = run.engine.hosts
    return (
        any(
            machine.worker.name not in hosts or not hosts[machine.worker.name].takes_jobs
            for machine in run.cloud.machines.values()
            if machine.ended is None
        )
        or run.engine.anything_on_hold
        or any(host.lost for host in hosts.values())
    )


def _values(run: Simulation, worker_id: str) -> dict[str, str]:
    """Load values that an execd of such a machine reports."""
    kind = run.cloud.machines[worker_id].worker.type
    return {"arch": kind.arch, "num_proc": str(kind.vcpus), "mem_total": f"{kind.memory / 1024**3:.3f}G"}
