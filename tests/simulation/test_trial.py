"""A trial watches a simulated cell of which the truth is known: what it records and reports is compared with that."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    HostJob,
    JobCategory,
    JobRequest,
    QueueInstance,
)
from autoscaler.core.model.fleet import Fleet
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.core.policy import Policy
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.pass_listener import FailedPass, Pass
from autoscaler.engine.trial_keeper import TrialKeeper
from autoscaler.providers.catalog import load_catalog
from autoscaler.simulation.accounting import AccountingOptions
from autoscaler.simulation.cell import CellConfiguration, HostChange, Weights
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.scheduler_settings import as_configured, not_simulated, scheduler_values
from autoscaler.simulation.watched import UNBOUNDED, Scenario, Watched, read_watched
from autoscaler.simulation.workload import WorkloadJob
from autoscaler.store.trial import RunSeen, TrialTable, WaitingSeen
from tests.cell_files import cell_files
from tests.simulation.playing import a_policy, a_simulation, a_workload, buckets, jobs_of, numbered
from tests.simulation.test_workloads import a_line

SETTINGS = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large", "CP_CAP_AUTOSCALE_HYBRID": "true"}
BUCKETS = tuple(buckets())
GIB = 1024**3
EVERY = 30.0
"""Seconds between two passes of the trial."""
EVERYTHING = Scenario("all", UNBOUNDED)
RECORDED = Path(__file__).parent.parent / "sge" / "recorded" / "empty"


def a_pass(cluster: Cluster, now: float, policy: Policy, *, decides: bool = True) -> Pass:
    snapshot = Snapshot(cluster, Fleet((), BUCKETS), Overrides(), Memory(), policy, now)
    made = plan(snapshot) if decides else cast("Any", SimpleNamespace(job_categories=()))
    return Pass(cast("Any", SimpleNamespace(snapshot=snapshot)), made, snapshot, cast("Any", None))


@dataclass
class Onlooker:
    """A trial that looks at a simulated cell now and then. Nobody acts there."""

    keeper: TrialKeeper
    policy: Policy
    orders_hosts: ClassVar[bool] = False

    def decide(self, run: Simulation) -> float | None:
        now = run.cloud.epoch + run.now
        self.keeper.passed(a_pass(run.engine.cluster(), now, self.policy, decides=False))
        return None if run.over else run.now + EVERY

    def ended(self, run: Run) -> None:
        pass


class Nobody:
    """Nobody looks, and nobody acts."""

    orders_hosts: ClassVar[bool] = False

    def decide(self, run: Simulation) -> None:
        pass

    def ended(self, run: Run) -> None:
        pass


class Reality(Simulation):
    """A cell with hosts of its own, of which Grid Engine's accounting is kept."""

    lines: Sequence[str] = ()

    def _end(self, run: Run) -> None:
        times = (round(self.cloud.epoch + at) for at in (run.job.submitted, run.started, self.now))
        host, pe = run.shares[0][0].name, run.job.pe or "NONE"
        self.lines = [
            *self.lines,
            a_line(run.job.number, *times, host=host, slots=run.job.slots, pe=pe, owner=run.job.owner),
        ]
        super()._end(run)


def small_jobs(count: int, largest: int) -> list[WorkloadJob]:
    """Of six hours; what two hosts could never run is left out."""
    return numbered([job for job in a_workload(count, largest_host=largest) if job.slots <= largest])


def watch(table: TrialTable, jobs: Any, *hosts: HostChange, lasts: float = 1e9, epoch: float | None = None) -> Reality:
    """Let a trial watch these jobs on these hosts to their end."""
    policy = Invocation(SETTINGS).settings.policy(master="master")
    made = a_simulation(jobs, policy, cell=CellConfiguration(host_changes=hosts))
    reality = Reality(made.workload, made.cell, made.cloud, Nobody())
    reality.cloud.epoch = reality.engine.epoch = reality.cloud.epoch if epoch is None else epoch
    began = reality.cloud.epoch
    table.begin(began, began + lasts)
    reality.decider = Onlooker(TrialKeeper(table, "main.q", began + lasts, reality.stop), policy)
    reality.run()
    return reality


@pytest.fixture
def table() -> Iterator[TrialTable]:
    made = TrialTable.open(None)
    yield made
    made.close()


def read(table: TrialTable, folder: Path, lines: Sequence[str] = ()) -> Watched:
    file = folder / "accounting"
    if lines:
        file.write_text("\n".join(lines) + "\n")
    return read_watched(table, file, "main.q")


