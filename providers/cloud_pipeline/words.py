"""What the platform says when it says no: it answers HTTP 200 with `status: ERROR` and a sentence, seldom a code.

The sentences that matter are told by their words. What may pass is asked again; whatever else it refuses is refused
for good, since it would be refused again.
"""

from __future__ import annotations

import re

from providers.interface import OutOfCapacity, ProviderError, QuotaReached, Refused, Throttled, Unreachable

NO_CAPACITY = "Insufficient instance capacity."
"""`stateReasonMessage` of a run that ended because its cloud had no machine for it."""

_CAPACITY = re.compile(r"insufficient .*capacity|no capacity", re.IGNORECASE)
_QUOTA = re.compile(r"\bquota|exceed\w* .*limit|limit .*exceed|maximum number of running", re.IGNORECASE)
_THROTTLED = re.compile(r"too many requests|rate limit|throttl", re.IGNORECASE)
_PASSING = re.compile(
    r"time[d ]*out|connection|unavailable|internal (server )?error|try again|temporar|deadlock|\bjdbc\b|\bsql\b"
    r"|transaction|could not (open|acquire|obtain)|optimistic",
    re.IGNORECASE,
)
_MISSING = re.compile(r"\b(not|wasn't|was not|cannot be|can't be) found|does ?n[o']t exist|no such", re.IGNORECASE)
_TAKEN = re.compile(r"spot|preempt|interrupt|reclaim", re.IGNORECASE)

_QUOTED = re.compile(r"'[^']*'|\[[^\]]*\]")
"""Names in a sentence are no part of what it says: a preference may be called a timeout."""


class NotKnown(Refused):
    """The platform knows nothing of this name or id."""


def refusal(what: str, message: str) -> ProviderError:
    """The error that stands for an answer `status: ERROR` to the call `what`."""
    said, words = f"{what}: the platform says: {message}", _QUOTED.sub(" ", message)
    if _CAPACITY.search(words):
        return OutOfCapacity(said)
    if _QUOTA.search(words):
        return QuotaReached(said)
    if _THROTTLED.search(words):
        return Throttled(said)
    if _MISSING.search(words):
        return NotKnown(said)
    return Unreachable(said) if _PASSING.search(words) else Refused(said)


def is_capacity(message: str) -> bool:
    """Whether a run's reason means that there was no machine for it."""
    return bool(_CAPACITY.search(message))


def is_interruption(message: str) -> bool:
    """Whether a run's reason means that its cloud took the machine back."""
    return bool(_TAKEN.search(message)) and not is_capacity(message)
