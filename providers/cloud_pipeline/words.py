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


class NoSuchRun(Refused):
    """The platform knows no run of this id."""


def refusal(what: str, message: str) -> ProviderError:
    """The error that stands for an answer `status: ERROR` to the call `what`."""
    said = f"{what}: the platform says: {message}"
    if _CAPACITY.search(message):
        return OutOfCapacity(said)
    if _QUOTA.search(message):
        return QuotaReached(said)
    if _THROTTLED.search(message):
        return Throttled(said)
    if _PASSING.search(message):
        return Unreachable(said)
    return NoSuchRun(said) if _MISSING.search(message) else Refused(said)


def is_capacity(message: str) -> bool:
    """Whether a run's reason means that there was no machine for it."""
    return bool(_CAPACITY.search(message))


def is_interruption(message: str) -> bool:
    """Whether a run's reason means that its cloud took the machine back."""
    return bool(_TAKEN.search(message)) and not is_capacity(message)
