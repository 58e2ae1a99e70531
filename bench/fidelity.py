"""How far `simulate` is from a real qmaster and scheduler: the same jobs, settings and boot times in both, real time.

The whole service rents machines that do not exist (`autoscaler.lab.absent_hosts`) from a private cell's qmaster with
SIMULATE_EXECDS. Real runs of one seed differ too, so several are made; the simulation is then compared with them by the
same code as `simulate --last`. Needs root and Debian's Grid Engine (`make setup`).

    python -m bench.fidelity [--jobs N] [--minutes M] [--seed S] [--runs 3] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pickle
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from autoscaler.commands.context import Invocation
from autoscaler.core.model.fleet import InstanceType
from autoscaler.lab import absent_hosts
from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.providers.catalog import load_catalog
from autoscaler.sge.accounting import JobEnd
from autoscaler.sge.events import find_qevent
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.cell import CellConfiguration, Weights
from autoscaler.simulation.cloud import Billing, Delays
from autoscaler.simulation.past import Past, backtest_of, durations_of, until_ordered
from autoscaler.simulation.results import Document
from autoscaler.simulation.run import PassDurations, Simulation
from autoscaler.simulation.workload import LOCAL, SPREAD, Workload, WorkloadJob
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store
from bench.idle import environment
from bench.pass_times import FILE_ENV

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
SCHEDULER = {
    "schedule_interval": f"0:0:{INTERVAL:g}",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "weight_priority": "0",
    "weight_urgency": "0.5",
    "weight_waiting_time": "0.278",
}
WEIGHTS = Weights(0.0, 0.5, 0.278)
"""As Debian's packages have them."""
LARGEST = 8
MACHINES = 2_000
"""Names that the cell's machines may have."""
TRIES, JITTER = 5, 0.05
"""The simulation is repeated with each submission up to so many seconds earlier or later: no clock of ours says better
when qmaster had the job, and a pass or a run of the scheduler just before it or just after it leads elsewhere.
"""
TIMES, LEAST = 1.5, 0.02
"""The bar: the simulation is off by at most so many times what real runs differ, or by this share."""
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
    words += ["-l", ",".join(f"{name}={text}" for name, text in job.hard)] if job.hard else []
    return [*words, "sleep", f"{job.seconds:g}"]


@dataclass(frozen=True)
class Ground:
    """What the machines of a real run are."""

    settings: Callable[[Cell], Mapping[str, str]]
    """Over SETTINGS, for this cell."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Of the cell (`qconf -mconf`)."""
    scheduler: Mapping[str, str] = field(default_factory=dict)
    """Over SCHEDULER (`qconf -msconf`)."""
    qsub: tuple[str, ...] = ()
    """Words of each submission."""
    happens: Sequence[tuple[float, Callable[[Cell], str]]] = ()
    """What is done to machines, by the second after the first submission; returns what it was."""


ABSENT = Ground(lambda cell: {"PATH": with_qhost(cell)}, absent_hosts.CONFIGURATION)
"""Machines that do not exist."""


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
    load: tuple[float, float] = (0.0, 0.0)
    """Of the machine, over a minute: when it began, and when it ended."""
    happened: tuple[str, ...] = ()
    """What was done to machines."""
    jobs: Sequence[WorkloadJob] = ()
    """Each with the second at which its qsub had ended."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By name: the service's log, Grid Engine's events, and the passes of `bench.pass_times`."""
    store: bytes = b""


