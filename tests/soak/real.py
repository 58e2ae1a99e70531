"""A real cell with an autoscaler that everything happens to, and what its jobs themselves say of where they ran.

A job writes a line every moment while its process lives, and `end` when its work is done. So its trace tells whether
two of its processes ever lived at once, and whether one was cut short: the autoscaler's word is not asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from autoscaler.errors import AutoscalerError
from autoscaler.process import Running
from providers.local import fates
from providers.local.machines import Machine, Records
from sge.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import journal, machines

Thing = TypeVar("Thing")
MAX_WORKERS = 3
SETTINGS = {
    "CP_CAP_AUTOSCALE_WORKERS": str(MAX_WORKERS),
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "2",
    "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT": "12",
    "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY": "15",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "3",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "20",
    "CP_CAP_AUTOSCALE_DEADLOCK": "kill",
}
_JOB = """\
#!/bin/sh
trace={traces}/$JOB_ID.$SGE_TASK_ID.$(hostname).$$
for step in $(seq $1); do
    date +%s.%N >>$trace
    sleep 0.4
done
echo end >>$trace
"""
REPORTS_LATE = 3.0
"""Seconds between an event and a look at what a person's hand did to a host."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process of a job left. Times as Unix seconds."""

    job: str
    task: str
    host: str
    began: float
    last: float
    ended: bool


