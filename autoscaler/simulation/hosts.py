"""An execution host of the simulated Grid Engine: its slots, what runs there, and how `qhost` would show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.core.model.cluster import ExecutionHost, HostJob, QueueInstance
from autoscaler.simulation.workload import WorkloadJob


@dataclass(slots=True, eq=False)
class Run:
    """A task that runs, with its share of slots on each host."""

    job: WorkloadJob
    task: int
    """0 for a job that is no array."""
    started: float
    shares: tuple[tuple[SimulatedHost, int], ...] = ()
    again: bool = False
    """Whether it ran before, on a machine that was lost."""
    held: bool = False
    """Whether it waits on hold once it is rescheduled (`qhold`)."""
    lost_at: float | None = None
    """When a machine that it runs on was lost: it makes no progress from then on."""

    @property
    def name(self) -> str:
        """As commands name it: `12`, or `12.3` for a task."""
        return f"{self.job.number}.{self.task}" if self.task else str(self.job.number)

    @property
    def ends(self) -> float:
        return self.started + self.job.seconds


@dataclass(slots=True, eq=False)
class SimulatedHost:
    """One execution host. Its value is made again only after it changed: equal hosts stay the same object."""

    name: str
    queue: str
    slots: int
    seq_no: int = 0
    consumables: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By complex: how much there is, and how Grid Engine writes it."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Load values that its execd reports."""
    disabled: bool = False
    heard: bool = False
    lost: bool = False
    """Whether its machine is gone: nothing starts there, though qmaster may not know it yet."""
    used: int = 0
    taken: dict[str, float] = field(default_factory=dict)
    runs: dict[Run, int] = field(default_factory=dict)
    """Slots here of each task."""
    order: int = 0
    """When it was added, or if hosts have no load values, when a job last started or ended on it: breaks ties."""
    _shown: ExecutionHost | None = None

    @property
    def takes_jobs(self) -> bool:
        return self.heard and not self.disabled and not self.lost

    @property
    def free(self) -> int:
        return self.slots - self.used

    def left_of(self, complex_name: str) -> float:
        """What is left of a consumable; 0 if the host has none of it."""
        there = self.consumables.get(complex_name)
        return 0.0 if there is None else there[0] - self.taken.get(complex_name, 0.0)

    def add(self, run: Run, slots: int, needs: Mapping[str, float]) -> None:
        self.runs[run] = slots
        self._take(slots, needs, 1)

    def drop(self, run: Run, needs: Mapping[str, float]) -> None:
        self._take(self.runs.pop(run), needs, -1)

    def _take(self, slots: int, needs: Mapping[str, float], sign: int) -> None:
        self.used += sign * slots
        for name, each in needs.items():
            self.taken[name] = self.taken.get(name, 0.0) + sign * each * slots
        self._shown = None

    def change(self, *, disabled: bool | None = None, heard: bool | None = None) -> None:
        self.disabled = self.disabled if disabled is None else disabled
        self.heard = self.heard if heard is None else heard
        self._shown = None

    def shown(self, epoch: float) -> ExecutionHost:
        """The host as `qhost -q -F` and `qstat -f` show it together. `epoch`: Unix time of second 0."""
        if self._shown is None:
            states = ("d" if self.disabled else "") + ("" if self.heard else "au")
            jobs = tuple(
                HostJob(
                    run.job.number, str(run.task) if run.task else "", "hr" if run.held else "r", slots, run.job.owner,
                    started=epoch + run.started, hard=run.job.hard, pe=run.job.pe or "",
                )
                for run, slots in self.runs.items()
            )  # fmt: skip
            instance = QueueInstance(self.queue, self.name, self.slots, self.used, 0, states, jobs)
            left = {
                name: text if not self.taken.get(name) else f"{there - self.taken[name]:.0f}"
                for name, (there, text) in self.consumables.items()
            }
            self._shown = ExecutionHost(
                self.name, (instance,), load=self.values if self.heard else {}, consumables=left, heard=self.heard
            )
        return self._shown
