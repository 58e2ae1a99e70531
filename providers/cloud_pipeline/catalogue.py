"""The offers: the instance types that the platform allows in its region, and the price of each an hour.

The types are requested once in a while, for each price type. The list has no prices: they are estimated type by type, a
few at each observation, those of the master's own family first; the price of a type in use is known from its run.
Families are those that the platform's own templates write in `CP_CAP_AUTOSCALE_HYBRID_FAMILY`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, PriceType
from autoscaler.providers.advice import Advice
from autoscaler.providers.catalog import GIB, family_of, load_catalog
from autoscaler.providers.cloud_pipeline.api import Api, as_record, as_records, preference
from autoscaler.providers.cloud_pipeline.reservations import Reservation, left_of, read_reservations
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.interface import Unreachable
from autoscaler.providers.rest import Deadline

ALLOWED = "cluster.allowed.instance.types.docker"
"""The key of the types for runs of an image."""
ESTIMATES = 16
"""Prices requested at one observation."""
KEEP_PRICE = 3600.0
"""Seconds that a price is cached; one that is not available is not requested again until then, either."""
_LANES = 4
_PATIENCE = 10.0

Kind = tuple[str, PriceType]


@dataclass(frozen=True, slots=True)
class _Price:
    per_hour: float | None
    until: float


class Catalogue:
    """Allowed types and their prices. Safe to be used by several threads."""

    def __init__(self, api: Api, settings: CloudPipelineSettings, clock: Callable[[], float] = time.time) -> None:
        self._api, self._settings, self._clock = api, settings, clock
        self._guard = threading.Lock()
        self.advice = Advice()
        self._types: dict[Kind, InstanceType] = {}
        self._types_until = float("-inf")
        self._prices: dict[Kind, _Price] = {}
        self._reservations: tuple[Reservation, ...] | None = None

    def buckets(self) -> tuple[Bucket, ...]:
        """All allowed types at all price types, smallest first. Raises Unreachable, Refused."""
        types = self.allowed()
        self._estimate(types)
        kinds = sorted(types, key=lambda kind: (types[kind].vcpus, types[kind].memory, kind))
        return tuple(
            Bucket(BucketKey(name, price_type=price_type), types[name, price_type], self._price(name, price_type))
            for name, price_type in kinds
        )

    def allowed(self) -> Mapping[Kind, InstanceType]:
        """Every allowed type, by name and price type; cached for a while."""
        with self._guard:
            if self._clock() >= self._types_until:
                deadline = Deadline(20.0)
                self._types = {
                    (kind.name, price_type): self._without_reserved(kind, deadline)
                    for price_type in PriceType
                    for kind in self._ask(price_type, deadline)
                }
                self._types_until = self._clock() + self._settings.keep_types
            return self._types

    def _without_reserved(self, kind: InstanceType, deadline: Deadline) -> InstanceType:
        """The type with the memory that a container has of it, if the settings say so."""
        if not self._settings.node_mem_reservations:
            return kind
        if self._reservations is None:
            self._reservations = read_reservations(lambda name: preference(self._api, name, deadline))
        return replace(kind, memory=left_of(kind.memory, self._reservations))

    def type_of(self, name: str) -> InstanceType:
        """The type of a run that may be older than the list; if nobody knows its size, that is unknown: 0."""
        with self._guard:
            for price_type in PriceType:
                if known := self._types.get((name, price_type)):
                    return known
        offer, family = load_catalog().offers.get(name), family_there(name, self._settings.cloud)
        return replace(offer.type, family=family) if offer else InstanceType(name, family, 0, 0)

    def learn(self, name: str, price_type: PriceType, per_hour: float) -> None:
        """Take the price of a run of ours as the price of the next one."""
        with self._guard:
            self._prices[name, price_type] = _Price(per_hour, self._clock() + KEEP_PRICE)

    def _price(self, name: str, price_type: PriceType) -> float | None:
        with self._guard:
            known = self._prices.get((name, price_type))
        return known.per_hour if known else None

    def _ask(self, price_type: PriceType, deadline: Deadline) -> Sequence[InstanceType]:
        spot = "true" if price_type is PriceType.SPOT else "false"
        path = "cluster/instance/allowed"
        payload = self._api.get(path, {"regionId": self._settings.region_id, "spot": spot}, deadline=deadline)
        listed = as_record(payload, path).get(ALLOWED) or []
        return [instance_type(item, self._settings.cloud) for item in as_records(listed, path)]

    def _estimate(self, types: Mapping[Kind, InstanceType]) -> None:
        """Request a few prices that are not known (any more); one that is not available stays unknown."""
        now, preferred = self._clock(), family_there(self._settings.instance_type, self._settings.cloud)
        with self._guard:
            fresh = {kind for kind, price in self._prices.items() if price.until > now}
        wanted = sorted(
            types.keys() - fresh, key=lambda kind: (types[kind].family != preferred, types[kind].vcpus, kind)
        )
        if not wanted:
            return
        deadline = Deadline(_PATIENCE)
        with ThreadPoolExecutor(_LANES, thread_name_prefix="prices") as lanes:
            found = list(lanes.map(lambda kind: self._estimated(kind, deadline), wanted[:ESTIMATES]))
        with self._guard:
            for kind, price in zip(wanted, found, strict=False):
                self._prices[kind] = _Price(price, now + KEEP_PRICE)

    def _estimated(self, kind: Kind, deadline: Deadline) -> float | None:
        name, price_type = kind
        body = {
            "instanceType": name,
            "instanceDisk": self._settings.disk,
            "spot": price_type is PriceType.SPOT,
            "regionId": self._settings.region_id,
        }
        nothing: dict[str, Any] = {}
        payload = self.advice.read(
            "prices",
            lambda: as_record(self._api.post("pipeline/price", body, repeat=True, deadline=deadline), "pipeline/price"),
            nothing,
        )
        price = payload.get("pricePerHour")
        if not isinstance(price, int | float) or isinstance(price, bool) or price <= 0:
            return None
        return float(price)


def instance_type(item: Mapping[str, Any], cloud: str) -> InstanceType:
    """One entry of the list of allowed types: `memory` in GiB. Raises Unreachable for an entry of another form."""
    name, vcpus, memory, gpus = item.get("name"), item.get("vcpu"), item.get("memory"), item.get("gpu") or 0
    sizes = (vcpus, memory, gpus)
    if not isinstance(name, str) or not all(isinstance(size, int | float) and size >= 0 for size in sizes):
        raise Unreachable(f"cannot understand an allowed instance type: {dict(item)}")
    return InstanceType(
        name=name,
        family=family_there(name, cloud),
        vcpus=int(vcpus or 0),
        memory=round((memory or 0) * GIB),
        gpus=int(gpus),
        arch=arch_of(name, cloud),
    )


def arch_of(name: str, cloud: str) -> str:
    """The `arch` that an execd on the type reports, by the names of the clouds' ARM families."""
    family = family_there(name, cloud)
    match cloud.lower():
        case "aws":
            generation = family.lstrip("abcdefghijklmnopqrstuvwxyz-")
            arm = family == "a1" or "g" in generation.lstrip("0123456789")
        case "gcp":
            arm = family.startswith(("t2a", "c4a", "n4a"))
        case "azure":
            arm = "p" in family.partition("v")[0].lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        case _:
            arm = False
    return "lx-arm64" if arm else "lx-amd64"


_FIRST_NUMBER = re.compile(r"\d+")


def family_there(name: str, cloud: str) -> str:
    """The family of an instance type. `cloud`: AWS, AZURE or GCP, in any case."""
    match cloud.lower():
        case "gcp":
            return _gcp(name)
        case "azure" if "-" in name:
            return _FIRST_NUMBER.sub("", name.partition("_")[2].replace("_", ""), count=1)
        case _:
            return family_of(name, cloud)


def _gcp(name: str) -> str:
    """Series and kind, without the size but with its suffix: `c3-standard-8-lssd` is a `c3-standard-lssd`."""
    parts = name.split("-")
    if "custom" in parts:
        return family_of(name, "gcp")
    return "-".join((*parts[:2], *parts[3:4]))
