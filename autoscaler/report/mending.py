"""What an operator must mend, since no time and no job will: named in every pass, and never counted among others."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code, Reason
from autoscaler.report.reasons.table import REASONS


def to_mend(reason: Reason) -> bool:
    """Whether settings, Grid Engine or the provider's account have to be changed before this ends. What a caller asked
    for wrongly is the caller's to mend.
    """
    links = (reason, *reason.trail)
    if any(link.code is Code.NOTHING_TO_LAUNCH and not link.trail for link in links):
        return True  # no type that is allowed is known: what rests or is sold out is told in its trail
    return any(REASONS[link.code].mend for link in links)
