"""A record folder's `provider.json`: what a provider reported, and what our journal added, short to write.

Instance types are named; their cores, memory and prices come from the file's own `types` or else from the catalogue.
Times are Unix seconds or ISO 8601 text. Text without an offset has the offset of the folder's `now`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from autoscaler.core.model.fleet import (
    Assignment,
    Bucket,
    BucketKey,
    Ending,
    FailureKind,
    Fleet,
    InstanceType,
    Interruption,
    LaunchFailure,
    MachineState,
    Order,
    OrderedFor,
    OrderState,
    PriceType,
    RefusedEnd,
    Worker,
)
from autoscaler.providers.catalog import Catalog, family_of, load_catalog
from autoscaler.sge.units import read_memory


def _time(value: Any, info: ValidationInfo) -> Any:
    return to_seconds(value, (info.context or {}).get("zone")) if isinstance(value, str) else value


def _memory(value: Any) -> Any:
    return int(read_memory(value) or 0) if isinstance(value, str) else value


Time = Annotated[float, BeforeValidator(_time)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TypeEntry(_Entry):
    """An instance type that the catalogue does not have, or describes differently."""

    vcpus: int
    memory: Annotated[int, BeforeValidator(_memory)] = Field(
        description='Bytes, or an amount as Grid Engine writes it: "8G".'
    )
    gpus: int = 0
    arch: str = "lx-amd64"
    family: str | None = None


class _BucketFields(_Entry):
    """The fields that tell buckets apart."""

    instance_type: str
    node_array: str = ""
    zone: str = ""
    price_type: PriceType = PriceType.ON_DEMAND
    placement_group: str = ""

    @property
    def key(self) -> BucketKey:
        return BucketKey(self.instance_type, self.node_array, self.zone, self.price_type, self.placement_group)


class _Priced(_BucketFields):
    price_per_hour: float | None = None


class BucketEntry(_Priced):
    """A bucket that can be launched. No price: the catalogue's; null: unknown."""

    available: int | None = None
    problem: str | None = None


class WorkerEntry(_Priced):
    """A machine of ours."""

    id: str
    node_array: str = "execute"
    state: MachineState = MachineState.RUNNING
    created_at: Time
    name: str | None = None
    address: str | None = None
    order_id: str | None = None
    group_id: str | None = None
    ready: bool = True
    message: str | None = None
    ending: Ending = Ending.UNKNOWN
    failure: FailureKind | None = None


class OrderEntry(_Priced):
    """An order of ours that still matters."""

    id: str
    node_array: str = "execute"
    bucket_node_array: str = Field(default="", description="Node array of the bucket; empty: any.")
    count: int = 1
    ordered_at: Time
    state: OrderState = OrderState.SENT
    ids: tuple[str, ...] = ()
    group_id: str = ""
    nodes: tuple[str, ...] = ()
    for_requests: bool = False
    planned_at: Time | None = Field(default=None, description="Time at which the pass planned it; null: not known.")
    assignment: Assignment = ()
    ordered_for: tuple[OrderedFor, ...] = ()


class FailureEntry(_BucketFields):
    """A refusal of one candidate, by its bucket."""

    at: Time
    kind: FailureKind
    message: str = ""
    order_id: str = ""


class InterruptionEntry(_Entry):
    """A machine for which the cloud gave an interruption notice or warning."""

    worker_id: str
    at: Time
    kind: str = "terminate"


class RefusedEndEntry(_Entry):
    """A termination that the provider refused."""

    worker_id: str
    at: Time
    times: int = 1
    message: str = ""


class FleetFile(_Entry):
    """The whole file. `buckets` left out: what the catalogue has."""

    enrols_itself: bool = False
    types: dict[str, TypeEntry] = {}
    buckets: list[BucketEntry] | None = None
    workers: list[WorkerEntry] = []
    orders: list[OrderEntry] = []
    failures: list[FailureEntry] = []
    interruptions: list[InterruptionEntry] = []
    refused_ends: list[RefusedEndEntry] = []