def played(jobs: Sequence[WorkloadJob], ground: Ground = ABSENT) -> Real:
    """The jobs on a cell of their own, with the service, until all have ended and no worker is left."""
    load = os.getloadavg()[0]
    with Cell.up(
        hosts=0, scheduler={**SCHEDULER, **ground.scheduler}, configuration=dict(ground.configuration)
    ) as cell:
        settings = {**environment(cell), **SETTINGS, **_listening(cell), **ground.settings(cell)}
        for name in TEXTS:
            (cell.home / name).touch()
        events = cell.start((find_qevent(), "-ts"), output=cell.home / "events")
        running = cell.start(("sge-autoscaler", "run"), env=settings, output=cell.home / "log")
        try:
            time.sleep(3.0)
            if running.poll() is not None:
                raise RuntimeError("the service ended:\n" + (cell.home / "log").read_text())
            began = time.time()
            given, happened = _submit(cell, jobs, began, ground)
            _until_all_is_gone(cell, running, len(jobs))
            until = time.time()
            service, qmaster = (
                _usage("autoscaler.commands.main", str(cell.home)),
                _usage("sge_qmaster", str(cell.directory)),
            )
        finally:
            running.terminate(60.0)
            events.terminate(10.0)
        ends = list(ends_in((cell.home / "events").read_text(), given, began))
        past = Past(began - 1, until, ends, lives_of(cell), durations=durations_in(cell))
        numbers = re.findall(r"pass (\d+):", (cell.home / "log").read_text())
        size = sum(file.stat().st_size for file in (cell.home / "state").glob("*.sqlite*")) / 1e6
        loads = load, os.getloadavg()[0]
        late = max(after.submitted - job.submitted for after, job in zip(given, jobs, strict=True))
        return Real(
            past, late, int(numbers[-1]), *service, size, qmaster[0], until - began, loads, happened, given,
            {name: (cell.home / name).read_text() for name in TEXTS},
            next((cell.home / "state").glob("*.sqlite")).read_bytes(),
        )  # fmt: skip


TEXTS = ("log", "events", "passes")


def _listening(cell: Cell) -> dict[str, str]:
    """Settings by which the service writes how long each pass takes."""
    return {
        "CP_CAP_AUTOSCALE_LISTENERS": "bench.pass_times:PassTimes",
        "PYTHONPATH": str(Path(__file__).parent.parent),
        FILE_ENV: str(cell.home / "passes"),
    }


def ends_in(events: str, jobs: Sequence[WorkloadJob], began: float) -> Iterator[JobEnd]:
    """Each task that started and ended, as accounting would have it, from the events of `qevent -ts`; one whose machine
    was lost from its first start to its last end.
    """
    by_number = {job.number: job for job in jobs}
    started: dict[tuple[int, int], float] = {}
    ended: dict[tuple[int, int], float] = {}
    for kind, number, task, at in _EVENT.findall(events):
        key = (int(number), int(task))
        if kind == "START":
            started.setdefault(key, float(at))
        elif key in started:
            ended[key] = float(at)
    for key, at_end in ended.items():
        job = by_number[key[0]]
        submitted, of_array = began + job.submitted, key[1] if job.tasks > 1 else 0
        # Events have whole seconds: in that of its submission a task starts at once, else in the middle of it.
        start = submitted if started[key] <= submitted else started[key] + 0.5
        end = start + at_end - started[key]
        yield JobEnd("main.q", "", of_array, submitted, start, end, 0, 0, job.slots, job=job.number)


_EVENT = re.compile(r"(?m)^JOB_(START|FINISH) \((\d+)\.(\d+):ECL_TIME=(\d+)")
"""What happened, job, task, when: such a qmaster writes no times into accounting, as no execd reports any."""


def with_qhost(cell: Cell, machines: int = MACHINES) -> str:
    """The PATH of a service that rents machines that do not exist, so many of each type at most."""
    folder = cell.home / "bin"
    folder.mkdir()
    real = cell.out("bash", "-c", "command -v qhost").strip()
    script = folder / "qhost"
    script.write_text(absent_hosts.qhost_script(Path(real), _kinds()))
    script.chmod(0o755)
    with cell.tree.hosts_file.open("a") as hosts:
        hosts.write(absent_hosts.hosts_lines(_kinds(), machines))
    return f"{folder}:{cell.environment['PATH']}"


def _kinds() -> list[InstanceType]:
    types = {bucket.type for bucket in load_catalog().buckets() if bucket.type.family == "m5"}
    return sorted((kind for kind in types if kind.vcpus <= LARGEST), key=lambda kind: kind.vcpus)


def _submit(
    cell: Cell, jobs: Sequence[WorkloadJob], began: float, ground: Ground
) -> tuple[list[WorkloadJob], tuple[str, ...]]:
    """The jobs as they were submitted: a busy machine is late; and what was done to machines meanwhile."""
    given, happened, left = list[WorkloadJob](), list[str](), list(ground.happens)
    for job in jobs:
        while left and left[0][0] <= job.submitted:
            at, happen = left.pop(0)
            time.sleep(max(0.0, began + at - time.time()))
            happened.append(happen(cell))
        time.sleep(max(0.0, began + job.submitted - time.time()))
        number = cell.submit(*ground.qsub, *command_of(job))
        assert number == str(job.number), f"job {job.number} got the number {number}"
        given.append(replace(job, submitted=time.time() - began))
    return given, tuple(happened)


