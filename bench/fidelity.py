"""How far `simulate` is from a real qmaster and scheduler: the same jobs, settings and boot times in both, real time.

The whole service rents machines that do not exist (`autoscaler.lab.absent_hosts`) from a private cell's qmaster with
SIMULATE_EXECDS. Real runs of one seed differ too, so each is made twice; the simulation is then compared with both by
the same code as `simulate --last`. Needs root and Debian's Grid Engine (`make setup`).

    python -m bench.fidelity [--jobs N] [--minutes M] [--seed S] [--runs 2] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autoscaler.commands.context import Invocation
from autoscaler.core.model.fleet import InstanceType
from autoscaler.errors import AutoscalerError
from autoscaler.lab import absent_hosts
from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.providers.catalog import load_catalog
from autoscaler.sge.accounting import JobEnd
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Delays
from autoscaler.simulation.past import Past, backtest_of
from autoscaler.simulation.run import Pace, Simulation
from autoscaler.simulation.workload import LOCAL, SPREAD, Workload, WorkloadJob
from autoscaler.store.store import Store
from bench.idle import environment

BOOT, INTERVAL, POLLING = 10.0, 5.0, 5.0
SETTINGS = {
    "CP_CAP_AUTOSCALE_PROVIDER": absent_hosts.PROVIDER,
    "CP_CAP_AUTOSCALE_FAKE_BOOT_DELAY": f"{BOOT:g}",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "8",
    "CP_CAP_AUTOSCALE_WORKERS": "500",
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "50",
    "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE": "50",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
    "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_LAUNCHES": "100000",
    "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_REMOVALS": "100000",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "30",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": f"{POLLING:g}",
}
SCHEDULER = {"schedule_interval": f"0:0:{INTERVAL:g}", "flush_submit_sec": "1", "flush_finish_sec": "1"}
LARGEST = 8
MACHINES = 2_000
"""Names that the cell's machines may have."""
LONGEST = 900.0
"""Seconds after the last submission within which all jobs have to end and all workers to leave."""


def jobs_of(count: int, minutes: float, seed: int) -> list[WorkloadJob]:
    """Single tasks, jobs on one host and over several, arrays with `-tc`, priorities and dependencies."""
    chance = random.Random(seed)
    times = sorted(chance.uniform(0.0, 60.0 * minutes) for _ in range(count))
    return [_job(number, at, chance) for number, at in enumerate(times, start=1)]


def _job(number: int, at: float, chance: random.Random) -> WorkloadJob:
    slots = chance.choices((1, 2, 4, 8, 20), (60, 15, 10, 8, 7))[0]
    array = slots == 1 and chance.random() < 0.1
    tasks = chance.randint(2, 15) if array else 1
    return WorkloadJob(
        number,
        round(at, 2),
        float(round(min(180.0, max(5.0, chance.lognormvariate(3.4, 0.7))))),
        slots,
        None if slots == 1 else LOCAL if slots <= LARGEST else SPREAD,
        tasks=tasks,
        concurrency=chance.choice((None, 2, 4)) if array else None,
        priority=float(chance.choice((0, 0, 0, -100, 100))),
        after=number - 1 if number > 1 and chance.random() < 0.05 else None,
    )


def command_of(job: WorkloadJob) -> list[str]:
    """Its qsub on a qmaster that gives the same numbers, from 1 on."""
    words = ["-b", "y", "-N", f"j{job.number}"]
    words += [] if job.pe is None else ["-pe", job.pe, str(job.slots)]
    words += ["-t", f"1-{job.tasks}"] if job.tasks > 1 else []
    words += ["-tc", str(job.concurrency)] if job.concurrency else []
    words += ["-p", f"{job.priority:g}"] if job.priority else []
    words += ["-hold_jid", str(job.after)] if job.after else []
    return [*words, "sleep", f"{job.seconds:g}"]


@dataclass(frozen=True)
class Real:
    """One run on the real qmaster."""

    past: Past
    late_s: float
    """By how much the latest submission came too late."""
    passes: int
    cpu_s: float
    rss_mb: float
    store_mb: float
    qmaster_cpu_s: float
    seconds: float


