"""What an operator can do about each reason: the third column of docs/reasons.md, and the last line of `explain`.

`''` where nothing is to be done: the word is for the way things go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from autoscaler.core.reasons import Code

GROUPS: tuple[tuple[str, Code], ...] = (
    ("Waiting jobs", Code.COUNTED),
    ("Workers and hosts", Code.PERSISTENT),
    ("Workers that fell silent, are about to be taken, or are gone", Code.SILENT),
    ("Launches, caps and what can be had", Code.DEMAND),
    ("The pass as a whole", Code.PAUSED),
)
"""Heading, and the first code under it, in the order in which codes are declared."""

REMEDIES: Mapping[Code, str] = MappingProxyType(
    {
        Code.COUNTED: "",
        Code.FITS: "If it waits on although it fits, ask Grid Engine: `qalter -w p JOB`.",
        Code.WAITS_FOR_COMING: "`sge-autoscaler workers` shows how far the coming worker is.",
        Code.NOT_EXPIRED: "Sooner: lower `CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT`.",
        Code.EXPIRED: "",
        Code.HELD: "`qrls JOB`, or `qalter -h U JOB`.",
        Code.DEPENDENT: "It counts when the jobs it waits for have ended; `qalter -hold_jid` changes them.",
        Code.FUTURE: "It counts from its start time on; `qalter -a` changes it.",
        Code.IN_ERROR: "`qstat -j JOB` tells the error; `qmod -cj JOB` clears it.",
        Code.BEYOND_CONCURRENCY: "`qalter -tc N JOB` lets more tasks run at once.",
        Code.BEYOND_QUOTA: "`qquota` shows the rule; more workers would not help.",
        Code.BEYOND_GLOBAL: "`qhost -F -h global` shows what is left; more workers would not help.",
        Code.FOREIGN_QUEUE: "`qalter -q QUEUE JOB`, or add the queue with a suffixed `CP_CAP_SGE_QUEUE_NAME_1`.",
        Code.FOREIGN_HOST: "It waits for that host; `qalter` the request to let it run elsewhere.",
        Code.NOT_LOOKED_AT: "It is looked at within a few passes; raise `CP_CAP_AUTOSCALE_DETAIL_LOOKUPS` if that "
        "takes long.",
        Code.UNKNOWN_STATE: "Grid Engine shows a state we do not know; please report it with `sge-autoscaler record`.",
        Code.UNKNOWN_PE: "`qconf -spl` lists the parallel environments; the queue's `pe_list` must name it.",
        Code.UNKNOWN_RESOURCE: "`qconf -sc` lists what can be asked for.",
        Code.NO_TYPE_FITS: "Ask for less, raise a cap that is named, or allow larger types: `CP_CAP_AUTOSCALE_HYBRID`, "
        "`CP_CAP_AUTOSCALE_HYBRID_FAMILY`, `CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE`.",
        Code.NO_INSTANCE_TYPE: "Set `CP_CAP_AUTOSCALE_INSTANCE_TYPE`, or a hybrid cluster's "
        "`CP_CAP_AUTOSCALE_HYBRID_FAMILY`, to what the provider's catalogue has.",
        Code.NO_WORKER_ALLOWED: "Lift what is named: a cap, or what the provider lacks.",
        Code.RESTRICTED_QUEUE: "`qconf -sq QUEUE` shows who may use it; whether this job may is not ours to predict.",
        Code.TOO_LARGE_FOR_ONE_HOST: "`qalter -pe PE SLOTS JOB` asks otherwise; the sentence names the setting that "
        "would allow it, where one does.",
        Code.TOO_MANY_SLOTS: "`qalter -pe PE SLOTS JOB` asks for fewer; or raise the cap that is named.",
        Code.TOO_MANY_HOSTS: "`qalter -pe PE SLOTS JOB` asks for fewer; or raise the cap that is named.",
        Code.TOO_MUCH_ON_ONE_HOST: "`qalter -l` asks for less (name all requests again); or allow larger types.",
        Code.TOO_MUCH_TOGETHER: "`qalter -l` asks for less (name all requests again); or raise the cap that is named.",
        Code.NO_SUCH_RESOURCE: "`qalter -l` asks without it; or allow types that have it.",
        Code.NO_SUCH_HOST: "`qalter -l` asks otherwise; or allow types that are as asked.",
        Code.WAY_OUT: "",
        Code.WAY_OUT_ASK: "",
        Code.PERSISTENT: "It was not launched by us: start and end it as before.",
        Code.MASTER: "`CP_CAP_SGE_MASTER_CORES` sets how many of its cores serve jobs.",
        Code.RUNS_JOBS: "",
        Code.RESERVED: "`qrstat` lists advance reservations.",
        Code.NEEDED: "",
        Code.IDLE: "Longer: raise `CP_CAP_AUTOSCALE_IDLE_TIMEOUT`, or `sge-autoscaler keep HOST`.",
        Code.IDLE_NOT_LONG_ENOUGH: "Sooner: lower `CP_CAP_AUTOSCALE_IDLE_TIMEOUT`, or `sge-autoscaler drain HOST`.",
        Code.QUEUE_NOT_EMPTY: "Unset `CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT` to let idle workers go while others work.",
        Code.MIN_WORKERS: "Lower `CP_CAP_AUTOSCALE_MIN_WORKERS`.",
        Code.SHRINK_BATCH: "Faster: raise `CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE`.",
        Code.KEPT_BY_COMMAND: "`sge-autoscaler keep --undo HOST` lets it go when it is idle.",
        Code.DRAINED_BY_COMMAND: "",
        Code.STOPPING: "",
        Code.DISABLED_BY_HAND: "`qmod -e '*@HOST'` puts it back into service; it costs money meanwhile.",
        Code.ENABLED_BY_HAND: "It stays until it is idle anew; `sge-autoscaler drain HOST` sends it away.",
        Code.DRAINING: "",
        Code.SETTLING: "",
        Code.EMPTY: "",
        Code.NEEDED_AGAIN: "",
        Code.BOOTING: "",
        Code.BOOTED: "",
        Code.JOINING: "If it takes long: is `sge_execd` up there, and does its name resolve both ways? See `doctor`.",
        Code.JOINED: "",
        Code.BOOT_TIMEOUT: "Its last words are in the log; raise `CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT` if it "
        "only is slow.",
        Code.JOIN_TIMEOUT: "It runs, but its `sge_execd` was never heard: check names, ports and firewall; see "
        "`doctor`.",
        Code.REMOVED_FROM_GRID_ENGINE: "",
        Code.ENDING: "",
        Code.IN_SERVICE: "",
        Code.INSTANCE_IN_ERROR: "`qstat -f -explain E` tells why; `qmod -c '*@HOST'` clears it.",
        Code.UNHEARD: "Look at the machine: silence is not death, so its jobs are left alone.",
        Code.GONE: "",
        Code.UNKNOWN_ARRAY: "It carries our tag but a node array that no setting names: put the setting back, or end "
        "it by hand.",
        Code.NAME_TAKEN: "",
        Code.NAME_AWAITED: "It joins when the older entry is gone; `explain` the host for what keeps that.",
        Code.SILENT: "Look at the machine and its `sge_execd`. Later or sooner: `CP_CAP_AUTOSCALE_SILENCE_TIMEOUT`.",
        Code.ALL_SILENT: "Look at the master's network and at `qhost`; nothing is ended meanwhile.",
        Code.HEARD_AGAIN: "",
        Code.FENCED: "Why it fell silent is in its console, or at its provider.",
        Code.FENCE_CALLED_OFF: "Its provider did not end it: see the log for what it said.",
        Code.UNLISTED_AND_SILENT: "Look at the provider's own list of machines.",
        Code.INTERRUPTED: "Its replacement is ordered where a limit leaves room: raise the cap that is named.",
        Code.ENDED_BEFORE_TAKEN: "",
        Code.ADVISED_TO_LEAVE: "",
        Code.NOTICE_WITHDRAWN: "",
        Code.RELEASED: "",
        Code.TAKEN: "`CP_CAP_AUTOSCALE_PRICE_TYPE=on_demand` rents machines that are not taken back.",
        Code.LOST_JOBS: "`qsub -r n` keeps a job from being started again.",
        Code.LOST_JOBS_FORCED: "",
        Code.LOST_JOBS_DELETED: "`qsub -r y` lets a job be started again instead.",
        Code.LOST_JOBS_STAY: "`qdel -f JOB`, or `qmod -f -rj JOB` to start it again; "
        "`CP_CAP_AUTOSCALE_LOST_JOBS` does either by itself.",
        Code.LOST_JOBS_ASKED: "",
        Code.DELETED_BY_OWNER: "",
        Code.PARTLY_ALIVE: "Those that may start again are held, pushed back, and let go when the rest of them has "
        "ended; `qdel` ends others.",
        Code.ENDED_EVERYWHERE: "",
        Code.NOT_LISTED: "It counts on for a while: listings lag. If it stays so, look at the provider.",
        Code.DEMAND: "",
        Code.MIN_WORKERS_FLOOR: "Lower `CP_CAP_AUTOSCALE_MIN_WORKERS`.",
        Code.LAUNCH_WANTED: "",
        Code.NOTHING_TO_LAUNCH: "`sge-autoscaler plan` tells for each instance type why not.",
        Code.CAPPED: "Raise the cap that is named: `max_workers` is `CP_CAP_AUTOSCALE_WORKERS`, `max_…` is "
        "`CP_CAP_AUTOSCALE_MAX_…`; `availability` is the provider's.",
        Code.BATCHED: "Faster: raise `CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE`.",
        Code.BATCH_DELAY: "Faster: lower `CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY`.",
        Code.BUCKET_CHOSEN: "",
        Code.BUCKET_RESTING: "It failed too often: wait, allow other types, or lower "
        "`CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY`.",
        Code.BUCKET_NOT_ALLOWED: "Settings leave it out: instance type, family, cores a worker, price type.",
        Code.BUCKET_UNAVAILABLE: "Ask the provider for quota, or allow other types.",
        Code.BUCKET_TOO_SMALL: "",
        Code.BUCKET_NO_PRICE: "Give its price in a catalogue of your own, or lift "
        "`CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR`.",
        Code.BUCKET_NOT_PREFERRED: "",
        Code.LAUNCH_REPLACES: "",
        Code.SWAP: "`sge-autoscaler keep HOST` keeps it; `CP_CAP_AUTOSCALE_SWAP=false` ends all swapping.",
        Code.SWAP_CALLED_OFF: "",
        Code.SWAP_CONSIDERED: "",
        Code.SWAP_UNDER_WAY: "Sooner: raise the limit that is named, or `qmod -rj` the jobs that it still runs.",
        Code.SWAP_RESTS: "",
        Code.SWAP_OFF: "`CP_CAP_AUTOSCALE_SWAP=true`, or raise the limit that is named.",
        Code.NO_SWAP: "Raise the limit that is named; `sge-autoscaler keep --undo HOST` where workers are kept.",
        Code.NODE_ARRAY_STOPPED: "The provider refused for good: mend what it says, then `sge-autoscaler resume`.",
        Code.PAUSED: "`sge-autoscaler resume`.",
        Code.BRAKE: "Find out why so much happened, then `sge-autoscaler resume`.",
        Code.SET_ASIDE: "Please report what could not be read, with `sge-autoscaler record`.",
        Code.NOT_OBSERVABLE: "`sge-autoscaler doctor` tells what does not answer.",
    }
)