TWO_HOSTS = (HostChange(0.0, "n1", 4), HostChange(0.0, "n2", 8))


def truth(reality: Reality) -> float:
    return sum(reality.measures.waits) / len(reality.measures.waits)


@pytest.mark.parametrize(("accounts", "off"), ((True, 1.0), (False, EVERY)), ids=("with accounting", "without"))
def test_waits_are_those_that_happened(table: TrialTable, tmp_path: Path, accounts: bool, off: float) -> None:
    reality = watch(table, small_jobs(80, 4), *TWO_HOSTS)
    watched = read(table, tmp_path, reality.lines if accounts else ())
    happened = watched.happened
    assert happened["mean_wait_s"] == pytest.approx(truth(reality), abs=off)
    assert truth(reality) > 60, "they waited at all"
    assert happened["busy_core_hours"] == pytest.approx(reality.measures.busy_core_seconds / 3600, rel=0.02)
    assert (happened["waiting_at_end"], happened["hosts"]) == (0, 2)
    assert bool(watched.unread) is not accounts


@pytest.mark.parametrize("accounts", (True, False), ids=("with accounting", "without"))
def test_the_hosts_as_they_were_simulate_to_what_happened(table: TrialTable, tmp_path: Path, accounts: bool) -> None:
    closed = (*TWO_HOSTS, HostChange(7200.0, "n2", 0), HostChange(10800.0, "n2", 8), HostChange(14400.0, "n1", 6))
    reality = watch(table, small_jobs(80, 4), *closed)
    watched = read(table, tmp_path, reality.lines if accounts else ())
    again = a_simulation(
        watched.workload(AccountingOptions(UNBOUNDED), EVERYTHING),
        a_policy(),
        cell=CellConfiguration(host_changes=watched.host_changes()),
        decider=Nobody(),
    )
    again.run()
    assert sum(again.measures.waits) / len(again.measures.waits) == pytest.approx(truth(reality), rel=0.05, abs=EVERY)
    assert [(change.name, change.slots) for change in watched.host_changes()] == [
        (change.name, change.slots) for change in closed
    ]


def test_hosts_cost_what_the_cheapest_offer_of_their_size_does(table: TrialTable, tmp_path: Path) -> None:
    watch(table, jobs_of(20, seconds=1800.0), HostChange(0.0, "n1", 4), HostChange(0.0, "n2", 16))
    watched = read(table, tmp_path)
    offers = [each for each in load_catalog().offers.values() if each.on_demand is not None]
    cheapest = sum(
        min(each.on_demand for each in offers if each.on_demand and each.type.vcpus >= cores) for cores in (4, 16)
    )
    hours = (watched.until - watched.since) / 3600
    assert watched.price(load_catalog().buckets(), None) == pytest.approx(cheapest * hours)
    assert watched.price(load_catalog().buckets(), 0.05) == pytest.approx(20 * 0.05 * hours)


def test_what_no_catalogue_has_in_that_size_has_no_price(table: TrialTable, tmp_path: Path) -> None:
    watch(table, jobs_of(4, seconds=600.0), HostChange(0.0, "n1", 5000))
    assert read(table, tmp_path).price(load_catalog().buckets(), None) is None


def test_jobs_that_nothing_could_hold_are_left_out_and_counted(table: TrialTable, tmp_path: Path) -> None:
    jobs = [WorkloadJob(1, 0.0, 600.0, 6, "local"), WorkloadJob(2, 1.0, 600.0, 2, "local")]
    watch(table, jobs, *TWO_HOSTS)
    workload = read(table, tmp_path).workload(AccountingOptions(UNBOUNDED), Scenario("small workers", 4))
    assert [job.slots for job in workload] == [2]
    assert "small workers: left out, since nothing there is large enough: 1 task." in workload.assumptions


def test_the_trial_ends_when_its_time_is_over(table: TrialTable, tmp_path: Path) -> None:
    reality = watch(table, jobs_of(40, submitted=5.0, seconds=3600.0), HostChange(0.0, "n1", 4), lasts=5000.0)
    watched = read(table, tmp_path)
    assert not reality.over
    assert watched.until - watched.since == pytest.approx(5000.0, abs=2 * EVERY)
    happened = watched.happened
    assert (happened["running_at_end"], happened["waiting_at_end"]) == (4, 32)
    workload = list(watched.workload(AccountingOptions(UNBOUNDED), EVERYTHING))
    assert sum(job.tasks for job in workload) == 40
    assert sum(job.is_counted for job in workload) == 8
    # The first four ran for an hour: that is the estimate of all others.
    assert {round(job.seconds / 60) for job in workload} == {60}