def played(jobs: Sequence[WorkloadJob]) -> Real:
    """The jobs on a cell of their own, with the service, until all have ended and no worker is left."""
    with Cell.up(hosts=0, scheduler=SCHEDULER, configuration=dict(absent_hosts.CONFIGURATION)) as cell:
        settings = {**environment(cell), **SETTINGS, "PATH": _with_qhost(cell)}
        with (cell.home / "log").open("w"):
            pass
        running = cell.start(("sge-autoscaler", "run"), env=settings, output=cell.home / "log")
        try:
            time.sleep(3.0)
            if running.poll() is not None:
                raise RuntimeError("the service ended:\n" + (cell.home / "log").read_text())
            began, starts = time.time(), Starts(cell)
            with starts:
                late = _submit(cell, jobs, began)
                _until_all_is_gone(cell, running, len(jobs))
            until = time.time()
            service, qmaster = _usage(str(cell.home)), _usage("sge_qmaster", str(cell.directory))
        finally:
            running.terminate(60.0)
        past = Past(began - 1, until, list(starts.ends(jobs, began)), _lives(cell))
        numbers = re.findall(r"pass (\d+):", (cell.home / "log").read_text())
        size = sum(file.stat().st_size for file in (cell.home / "state").glob("*.sqlite*")) / 1e6
        return Real(past, late, int(numbers[-1]), *service, size, qmaster[0], until - began)


class Starts(threading.Thread):
    """Watches when each task starts: such a qmaster writes no times into accounting, as no execd reports any."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(daemon=True)
        self._cell, self._ended = cell, threading.Event()
        self.at: dict[tuple[int, int], float] = {}
        """By job and task; 0: no array."""

    def __enter__(self) -> Starts:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(1.5):
            with contextlib.suppress(AutoscalerError):  # a busy qmaster; the next look shows the same
                for found in _STARTED.finditer(self._cell.out("qstat", "-s", "r", "-u", "*")):
                    began = datetime.strptime(found[2], "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC).timestamp()
                    self.at.setdefault((int(found[1]), int(found[3] or 0)), began)

    def ends(self, jobs: Sequence[WorkloadJob], began: float) -> Iterator[JobEnd]:
        """Each task that was seen to run, as accounting would have it."""
        by_number = {job.number: job for job in jobs}
        for (number, task), at in self.at.items():
            job = by_number[number]
            yield JobEnd("main.q", "", task, began + job.submitted, at, at + job.seconds, 0, 0, job.slots, job=number)


_STARTED = re.compile(r"(?m)^ *(\d+) \S+ \S+ +\S+ +\S*r\S* +(\S+ \S+) +\S+ +\d+ *(\d*) *$")
"""Number, start and task of a running task in `qstat`."""


def _with_qhost(cell: Cell) -> str:
    folder = cell.home / "bin"
    folder.mkdir()
    real = cell.out("bash", "-c", "command -v qhost").strip()
    script = folder / "qhost"
    script.write_text(absent_hosts.qhost_script(Path(real), _kinds()))
    script.chmod(0o755)
    with cell.tree.hosts_file.open("a") as hosts:
        hosts.write(absent_hosts.hosts_lines(_kinds(), MACHINES))
    return f"{folder}:{cell.environment['PATH']}"


def _kinds() -> list[InstanceType]:
    types = {bucket.type for bucket in load_catalog().buckets() if bucket.type.family == "m5"}
    return sorted((kind for kind in types if kind.vcpus <= LARGEST), key=lambda kind: kind.vcpus)


def _submit(cell: Cell, jobs: Sequence[WorkloadJob], began: float) -> float:
    late = 0.0
    for job in jobs:
        time.sleep(max(0.0, began + job.submitted - time.time()))
        number = cell.submit(*command_of(job))
        assert number == str(job.number), f"job {job.number} got the number {number}"
        late = max(late, time.time() - began - job.submitted)
    return late


def _until_all_is_gone(cell: Cell, running: Running, jobs: int) -> None:
    deadline = time.monotonic() + LONGEST
    while cell.out("qstat", "-u", "*").strip() or any(life.ended_at is None for life in _lives(cell)):
        if time.monotonic() > deadline or running.poll() is not None:
            raise RuntimeError(f"{jobs} jobs did not end:\n" + (cell.home / "log").read_text()[-3000:])
        time.sleep(2.0)


def _lives(cell: Cell) -> Sequence[Any]:
    file = next((cell.home / "state").glob("*.sqlite"))
    store = Store.open(file)
    try:
        return store.history.lifetimes()
    finally:
        store.close()


def _usage(*named: str) -> tuple[float, float]:
    """CPU seconds and largest memory (MB) of the process whose command line or environment names all of these."""
    found = [(0.0, 0.0)]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if all(name.encode() in words for name in named):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                peak = re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())
                cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                found.append((cpu, int(peak[1]) / 1000 if peak else 0.0))
    return max(found)


def simulated(jobs: Sequence[WorkloadJob], past: Past) -> tuple[dict[str, Any], Simulation]:
    """The same jobs in the simulation, with the boot times that the run's store has."""
    runs: list[Simulation] = []
    environ = {name: value for name, value in SETTINGS.items() if "PROVIDER" not in name and "_FAKE_" not in name}
    conditions = Conditions(
        load_catalog().buckets(),
        CellConfiguration(schedule_interval=INTERVAL, flush=1.0),
        replace(past.delays(Delays(boot=BOOT, join=0.0, end=1.0)), failing=0.0),
        pace=Pace(polling_delay=POLLING, reaction=1.0),
    )
    policy = Invocation(environ).settings.policy(master="master")
    document = try_policy(Candidate("today", policy), Workload("fidelity", jobs), conditions, started=runs.append)
    return document, runs[0]


