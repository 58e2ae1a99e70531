"""CPU time of one `plan()` in this process, by workers and job categories: of a first pass, of one before which a few
jobs changed, and of one before which nothing did.

A loop of plain Python that always does the same is timed beside it in the same run, and each time is shown as a
multiple of it too: so runs on different or busy machines compare. How many functions one more such pass calls depends
on no machine. docs/decisions/0071, 0126, 0132 and 0151 have figures.

    python -m bench.plans [--json] [--runs N]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    HostJob,
    JobCategory,
    JobRequest,
    Queue,
    QueueInstance,
)
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.core.policy import CircuitBreaker, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Plan, Snapshot

NOW = 1_800_000_000.0
GIB = 1024**3
SIZES = ((10, 20), (100, 20), (1_000, 20), (10, 2_000), (100, 2_000), (1_000, 2_000))
"""Workers and job categories."""
TYPES = tuple(InstanceType(f"m5.{cores}", "m5", cores, cores * 4 * GIB) for cores in (2, 4, 8, 16, 32))
COMPLEXES = {
    name: Complex(name, name, kind, relop, "YES", Consumable.NO, default)
    for name, kind, relop, default in (
        ("arch", "STRING", "==", "NONE"),
        ("num_proc", "INT", "==", "0"),
        ("mem_total", "MEMORY", "<=", "0"),
        ("mem_free", "MEMORY", "<=", "0"),
        ("h_rt", "TIME", "<=", "0:0:0"),
    )
}
FEW = 5
"""Jobs that change between two passes."""
PASS_S = 15.0


def snapshot(workers: int, categories: int) -> Snapshot:
    """A hybrid array. Of four workers two are full, one is half empty, one empty; of ten categories one asks for what
    some worker here has.
    """
    machines = [_machine(number) for number in range(workers)]
    hosts = tuple(_host(number, machine) for number, machine in enumerate(machines))
    array = NodeArrayPolicy(
        name="execute",
        queue="main.q",
        host_group="@allhosts",
        instance_type="m5.2",
        hybrid=True,
        limits=Limits(max_workers=workers + 1_000),
        scale_up_batch=10,
        idle_timeout=600.0,
    )
    return Snapshot(
        cluster=Cluster(
            hosts=hosts,
            job_categories=tuple(_category(number) for number in range(categories)),
            queues={"main.q": Queue("main.q", ("@allhosts",), 1)},
            pes={},
            complexes=COMPLEXES,
            host_groups={"@allhosts": tuple(host.name for host in hosts)},
            execution_hosts=frozenset(host.name for host in hosts),
        ),
        fleet=Fleet(
            workers=tuple(machines),
            buckets=tuple(Bucket(BucketKey(each.name), each, each.vcpus * 0.05) for each in TYPES),
        ),
        overrides=Overrides(),
        memory=Memory(passes=10, workers={machine.id: _note(machine) for machine in machines}),
        policy=Policy(
            queues=(QueuePolicy("main.q", "execute"),),
            node_arrays=(array,),
            master="master",
            circuit_breaker=CircuitBreaker(max_launches=None, max_removals=None),
        ),
        now=NOW,
    )


def _machine(number: int) -> Worker:
    kind = TYPES[number % 3]
    return Worker(
        f"i-{number:05}",
        kind,
        "execute",
        MachineState.RUNNING,
        NOW - 9000,
        f"w{number:05}",
        price_per_hour=kind.vcpus * 0.05,
    )


def _note(machine: Worker) -> WorkerNote:
    return WorkerNote(
        NOW - 9000,
        joined_at=NOW - 8900,
        opened=True,
        host=machine.name,
        bucket=machine.bucket,
        vcpus=machine.type.vcpus,
        price_per_hour=machine.price_per_hour,
    )


def _host(number: int, machine: Worker, *, shift: int = 0) -> ExecutionHost:
    slots = machine.type.vcpus
    used = (slots, slots // 2, slots, 0)[number % 4]
    jobs = tuple(HostJob(900_000 + shift + number * 40 + n, "", "r", 1, f"user{n % 7}", NOW - 600) for n in range(used))
    name = machine.name or ""
    return ExecutionHost(
        name,
        (QueueInstance("main.q", name, slots, used, 0, "", jobs),),
        load={"arch": "lx-amd64", "num_proc": str(slots), "mem_total": f"{slots * 4}.000G"},
        consumables={},
        fixed={},
    )


def _category(number: int, *, first: int = 0) -> JobCategory:
    """Each asks for another amount of memory: every tenth for what some worker here has, the others for more."""
    jobs = tuple(range(1_000 + first + number * 10, 1_000 + first + number * 10 + 3))
    memory = 8_000 + number if number % 10 == 0 else 40_000 + number
    ask = JobRequest("qw", hard=(("mem_total", f"{memory}M"),), owner=f"user{number % 7}")
    return JobCategory(ask, jobs, ("",) * 3, tuple(NOW - 300 - n for n in range(3)), 3)


def nothing_changed(before: Snapshot, made: Plan) -> Snapshot:
    """The same observation once more, a pass later."""
    return replace(before, memory=made.memory, now=before.now + PASS_S)


def few_changed(before: Snapshot, made: Plan) -> Snapshot:
    """A pass later a few jobs ended, others started, and a few more wait."""
    cluster, turn = before.cluster, int(before.now) % 1_000
    hosts, waiting = list(cluster.hosts), list(cluster.job_categories)
    for n in range(FEW):
        at = (turn + n * 4) % len(hosts)
        hosts[at] = _host(at, before.fleet.workers[at], shift=int(before.now - NOW) * 100)
        which = (turn + n * 7) % len(waiting)
        waiting[which] = replace(_category(which, first=int(before.now - NOW) * 100), ask=waiting[which].ask)
    changed = replace(cluster, hosts=tuple(hosts), job_categories=tuple(waiting))
    return replace(before, cluster=changed, memory=made.memory, now=before.now + PASS_S)


def reference() -> float:
    """Seconds of a fixed loop of plain Python: objects made, compared, put into a dict and sorted."""
    began = time.process_time()
    total = 0
    for turn in range(20):
        rows = [(str(n), n * 7919 % 1_009, float(n)) for n in range(5_000)]
        known = {name: (number, value) for name, number, value in rows}
        total += sum(number for number, _ in known.values()) + len(sorted(rows, key=lambda row: row[1])) + turn
    assert total
    return time.process_time() - began


def measured(workers: int, categories: int, runs: int) -> dict[str, float]:
    """CPU seconds of the fastest of some passes of each kind."""
    at_first = snapshot(workers, categories)
    began = time.process_time()
    made = plan(at_first)
    found = {"first": time.process_time() - began}
    made = plan(seen := nothing_changed(at_first, made))  # what was launched or disabled in the first pass is done
    ways: dict[str, Callable[[Snapshot, Plan], Snapshot]] = {"few": few_changed, "nothing": nothing_changed}
    for name, change in ways.items():
        times = []
        for _ in range(runs):
            seen = change(seen, made)
            began = time.process_time()
            made = plan(seen)
            times.append(time.process_time() - began)
        found[name] = min(times)
        seen = change(seen, made)
        profile = cProfile.Profile()
        made = profile.runcall(plan, seen)
        found[f"{name}_calls"] = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return found


def lines(runs: int) -> Iterator[dict[str, float]]:
    for workers, categories in SIZES:
        unit = min(reference() for _ in range(5))
        yield {"workers": workers, "categories": categories, "reference": unit, **measured(workers, categories, runs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--runs", type=int, default=7, help="passes of each kind; the fastest counts (default 7)")
    given = parser.parse_args()
    if not given.json:
        print(
            "CPU of one plan() in ms, and as a multiple of the reference loop of the same run; functions that it calls"
        )
        print(
            "workers  categories   reference      first pass     few jobs changed   nothing changed  calls: few nothing"
        )
    for line in lines(given.runs):
        if given.json:
            print(json.dumps(line), flush=True)
            continue
        unit = line["reference"]
        cells = "   ".join(
            f"{line[name] * 1000:8.1f} {line[name] / unit:6.2f}×" for name in ("first", "few", "nothing")
        )
        calls = f"{line['few_calls']:12,} {line['nothing_calls']:8,}"
        print(f"{line['workers']:7}  {line['categories']:10}  {unit * 1000:7.1f}     {cells} {calls}", flush=True)


if __name__ == "__main__":
    main()