def test_the_scheduler_of_the_cell_is_simulated() -> None:
    text = (RECORDED / "qconf" / "ssconf.txt").read_text()
    cell = as_configured(CellConfiguration(), scheduler_values(text))
    assert (cell.schedule_interval, cell.flush_after(end=False), cell.flush_after(end=True)) == (2.0, 1.0, 1.0)
    assert (cell.weights, cell.fixed_order) == (Weights(0.0, 0.5, 0.278), False)
    assert list(not_simulated(scheduler_values(text))) == []
    for before, after in (
        ("queue_sort_method                 load", "queue_sort_method seqno"),
        ("flush_finish_sec                  1", "flush_finish_sec 0"),
        ("weight_tickets_share              0", "weight_tickets_share 1000"),
        ("max_reservation                   0", "max_reservation 20"),
        ("maxujobs                          0", "maxujobs 8"),
    ):
        assert before in text
        text = text.replace(before, after)
    cell = as_configured(CellConfiguration(), scheduler_values(text))
    assert (cell.fixed_order, cell.flush_after(end=False), cell.flush_after(end=True)) == (True, 1.0, 0.0)
    assert [each.split(":")[0] for each in not_simulated(scheduler_values(text))] == [
        "The scheduler orders jobs by tickets, too (shares of users and projects)",
        "The scheduler makes reservations",
        "No user may run more than 8 jobs at once (maxujobs)",
    ]


def test_without_flush_an_end_is_scheduled_at_the_interval() -> None:
    jobs = jobs_of(2, seconds=20.0)
    host = HostChange(0.0, "n1", 1)
    waited = []
    for flush_finish in (1.0, 0.0):
        cell = CellConfiguration(host_changes=(host,), schedule_interval=15.0, flush_finish=flush_finish)
        waited.append(max(a_simulation(jobs, a_policy(), cell=cell, decider=Nobody()).run().waits))
    assert waited == [20.0, 30.0]


# -- what single passes show -------------------------------------------------------------------------------------------


def a_cluster(
    *running: HostJob, waiting: Sequence[JobCategory] = (), states: str = "", queue: str = "main.q"
) -> Cluster:
    used = sum(job.slots for job in running)
    host = ExecutionHost(
        "n1", (QueueInstance(queue, "n1", 4, used, 0, states, running),), load={"num_proc": "4.000000"}
    )
    return Cluster((host,), tuple(waiting), {}, {}, {})


def waits(job: int, submitted: float, state: str = "qw", **ask: Any) -> JobCategory:
    return JobCategory(JobRequest(state, owner="ann", **ask), (job,), ("",), (submitted,), 1)


def passes(table: TrialTable, *clusters: tuple[float, Cluster]) -> TrialKeeper:
    if table.times is None:
        table.begin(1000.0, 9000.0)
    keeper = TrialKeeper(table, "main.q", 9000.0, lambda: None)
    for now, cluster in clusters:
        keeper.passed(a_pass(cluster, now, a_policy()))
    return keeper


def test_a_job_ends_between_the_two_passes_around_its_end(table: TrialTable) -> None:
    passes(
        table, (1000.0, a_cluster()), (1010.0, a_cluster(HostJob(7, "", "r", 2, started=1004.0))), (1020.0, a_cluster())
    )
    (run,) = table.runs()
    assert (run.job, run.slots, run.started, run.ended) == (7, 2, 1004.0, 1015.0)


def test_time_on_hold_is_no_wait(table: TrialTable, tmp_path: Path) -> None:
    passes(
        table,
        (1000.0, a_cluster(waiting=[waits(7, 990.0, "hqw")])),
        (1300.0, a_cluster(waiting=[waits(7, 990.0, "hqw")])),
        (1310.0, a_cluster(waiting=[waits(7, 990.0)])),
        (1320.0, a_cluster(HostJob(7, "", "r", 1, started=1315.0))),
        (1400.0, a_cluster()),
    )
    assert read(table, tmp_path).happened["mean_wait_s"] == pytest.approx(15.0)


def test_a_job_on_hold_at_the_end_is_no_load(table: TrialTable, tmp_path: Path) -> None:
    passes(table, (1000.0, a_cluster(waiting=[waits(7, 990.0, "hqw"), waits(8, 990.0)])))
    assert [job.job for job, _ in read(table, tmp_path).waiting] == [8]


