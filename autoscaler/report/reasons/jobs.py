"""Reasons of pending jobs: why they count as demand or not."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import WAIT_OR_ASK, ReasonRow

HEADING = "Pending jobs"

ROWS = {
    Code.COUNTED: ReasonRow("it counts as demand, but only a host that it names can run it", short="counted"),
    Code.QUEUE_DEMAND_OFF: ReasonRow(
        "it waits for a worker that exists or was requested: pending jobs alone launch none",
        short="waits for a worker",
        remedy="Ask for workers (`sge-autoscaler autoscale`), or set `CP_CAP_AUTOSCALE_QUEUE_DEMAND=true`.",
    ),
    Code.FITS: ReasonRow(
        "it fits on hosts that are free now",
        short="fits",
        remedy="If it waits on although it fits, ask Grid Engine: `qalter -w p JOB`.",
    ),
    Code.WAITS_FOR_COMING: ReasonRow(
        "{tasks} tasks[ of {alike} jobs that ask for the same] can start on workers that are coming[; they are "
        "expected by {expected_at}]",
        short="waits for coming workers",
        remedy="`sge-autoscaler workers` shows how far the coming worker is.",
    ),
    Code.NOT_EXPIRED: ReasonRow(
        "{lacking} tasks[ of {alike} jobs that ask for the same] can start on no host yet; the autoscaler launches a "
        "worker once the oldest job of the queue has waited {limit_s}",
        short="not expired",
        remedy="Sooner: lower `CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT`.",
    ),
    Code.EXPIRED: ReasonRow(
        "{lacking} tasks[ of {alike} jobs that ask for the same] can start on no host, and the oldest job of the "
        "queue has waited {limit_s} or longer",
        short="expired",
    ),
    Code.HELD: ReasonRow("it is held (state {state})", short="held", remedy="`qrls JOB`, or `qalter -h U JOB`."),
    Code.DEPENDENT: ReasonRow(
        "it waits for other jobs to end (state {state})",
        short="dependent",
        remedy="It counts when the jobs it waits for have ended; `qalter -hold_jid` changes them.",
    ),
    Code.FUTURE: ReasonRow(
        "it must not start before {start_at}",
        short="future",
        remedy="It counts from its start time on; `qalter -a` changes it.",
    ),
    Code.IMMEDIATE: ReasonRow(
        "it starts at once or is given up (-now y), so no worker would come in time",
        short="immediate",
        remedy="Submit with `-now n` (`qrsh`, `qlogin` and `qsh` have `-now y` by default): such a job waits for a "
        "worker.",
    ),
    Code.IN_ERROR: ReasonRow(
        "it is in error (state {state})",
        short="in error",
        remedy="`qstat -j JOB` shows the error; `qmod -cj JOB` clears it.",
    ),
    Code.BEYOND_CONCURRENCY: ReasonRow(
        "its array may run at most {limit} tasks at once (-tc)",
        short="beyond -tc",
        remedy="`qalter -tc N JOB` allows more tasks at once.",
    ),
    Code.BEYOND_ARRAY_LIMIT: ReasonRow(
        "an array may run at most {limit} tasks at once (max_aj_instances)",
        short="beyond max_aj_instances",
        remedy="`qconf -mconf` raises `max_aj_instances`; more workers would not help.",
        owner_remedy=WAIT_OR_ASK,
    ),
    Code.BEYOND_USER_LIMIT: ReasonRow(
        "{owner} may run at most {limit} jobs at once (maxujobs)",
        short="beyond maxujobs",
        remedy="`qconf -msconf` raises `maxujobs`; more workers would not help.",
        owner_remedy=WAIT_OR_ASK,
    ),
    Code.BEYOND_QUOTA: ReasonRow(
        "the quota {quota} ({limit}) is used up by jobs that run or have waited longer",
        short="beyond a quota",
        remedy="`qquota` shows the rule; more workers would not help.",
    ),
    Code.QUOTA_ALLOWS_NONE: ReasonRow(
        "the quota {quota} ({limit}) allows no such job",
        short="closed by a quota",
        remedy="`qconf -srqs` shows the rule (of a parallel environment: `qconf -sp PE`); more workers would not help.",
        owner_remedy="Ask an administrator to allow such jobs, or change the request by `qalter`.",
    ),
    Code.BEYOND_GLOBAL: ReasonRow(
        "only {left} of {resource} is left, for jobs that have waited longer",
        short="beyond a licence",
        remedy="`qhost -F -h global` shows what is left; more workers would not help.",
    ),
    Code.QUEUE_OFF_BY_CALENDAR: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar}[ until {opens_at}]",
        short="queue off by calendar",
        remedy="`qconf -scal NAME` shows the calendar; workers are launched one boot before it opens the queue.",
    ),
    Code.QUEUE_OPENS_SOON: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar} until {opens_at}; the autoscaler launches workers "
        "{boot_s} before that, the time a boot takes",
        short="queue opens soon",
    ),
    Code.QUEUE_CLOSES_SOON: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar} from {closes_at}: a worker launched now would come too "
        "late (a boot takes {boot_s})",
        short="queue closes soon",
        remedy="`qconf -scal NAME` shows the calendar; workers are launched again one boot before it opens the queue.",
    ),
    Code.RUNS_INTO_CLOSING: ReasonRow(
        "the scheduler starts it in the queue {queue} only if it ends before the calendar {calendar} closes the queue "
        "at {closes_at}; it [requests to run for {asked_s}][counts as running for {default}, as it requests no run "
        "time][, and a boot takes {boot_s}]",
        short="runs into closing",
        remedy="Its owner can request a run time that ends before: `qalter -l h_rt=0:30:0 JOB`. An administrator can "
        "set `default_duration` for jobs without one, or `max_reservation` to 0, in which case the scheduler does not "
        "look ahead (sched_conf(5)).",
    ),
    Code.QUEUE_MISSING: ReasonRow(
        "Grid Engine has no {what}: a worker could not join",
        short="queue is missing",
        remedy="An administrator must run `sge-autoscaler init`, or correct `CP_CAP_SGE_QUEUE_NAME` or "
        "`CP_CAP_SGE_HOSTLIST_NAME`; launches begin in the pass after that.",
        listed="waiting for",
    ),
    Code.QUEUE_DISABLED_BY_HAND: ReasonRow(
        "the queue {queue} is closed: a person disabled it on all its hosts ({hosts})",
        short="queue disabled by hand",
        remedy="`qmod -e QUEUE` opens it. If only these hosts are to stay closed: take persistent ones out of the "
        "queue, or give them 0 slots there; give workers back with `sge-autoscaler drain HOST`.",
        listed="waiting for",
    ),
    Code.QUEUE_SUSPENDED_BY_HAND: ReasonRow(
        "the queue {queue} is closed: a person suspended it on all its hosts ({hosts})",
        short="queue suspended by hand",
        remedy="`qmod -usq QUEUE` opens it.",
        listed="waiting for",
    ),
    Code.QUEUE_SUBORDINATE: ReasonRow(
        "the queue {queue} is suspended on all its workers ({hosts}) by jobs of {superior}, and more such jobs wait",
        short="queue suspended for another",
        remedy="`qconf -sq` of the other queue shows its `subordinate_list`; give the two queues host groups of their "
        "own.",
    ),
    Code.NO_BATCH_QUEUE: ReasonRow(
        "{queue} starts no batch jobs on workers (qtype {qtype})",
        short="no batch queue",
        remedy="`qconf -mattr queue qtype BATCH QUEUE`, or submit to a queue that has BATCH there. One that is "
        "INTERACTIVE alone starts `-now y` jobs only, and these wait for no worker.",
    ),
    Code.NOT_IN_CKPT_LIST: ReasonRow(
        "it requests the checkpointing environment {ckpt}, which is not in the ckpt_list of {queue} for workers",
        short="not in the ckpt_list",
        remedy="`qconf -aattr queue ckpt_list NAME QUEUE`, or submit to a queue that has it.",
    ),
    Code.FOREIGN_QUEUE: ReasonRow(
        "no autoscaled queue can run it[ (it may use {queues})][; workers have {on_workers}, but none is launched for "
        "it]",
        short="foreign queue",
        remedy="`qalter -q QUEUE JOB`, or add the queue with a suffixed `CP_CAP_SGE_QUEUE_NAME_1`.",
    ),
    Code.FOREIGN_HOST: ReasonRow(
        "it requests a host that the autoscaler does not manage ({hosts})",
        short="foreign host",
        remedy="It starts only on such a host that has all it requests; `qalter` the request to let it run elsewhere.",
    ),
    Code.HOST_LEFT: ReasonRow(
        "it requests {hosts}, a name of workers that no host has: that worker has left",
        short="its host has left",
        remedy="A new worker need not get this name: take the host out of the request, by `qalter -q QUEUE JOB` or "
        "`qalter -l …` without `h` or `hostname`.",
    ),
    Code.NOT_READ_YET: ReasonRow(
        "its requests have not been read yet",
        short="not read yet",
        remedy="It is read within a few passes; raise `CP_CAP_AUTOSCALE_DETAIL_LOOKUPS` if that takes long.",
    ),
    Code.REQUESTS_UNREAD: ReasonRow(
        "its requests have not been read yet: those of its owner's jobs are so long that they are read in turns",
        short="long requests not read",
        remedy="Other owners' jobs do not wait for it. Shorten what these jobs request (`-hold_jid` with long lists, "
        "`-l`, `-q`; `qstat -r -u OWNER` shows it), or have fewer of them waiting.",
    ),
    Code.UNKNOWN_STATE: ReasonRow(
        "its state {state} is not known",
        short="state unknown",
        remedy="Grid Engine shows a state we do not know; please report it with `sge-autoscaler record`.",
    ),
    Code.UNKNOWN_PE: ReasonRow(
        "no parallel environment {pe} of the queues {queues} takes {slots} slots",
        short="PE unknown",
        remedy="`qconf -spl` lists the parallel environments; the queue's `pe_list` must name it.",
    ),
    Code.PE_RULE: ReasonRow(
        "{slots} slots are no multiple of {rule}, the allocation rule of the parallel environment {pe}",
        short="against the PE's rule",
        remedy="`qalter -pe PE SLOTS JOB` asks for a multiple of the rule; `qconf -sp PE` shows it.",
    ),
    Code.PE_SLOTS: ReasonRow(
        "it requests {slots} slots of the parallel environment {pe}, which has {most} in all",
        short="more slots than the PE has",
        remedy="`qalter -pe PE SLOTS JOB` asks for fewer; or raise the `slots` of the parallel environment.",
    ),
    Code.PE_ELSEWHERE: ReasonRow(
        "only {queues} has the parallel environment {pe}; no worker is launched for it[, though workers have "
        "{on_workers}]",
        short="PE elsewhere",
        remedy="Name it in the `pe_list` of an autoscaled queue for the workers' host group, or add the queue that has "
        "it with a suffixed `CP_CAP_SGE_QUEUE_NAME_1`.",
    ),
    Code.GROUP_PE_NEEDS_WILDCARD: ReasonRow(
        "jobs of {pe} run inside one group of workers, and only {wildcard} finds all groups",
        remedy="Submit with the wildcard, or set up `init --jsv`, which adds it; for a job that waits: `qalter -pe "
        "'mpi*' SLOTS JOB`.",
    ),
    Code.GROUP_NOT_PROBED: ReasonRow("Grid Engine is not asked about jobs that stay inside one group"),
    Code.UNKNOWN_RESOURCE: ReasonRow(
        "it requests {resource}, which is no complex of this cell",
        short="resource unknown",
        remedy="`qconf -sc` lists what jobs can request.",
    ),
    Code.CANNOT_BE_READ: ReasonRow(
        "{what} cannot be read: {value} ({why})",
        short="cannot be read",
        remedy="The person who gave this value must correct it, a job's owner by `qalter`. Everything else goes "
        "on without it.",
    ),
    Code.NOT_GIVEN_TO_WORKERS: ReasonRow(
        "it requests {resources}, which workers are not given[: {setting} names what they are given]",
        short="not given to workers",
        remedy="Its owner can request what workers have (`sge-autoscaler buckets`). An administrator can name the "
        "complex that counts a worker's memory, GPUs or cores: `CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM`, `…_GPU`, "
        "`…_CPU`; or give workers any other by [rules](rules.md).",
    ),
    Code.NO_TYPE_FITS: ReasonRow(
        "it requests {slots} slots[ on {where}]; the largest worker allowed has {largest}, and at most {workers} are "
        "allowed[; it also requests {besides}]",
        short="no type fits",
        remedy="Ask for less, raise a cap that is named, or allow larger types: `CP_CAP_AUTOSCALE_HYBRID`, "
        "`CP_CAP_AUTOSCALE_HYBRID_FAMILY`, `CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE`.",
    ),
    Code.MUST_BE_REQUESTED: ReasonRow(
        "all workers that could run it have {resources}, which is FORCED: only jobs that request it start there",
        short="{resources} not requested",
        remedy="`qalter -l` requests it; or allow types without it; or make it requestable YES: `qconf -mc`.",
    ),
    Code.NO_INSTANCE_TYPE: ReasonRow(
        "the provider knows no instance type for workers of {node_array}[; {requested} is set]",
        short="no instance type[ {requested}]",
        remedy="Set `CP_CAP_AUTOSCALE_INSTANCE_TYPE`, or a hybrid cluster's `CP_CAP_AUTOSCALE_HYBRID_FAMILY`, to what "
        "the provider's catalogue has.",
        needs_person=True,
    ),
    Code.NO_WORKER_ALLOWED: ReasonRow(
        "no worker of {node_array} may be launched",
        short="no worker allowed",
        remedy="Raise the limit that is named, or add what is missing at the provider.",
        needs_person=True,
    ),
    Code.RESTRICTED_QUEUE: ReasonRow(
        "{queue} does not take such jobs ({by})",
        short="restricted queue",
        remedy="`qconf -sq QUEUE` shows its limits, `qconf -se global` those of the global host; `qalter -l` asks for "
        "less, or for what must be requested (FORCED).",
    ),
    Code.NO_ACCESS: ReasonRow(
        "{owner}[ of group {group}] may not use {what} ({by})",
        short="no access",
        remedy="`qconf -su LIST` shows who is on a list, `qconf -au USER LIST` adds one.",
    ),
    Code.NO_PROJECT_ACCESS: ReasonRow(
        "jobs of project {project} may not use {what} ({by})",
        short="project has no access",
        remedy="`qalter -P PROJECT JOB` gives it another project; `qconf -sq`, `-se` show which may.",
    ),
    Code.NO_PROJECT: ReasonRow(
        "it has no project, and only jobs of some projects may use {what} ({by})",
        short="no project",
        remedy="`qalter -P PROJECT JOB` gives it one.",
    ),
    Code.ACCESS_UNKNOWN: ReasonRow(
        "who may use {what} is not known: {by} could not be read",
        short="access not known",
        remedy="See that `qconf -su LIST` works on this host.",
    ),
    Code.ADVANCE_RESERVATION: ReasonRow(
        "it runs only inside advance reservation {reservation}, on the hosts reserved for it",
        short="of a reservation",
        remedy="`qrstat -ar ID` shows its hosts and whether they are there (`E`: they are not; it waits for hosts of "
        "these very names); submit without `-ar` what may run elsewhere.",
    ),
    Code.TOO_MUCH_FOR_QUOTA: ReasonRow(
        "it requests {resource}={requested}, more than the quota {quota} ({limit}) ever gives",
        short="more than a quota gives",
        remedy="Ask for less (`qalter`), or change the rule: `qconf -srqs` shows it, `qconf -mrqs` changes it.",
    ),
    Code.TOO_MUCH_FOR_CELL: ReasonRow(
        "it requests {resource}={requested}[ for its {slots} slots together]; the whole cell has {most}",
        short="more than the cell has",
        remedy="`qalter -l` asks for less (name all requests again); or raise what the cell has: `qconf -me global`.",
    ),
    Code.JOB_OVER_BUDGET: ReasonRow(
        "the budget of {owner} is spent ({budget} {currency} a month): nothing is launched for its jobs until "
        "{until_at}",
        short="budget spent",
        remedy="Raise it in `CP_CAP_AUTOSCALE_BUDGETS`, or set `CP_CAP_AUTOSCALE_BUDGET_ACTION` to `warn`. The job "
        "starts on workers that are there for others.",
    ),
    Code.KEPT_FROM_HOSTS: ReasonRow(
        "the scheduler has not started it on hosts that seem free since {since_at}: {said}",
        short="kept from free hosts",
        remedy="It does not count as fitting on these hosts: workers are launched for it, unless a limit is named. "
        "`qstat -j JOB` shows the scheduler's words (`schedd_job_info`, sched_conf(5)).",
    ),
    Code.NOT_STARTED: ReasonRow(
        "it has fitted on free hosts since {since_at} and does not start; asked why, the scheduler says: {said}",
        short="fits but does not start",
        remedy="A further worker would not help, so none is launched for it. Its owner can look at `qstat -j JOB` and "
        "`qalter -w p JOB`, and request less. An administrator can look at quotas (`qquota`), `job_load_adjustments`, "
        "`max_reservation` and whether the scheduler runs at all (`qconf -sss`; sched_conf(5)).",
    ),
    Code.OTHERS_FIRST: ReasonRow(
        "it fits only if several of the present hosts are empty at the same time; smaller jobs take them first, unless "
        "it reserves them (`-R y`) and max_reservation allows that[ (it is {max_reservation})]",
        remedy="Submit with `-R y` (`qalter -R y JOB`), set `max_reservation` above 0 (`qconf -msconf`) and give jobs "
        "run times (`-l h_rt`); or remove what keeps workers from coming, such as a limit that is named.",
    ),
}
