"""Reasons of jobs that nothing allowed can run: the proof, the action on them, and what would let them run."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Jobs that nothing allowed can run"

ROWS = {
    Code.TOO_LARGE_FOR_ONE_HOST: ReasonRow(
        "it requests {slots} slots on one host[; the largest allowed is {largest} with {most}]",
        short="too large for one host",
        remedy="Allow larger types.",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for fewer.",
    ),
    Code.TOO_MANY_SLOTS: ReasonRow(
        "it requests {slots} slots; all allowed hosts together have {most} ({workers} workers, the largest {largest})",
        short="too many slots",
        remedy="Raise the cap that is named.",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for fewer.",
    ),
    Code.TOO_MANY_HOSTS: ReasonRow(
        "it requests {hosts} hosts with {slots} slots on each; at most {most} are allowed",
        short="too many hosts",
        remedy="Raise the cap that is named.",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for fewer.",
    ),
    Code.TOO_MUCH_ON_ONE_HOST: ReasonRow(
        "it requests {resource}={requested}[ for each of {slots} slots, {together} together,] on one host; the most "
        "allowed is {largest} with {most}",
        short="too much on one host",
        remedy="Allow larger types.",
        owner_remedy="`qalter -l` asks for less (name all requests again).",
    ),
    Code.TOO_MUCH_TOGETHER: ReasonRow(
        "it requests {resource}={requested}[ for each of {slots} slots], more than all allowed hosts have together",
        short="too much together",
        remedy="Raise the cap that is named.",
        owner_remedy="`qalter -l` asks for less (name all requests again).",
    ),
    Code.NO_SUCH_RESOURCE: ReasonRow(
        "it requests {resource}={requested}, which no allowed worker has",
        short="no such resource",
        remedy="Allow types that have it.",
        owner_remedy="`qalter -l` asks without it (name all requests again).",
    ),
    Code.NO_SUCH_HOST: ReasonRow(
        "it requests a host with {requested}; no allowed worker is such a host[ (they have {offered})]",
        short="no such host",
        remedy="Allow instance types that meet it.",
        owner_remedy="Change the request by `qalter -l`.",
    ),
    Code.WOULD_FIT_WITH_SETTING: ReasonRow("[request `{request}` or ]set {limit_setting}[ to {to}]"),
    Code.SETTING_NEEDED_TOO: ReasonRow("and {limit_setting} to {to} as well"),
    Code.WOULD_FIT_WITH_REQUEST: ReasonRow("request `{request}`"),
    Code.UNPROVEN: ReasonRow(
        "not proven unsatisfiable: left alone", remedy="The line below says why; `qdel JOB` if you know better."
    ),
    Code.FITS_WHEN_FREE: ReasonRow("an existing host could run it once it is empty"),
    Code.MIXED_TYPES: ReasonRow(
        "workers of several types together might run it, but the autoscaler does not launch such a mix for it",
        remedy="Ask for less, or raise the limits so that workers of one type do.",
    ),
    Code.QUEUE_NOT_NAMED: ReasonRow(
        "workers of {queues} could run it, but are launched only for jobs that name that queue",
        short="queue not named",
        remedy="Set `CP_CAP_SGE_QUEUE_DEFAULT` of that queue (with its suffix) to `true`.",
        owner_remedy="`qalter -q QUEUE JOB` names that queue.",
    ),
    Code.OTHER_PE: ReasonRow(
        "a queue that is not autoscaled has the parallel environment {pe}",
        remedy="Name one parallel environment with `qalter -pe`.",
    ),
    Code.NAMES_HOST_OR_QUEUE: ReasonRow(
        "it names a host, or a queue that is not autoscaled ({named})",
        remedy="`qalter -q` or `-l` without the host or queue lets it run elsewhere.",
    ),
    Code.UNPREDICTABLE_RESOURCE: ReasonRow(
        "the value of {resource} on a new worker is not known before it joins",
        remedy="If workers will not have it: `qalter -l` without it, or `qdel JOB`.",
    ),
    Code.ONLY_FORCED: ReasonRow("its only fault is a missing request, which its owner can add: left alone"),
    Code.SILENT_HOSTS: ReasonRow(
        "the value of {resource} on {hosts} is not known: qmaster has no load report from it",
        remedy="Start the `sge_execd` of those hosts, or remove them (`qconf -de`) if they are gone.",
    ),
    Code.TOO_MANY_PROBE_HOSTS: ReasonRow("Grid Engine cannot be asked: that would take more than {most} probe hosts"),
    Code.RUNNING_TASKS: ReasonRow("tasks of it run"),
    Code.CHECKED_AGAIN_LATER: ReasonRow("this was found only a moment ago, and is checked again at {again_at}"),
    Code.ASKING_GRID_ENGINE: ReasonRow("the autoscaler asks Grid Engine whether it could ever run"),
    Code.OLDER_JOBS_FIRST: ReasonRow("the autoscaler asks Grid Engine about older jobs first"),
    Code.NO_ANSWER: ReasonRow(
        "Grid Engine gave no answer[ ({said})]; the autoscaler asks again at {again_at}",
        remedy="If it stays so: `sge-autoscaler doctor`, and `qalter -w v JOB`.",
    ),
    Code.GRID_ENGINE_DISAGREES: ReasonRow(
        "Grid Engine says that it could run ({said})",
        remedy="Please report it with `sge-autoscaler record`: either side counts wrongly.",
    ),
    Code.ASKED_BESIDE_WORKERS: ReasonRow(
        "Grid Engine cannot rule it out while workers are there: it counts their {present} slots beside the {most} of "
        "all that is allowed",
        remedy="Once these workers have left, it is asked again, and a `no suitable queues` then counts. `qdel JOB` if "
        "you know better.",
    ),
    Code.UNSATISFIABLE: ReasonRow("Grid Engine says so too: {said}"),
    Code.UNSATISFIABLE_REPORTED: ReasonRow(
        "the autoscaler only reports such jobs", remedy="`CP_CAP_AUTOSCALE_DEADLOCK` set to hold or kill does more."
    ),
    Code.UNSATISFIABLE_DELETED: ReasonRow(
        "so the autoscaler deletes it",
        remedy="Change the request as the sentence says and submit again; "
        "`CP_CAP_AUTOSCALE_DEADLOCK=hold` keeps such jobs.",
    ),
    Code.UNSATISFIABLE_HELD: ReasonRow(
        "the autoscaler holds it until it can run",
        short="held as unsatisfiable",
        remedy="Change the request as the sentence says (`qalter`), and it is released; or `qdel JOB`.",
    ),
    Code.UNSATISFIABLE_LIMIT: ReasonRow(
        "the autoscaler deletes or holds at most {most} such jobs of an owner in a pass"
    ),
    Code.UNSATISFIABLE_OWNER_LIMIT: ReasonRow(
        "{most} jobs of {owner} were deleted or held within {window_s}: further ones are left alone until some of that "
        "time has passed",
        short="enough jobs of {owner} were deleted or held",
        remedy="Nothing: it goes on by itself. `CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_KILLS` sets the number.",
    ),
    Code.RELEASED_BY_HAND: ReasonRow(
        "a person released it after the autoscaler had held it", remedy="It is not held again."
    ),
    Code.SATISFIABLE_AGAIN: ReasonRow("workers that are allowed now could run it", short="satisfiable again"),
    Code.WAITS_NO_MORE: ReasonRow("it waits no more"),
    Code.HOLDING_OFF: ReasonRow("the autoscaler no longer holds such jobs", short="no longer held"),
}
