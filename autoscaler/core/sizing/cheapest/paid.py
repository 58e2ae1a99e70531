"""What a set of workers costs until each of them can leave, by how long its jobs are estimated to run.

Grid Engine starts the jobs of a category in the order of their submission, so the tasks of a demand go to the workers
in that order. A worker is paid from its order to the end of its last job.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from autoscaler.core.estimates.estimates import RunTime, likely_last
from autoscaler.core.sizing.problem import Problem, Proposal, name_of

HOUR = 3600.0
REUSED = 0.75
"""What share of the slots of a task that ends is used by later jobs, until the worker's last task ends. The same share
of slots that no task had is used, if they hold another task like those of the set. Smaller rests are used by none.
"""


def paid_price(problem: Problem, proposal: Proposal) -> float:
    """Of all workers of the set until their last jobs end; inf: some price is not known."""
    tasks = dict[str, list[tuple[int, RunTime]]]()
    begun = [0] * len(problem.unmet)
    for share in problem.shares(proposal):
        slots, times = problem.unmet[share.demand][0].slots, problem.run_times[share.demand]
        first = begun[share.demand] // slots
        begun[share.demand] += share.slots
        some = times[first : -(-begun[share.demand] // slots)]
        tasks.setdefault(share.host, []).extend((share.slots // max(len(some), 1), time) for time in some)
    least = min((demand.slots for demand, count in problem.unmet if count and demand.one_host), default=0)
    return sum(
        part.offer.price * _seconds(problem, part.offer.offer.slots, tasks.get(name_of(at, number), ()), least) / HOUR
        for at, part in enumerate(proposal.parts)
        for number in range(part.count)
    )


def _seconds(problem: Problem, slots: int, tasks: Sequence[tuple[int, RunTime]], least: int) -> float:
    """For which a worker is paid: until its last task ends, less what others get of slots that are free before. Of the
    last step of billing, later jobs use as much as of those. `least`: slots of the smallest task that waits for one
    host; 0: none does.
    """
    last = likely_last([time for _, time in tasks])
    rest = slots - sum(each for each, _ in tasks)
    freed = sum(each * max(last - time.mean, 0.0) for each, time in tasks)
    freed += (rest - rest % least if least else 0) * last
    used = max(problem.boot + last - REUSED * freed / max(slots, 1), problem.billing_minimum)
    billed = ceil(used / problem.billing_step - 1e-9) * problem.billing_step
    return billed - REUSED * (billed - used)
