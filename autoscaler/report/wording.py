"""The sentence of every reason: a template a code, filled with the reason's facts, what was added to it following.

`{fact}` is filled in, durations (`…_s`), times (`…_at`) and lists in people's notation. What stands in square
brackets is left out where one of its facts is missing or unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from autoscaler.core.reasons import Code, Fact, Reason

TEMPLATES: Mapping[Code, str] = MappingProxyType(
    {
        Code.QUEUE_DEMAND_OFF: "it waits for a worker that is there or asked for: waiting jobs launch none themselves",
        Code.COUNTED: "it counts, but only a host that it names can run it",
        Code.FITS: "it fits on what is free now",
        Code.WAITS_FOR_COMING: "{tasks} can start on workers that are coming",
        Code.NOT_EXPIRED: "{lacking} can start nowhere yet; a worker is launched when it has waited {limit_s}",
        Code.EXPIRED: "{lacking} can start nowhere, and their queue has waited {limit_s} or more",
        Code.HELD: "it is held (state {state})",
        Code.DEPENDENT: "it waits for other jobs to end (state {state})",
        Code.FUTURE: "it must not start before {start_at}",
        Code.IN_ERROR: "it is in error (state {state})",
        Code.BEYOND_CONCURRENCY: "its array lets only {limit} tasks run at once",
        Code.BEYOND_QUOTA: "the quota {quota} ({limit}) is used up by jobs that run or wait longer",
        Code.BEYOND_GLOBAL: "of {resource} only {left} is left, and jobs that wait longer take it",
        Code.FOREIGN_QUEUE: "no autoscaled queue would take it[ (it may use {queues})]",
        Code.FOREIGN_HOST: "it asks for a host that is not ours ({hosts})",
        Code.NOT_LOOKED_AT: "Grid Engine has not been asked about it yet",
        Code.UNKNOWN_STATE: "its state {state} is not known",
        Code.UNKNOWN_PE: "no parallel environment {pe} of the queues {queues} takes {slots} slots",
        Code.GROUP_PE_BY_NAME: "jobs of {pe} run inside one group of workers, and only {wildcard} finds all groups",
        Code.GROUP_NOT_ASKED: "Grid Engine is not asked about jobs that stay inside one group",
        Code.UNKNOWN_RESOURCE: "it asks for {resource}, which is not known",
        Code.NO_TYPE_FITS: "it asks {slots} slots[ on {where}]; the largest worker allowed has {largest}, and at most "
        "{workers} are allowed[; asked besides: {besides}]",
        Code.NO_INSTANCE_TYPE: "the provider knows no instance type for workers of {node_array}[; {asked} is set]",
        Code.NO_WORKER_ALLOWED: "no worker of {node_array} may be launched",
        Code.RESTRICTED_QUEUE: "{queue} does not take such jobs ({by})",
        Code.TOO_LARGE_FOR_ONE_HOST: "it asks {slots} slots on one host[; the largest allowed is {largest} with "
        "{most}]",
        Code.TOO_MANY_SLOTS: "it asks {slots} slots; all that is allowed together has {most} ({workers} workers, the "
        "largest {largest})",
        Code.TOO_MANY_HOSTS: "it asks {hosts} hosts with {slots} slots on each; at most {most} are allowed",
        Code.TOO_MUCH_ON_ONE_HOST: "it asks {resource}={asked}[ for each of {slots} slots, {together} together,] on "
        "one host; the most allowed is {largest} with {most}",
        Code.TOO_MUCH_TOGETHER: "it asks {resource}={asked}[ for each of {slots} slots], more than all that is allowed "
        "has together",
        Code.NO_SUCH_RESOURCE: "it asks {resource}={asked}, which no allowed worker has",
        Code.NO_SUCH_HOST: "it asks for a host with {asked}; no allowed worker is one[ (they have {offered})]",
        Code.WAY_OUT: "[ask `{ask}` or ]set {limit_setting}[ to {to}]",
        Code.WAY_OUT_ASK: "ask `{ask}`",
        Code.UNPROVEN: "that it can never run is not certain, so it is left alone",
        Code.FITS_WHEN_FREE: "a host that is there could run it once nothing else runs there",
        Code.MIXED_TYPES: "workers of several types together might run it, and are not launched for it",
        Code.OTHER_PE: "a queue that is not autoscaled has the parallel environment {pe}",
        Code.NAMES_PLACE: "it names a host, or a queue that is not autoscaled ({named})",
        Code.UNPREDICTABLE: "what a worker will have of {resource} is not known before",
        Code.SILENT_HOSTS: "what {hosts} would report as {resource} is not known: Grid Engine hears nothing of it",
        Code.TOO_MANY_PHANTOMS: "Grid Engine cannot be asked: more than {most} hosts would have to be made up for it",
        Code.RUNNING_TASKS: "tasks of it run",
        Code.JUST_SEEN: "it was found so only a moment ago, and is looked at again at {again_at}",
        Code.ASKING: "Grid Engine is asked whether it could ever run",
        Code.ASKED_LATER: "Grid Engine is asked about older jobs first",
        Code.NO_ANSWER: "Grid Engine gave no answer[ ({said})] and is asked again at {again_at}",
        Code.SAID_POSSIBLE: "Grid Engine says that it could run ({said})",
        Code.IMPOSSIBLE: "Grid Engine says so too: {said}",
        Code.IMPOSSIBLE_REPORTED: "such jobs are only reported",
        Code.DELETED_AS_IMPOSSIBLE: "so it is deleted",
        Code.HELD_AS_IMPOSSIBLE: "it is held until it can run",
        Code.MORE_IMPOSSIBLE: "no more than {most} such jobs are touched in a pass",
        Code.RELEASED_BY_HAND: "a person released it after we held it",
        Code.POSSIBLE_AGAIN: "workers that are allowed now could run it",
        Code.HOLD_NOT_WISHED: "such jobs are not held any more",
        Code.PERSISTENT: "it is a persistent worker",
        Code.MASTER: "it is the master",
        Code.RUNS_JOBS: "it runs jobs {jobs}",
        Code.RESERVED: "slots on it are in use or reserved",
        Code.NEEDED: "waiting jobs can use it",
        Code.IDLE: "it was idle[ for {idle_s}, {limit_s} is the limit]",
        Code.IDLE_NOT_LONG_ENOUGH: "it is idle for {idle_s}, {limit_s} is the limit",
        Code.QUEUE_NOT_EMPTY: "the autoscaled queues have not been empty for {limit_s}",
        Code.MIN_WORKERS: "at least {min_workers} workers stay",
        Code.SHRINK_BATCH: "no more than {batch} leave at a time",
        Code.KEPT_BY_COMMAND: "a person keeps it",
        Code.DRAINED_BY_COMMAND: "a person drains it",
        Code.STOPPING: "the autoscaler was told to stop[ ({how})] and releases its workers",
        Code.DISABLED_BY_HAND: "a person disabled it",
        Code.ENABLED_BY_HAND: "a person enabled it again",
        Code.DRAINING: "it lets no further job in",
        Code.SETTLING: "it is looked at once more before the next step",
        Code.EMPTY: "two looks showed it disabled and empty",
        Code.NEEDED_AGAIN: "waiting jobs can use it after all",
        Code.BOOTING: "its {type} is booting[, {limit_s} is the limit]",
        Code.BOOTED: "its machine is up after {after_s}",
        Code.JOINING: "Grid Engine does not hear it yet",
        Code.JOINED: "Grid Engine hears it, {after_s} after it was made",
        Code.LACKING: "it joined by its own image, which does not give it {lacks}",
        Code.BOOT_FAILED: "its machine will never be up[: {message}]",
        Code.BOOT_TIMEOUT: "its machine was not up within {limit_s}[: {message}]",
        Code.JOIN_TIMEOUT: "Grid Engine did not hear it[ within {limit_s}][: {message}]",
        Code.LACKING_TIMEOUT: "Grid Engine did not show {lacks} on it within {limit_s}",
        Code.REMOVED_FROM_GRID_ENGINE: "it is no execution host any more",
        Code.ENDING: "its machine is ending",
        Code.IN_SERVICE: "it is in service",
        Code.INSTANCE_IN_ERROR: "a queue instance on it is in error: no job enters",
        Code.BLACK_HOLE: "{failures} starts of jobs {jobs} failed on it one after another, and none ran: {said}",
        Code.SICK: "its health check has found it sick since {since_at}[: {message}]",
        Code.SUSPECT: "[{workers}: ]suspected to be broken, and left in service",
        Code.ONE_OWNER: "all these jobs are {owner}'s, and none of that owner's ran elsewhere meanwhile: it may be the "
        "jobs",
        Code.QUARANTINE_FULL: "no more than {most} may be quarantined within {window_s}: where {count} are found "
        "broken, it is hardly the hosts' own doing",
        Code.UNHEARD: "Grid Engine does not hear it; its jobs may well run on",
        Code.GONE: "its provider says that it is gone",
        Code.UNKNOWN_ARRAY: "its node array {node_array} is not one of ours",
        Code.NAME_TAKEN: "a newer machine has its name in Grid Engine",
        Code.UNKNOWN_WORKER: "neither an order nor an earlier look knows it; a running autoscaler takes it over",
        Code.ORPHAN_ENDED: "{by} ends it, which nobody manages",
        Code.NOT_LISTED: "its provider does not list it now",
        Code.NAME_AWAITED: "an older machine's entry in Grid Engine still has its name",
        Code.GROUP_LAUNCHED: "group {group}: {workers} {type}",
        Code.GROUP_TOO_LARGE: "a group of {workers} {type} is launched whole or not at all",
        Code.GROUP_LOST: "group {group} has only {have} of its workers left",
        Code.GROUP_INCOMPLETE: "its group {group} takes no job before all are ready: {ready} of {want} are",
        Code.GROUP_GIVEN_BACK: "its group {group} has {have} of {want} workers and cannot be completed[: {message}]",
        Code.GROUP_NOT_WANTED: "its group {group} is not complete, and not wanted any more",
        Code.GROUP_WHOLE: "its group {group} is whole without it",
        Code.GROUP_IN_USE: "a job runs in its group {group}",
        Code.GROUP_LEAVES: "its group {group} leaves as a whole",
        Code.GROUP_STAYS: "its group {group} leaves as a whole, and {others} neither asked to stop of late nor was "
        "idle for long enough",
        Code.SILENT: "Grid Engine has not heard it for {silent_s}, {limit_s} is the limit; its jobs may well run on",
        Code.ALL_SILENT: "Grid Engine hears no host at all, which may be the master's own doing",
        Code.HEARD_AGAIN: "Grid Engine hears it again",
        Code.FENCED: "silent for {silent_s}, {limit_s} is the limit: its machine is ended, and its jobs are touched "
        "when its provider says that it is gone",
        Code.FENCE_CALLED_OFF: "it was to be ended, but runs on and is heard",
        Code.UNLISTED_AND_SILENT: "its provider has not listed it for {missing_s}, nor has Grid Engine heard it: its "
        "end is asked for, so that it is certain",
        Code.INTERRUPTED: "its cloud takes it at {ends_at} ({kind})[; it runs jobs {jobs}]",
        Code.ENDED_BEFORE_TAKEN: "its cloud takes it at {ends_at}, and all it runs (jobs {jobs}) may start again: it "
        "is ended in time for that",
        Code.ADVISED_TO_LEAVE: "its cloud advises to move away from it, and nothing needs it",
        Code.NOTICE_WITHDRAWN: "its cloud does not take it after all",
        Code.RELEASED: "its machine shut itself down",
        Code.TAKEN: "its cloud takes it back",
        Code.LOST_JOBS: "jobs {jobs} ended with it and may start again",
        Code.LOST_JOBS_FORCED: "jobs {jobs} ended with it: started again by CP_CAP_AUTOSCALE_LOST_JOBS",
        Code.LOST_JOBS_DELETED: "jobs {jobs} ended with it and may not start again: deleted by "
        "CP_CAP_AUTOSCALE_LOST_JOBS",
        Code.LOST_JOBS_STAY: "jobs {jobs} ended with it and may not start again: listed as running until deleted",
        Code.NAMESAKE_AWAITED: "jobs {jobs} are left alone while Grid Engine hears this name: a machine that was "
        "ordered and is not listed yet may bear it",
        Code.LOST_JOBS_ASKED: "Grid Engine is asked whether jobs {jobs} may start again",
        Code.JOBS_IN_DOUBT: "jobs {jobs} on {host} may have begun on a machine of that name that is gone: nobody knows "
        "whether they still run",
        Code.DELETED_BY_OWNER: "jobs {jobs} had been deleted already, and can only end by force",
        Code.PARTLY_ALIVE: "jobs {jobs} ran there, and may run on where hosts live ({hosts})",
        Code.ENDED_EVERYWHERE: "they have had the time to end on {hosts}, where a part of them still ran",
        Code.DEMAND: "{tasks} tasks of {queue} with {slots} slots can start nowhere",
        Code.MIN_WORKERS_FLOOR: "{node_array} keeps at least {min_workers} workers",
        Code.LAUNCH_WANTED: "wanted {workers} {type}",
        Code.NOTHING_TO_LAUNCH: "{node_array} has no instance type that can be launched for it[; asked for: {asked}]",
        Code.CAPPED: "capped by {cap} ({limit})",
        Code.BATCHED: "no more than {batch} at a time",
        Code.BATCH_DELAY: "{node_array} launched less than {delay_s} ago",
        Code.BUCKET_CHOSEN: "{count} {type} serve the demand best",
        Code.BUCKET_RESTING: "{type} rests until {until_at} after {failures} failures[: {message}]",
        Code.BUCKET_NOT_ALLOWED: "[{price_type} ]{type} is not allowed in this node array",
        Code.BUCKET_UNAVAILABLE: "{type} cannot be had: {message}",
        Code.BUCKET_NOT_BY_RULES: "{type} is not what rules allow for what waits ({places})",
        Code.BUCKET_TOO_SMALL: "{type} would run nothing of what waits",
        Code.BUCKET_NO_PRICE: "the price of {type} is not known, and there is a price cap",
        Code.BUCKET_TOO_EARLY: "{price_type} {type} is taken only when what waits could have run for {deadline_s}",
        Code.BUCKET_TOO_DEAR: "{price_type} {type} costs {price} an hour; beside {preferred} at most {most} is allowed",
        Code.BUCKET_NOT_PREFERRED: "{preferred} is preferred to {type}",
        Code.LAUNCH_REPLACES: "it replaces {worker}",
        Code.SWAP: "it makes room for a stronger worker[: {type}; tasks that need it: {tasks}]",
        Code.SWAP_CALLED_OFF: "it need not make room for a stronger worker any more",
        Code.SWAP_CONSIDERED: "room for {type} could be made by {workers}, and is looked at once more first",
        Code.SWAP_UNDER_WAY: "room for {type} is made by {workers}",
        Code.SWAP_RESTS: "{node_array} swapped a worker less than {limit_s} ago, the time that a boot takes",
        Code.SWAP_OFF: "swapping a worker of {node_array} for a stronger one is off",
        Code.NO_SWAP: "no worker of {node_array} could make room for a stronger one without more loss than gain",
        Code.NODE_ARRAY_STOPPED: "{node_array} launches nothing until resumed: {message}",
        Code.REQUESTED: "{sets} asked for workers of {node_array}[ ({workers} workers)][ ({cores} vCPUs)]"
        "[ ({groups} groups)]",
        Code.NODE_WANTED: "created nodes of {node_array} have no worker yet: {nodes}",
        Code.CREATED_NODE: "it serves the created node {node}",
        Code.ASKED_TO_STOP: "it asked to stop, and nothing needs it",
        Code.NO_SUCH_ARRAY: "{by} asks for workers of {node_array}, which is no node array",
        Code.TYPES_NOT_OFFERED: "nothing that is asked for {node_array} is offered: {asked}[; asked by {sets}]"
        "; requests get no worker of it, and jobs what the settings allow",
        Code.LACKS_RESOURCE: "it has no {resource}",
        Code.RESOURCE_SHORT: "of {resource} it has {left} left of {whole}, and {asked} is asked",
        Code.RESOURCE_DIFFERS: "its {resource} is {value}, and {asked} is asked",
        Code.NO_ALTERNATIVE: "it meets no alternative of {count}",
        Code.SEVERAL_ALTERNATIVES: "it meets several alternatives where only one may be met: {alternatives}",
        Code.MEETS_EXCLUDED: "it meets what it must not: {excluded}",
        Code.NODE_IN_USE: "it is to be had alone, but {jobs} is on it",
        Code.NODE_TAKEN: "{job} has it to itself",
        Code.IN_PLACEMENT_GROUP: "it is in the placement group {placement_group}, and must be in none",
        Code.IN_NO_PLACEMENT_GROUP: "it is in no placement group, and must be in one",
        Code.NEVER: "{message}",
        Code.SHARED_SHORT: "of {resource}, which all share, {left} of {whole} are left, and {asked} is asked",
        Code.SHARED_DIFFERS: "{resource} is {value} for all, and {asked} is asked",
        Code.NO_MORE_OF_IT: "no more of it can be had",
        Code.RULES_FORBID: "rules allow no worker that could be had ({places})",
        Code.NOT_BY_RULES: "not {node}",
        Code.ONLY_RULES: "only rules are against it, and Grid Engine would run it: it is left alone",
        Code.KEPT_BY_RULES: "rules keep it alive",
        Code.KEPT_BY_REQUEST: "{sets} asked to keep the workers of {node_array} alive",
        Code.PAUSED: "paused[ by {by}]",
        Code.BRAKE: "{count} {what} within {window_s} are more than the {most} allowed; nothing is launched or removed "
        "until `sge-autoscaler resume`",
        Code.SET_ASIDE: "{what} set aside: {why}",
        Code.NOT_OBSERVABLE: "not observable: {why}",
    }
)

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "max_workers": "CP_CAP_AUTOSCALE_WORKERS",
        "max_cores": "CP_CAP_AUTOSCALE_MAX_CORES",
        "max_price_per_hour": "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        "max_cores_per_worker": "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE",
        "instance_type": "CP_CAP_AUTOSCALE_INSTANCE_TYPE",
        "family": "CP_CAP_AUTOSCALE_HYBRID_FAMILY",
    }
)
"""By field of the policy, the setting that an operator changes."""

_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_FACT = re.compile(r"\{(\w+)\}")
_ONE = re.compile(r"(?<![\w.,:=-])1 (core|group|host|job|slot|task|vCPU|worker)s\b")


def text(reason: Reason) -> str:
    """The sentence of a reason and, after semicolons, those of its trail."""
    facts = dict(reason.facts)
    sentence = _OPTIONAL.sub(lambda found: _optional(found[1], facts), TEMPLATES[reason.code])
    jobs = facts.get("jobs")
    if isinstance(jobs, tuple) and len(jobs) == 1:
        sentence = sentence.replace("jobs {jobs}", "job {jobs}")
    sentence = _ONE.sub(r"1 \1", _FACT.sub(lambda found: shown(found[1], facts.get(found[1])), sentence))
    return "; ".join((sentence, *(text(link) for link in reason.trail)))


def facts_of(code: Code) -> tuple[frozenset[str], frozenset[str]]:
    """The facts a code's sentence needs, and those it can do without."""
    optional = frozenset(name for part in _OPTIONAL.findall(TEMPLATES[code]) for name in _FACT.findall(part))
    return frozenset(_FACT.findall(_OPTIONAL.sub("", TEMPLATES[code]))), optional