def test_what_no_worker_would_be_launched_for_is_no_load(table: TrialTable, tmp_path: Path) -> None:
    passes(table, (1000.0, a_cluster(waiting=[waits(7, 990.0, "Eqw"), waits(8, 990.0)])))
    watched = read(table, tmp_path)
    assert ([job.job for job, _ in watched.waiting], watched.never_counted) == ([8], 1)
    said = watched.workload(AccountingOptions(1), EVERYTHING).assumptions
    assert "Left out, since they would launch nothing: 1 task waiting at the end." in said


def test_a_later_hold_of_an_array_does_not_change_when_its_first_task_came(table: TrialTable, tmp_path: Path) -> None:
    rest = JobCategory(JobRequest("qw", owner="ann", array=True), (7,), ("1-8",), (990.0,), 8)
    held = replace(rest, ask=replace(rest.ask, state="hqw"), tasks=("2-8",), count=7)
    passes(
        table,
        (1000.0, a_cluster(waiting=[rest])),
        (1010.0, a_cluster(HostJob(7, "1", "r", 1, started=1005.0), waiting=[held])),
        (1200.0, a_cluster(HostJob(7, "1", "r", 1, started=1005.0), waiting=[held])),
        (1210.0, a_cluster(waiting=[held])),
    )
    lines = [a_line(7, 990, 1006, 1205, host="n1", owner="ann").replace(":0:1.0:", ":1:1.0:", 1)]
    assert [(run.task, run.eligible) for run in table.runs()] == [("1", 990.0)]
    assert read(table, tmp_path).happened["mean_wait_s"] == pytest.approx(5.0), "from the beginning of the trial"
    assert read(table, tmp_path, lines).happened["mean_wait_s"] == pytest.approx(6.0)


def test_memory_counts_by_a_complex_that_is_not_consumable_as_shipped() -> None:
    jobs = jobs_of(3, seconds=600.0, hard=(("h_vmem", "6G"),))
    host = HostChange(0.0, "n1", 8, {"h_vmem": "8G"})
    cell = CellConfiguration(consumables=("h_vmem",), host_changes=(host,))
    waited = sorted(round(wait, -1) for wait in a_simulation(jobs, a_policy(), cell=cell, decider=Nobody()).run().waits)
    assert waited == [0.0, 600.0, 1200.0]


def test_slots_of_a_job_on_several_instances_are_added(table: TrialTable) -> None:
    job = HostJob(7, "", "r", 2, started=1004.0)
    hosts = tuple(ExecutionHost(name, (QueueInstance("main.q", name, 4, 2, 0, "", (job,)),)) for name in ("n1", "n2"))
    passes(table, (1010.0, Cluster(hosts, (), {}, {}, {})))
    assert [(run.job, run.slots) for run in table.runs()] == [(7, 4)]


def test_a_job_in_transfer_is_one_start_and_a_rescheduled_one_is_two(table: TrialTable) -> None:
    passes(
        table,
        (1000.0, a_cluster(HostJob(7, "", "t", 1))),
        (1010.0, a_cluster(HostJob(7, "", "r", 1, started=999.0))),
        (1020.0, a_cluster(HostJob(7, "", "Rr", 1, started=1015.0))),
    )
    assert [(run.started, run.ended) for run in table.runs()] == [(999.0, 1015.0), (1015.0, None)]


def test_a_disabled_host_has_no_slots_meanwhile(table: TrialTable) -> None:
    passes(
        table,
        (1000.0, a_cluster()),
        (1010.0, a_cluster(states="d")),
        (1020.0, a_cluster(states="d")),
        (1030.0, a_cluster()),
    )
    assert [(host.at, host.slots, host.cores) for host in table.hosts()] == [
        (1000.0, 4, 4), (1010.0, 0, 4), (1030.0, 4, 4)
    ]  # fmt: skip


def test_a_host_that_is_gone_has_no_slots(table: TrialTable) -> None:
    passes(table, (1000.0, a_cluster()), (1010.0, Cluster((), (), {}, {}, {})))
    assert [(host.at, host.slots) for host in table.hosts()] == [(1000.0, 4), (1010.0, 0)]


def test_a_host_that_never_had_a_slot_is_none(table: TrialTable, tmp_path: Path) -> None:
    master = ExecutionHost("master", (QueueInstance("main.q", "master", 0, 0, 0),))
    passes(
        table,
        (1000.0, Cluster((master,), (waits(7, 990.0),), {}, {}, {})),
        (1010.0, Cluster((master,), (), {}, {}, {})),
    )
    assert read(table, tmp_path).happened["hosts"] == 0