FIGURES = ("price", "worker_hours", "launches", "mean_wait_s", "median_wait_s", "makespan_s")


def figures_of(past: Past) -> dict[str, float]:
    happened = past.happened
    last = max(end.ended_at or 0.0 for end in past.ends)
    return {**happened, "makespan_s": last - min(end.submitted_at for end in past.ends)}


def by_type(past: Past) -> Counter[str]:
    return Counter(life.instance_type for life in past.lives)


def compared(jobs: Sequence[WorkloadJob], reals: Sequence[Real]) -> Iterator[Mapping[str, Any]]:
    """A row for each figure: both real runs, the simulation, and how far each pair is apart."""
    document, _ = simulated(jobs, reals[0].past)
    ours = {**backtest_of(reals[0].past, document)["simulated"], "makespan_s": document["makespan_s"]}
    figures = [figures_of(real.past) for real in reals]
    for name in FIGURES:
        values = [each[name] for each in figures]
        yield _row(name, values, ours[name])
    counts = [by_type(real.past) for real in reals]
    for kind in sorted({*document["launched"], *(kind for count in counts for kind in count)}):
        yield _row(f"launches of {kind}", [count[kind] for count in counts], document["launched"].get(kind, 0))


def _row(name: str, values: Sequence[float], ours: float) -> Mapping[str, Any]:
    mean = sum(values) / len(values)
    among = (max(values) - min(values)) / mean if mean else 0.0
    off = abs(ours - mean) / mean if mean else float(ours != 0)
    return {"figure": name, "real": list(values), "simulated": ours, "among_real": among, "off": off}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--minutes", type=float, default=6.0, help="in which they are submitted (default 6)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=2, help="real runs (default 2)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    jobs = jobs_of(given.jobs, given.minutes, given.seed)
    reals = [played(jobs) for _ in range(given.runs)]
    rows = list(compared(jobs, reals))
    costs = [{name: value for name, value in vars(real).items() if name != "past"} for real in reals]
    tasks = sum(job.tasks for job in jobs)
    for real in reals:
        if len(real.past.ends) != tasks:
            print(f"{tasks - len(real.past.ends)} of {tasks} tasks were not seen to run", file=sys.stderr)
    if given.json:
        print(json.dumps({"jobs": given.jobs, "seed": given.seed, "rows": rows, "runs": costs}))
        return 0
    print(f"{given.jobs} jobs, {tasks} tasks in {given.minutes:g} minutes, seed {given.seed}")
    print(f"{'':24} {'real runs':>24} {'simulated':>10} {'among real':>10} {'off':>7}")
    for row in rows:
        shown = " ".join(f"{value:,.2f}" for value in row["real"])
        print(f"{row['figure']:24} {shown:>24} {row['simulated']:10,.2f} {row['among_real']:10.1%} {row['off']:7.1%}")
    for cost in costs:
        print("  ".join(f"{name} {value:,.1f}" for name, value in cost.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