@dataclass
class Ground:
    """`chance` decides everything that happens."""

    cell: Cell
    chance: random.Random
    running: Running | None = None
    jobs: dict[str, bool | None] = field(default_factory=dict)
    """`-r` of every job that was submitted."""
    deleted: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)
    """Jobs that nothing allowed could run."""
    struck: set[str] = field(default_factory=set)
    """Names of machines that something was done to besides giving them work: what ran there may be cut short."""
    by_hand: dict[str, float] = field(default_factory=dict)
    """Hosts that a person disabled: since when."""
    met: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scaling = Autoscaling(self.cell, SETTINGS)
        self.traces = self.cell.output / "traces"
        self.traces.mkdir()
        self.traces.chmod(0o777)
        self.script = self.cell.home / "soaked"
        self.script.write_text(_JOB.format(traces=self.traces))
        self.script.chmod(0o755)
        self._frozen: list[Machine] = []

    # -- what is there -----------------------------------------------------------------------------------------------

    @property
    def records(self) -> Records:
        return Records(Path(self.scaling.environment["CP_CAP_AUTOSCALE_LOCAL_STATE"]))

    def living(self) -> list[Machine]:
        there = self.cell.tree.hosts()
        return [machine for machine in machines(self.scaling) if machine.ended_at is None and machine.name in there]

    def there(self) -> set[str]:
        """Jobs that Grid Engine knows of now."""
        lines = self.cell.out("qstat", "-u", "*").splitlines()[2:]
        return {line.split()[0] for line in lines if line.strip()}

    def seen(self) -> list[Trace]:
        found: list[Trace] = []
        for file in sorted(self.traces.iterdir()):
            job, task, host, _ = file.name.split(".")
            lines = file.read_text().split()
            times = [float(line) for line in lines if line != "end"]
            if times:
                found.append(Trace(job, task, host, times[0], times[-1], "end" in lines))
        return found

    # -- the autoscaler ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        argv = ("sh", "-c", f"exec sge-autoscaler run >>{self.scaling.log} 2>&1")
        self.running = self.cell.start(argv, env=self.scaling.environment, output=self.cell.home / "soak-output")

    def stop(self) -> None:
        if self.running is not None:
            self.running.terminate(10.0)
        self.running = None

    def kill(self) -> None:
        assert self.running is not None
        self.running.signal(signal.SIGKILL)
        self.running.wait(10.0)
        self.start()

    # -- events ------------------------------------------------------------------------------------------------------

    def happen(self) -> str:
        """One of all that can happen; returns what did."""
        events: list[tuple[int, Callable[[], bool]]] = [
            (30, self.single), (10, self.array), (10, self.parallel), (4, self.hopeless), (4, self.held),
            (6, self.delete), (6, self.suspend), (5, self.kill_autoscaler), (3, self.restart_qmaster),
            (4, self.kill_execd), (4, self.kill_machine), (4, self.freeze), (4, self.notice), (2, self.release),
            (4, self.disable), (4, self.enable),
        ]  # fmt: skip
        (event,) = self.chance.choices([event for _, event in events], [weight for weight, _ in events])
        name = event.__name__
        if event():
            self.met[name] += 1
        return name

    def _submit(self, *options: str, steps: int | None = None) -> bool:
        again = self.chance.choice((None, True, False))
        rerun = () if again is None else ("-r", "y" if again else "n")
        long = str(steps if steps is not None else self.chance.choice((2, 10, 30)))
        job = self.cell.submit("-b", "y", "-w", "n", "-j", "y", *rerun, *options, str(self.script), long)
        self.jobs[job] = again
        return True

    def single(self) -> bool:
        return len(self.there()) < 12 and self._submit()

    def array(self) -> bool:
        return len(self.there()) < 12 and self._submit("-t", f"1-{self.chance.randint(2, 5)}")

    def parallel(self) -> bool:
        return len(self.there()) < 12 and self._submit("-pe", *self.chance.choice((("local", "2"), ("mpi", "4"))))

    def hopeless(self) -> bool:
        self._submit("-pe", "local", "100")
        self.never.add(list(self.jobs)[-1])
        return True

    def held(self) -> bool:
        return self._submit("-h")

    def delete(self) -> bool:
        job = self._one(sorted(self.there()))
        if job is not None:
            self.deleted.add(job)
            self._tell("qdel", job)
        return job is not None

    def suspend(self) -> bool:
        job = self._one(sorted(self.there()))
        if job is not None:
            self._tell("qmod", self.chance.choice(("-sj", "-usj", "-usj")), job)
        return job is not None

    def kill_autoscaler(self) -> bool:
        self.kill()
        return True

    def restart_qmaster(self) -> bool:
        self.cell.stop_qmaster()
        time.sleep(self.chance.choice((0.0, 1.0, 3.0)))
        self.cell.start_qmaster()
        return True

    def _strike(self) -> Machine | None:
        machine = self._one(self.living())
        if machine is not None:
            self.struck.add(machine.name)
        return machine

    def kill_execd(self) -> bool:
        machine = self._strike()
        if machine is not None:
            self.cell.host_runner(machine.name)(("pkill", "-KILL", "sge_execd"), timeout=10.0)
        return machine is not None

    def kill_machine(self) -> bool:
        machine = self._strike()
        if machine is not None:
            fates.kill(machine, self.cell.tree)
        return machine is not None

    def freeze(self) -> bool:
        """One, or all that are frozen go on."""
        if self._frozen and self.chance.random() < 0.5:
            self.thaw()
            return True
        machine = self._strike()
        if machine is not None:
            fates.freeze(machine, self.cell.tree)
            self._frozen.append(machine)
        return machine is not None

    def thaw(self) -> None:
        for machine in self._frozen:
            fates.freeze(machine, self.cell.tree, thaw=True)
        self._frozen.clear()

    def notice(self) -> bool:
        machine = self._strike()
        if machine is not None:
            at = time.time() + self.chance.choice((3.0, 45.0))
            fates.Notices(self.records).give(machine.id, at)
        return machine is not None

    def release(self) -> bool:
        machine = self._strike()
        if machine is not None:
            fates.release(machine, self.records, self.cell.tree)
        return machine is not None

    def disable(self) -> bool:
        """A person's hand on a worker in service that nobody is about to disable."""
        states = {instance.host: instance.states for instance in self.scaling.instances().values()}
        ours = {entry.host for entry in journal(self.scaling)[-6:]}
        free = [m.name for m in self.living() if states.get(m.name) == "" and m.name not in ours | self.struck]
        name = self._one(free)
        if name is not None:
            self._tell("qmod", "-d", f"*@{name}")
            self.by_hand[name] = time.time()
        return name is not None

    def enable(self) -> bool:
        name = self._one(sorted(self.by_hand))
        if name is not None:
            del self.by_hand[name]
            self._tell("qmod", "-e", f"*@{name}")
        return name is not None

    def _one(self, things: list[Thing]) -> Thing | None:
        return self.chance.choice(things) if things else None

    def _tell(self, *argv: str) -> None:
        """What Grid Engine answers does not matter: what is gone meanwhile is gone."""
        self.cell.runner(argv, timeout=20.0)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """All that can be looked at any time."""
        if (count := len(self.living())) > MAX_WORKERS:
            self.breaks(f"rule 5: {count} workers, where {MAX_WORKERS} are allowed")
        for (job, task), traces in itertools.groupby(self.seen(), lambda trace: (trace.job, trace.task)):
            spans = sorted((trace.began, trace.last, trace.host) for trace in traces)
            for earlier, later in itertools.pairwise(spans):
                if later[0] < earlier[1]:
                    self.breaks(f"rule 7: {job}.{task} ran on {earlier[2]} and {later[2]} at once")
        with contextlib.suppress(AutoscalerError):
            states = {instance.host: instance.states for instance in self.scaling.instances().values()}
            for name, since in self.by_hand.items():
                enabled = name in states and "d" not in states[name] and name not in self.struck
                if enabled and time.time() - since > REPORTS_LATE:
                    self.breaks(f"rule 4: {name} was disabled by hand and is enabled")

    def check_at_the_end(self) -> None:
        for trace in self.seen():
            if not (trace.ended or trace.job in self.deleted or trace.host in self.struck):
                self.breaks(f"rule 1: job {trace.job}.{trace.task} was cut short on {trace.host}")
        ends = Counter((trace.job, trace.task) for trace in self.seen() if trace.ended)
        for (job, task), count in ends.items():
            if count > 1 and self.jobs.get(job) is not True:  # with -r y an end that nobody heard of is no end
                self.breaks(f"rule 7: {job}.{task} ran to its end {count} times")
        begun = {trace.job for trace in self.seen()}
        if begun & self.never:
            self.breaks(f"the cell ran jobs that it cannot: {sorted(begun & self.never)}")
        if lost := self.jobs.keys() - begun - self.deleted - self.never:
            self.breaks(f"rule 6: jobs that could run are gone and never ran: {sorted(lost)}")
        for job in self.jobs:
            for task, count in Counter(self._ended_well(job)).items():
                if count > 1 and self.jobs[job] is not True:
                    self.breaks(f"rule 7: {job}.{task} ended {count} times")
        if left := [*self.scaling.rented()]:
            self.breaks(f"rule 8: machines are left: {left}")

    def _ended_well(self, job: str) -> list[str]:
        """Tasks of a job as accounting has them, once for each run that ended and was no failure.

        A queue master that is killed while it hears of an end may write down that same end twice.
        """
        told = self.cell.runner(("qacct", "-j", job), timeout=20.0).stdout.decode("utf-8", "replace")
        field = r"(?m)^(taskid|failed|hostname|start_time)\s+(\S.*?)\s*$"
        records = [dict(re.findall(field, block)) for block in told.split("=" * 62)]
        good = [record for record in records if record.get("failed", "").split(" ")[0] == "0"]
        runs = {(record["taskid"], record["hostname"], record["start_time"]) for record in good}
        return [task for task, _, _ in runs]

    def breaks(self, what: str) -> None:
        if what not in self.broken:
            self.broken.append(what)

    # -- the end -----------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Nothing more happens, and people put right what they did."""
        self.thaw()
        for name in list(self.by_hand):
            self._tell("qmod", "-e", f"*@{name}")
        self.by_hand.clear()

    def help_out(self) -> None:
        """As an operator does with what is reported to be left to them."""
        names = {machine.name for machine in self.living()}
        for job in self.there():
            self._tell("qrls", "-h", "uos", job)
            self._tell("qmod", "-usj", job)
            on = set(self.scaling.running_on(job))
            if self.jobs.get(job) is not True and on - names - {"master"} - {host.name for host in self.cell.declared}:
                self.deleted.add(job)
                self._tell("qdel", "-f", job)
