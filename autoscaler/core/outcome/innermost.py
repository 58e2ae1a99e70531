"""The innermost cause for which a job waits: the one link of its verdict's reason that, once gone, lets the job go on.

Every place that tells people why a job waits names this cause: `explain`, `jobs`, `top`, the answers over HTTP, the
job's context (`qstat -j`), notifications, events and metrics. A verdict says first what was found (it does not fit, the
queue's demand has expired) and adds what followed from that; several additions may stand side by side. Which of them
decides is a table here, so that no two readers choose differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from autoscaler.core.model.reasons import Code, Reason

LEADS_ON = frozenset(
    {
        Code.COUNTED,
        Code.FITS,
        Code.WAITS_FOR_COMING,
        Code.NOT_EXPIRED,
        Code.EXPIRED,
        Code.DEMAND,
        Code.MIN_WORKERS_FLOOR,
        Code.LAUNCH_WANTED,
        Code.NOTHING_TO_LAUNCH,
        Code.NO_WORKER_ALLOWED,
        Code.GROUP_TOO_LARGE,
        Code.UNSATISFIABLE_HELD,
    }
)
"""Codes that say what was found. What was added to them is the cause, if anything was. Every other code is a cause
itself, and what was added to it explains it, or says what was done about it.
"""

_RANKS: Mapping[Code, int] = MappingProxyType(
    {
        # What holds of this job alone, whatever else keeps workers from coming.
        Code.NOT_STARTED: 0,
        Code.OTHERS_FIRST: 0,
        # Any other code: what keeps workers from coming.
        # What happened before. The next launch may go well.
        Code.LAUNCHES_DID_NOT_HELP: 2,
        Code.LAUNCHES_FAILED: 3,
        # Pauses between launches: they pass by themselves.
        Code.SCALE_UP_BATCH: 4,
        Code.LAUNCH_RATE_LIMIT: 4,
        Code.BATCH_DELAY: 4,
        # Something is done for it.
        Code.DEMAND: 5,
        Code.MIN_WORKERS_FLOOR: 5,
        Code.GROUP_LAUNCHED: 5,
        Code.LAUNCH_REPLACES: 5,
        # Remarks: why it does not fit where it seems to, and why no worker makes room for it.
        Code.KEPT_FROM_HOSTS: 6,
        Code.SWAP_CONSIDERED: 6,
        Code.SWAP_UNDER_WAY: 6,
        Code.SWAP_COOLDOWN: 6,
        Code.SWAP_OFF: 6,
        Code.NO_SWAP: 6,
        Code.LAUNCH_WANTED: 7,
        # Why such a job is not deleted or held says nothing of why it waits.
        Code.UNPROVEN: 9,
    }
)
"""Of several causes side by side, the one with the lowest rank decides; of equal ones the first."""
_ANY, _FOUND = 1, 8
"""The rank of all other causes; of what was found, which is the cause if nothing that was added comes before it."""

_WORDS: Mapping[Code, frozenset[Code]] = MappingProxyType({Code.RULES_FORBID: frozenset({Code.AGAINST_RULES})})
"""Causes that keep these additions, which have the words that matter: a rule's own message."""


def cause_of(reason: Reason) -> Reason:
    """The innermost cause in the reason of a verdict on a waiting job, without what was added to it.

    The same reason has the same cause whoever asks. A verdict without additions is its own cause.
    """
    if reason.code not in LEADS_ON:
        return replace(reason, trail=tuple(link for link in reason.trail if link.code in _WORDS.get(reason.code, ())))
    own = replace(reason, trail=())
    return min((own, *map(cause_of, reason.trail)), key=lambda cause: _rank(cause.code))


def cause_code(reason: Reason) -> Code:
    """The code of that cause. Quicker, for figures about all jobs of a pass."""
    if reason.code not in LEADS_ON or not reason.trail:
        return reason.code
    return min((reason.code, *map(cause_code, reason.trail)), key=_rank)


def _rank(code: Code) -> int:
    return _RANKS.get(code, _FOUND if code in LEADS_ON else _ANY)
