"""Run times of earlier jobs, from the newest part of Grid Engine's accounting, read when somebody asks."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from autoscaler.core.estimates.estimates import NO_ESTIMATES, Estimates
from autoscaler.core.estimates.estimator import Estimator
from autoscaler.core.estimates.run_times import Estimate, Likeness, RunTimes
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.complexes import amount
from autoscaler.sge.accounting import MOST_BYTES, JobEnd, read_on_ends, written_last
from autoscaler.sge.accounting_category import read_category

log = logging.getLogger(__name__)


class RunTimeHistory:
    """Of one cell. Any thread may ask."""

    def __init__(self, accounting: Path, most: int = MOST_BYTES) -> None:
        """`most`: bytes that one question reads at most, some thousand jobs."""
        self._accounting, self._most, self._times = accounting, most, RunTimes()
        self._estimator = Estimator(self._times)
        self._logged = ""
        self._read: tuple[int, int] | None = None
        """Inode of the file and how far it was read."""
        self._guard = threading.Lock()

    def estimate(self, like: Likeness, running: float = 0.0) -> Estimate | None:
        """How long such a job will run; None: nothing is known. Raises OSError."""
        with self._guard:
            self._read_on()
            return self._times.estimate(like, running)

    def estimates(self, cluster: Cluster, now: float) -> Estimates:
        """For all jobs of a reading; none if the accounting cannot be read."""
        with self._guard:
            try:
                self._read_on()
            except OSError as error:
                if str(error) != self._logged:
                    log.warning("the accounting file cannot be read, so no run time is estimated: %s", error)
                self._logged = str(error)
                return NO_ESTIMATES
            self._logged = ""
            return self._estimator.estimates(cluster, now)

    def _read_on(self) -> None:
        file = written_last(self._accounting)
        try:
            stat = file.stat()
        except FileNotFoundError:
            return
        inode, offset = self._read or (stat.st_ino, max(stat.st_size - self._most, 0))
        end, ends = read_on_ends(file, offset if inode == stat.st_ino else 0, self._most)
        self._read = stat.st_ino, end
        for each in ends:
            whole = each.ran and not each.part and not each.interrupted  # else the job tells once it has ended
            if whole and each.started_at is not None and each.ended_at is not None:
                self._times.add(_like(each), each.ended_at - each.started_at)


def _like(end: JobEnd) -> Likeness:
    asked = dict(read_category(end.category).hard)
    requested = amount(asked["h_rt"], "TIME") if "h_rt" in asked else None
    return Likeness(end.owner, end.name, end.project, end.queue, end.slots, requested)
