"""What the operator allows, as frozen values nested per queue and per node array. `settings` fills them in; core only
declares and reads them.

Durations in seconds, memory in bytes, prices per hour. None means "no limit" unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.cost.spending import Budget, BudgetAction
from autoscaler.core.model.fleet import ANY, BucketKey, PriceType


@dataclass(frozen=True, slots=True)
class Limits:
    """What a node array's additional workers may amount to, all together (rule 5)."""

    max_workers: int = 3
    min_workers: int = 0
    max_cores: int | None = None
    max_price_per_hour: float | None = None
    max_launches_per_hour: int | None = None
    max_own_workers: int | None = None
    """`MaxCount` of a request: of this array alone, while the others hold for all arrays that stem from one."""
    max_own_cores: int | None = None
    """`MaxCoreCount` of a request."""
    total_workers: int | None = None
    """Of all node arrays together, whatever queue they serve; the same in every array's limits. So the next two."""
    total_cores: int | None = None
    total_price_per_hour: float | None = None
    currency: str = "USD"
    """Of both prices."""

    @property
    def cap_price(self) -> bool:
        """Whether any limit of price holds: then an unknown price is no launch."""
        return self.max_price_per_hour is not None or self.total_price_per_hour is not None


@dataclass(frozen=True, slots=True)
class NodeArrayPolicy:
    """A named pool of workers. Homogeneous: `instance_type` only; hybrid: its family, or `family`."""

    name: str
    queue: str
    """The queue whose slots its workers give."""
    host_group: str
    instance_type: str
    hybrid: bool = False
    family: str | None = None
    max_cores_per_worker: int | None = None
    descending: bool = False
    """The given type, else smaller ones of its family, when it cannot be had."""
    strategy: str = "cpu-capacity"
    price_types: tuple[PriceType, ...] = (PriceType.ON_DEMAND,)
    price_type_deadline: float = 0.0
    """How long a job must have been able to run before the autoscaler launches another price type than the first."""
    price_type_premium: float | None = None
    """Most that another price type may cost over the first, as a share of the first's price."""
    limits: Limits = Limits()
    scale_up_batch: int = 1
    scale_down_batch: int = 1
    free_cores: int = 0
    """Cores of every worker kept back from jobs; where nothing would be left, all serve."""
    memory_complex: str | None = None
    """Name of the complex that carries a worker's memory as a consumable (`CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM`)."""
    gpu_complex: str | None = None
    cpu_complex: str | None = None
    """Of its cores, as its slots are."""
    exclusive_complex: str | None = None
    idle_timeout: float = 30.0
    boot_timeout: float = 900.0
    """From order to heard by Grid Engine."""
    keep_alive: tuple[str, ...] = ()
    """Request sets for which its workers stay, however idle and whatever would take their place (`KeepAlive`)."""
    health_check: tuple[str, ...] = ()
    """Command that says whether a worker is healthy; empty: none."""
    health_checks: str = ""
    """Directory of the commands that a request may choose among, by name."""
    health_interval: float = 60.0
    """From one check of a worker to its next."""
    unavailability_delay: float = 1800.0
    unavailability_count_capacity: int = 5
    unavailability_count_failure: int = 5
    machine_types: tuple[str, ...] = ()
    """Set by a request: exactly these instance types, tried in this order, whatever family they are of."""
    unknown_types: tuple[str, ...] = ()
    """Set where the provider offers nothing of what a request names, instance types or a price type: jobs use what the
    settings allow, and requests get nothing.
    """
    extends: str | None = None
    """Set for a dynamic array: the array of the settings that it stems from, whose limits hold for both together."""
    group_cores: int | None = None
    group_count: int | None = None
    """Set for an array of groups: vCPUs or workers of each; the same number where it has groups of both kinds."""
    queue_values: tuple[tuple[str, float], ...] = ()
    """Set by `queue_instances`: the consumables that its queue gives to each of its instances on a new worker."""
    wanted: bool = True
    """False: nothing is launched for it any more (a dynamic array that no request names)."""
    rules: Rules | None = field(default=None, repr=False, hash=False)
    """What its workers have by rules, and which constraints they meet."""

    def takes(self, bucket: BucketKey) -> bool:
        """Whether a bucket, or a failure of one, concerns this array: any does, or the one that it stems from."""
        return bucket.node_array in (ANY, self.name, self.extends)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One autoscaled queue."""

    name: str
    node_array: str
    """Its default node array."""
    scale_up_timeout: float = 30.0
    scale_down_timeout: float | None = None
    """Set: additionally the seed's rule, all autoscaled queues empty for so long before any worker leaves."""
    default: bool = True
    """Takes jobs that name no queue."""
    static: bool = True
    """Persistent workers belong to it."""


class DeadlockAnswer(StrEnum):
    """What becomes of a job that was shown to be impossible (rule 6)."""

    KILL = "kill"
    HOLD = "hold"
    REPORT = "report"


class LostJobs(StrEnum):
    """What becomes of a job that may not be started again, when its machine is gone."""

    REPORT = "report"
    DELETE = "delete"
    FORCE = "force"
    """Started again all the same."""


@dataclass(frozen=True, slots=True)
class Brake:
    """More of these in `window` seconds than allowed pauses the autoscaler until a person resumes it."""

    window: float = 600.0
    max_launches: int | None = 200
    """Paces all launches; only of those that helped nobody more than this pause anything."""
    max_removals: int | None = 200
    max_kills: int | None = 50
    """Jobs deleted or held because nothing allowed could ever run them."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it."""

    queues: tuple[QueuePolicy, ...]
    node_arrays: tuple[NodeArrayPolicy, ...]
    master: str
    """The master's host name as Grid Engine prints it."""
    brake: Brake = Brake()
    batch_delay: float = 10.0
    """At least so long between two launches of one node array, so that a burst of events is not a burst of launches."""
    order_grace: float = 600.0
    """So long an acknowledged order counts though no listing shows it (rule 3)."""
    detail_lookups: int = 200
    """At most so many jobs in the one `qstat -j` of a pass."""
    deadlock: DeadlockAnswer = DeadlockAnswer.HOLD
    swap: bool = True
    """Whether weak workers may be replaced by stronger ones when the cluster is full."""
    silence_timeout: float = 600.0
    """Seconds of silence after which a worker is fenced."""
    lost_jobs: LostJobs = LostJobs.REPORT
    black_hole_failures: int = 3
    """So many jobs that failed on a worker one after another, with none that ran, make it suspect; 0: none do."""
    queue_demand: bool = True
    """Whether waiting jobs ask for workers; without, only requests do."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments whose jobs want all their hosts out of one group."""
    protected_after: float = 600.0
    """A launch for jobs on whose workers none started for so long after they joined helped nobody."""
    detail_age: float = 600.0
    """A remembered answer of `qstat -j` that keeps a job from counting is asked again after so long."""
    job_context: bool = False
    """Whether jobs that have waited long are told why in their context."""
    rules: Rules | None = field(default=None, repr=False, hash=False)
    """Which jobs may run on what; None: there are no rules."""
    currency: str = "USD"
    """Of all prices."""
    budgets: tuple[Budget, ...] = ()
    budget_action: BudgetAction = BudgetAction.WARN

    def queue(self, name: str) -> QueuePolicy | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def node_array(self, name: str) -> NodeArrayPolicy | None:
        return next((array for array in self.node_arrays if array.name == name), None)
