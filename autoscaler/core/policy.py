"""What the operator allows, as frozen values per queue and per node array. `settings` fills them in; core only declares
and reads them.

Durations in seconds, memory in bytes, prices per hour. None means "no limit" unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.cost.spending import Budget, BudgetAction
from autoscaler.core.model.fleet import ANY, BucketKey, PriceType
from autoscaler.core.model.host_limits import OfferedLimit

PROFILE_OF = "queue "
"""Begins the place of settings that are a profile's: no node array's name has a space."""


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """That nothing is launched for a queue, which is only watched."""

    queue: str
    limit: str
    """The policy's name of the setting that did it."""
    setting: str
    """The setting with its value, as it was set."""
    to: str
    """The value that switches it on."""
    workers: int
    """How many workers it could have if it were switched on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on a node array's additional workers (rule 5)."""

    max_workers: int = 3
    min_workers: int = 0
    max_cores: int | None = None
    max_price_per_hour: float | None = None
    max_launches_per_hour: int | None = None
    max_own_workers: int | None = None
    """`MaxCount` of a request: for this array alone. The other limits hold for all arrays that stem from one."""
    max_own_cores: int | None = None
    """`MaxCoreCount` of a request."""
    total_workers: int | None = None
    """Limit on the workers of all node arrays together, whatever their queue; the same for every array. So are the next
    two.
    """
    total_cores: int | None = None
    total_price_per_hour: float | None = None
    currency: str = "USD"
    """Currency of both prices."""
    of: str | None = None
    """The node array whose own limits these are, where several have some: reasons name it."""
    switched_off: SwitchedOff | None = None
    """If set, `max_workers` is 0, and reasons name this instead of any limit."""

    @property
    def cap_price(self) -> bool:
        """Whether any price limit is set: then nothing of unknown price is launched."""
        return self.max_price_per_hour is not None or self.total_price_per_hour is not None


COST = "cost"
"""The strategy that buys the cheapest set by packing."""
FITTING, LARGEST = "fitting", "largest"
"""Values of `hybrid_size`."""
PACK_OFF, PACK_FIXED, PACK_PREDICTED = "off", "fixed", "predicted"
"""Values of `pack`."""
PRICE_HOUR, PRICE_PAID = "hour", "paid"
"""Values of `cost_price`."""


