"""The soak's campaign can fail: it finds bugs planted on purpose within a bounded number of steps.

Each stands for a rule that a change elsewhere could break.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Remove, Terminate
from autoscaler.core.capacity import supply
from autoscaler.core.model.cluster import ExecutionHost, QueueInstance
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, LostJobs
from autoscaler.core.recovery import failure_domains, recovery_steps
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable import certainty, deadlock
from autoscaler.core.workers import phases
from autoscaler.core.workers.phases import Condition
from autoscaler.engine.executors import launch
from autoscaler.engine.observe import Listing, Observer
from autoscaler.errors import GridEngineNotObservable, NotObservable
from autoscaler.process import Runner
from autoscaler.providers.interface import LaunchOrder
from autoscaler.sge import detail_lookups
from autoscaler.sge.detail_lookups import DetailLookups
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.sge.shared_listing import SharedListing
from tests.samples import sample
from tests.soak.campaign import History, play
from tests.soak.events import Event
from tests.soak.world import Decide

Patch = pytest.MonkeyPatch
HISTORIES, STEPS = 3, 60
OF_THE_SOAK = 100
"""Steps of a history of `make soak`: a seed means the same history only with the same number."""
"""Histories, and the most events of each."""
CALM_PASSES = 40


def removes_at_the_first_observation(patch: Patch) -> Decide:
    at_once = tuple(
        replace(row, holds=lambda seen: seen.note.empty_since is not None)
        if row.condition is Condition.DRAINED
        else row
        for row in phases.CONDITIONS
    )
    patch.setattr(phases, "CONDITIONS", at_once)
    return plan


def ignores_suspended_jobs(patch: Patch) -> Decide:
    def active(instance: QueueInstance) -> QueueInstance:
        jobs = tuple(job for job in instance.jobs if job.state != "s")
        return replace(instance, jobs=jobs, used=sum(job.slots for job in jobs))

    def decide(snapshot: Snapshot) -> Plan:
        hosts = tuple(replace(host, instances=tuple(map(active, host.instances))) for host in snapshot.cluster.hosts)
        return plan(replace(snapshot, cluster=replace(snapshot.cluster, hosts=hosts)))

    return decide


def forgets_open_orders(patch: Patch) -> Decide:
    return lambda snapshot: plan(replace(snapshot, fleet=replace(snapshot.fleet, orders=())))


def forgets_unlisted_workers(patch: Patch) -> Decide:
    counted = supply.usage_of
    monkey = lambda fleet, policy, observed, now: counted(fleet, policy, replace(observed, missing={}), now)  # noqa: E731
    patch.setattr("autoscaler.core.facts.facts.usage_of", monkey)
    return plan


def orders_again_without_an_answer(patch: Patch) -> Decide:
    numbers, asked = itertools.count(), launch._request_of

    def anew(*order: object) -> LaunchOrder:
        return replace(asked(*order), token=f"again-{next(numbers)}")  # type: ignore[arg-type]

    patch.setattr(launch, "_request_of", anew)
    return plan


def takes_a_failed_listing_for_an_empty_one(patch: Patch) -> Decide:
    end_listing = Observer._end_listing

    def end(*arguments: object) -> object:
        try:
            return end_listing(*arguments)  # type: ignore[arg-type]
        except NotObservable:
            return Listing((), tuple(arguments[0].provider.inner.cloud.catalog.buckets()))  # type: ignore[attr-defined]

    patch.setattr(Observer, "_end_listing", end)
    return plan


def terminates_machines_that_are_still_hosts(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        made = plan(snapshot)
        actions = tuple(
            Terminate(action.worker_id, action.host, action.reason) if isinstance(action, Remove) else action
            for action in made.actions
        )
        return replace(made, actions=actions)

    return decide


def never_terminates_machines(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        made = plan(snapshot)
        return replace(made, actions=tuple(action for action in made.actions if not isinstance(action, Terminate)))

    return decide


def takes_every_disabled_host_for_disabled_by_us(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        memory = snapshot.memory
        notes = {key: replace(note, disabling=note.disabling or Disabling.IDLE) for key, note in memory.workers.items()}
        return plan(replace(snapshot, memory=replace(memory, workers=notes)))

    return decide


def ignores_limits(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        arrays = tuple(replace(array, limits=Limits(max_workers=99)) for array in snapshot.policy.node_arrays)
        return plan(replace(snapshot, policy=replace(snapshot.policy, node_arrays=arrays)))

    return decide


def ignores_other_queues(patch: Patch) -> Decide:
    def main(host: ExecutionHost) -> ExecutionHost:
        return replace(host, instances=tuple(i for i in host.instances if i.queue == "main.q"))

    def decide(snapshot: Snapshot) -> Plan:
        hosts = tuple(map(main, snapshot.cluster.hosts))
        return plan(replace(snapshot, cluster=replace(snapshot.cluster, hosts=hosts)))

    return decide


def kills_without_asking(patch: Patch) -> Decide:
    found = certainty.judge_job

    def hasty(*arguments: object) -> certainty.Verdict:
        one = found(*arguments)  # type: ignore[arg-type]
        return replace(one, step=certainty.NextStep.ACT) if one.step is certainty.NextStep.ASK else one

    patch.setattr(deadlock, "judge_job", hasty)
    return plan


def kills_after_one_observation(patch: Patch) -> Decide:
    patch.setattr(certainty.DeadlockContext, "apart", 0.0)
    return plan


def judges_by_one_worker_only(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        arrays = tuple(replace(array, limits=Limits(max_workers=1)) for array in snapshot.policy.node_arrays)
        return plan(replace(snapshot, policy=replace(snapshot.policy, node_arrays=arrays)))

    return decide


def leaves_probe_hosts_behind(patch: Patch) -> Decide:
    patch.setattr(ProbeHosts, "_cleared", lambda _: "")
    patch.setattr(ProbeHosts, "swept", True)
    return plan


def takes_silent_for_terminated(patch: Patch) -> Decide:
    def decide(snapshot: Snapshot) -> Plan:
        silent = {host.name for host in snapshot.cluster.hosts if not host.heard and host.busy}
        workers = tuple(
            replace(worker, state=MachineState.TERMINATED) if worker.name in silent else worker
            for worker in snapshot.fleet.workers
        )
        return plan(replace(snapshot, fleet=replace(snapshot.fleet, workers=workers)))

    return decide


def fences_at_the_first_silence(patch: Patch) -> Decide:
    return lambda snapshot: plan(replace(snapshot, policy=replace(snapshot.policy, silence_timeout=1.0)))


def fences_though_nobody_vouches(patch: Patch) -> Decide:
    patch.setattr(recovery_steps.Lost, "unvouched", property(lambda lost: None))
    return plan


def fences_workers_that_fell_silent_together(patch: Patch) -> Decide:
    patch.setattr(failure_domains, "_began_together", lambda one, other, within: one is other)
    return plan


def counts_silence_for_which_nobody_vouched(patch: Patch) -> Decide:
    patch.setattr(recovery_steps, "vouched_s", lambda note: note.silent_s or 0.0)
    return plan


def takes_a_listing_that_hangs_for_the_last_one(patch: Patch) -> Decide:
    read, last = SharedListing.read, [b""]

    def again(listing: SharedListing, runner: Runner, timeout: float) -> bytes:
        with contextlib.suppress(GridEngineNotObservable):
            last[0] = read(listing, runner, timeout)
        return last[0]

    patch.setattr(SharedListing, "read", again)
    return plan


def takes_a_failed_lookup_for_one_that_takes_long(patch: Patch) -> Decide:
    ask = detail_lookups._details

    def tolerant(*arguments: object) -> bytes | None:
        try:
            return ask(*arguments)  # type: ignore[arg-type]
        except GridEngineNotObservable:
            return None

    patch.setattr(detail_lookups, "_details", tolerant)
    return plan


def takes_no_answer_for_one_that_knows_nothing(patch: Patch) -> Decide:
    read = DetailLookups.read

    def forgetful(lookups: DetailLookups, *arguments: object) -> bytes | None:
        answer = read(lookups, *arguments)  # type: ignore[arg-type]
        lookups.unanswered = frozenset()
        return answer

    patch.setattr(DetailLookups, "read", forgetful)
    return plan


def reschedules_jobs_that_may_not_start_again(patch: Patch) -> Decide:
    return lambda snapshot: plan(replace(snapshot, policy=replace(snapshot.policy, lost_jobs=LostJobs.FORCE)))


@dataclass(frozen=True)
class Bug:
    plant: Callable[[Patch], Decide]
    rule: int
    seed: int
    """Of the first history."""
    events: tuple[Event, ...] = ()
    """Instead of drawn ones."""
    groups: bool = False
    """Whether there are groups of workers."""
    calm: bool = False
    """Whether it shows only when everything should converge."""


LAG, LOST, WORK, WAIT = (
    Event("lag", 3, 0),
    Event("lost_answer", 0, 0),
    Event("single", 0, 0),
    Event("time_passes", 9, 0),
)
UNSATISFIABLE, WIDE = Event("unsatisfiable", 0, 0), Event("spread", 5, 0)
AGAIN, MANY, ONCE = Event("single", 0, 23), Event("single", 2, 23), Event("single", 0, 43)
"""200 s of work each, with `-r y`, `-r y` and `-r n`."""
CROWD, LONG = (Event("array", 9, 14),) * 3 + (WAIT, WAIT), (Event("time_passes", 119, 0),) * 6
"""More work than there is room for, and the time after which an acknowledged order is no proof any more."""
HIDDEN = Event("hidden", 0, 59)
STOPPED, ELSEWHERE = tuple(Event("suspended", at, 0) for at in range(3)), Event("other_queue", 0, 3)
OUTAGE, HAND = Event("unreachable", 3, 0), Event("disable", 0, 1)
WIDER = Event("one_host", 2, 15)
"""200 s of work on four slots of one host, with `-r y`."""
HANG, NO_DETAILS = Event("reading", 20, 1), Event("reading", 23, 0)
MUTE, DEATH, WHILE = Event("mute", 0, 3), Event("dies", 0, 0), Event("time_passes", 30, 0)
MUTE_TOO, SHORTER = Event("mute", 1, 3), Event("mute", 1, 2)
"""The next one falls silent, too: for as long, or until the first has been silent for too long."""
UNTOLD = Event("reading", 23, 1)
"""`qstat -j` hangs six times."""
BUGS = (
    Bug(removes_at_the_first_observation, 1, 2),
    Bug(ignores_suspended_jobs, 1, 12, (MANY, WHILE, WHILE, *STOPPED, *(WHILE,) * 6)),
    Bug(ignores_other_queues, 1, 21, (WORK, ELSEWHERE, *(WHILE,) * 6)),
    Bug(terminates_machines_that_are_still_hosts, 1, 9, (WORK, *(WHILE,) * 10)),
    Bug(takes_a_failed_listing_for_an_empty_one, 2, 9, (OUTAGE, WORK, WAIT, WAIT)),
    Bug(forgets_open_orders, 3, 9, (LAG, WORK, WAIT, WORK, WAIT, WAIT)),
    Bug(orders_again_without_an_answer, 3, 9, (LAG, LOST, WORK, WAIT, WAIT)),
    Bug(takes_every_disabled_host_for_disabled_by_us, 4, 16, (MANY, WHILE, WHILE, HAND, *(WHILE,) * 8)),
    Bug(ignores_limits, 5, 9, (*CROWD, *(WHILE,) * 6)),
    Bug(kills_without_asking, 6, 14, (UNSATISFIABLE, WAIT, WAIT, WHILE, WHILE, WHILE)),
    Bug(kills_after_one_observation, 6, 14, (UNSATISFIABLE, WAIT, WAIT, WAIT)),
    Bug(judges_by_one_worker_only, 6, 15, (WIDE, WAIT, WHILE, WHILE, WHILE, WHILE)),
    Bug(leaves_probe_hosts_behind, 6, 0, (UNSATISFIABLE, WAIT, WHILE, WHILE, WHILE)),
    Bug(takes_silent_for_terminated, 7, 8, (AGAIN, WHILE, WHILE, MUTE, WHILE, WHILE, WHILE)),
    Bug(reschedules_jobs_that_may_not_start_again, 7, 16, (ONCE, WHILE, WHILE, DEATH, WHILE, WHILE, WHILE)),
    Bug(takes_no_answer_for_one_that_knows_nothing, 7, 16, (ONCE, WHILE, WHILE, UNTOLD, DEATH, *(WHILE,) * 4)),
    Bug(fences_at_the_first_silence, 1, 7, (MANY, MANY, WHILE, WHILE, MUTE, WHILE, WHILE, WHILE)),
    Bug(fences_though_nobody_vouches, 1, 6, (WIDER, WHILE, WHILE, WHILE, MUTE, *(WHILE,) * 6)),
    Bug(fences_workers_that_fell_silent_together, 1, 4, (*(WIDER,) * 3, WHILE, WHILE, MUTE, MUTE_TOO, *(WHILE,) * 6)),
    Bug(counts_silence_for_which_nobody_vouched, 1, 7, (MANY, MANY, *(WHILE,) * 3, MUTE, SHORTER, *(WHILE,) * 10)),
    Bug(takes_a_listing_that_hangs_for_the_last_one, 2, 9, (WORK, WAIT, WAIT, *(HANG, WAIT) * 10)),
    Bug(takes_a_failed_lookup_for_one_that_takes_long, 2, 9, (*(NO_DETAILS, WORK, WAIT, WAIT) * 4,)),
    Bug(forgets_unlisted_workers, 5, 5, (*CROWD, *LONG, HIDDEN, WORK, HIDDEN, WORK, WAIT)),
    Bug(never_terminates_machines, 8, 9, (WORK, WAIT, WAIT), calm=True),
)


def found(bug: Bug, directory: Path, patch: Patch) -> list[str]:
    """What the campaign finds first; [] if nothing."""
    decide = bug.plant(patch)
    for seed in range(bug.seed, bug.seed + HISTORIES):
        drawn = History.of(seed, STEPS, groups=bug.groups)
        history = replace(drawn, events=bug.events) if bug.events else drawn
        calm = CALM_PASSES if bug.calm else 0
        played = play(history, directory / f"{seed}.sqlite", decide=decide, calm_passes=calm)
        if played.broken:
            return list(played.broken)
    return []


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else tmp_path, prefix="sge-autoscaler-test-") as made:
        yield Path(made)


@pytest.mark.parametrize("seed", sample((2, 5, 10), 2))
def test_without_a_planted_bug_the_campaign_finds_none(seed: int, directory: Path) -> None:
    assert play(History.of(seed, STEPS), directory / "store.sqlite", calm_passes=0).broken == ()


@pytest.mark.parametrize("seed", (979,))
def test_a_history_that_once_broke_a_rule_no_longer_does(seed: int, directory: Path) -> None:
    assert play(History.of(seed, OF_THE_SOAK), directory / "store.sqlite", calm_passes=0).broken == ()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_the_campaign_finds_a_planted_bug(bug: Bug, directory: Path, monkeypatch: Patch) -> None:
    assert any(broken.startswith(f"rule {bug.rule}: ") for broken in found(bug, directory, monkeypatch))


def test_a_lost_job_that_qstat_told_nothing_about_in_time_is_not_rescheduled(directory: Path) -> None:
    """It may not start again, which `qstat -j` did not say; that counts as not asked, not as nothing known (rule 7)."""
    history = replace(History.of(16, STEPS), events=(ONCE, WHILE, WHILE, UNTOLD, DEATH, *(WHILE,) * 4), groups=False)
    played = play(history, directory / "store.sqlite", calm_passes=0)
    assert (played.broken, played.world.injected["qstat -j: hang"]) == ((), 2)
