"""Reasons of workers that are silent, interrupted or lost, and of their jobs."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Workers that are silent, interrupted or lost"

_WAITS = (
    "Check the network between qmaster and the workers (a VPN, a route, a firewall), and the machines in their cloud's "
    "console. They cost money meanwhile, and jobs of a machine that is lost do not start again. `sge-autoscaler drain "
    "HOST` terminates one that you know to be lost; its jobs are lost with it."
)

ROWS = {
    Code.SILENT: ReasonRow(
        "qmaster has had no load report from it for {silent_s} (limit {limit_s}); its jobs may still run",
        short="silent",
        remedy="Check the machine and its `sge_execd`. Later or sooner: `CP_CAP_AUTOSCALE_SILENCE_TIMEOUT`.",
        listed="leaving alone",
    ),
    Code.ALL_SILENT: ReasonRow(
        "qmaster has no load report from any host, so the cause may be at qmaster",
        remedy="Look at qmaster's network and at `qhost`; nothing is ended meanwhile.",
    ),
    Code.LOAD_REPORTS_AGAIN: ReasonRow("qmaster has load reports from it again"),
    Code.SILENT_TOGETHER: ReasonRow(
        "{count} workers[ in {where}] fell silent together ({hosts}), so the cause may be their network: none is "
        "terminated while its provider says that it runs",
        short="silent together",
        remedy=_WAITS,
        listed="leaving alone",
        needs_person=True,
    ),
    Code.NOBODY_VOUCHES: ReasonRow(
        "no other worker[ in {where}] reports, so the cause may be the network: it is not terminated while its "
        "provider says that it runs",
        short="silent, and no other worker reports",
        remedy=_WAITS,
        listed="leaving alone",
        needs_person=True,
    ),
    Code.VOUCHED_LATELY: ReasonRow(
        "its silence may have had the same cause as that of others, which report again; it is terminated if it is the "
        "only one silent for {limit_s}, now {vouched_s}",
        short="silent, others report again",
        remedy="Check the machine and its `sge_execd`.",
        listed="leaving alone",
    ),
    Code.FENCED: ReasonRow(
        "silent for {silent_s} (limit {limit_s}): the autoscaler terminates its machine, and handles its jobs once "
        "its provider reports that it is gone",
        short="silent",
        remedy="Its console, or its provider, may show why it became silent.",
    ),
    Code.FENCE_CANCELLED: ReasonRow(
        "it was to be terminated, but it runs and sends load reports",
        remedy="Its provider did not end it: the log has the provider's answer.",
    ),
    Code.UNLISTED_AND_SILENT: ReasonRow(
        "its provider has not listed it for {missing_s}, and qmaster has no load report from it: the autoscaler "
        "terminates it to be certain",
        short="not listed and silent",
        remedy="Check the provider's own list of machines.",
    ),
    Code.UNLISTED_AND_REPLACED: ReasonRow(
        "its provider has not listed it for {missing_s}, and a newer machine has its name: the autoscaler terminates "
        "it to be certain",
        short="not listed, and its name is taken",
        remedy="Check the provider's own list of machines.",
    ),
    Code.INTERRUPTED: ReasonRow(
        "its cloud interrupts it at {ends_at} ({kind})[; it runs jobs {jobs}]",
        short="its cloud takes it",
        remedy="Its replacement is ordered where a limit leaves room: raise the cap that is named.",
        listed="leaving alone",
    ),
    Code.TERMINATED_BEFORE_INTERRUPTION: ReasonRow(
        "its cloud interrupts it at {ends_at}, and all it runs (jobs {jobs}) may start again: the autoscaler "
        "terminates it before then",
        short="its cloud takes it",
    ),
    Code.REBALANCE_RECOMMENDED: ReasonRow("its cloud recommends replacing it, and nothing needs it"),
    Code.INTERRUPTION_WITHDRAWN: ReasonRow("its cloud has withdrawn the interruption notice"),
    Code.SHUT_ITSELF_DOWN: ReasonRow("its machine shut itself down"),
    Code.STOPPED_FROM_OUTSIDE: ReasonRow(
        "somebody stopped its machine from outside[: {message}]",
        short="stopped from outside",
        remedy="No launch failed. To take a worker away, use `drain` instead.",
    ),
    Code.RECLAIMED: ReasonRow(
        "its cloud has reclaimed it",
        remedy="`CP_CAP_AUTOSCALE_PRICE_TYPE=on_demand` rents machines that are not taken back.",
    ),
    Code.LOST_WITH_JOBS: ReasonRow(
        "it was lost with jobs {jobs}[ and {more} more] on it",
        short="lost with its jobs",
        remedy="`sge-autoscaler explain JOB` says whether a job starts again. If it may not, `qmod -f -rj JOB` starts "
        "it again, or `qdel -f JOB` deletes it. The provider's console may say why the machine ended.",
    ),
    Code.LOST_JOBS_RESCHEDULED: ReasonRow(
        "jobs {jobs} ended with it and may start again",
        short="its machine is gone",
        remedy="`qsub -r n` keeps a job from being started again.",
    ),
    Code.LOST_JOBS_FORCED: ReasonRow(
        "jobs {jobs} ended with it: started again by CP_CAP_AUTOSCALE_LOST_JOBS", short="its machine is gone"
    ),
    Code.LOST_JOBS_DELETED: ReasonRow(
        "jobs {jobs} ended with it and may not start again: deleted by CP_CAP_AUTOSCALE_LOST_JOBS",
        short="its machine is gone",
        remedy="`qsub -r y` lets a job be started again instead.",
    ),
    Code.LOST_JOBS_STAY: ReasonRow(
        "jobs {jobs} ended with it and may not start again: listed as running until deleted",
        short="gone, and its jobs may not start again",
        remedy="`qdel -f JOB`, or `qmod -f -rj JOB` to start it again; `CP_CAP_AUTOSCALE_LOST_JOBS` does either by "
        "itself.",
        listed="leaving alone",
        needs_person=True,
    ),
    Code.LOST_JOBS_ASKED: ReasonRow("the autoscaler asks Grid Engine whether jobs {jobs} may start again"),
    Code.NAME_MAY_BE_REUSED: ReasonRow(
        "jobs {jobs} are left alone while qmaster has load reports from this name: an ordered machine that is not "
        "listed yet may have it"
    ),
    Code.JOBS_UNCERTAIN: ReasonRow(
        "jobs {jobs} on {host} may have begun on a machine of that name that is gone: it is not known whether they "
        "still run",
        remedy="Look on that host whether their processes live. If not, `qmod -rj JOB` starts one again, and `qdel -f "
        "JOB` gives it up.",
    ),
    Code.DELETED_BY_OWNER: ReasonRow("jobs {jobs} had been deleted already, and can only end by force"),
    Code.PARTLY_ALIVE: ReasonRow(
        "jobs {jobs} ran there, and may still run on other hosts ({hosts})",
        remedy="Those that may start again are held, rescheduled, and released when the rest of them has ended; "
        "`qdel` ends others.",
    ),
    Code.ENDED_EVERYWHERE: ReasonRow("they have had time to end on {hosts}, where a part of them still ran"),
}
