"""Asks Grid Engine once for everything a pass needs, and hands on its raw outputs.

Every call has a timeout. A call that fails, hangs or answers nothing ends the reading with GridEngineNotObservable: a
part of an observation is none (rule 2).
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import JobCategory
from autoscaler.errors import CommandError, GridEngineNotObservable
from autoscaler.process import Completed, Runner
from sge import access, qhost, qstat
from sge.qconf import read_names, read_queue
from sge.qstat import Listing, ListingReader

TIMEOUT = 30.0
"""Seconds for one call. A qmaster that needs longer is not observable now; the next pass asks again."""

_NONE_DEFINED = re.compile(r"^(error: )?no\b.*\b(defined|found|exists?)\b|does not exist", re.IGNORECASE | re.MULTILINE)
"""How qconf says, with a non-zero exit, that a list is empty."""
_NO_JOBS = re.compile(rb"jobs? do(es)? not exist", re.IGNORECASE)

_LISTS = (("sq", "-sql"), ("sp", "-spl"), ("shgrp", "-shgrpl"))
"""Kinds of object that are shown one by one (`-sq main.q`), and the switch that names them all."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Raw outputs of one reading, as a record folder keeps them.

    Keys of `qconf` are file stems of the folder: `sc`, `sq_main.q`, `sp_mpi`, `shgrp_@allhosts`, `se_global`, `srqs`,
    `sel`, `ssconf`, `sconf`; where something names them, `scal_nights`, `su_staff` and `se_HOST`. Missing pieces mean
    the defaults that `sge.cluster.cluster_from` documents.
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
    listings: ListingReader | None = None,
) -> tuple[Outputs, dict[str, float]]:
    """Read everything once. Also returns seconds spent: `read` (waiting for Grid Engine) and `parse`.

    `wanted` is given the waiting shapes, and what of jobs makes a difference in this cell; it says which jobs to ask
    `qstat -j` about, in one call; none means no call. `ours`: hosts that we made, so that none has lists of its own.
    `listings`: kept from reading to reading, it reads only what changed.
    Jobs move while we read. qstat and qhost run directly after one another, and a host is busy that either shows
    busy: a job that started in between still waits in one and occupies a slot in the other (in flight: nothing is
    launched for it), one that ended in between keeps its host for a pass. Raises GridEngineNotObservable.
    """
    began = time.monotonic()
    listing_bytes = _ask(runner, qstat.COMMAND, timeout)
    offers = _ask(runner, qhost.COMMAND, timeout)
    parsing = time.monotonic()
    listing = (listings or ListingReader()).read(listing_bytes, zone)
    parsed = time.monotonic()
    configuration = read_configuration(runner, timeout, ours)
    ids = wanted(listing.shapes, access.needs(configuration, offers, listing))
    details = _ask_details(runner, ids, timeout) if ids else None
    ended = time.monotonic()
    outputs = Outputs(listing_bytes, offers, configuration, details, listing)
    return outputs, {"read": ended - began - (parsed - parsing), "parse": parsed - parsing}


def read_configuration(runner: Runner, timeout: float = TIMEOUT, ours: Iterable[str] = ()) -> dict[str, str]:
    """Every `qconf -s…` a cluster is made of, by file stem."""
    texts = {
        "sc": _show(runner, timeout, "-sc"),
        "sel": _show(runner, timeout, "-sel", may_be_empty=True),
        "se_global": _show(runner, timeout, "-se", "global"),
        "srqs": _show(runner, timeout, "-srqs", may_be_empty=True),
        "ssconf": _show(runner, timeout, "-ssconf"),
        "sconf": _show(runner, timeout, "-sconf"),
    }
    for kind, switch in _LISTS:
        for name in read_names(_show(runner, timeout, switch, may_be_empty=True)):
            texts[f"{kind}_{name}"] = _show(runner, timeout, f"-{kind}", name)
    for name in _calendars(text for stem, text in texts.items() if stem.startswith("sq_")):
        texts[f"scal_{name}"] = _show(runner, timeout, "-scal", name)

    def show(*switches: str, may_be_empty: bool = False) -> str:
        return _show(runner, timeout, *switches, may_be_empty=may_be_empty)

    return texts | access.read_restrictions(texts, show, ours)


def _calendars(queues: Iterable[str]) -> Iterator[str]:
    """The calendars that queues name, each once. What cannot be read names none, and is told where it is."""
    found: dict[str, None] = {}
    for text in queues:
        with suppress(ValueError):
            queue = read_queue(text)
            found.update(dict.fromkeys(name for name in (queue.calendar, *queue.calendar_by_host.values()) if name))
    yield from found


def _show(runner: Runner, timeout: float, *switches: str, may_be_empty: bool = False) -> str:
    argv = ("qconf", *switches)
    done = _run(runner, argv, timeout)
    text = done.stdout.decode("utf-8", "replace")
    if may_be_empty and _NONE_DEFINED.search(f"{text}\n{done.stderr.decode('utf-8', 'replace')}"):
        return ""
    _require_success(done, may_be_empty=may_be_empty)
    return text


def _ask(runner: Runner, argv: Sequence[str], timeout: float) -> bytes:
    done = _run(runner, argv, timeout)
    _require_success(done)
    return done.stdout


def _ask_details(runner: Runner, ids: Sequence[int], timeout: float) -> bytes:
    """The answer for all ids in one call. That jobs ended meanwhile makes qstat fail, and is no failure."""
    done = _run(runner, ("qstat", "-j", ",".join(str(number) for number in ids), "-xml"), timeout)
    if b"<detailed_job_info" in done.stdout or b"<unknown_jobs" in done.stdout:
        return done.stdout
    if _NO_JOBS.search(done.stderr + done.stdout):
        return done.stdout
    _require_success(done)
    return done.stdout


def _run(runner: Runner, argv: Sequence[str], timeout: float) -> Completed:
    try:
        return runner(argv, timeout=timeout)
    except CommandError as error:
        raise GridEngineNotObservable(
            f"{error}; nothing was decided; check that sge_qmaster runs and that SGE_ROOT, SGE_CELL and the ports "
            "are right"
        ) from error


def _require_success(done: Completed, *, may_be_empty: bool = False) -> None:
    shown = shlex.join(done.argv)
    said = " ".join(done.stderr.decode("utf-8", "replace").split())[:300] or "nothing on its error output"
    if done.returncode != 0:
        raise GridEngineNotObservable(
            f"`{shown}` failed with exit status {done.returncode}: {said}; nothing was decided; "
            "check that sge_qmaster runs"
        )
    if not done.stdout.strip() and not may_be_empty:
        raise GridEngineNotObservable(f"`{shown}` answered nothing at all: {said}; nothing was decided")
