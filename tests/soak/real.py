"""A real cell with an autoscaler and random events, and traces of its jobs of where they ran.

Events are chosen at random and written down with their time; what it means is judged in `findings.py`.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from autoscaler.errors import AutoscalerError
from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.providers.local import failures
from autoscaler.providers.local.machines import Machine, Records
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import journal, machines
from tests.soak import findings
from tests.soak.findings import Submitted
from tests.soak.records import read_actions, read_ends
from tests.soak.traces import read_traces, write_job

Thing = TypeVar("Thing")
MAX_WORKERS = 3
AT_ONCE = 12
"""Jobs that Grid Engine may know of when one more is submitted."""
SETTINGS = {
    "CP_CAP_AUTOSCALE_WORKERS": str(MAX_WORKERS),
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "2",
    # Execds that lost their qmaster reported again 31 s after it came back; a busy machine is no defect.
    "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT": "60",
    "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY": "15",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "3",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "20",
    "CP_CAP_AUTOSCALE_DEADLOCK": "kill",
}
PATIENCE = 60.0
"""Seconds for one command of Grid Engine on a busy machine."""
QMASTER_TRIES = 3
REPORTS_LATE = 3.0
"""Seconds between a person's `qmod` on a host and the check of its effect."""


@dataclass
class RealCell:
    """`chance` decides everything that happens."""

    cell: Cell
    chance: random.Random
    running: Running | None = None
    jobs: dict[str, Submitted] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    disturbed: dict[str, float] = field(default_factory=dict)
    """Machines, by id, that something was done to besides giving them work: what ran there may be cut short."""
    silent: dict[str, float] = field(default_factory=dict)
    """Machines, by id, that were silent in the last observations: since when."""
    restarts: list[float] = field(default_factory=list)
    """When the qmaster was killed."""
    diary: list[str] = field(default_factory=list)
    by_hand: dict[str, float] = field(default_factory=dict)
    """Hosts that a person disabled: since when."""
    met: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What came to pass besides, and what explains it."""

    def __post_init__(self) -> None:
        self.scaling = Autoscaling(self.cell, SETTINGS)
        self.traces = self.cell.output / "traces"
        self.script = self.cell.home / "soaked"
        write_job(self.script, self.traces)
        self._frozen: list[Machine] = []
        self._about: list[str] = []
        """What the present event was done to."""

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

    def records_so_far(self) -> findings.Records:
        """What was written down until now, accounting and journal included."""
        return findings.Records(
            jobs=dict(self.jobs),
            traces=read_traces(self.traces),
            actions=read_actions(self.scaling),
            ends=read_ends(self.cell.root / "default" / "common" / "accounting"),
            places=[findings.RunPlace(m.id, m.name, m.created_at, m.ended_at) for m in machines(self.scaling)],
            disturbed=dict(self.disturbed),
            silent=dict(self.silent),
            deleted=frozenset(self.deleted),
            restarts=tuple(self.restarts),
        )

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
            (30, self.single), (10, self.array), (10, self.parallel), (4, self.unsatisfiable), (4, self.held),
            (6, self.delete), (6, self.suspend), (5, self.kill_autoscaler), (3, self.restart_qmaster),
            (4, self.kill_execd), (4, self.kill_machine), (4, self.freeze), (4, self.notice), (2, self.release),
            (4, self.disable), (4, self.enable), (6, self.clear), (4, self.release_holds),
        ]  # fmt: skip
        (event,) = self.chance.choices([event for _, event in events], [weight for weight, _ in events])
        name, began = event.__name__, time.time()
        self._about.clear()
        try:
            done = event()
        except AutoscalerError as error:  # a busy machine, or a qmaster that is not back yet, is no defect
            done = False
            self._about.append(str(error))
        self.met[name] += done
        self.diary.append(f"{began:.2f} {name}{'' if done else ' (not done)'} {'; '.join(self._about)}")
        return name

    def _submit(self, *options: str, unsatisfiable: bool = False) -> bool:
        again = self.chance.choice((None, True, False))
        rerun = () if again is None else ("-r", "y" if again else "n")
        long = str(self.chance.choice((2, 10, 30)))
        job = self.cell.submit("-b", "y", "-w", "n", "-j", "y", *rerun, *options, str(self.script), long)
        self.jobs[job] = Submitted(again, time.time(), unsatisfiable)
        self._about.append(f"{job}: {' '.join((*rerun, *options, long))}")
        return True

    def single(self) -> bool:
        return len(self.there()) < AT_ONCE and self._submit()

    def array(self) -> bool:
        return len(self.there()) < AT_ONCE and self._submit("-t", f"1-{self.chance.randint(2, 5)}")

    def parallel(self) -> bool:
        return len(self.there()) < AT_ONCE and self._submit("-pe", *self.chance.choice((("local", "2"), ("mpi", "4"))))

    def unsatisfiable(self) -> bool:
        return self._submit("-pe", "local", "100", unsatisfiable=True)

    def held(self) -> bool:
        return len(self.there()) < AT_ONCE and self._submit("-h")

    def release_holds(self) -> bool:
        """Owners lift their own holds, and no other."""
        for job in sorted(self.there()):
            self._run("qrls", "-h", "u", job)
        return True

    def delete(self) -> bool:
        job = self._one(sorted(self.there()))
        if job is not None:
            self.deleted.add(job)
            self._run("qdel", job)
        return job is not None

    def suspend(self) -> bool:
        job = self._one(sorted(self.there()))
        if job is not None:
            self._run("qmod", self.chance.choice(("-sj", "-usj", "-usj")), job)
        return job is not None

    def kill_autoscaler(self) -> bool:
        self.kill()
        return True

    def restart_qmaster(self) -> bool:
        self.restarts.append(time.time())
        self.cell.stop_qmaster()
        time.sleep(self.chance.choice((0.0, 1.0, 3.0)))
        for _ in range(QMASTER_TRIES - 1):
            with contextlib.suppress(AutoscalerError):
                self.cell.start_qmaster()
                return True
        self.cell.start_qmaster()
        return True

    def _disturb_one(self) -> Machine | None:
        machine = self._one(self.living())
        if machine is not None:
            self.disturbed.setdefault(machine.id, time.time())
            self._about.append(f"{machine.name} {machine.id}")
        return machine

    def disturbed_names(self) -> set[str]:
        return {machine.name for machine in machines(self.scaling) if machine.id in self.disturbed}

    def kill_execd(self) -> bool:
        machine = self._disturb_one()
        if machine is not None:
            self.cell.host_runner(machine.name)(("pkill", "-KILL", "sge_execd"), timeout=10.0)
        return machine is not None

    def kill_machine(self) -> bool:
        machine = self._disturb_one()
        if machine is not None:
            failures.kill(machine, self.cell.tree)
        return machine is not None

    def freeze(self) -> bool:
        """One, or all that are frozen go on."""
        if self._frozen and self.chance.random() < 0.5:
            self.thaw()
            return True
        machine = self._disturb_one()
        if machine is not None:
            failures.freeze(machine, self.cell.tree)
            self._frozen.append(machine)
        return machine is not None

    def thaw(self) -> None:
        for machine in self._frozen:
            failures.freeze(machine, self.cell.tree, thaw=True)
        self._frozen.clear()

    def notice(self) -> bool:
        machine = self._disturb_one()
        if machine is not None:
            at = time.time() + self.chance.choice((3.0, 45.0))
            failures.Notices(self.records).give(machine.id, at)
        return machine is not None

    def release(self) -> bool:
        machine = self._disturb_one()
        if machine is not None:
            failures.release(machine, self.records, self.cell.tree)
        return machine is not None

    def disable(self) -> bool:
        """A person disables a worker in service that we are not about to disable."""
        states = {instance.host: instance.states for instance in self.scaling.instances().values()}
        ours = {entry.host for entry in journal(self.scaling)[-6:]}
        free = [
            m.name for m in self.living() if states.get(m.name) == "" and m.name not in ours | self.disturbed_names()
        ]
        name = self._one(free)
        if name is not None:
            self._run("qmod", "-d", f"*@{name}")
            self.by_hand[name] = time.time()
        return name is not None

    def enable(self) -> bool:
        name = self._one(sorted(self.by_hand))
        if name is not None:
            del self.by_hand[name]
            self._run("qmod", "-e", f"*@{name}")
        return name is not None

    def _one(self, things: list[Thing]) -> Thing | None:
        return self.chance.choice(things) if things else None

    def _run(self, *argv: str) -> None:
        """What Grid Engine answers does not matter: what is gone meanwhile is gone."""
        self._about.append(" ".join(argv))
        with contextlib.suppress(AutoscalerError):
            self.cell.runner(argv, timeout=PATIENCE)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """All that can be checked at any time."""
        if (count := len(self.living())) > MAX_WORKERS:
            self.breaks(f"rule 5: {count} workers, where {MAX_WORKERS} are allowed")
        self._judge(findings.at_any_time(self.records_so_far()))
        with contextlib.suppress(AutoscalerError):
            self._observe()

    def _observe(self) -> None:
        """Which hosts are silent, and whether what a person disabled stays disabled."""
        now = time.time()
        states = {instance.host: instance.states for instance in self.scaling.instances().values()}
        for machine in self.living():
            if "u" in states.get(machine.name, ""):
                self.silent.setdefault(machine.id, now)
            else:
                self.silent.pop(machine.id, None)
        disturbed = self.disturbed_names()
        for name, since in self.by_hand.items():
            enabled = name in states and "d" not in states[name] and name not in disturbed
            if enabled and now - since > REPORTS_LATE:
                self.breaks(f"rule 4: {name} was disabled by hand and is enabled")

    def check_at_the_end(self) -> None:
        self._judge(findings.at_the_end(self.records_so_far()))
        if left := [*self.scaling.rented()]:
            self.breaks(f"rule 8: machines are left: {left}")

    def _judge(self, found: findings.Findings) -> None:
        for what in found.broken:
            self.breaks(what)
        self.notes = list(found.notes)

    def breaks(self, what: str) -> None:
        if what not in self.broken:
            self.broken.append(what)

    # -- the end -----------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Nothing more happens, and people put right what they did."""
        self.thaw()
        for name in list(self.by_hand):
            self._run("qmod", "-e", f"*@{name}")
        self.by_hand.clear()

    def operator_cleans_up(self) -> None:
        """As an operator does with what is reported to be left to them."""
        for job in self.there():
            self._run("qrls", "-h", "u", job)  # what the autoscaler holds, it holds lest it runs twice
            self._run("qmod", "-usj", job)
        self._clear()

    def clear(self) -> bool:
        """An operator gives up what was lost with its machine and may not start again."""
        return self._clear() > 0

    def _clear(self) -> int:
        names = {machine.name for machine in self.living()} | {host.name for host in self.cell.declared}
        lost = {
            str(job.number)
            for instance in self.scaling.instances().values()
            for job in instance.jobs
            if instance.host not in names and not self.may_rerun(str(job.number))
        }
        for job in sorted(lost):
            self.deleted.add(job)
            self._run("qdel", "-f", job)
        return len(lost)

    def may_rerun(self, job: str) -> bool:
        return job in self.jobs and self.jobs[job].rerun is True
