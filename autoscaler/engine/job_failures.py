"""Turns Grid Engine's accounting file into evidence: which jobs could not start on which host, and whose jobs ran
there.

The core decides which failures are the host's. If the file cannot be read, there is no evidence, and a warning is
logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoscaler.core.hosts.job_faults import fault_of
from autoscaler.core.model.evidence import JobFailure, JobSuccess
from autoscaler.sge.accounting import Start, read_on, written_last
from autoscaler.store.evidence import StartTable

LONGEST_GAP = 600.0
"""Longest gap in seconds between two observations: after a longer one nobody knows when a job failed, so entries of
that time do not count.
"""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Failures:
    """Reads the new part of the file in every pass."""

    accounting: Path
    """SGE_ROOT/CELL/common/accounting. Of this and `accounting.jsonl` beside it, the newer one is read."""
    table: StartTable
    last_reading: Callable[[], float]
    """The time of the last observation."""
    _logged: str = ""
    _file: Path | None = None

    def gather(self, now: float) -> None:
        """Store the entries since the last observation, with the time of this one."""
        try:
            file = written_last(self.accounting)
            # An offset in one file means nothing in the other: all lines of that are old.
            same = self._file in (None, file)
            before = self.table.offset if same and now - self.last_reading() <= LONGEST_GAP else None
            offset, starts = read_on(file, before)
        except OSError as error:
            if str(error) != self._logged:
                log.warning("the accounting file cannot be read, so failed jobs quarantine no worker: %s", error)
            self._logged = str(error)
            return
        self._logged, self._file = "", file if file.exists() else self._file
        if starts or offset != before:
            evidence = (_evidence(start, now) for start in starts)
            self.table.add([one for one in evidence if one is not None], offset)


def _evidence(start: Start, now: float) -> JobFailure | JobSuccess | None:
    """None: the cause of the job's end has nothing to do with the host."""
    if start.failed == 0:
        return JobSuccess(start.host, start.owner, now)
    if fault_of(start.words) is None:
        return None
    return JobFailure(start.host, start.job, now, start.words, start.owner, start.task)
