"""How far `simulate` is from a private cell with real workers: the same jobs with the same failed boot and the same
lost worker in both, in real time, for several seeds.

Machines are hosts of namespaces with an execd each (provider local). Needs root and Grid Engine (`make setup`).

    python -m bench.real_workers [--jobs 200] [--minutes 4] [--seeds 1,2,3,4,5] [--runs 1]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autoscaler.commands.context import Invocation
from autoscaler.core.model.fleet import Bucket
from autoscaler.lab.cell import Cell
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.local import failures
from autoscaler.providers.local.machines import Machine as Rented
from autoscaler.providers.local.machines import Records
from autoscaler.simulation.candidates import allowed_offers, least_price_a_core
from autoscaler.simulation.candidates import simulated as simulated_policy
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Billing, Cloud, Delays, Machine
from autoscaler.simulation.hosts import SimulatedHost
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.past import Past
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.results import document_of
from autoscaler.simulation.run import EPOCH, Kind, Simulation
from autoscaler.simulation.scheduler import HostOrder
from autoscaler.simulation.workload import Workload, WorkloadJob
from bench.fidelity import (
    BOOT,
    FIGURES,
    INTERVAL,
    SETTINGS,
    TRIES,
    WEIGHTS,
    Ground,
    Real,
    changes_of,
    figures_of,
    jobs_of,
    keep,
    kept,
    lateness,
    mean_of,
    played,
    shaken,
    simulated_changes_of,
    simulated_figures,
)

NAMES = "{type}-{number}"
BOOT_TIMEOUT = 60.0
"""Seconds after which the service gives a machine up that has not joined."""
LOST_AT = 0.6
"""When a worker is lost, as a share of the time in which jobs are submitted."""
FAILS = 0.7
"""Which machine fails to boot, as a share of all that the simulation launches: there is no second one then."""
MAX_UNHEARD = 300.0
"""As Grid Engine ships it, and as the simulation has it."""


def ground_of(failing: int, lost_at: float) -> Ground:
    own = {
        "CP_CAP_AUTOSCALE_PROVIDER": "local",
        "CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY": f"{BOOT:g}",
        "CP_CAP_AUTOSCALE_LOCAL_FAILING_BOOTS": str(failing),
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": f"{BOOT_TIMEOUT:g}",
    }
    return Ground(
        lambda _: own,
        {"max_unheard": "00:05:00", "load_report_time": "00:00:05"},
        qsub=("-r", "y"),
        happens=[(lost_at, lose)],
    )


def lose(cell: Cell) -> str:
    """The machine dies on which the first job of one slot runs that is still running."""
    running = re.findall(r"(?m)^\s*(\d+) .*main\.q@([\w-]+)\s+1\s", cell.out("qstat", "-u", "*", "-s", "r"))
    if not running:
        return "no worker was lost: no job of one slot ran"
    job, name = min(running, key=lambda each: int(each[0]))
    machine = next(each for each in rented(cell) if each.ended_at is None and each.name == name)
    failures.kill(machine, cell.tree)
    return f"lost machine {machine.number}, a {machine.type.name}, with job {job}"


def rented(cell: Cell) -> Sequence[Rented]:
    return Records(cell.home / "machines").all()


class Faulty(Cloud):
    """A simulated cloud of which one machine never joins."""

    failing = 0
    failed = 0

    def _make(self, bucket: Bucket, node_array: str, now: float) -> Machine:
        machine = super()._make(bucket, node_array, now)
        if self.failing and self._made % self.failing == 0:
            machine.boots = None
            self.failed += 1
        return machine


class SharedLoad(HostOrder):
    """Hosts that are namespaces of one machine report its load, all the same. Grid Engine adds to it for each slot that
    it has given to a job.
    """

    def key(self, host: SimulatedHost) -> tuple[float, ...]:
        return (host.used, host.order)


class Losing(Simulation):
    """A simulation of hosts that share a load, in which the machine dies at a moment on which the first job of one slot
    runs that is still running.
    """

    lost_at = 0.0
    lost = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.engine._order = SharedLoad(fixed=False)  # noqa: SLF001 - no cell but this has such hosts

    def run(self, until: float = float("inf")) -> Measures:
        self._at(self.lost_at, Kind.ACT, self._lose)
        return super().run(until)

    def _lose(self) -> None:
        hosts = {machine.worker.name: machine for machine in self.cloud.machines.values() if machine.ending is None}
        alone = (run for host in self.engine.hosts.values() for run in host.runs if run.job.slots == 1)
        first = min(alone, key=lambda run: (run.job.number, run.task), default=None)
        if first is not None:
            machine = hosts[first.shares[0][0].name]
            self.lost = f"lost a {machine.worker.type.name}, with job {first.job.number}"
            self._taken(machine)


def simulated(
    jobs: Sequence[WorkloadJob], past: Past | None, failing: int, lost_at: float, seed: int
) -> tuple[dict[str, Any], Losing]:
    """The jobs in the simulation, with the boots and the durations of a real run; without one, with what is assumed."""
    environ = {name: value for name, value in SETTINGS.items() if "PROVIDER" not in name and "_FAKE_" not in name}
    environ["CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT"] = f"{BOOT_TIMEOUT:g}"
    policy = simulated_policy(Invocation(environ).settings.policy(master="master"))
    offers = allowed_offers(policy, load_catalog().buckets())
    delays = Delays(boot=BOOT, join=1.0, end=1.0)
    if past is not None:
        delays = replace(past.delays(delays), failing=0.0)
        late, phase = lateness(jobs, past), past.since % 1.0
        jobs = [replace(job, submitted=job.submitted + phase, seconds=job.seconds + late) for job in jobs]
        lost_at += phase
    cloud = Faulty(offers, delays, Billing(), EPOCH, random.Random(seed), names=NAMES)
    cloud.failing = failing
    cell = CellConfiguration(schedule_interval=INTERVAL, flush=1.0, weights=WEIGHTS)
    run = Losing(Workload("fidelity", jobs), cell, cloud, PlanDecider(policy))
    run.lost_at = lost_at
    if past is not None:
        run.durations = past.durations
    run.run()
    return document_of("today", run, least_price_a_core(offers), policy.currency), run


def rows_of(real: Real, failing: int, lost_at: float, seed: int) -> Mapping[str, Any]:
    """Each figure of one seed: real and simulated."""
    tries = [simulated(shaken(real.jobs, number), real.past, failing, lost_at, seed) for number in range(TRIES)]
    ours = mean_of([simulated_figures(real.past, document) for document, _ in tries])
    found = {name: (value, ours[name]) for name, value in figures_of(real.past).items()}
    theirs, changes = changes_of(real.past), mean_of([simulated_changes_of(run) for _, run in tries])
    for key in sorted({*theirs, *changes}, key=lambda key: (key[2], key)):
        what, kind, quarter = key
        found[f"{what} of {kind}" + (f", quarter {quarter + 1}" if quarter else "")] = (
            theirs[key],
            changes.get(key, 0.0),
        )
    return found | {"happened": [*real.happened, tries[0][1].lost], "durations": asdict(real.past.durations)}


def plan_of(jobs: Sequence[WorkloadJob], minutes: float, seed: int) -> tuple[int, float]:
    """Which machine fails to boot, and when one is lost."""
    lost_at = round(60.0 * minutes * LOST_AT, 1)
    document, _ = simulated(jobs, None, 0, lost_at, seed)
    return max(2, round(FAILS * document["launches"])), lost_at


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=4.0, help="in which they are submitted (default 4)")
    parser.add_argument("--seeds", default="1,2,3,4,5", help="default 1,2,3,4,5")
    parser.add_argument("--runs", type=int, default=1, help="real runs of each seed (default 1)")
    parser.add_argument("--keep", type=Path, help="a folder in which each real run is kept")
    parser.add_argument("--kept", action="store_true", help="compare the runs of that folder; make none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for seed in map(int, given.seeds.split(",")):
        jobs = jobs_of(given.jobs, given.minutes, seed)
        failing, lost_at = plan_of(jobs, given.minutes, seed)
        folder = None if given.keep is None else given.keep / f"seed-{seed}"
        reals = kept(folder) if given.kept and folder else _made(jobs, failing, lost_at, given.runs, folder)
        for real in reals:
            found[seed].append(rows_of(real, failing, lost_at, seed))
            if not given.json:
                _show(seed, found[seed][-1], real)
    if given.json:
        print(json.dumps(found))
    else:
        _show_all([rows for runs in found.values() for rows in runs])
    return 0


def _show_all(found: Sequence[Mapping[str, Any]]) -> None:
    """Of all runs together: how far the simulation is off in the mean, each run by itself and all their sums."""
    print(f"{len(found)} real runs{'real':>31} {'simulated':>10} {'off':>7} {'each':>7}")
    for name in FIGURES:
        pairs = [rows[name] for rows in found]
        theirs, ours = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
        each = [_off(*pair) for pair in pairs]
        print(f"  {name:32} {theirs:10,.2f} {ours:10,.2f} {_off(theirs, ours):7.1%} {sum(each) / len(each):7.1%}")


def _off(theirs: float, ours: float) -> float:
    return abs(ours - theirs) / theirs if theirs else float(ours != 0)


def _made(jobs: Sequence[WorkloadJob], failing: int, lost_at: float, runs: int, folder: Path | None) -> Iterator[Real]:
    for _ in range(runs):
        real = played(jobs, ground_of(failing, lost_at))
        if folder is not None:
            keep(real, folder)
        yield real


def _show(seed: int, rows: Mapping[str, Any], real: Real) -> None:
    print(f"seed {seed}: load {real.load[0]:.1f} to {real.load[1]:.1f}; {'; '.join(rows['happened'])}")
    for name, values in rows.items():
        if name in ("happened", "durations"):
            continue
        theirs, ours = values
        print(f"  {name:32} {theirs:10,.2f} {ours:10,.2f} {_off(theirs, ours):7.1%}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
