"""Why: a stable code and the facts it rests on. The sentence made of both is written in `report.wording`, never here.

Every action and every inaction carries a `Reason`. A cap does not replace one, it appends to its trail
("wanted 6; capped to 2 by max_workers"). Codes are part of the public interface: renamed never, added freely.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Fact = str | int | float | bool | None | tuple[str, ...]


class Code(StrEnum):
    """Stable codes. Group comments say of what the verdict is."""

    # -- waiting shapes: counted or not -----------------------------------------------------------------
    COUNTED = "COUNTED"
    QUEUE_DEMAND_OFF = "QUEUE_DEMAND_OFF"
    FITS = "FITS"
    WAITS_FOR_COMING = "WAITS_FOR_COMING"
    NOT_EXPIRED = "NOT_EXPIRED"
    EXPIRED = "EXPIRED"
    HELD = "HELD"
    DEPENDENT = "DEPENDENT"
    FUTURE = "FUTURE"
    IN_ERROR = "IN_ERROR"
    BEYOND_CONCURRENCY = "BEYOND_CONCURRENCY"
    BEYOND_QUOTA = "BEYOND_QUOTA"
    BEYOND_GLOBAL = "BEYOND_GLOBAL"
    FOREIGN_QUEUE = "FOREIGN_QUEUE"
    FOREIGN_HOST = "FOREIGN_HOST"
    NOT_LOOKED_AT = "NOT_LOOKED_AT"
    UNKNOWN_STATE = "UNKNOWN_STATE"
    UNKNOWN_PE = "UNKNOWN_PE"
    GROUP_PE_BY_NAME = "GROUP_PE_BY_NAME"
    GROUP_NOT_ASKED = "GROUP_NOT_ASKED"
    UNKNOWN_RESOURCE = "UNKNOWN_RESOURCE"
    NO_TYPE_FITS = "NO_TYPE_FITS"
    NO_INSTANCE_TYPE = "NO_INSTANCE_TYPE"
    NO_WORKER_ALLOWED = "NO_WORKER_ALLOWED"
    RESTRICTED_QUEUE = "RESTRICTED_QUEUE"
    TOO_LARGE_FOR_ONE_HOST = "TOO_LARGE_FOR_ONE_HOST"
    TOO_MANY_SLOTS = "TOO_MANY_SLOTS"
    TOO_MANY_HOSTS = "TOO_MANY_HOSTS"
    TOO_MUCH_ON_ONE_HOST = "TOO_MUCH_ON_ONE_HOST"
    TOO_MUCH_TOGETHER = "TOO_MUCH_TOGETHER"
    NO_SUCH_RESOURCE = "NO_SUCH_RESOURCE"
    NO_SUCH_HOST = "NO_SUCH_HOST"
    WAY_OUT = "WAY_OUT"
    WAY_OUT_ASK = "WAY_OUT_ASK"
    UNPROVEN = "UNPROVEN"
    FITS_WHEN_FREE = "FITS_WHEN_FREE"
    MIXED_TYPES = "MIXED_TYPES"
    OTHER_PE = "OTHER_PE"
    NAMES_PLACE = "NAMES_PLACE"
    UNPREDICTABLE = "UNPREDICTABLE"
    SILENT_HOSTS = "SILENT_HOSTS"
    TOO_MANY_PHANTOMS = "TOO_MANY_PHANTOMS"
    RUNNING_TASKS = "RUNNING_TASKS"
    JUST_SEEN = "JUST_SEEN"
    ASKING = "ASKING"
    ASKED_LATER = "ASKED_LATER"
    NO_ANSWER = "NO_ANSWER"
    SAID_POSSIBLE = "SAID_POSSIBLE"
    IMPOSSIBLE = "IMPOSSIBLE"
    IMPOSSIBLE_REPORTED = "IMPOSSIBLE_REPORTED"
    DELETED_AS_IMPOSSIBLE = "DELETED_AS_IMPOSSIBLE"
    HELD_AS_IMPOSSIBLE = "HELD_AS_IMPOSSIBLE"
    MORE_IMPOSSIBLE = "MORE_IMPOSSIBLE"
    RELEASED_BY_HAND = "RELEASED_BY_HAND"
    POSSIBLE_AGAIN = "POSSIBLE_AGAIN"
    HOLD_NOT_WISHED = "HOLD_NOT_WISHED"

    # -- workers ---------------------------------------------------------------------------------------
    PERSISTENT = "PERSISTENT"
    MASTER = "MASTER"
    RUNS_JOBS = "RUNS_JOBS"
    RESERVED = "RESERVED"
    NEEDED = "NEEDED"
    IDLE = "IDLE"
    IDLE_NOT_LONG_ENOUGH = "IDLE_NOT_LONG_ENOUGH"
    QUEUE_NOT_EMPTY = "QUEUE_NOT_EMPTY"
    MIN_WORKERS = "MIN_WORKERS"
    SHRINK_BATCH = "SHRINK_BATCH"
    KEPT_BY_COMMAND = "KEPT_BY_COMMAND"
    DRAINED_BY_COMMAND = "DRAINED_BY_COMMAND"
    STOPPING = "STOPPING"
    DISABLED_BY_HAND = "DISABLED_BY_HAND"
    ENABLED_BY_HAND = "ENABLED_BY_HAND"
    DRAINING = "DRAINING"
    SETTLING = "SETTLING"
    EMPTY = "EMPTY"
    NEEDED_AGAIN = "NEEDED_AGAIN"
    BOOTING = "BOOTING"
    BOOTED = "BOOTED"
    JOINING = "JOINING"
    JOINED = "JOINED"
    LACKING = "LACKING"
    BOOT_FAILED = "BOOT_FAILED"
    BOOT_TIMEOUT = "BOOT_TIMEOUT"
    JOIN_TIMEOUT = "JOIN_TIMEOUT"
    LACKING_TIMEOUT = "LACKING_TIMEOUT"
    REMOVED_FROM_GRID_ENGINE = "REMOVED_FROM_GRID_ENGINE"
    ENDING = "ENDING"
    IN_SERVICE = "IN_SERVICE"
    INSTANCE_IN_ERROR = "INSTANCE_IN_ERROR"
    BLACK_HOLE = "BLACK_HOLE"
    SICK = "SICK"
    SUSPECT = "SUSPECT"
    ONE_OWNER = "ONE_OWNER"
    QUARANTINE_FULL = "QUARANTINE_FULL"
    UNHEARD = "UNHEARD"
    GONE = "GONE"
    UNKNOWN_ARRAY = "UNKNOWN_ARRAY"
    NAME_TAKEN = "NAME_TAKEN"
    UNKNOWN_WORKER = "UNKNOWN_WORKER"
    ORPHAN_ENDED = "ORPHAN_ENDED"
    NOT_LISTED = "NOT_LISTED"
    NAME_AWAITED = "NAME_AWAITED"

    # -- groups of workers: made, held back, kept and let go as a whole ------------------------------------
    GROUP_LAUNCHED = "GROUP_LAUNCHED"
    GROUP_TOO_LARGE = "GROUP_TOO_LARGE"
    GROUP_LOST = "GROUP_LOST"
    GROUP_INCOMPLETE = "GROUP_INCOMPLETE"
    GROUP_GIVEN_BACK = "GROUP_GIVEN_BACK"
    GROUP_NOT_WANTED = "GROUP_NOT_WANTED"
    GROUP_WHOLE = "GROUP_WHOLE"
    GROUP_IN_USE = "GROUP_IN_USE"
    GROUP_LEAVES = "GROUP_LEAVES"
    GROUP_STAYS = "GROUP_STAYS"

    # -- workers that fell silent, are about to be taken, or are gone --------------------------------------
    SILENT = "SILENT"
    ALL_SILENT = "ALL_SILENT"
    HEARD_AGAIN = "HEARD_AGAIN"
    FENCED = "FENCED"
    FENCE_CALLED_OFF = "FENCE_CALLED_OFF"
    UNLISTED_AND_SILENT = "UNLISTED_AND_SILENT"
    INTERRUPTED = "INTERRUPTED"
    ENDED_BEFORE_TAKEN = "ENDED_BEFORE_TAKEN"
    ADVISED_TO_LEAVE = "ADVISED_TO_LEAVE"
    NOTICE_WITHDRAWN = "NOTICE_WITHDRAWN"
    RELEASED = "RELEASED"
    TAKEN = "TAKEN"
    LOST_JOBS = "LOST_JOBS"
    LOST_JOBS_FORCED = "LOST_JOBS_FORCED"
    LOST_JOBS_DELETED = "LOST_JOBS_DELETED"
    LOST_JOBS_STAY = "LOST_JOBS_STAY"
    LOST_JOBS_ASKED = "LOST_JOBS_ASKED"
    NAMESAKE_AWAITED = "NAMESAKE_AWAITED"
    JOBS_IN_DOUBT = "JOBS_IN_DOUBT"
    DELETED_BY_OWNER = "DELETED_BY_OWNER"
    PARTLY_ALIVE = "PARTLY_ALIVE"
    ENDED_EVERYWHERE = "ENDED_EVERYWHERE"

    # -- growth: launches, caps and buckets --------------------------------------------------------------
    DEMAND = "DEMAND"
    MIN_WORKERS_FLOOR = "MIN_WORKERS_FLOOR"
    LAUNCH_WANTED = "LAUNCH_WANTED"
    NOTHING_TO_LAUNCH = "NOTHING_TO_LAUNCH"
    CAPPED = "CAPPED"
    BATCHED = "BATCHED"
    BATCH_DELAY = "BATCH_DELAY"
    BUCKET_CHOSEN = "BUCKET_CHOSEN"
    BUCKET_RESTING = "BUCKET_RESTING"
    BUCKET_NOT_ALLOWED = "BUCKET_NOT_ALLOWED"
    BUCKET_UNAVAILABLE = "BUCKET_UNAVAILABLE"
    BUCKET_TOO_SMALL = "BUCKET_TOO_SMALL"
    BUCKET_NOT_BY_RULES = "BUCKET_NOT_BY_RULES"
    BUCKET_NO_PRICE = "BUCKET_NO_PRICE"
    BUCKET_TOO_EARLY = "BUCKET_TOO_EARLY"
    BUCKET_TOO_DEAR = "BUCKET_TOO_DEAR"
    BUCKET_NOT_PREFERRED = "BUCKET_NOT_PREFERRED"
    LAUNCH_REPLACES = "LAUNCH_REPLACES"
    SWAP = "SWAP"
    SWAP_CALLED_OFF = "SWAP_CALLED_OFF"
    SWAP_CONSIDERED = "SWAP_CONSIDERED"
    SWAP_UNDER_WAY = "SWAP_UNDER_WAY"
    SWAP_RESTS = "SWAP_RESTS"
    SWAP_OFF = "SWAP_OFF"
    NO_SWAP = "NO_SWAP"
    NODE_ARRAY_STOPPED = "NODE_ARRAY_STOPPED"

    # -- requests of callers ---------------------------------------------------------------------------------
    REQUESTED = "REQUESTED"
    NODE_WANTED = "NODE_WANTED"
    CREATED_NODE = "CREATED_NODE"
    ASKED_TO_STOP = "ASKED_TO_STOP"
    NO_SUCH_ARRAY = "NO_SUCH_ARRAY"
    TYPES_NOT_OFFERED = "TYPES_NOT_OFFERED"

    # -- rules: why a node was or was not taken ------------------------------------------------------------
    LACKS_RESOURCE = "LACKS_RESOURCE"
    RESOURCE_SHORT = "RESOURCE_SHORT"
    RESOURCE_DIFFERS = "RESOURCE_DIFFERS"
    NO_ALTERNATIVE = "NO_ALTERNATIVE"
    SEVERAL_ALTERNATIVES = "SEVERAL_ALTERNATIVES"
    MEETS_EXCLUDED = "MEETS_EXCLUDED"
    NODE_IN_USE = "NODE_IN_USE"
    NODE_TAKEN = "NODE_TAKEN"
    IN_PLACEMENT_GROUP = "IN_PLACEMENT_GROUP"
    IN_NO_PLACEMENT_GROUP = "IN_NO_PLACEMENT_GROUP"
    NEVER = "NEVER"
    SHARED_SHORT = "SHARED_SHORT"
    SHARED_DIFFERS = "SHARED_DIFFERS"
    NO_MORE_OF_IT = "NO_MORE_OF_IT"
    RULES_FORBID = "RULES_FORBID"
    NOT_BY_RULES = "NOT_BY_RULES"
    ONLY_RULES = "ONLY_RULES"
    KEPT_BY_RULES = "KEPT_BY_RULES"
    KEPT_BY_REQUEST = "KEPT_BY_REQUEST"

    # -- the pass as a whole -----------------------------------------------------------------------------
    PAUSED = "PAUSED"
    BRAKE = "BRAKE"
    SET_ASIDE = "SET_ASIDE"
    NOT_OBSERVABLE = "NOT_OBSERVABLE"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code, its facts in a stable order, and what led to it or was added to it."""

    code: Code
    facts: tuple[tuple[str, Fact], ...] = ()
    trail: tuple[Reason, ...] = ()

    def __getitem__(self, name: str) -> Fact:
        for key, value in self.facts:
            if key == name:
                return value
        raise KeyError(name)

    def then(self, reason: Reason) -> Reason:
        """The same reason with one more link in its trail (a cap, a batch limit)."""
        return Reason(self.code, self.facts, (*self.trail, reason))


def because(code: Code, **facts: Fact) -> Reason:
    """Build a reason as a sentence is spoken: `because(Code.IDLE, idle_s=660, limit_s=600)`."""
    return Reason(code, tuple(facts.items()))
