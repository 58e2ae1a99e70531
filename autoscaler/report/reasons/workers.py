"""Reasons of workers and other hosts: how they come, serve and leave."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Workers and hosts"

ROWS = {
    Code.PERSISTENT: ReasonRow(
        "it is a persistent host", short="persistent", remedy="It was not launched by us: start and end it as before."
    ),
    Code.HOST_OF_LEFT_WORKER: ReasonRow(
        "it has the name of a worker that has left, and does not report: Grid Engine has it again, as after it was "
        "restored from a copy",
        short="of a worker that has left",
        remedy="If no machine of yours has that name, take it out of its host group (`qconf -mhgrp`), then "
        "`qconf -de HOST`. Jobs that are listed there ended, or run nowhere: `qdel -f JOB`.",
        needs_person=True,
    ),
    Code.QMASTER_HOST: ReasonRow(
        "it is the qmaster host",
        short="master",
        remedy="`CP_CAP_SGE_MASTER_CORES` sets how many of its cores serve jobs.",
    ),
    Code.RUNS_JOBS: ReasonRow("it runs jobs {jobs}", short="busy", listed="keeping"),
    Code.RESERVED: ReasonRow(
        "slots on it are in use or reserved",
        short="reserved",
        remedy="`qrstat` lists advance reservations.",
        listed="keeping",
    ),
    Code.NEEDED: ReasonRow("waiting jobs can use it", short="needed", listed="keeping"),
    Code.IDLE: ReasonRow(
        "it was idle[ for {idle_s} (limit {limit_s})]",
        short="idle",
        remedy="Longer: raise `CP_CAP_AUTOSCALE_IDLE_TIMEOUT`, or `sge-autoscaler keep HOST`.",
    ),
    Code.IDLE_NOT_LONG_ENOUGH: ReasonRow(
        "it is idle for {idle_s} (limit {limit_s})",
        short="idle",
        remedy="Sooner: lower `CP_CAP_AUTOSCALE_IDLE_TIMEOUT`, or `sge-autoscaler drain HOST`.",
        listed="keeping",
    ),
    Code.PAID_FOR: ReasonRow(
        "it is paid for, so it may leave at {until_at}",
        short="paid for",
        remedy="`CP_CAP_AUTOSCALE_BILLING_STEP`, or `sge-autoscaler drain HOST`.",
        listed="keeping",
    ),
    Code.QUEUE_NOT_EMPTY: ReasonRow(
        "the autoscaled queues have not been empty for {limit_s}",
        short="queues not empty",
        remedy="Unset `CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT` to let idle workers leave while others work.",
        listed="keeping",
    ),
    Code.MIN_WORKERS: ReasonRow(
        "at least {min_workers} workers stay",
        short="floor",
        remedy="Lower `CP_CAP_AUTOSCALE_MIN_WORKERS`.",
        listed="keeping",
    ),
    Code.SCALE_DOWN_BATCH: ReasonRow(
        "at most {batch} leave at a time",
        short="one batch at a time",
        remedy="Faster: raise `CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE`.",
        listed="keeping",
    ),
    Code.KEPT_BY_COMMAND: ReasonRow(
        "a person keeps it[: {by}]",
        short="kept by command[ of {by}]",
        remedy="`sge-autoscaler keep --undo HOST` lets it leave when it is idle.",
        listed="keeping",
    ),
    Code.DRAINED_BY_COMMAND: ReasonRow("a person drains it[: {by}]", short="drained by command[ of {by}]"),
    Code.STOPPING: ReasonRow(
        "the autoscaler stops[ ({how})] and releases its workers[: {by}]",
        short="stopping",
        remedy="`sge-autoscaler resume` cancels the stop; that of `platform uninstall` ends with `platform install`.",
        owner_remedy="Ask an administrator: no worker is launched any more.",
    ),
    Code.DISABLED_BY_HAND: ReasonRow(
        "a person disabled it",
        short="disabled by hand",
        remedy="`qmod -e '*@HOST'` puts it back into service, `sge-autoscaler drain HOST` removes it, `stop` waits "
        "for either; it costs money meanwhile.",
        listed="leaving alone",
    ),
    Code.ENABLED_BY_HAND: ReasonRow(
        "a person enabled it again",
        short="enabled by hand",
        remedy="It stays until it is idle again; `sge-autoscaler drain HOST` removes it.",
        listed="leaving alone",
    ),
    Code.DRAINING: ReasonRow("it is disabled: no new job starts there", short="draining", listed="keeping"),
    Code.SECOND_OBSERVATION: ReasonRow(
        "the next step needs one more observation", short="second observation due", listed="waiting for"
    ),
    Code.EMPTY: ReasonRow("two observations showed it disabled and empty", short="empty"),
    Code.COMMAND_UNDONE: ReasonRow("a person took back the command that disabled it", short="command taken back"),
    Code.NEEDED_AGAIN: ReasonRow("waiting jobs can use it after all", short="needed again"),
    Code.BOOTING: ReasonRow("its {type} is booting[ (limit {limit_s})]", short="booting", listed="waiting for"),
    Code.BOOTED: ReasonRow("its machine is up after {after_s}", short="booted"),
    Code.JOINING: ReasonRow(
        "qmaster has no load report from it yet",
        short="joining",
        remedy="If it takes long: is `sge_execd` up there, and does its name resolve both ways? See `doctor`.",
        listed="waiting for",
    ),
    Code.JOINED: ReasonRow("qmaster has load reports from it, {after_s} after it was created", short="joined"),
    Code.INCOMPLETE: ReasonRow("its own image enrolled it without {lacks}", short="to be completed"),
    Code.BOOT_FAILED: ReasonRow(
        "its machine will never be up[: {message}]",
        short="does not come up",
        remedy="The provider's message says why. The bucket counts a failure, and is in backoff after enough of them.",
    ),
    Code.ENDED_BEFORE_JOINING: ReasonRow(
        "its machine ended before it joined[: {message}]",
        short="ended before it joined",
        remedy="Fix the cause in the provider's message (image, key, volume, quota). The bucket counts a failure, and "
        "is in backoff after enough of them.",
    ),
    Code.BOOT_TIMEOUT: ReasonRow(
        "its machine was not up within {limit_s}[: {message}]",
        short="never booted",
        remedy="Its last output is in the log. Raise `CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT` if it is only slow.",
    ),
    Code.JOIN_TIMEOUT: ReasonRow(
        "qmaster had no load report from it[ within {limit_s}][: {message}]",
        short="never joined",
        remedy="It runs, but qmaster never had a load report from it: check names, ports and firewall; see `doctor`.",
    ),
    Code.INCOMPLETE_TIMEOUT: ReasonRow(
        "Grid Engine did not show {lacks} on it within {limit_s}",
        short="never complete",
        remedy="The journal has Grid Engine's answer: `sge-autoscaler history`, or the log.",
    ),
    Code.REMOVED_FROM_GRID_ENGINE: ReasonRow("it is no execution host any more", short="removed"),
    Code.ENDING: ReasonRow("its machine is ending", short="ending", listed="waiting for"),
    Code.INSTANCE_IN_ERROR: ReasonRow(
        "a queue instance on it is in error: no job starts there",
        short="queue instance in error",
        remedy="`qstat -f -explain E` shows why; `qmod -c '*@HOST'` clears it.",
        listed="leaving alone",
        needs_person=True,
    ),
    Code.BLACK_HOLE: ReasonRow(
        "{failures} starts of jobs {jobs} failed on it one after another, and none ran: {said}",
        remedy="`qacct -j JOB` and the execd's `messages` on the host say more; `qmod -e '*@HOST'` enables it again. "
        "Later or never: `CP_CAP_AUTOSCALE_BLACK_HOLE_FAILURES`.",
    ),
    Code.UNHEALTHY: ReasonRow(
        "its health check has failed since {since_at}[: {message}]",
        remedy="Run the command of `CP_CAP_AUTOSCALE_HEALTH_CHECK` by hand; `qmod -e '*@HOST'` enables the worker if "
        "it was disabled for that.",
    ),
    Code.SUSPECT: ReasonRow(
        "[{workers}: ]suspected to be broken, and left in service",
        remedy="See the cause beside it; `sge-autoscaler drain HOST` replaces the worker.",
    ),
    Code.ONE_OWNER: ReasonRow(
        "all these jobs are {owner}'s, and other jobs ran well there, or none of {owner}'s ran elsewhere "
        "meanwhile: it may be the jobs",
        remedy="Look at the jobs' output paths, directories and shells (`qstat -j`), then at mounts and `id` on the "
        "host.",
    ),
    Code.QUARANTINE_LIMIT: ReasonRow(
        "no more than {most} may be quarantined within {window_s}: {count} look broken, and a shared cause is more "
        "likely than bad hosts",
        remedy="Look for a cause that all of them share: a mount, a prolog, the health check itself.",
    ),
    Code.IN_ALARM: ReasonRow(
        "[{hosts}: ]in alarm since {since_at}: nothing starts there before the load falls below load_thresholds of "
        "{queue}",
        short="in alarm",
        remedy="`qstat -explain a` shows which load; `qconf -sq QUEUE` shows the queue's `load_thresholds`.",
        owner_remedy="Wait until the load falls, or ask an administrator.",
        listed="waiting for",
    ),
    Code.NO_LOAD_REPORT: ReasonRow(
        "qmaster has no load report from it; its jobs may still run",
        short="no load report",
        remedy="Check the machine: its jobs are left alone, since they may still run.",
        listed="leaving alone",
    ),
    Code.GONE: ReasonRow("its provider reports that it is gone", short="gone"),
    Code.UNKNOWN_NODE_ARRAY: ReasonRow(
        "its node array {node_array} is in no setting",
        short="node array unknown",
        remedy="It carries our tag, but its node array is in no setting: restore the setting, or end it with "
        "`sge-autoscaler orphans --end ID`.",
        listed="leaving alone",
        needs_person=True,
    ),
    Code.NAME_TAKEN: ReasonRow(
        "a newer machine has its name in Grid Engine",
        short="name taken",
        remedy="`sge-autoscaler orphans --end ID` ends it.",
        needs_person=True,
    ),
    Code.UNKNOWN_WORKER: ReasonRow(
        "it is in no order and in no earlier observation; a running autoscaler adopts it",
        remedy="Run the autoscaler, or end it with `sge-autoscaler orphans --end ID`.",
    ),
    Code.ORPHAN_ENDED: ReasonRow("{by} terminates it, since nothing manages it"),
    Code.NOT_LISTED: ReasonRow(
        "its provider does not list it now",
        short="not listed",
        remedy="It still counts for a while, since listings lag. If this lasts, check the provider.",
        listed="leaving alone",
    ),
    Code.NAME_STILL_USED: ReasonRow(
        "the execution host of an older machine still has its name",
        remedy="It joins when the older entry is gone; `explain` the host to see why that is still there.",
    ),
    Code.END_REFUSED: ReasonRow(
        "its provider refuses to end it ({times} so far), asked again after {again_at}: {message}",
        short="its end is refused",
        remedy="Remove the protection of the machine (on AWS `DisableApiTermination`, on Azure a lock), or give "
        "the missing permission; `sge-autoscaler resume` tries again at once.",
    ),
    Code.NODE_OPERATION: ReasonRow(
        "{by} asked to {operation} it",
        short="as asked",
        remedy="It is done once two observations have shown the host disabled and empty.",
    ),
    Code.NODE_OPERATION_BEGUN: ReasonRow(
        "its provider was asked to {operation} it, as {by} requested",
        short="as asked",
        remedy="The log has the result.",
    ),
    Code.NODE_OPERATION_REFUSED: ReasonRow(
        "it is not disabled and empty any more",
        short="not disabled and empty",
        remedy="Disable the host (`qmod -d '*@HOST'`), wait until it is empty, and ask again.",
    ),
}
