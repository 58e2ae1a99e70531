"""Reasons of launches: demand, limits, offers, swaps, failures."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import WAIT_OR_ASK, ReasonRow

_NOT_STARTED = (
    "Why none starts: `qstat -j JOB`; `qstat -f -explain aE` and `qmod -cq` for queue instances in alarm or error; the "
    "queue's prolog, `slots`, `load_thresholds` and calendar; the console of a worker that never joined"
)

HEADING = "Launches, limits and offers"

ROWS = {
    Code.DEMAND: ReasonRow(
        "{tasks} tasks of {queue} with {slots} slots can start on no host",
        short="demand",
        owner_remedy="Nothing needs to be done: it can start once the worker has come.",
    ),
    Code.MIN_WORKERS_FLOOR: ReasonRow(
        "{node_array} keeps at least {min_workers} workers",
        short="floor",
        remedy="Lower `CP_CAP_AUTOSCALE_MIN_WORKERS`.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.LAUNCH_WANTED: ReasonRow(
        "wanted {workers} {type}",
        short="wanted {workers}",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.NOTHING_TO_LAUNCH: ReasonRow(
        "{node_array} has no instance type that can be launched for it[; requested: {requested}]",
        remedy="`sge-autoscaler plan` shows the cause for each instance type.",
        owner_remedy="Ask an administrator.",
    ),
    Code.CAPPED: ReasonRow(
        "capped by {cap} ({limit}[ {currency} an hour])[ of {node_array}]",
        short="capped by {cap}",
        remedy="Raise the cap that is named: `max_workers` is `CP_CAP_AUTOSCALE_WORKERS`, `max_…` is "
        "`CP_CAP_AUTOSCALE_MAX_…`, `total_…` of the whole cell is `CP_CAP_AUTOSCALE_TOTAL_…`; `availability` is the "
        "provider's.",
        owner_remedy=WAIT_OR_ASK,
    ),
    Code.AUTOSCALING_OFF: ReasonRow(
        "autoscaling is switched off for the queue {queue}[ by {setting}]",
        short="autoscaling is off",
        remedy="`CP_CAP_AUTOSCALE=true` in its profile (`sge configure QUEUE`) switches it on; by hand "
        "`CP_CAP_AUTOSCALE_WATCH_ONLY=false`. Until then the queue is only watched.",
        owner_remedy="It can start on hosts that stay; or `qalter -q QUEUE JOB` lets it run in a queue that gets "
        "workers.",
    ),
    Code.SCALE_UP_BATCH: ReasonRow(
        "at most {batch} at a time",
        short="{batch} at a time",
        remedy="Faster: raise `CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE`.",
        owner_remedy=WAIT_OR_ASK,
    ),
    Code.LAUNCH_RATE_LIMIT: ReasonRow(
        "at most {most} launches[ for {whose}] within {window_s}; the rest waits",
        short="rate limited",
        remedy="Faster: raise `CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_LAUNCHES`; now: `sge-autoscaler resume` begins the "
        "window anew.",
        owner_remedy="Nothing needs to be done: launches go on by themselves.",
    ),
    Code.BATCH_DELAY: ReasonRow(
        "{node_array} launched less than {delay_s} ago",
        short="batch delay",
        remedy="Faster: lower `CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY`.",
        owner_remedy="Nothing needs to be done: launches go on by themselves.",
    ),
    Code.BUCKET_CHOSEN: ReasonRow(
        "{count} {type} fit the demand best",
    ),
    Code.BUCKET_BACKOFF: ReasonRow(
        "{type} is in backoff until {until_at} after {failures} failures[: {message}]",
        remedy="It failed too often: wait, allow other types, or lower "
        "`CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY`; `sge-autoscaler retry` tries it again at once.",
        owner_remedy="Wait, or ask an administrator for other instance types.",
    ),
    Code.BUCKET_REFUSED: ReasonRow(
        "{type} is refused until resumed: {message}",
        remedy="The provider refused it for good: fix the cause that it names, then `sge-autoscaler resume`.",
        owner_remedy="Ask an administrator.",
        needs_person=True,
    ),
    Code.BUCKET_NOT_ALLOWED: ReasonRow(
        "[{price_type} ]{type} is not allowed in this node array",
        remedy="Settings leave it out: instance type, family, cores a worker, price type.",
        owner_remedy="Ask an administrator.",
    ),
    Code.BUCKET_UNAVAILABLE: ReasonRow(
        "{type} is not available: {message}",
        remedy="Ask the provider for quota, or allow other types.",
        owner_remedy="Wait, or ask an administrator for other instance types.",
    ),
    Code.BUCKET_TOO_SMALL: ReasonRow(
        "{type} could run no pending job[: its hosts report {reported}]",
        remedy="If its hosts report less than the type promises, request less, or allow a larger type. "
        "`sge-autoscaler retry` forgets what they reported.",
        owner_remedy="Request less (`qalter`), or ask an administrator to allow larger workers.",
    ),
    Code.BUCKET_AGAINST_RULES: ReasonRow(
        "{type} is not allowed by the rules of the pending jobs ({places})",
        owner_remedy="Ask an administrator.",
    ),
    Code.BUCKET_NO_PRICE: ReasonRow(
        "the price of {type} is not known, and there is a price cap",
        remedy="Give its price in a catalogue of your own, or lift `CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR` and "
        "`CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR`.",
        owner_remedy="Ask an administrator.",
    ),
    Code.BUCKET_TOO_EARLY: ReasonRow(
        "{price_type} {type} is used only once the pending jobs have been able to run for {deadline_s}",
        remedy="Sooner: lower `CP_CAP_AUTOSCALE_PRICE_TYPE_DEADLINE`.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.BUCKET_TOO_EXPENSIVE: ReasonRow(
        "{price_type} {type} costs {price} {currency} an hour; beside {preferred} at most {most} {currency} is allowed",
        remedy="Raise `CP_CAP_AUTOSCALE_PRICE_TYPE_MAX_PREMIUM`, or wait for the first price type.",
        owner_remedy="Wait, or ask an administrator.",
    ),
    Code.BUCKET_NOT_PREFERRED: ReasonRow(
        "{preferred} is preferred to {type}",
    ),
    Code.BUCKET_NOT_CHEAPEST: ReasonRow(
        "{cheapest} is cheaper than {type}[, and the budget of {owner} allows only the cheapest]",
        remedy="Raise `CP_CAP_AUTOSCALE_BUDGET` or `CP_CAP_AUTOSCALE_BUDGETS`, or wait for the next month.",
        owner_remedy="Wait, or ask an administrator.",
    ),
    Code.BUDGET_SPENT: ReasonRow(
        "the budget of {owner} is spent ({budget} {currency} a month): nothing is launched until {until_at}",
        short="budget spent",
        remedy="Raise `CP_CAP_AUTOSCALE_BUDGET`, or set `CP_CAP_AUTOSCALE_BUDGET_ACTION` to `warn` or `cheapest`. "
        "`sge-autoscaler cost` shows what it was spent for.",
        owner_remedy="Wait until the budget is renewed; the job starts on workers that become free.",
    ),
    Code.BUDGET_UNKNOWN: ReasonRow(
        "how much of the budget of {owner} is spent is not known until passes have read the accounting",
        short="budget not yet known",
        remedy="Wait for the next passes, which read the accounting.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.STATE_LOST: ReasonRow(
        "the state was lost while there were workers; nothing is launched until {until_at}, when listings have all "
        "that was ordered before",
        short="state lost",
        remedy="It passes by itself. Find out who removed the state: history, costs, requests and pauses are lost.",
        owner_remedy="Nothing needs to be done: launches go on by themselves.",
    ),
    Code.LAUNCH_PREFERRED: ReasonRow(
        "preferred: {why}",
        short="preferred",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.LAUNCH_CHEAPEST: ReasonRow(
        "the cheapest set that was found: {price} an hour[, {more} less than the next, {second}][, as much as {equal}]"
        "[; no spot for {steady} tasks]",
        short="cheapest",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.LAUNCH_REPLACES: ReasonRow(
        "it replaces {worker}",
        short="replaces",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.SWAP: ReasonRow(
        "a stronger worker replaces it[: {type}; tasks that need it: {tasks}]",
        remedy="`sge-autoscaler keep HOST` keeps it; `CP_CAP_AUTOSCALE_SWAP=false` ends all swapping.",
    ),
    Code.SWAP_CANCELLED: ReasonRow(
        "its replacement by a stronger worker is cancelled",
        short="replacement cancelled",
    ),
    Code.SWAP_CONSIDERED: ReasonRow(
        "{type} could replace {workers}; one more observation comes first",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.SWAP_UNDER_WAY: ReasonRow(
        "{type} replaces {workers}",
        remedy="Sooner: raise the limit that is named, or `qmod -rj` the jobs that it still runs.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.SWAP_COOLDOWN: ReasonRow(
        "{node_array} swapped a worker less than {limit_s} ago, the time that a boot takes",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.SWAP_OFF: ReasonRow(
        "swapping a worker of {node_array} for a stronger one is off",
        remedy="`CP_CAP_AUTOSCALE_SWAP=true`, or raise the limit that is named.",
        owner_remedy="Ask an administrator.",
    ),
    Code.NO_SWAP: ReasonRow(
        "to replace a worker of {node_array} by a stronger one would cost more than it gains",
        remedy="Raise the limit that is named; `sge-autoscaler keep --undo HOST` where workers are kept.",
        owner_remedy="Ask an administrator.",
    ),
    Code.NODE_ARRAY_STOPPED: ReasonRow(
        "{node_array} launches nothing until resumed: {message}",
        remedy="The provider refused for good: fix the cause that it names, then `sge-autoscaler resume`.",
        owner_remedy="Ask an administrator.",
        needs_person=True,
    ),
    Code.LAUNCHES_FAILED: ReasonRow(
        "{failures} launches for {node_array} failed recently; the last, {type}: {message}",
        short="launches failed",
        remedy="Fix the cause that the provider names. A type that fails too often is in backoff for a while; a "
        "worker of it that comes up resets the count.",
        owner_remedy="Wait: launches are tried again. If that lasts, ask an administrator.",
    ),
    Code.LAUNCH_THROTTLED: ReasonRow(
        "the provider accepts no launch now: {message}; the next attempt is after {until_at}, if it is still needed",
        short="the provider accepts no launch now",
        remedy="It passes by itself. Where it happens often: fewer calls a second, or a higher rate limit at the "
        "provider.",
        owner_remedy="Nothing needs to be done: it passes by itself.",
    ),
    Code.ORDER_UNANSWERED: ReasonRow(
        "no answer to an order of {count} {type}: {message}[; the autoscaler asks again after {until_at}]",
        short="an order has no answer",
        remedy="Its machines may come, so they count as coming until the listing shows them or the order is given up. "
        "Check the provider's service and the network.",
        owner_remedy="Nothing needs to be done: the worker may come, and the provider is asked again.",
    ),
    Code.LAUNCHES_DID_NOT_HELP: ReasonRow(
        "launches of {node_array} helped none of its jobs, {failures} in a row[ ({seen})][; one task is tried again "
        "after {until_at}]",
        remedy=_NOT_STARTED + "; `sge-autoscaler retry` launches again at once.",
        owner_remedy="Look at `qstat -j JOB` and `qalter -w p JOB`; if they do not say why it does not start, ask "
        "an administrator.",
    ),
    Code.LAUNCH_AWAITED: ReasonRow(
        "workers of {node_array} were launched for it, and none of its jobs has started there yet[ ({seen})]",
        remedy=_NOT_STARTED + ".",
        owner_remedy="Look at `qstat -j JOB` and `qalter -w p JOB`.",
    ),
    Code.HOSTS_ORDERED: ReasonRow(
        "{workers} workers get other numbers: jobs go first where work is estimated to end last",
    ),
    Code.LAUNCH_LEAST_PAID: ReasonRow(
        "estimated to cost {paid} in all for these jobs, {price} an hour[; the next, {second}, would cost {more} more]"
        "[; {equal} would cost as much]",
    ),
    Code.WAITS_FOR_FREE: ReasonRow(
        "{tasks} tasks are estimated to find free workers within a boot; else one is launched after {until_at}",
        remedy="`CP_CAP_AUTOSCALE_WAIT_FOR_FREE` bounds this.",
        owner_remedy="Nothing needs to be done.",
    ),
    Code.PROTECTED_MODE: ReasonRow(
        "the last {failures} launches of {node_array} helped none of {categories} job categories[ ({seen})]; nothing "
        "is launched for jobs of their owners until an administrator resumes, and for each other owner one worker",
        remedy=_NOT_STARTED + "; fix it, then `sge-autoscaler resume`.",
        owner_remedy="Ask an administrator.",
    ),
}
