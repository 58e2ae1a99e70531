"""What execution hosts of an instance type reported, if that differs from what the type promises.

A cloud sells 16 GB, and the host reports 15.3 GB; an image has no load sensor. Launches use the values of the newest
empty worker of a type. Proofs that a job can never run do not: another image may offer more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model.cluster import Complex, ExecutionHost
from autoscaler.core.model.complexes import amount, canonical
from autoscaler.core.model.fleet import BucketKey, InstanceType, Worker
from autoscaler.core.model.memory import ReportedType
from autoscaler.core.placement.hosts import CHANGING, HostValues, host_values_of, shown_value
from autoscaler.core.placement.queue_instances import is_forced
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import LastObjects, PerArguments
from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.worker_state import WorkerState

DAY = 86_400.0
FORGOTTEN_AFTER = DAY
"""Seconds after which reported values no longer count and a launch may find them out anew, because images change."""
_GROWING = frozenset({"mem_free", "virtual_free"})
"""A host has less of these while it boots, so the most that was seen counts."""


def learn_reported(
    machines: tuple[WorkerState, ...],
    known: tuple[ReportedType, ...],
    complexes: Mapping[str, Complex],
    now: float,
    since: float,
) -> tuple[ReportedType, ...]:
    """The known values after this observation. `since`: when a person last gave `resume` or `retry`."""

    def counts(at: float) -> bool:
        return at > since and now - at < FORGOTTEN_AFTER

    fresh = [each for each in known if counts(each.at)]
    shown = [each for each in _SHOWN.value_of((machines,), lambda: _shown(machines)) if counts(each.joined_at)]
    learnt = _LEARNT.value_of((complexes, *fresh, *shown), lambda: _learnt(fresh, shown, complexes))
    return known if learnt == known else learnt


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an empty worker shows of its type."""

    joined_at: float
    worker: Worker
    host: ExecutionHost
    array: NodeArrayPolicy


_SHOWN, _LEARNT = LastObjects[list[_Shown]](), LastObjects[tuple[ReportedType, ...]]()


def _shown(machines: Sequence[WorkerState]) -> list[_Shown]:
    """Of the workers that joined and are empty, the newest last."""
    ready = [each for each in machines if each.phase is Phase.READY and each.decisive is None and each.empty]
    found = [
        _Shown(each.note.joined_at, each.worker, each.host, each.array)
        for each in ready
        if each.note.joined_at is not None and each.array is not None
        if each.host is not None and each.host.load
    ]
    return sorted(found, key=lambda each: (each.joined_at, each.worker.id))


def _learnt(
    known: Sequence[ReportedType], shown: Sequence[_Shown], complexes: Mapping[str, Complex]
) -> tuple[ReportedType, ...]:
    found = {(each.type, each.node_array): each for each in known}
    for each in shown:
        key = each.worker.type.name, each.array.name
        promised = _promised(each.worker.type, each.array, complexes, each.worker.bucket)
        values = tuple(_differing(each.host, promised, found.get(key)))
        found[key] = ReportedType(*key, values, each.joined_at)
    return tuple(each for _, each in sorted(found.items()) if each.values)


def reported_by(reported: Sequence[ReportedType], type_: str, array: str) -> ReportedType | None:
    return next((each for each in reported if (each.type, each.node_array) == (type_, array)), None)


def as_reported(offer: HostValues, known: ReportedType | None, complexes: Mapping[str, Complex]) -> HostValues:
    """The offer with the reported values instead of those that the type promises."""
    if known is None:
        return offer
    values = known.values
    return _AS_REPORTED.of((offer.slots, values), (offer, complexes), lambda: _with_values(offer, values, complexes))


_AS_REPORTED = PerArguments[HostValues]()


def _with_values(
    offer: HostValues, values: Sequence[tuple[str, str | None]], complexes: Mapping[str, Complex]
) -> HostValues:
    properties, forced = dict(offer.properties), set(offer.forced)
    for name, text in values:
        if text is None:
            properties.pop(name, None)
        elif name in properties and name in complexes:
            properties[name] = canonical(text, complexes[name].type)
        elif name in complexes and is_forced(complexes[name]):
            forced.add(name)
    return replace(offer, properties=properties, forced=frozenset(forced))


def of_coming(offer: HostValues, known: ReportedType | None, complexes: Mapping[str, Complex]) -> HostValues:
    """What a worker that is coming will offer. Values that may still rise, because the host boots or its load sensor
    has not begun, lower nothing: else a second worker would be launched for jobs that the first one takes.
    """
    if known is None:
        return offer
    promised = offer.properties
    sure = tuple(
        (name, text)
        for name, text in known.values
        if text is not None and (name not in _GROWING or _is_more(text, promised.get(name), complexes.get(name)))
    )
    return as_reported(offer, replace(known, values=sure), complexes)


def _is_more(text: str, promised: str | None, entry: Complex | None) -> bool:
    if promised is None or entry is None:
        return False
    return (amount(text, entry.type) or 0) > (amount(promised, entry.type) or 0)


@dataclass(frozen=True, slots=True)
class _Promised:
    """What is compared of all hosts of an offer."""

    values: tuple[tuple[str, str, str], ...]
    """Name, type and promised text of each value that stays as it is."""
    unpromised: tuple[str, ...]
    """Forced complexes that the offer does not have."""


_PROMISED = PerArguments[_Promised]()


def _promised(
    type_: InstanceType, array: NodeArrayPolicy, complexes: Mapping[str, Complex], bucket: BucketKey
) -> _Promised:
    offer = host_values_of(type_, array, complexes, bucket)
    return _PROMISED.of((type_.name, array.name, bucket), (offer, complexes), lambda: _compared(offer, complexes))


def _compared(offer: HostValues, complexes: Mapping[str, Complex]) -> _Promised:
    known = [(name, complexes[name], text) for name, text in sorted(offer.properties.items()) if name in complexes]
    return _Promised(
        tuple((name, e.type, text) for name, e, text in known if e.relop != "EXCL" and name not in CHANGING),
        tuple(name for name, e in sorted(complexes.items()) if is_forced(e) and name not in offer.forced),
    )


def _differing(
    host: ExecutionHost, promised: _Promised, before: ReportedType | None
) -> Iterator[tuple[str, str | None]]:
    most = dict(before.values) if before is not None else {}
    for name, kind, text in promised.values:
        shown = shown_value(host, name)
        if name in _GROWING:
            seen = [each for each in (shown, most.get(name)) if each is not None]
            shown = max(seen, key=lambda text: amount(text, kind) or 0, default=None)
        if shown is None or canonical(shown, kind) != text:
            yield name, shown
    for name in promised.unpromised:
        if (shown := shown_value(host, name)) is not None:
            yield name, shown
