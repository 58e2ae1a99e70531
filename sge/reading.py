"""Reads everything that a pass needs from Grid Engine once, and returns its raw outputs.

Every call has a timeout. A call that fails, hangs or answers nothing ends the reading with GridEngineNotObservable: an
incomplete observation does not count (rule 2).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import JobCategory
from autoscaler.process import Runner
from autoscaler.sge import access, qhost, qstat
from autoscaler.sge.configuration import TIMEOUT, ConfigurationReader, read_configuration, require_success, run
from autoscaler.sge.qstat import Listing, ListingReader

__all__ = ["TIMEOUT", "ConfigurationReader", "Outputs", "read_configuration", "read_outputs"]

_NO_JOBS = re.compile(rb"jobs? do(es)? not exist", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Raw outputs of one reading, as a record folder keeps them.

    Keys of `qconf` are file stems of the folder: `sc`, `sq_main.q`, `sp_mpi`, `shgrp_@allhosts`, `se_global`, `srqs`,
    `sel`, `sckptl`, `ssconf`, `sconf`; if something names them, `scal_nights`, `su_staff` and `se_HOST`. Missing pieces
    mean the defaults that `sge.cluster.cluster_from` documents.
    """

    qstat: bytes
    qhost: bytes | None = None
    qconf: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    qstat_j: bytes | None = None
    listing: Listing | None = field(default=None, compare=False, repr=False)
    """`qstat` already read, so that it is not read twice."""


def read_outputs(
    runner: Runner,
    *,
    wanted: Callable[[Sequence[JobCategory], Needs], Sequence[int]],
    zone: tzinfo,
    timeout: float = TIMEOUT,
    ours: Iterable[str] = (),
    reader: ConfigurationReader | None = None,
    listings: ListingReader | None = None,
) -> tuple[Outputs, dict[str, float]]:
    """Read everything once. Also returns seconds spent: `read` (waiting for Grid Engine) and `parse`.

    `wanted` gets the waiting job categories and the properties of jobs that matter in this cell; it returns the jobs to
    ask `qstat -j` about, in one call; none means no call. `ours`: hosts that we made, so that none has lists of its
    own. `reader`: has read the configuration before, and only confirms it; None: it is read. `listings`: kept from
    reading to reading, it reads only what changed. Jobs move while we read. qstat and qhost run directly after one
    another, and a host is busy if either shows it busy: a job that started in between still waits in one and occupies a
    slot in the other (in flight: nothing is launched for it), one that ended in between keeps its host for a pass.
    Raises GridEngineNotObservable.
    """
    began = time.monotonic()
    listing_bytes = _ask(runner, qstat.COMMAND, timeout)
    offers = _ask(runner, qhost.COMMAND, timeout)
    parsing = time.monotonic()
    listing = (listings or ListingReader()).read(listing_bytes, zone)
    parsed = time.monotonic()
    configuration = (reader or ConfigurationReader()).read(runner, timeout, ours)
    ids = wanted(listing.job_categories, access.needs(configuration, offers, listing))
    details = _ask_details(runner, ids, timeout) if ids else None
    ended = time.monotonic()
    outputs = Outputs(listing_bytes, offers, configuration, details, listing)
    return outputs, {"read": ended - began - (parsed - parsing), "parse": parsed - parsing}


def _ask(runner: Runner, argv: Sequence[str], timeout: float) -> bytes:
    done = run(runner, argv, timeout)
    require_success(done)
    return done.stdout


def _ask_details(runner: Runner, ids: Sequence[int], timeout: float) -> bytes:
    """The answer for all ids in one call. If some jobs ended meanwhile, qstat fails, but that is no failure."""
    done = run(runner, ("qstat", "-j", ",".join(str(number) for number in ids), "-xml"), timeout)
    if b"<detailed_job_info" in done.stdout or b"<unknown_jobs" in done.stdout:
        return done.stdout
    if _NO_JOBS.search(done.stderr + done.stdout):
        return done.stdout
    require_success(done)
    return done.stdout