def _until_all_is_gone(cell: Cell, running: Running, jobs: int) -> None:
    deadline = time.monotonic() + LONGEST
    while cell.out("qstat", "-u", "*").strip() or any(life.ended_at is None for life in lives_of(cell)):
        if time.monotonic() > deadline or running.poll() is not None:
            raise RuntimeError(f"{jobs} jobs did not end:\n" + (cell.home / "log").read_text()[-3000:])
        time.sleep(2.0)


def lives_of(cell: Cell) -> Sequence[Lifetime]:
    with store_of(cell) as store:
        lives = store.history.lifetimes()
        return until_ordered(lives, store.journal.end_times([life.worker_id for life in lives]))


def durations_in(cell: Cell) -> PassDurations:
    with store_of(cell) as store:
        return durations_of(store.measures.load(), PassDurations(POLLING), store.journal.plans_of_one_kind(0.0))


@contextlib.contextmanager
def store_of(cell: Cell) -> Iterator[Store]:
    store = Store.open(next((cell.home / "state").glob("*.sqlite")))
    try:
        yield store
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
    """The same jobs in the simulation, under the conditions of one real run: the durations of its passes, and when in
    qmaster's seconds it began.
    """
    runs: list[Simulation] = []
    environ = {name: value for name, value in SETTINGS.items() if "PROVIDER" not in name and "_FAKE_" not in name}
    conditions = Conditions(
        load_catalog().buckets(),
        CellConfiguration(schedule_interval=INTERVAL, flush=1.0, loads=False, weights=WEIGHTS),
        Delays(boot=BOOT, join=0.0, end=1.0),
        durations=past.durations,
        names=absent_hosts.NAMES,
    )
    policy = Invocation(environ).settings.policy(master="master")
    late, phase = lateness(jobs, past), past.since % 1.0
    run = [replace(job, submitted=job.submitted + phase, seconds=job.seconds + late) for job in jobs]
    document = try_policy(Candidate("today", policy), Workload("fidelity", run), conditions, started=runs.append)
    return document, runs[0]


def lateness(jobs: Sequence[WorkloadJob], past: Past) -> float:
    """By how much tasks on hosts that do not exist run longer than they say: such a qmaster plays their transfer."""
    said = {job.number: job.seconds for job in jobs}
    return median((end.ended_at or 0.0) - (end.started_at or 0.0) - said[end.job] for end in past.ends)


FIGURES = ("price", "worker_hours", "launches", "mean_wait_s", "median_wait_s", "makespan_s")


def figures_of(past: Past) -> dict[str, float]:
    happened = past.happened(Billing())
    last = max(end.ended_at or 0.0 for end in past.ends)
    return {**happened, "makespan_s": last - min(end.submitted_at for end in past.ends)}


Changes = Counter[tuple[str, str, int]]
"""By what (launches or removals), instance type, and quarter of an hour."""
QUARTER = 900.0


