"""A reason in two or three words, for the one sentence a pass is told in; `wording` has the whole sentences.

Every phrase also exists without its durations: two passes that differ in those only say the same.
"""

from __future__ import annotations

from autoscaler.core.reasons import Code, Fact, Reason
from autoscaler.report.wording import duration, shown, text

_WORDS: dict[Code, str] = {
    Code.RUNS_JOBS: "busy",
    Code.RESERVED: "reserved",
    Code.IDLE: "idle",
    Code.IDLE_NOT_LONG_ENOUGH: "idle",
    Code.BOOTING: "booting",
    Code.JOINING: "joining",
    Code.SETTLING: "second look due",
    Code.DRAINING: "draining",
    Code.DISABLED_BY_HAND: "disabled by hand",
    Code.ENABLED_BY_HAND: "enabled by hand",
    Code.KEPT_BY_COMMAND: "kept by command",
    Code.KEPT_BY_RULES: "kept by rules",
    Code.KEPT_BY_REQUEST: "kept by request",
    Code.DRAINED_BY_COMMAND: "drained by command",
    Code.STOPPING: "stopping",
    Code.EMPTY: "empty",
    Code.NEEDED: "needed",
    Code.NEEDED_AGAIN: "needed again",
    Code.BOOTED: "booted",
    Code.JOINED: "joined",
    Code.LACKING: "to be completed",
    Code.BOOT_FAILED: "failed to boot",
    Code.BOOT_TIMEOUT: "never booted",
    Code.JOIN_TIMEOUT: "never joined",
    Code.LACKING_TIMEOUT: "never complete",
    Code.REMOVED_FROM_GRID_ENGINE: "removed",
    Code.ENDING: "ending",
    Code.INSTANCE_IN_ERROR: "queue instance in error",
    Code.UNHEARD: "not heard",
    Code.SILENT: "silent",
    Code.FENCED: "silent",
    Code.UNLISTED_AND_SILENT: "not listed and silent",
    Code.INTERRUPTED: "its cloud takes it",
    Code.ENDED_BEFORE_TAKEN: "its cloud takes it",
    Code.LOST_JOBS: "its machine is gone",
    Code.LOST_JOBS_FORCED: "its machine is gone",
    Code.LOST_JOBS_DELETED: "its machine is gone",
    Code.LOST_JOBS_STAY: "gone, and its jobs may not start again",
    Code.GONE: "gone",
    Code.UNKNOWN_ARRAY: "node array unknown",
    Code.MIN_WORKERS: "floor",
    Code.NODE_WANTED: "created nodes",
    Code.CREATED_NODE: "created node",
    Code.ASKED_TO_STOP: "asked to stop",
    Code.MIN_WORKERS_FLOOR: "floor",
    Code.SHRINK_BATCH: "one batch at a time",
    Code.QUEUE_NOT_EMPTY: "queues not empty",
    Code.PERSISTENT: "persistent",
    Code.MASTER: "master",
    Code.IN_SERVICE: "in service",
    Code.COUNTED: "counted",
    Code.QUEUE_DEMAND_OFF: "waits for a worker",
    Code.FITS: "fits",
    Code.WAITS_FOR_COMING: "waits for coming workers",
    Code.NOT_EXPIRED: "not expired",
    Code.EXPIRED: "expired",
    Code.DEMAND: "demand",
    Code.BATCHED: "batched",
    Code.NAME_TAKEN: "name taken",
    Code.NOT_LISTED: "not listed",
    Code.LAUNCH_REPLACES: "replaces",
    Code.SWAP_CALLED_OFF: "need not make room any more",
    Code.PAUSED: "paused",
    Code.BRAKE: "brake",
    Code.BATCH_DELAY: "batch delay",
    Code.HELD: "held",
    Code.DEPENDENT: "dependent",
    Code.FUTURE: "future",
    Code.IN_ERROR: "in error",
    Code.BEYOND_CONCURRENCY: "beyond -tc",
    Code.BEYOND_QUOTA: "beyond a quota",
    Code.BEYOND_GLOBAL: "beyond a licence",
    Code.FOREIGN_QUEUE: "foreign queue",
    Code.FOREIGN_HOST: "foreign host",
    Code.NOT_LOOKED_AT: "not looked at",
    Code.UNKNOWN_STATE: "state unknown",
    Code.UNKNOWN_PE: "PE unknown",
    Code.UNKNOWN_RESOURCE: "resource unknown",
    Code.NO_TYPE_FITS: "no type fits",
    Code.NO_INSTANCE_TYPE: "no instance type",
    Code.NO_WORKER_ALLOWED: "no worker allowed",
    Code.RESTRICTED_QUEUE: "restricted queue",
    Code.TOO_LARGE_FOR_ONE_HOST: "too large for one host",
    Code.TOO_MANY_SLOTS: "too many slots",
    Code.TOO_MANY_HOSTS: "too many hosts",
    Code.TOO_MUCH_ON_ONE_HOST: "too much on one host",
    Code.TOO_MUCH_TOGETHER: "too much together",
    Code.NO_SUCH_RESOURCE: "no such resource",
    Code.NO_SUCH_HOST: "no such host",
    Code.HELD_AS_IMPOSSIBLE: "held as impossible",
    Code.POSSIBLE_AGAIN: "possible again",
    Code.HOLD_NOT_WISHED: "no longer held",
}
_AGE = ("idle_s", "age_s", "waited_s", "silent_s")
_LIMIT = ("limit_s", "timeout_s")


def brief(reason: Reason, *, times: bool = True) -> str:
    """A phrase that fits into brackets behind a name: `idle 11m > 10m`, `job 4411 runs`."""
    facts = dict(reason.facts)
    jobs = facts.get("jobs")
    if reason.code is Code.RUNS_JOBS and isinstance(jobs, tuple) and jobs:
        return f"job {jobs[0]} runs" if len(jobs) == 1 else f"{len(jobs)} jobs run"
    if reason.code is Code.LAUNCH_WANTED and "workers" in facts:
        return f"wanted {facts['workers']}"
    if reason.code is Code.CAPPED and "cap" in facts:
        return f"capped by {facts['cap']}"
    if reason.code is Code.KEPT_BY_REQUEST and "sets" in facts:
        return f"kept for {shown('sets', facts['sets'])}"
    if reason.code is Code.REQUESTED:
        return f"asked for by {shown('sets', facts['sets'])}" if "sets" in facts else "asked for"
    if reason.code is Code.BATCHED and "batch" in facts:
        return f"{facts['batch']} at a time"
    words = _WORDS.get(reason.code)
    if words is None:
        return text(Reason(reason.code, reason.facts))
    return words + (_compared(facts, reason.code) if times else "")


def _compared(facts: dict[str, Fact], code: Code) -> str:
    """` 11m > 10m`, ` 20s of 30s`, or only what is known of the two."""
    age = _first(facts, _AGE)
    limit = _first(facts, _LIMIT)
    if age is None:
        return ""
    if limit is None:
        return f" {duration(age)}"
    sign = ">" if age > limit else "≥" if age == limit else "of"
    return f" {duration(age)} {sign} {duration(limit)}"


def _first(facts: dict[str, Fact], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = facts.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None