def load_fleet(text: str | None, zone: tzinfo) -> Fleet:
    """The fleet that the file's text describes; None: no workers, and the buckets of the catalogue.

    Raises ValueError naming every field that is wrong and every type that is in no catalogue.
    """
    catalog = load_catalog()
    if text is None:
        return Fleet((), catalog.buckets())
    try:
        file = FleetFile.model_validate(json.loads(text), context={"zone": zone})
    except ValidationError as error:
        raise ValueError("; ".join(_complaint(detail) for detail in error.errors())) from None
    types = _Types(catalog, file.types)
    return Fleet(
        workers=tuple(types.worker(entry) for entry in file.workers),
        buckets=catalog.buckets() if file.buckets is None else tuple(types.bucket(entry) for entry in file.buckets),
        orders=tuple(types.order(entry) for entry in file.orders),
        failures=tuple(LaunchFailure(bucket=entry.key, **_shared(entry, LaunchFailure)) for entry in file.failures),
        enrols_itself=file.enrols_itself,
        interruptions=tuple(Interruption(**_shared(entry, Interruption)) for entry in file.interruptions),
        refused_ends=tuple(RefusedEnd(**_shared(entry, RefusedEnd)) for entry in file.refused_ends),
    )


def dump_fleet(fleet: Fleet) -> str:
    """Text that `load_fleet` turns into an equal fleet, whatever the catalogue says by then."""
    known = (
        *(bucket.type for bucket in fleet.buckets),
        *(worker.type for worker in fleet.workers),
        *(order.type for order in fleet.orders),
    )
    types = {kind.name: kind for kind in known}
    file = FleetFile(
        enrols_itself=fleet.enrols_itself,
        types={name: TypeEntry(**_shared(types[name], TypeEntry)) for name in sorted(types)},
        buckets=[BucketEntry(**_key(bucket.key), **_shared(bucket, BucketEntry)) for bucket in fleet.buckets],
        workers=[WorkerEntry(**_key(worker.bucket) | _shared(worker, WorkerEntry)) for worker in fleet.workers],
        orders=[_order_entry(order) for order in fleet.orders],
        failures=[FailureEntry(**_key(each.bucket), **_shared(each, FailureEntry)) for each in fleet.failures],
        interruptions=[InterruptionEntry(**_shared(each, InterruptionEntry)) for each in fleet.interruptions],
        refused_ends=[RefusedEndEntry(**_shared(each, RefusedEndEntry)) for each in fleet.refused_ends],
    )
    return file.model_dump_json(indent=2)


def to_seconds(text: str, zone: tzinfo | None) -> float:
    """Unix seconds of an ISO 8601 time; one without an offset is local to `zone`. Raises ValueError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write Unix seconds or 2026-11-21T09:04:23") from None
    return (when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()


class _Types:
    """Instance types and prices by name: the file's own first, then the catalogue's."""

    def __init__(self, catalog: Catalog, own: Mapping[str, TypeEntry]) -> None:
        self._catalog = catalog
        self._types = dict(catalog.types) | {
            name: InstanceType(name, entry.family or family_of(name), entry.vcpus, entry.memory, entry.gpus, entry.arch)
            for name, entry in own.items()
        }

    def bucket(self, entry: BucketEntry) -> Bucket:
        return Bucket(entry.key, self._type(entry), self._price(entry), entry.available, entry.problem)

    def worker(self, entry: WorkerEntry) -> Worker:
        return Worker(**(_shared(entry, Worker) | self._priced(entry)))

    def order(self, entry: OrderEntry) -> Order:
        bucket = replace(entry.key, node_array=entry.bucket_node_array)
        return Order(**(_shared(entry, Order) | {"bucket": bucket} | self._priced(entry)))

    def _priced(self, entry: _Priced) -> dict[str, Any]:
        return {"type": self._type(entry), "price_per_hour": self._price(entry)}

    def _type(self, entry: _BucketFields) -> InstanceType:
        try:
            return self._types[entry.instance_type]
        except KeyError:
            raise ValueError(
                f"no catalogue has the instance type {entry.instance_type}: describe it under types (vcpus, memory)"
            ) from None

    def _price(self, entry: _Priced) -> float | None:
        if "price_per_hour" in entry.model_fields_set:
            return entry.price_per_hour
        offer = self._catalog.offers.get(entry.instance_type)
        return None if offer is None else offer.price(entry.price_type)


def _order_entry(order: Order) -> OrderEntry:
    own = _shared(order, OrderEntry) | {"bucket_node_array": order.bucket.node_array}
    return OrderEntry(**(_key(order.bucket) | own))


def _key(key: BucketKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in _BucketFields.model_fields}


def _shared(value: object, kind: type[Any]) -> dict[str, Any]:
    """The fields that a value and a class have in common, by name."""
    names = kind.model_fields if issubclass(kind, BaseModel) else kind.__dataclass_fields__
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _complaint(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg'].removeprefix('Value error, ')}" if place else str(detail["msg"])