def test_only_the_queue_of_the_settings_counts_where_the_cell_has_it(table: TrialTable) -> None:
    job = HostJob(7, "", "r", 1, started=999.0)
    both = ExecutionHost(
        "n1", (QueueInstance("main.q", "n1", 4, 0, 0), QueueInstance("other.q", "n1", 64, 1, 0, "", (job,)))
    )
    elsewhere = waits(8, 990.0, queues=("other.q",))
    passes(table, (1000.0, Cluster((both,), (elsewhere, waits(9, 990.0)), {}, {}, {})))
    assert ([host.slots for host in table.hosts()], table.runs()) == ([4], [])
    assert [job.job for job in table.waiting()] == [9]


def test_in_a_cell_without_that_queue_all_count(table: TrialTable) -> None:
    passes(table, (1000.0, a_cluster(HostJob(7, "", "r", 1, started=999.0), queue="all.q")))
    assert ([host.slots for host in table.hosts()], [run.queue for run in table.runs()]) == ([4], ["all.q"])


def test_another_process_goes_on_where_the_first_was_killed(table: TrialTable, tmp_path: Path) -> None:
    stays = HostJob(7, "", "r", 1, started=1001.0)
    both = (1010.0, a_cluster(stays, HostJob(8, "", "r", 1, started=1002.0)))
    assert passes(table, (1000.0, a_cluster()), both).jobs_seen == {7, 8}
    keeper = passes(table, (2010.0, a_cluster(stays)), (2020.0, a_cluster()))
    assert table.periods() == [(1000.0, 1010.0), (2010.0, 2020.0)]
    assert {run.job: run.ended for run in table.runs()} == {7: 2015.0, 8: 1510.0}
    assert keeper.jobs_seen == {7, 8}
    watched = read(table, tmp_path)
    assert watched.unwatched == 1000.0
    assert any(
        "Nobody watched for 17 min" in each for each in watched.workload(AccountingOptions(1), EVERYTHING).assumptions
    )


def test_after_an_outage_a_new_period_begins(table: TrialTable) -> None:
    keeper = passes(table, (1000.0, a_cluster()), (1010.0, a_cluster()))
    keeper.failed(FailedPass(RuntimeError(), 1020.0, "no answer"))
    keeper.passed(a_pass(a_cluster(), 1400.0, a_policy()))
    assert table.periods() == [(1000.0, 1010.0), (1400.0, 1400.0)]


def test_the_time_is_over_also_while_nothing_can_be_observed(table: TrialTable) -> None:
    ended: list[str] = []
    table.begin(1000.0, 2000.0)
    keeper = TrialKeeper(table, "main.q", 2000.0, lambda: ended.append("over"))
    keeper.failed(FailedPass(RuntimeError(), 1999.0, "no answer"))
    keeper.failed(FailedPass(RuntimeError(), 2000.0, "no answer"))
    assert ended == ["over"]


def test_why_jobs_waited_is_told_once_with_their_number(table: TrialTable) -> None:
    large = [waits(number, 990.0, slots_min=400, slots_max=400, pe="local") for number in (7, 8)]
    cluster = replace(a_cluster(waiting=[*large, waits(9, 990.0)]), pes=CellConfiguration().pes)
    passes(table, (1000.0, cluster), (1010.0, cluster), (1100.0, cluster))
    causes = {cause.code: cause.jobs for cause in table.causes()}
    assert causes.get("TOO_LARGE_FOR_ONE_HOST") == 2
    assert not causes.keys() & {"DEMAND", "NOT_EXPIRED", "BATCH_DELAY"}


def test_a_trial_begun_anew_forgets_the_former_one(table: TrialTable) -> None:
    passes(table, (1000.0, a_cluster(HostJob(7, "", "r", 1, started=999.0), waiting=[waits(8, 990.0)])))
    table.begin(5000.0, 6000.0)
    assert (table.runs(), table.waiting(), table.hosts(), table.periods()) == ([], [], [], [])


def test_what_is_written_is_read_again(table: TrialTable) -> None:
    run = RunSeen(7, "3", 5.0, "ann", 2, "mpi", (("h_rt", "60"),), "main.q", "n1")
    job = WaitingSeen(7, 4.0, 9, 4.5, "ann", "red", 2, "mpi", (("h_rt", "60"),))
    table.add_runs([run])
    table.note_waiting([job])
    assert (table.runs(), table.waiting()) == ([run], [job])