@dataclass(frozen=True, slots=True)
class NodeArrayPolicy:
    """A named pool of workers. Homogeneous: `instance_type`, or with `descending` smaller ones of its family as well;
    hybrid: its family, or `family`.
    """

    name: str
    queue: str
    """The queue whose slots its workers give."""
    host_group: str
    instance_type: str
    hybrid: bool = False
    family: str | None = None
    """Several are parted by commas, and may have wildcards: `m5,r5*`."""
    max_cores_per_worker: int | None = None
    descending: bool = False
    """The given type, or smaller ones of its family if it is not available."""
    strategy: str = "cpu-capacity"
    proposes: Callable[[Any], Sequence[Any]] | None = field(default=None, repr=False, hash=False)
    """The `core.sizing.problem.Strategy` behind the name, if it is not one of ours."""
    cost_price: str = PRICE_HOUR
    """Whether the strategy `cost` compares sets by an hour, or by what is paid until their workers can leave."""
    hybrid_size: str = FITTING
    """Whether `cpu-capacity` prefers workers no larger than suits the jobs, or the largest that they fill."""
    pack: str = PACK_OFF
    """Whether workers get sequence numbers in the queue, so that the scheduler fills them in one order."""
    wait_for_free: float = 0.0
    """For how long at most jobs wait for a worker that is estimated to be free within a boot; 0: a new one is launched.
    """
    price_types: tuple[PriceType, ...] = (PriceType.ON_DEMAND,)
    price_type_deadline: float = 0.0
    """How long a job must have been able to run before the autoscaler launches another price type than the first."""
    price_type_premium: float | None = None
    """The most that another price type may cost more than the first, as a share of the first's price."""
    limits: Limits = Limits()
    scale_up_batch: int = 1
    scale_down_batch: int = 1
    free_cores: int = 0
    """Cores of every worker that jobs do not get; if none would be left, jobs get all."""
    memory_complex: str | None = None
    """Name of the complex that carries a worker's memory as a consumable (`CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM`)."""
    gpu_complex: str | None = None
    cpu_complex: str | None = None
    """Name of the complex that carries a worker's cores as a consumable."""
    exclusive_complex: str | None = None
    idle_timeout: float = 30.0
    billing_step: float = 1.0
    billing_minimum: float = 60.0
    """A worker's time is billed in such steps, and for so long at least."""
    boot_timeout: float = 900.0
    """From order to the first load report."""
    keep_alive: tuple[str, ...] = ()
    """Request sets for which its workers stay even if idle or replaceable (`KeepAlive`)."""
    health_check: tuple[str, ...] = ()
    """Command that checks whether a worker is healthy; empty: none."""
    health_checks: str = ""
    """Directory of the commands that a request may choose among, by name."""
    health_interval: float = 60.0
    """From one check of a worker to the next."""
    unavailability_delay: float = 1800.0
    unavailability_count_capacity: int = 5
    unavailability_count_failure: int = 5
    machine_types: tuple[str, ...] = ()
    """Set by a request: exactly these instance types, tried in this order, of any family."""
    unknown_types: tuple[str, ...] = ()
    """Set if the provider offers none of the instance types, or not the price type, that a request names: jobs then use
    what the settings allow, and requests get nothing.
    """
    extends: str | None = None
    """Set for a dynamic array: the array of the settings that it stems from, whose limits hold for both together."""
    group_cores: int | None = None
    group_count: int | None = None
    """Set for an array of groups: vCPUs or workers of each group; if it has groups of both kinds, both are the same
    number.
    """
    host_limits: tuple[OfferedLimit, ...] = ()
    """What quotas give to each of its workers (set by `host_quotas`)."""
    queue_values: tuple[tuple[str, float], ...] = ()
    """Set by `queue_instances`: the consumables that its queue gives to each of its instances on a new worker."""
    requested: bool = True
    """False for a dynamic array that no request names any more: nothing is launched for it."""
    rules: Rules | None = field(default=None, repr=False, hash=False)
    """What its workers have by rules, and which constraints they meet."""
    of_profile: bool = False
    """Whether its settings are those of a profile of Cloud Pipeline's launcher, whose names have no suffix."""

    @property
    def place(self) -> str:
        """Where a person changes its settings: the profile of its queue, or the names with its suffix."""
        return f"{PROFILE_OF}{self.queue}" if self.of_profile else self.name

    @property
    def estimates(self) -> bool:
        """Whether it decides by estimates of run times."""
        return self.compares_paid or bool(self.wait_for_free) or self.pack == PACK_PREDICTED or self.weighs_spot

    @property
    def weighs_spot(self) -> bool:
        """Whether it weighs spot and on demand by interruptions."""
        return self.packs and len(self.price_types) > 1

    @property
    def compares_paid(self) -> bool:
        """Whether it compares sets by what is paid until their workers can leave."""
        return self.packs and self.cost_price == PRICE_PAID

    @property
    def packs(self) -> bool:
        """Whether it buys by packing: demand is then placed on its workers in balance too (`core.placement`)."""
        return self.hybrid and self.strategy == COST and not self.machine_types

    def of_family(self, name: str) -> bool:
        """Whether `family` names this instance family."""
        return any(fnmatchcase(name, pattern) for pattern in (self.family or "").split(",") if pattern)

    def takes(self, bucket: BucketKey) -> bool:
        """Whether a bucket, or a failure of one, concerns this array: it is of any array, of this one, or of the one
        that this stems from.
        """
        return bucket.node_array in (ANY, self.name, self.extends)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One autoscaled queue."""

    name: str
    node_array: str
    """Its default node array."""
    scale_up_timeout: float = 30.0
    scale_down_timeout: float | None = None
    """If set, no worker leaves before all autoscaled queues have been empty for this long (Cloud Pipeline's rule)."""
    default: bool = True
    """Takes jobs that name no queue."""
    static: bool = True
    """Persistent workers belong to it."""


class DeadlockAnswer(StrEnum):
    """What happens to a job that is proven unsatisfiable (rule 6)."""

    KILL = "kill"
    HOLD = "hold"
    REPORT = "report"


class LostJobs(StrEnum):
    """What happens to a job that may not be started again if its machine is gone."""

    REPORT = "report"
    DELETE = "delete"
    FORCE = "force"
    """It is started again all the same."""


class OwnerKind(StrEnum):
    """What tells the owners of jobs apart, where what one of them causes must not change what others get."""

    USER = "user"
    PROJECT = "project"
    """A job without a project counts for its user."""
    ACCOUNT = "account"
    """`qsub -A`, which users choose, unless a JSV checks it."""


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """The circuit breaker: if more than this happens within `window` seconds, it stops the autoscaler until a person
    resumes. Where jobs have several owners, what the one of them caused who caused most does not count.
    """

    window: float = 600.0
    max_launches: int | None = 200
    """Limits the rate of all launches. Only launches that helped no job trip the circuit breaker."""
    max_removals: int | None = 200
    max_kills: int | None = 50
    """Jobs deleted or held as unsatisfiable. Where jobs have several owners: of each of them, which stops only that."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The whole policy."""

    queues: tuple[QueuePolicy, ...]
    node_arrays: tuple[NodeArrayPolicy, ...]
    master: str
    """The master's host name as Grid Engine prints it."""
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    owner: OwnerKind = OwnerKind.USER
    batch_delay: float = 10.0
    """Least time between two launches of one node array, so that a burst of events is not a burst of launches."""
    order_grace: float = 600.0
    """For this long an acknowledged order counts although no listing shows it (rule 3)."""
    detail_lookups: int = 200
    """The most jobs in the one `qstat -j` of a pass."""
    deadlock: DeadlockAnswer = DeadlockAnswer.HOLD
    swap: bool = True
    """Whether weak workers may be replaced by stronger ones when the cluster is full."""
    silence_timeout: float = 600.0
    """Seconds of silence after which a worker is fenced."""
    lost_jobs: LostJobs = LostJobs.REPORT
    black_hole_failures: int = 3
    """A worker is suspect once this many jobs in a row failed on it and none ran; 0: never."""
    queue_demand: bool = True
    """Whether workers are launched for waiting jobs; if not, only requests launch workers."""
    host_names: tuple[str, ...] = ()
    """Names such as the provider's machines have; empty: not known."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments whose jobs need all their hosts in one group."""
    protected_after: float = 600.0
    """A launch helped no job if for this long after its workers joined no job started on them."""
    detail_age: float = 600.0
    """Age after which `qstat -j` is asked again, if its remembered answer keeps a job from counting."""
    job_context: bool = False
    """Whether jobs that have waited long get the reason into their context."""
    rules: Rules | None = field(default=None, repr=False, hash=False)
    """Which jobs may run on what; None: there are no rules."""
    currency: str = "USD"
    """Currency of all prices."""
    assigns: bool = False
    """Whether a plan says which jobs the workers that it launches are meant for: on request, as it costs placements."""
    budgets: tuple[Budget, ...] = ()
    budget_action: BudgetAction = BudgetAction.WARN

    @property
    def estimates(self) -> bool:
        """Whether anything is decided by estimates of run times."""
        return any(array.estimates for array in self.node_arrays)

    def queue(self, name: str) -> QueuePolicy | None:
        for queue in self.queues:
            if queue.name == name:
                return queue
        return None

    def node_array(self, name: str) -> NodeArrayPolicy | None:
        for array in self.node_arrays:  # a loop, as every worker asks for its own several times a pass
            if array.name == name:
                return array
        return None