def shown(name: str, value: Fact) -> str:
    """A fact as people read it."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_setting") and isinstance(value, tuple):
        return _setting(*value)
    if isinstance(value, tuple):
        return ", ".join(value) if value else "none"
    if isinstance(value, str):
        return value
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_at"):
        return instant(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _setting(limit: str, node_array: str) -> str:
    """The setting's name, with the suffix of the queue whose node array is meant (`execute_1`)."""
    suffix = node_array.partition("_")[2]
    return SETTINGS[limit] + (f"_{suffix}" if suffix.isdigit() else "")


def instant(seconds: float) -> str:
    """A moment, given as Unix seconds, as every sentence says it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Two units at most: `0.5s`, `30s`, `2m30s`, `11m`, `1h05m`, `3h`, `2d`."""
    whole = round(seconds)
    if 0 < abs(seconds) < 1:
        return f"{seconds:.1g}s"
    if abs(whole) < 60:
        return f"{whole}s"
    if whole < 600 and whole % 60:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        minutes = whole % 3600 // 60
        return f"{whole // 3600}h" + (f"{minutes:02}m" if minutes else "")
    return f"{whole // 86_400}d"


def _optional(part: str, facts: dict[str, Fact]) -> str:
    """A bracketed part, where all its facts are known and not empty."""
    return part if all(facts.get(name) not in (None, "", ()) for name in _FACT.findall(part)) else ""
