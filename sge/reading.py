"""Reads everything that a pass needs from Grid Engine once, and returns its raw outputs.

Every call has a timeout. A call that fails, hangs or answers nothing ends the reading with GridEngineNotObservable: an
incomplete observation does not count (rule 2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import JobCategory
from autoscaler.process import Runner
from autoscaler.sge import access, qhost
from autoscaler.sge.configuration import TIMEOUT, ConfigurationReader, read_configuration, require_success, run
from autoscaler.sge.detail_lookups import DetailLookups
from autoscaler.sge.qstat import Listing, ListingReader
from autoscaler.sge.shared_listing import SharedListing

__all__ = ["TIMEOUT", "ConfigurationReader", "Outputs", "read_configuration", "read_outputs"]


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
    listing: SharedListing | None = None,
    lookups: DetailLookups | None = None,
) -> tuple[Outputs, dict[str, float]]:
    """Read everything once. Also returns seconds spent: `read` (waiting for Grid Engine) and `parse`.

    `wanted` gets the waiting job categories and the properties of jobs that matter in this cell; it returns the
    jobs to ask `qstat -j` about, in one call; none means no call. `ours`: hosts that we made, so that none has
    lists of its own. `reader`: has read the configuration before, and only confirms it; None: it is read.
    `listings`: kept from reading to reading, it reads only what changed. `listing`, `lookups`: kept likewise, they
    know whose jobs take long to read. Jobs move while we read. qstat and qhost run directly after one another, and
    a host is busy if either shows it busy: a job that started in between still waits in one and occupies a slot in
    the other (in flight: nothing is launched for it), one that ended in between keeps its host for a pass. Raises
    GridEngineNotObservable.
    """
    began = time.monotonic()
    listing_bytes = (listing or SharedListing()).read(runner, timeout)
    offers = _ask(runner, qhost.COMMAND, timeout)
    parsing = time.monotonic()
    jobs = (listings or ListingReader()).read(listing_bytes, zone)
    parsed = time.monotonic()
    configuration = (reader or ConfigurationReader()).read(runner, timeout, ours)
    ids = wanted(jobs.job_categories, access.needs(configuration, offers, jobs))
    details = (lookups or DetailLookups()).read(runner, ids, _owners(ids, jobs), timeout) if ids else None
    ended = time.monotonic()
    outputs = Outputs(listing_bytes, offers, configuration, details, jobs)
    return outputs, {"read": ended - began - (parsed - parsing), "parse": parsed - parsing}


def _ask(runner: Runner, argv: Sequence[str], timeout: float) -> bytes:
    done = run(runner, argv, timeout)
    require_success(done)
    return done.stdout


def _owners(ids: Iterable[int], listing: Listing) -> Mapping[int, str]:
    """The owners of these jobs."""
    wanted = frozenset(ids)
    found = {job.number: job.owner for instance in listing.instances for job in instance.jobs if job.number in wanted}
    for category in listing.job_categories:
        found |= dict.fromkeys(wanted.intersection(category.jobs), category.ask.owner)
    return found
