"""The configuration of a simulated cell: its queues, parallel environments, complexes and scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.core.model.cluster import Complex, Consumable, ParallelEnvironment, QuotaRule, QuotaSet
from autoscaler.simulation.workload import LOCAL, SPREAD

_UNBOUNDED = 999_999


def shipped_complexes() -> dict[str, Complex]:
    """The complexes of `qconf -sc` as shipped that jobs of workloads ask for."""
    rows = (
        ("arch", "a", "RESTRING", "==", Consumable.NO, "NONE"),
        ("h_rt", "h_rt", "TIME", "<=", Consumable.NO, "0:0:0"),
        ("h_vmem", "h_vmem", "MEMORY", "<=", Consumable.NO, "0"),
        ("hostname", "h", "HOST", "==", Consumable.NO, "NONE"),
        ("mem_total", "mt", "MEMORY", "<=", Consumable.NO, "0"),
        ("num_proc", "p", "INT", "==", Consumable.NO, "0"),
        ("qname", "q", "RESTRING", "==", Consumable.NO, "NONE"),
        ("slots", "s", "INT", "<=", Consumable.PER_SLOT, "1"),
    )
    return {row[0]: Complex(row[0], row[1], row[2], row[3], "YES", row[4], row[5]) for row in rows}


def shipped_environments() -> dict[str, ParallelEnvironment]:
    """Both parallel environments that `init` makes."""
    return {
        LOCAL: ParallelEnvironment(LOCAL, _UNBOUNDED, "$pe_slots"),
        SPREAD: ParallelEnvironment(SPREAD, _UNBOUNDED, "$fill_up"),
    }


@dataclass(frozen=True, slots=True)
class HostChange:
    """A persistent host that comes, or has another number of slots from then on."""

    at: float
    """Second of the simulation."""
    name: str
    slots: int
    """0: no job may start there any more; what runs there goes on."""
    complex_values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Weights:
    """What orders waiting jobs: `weight_priority`, `weight_urgency` and `weight_waiting_time` of `qconf -ssconf`, as
    Grid Engine ships them. Debian's packages have 0, 0.5 and 0.278.
    """

    priority: float = 1.0
    urgency: float = 0.1
    waiting_time: float = 0.0


@dataclass(frozen=True)
class CellConfiguration:
    """What the simulated Grid Engine is configured with."""

    queue: str = "main.q"
    host_group: str = "@allhosts"
    pes: dict[str, ParallelEnvironment] = field(default_factory=shipped_environments)
    complexes: dict[str, Complex] = field(default_factory=shipped_complexes)
    schedule_interval: float = 15.0
    """Seconds between two runs of the scheduler (`schedule_interval`)."""
    flush: float = 1.0
    """Seconds after a submission or an end until the scheduler runs (`flush_submit_sec`, `flush_finish_sec`); 0: only
    at the interval.
    """
    flush_finish: float | None = None
    """After an end, where that differs."""
    fixed_order: bool = False
    """`queue_sort_method seqno`: hosts are filled in one order, not the least loaded first."""
    loads: bool = True
    """Whether hosts report load values, by which the scheduler orders them."""
    weights: Weights = field(default_factory=Weights)
    persistent: tuple[tuple[str, int], ...] = ()
    """Hosts that are always there, with their slots."""
    host_changes: tuple[HostChange, ...] = ()
    """Of persistent hosts that are not always there alike."""
    consumables: tuple[str, ...] = ()
    """Complexes besides slots of which requests are counted, each slot, and use up what hosts and workers have."""
    counts: frozenset[str] = frozenset()
    """Those of them that are numbers, as GPUs; the others are of type MEMORY."""
    user_slots: int | None = None
    """`limit users {*} to slots=N` in a resource quota set; None: there is none."""

    def flush_after(self, *, end: bool) -> float:
        """Seconds after a submission or an end until the scheduler runs; 0: only at the interval."""
        return self.flush if not end or self.flush_finish is None else self.flush_finish

    @property
    def quotas(self) -> tuple[QuotaSet, ...]:
        if self.user_slots is None:
            return ()
        rule = QuotaRule({"slots": f"{self.user_slots}"}, users=("*",), each=frozenset({"users"}))
        return (QuotaSet("user_slots", True, (rule,)),)

    def __post_init__(self) -> None:
        for name in self.consumables:  # also where it is one that is not consumable as shipped
            kind = "INT" if name in self.counts else "MEMORY"
            self.complexes[name] = Complex(name, name, kind, "<=", "YES", Consumable.PER_SLOT, "0")
