"""The texts in the context of jobs that have waited long: one line for each reason, which many jobs share.

A text contains no time, no count and no provider's message, so that it changes only with the reason; and no comma,
which would end it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from autoscaler.core.model.reasons import Code, Reason
from autoscaler.report.wording import filled

TEXTS: Mapping[Code, str] = MappingProxyType(
    {
        Code.CAPPED: "it waits for a worker: the limit {cap} is reached",
        Code.AUTOSCALING_OFF: "it waits for a host that stays: autoscaling is switched off for the queue {queue}",
        Code.NODE_ARRAY_STOPPED: "it waits for a worker: the provider refuses to launch workers of {node_array}",
        Code.PROTECTED_MODE: "it waits for a worker: launches of {node_array} helped no job and are stopped",
        Code.LAUNCHES_DID_NOT_HELP: "it waits for a worker: launches of {node_array} helped no such job so far",
        Code.LAUNCHES_FAILED: "it waits for a worker: launches of {node_array} failed",
        Code.NOTHING_TO_LAUNCH: "it waits for a worker: {node_array} has no instance type that can be launched for it",
        Code.NO_INSTANCE_TYPE: "it waits for a worker: the provider knows no instance type of {node_array}",
        Code.OTHERS_FIRST: "smaller jobs take the hosts that could run it: -R y reserves them",
        Code.QUEUE_DEMAND_OFF: "it waits for a worker that somebody requests: jobs alone launch none here",
        Code.BEYOND_QUOTA: "the quota {quota} is used up",
        Code.QUOTA_ALLOWS_NONE: "the quota {quota} allows no such job",
        Code.TOO_MUCH_FOR_QUOTA: "it requests more {resource} than the quota {quota} ever allows",
        Code.TOO_MUCH_FOR_CELL: "it requests more {resource} than the whole cell has",
        Code.BEYOND_USER_LIMIT: "its owner runs as many jobs as maxujobs allows",
        Code.BEYOND_ARRAY_LIMIT: "as many tasks of it run as max_aj_instances allows",
        Code.BEYOND_GLOBAL: "other jobs use all {resource}",
        Code.QUEUE_OFF_BY_CALENDAR: "the queue {queue} is closed by its calendar {calendar}",
        Code.RUNS_INTO_CLOSING: "it would run on when the calendar {calendar} closes the queue {queue}",
        Code.QUEUE_MISSING: "Grid Engine has no {what}",
        Code.QUEUE_DISABLED_BY_HAND: "the queue {queue} is disabled by a person",
        Code.QUEUE_SUSPENDED_BY_HAND: "the queue {queue} is suspended by a person",
        Code.QUEUE_SUBORDINATE: "the queue {queue} is suspended by jobs of {superior}",
        Code.RESTRICTED_QUEUE: "the queue {queue} does not take such jobs",
        Code.NO_ACCESS: "its owner may not use {what}",
        Code.NO_PROJECT_ACCESS: "jobs of its project may not use {what}",
        Code.NO_PROJECT: "it has no project and only jobs of some projects may use {what}",
        Code.FOREIGN_QUEUE: "no queue that gets workers can run it",
        Code.QUEUE_NOT_NAMED: "workers of {queues} are launched only for jobs that name that queue",
        Code.FOREIGN_HOST: "it requests a host that the autoscaler does not manage",
        Code.HOST_LEFT: "it requests a worker that has left: take the host out of the request by qalter",
        Code.MUST_BE_REQUESTED: "it does not request {resources} as jobs on all workers that could run it must",
        Code.RULES_FORBID: "rules of the site forbid all workers for it",
        Code.PAUSED: "an administrator has paused the launching of workers",
        Code.CIRCUIT_BREAKER: "the autoscaler has stopped launching until an administrator looks",
        Code.STOPPING: "the autoscaler is being stopped and launches no more workers",
        Code.BUDGET_SPENT: "it waits for a worker: the budget is spent",
        Code.JOB_OVER_BUDGET: "it waits for a free worker: the budget of its owner or project is spent",
        Code.BUCKET_BACKOFF: "it waits for a worker: launches of {type} failed and are tried again later",
        Code.BUCKET_REFUSED: "it waits for a worker: the provider refuses to launch {type}",
        Code.BUCKET_UNAVAILABLE: "it waits for a worker: the provider has no {type} for this cell",
        Code.BUCKET_NOT_ALLOWED: "it waits for a worker: {type} is not allowed here",
        Code.BUCKET_TOO_SMALL: "it waits for a worker: {type} could not run it",
        Code.BUCKET_NO_PRICE: "it waits for a worker: the price of {type} is not known",
        Code.BUCKET_TOO_EXPENSIVE: "it waits for a worker: {type} is too expensive now",
        Code.LAUNCH_AWAITED: "workers of {node_array} came for it and it has not started there: see qalter -w p",
        Code.LAUNCH_THROTTLED: "it waits for a worker: the provider accepts no launch now",
        Code.ORDER_UNANSWERED: "it waits for a worker: the provider has not answered an order",
        Code.NOT_STARTED: "it seems to fit on free hosts and the scheduler does not start it: see qalter -w p",
        Code.NO_TYPE_FITS: "no worker that may be launched is large enough for it",
        Code.NOT_GIVEN_TO_WORKERS: "it requests {resources}: workers are not given that",
        Code.TOO_LARGE_FOR_ONE_HOST: "no host that is allowed has so many slots",
        Code.TOO_MANY_SLOTS: "it requests more slots than all hosts that are allowed have",
        Code.TOO_MANY_HOSTS: "it requests more hosts than are allowed",
        Code.TOO_MUCH_ON_ONE_HOST: "it requests more {resource} than any host that is allowed has",
        Code.TOO_MUCH_TOGETHER: "it requests more {resource} than all hosts that are allowed have together",
        Code.NO_SUCH_RESOURCE: "no worker that is allowed has the {resource} that it requests",
        Code.NO_SUCH_HOST: "no worker that is allowed is such a host as it requests",
        Code.UNKNOWN_RESOURCE: "Grid Engine has no complex {resource} which it requests",
        Code.UNKNOWN_PE: "no queue that gets workers has the parallel environment {pe} for so many slots",
        Code.PE_RULE: "its slots do not suit the allocation rule of {pe}",
        Code.PE_SLOTS: "it requests more slots than the parallel environment {pe} has",
        Code.PE_ELSEWHERE: "no queue that gets workers has the parallel environment {pe}",
        Code.GROUP_PE_NEEDS_WILDCARD: "only -pe {wildcard} finds all groups of workers",
        Code.NO_BATCH_QUEUE: "the queue {queue} starts no batch jobs on workers",
        Code.NOT_IN_CKPT_LIST: "no queue that gets workers has the checkpointing environment {ckpt}",
        Code.ACCESS_UNKNOWN: "who may use {what} could not be read",
        Code.ADVANCE_RESERVATION: "it runs only inside its advance reservation",
        Code.QUEUE_CLOSES_SOON: "the calendar {calendar} closes the queue {queue} before a worker could come",
        Code.IN_ALARM: "all workers of {queue} are in load alarm",
        Code.CANNOT_BE_READ: "{what} cannot be read",
    }
)
MORE = "(sge-autoscaler explain JOB says more)"


def waiting_text(reason: Reason) -> str:
    """The line of a reason that `core.outcome.waiting_notes` chooses."""
    facts = {name: " and ".join(fact) if isinstance(fact, tuple) else fact for name, fact in reason.facts}
    return f"{filled(TEXTS[reason.code], facts).replace(',', ';')} {MORE}"