def two_queues(*running: tuple[str, HostJob], waiting: Sequence[JobCategory] = ()) -> Cluster:
    """A host of each queue: n1 of main.q, n2 of second.q."""
    hosts = tuple(
        ExecutionHost(
            name,
            (QueueInstance(queue, name, slots, 0, 0, "", tuple(job for at, job in running if at == queue)),),
            load={"num_proc": f"{slots}"},
        )
        for queue, name, slots in (("main.q", "n1", 4), ("second.q", "n2", 8))
    )
    return Cluster(hosts, tuple(waiting), {}, {}, {})


def test_of_several_queues_each_has_its_own_hosts_and_jobs(table: TrialTable, tmp_path: Path) -> None:
    other = TrialTable.open(None)
    keepers = []
    for queue, of_queue in (("main.q", table), ("second.q", other)):
        of_queue.begin(1000.0, 9000.0)
        keepers.append(TrialKeeper(of_queue, queue, 9000.0, lambda: None, alone=False))
    asks = [
        waits(1, 990.0),
        waits(2, 991.0, queues=("second.q",)),
        waits(3, 992.0),
        waits(4, 993.0, queues=("main.q",)),
    ]
    runs = [("main.q", HostJob(1, "", "r", 1, started=1005.0)), ("second.q", HostJob(2, "", "r", 1, started=1005.0))]
    for now, cluster in ((1000.0, two_queues(waiting=asks)), (1010.0, two_queues(*runs, waiting=asks[2:]))):
        for keeper in keepers:
            keeper.passed(a_pass(cluster, now, a_policy()))
    first = read_watched(table, tmp_path / "none", "main.q", alone=False)
    elsewhere = {job.job for job in table.waiting() if job.tasks}
    second = read_watched(other, tmp_path / "none", "second.q", alone=False, elsewhere=elsewhere)
    other.close()
    assert [(each.all_slots, [task.end.job for task in each.tasks]) for each in (first, second)] == [(4, [1]), (8, [2])]
    assert [each.happened["mean_wait_s"] for each in (first, second)] == [5.0, 5.0]
    # A job that may use both waits for one of them.
    assert [[job.job for job, _ in each.waiting] for each in (first, second)] == [[3, 4], []]
    assert [sorted(keeper.wait_now) for keeper in keepers] == [[3, 4], [3]]
    assert [keeper.hosts_now for keeper in keepers] == [{"n1"}, {"n2"}]


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[str]]:
    """A trial of six hours on two hosts that were too small, which ended an hour ago; and the lines of accounting."""
    file = tmp_path_factory.mktemp("seen") / "cell.trial"
    table = TrialTable.open(file)
    hosts = (HostChange(0.0, "n1", 4), HostChange(0.0, "n2", 4))
    with table.transaction():  # one for all passes: each would wait for the disk
        reality = watch(table, small_jobs(50, 4), *hosts, epoch=round(time.time()) - 90_000.0)
    table.end_at(table.periods()[-1][1])
    table.close()
    return file, reality.lines


