"""The meaning of each mark that a worker gets when we disable it: one row for each mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because


@dataclass(frozen=True, slots=True)
class Mark:
    """One row."""

    reason: Reason
    """Why it leaves, if nothing more is known."""
    for_good: bool = False
    """Only a person enables it again."""
    cordon: bool = False
    """It stays, and is enabled again when the cause has passed."""
    excuses: bool = False
    """It is taken away before its jobs could start, so that its launch does not count as no help."""
    expected_end: bool = False
    """Its end was requested, or it leaves regularly: a created node that it served did not fail."""
    not_for_requests: bool = False
    """It is not enabled again for a request."""
    until_it_asks: bool = False
    """If it asks to stop, it then leaves for good."""


MARKS: Mapping[Disabling, Mark] = {
    Disabling.ENROL: Mark(because(Code.JOIN_TIMEOUT)),
    Disabling.IDLE: Mark(because(Code.IDLE), expected_end=True, until_it_asks=True),
    Disabling.COMMAND: Mark(because(Code.DRAINED_BY_COMMAND), excuses=True, expected_end=True),
    Disabling.STOP: Mark(because(Code.STOPPING), excuses=True, expected_end=True),
    Disabling.BROKEN: Mark(because(Code.INSTANCE_IN_ERROR), for_good=True),
    Disabling.SILENT: Mark(because(Code.NO_LOAD_REPORT), cordon=True),
    Disabling.INTERRUPTED: Mark(because(Code.RECLAIMED), cordon=True, excuses=True),
    Disabling.ADVISED: Mark(
        because(Code.REBALANCE_RECOMMENDED), excuses=True, not_for_requests=True, until_it_asks=True
    ),
    Disabling.LOST: Mark(because(Code.ENDING), cordon=True),
    Disabling.SWAP: Mark(because(Code.SWAP), excuses=True, not_for_requests=True),
    Disabling.GROUP: Mark(because(Code.IDLE), for_good=True, expected_end=True),
    Disabling.AUTO_STOP: Mark(because(Code.ASKED_TO_STOP), for_good=True, excuses=True, expected_end=True),
}
FOR_GOOD = frozenset(mark for mark, row in MARKS.items() if row.for_good)
CORDONS = frozenset(mark for mark, row in MARKS.items() if row.cordon)
EXCUSES = frozenset(mark for mark, row in MARKS.items() if row.excuses)
EXPECTED_ENDS = frozenset(mark for mark, row in MARKS.items() if row.expected_end)
NOT_FOR_REQUESTS = frozenset(mark for mark, row in MARKS.items() if row.not_for_requests)
UNTIL_IT_ASKS = frozenset(mark for mark, row in MARKS.items() if row.until_it_asks)
