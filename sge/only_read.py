"""Outputs of Grid Engine without what nobody reads: a record has these.

What else is printed may hold the secrets of users and administrators: whole command lines (Univa, Open Cluster
Scheduler), prologs with arguments, descriptions. A list of what to leave out would be short of whatever the next
release prints, so these are lists of what is kept. The same cluster is read from what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from autoscaler.core.model.cluster import ACCESS_ATTRIBUTES
from autoscaler.sge import detail, qconf
from autoscaler.sge.markup import document_in
from autoscaler.sge.reading import Outputs

_TAG = re.compile(rb"<(/?)([A-Za-z_][\w.:-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*?)(/?)>")
_OF_LISTING = frozenset(
    b"job_info queue_info Queue-List name slots_used slots_resv slots_total arch state resource"
    b" job_list JB_job_number JAT_prio JB_name JB_owner JB_project JB_submission_time JAT_submission_time"
    b" JAT_start_time queue_name slots tasks full_job_name requested_pe requested_PE granted_pe granted_PE"
    b" predecessor_jobs predecessor_jobs_req ad_predecessor_jobs ad_predecessor_jobs_req".split()
)
_REQUESTS = re.compile(rb"(?:[a-z]+_)*(?:hard|soft)_(?:request|req_queue)")
"""`hard_request`, `master_hard_req_queue` … of a listing."""
_OF_HOSTS = frozenset(b"qhost host hostvalue resourcevalue queue queuevalue".split())
_BOUNDARIES = frozenset((b"job_list", b"Queue-List", b"host"))
"""Where one of these begins, an element before it that has no end is over."""


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_ATTRIBUTES = {
    "sq": _words(
        "qname hostlist slots pe_list rerun complex_values calendar qtype ckpt_list subordinate_list seq_no",
        "load_thresholds",
        *qconf.LIMITS,
        *ACCESS_ATTRIBUTES,
    ),
    "sp": _words("pe_name slots allocation_rule user_lists xuser_lists"),
    "shgrp": _words("group_name hostlist"),
    "se": _words("hostname complex_values", *ACCESS_ATTRIBUTES),
    "su": _words("name type entries"),
    "scal": _words("calendar_name year week"),
    "ssconf": _words(
        "report_pjob_tickets schedule_interval maxujobs max_reservation default_duration job_load_adjustments",
        "load_adjustment_decay_time load_formula queue_sort_method",
    ),
    "sconf": _words("load_report_time max_unheard max_aj_instances jsv_url jsv_allowed_mod"),
    "srqs": _words("{ } name enabled limit"),
}
"""By the switch of qconf."""
_NAMES = frozenset(("sel", "sckptl"))
_TABLES = frozenset(("sc",))


def only_read(outputs: Outputs) -> Outputs:
    """The same outputs, each reduced to what is read of it."""
    return Outputs(
        qstat=listing(outputs.qstat),
        qhost=None if outputs.qhost is None else hosts(outputs.qhost),
        qconf={stem: text for stem, given in outputs.qconf.items() if (text := configuration(stem, given)) is not None},
        qstat_j=None if outputs.qstat_j is None else detail.only_read(outputs.qstat_j),
    )


def only_read_of(file: PurePath, data: bytes) -> bytes | None:
    """One file of a record; None: nothing of it is read. Files that are no output of Grid Engine stay as they are."""
    if file.name in _READERS:
        return _READERS[file.name](data)
    if file.parent.name != "qconf":
        return data
    text = configuration(file.stem, data.decode("utf-8", "surrogateescape"))
    return None if text is None else text.encode("utf-8", "surrogateescape")


def listing(data: bytes) -> bytes:
    """Of `qstat -r -f -xml`. Raises GridEngineNotObservable as its reading does."""
    return _elements(document_in(data, b"job_info", "qstat"), _OF_LISTING, _REQUESTS)


def hosts(data: bytes) -> bytes:
    """Of `qhost -q -F -xml`. Raises GridEngineNotObservable as its reading does."""
    return _elements(document_in(data, b"qhost", "qhost"), _OF_HOSTS)


def configuration(stem: str, text: str) -> str | None:
    """Of one output of qconf by the stem of its file; None: it is not read at all."""
    kind = stem.partition("_")[0]
    if kind in _TABLES:
        return text
    if kind in _NAMES:
        return "".join(f"{name}\n" for name in qconf.read_names(text))
    if kind not in _ATTRIBUTES:
        return None
    kept = _ATTRIBUTES[kind]
    return "".join(line for line in _logical_lines(text) if (words := line.split(maxsplit=1)) and words[0] in kept)


def _logical_lines(text: str) -> Iterable[str]:
    """Lines with those that continue them."""
    begun = ""
    for line in text.splitlines(keepends=True):
        begun += line
        if not line.rstrip().endswith("\\"):
            yield begun
            begun = ""
    if begun:
        yield begun


def _elements(data: bytes, known: frozenset[bytes], more: re.Pattern[bytes] = re.compile(rb"(?!)")) -> bytes:
    """The text without unknown elements and all that is in them."""
    kept: list[bytes] = []
    at, within, depth = 0, b"", 0
    for tag in _TAG.finditer(data):
        closes, full_name, alone = tag[1] == b"/", tag[2], tag[4] == b"/"
        name = full_name.rpartition(b":")[2]
        is_known = name in known or more.fullmatch(name) is not None
        if within:
            if full_name == within:
                depth += -1 if closes else 0 if alone else 1
                if depth:
                    continue
                within, at = b"", tag.end()
            elif is_known and (closes or name in _BOUNDARIES):  # its end was lost
                within, at = b"", tag.start()
            continue
        if is_known:
            continue
        kept.append(data[at : tag.start()])
        at = tag.end()
        if not closes and not alone:
            within, depth = full_name, 1
    if not within:
        kept.append(data[at:])
    return b"".join(kept)


_READERS = {"qstat.xml": listing, "qhost.xml": hosts, "qstat-j.xml": detail.only_read}
