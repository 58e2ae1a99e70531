"""Reasons of pending jobs: why they count as demand or not."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import WAIT_OR_ASK, ReasonRow

HEADING = "Pending jobs"

ROWS = {
    Code.COUNTED: ReasonRow(
        "it counts as demand, but only a host that it names can run it",
        short="counted",
        owner_remedy="Take the host out of the request (`qalter`) to let it run on workers.",
    ),
    Code.QUEUE_DEMAND_OFF: ReasonRow(
        "it waits for a worker that exists or was requested: pending jobs alone launch none",
        short="waits for a worker",
        remedy="Ask for workers (`sge-autoscaler autoscale`), or set `CP_CAP_AUTOSCALE_QUEUE_DEMAND=true`.",
        owner_remedy="Wait for a worker, or ask an administrator for one.",
    ),
    Code.FITS: ReasonRow(
        "it fits on hosts that are free now",
        short="fits",
        owner_remedy="The scheduler starts it in its next run. If it waits on: `qalter -w p JOB` asks Grid Engine why.",
    ),
    Code.WAITS_FOR_COMING: ReasonRow(
        "{tasks} tasks[ of {alike} jobs that ask for the same] can start on workers that are coming[; they are "
        "expected by {expected_at}]",
        short="waits for coming workers",
        remedy="`sge-autoscaler workers` shows how far the coming worker is.",
        owner_remedy="Nothing needs to be done: it can start once the worker has come.",
    ),
    Code.NOT_EXPIRED: ReasonRow(
        "{lacking} tasks[ of {alike} jobs that ask for the same] can start on no host yet; the autoscaler launches a "
        "worker once the oldest job of the queue has waited {limit_s}",
        short="not expired",
        remedy="Sooner: lower `CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT`.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.EXPIRED: ReasonRow(
        "{lacking} tasks[ of {alike} jobs that ask for the same] can start on no host, and the oldest job of the "
        "queue has waited {limit_s} or longer",
        short="expired",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.HELD: ReasonRow(
        "it is held (state {state})",
        short="held",
        remedy="A hold of an operator or of the system: `qrls -h so JOB`.",
        owner_remedy="`qrls JOB`, or `qalter -h U JOB`.",
    ),
    Code.DEPENDENT: ReasonRow(
        "it waits for other jobs to end (state {state})",
        short="dependent",
        owner_remedy="It counts when the jobs it waits for have ended; `qalter -hold_jid` changes them.",
    ),
    Code.FUTURE: ReasonRow(
        "it must not start before {start_at}",
        short="future",
        owner_remedy="It counts from its start time on; `qalter -a` changes it.",
    ),
    Code.IMMEDIATE: ReasonRow(
        "it starts at once or is given up (-now y), so no worker would come in time",
        short="immediate",
        owner_remedy="Submit with `-now n` (`qrsh`, `qlogin` and `qsh` have `-now y` by default): such a job "
        "waits for a worker.",
    ),
    Code.IN_ERROR: ReasonRow(
        "it is in error (state {state})",
        short="in error",
        owner_remedy="`qstat -j JOB` shows the error; `qmod -cj JOB` clears it.",
    ),
    Code.BEYOND_CONCURRENCY: ReasonRow(
        "its array may run at most {limit} tasks at once (-tc)",
        short="beyond -tc",
        owner_remedy="`qalter -tc N JOB` allows more tasks at once.",
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
        owner_remedy="Wait until jobs that use the quota have ended (`qquota` shows it), or ask an administrator "
        "to raise it.",
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
        owner_remedy="Wait until jobs that use it have ended.",
    ),
    Code.QUEUE_OFF_BY_CALENDAR: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar}[ until {opens_at}]",
        short="queue off by calendar",
        remedy="`qconf -scal NAME` shows the calendar; workers are launched one boot before it opens the queue.",
        owner_remedy="Wait until the queue opens, or use another one: `qalter -q QUEUE JOB`.",
    ),
    Code.QUEUE_OPENS_SOON: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar} until {opens_at}; the autoscaler launches workers "
        "{boot_s} before that, the time a boot takes",
        short="queue opens soon",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.QUEUE_CLOSES_SOON: ReasonRow(
        "the queue {queue} is closed by its calendar {calendar} from {closes_at}: a worker launched now would come too "
        "late (a boot takes {boot_s})",
        short="queue closes soon",
        remedy="`qconf -scal NAME` shows the calendar; workers are launched again one boot before it opens the queue.",
        owner_remedy="Wait until the queue opens again, or use another one: `qalter -q QUEUE JOB`.",
    ),
    Code.RUNS_INTO_CLOSING: ReasonRow(
        "the scheduler starts it in the queue {queue} only if it ends before the calendar {calendar} closes the queue "
        "at {closes_at}; it [requests to run for {asked_s}][counts as running for {default}, as it requests no run "
        "time][, and a boot takes {boot_s}]",
        short="runs into closing",
        remedy="Set `default_duration` for jobs without a run time, or `max_reservation` to 0, in which "
        "case the scheduler does not look ahead (sched_conf(5)).",
        owner_remedy="Request a run time that ends before: `qalter -l h_rt=0:30:0 JOB` (name all requests again).",
    ),
    Code.QUEUE_MISSING: ReasonRow(
        "Grid Engine has no {what}: a worker could not join",
        short="queue is missing",
        remedy="Run `sge-autoscaler init`, or correct `CP_CAP_SGE_QUEUE_NAME` or "
        "`CP_CAP_SGE_HOSTLIST_NAME`; launches begin in the pass after that.",
        owner_remedy="Use another queue (`qalter -q QUEUE JOB`), or ask an administrator.",
        listed="waiting for",
    ),
    Code.QUEUE_DISABLED_BY_HAND: ReasonRow(
        "the queue {queue} is closed: a person disabled it on all its hosts ({hosts})",
        short="queue disabled by hand",
        remedy="`qmod -e QUEUE` opens it. If only these hosts are to stay closed: take persistent ones out of the "
        "queue, or give them 0 slots there; give workers back with `sge-autoscaler drain HOST`.",
        owner_remedy="Use another queue (`qalter -q QUEUE JOB`), or ask an administrator.",
        listed="waiting for",
    ),
    Code.QUEUE_SUSPENDED_BY_HAND: ReasonRow(
        "the queue {queue} is closed: a person suspended it on all its hosts ({hosts})",
        short="queue suspended by hand",
        remedy="`qmod -usq QUEUE` opens it.",
        owner_remedy="Use another queue (`qalter -q QUEUE JOB`), or ask an administrator.",
        listed="waiting for",
    ),
    Code.QUEUE_SUBORDINATE: ReasonRow(
        "the queue {queue} is suspended on all its workers ({hosts}) by jobs of {superior}, and more such jobs wait",
        short="queue suspended for another",
        remedy="`qconf -sq` of the other queue shows its `subordinate_list`; give the two queues host groups of their "
        "own.",
        owner_remedy="Wait until jobs of the other queue have ended.",
    ),
    Code.NO_BATCH_QUEUE: ReasonRow(
        "{queue} starts no batch jobs on workers (qtype {qtype})",
        short="no batch queue",
        remedy="`qconf -mattr queue qtype BATCH QUEUE`. A queue that is INTERACTIVE alone starts `-now y` "
        "jobs only, and these wait for no worker.",
        owner_remedy="Submit to a queue that takes batch jobs (`qconf -sq QUEUE` shows its qtype).",
    ),
    Code.NOT_IN_CKPT_LIST: ReasonRow(
        "it requests the checkpointing environment {ckpt}, which is not in the ckpt_list of {queue} for workers",
        short="not in the ckpt_list",
        remedy="`qconf -aattr queue ckpt_list NAME QUEUE`.",
        owner_remedy="Submit to a queue that has it in its ckpt_list.",
    ),
    Code.FOREIGN_QUEUE: ReasonRow(
        "no autoscaled queue can run it[ (it may use {queues})][; workers have {on_workers}, but none is launched for "
        "it]",
        short="foreign queue",
        remedy="Add the queue with a suffixed `CP_CAP_SGE_QUEUE_NAME_1`.",
        owner_remedy="`qalter -q QUEUE JOB` lets it run in a queue that gets workers.",
    ),
    Code.FOREIGN_HOST: ReasonRow(
        "it requests a host that the autoscaler does not manage ({hosts})",
        short="foreign host",
        owner_remedy="It starts only on such a host that has all it requests; `qalter` the request to let it run "
        "elsewhere.",
    ),
    Code.HOST_LEFT: ReasonRow(
        "it requests {hosts}, a name of workers that no host has: that worker has left",
        short="its host has left",
        owner_remedy="A new worker need not get this name: take the host out of the request, by `qalter -q QUEUE "
        "JOB` or `qalter -l …` without `h` or `hostname`.",
    ),
    Code.NOT_READ_YET: ReasonRow(
        "its requests have not been read yet",
        short="not read yet",
        remedy="If that takes long: raise `CP_CAP_AUTOSCALE_DETAIL_LOOKUPS`.",
        owner_remedy="Nothing needs to be done: it is read within a few passes.",
    ),
    Code.REQUESTS_UNREAD: ReasonRow(
        "its requests have not been read yet: those of its owner's jobs are so long that they are read in turns",
        short="long requests not read",
        remedy="Other owners' jobs do not wait for it. Shorten what these jobs request (`-hold_jid` with long lists, "
        "`-l`, `-q`; `qstat -r -u OWNER` shows it), or have fewer of them waiting.",
        owner_remedy="Shorten what your waiting jobs request (`-hold_jid` with long lists, `-l`, `-q`), or have fewer "
        "of them waiting.",
    ),
    Code.UNKNOWN_STATE: ReasonRow(
        "its state {state} is not known",
        short="state unknown",
        remedy="Grid Engine shows a state we do not know; please report it with `sge-autoscaler record`.",
        owner_remedy="Ask an administrator.",
    ),
    Code.UNKNOWN_PE: ReasonRow(
        "no parallel environment {pe} of the queues {queues} takes {slots} slots",
        short="PE unknown",
        remedy="The queue's `pe_list` must name it.",
        owner_remedy="`qconf -spl` lists the parallel environments; `qalter -pe PE SLOTS JOB` asks for another.",
    ),
    Code.PE_RULE: ReasonRow(
        "{slots} slots are no multiple of {rule}, the allocation rule of the parallel environment {pe}",
        short="against the PE's rule",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for a multiple of the rule; `qconf -sp PE` shows it.",
    ),
    Code.PE_SLOTS: ReasonRow(
        "it requests {slots} slots of the parallel environment {pe}, which has {most} in all",
        short="more slots than the PE has",
        remedy="Raise the `slots` of the parallel environment: `qconf -mp PE`.",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for fewer.",
    ),
    Code.PE_ELSEWHERE: ReasonRow(
        "only {queues} has the parallel environment {pe}; no worker is launched for it[, though workers have "
        "{on_workers}]",
        short="PE elsewhere",
        remedy="Name it in the `pe_list` of an autoscaled queue for the workers' host group, or add the queue that has "
        "it with a suffixed `CP_CAP_SGE_QUEUE_NAME_1`.",
        owner_remedy="`qalter -pe PE SLOTS JOB` asks for a parallel environment that workers have.",
    ),
    Code.GROUP_PE_NEEDS_WILDCARD: ReasonRow(
        "jobs of {pe} run inside one group of workers, and only {wildcard} finds all groups",
        remedy="`init --jsv` sets up a JSV that adds it.",
        owner_remedy="Submit with the wildcard; for a job that waits: `qalter -pe 'mpi*' SLOTS JOB`.",
    ),
    Code.GROUP_NOT_PROBED: ReasonRow("Grid Engine is not asked about jobs that stay inside one group"),
    Code.UNKNOWN_RESOURCE: ReasonRow(
        "it requests {resource}, which is no complex of this cell",
        short="resource unknown",
        owner_remedy="`qconf -sc` lists what jobs can request; `qalter -l` asks without it (name all requests again).",
    ),
    Code.CANNOT_BE_READ: ReasonRow(
        "{what} cannot be read: {value} ({why})",
        short="cannot be read",
        remedy="The person who gave this value must correct it. Everything else goes on without it.",
        owner_remedy="If it is a request: correct it by `qalter`.",
    ),
    Code.NOT_GIVEN_TO_WORKERS: ReasonRow(
        "it requests {resources}, which workers are not given[: {setting} names what they are given]",
        short="not given to workers",
        remedy="`sge-autoscaler buckets` shows what workers have. Name the complex that counts a worker's "
        "memory, GPUs or cores: `CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM`, `…_GPU`, `…_CPU`; or give "
        "workers any other by [rules](rules.md).",
        owner_remedy="Request what workers have (`qalter -l`), or ask an administrator what that is.",
    ),
    Code.NO_TYPE_FITS: ReasonRow(
        "it requests {slots} slots[ on {where}]; the largest worker allowed has {largest}, and at most {workers} are "
        "allowed[; it also requests {besides}]",
        short="no type fits",
        remedy="Raise a cap that is named, or allow larger types: `CP_CAP_AUTOSCALE_HYBRID`, "
        "`CP_CAP_AUTOSCALE_HYBRID_FAMILY`, `CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE`.",
        owner_remedy="Ask for less by `qalter`, or ask an administrator to allow larger workers.",
    ),
    Code.MUST_BE_REQUESTED: ReasonRow(
        "all workers that could run it have {resources}, which is FORCED: only jobs that request it start there",
        short="{resources} not requested",
        remedy="Allow types without it, or make it requestable YES: `qconf -mc`.",
        owner_remedy="`qalter -l` requests it (name all requests again).",
    ),
    Code.NO_INSTANCE_TYPE: ReasonRow(
        "the provider knows no instance type for workers of {node_array}[; {requested} is set]",
        short="no instance type[ {requested}]",
        remedy="Set `CP_CAP_AUTOSCALE_INSTANCE_TYPE`, or a hybrid cluster's `CP_CAP_AUTOSCALE_HYBRID_FAMILY`, to what "
        "the provider's catalogue has.",
        owner_remedy="Ask an administrator.",
        needs_person=True,
    ),
    Code.NO_WORKER_ALLOWED: ReasonRow(
        "no worker of {node_array} may be launched",
        short="no worker allowed",
        remedy="Raise the limit that is named, or add what is missing at the provider.",
        owner_remedy="Ask an administrator.",
        needs_person=True,
    ),
    Code.RESTRICTED_QUEUE: ReasonRow(
        "{queue} does not take such jobs ({by})",
        short="restricted queue",
        remedy="`qconf -sq QUEUE` shows its limits, `qconf -se global` those of the global host.",
        owner_remedy="`qalter -l` asks for less, or for what must be requested (FORCED).",
    ),
    Code.NO_ACCESS: ReasonRow(
        "{owner}[ of group {group}] may not use {what} ({by})",
        short="no access",
        remedy="`qconf -su LIST` shows who is on a list, `qconf -au USER LIST` adds one.",
        owner_remedy="Use what you may use, or ask an administrator for access.",
    ),
    Code.NO_PROJECT_ACCESS: ReasonRow(
        "jobs of project {project} may not use {what} ({by})",
        short="project has no access",
        remedy="`qconf -sq`, `-se` show which may.",
        owner_remedy="`qalter -P PROJECT JOB` gives it another project.",
    ),
    Code.NO_PROJECT: ReasonRow(
        "it has no project, and only jobs of some projects may use {what} ({by})",
        short="no project",
        owner_remedy="`qalter -P PROJECT JOB` gives it one.",
    ),
    Code.ACCESS_UNKNOWN: ReasonRow(
        "who may use {what} is not known: {by} could not be read",
        short="access not known",
        remedy="See that `qconf -su LIST` works on this host.",
        owner_remedy="Ask an administrator.",
    ),
    Code.ADVANCE_RESERVATION: ReasonRow(
        "it runs only inside advance reservation {reservation}, on the hosts reserved for it",
        short="of a reservation",
        owner_remedy="`qrstat -ar ID` shows its hosts and whether they are there (`E`: they are not; it waits for "
        "hosts of these very names); submit without `-ar` what may run elsewhere.",
    ),
    Code.TOO_MUCH_FOR_QUOTA: ReasonRow(
        "it requests {resource}={requested}, more than the quota {quota} ({limit}) ever gives",
        short="more than a quota gives",
        remedy="Change the rule: `qconf -srqs` shows it, `qconf -mrqs` changes it.",
        owner_remedy="Ask for less (`qalter`).",
    ),
    Code.TOO_MUCH_FOR_CELL: ReasonRow(
        "it requests {resource}={requested}[ for its {slots} slots together]; the whole cell has {most}",
        short="more than the cell has",
        remedy="Raise what the cell has: `qconf -me global`.",
        owner_remedy="`qalter -l` asks for less (name all requests again).",
    ),
    Code.JOB_OVER_BUDGET: ReasonRow(
        "the budget of {owner} is spent ({budget} {currency} a month): nothing is launched for its jobs until "
        "{until_at}",
        short="budget spent",
        remedy="Raise it in `CP_CAP_AUTOSCALE_BUDGETS`, or set `CP_CAP_AUTOSCALE_BUDGET_ACTION` to `warn`.",
        owner_remedy="Wait until the budget is renewed; the job starts on workers that are there for others.",
    ),
    Code.OWNER_SLOWED: ReasonRow(
        "for {owner} and others there were more than {most} {what}: nothing is launched for {owner}, and no worker "
        "that was launched for {owner} is removed, until {until_at}",
        short="{owner} is slowed down",
        remedy="Nothing: it goes on by itself, and jobs of others are served as usual. `sge-autoscaler events` shows "
        "what became of these jobs and workers. If all of it was meant, raise "
        "`CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_REMOVALS` or `CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_LAUNCHES`; "
        "`sge-autoscaler resume` goes on at once.",
        owner_remedy="It goes on by itself. Do not delete jobs as soon as their workers come.",
    ),
    Code.KEPT_FROM_HOSTS: ReasonRow(
        "the scheduler has not started it on hosts that seem free since {since_at}: {said}",
        short="kept from free hosts",
        remedy="It does not count as fitting on these hosts: workers are launched for it, unless a limit is "
        "named. `schedd_job_info` (sched_conf(5)) lets `qstat -j` show the scheduler's words.",
        owner_remedy="`qstat -j JOB` shows the scheduler's words.",
    ),
    Code.NOT_STARTED: ReasonRow(
        "it has fitted on free hosts since {since_at} and does not start; asked why, the scheduler says: {said}",
        short="fits but does not start",
        remedy="A further worker would not help, so none is launched for it. Look at quotas (`qquota`), "
        "`job_load_adjustments`, `max_reservation` and whether the scheduler runs at all (`qconf "
        "-sss`; sched_conf(5)).",
        owner_remedy="Look at `qstat -j JOB` and `qalter -w p JOB`, and request less.",
    ),
    Code.OTHERS_FIRST: ReasonRow(
        "it fits only if enough of the present hosts is free at the same time; smaller jobs take that first, unless "
        "it reserves them (`-R y`) and max_reservation allows that[ (it is {max_reservation})]",
        remedy="Set `max_reservation` above 0 (`qconf -msconf`); or remove what keeps workers from coming, "
        "such as a limit that is named.",
        owner_remedy="`qalter -R y JOB` reserves hosts for it; run times (`-l h_rt`) help.",
    ),
}