@pytest.fixture
def cell(seen: tuple[Path, Sequence[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invocation:
    """The cell of that trial."""
    values = cell_files(tmp_path / "sge") | SETTINGS | {"CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "8"}
    values |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    invocation = Invocation(values)
    file, lines = seen
    invocation.state_directory.mkdir()
    shutil.copy(file, invocation.store_file.with_suffix(".trial"))
    (invocation.common / "accounting").write_text("\n".join(lines) + "\n")
    return invocation


def test_the_report_says_what_happened_and_what_would_have(
    cell: Invocation, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "trial.html"
    assert main(["trial", "--page", str(page)]) == 0
    out, err = capsys.readouterr()
    assert "--anew begins another one" in err
    assert re.search(
        r"In \S+, \d\d tasks started on 2 hosts of yours, and waited \S+ on average. These hosts cost \d", out
    )
    assert re.search(
        r"Beside your hosts, \d+ workers would have been launched and \d+ removed, for \d+\.\d\d USD, and", out
    )
    assert re.search(r"In place of your hosts, \d+ workers would have been launched", out)
    assert re.search(r"CP_CAP_AUTOSCALE_IDLE_TIMEOUT +30s +2m +\+\d+\.\d%", out)
    text = page.read_text()
    for said in ("<h1>Trial</h1>", "Backtest: your hosts as they were", "Which settings matter", "Beside your hosts"):
        assert said in text
    assert not re.search(r"<script|<link|src=|href=|url\(", text)


def test_a_report_of_several_queues_has_a_part_for_each(
    cell: Invocation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second = {"CP_CAP_SGE_QUEUE_NAME_1": "second.q", "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.xlarge"}
    for name, value in (
        second | {"CP_CAP_SGE_QUEUE_DEFAULT_1": "false", "CP_CAP_AUTOSCALE_BILLING_STEP_1": "600"}
    ).items():
        monkeypatch.setenv(name, value)
    file = cell.store_file.with_suffix(".trial")
    table = TrialTable.open(file)
    table.note_scheduler({"weight_priority": "0", "weight_urgency": "0.5", "weight_waiting_time": "0.278"})
    table.close()
    other = file.with_stem(f"{file.stem}-second.q")
    shutil.copy(file, other)
    rename = sqlite3.connect(other)
    rename.execute("UPDATE runs SET queue = 'second.q'")
    rename.commit()
    rename.close()
    accounting = cell.common / "accounting"
    lines = accounting.read_text().splitlines()
    accounting.write_text("\n".join([*lines, *(line.replace("main.q", "second.q", 1) for line in lines)]) + "\n")
    page = tmp_path / "trial.html"
    assert main(["trial", "--report", "--json", "--page", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second_one = document["queues"]
    assert [each["queue"] for each in document["queues"]] == ["main.q", "second.q"]
    assert first["happened"]["tasks"] == second_one["happened"]["tasks"] > 0
    alone = [each["policies"][2] for each in document["queues"]]
    assert {*alone[0]["launched"]} <= {"m5.large", "m5.xlarge", "m5.2xlarge"}
    assert {*alone[1]["launched"]} == {"c5.xlarge"}
    assert alone[1]["tasks"]["waiting"] == 0
    said = first["assumptions"]
    assert "second.q: Machines are billed in steps of 600 s, at least 60 s." in said
    assert len([each for each in said if "Its weights: priority 0, urgency 0.5, waiting time 0.278." in each]) == 1
    assert page.read_text().count("<h2>Queue ") == 2
    assert main(["trial", "--report"]) == 0
    out = capsys.readouterr().out
    assert out.index("Queue main.q") < out.index("Queue second.q") < out.index("This rests on")
    assert out.count("This rests on\n") == 1


def test_the_report_in_json(cell: Invocation, capsys: pytest.CaptureFixture[str]) -> None:
    smaller = "CP_CAP_AUTOSCALE_WORKERS=1"
    assert main(["trial", "--report", "--json", "--compare", smaller]) == 0
    document = json.loads(capsys.readouterr().out)
    hosts, beside, alone, compared = document["policies"]
    assert [each["policy"] for each in document["policies"]] == [
        "your hosts", "your hosts and workers", "workers alone", smaller
    ]  # fmt: skip
    assert document["error"]["mean"] < 0.05
    assert (
        beside["wait_s"]["mean"]
        < hosts["wait_s"]["mean"]
        == pytest.approx(document["happened"]["mean_wait_s"], rel=0.05)
    )
    assert hosts["price"] == pytest.approx(document["happened"]["price"])
    assert beside["price"] == pytest.approx(hosts["price"] + beside["workers_price"])
    assert alone["price"] == alone["workers_price"] > 0
    assert compared["launches"] < beside["launches"]
    assert {each["setting"] for each in document["settings"]} >= {
        "CP_CAP_AUTOSCALE_WORKERS",
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT",
    }


def test_a_consumable_of_a_host_counts_as_configured_and_not_as_its_memory(table: TrialTable, tmp_path: Path) -> None:
    ram = Complex("ram", "r", "MEMORY", "<=", "YES", Consumable.PER_SLOT, "1G")
    fixed = Complex("swap", "sw", "MEMORY", "<=", "YES", Consumable.NO, "0")
    gpus = Complex("gpus", "g", "INT", "<=", "YES", Consumable.PER_SLOT, "0")

    def shows(left: str, *jobs: HostJob) -> Cluster:
        instance = QueueInstance("main.q", "n1", 8, sum(job.slots for job in jobs), 0, "", jobs)
        consumables = {"ram": left, "swap": "1G", "gpus": "4"}
        host = ExecutionHost("n1", (instance,), load={"mem_total": "32G"}, consumables=consumables)
        other = ExecutionHost("n2", (QueueInstance("main.q", "n2", 8, 0, 0),), load={"mem_total": "16G"})
        return replace(a_cluster(), hosts=(host, other), complexes={"ram": ram, "swap": fixed, "gpus": gpus})

    asks = HostJob(7, "", "r", 3, started=1001.0, hard=(("r", "1500M"),))
    usual = HostJob(8, "", "r", 2, started=1002.0)
    passes(
        table,
        (1000.0, shows("20.000G")),
        (1010.0, shows("13.605G", asks, usual)),  # 20 G - 3 x 1500 M - 2 x 1 G, as rounded by qhost
        (1020.0, shows("40.000G")),
    )
    assert [(host.at, dict(host.complex_values)) for host in table.hosts() if host.name == "n1"] == [
        (1000.0, {"ram": 20 * GIB, "gpus": 4.0}),
        (1020.0, {"ram": 40 * GIB, "gpus": 4.0}),
    ]
    first, second, _ = read(table, tmp_path).host_changes(("ram", "gpus"), {"gpus"})
    assert first.complex_values == {"ram": f"{20 * GIB}", "gpus": "4"}
    assert second.complex_values == {"ram": f"{16 * GIB}"}


@pytest.mark.parametrize("options", ((), ("--report",)), ids=("watching", "reporting"))
def test_memory_that_no_cell_has_is_refused(
    cell: Invocation, capsys: pytest.CaptureFixture[str], options: Sequence[str]
) -> None:
    assert main(["trial", "--memory", "h_vmen", *options]) == 2
    assert "did you mean h_vmem?" in capsys.readouterr().err


def test_a_wrong_name_is_told_before_it_watches(cell: Invocation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "--anew", "--compare", "nosuch"]) == 2
    assert "no such rule" in capsys.readouterr().err
    assert main(["trial", "--report", "--json"]) == 0, "nothing was forgotten"


def test_what_cannot_be_compared_is_told_before_it_watches(
    cell: Invocation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HYBRID_FAMILY", "m5")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "")
    assert main(["trial", "--anew", "--for", "1s", "--compare", "static:2:c5.large"]) == 2
    assert "static:2:c5.large, queue main.q: " in capsys.readouterr().err
    assert main(["trial", "--anew", "--for", "1s", "--compare", "CP_CAP_AUTOSCALE_HYBRID=false"]) == 2
    assert "nothing can be rented" in capsys.readouterr().err
    assert main(["trial", "--report", "--json"]) == 0, "nothing was forgotten"


@pytest.mark.parametrize(
    ("changed", "left_out"),
    (
        # Without a family it would need a type.
        ({"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "", "CP_CAP_AUTOSCALE_HYBRID_FAMILY": "m5"}, "CP_CAP_AUTOSCALE_HYBRID"),
        ({"CP_CAP_AUTOSCALE_WORKERS": "2", "CP_CAP_AUTOSCALE_MIN_WORKERS": "2"}, "CP_CAP_AUTOSCALE_WORKERS=1"),
    ),
    ids=("nothing to rent", "refused by another setting"),
)
def test_a_report_leaves_out_a_value_that_the_other_settings_do_not_allow(
    cell: Invocation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    left_out: str,
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    assert main(["trial", "--report", "--json"]) == 0
    tried = [f"{each['setting']}={each['tried']}" for each in json.loads(capsys.readouterr().out)["settings"]]
    assert not [each for each in tried if each == left_out or each.startswith(f"{left_out}=")]
    assert {"CP_CAP_AUTOSCALE_WORKERS=4" if "=" in left_out else "CP_CAP_AUTOSCALE_WORKERS=6"} <= {*tried}
    assert len(tried) >= 7


@pytest.mark.parametrize(
    ("options", "said"),
    ((("--for", "1h", "--days", "2"), "leave one out"), (("--report", "--page", "{}/no/trial.html"), "cannot write")),
)
def test_bad_options_are_told_at_once(
    cell: Invocation, capsys: pytest.CaptureFixture[str], tmp_path: Path, options: Sequence[str], said: str
) -> None:
    assert main(["trial", *(each.format(tmp_path) for each in options)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("options", ((), ("--report",)), ids=("watching", "reporting"))
def test_without_a_type_it_says_what_to_set(
    cell: Invocation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: Sequence[str]
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "")
    assert main(["trial", *options]) == 2
    said = capsys.readouterr().err
    assert "set CP_CAP_AUTOSCALE_INSTANCE_TYPE" in said
    assert "--config" in said


def test_without_a_trial_there_is_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (cell_files(tmp_path / "sge") | SETTINGS).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CP_CAP_AUTOSCALE_WORKDIR", str(tmp_path / "state"))
    assert main(["trial", "--report"]) == 2
    assert "no trial has seen this cell yet" in capsys.readouterr().err
