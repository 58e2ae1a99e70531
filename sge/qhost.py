"""`qhost -q -F -xml`: every execution host's resources, the part that is left, and its queue instances once more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from xml.etree.ElementTree import Element

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.core.model.reasons import Reason
from autoscaler.core.readable.numbers import MOST
from autoscaler.sge.job_categories import UNREADABLE
from autoscaler.sge.markup import Aside, Malformed, document_in, parse, words

COMMAND = ("qhost", "-q", "-F", "-xml")
_SHOWN = "qhost -q -F -xml"
_OPEN = re.compile(rb"<host\s")
_CLOSE = b"</host>"
_NAME = re.compile(rb"""<host\s+name=["']([^"'<>]*)["']""")
_UNKNOWN = "-"
_LOADS = ("load_avg", "np_load_avg", "load_short", "mem_free")
"""Values only a living execd reports; others (arch, num_proc) stay known of a host that is down."""
_COLUMNS = {
    "arch_string": "arch",
    "num_proc": "num_proc",
    "mem_total": "mem_total",
    "load_avg": "load_avg",
    "np_load_avg": "np_load_avg",  # Univa and Altair, instead of load_avg
}
"""Columns of plain `qhost` and the load values they show, for a listing without -F."""
_LOAD_COLUMNS = ("load_avg", "np_load_avg")


@dataclass(frozen=True, slots=True)
class HostOffer:
    """One host as qhost shows it. Values are texts as printed; those unknown (`-`) are left out."""

    name: str
    load: Mapping[str, str]
    consumables: Mapping[str, str]
    fixed: Mapping[str, str]
    reports: bool
    """Whether it has values that only a living execd sends."""
    instances: tuple[QueueInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Offers:
    """One output of qhost."""

    hosts: tuple[HostOffer, ...]
    global_consumables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unread: frozenset[str] = frozenset()
    """Hosts whose entries cannot be understood; '' for one whose name cannot be either."""
    set_aside: tuple[Reason, ...] = ()


def read_qhost(data: bytes) -> Offers:
    """Read a whole listing. Raises GridEngineNotObservable if it is unusable; a host that cannot be understood is set
    aside.
    """
    data = document_in(data, b"qhost", _SHOWN)
    aside = Aside()
    hosts: list[HostOffer] = []
    licences: dict[str, str] = {}
    unread: set[str] = set()
    for whole in _hosts(data, aside, unread):
        try:
            element = parse(whole)
        except Malformed as error:
            aside.put(_title(whole), error)
            unread.add(_name(whole))
            continue
        name_text = element.get("name", "").lower()
        # qhost lists the global host, which is no machine, among the others.
        if name_text == "global":
            shared = _resources(element)
            licences = {**shared["gc"], **shared["hc"]}
        elif name_text:
            hosts.append(_read_host(name_text, element, aside))
    return Offers(tuple(hosts), licences, frozenset(unread) - {host.name for host in hosts}, aside.reasons)


def _hosts(data: bytes, aside: Aside, unread: set[str]) -> Iterator[bytes]:
    """The host elements, each whole; the torso of one whose end was lost is set aside."""
    at = 0
    while (close := data.find(_CLOSE, at)) >= 0:
        stretch = data[at : close + len(_CLOSE)]
        begins = [found.start() for found in _OPEN.finditer(stretch)]
        for begin in begins[:-1]:
            aside.put(_title(stretch[begin:]), "cut short")
            unread.add(_name(stretch[begin:]))
        if begins:
            yield stretch[begins[-1] :]
        at = close + len(_CLOSE)
    for found in _OPEN.finditer(data, at):
        aside.put(_title(data[found.start() :]), "cut short")
        unread.add(_name(data[found.start() :]))


def _name(element: bytes) -> str:
    """The host's name as far as it can be read."""
    name = _NAME.match(element)
    return name[1].decode("utf-8", "replace").lower() if name else ""


def _title(element: bytes) -> str:
    name = _NAME.match(element)
    return f"host {name[1].decode('utf-8', 'replace')} of qhost" if name else "a host of qhost"


def _read_host(name: str, element: Element, aside: Aside) -> HostOffer:
    columns = {value.get("name", ""): words(value) for value in element.iter("hostvalue")}
    shown = {ours: columns[theirs] for theirs, ours in _COLUMNS.items() if columns.get(theirs, _UNKNOWN) != _UNKNOWN}
    resources = _resources(element)
    load = resources["hl"] or shown
    # The column of a host that does not report is `-`.
    silent = any(columns.get(column) == _UNKNOWN for column in _LOAD_COLUMNS)
    reports = any(key in load for key in _LOADS) and not silent
    return HostOffer(
        name=name,
        load=load,
        consumables=resources["hc"],
        fixed=resources["hf"],
        reports=reports,
        instances=tuple(
            instance for queue in element.iter("queue") if (instance := _read_instance(name, queue, aside)) is not None
        ),
    )


def _resources(element: Element) -> dict[str, dict[str, str]]:
    """Known values by dominance: `hl` load, `hc` consumable left, `hf` fixed, `gc` left of a global consumable."""
    found: dict[str, dict[str, str]] = {"hl": {}, "hc": {}, "hf": {}, "gc": {}}
    for value in element.iter("resourcevalue"):
        text = words(value)
        if text and text != _UNKNOWN:
            dominance = value.get("dominance", "")
            if dominance not in found:
                found[dominance] = {}
            found[dominance][value.get("name", "")] = text
    return found


def _read_instance(host: str, queue: Element, aside: Aside) -> QueueInstance | None:
    name = queue.get("name", "")
    values = {value.get("name", ""): words(value) for value in queue.iter("queuevalue")}
    try:
        slots, used = int(values["slots"]), int(values["slots_used"])
        reserved = int(values.get("slots_resv") or 0)
        if min(slots, used, reserved) < 0 or max(slots, used, reserved) > MOST:
            raise ValueError
    except (KeyError, ValueError):
        aside.put(f"queue instance {name}@{host} of qhost", "its slot counts cannot be read: taken as occupied")
        return QueueInstance(name, host, 0, 0, 0, values.get("state_string", ""), (UNREADABLE,))
    return QueueInstance(name, host, slots, used, reserved, values.get("state_string", ""))
