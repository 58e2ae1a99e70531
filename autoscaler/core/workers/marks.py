"""What each mark means that we leave on a worker when we disable it: one row a mark, for all who ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because


@dataclass(frozen=True, slots=True)
class Mark:
    """One row."""

    reason: Reason
    """Why it leaves, where nothing more is known."""
    for_good: bool = False
    """Nothing but a person enables it again."""
    cordon: bool = False
    """It stays, and is enabled again when what befell it has passed."""
    excuses: bool = False
    """It is taken away before its jobs could start: that none did says nothing against its launch."""
    expected_end: bool = False
    """Somebody asked for its end, or it leaves as all do: a created node did not fail by that."""
    not_for_requests: bool = False
    """It is not enabled again for a request."""
    until_it_asks: bool = False
    """Once it asks to stop it leaves for good."""


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