def changes_of(past: Past) -> Changes:
    found: Changes = Counter()
    for life in past.lives:
        found["launches", life.instance_type, int((life.created_at - past.since) // QUARTER)] += 1
        if life.ended_at is not None:
            found["removals", life.instance_type, int((life.ended_at - past.since) // QUARTER)] += 1
    return found


def simulated_changes_of(run: Simulation) -> Changes:
    found: Changes = Counter()
    for at, kind, count in run.measures.launches_at:
        found["launches", kind, int(at // QUARTER)] += count
    for at, kind in run.measures.removals_at:
        found["removals", kind, int(at // QUARTER)] += 1
    return found


def compared(reals: Sequence[Real]) -> Iterator[Mapping[str, Any]]:
    """A row for each figure: the real runs, the mean of the simulations of each, how far two real runs are apart (the
    mean of all pairs), and both means.
    """
    ours: list[dict[str, float]] = []
    changes: list[Mapping[tuple[str, str, int], float]] = []
    for real in reals:
        tries = [simulated(shaken(real.jobs, number), real.past) for number in range(TRIES)]
        ours.append(mean_of([simulated_figures(real.past, document) for document, _ in tries]))
        changes.append(mean_of([simulated_changes_of(run) for _, run in tries]))
    figures = [figures_of(real.past) for real in reals]
    for name in FIGURES:
        yield _row(name, [each[name] for each in figures], [each[name] for each in ours])
    counts = [changes_of(real.past) for real in reals]
    for key in sorted({key for count in (*counts, *changes) for key in count}, key=lambda key: (key[2], key)):
        what, kind, quarter = key
        name = f"{what} of {kind}" + (f", quarter {quarter + 1}" if quarter else "")
        yield _row(name, [count[key] for count in counts], [change.get(key, 0.0) for change in changes])


def shaken(jobs: Sequence[WorkloadJob], number: int) -> list[WorkloadJob]:
    """The jobs with times of submission that could as well have been theirs; those of number 0 are as measured."""
    chance, most = random.Random(number), JITTER if number else 0.0
    moved = [replace(job, submitted=max(0.0, job.submitted + chance.uniform(-most, most))) for job in jobs]
    return sorted(moved, key=lambda job: (job.submitted, job.number))


def simulated_figures(past: Past, document: Document) -> dict[str, float]:
    return {**backtest_of(past, document, Billing())["simulated"], "makespan_s": document["makespan_s"]}


def mean_of(found: Sequence[Mapping[Any, float]]) -> dict[Any, float]:
    """The mean of each figure; what is missing is 0."""
    return {
        name: sum(each.get(name, 0.0) for each in found) / len(found)
        for name in {key for each in found for key in each}
    }


def _row(name: str, values: Sequence[float], ours: Sequence[float]) -> Mapping[str, Any]:
    mean, simulated = sum(values) / len(values), sum(ours) / len(ours)
    pairs = [abs(one - other) for one, other in itertools.combinations(values, 2)]
    among = sum(pairs) / len(pairs) / mean if mean and pairs else 0.0
    off = abs(simulated - mean) / mean if mean else float(simulated != 0)
    kept = off <= max(TIMES * among, LEAST)
    return {
        "figure": name,
        "real": list(values),
        "simulated": list(ours),
        "among_real": among,
        "off": off,
        "kept": kept,
    }


def _made(jobs: Sequence[WorkloadJob], runs: int, folder: Path | None) -> Iterator[Real]:
    for _ in range(runs):
        real = played(jobs)
        if folder is not None:
            keep(real, folder)
        yield real


def keep(real: Real, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{real.past.since:.0f}.run").write_bytes(pickle.dumps(real))


def kept(folder: Path) -> Iterator[Real]:
    for file in sorted(folder.glob("*.run")):
        yield pickle.loads(file.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--minutes", type=float, default=6.0, help="in which they are submitted (default 6)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3, help="real runs (default 3)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder in which each real run is kept, one file a run")
    parser.add_argument("--kept", type=Path, help="compare the runs of such a folder; make none")
    given = parser.parse_args()
    jobs = jobs_of(given.jobs, given.minutes, given.seed)
    reals = list(kept(given.kept) if given.kept else _made(jobs, given.runs, given.keep))
    rows = list(compared(reals))
    costs = [{name: value for name, value in vars(real).items() if isinstance(value, float | int)} for real in reals]
    tasks = sum(job.tasks for job in jobs)
    for real in reals:
        if len(real.past.ends) != tasks:
            print(f"{tasks - len(real.past.ends)} of {tasks} tasks were not seen to run", file=sys.stderr)
    if given.json:
        print(json.dumps({"jobs": given.jobs, "seed": given.seed, "rows": rows, "runs": costs}))
        return 0
    print(f"{given.jobs} jobs, {tasks} tasks in {given.minutes:g} minutes, seed {given.seed}")
    print(f"{'':24} {'real runs':>24} {'simulated':>24} {'among real':>10} {'off':>7}  bar")
    for row in rows:
        shown, ours = (" ".join(f"{value:,.2f}" for value in row[name]) for name in ("real", "simulated"))
        within = "kept" if row["kept"] else "PASSED OVER"
        print(f"{row['figure']:24} {shown:>24} {ours:>24} {row['among_real']:10.1%} {row['off']:7.1%}  {within}")
    for cost in costs:
        print("  ".join(f"{name} {value:,.1f}" for name, value in cost.items()))
    for real in reals:
        print("  ".join(("load {:.1f} to {:.1f}".format(*real.load), *real.happened)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
