"""Worker-hours by `PACK` on a real qmaster and scheduler: the same jobs in each order of hosts, in real time.

The whole service rents machines that do not exist (`bench.fidelity`); hours and makespan are those of its store and of
qmaster's events. An execd reports load, so that Grid Engine starts jobs on the least loaded host; hosts that do not
exist report none. For `off` the scheduler therefore sorts by `load_formula -slots`, the most free slots first. Their
accounting has no times; for `predicted` it begins with jobs of another seed that ran. Needs root and Debian's Grid
Engine (`make setup`).

    python -m bench.packing [--jobs N] [--minutes M] [--seeds 1,2] [--orders off,fixed,predicted] [--simulated] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from autoscaler.commands.context import Invocation
from autoscaler.core.policy import PACK_FIXED, PACK_OFF, PACK_PREDICTED
from autoscaler.lab import absent_hosts
from autoscaler.lab.cell import Cell
from autoscaler.providers.catalog import load_catalog
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Delays
from autoscaler.simulation.run import EPOCH
from autoscaler.simulation.workload import LOCAL, Workload, WorkloadJob
from bench import fidelity

ORDERS = (PACK_OFF, PACK_FIXED, PACK_PREDICTED)
SETTINGS = {
    **fidelity.SETTINGS,
    "CP_CAP_AUTOSCALE_HYBRID": "false",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.2xlarge",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "15",
}
KINDS = ((60, 20.0, 6), (300, 90.0, 3), (900, 300.0, 1))
"""What jobs request (`h_rt`, seconds), the median of their run times, and how many are so."""
SLOTS = ((1, 12), (2, 5), (4, 3))
SPREAD = 0.3
"""Of run times of one kind, lognormal."""
WAVE = 150.0
"""Seconds from one rush of jobs to the next one."""
EARLIER = 400
"""Jobs that ran before."""
OWNER = "root"


def jobs_of(count: int, minutes: float, seed: int) -> list[WorkloadJob]:
    """Short, longer and long jobs that come in waves."""
    chance = random.Random(seed)
    times = sorted(_arrival(chance, 60.0 * minutes) for _ in range(count))
    return [_job(number, at, chance) for number, at in enumerate(times, start=1)]


def _arrival(chance: random.Random, seconds: float) -> float:
    while True:
        at = chance.uniform(0.0, seconds)
        if chance.random() < 0.5 - 0.5 * math.cos(at / WAVE * 2.0 * math.pi):
            return at


def _job(number: int, at: float, chance: random.Random) -> WorkloadJob:
    kinds, sizes = [(limit, run) for limit, run, _ in KINDS], [slots for slots, _ in SLOTS]
    limit, run = chance.choices(kinds, [weight for *_, weight in KINDS])[0]
    slots = chance.choices(sizes, [weight for _, weight in SLOTS])[0]
    return WorkloadJob(
        number,
        round(at, 2),
        float(round(min(chance.lognormvariate(math.log(run), SPREAD), limit))),
        slots,
        None if slots == 1 else LOCAL,
        (("h_rt", f"{limit}"),),
        owner=OWNER,
        requested=float(limit),
    )


def earlier_jobs(seed: int) -> tuple[WorkloadJob, ...]:
    """Of another seed, all of which have ended."""
    jobs = jobs_of(EARLIER, 60.0, 1_000 + seed)
    return tuple(replace(job, number=-job.number, submitted=job.submitted - 7_200.0) for job in jobs)


def accounting_of(jobs: Sequence[WorkloadJob], now: float) -> str:
    """Lines of accounting(5)."""
    return "".join(
        _line(job, int(now + job.submitted)) for job in sorted(jobs, key=lambda job: job.submitted + job.seconds)
    )


def _line(job: WorkloadJob, begun: int) -> str:
    zeros = ":".join(["0"] * 18)
    asked = ",".join(f"{name}={text}" for name, text in job.hard)
    category = f"-l {asked}" + (f" -pe {job.pe} {job.slots}" if job.pe else "")
    pe = job.pe or "NONE"
    return (
        f"main.q:{absent_hosts.PROVIDER.partition(':')[0]}:{OWNER}:{OWNER}:earlier:{1_000_000 - job.number}:sge:0:"
        f"{begun}:{begun}:{begun + int(job.seconds)}:0:0:{zeros}:NONE:defaultdepartment:{pe}:{job.slots}:0:0.0:0.0:0.0:"
        f"{category}:0.0:NONE:0.0:0:0\n"
    )


@dataclass(frozen=True, slots=True)
class Hours:
    """Of one run."""

    workers: float
    makespan: float
    mean_wait: float
    launches: float


def real(jobs: Sequence[WorkloadJob], order: str, seed: int) -> Hours:
    run = fidelity.played(jobs, _ground(order, seed))
    if len(run.past.ends) != len(jobs):
        print(f"{len(jobs) - len(run.past.ends)} jobs were not seen to run", file=sys.stderr)
    figures = fidelity.figures_of(run.past)
    return Hours(figures["worker_hours"], figures["makespan_s"], figures["mean_wait_s"], figures["launches"])


def _ground(order: str, seed: int) -> fidelity.Ground:
    sorting = {"load_formula": "-slots"} if order == PACK_OFF else {"queue_sort_method": "seqno"}

    def settings(cell: Cell) -> Mapping[str, str]:
        with (cell.root / "default" / "common" / "accounting").open("a", encoding="utf-8") as file:
            file.write(accounting_of(earlier_jobs(seed), time.time()))
        return {**settings_of(order), **fidelity.ABSENT.settings(cell)}

    return replace(fidelity.ABSENT, settings=settings, scheduler=sorting)


def settings_of(order: str) -> Mapping[str, str]:
    return {**SETTINGS, "CP_CAP_AUTOSCALE_PACK": order}


def simulated(jobs: Sequence[WorkloadJob], order: str, seed: int) -> Hours:
    """The same jobs and settings in the simulation."""
    environ = {
        name: value for name, value in settings_of(order).items() if "PROVIDER" not in name and "_FAKE_" not in name
    }
    conditions = Conditions(
        load_catalog().buckets(),
        CellConfiguration(schedule_interval=fidelity.INTERVAL, flush=1.0, weights=fidelity.WEIGHTS),
        Delays(boot=fidelity.BOOT, join=0.0, end=1.0),
        names=absent_hosts.NAMES,
    )
    policy = Invocation(environ).settings.policy(master="master")
    workload = Workload("packing", list(jobs), started_at=EPOCH, earlier=earlier_jobs(seed))
    document = try_policy(Candidate(order, policy), workload, conditions)
    mean = document["wait_s"]["mean"]
    return Hours(document["worker_hours"], document["makespan_s"], mean, document["launches"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=250)
    parser.add_argument("--minutes", type=float, default=6.0, help="in which they are submitted (default 6)")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--simulated", action="store_true", help="in the simulation alone")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for seed in map(int, given.seeds.split(",")):
        jobs = jobs_of(given.jobs, given.minutes, seed)
        for order in given.orders.split(","):
            played = simulated(jobs, order, seed) if given.simulated else real(jobs, order, seed)
            rows.append({"seed": seed, "order": order, **asdict(played)})
            if not given.json:
                print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if given.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
