"""The catalogue of instance types, with sizes and prices: `conf/catalog/`, and the operator's own file over it.

Prices are on-demand and spot figures an hour in each file's currency; one that no public source confirms is absent and
stays unknown (rule 5: under a price cap an unknown price is no launch). Providers that can ask their cloud do so and
use this only if it gives no answer; `local` and `fake` rent out exactly these types. `catalog_text` writes a file that
`load_catalog` reads again as the same figures.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from autoscaler.core.capacity.cloud_names import cloud_by_name
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, PriceType
from autoscaler.errors import SettingsError, suggestion
from autoscaler.outside_files import read_text, read_toml

GIB = 1024**3
_HEAD = ("cloud", "region", "currency", "as_of", "types")
_FIELDS: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        "vcpus": int,
        "memory_gib": (int, float),
        "gpus": int,
        "arch": str,
        "on_demand": (int, float),
        "spot": (int, float),
    }
)


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type in one region, with its prices an hour as far as they are known."""

    type: InstanceType
    cloud: str = ""
    region: str = ""
    currency: str = "USD"
    as_of: str = ""
    """Date of the figures, ISO 8601; '' if the file gives none."""
    on_demand: float | None = None
    spot: float | None = None

    def price(self, price_type: PriceType) -> float | None:
        """An hour's price; None: unknown."""
        match price_type:
            case PriceType.ON_DEMAND:
                return self.on_demand
            case PriceType.SPOT:
                return self.spot


@dataclass(frozen=True, slots=True)
class Catalog:
    """Offers by instance type name, in the order of their files (smallest first within a family)."""

    offers: Mapping[str, Offer]

    @property
    def types(self) -> Mapping[str, InstanceType]:
        return MappingProxyType({name: offer.type for name, offer in self.offers.items()})

    def buckets(self, price_types: Iterable[PriceType] = tuple(PriceType)) -> tuple[Bucket, ...]:
        """One bucket for every type and price type, with unknown availability."""
        wanted = tuple(price_types)
        return tuple(
            Bucket(BucketKey(name, price_type=price_type), offer.type, offer.price(price_type))
            for name, offer in self.offers.items()
            for price_type in wanted
        )


def load_catalog(own: Path | None = None) -> Catalog:
    """Read `conf/catalog/*.toml`, and `own` over them: it adds types and overrides single figures of known ones.

    Raises SettingsError naming the wrong file, type and field.
    """
    folder = resources.files("autoscaler.conf") / "catalog"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    offers: dict[str, Offer] = {}
    for file in files:
        offers = _merged(offers, file.read_text(encoding="utf-8"), file.name)
    if own is not None:
        try:
            text = read_text(own)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the catalogue {own}: {error}; check its path") from error
        offers = _merged(offers, text, str(own))
    return Catalog(MappingProxyType(offers))


def currency_of(own: Path | None, otherwise: str | None = None) -> str:
    """The currency of the operator's own file, `otherwise` if it names none; of the included ones, dollars."""
    try:
        head = {} if own is None else read_toml(read_text(own))
    except (OSError, ValueError):
        head = {}  # the function that reads its figures reports the error
    return str(head.get("currency") or otherwise or "USD")


def family_of(name: str, cloud: str | None = None) -> str:
    """The family of an instance type by its name alone, so that types in no catalogue have one, too.

    AWS: the part before the dot (`c5.2xlarge` → c5). GCP: the name less its size (`n2-standard-8` → n2-standard).
    Azure: the name without tier, underscores and first number (`Standard_D2s_v3` → Dsv3); without an underscore it is
    its own family. `cloud` is AWS, AZURE or GCP in any case; None: it follows from the form of the name.
    """
    match (cloud or cloud_by_name(name)).lower():
        case "aws":
            return name.partition(".")[0]
        case "azure":
            return _azure_family(name)
        case "gcp":
            return _gcp_family(name)
        case _:
            return name


_AZURE_TIERS = frozenset({"Standard", "Basic"})
_AZURE_NUMBER = re.compile(r"\d+(-\d+)?")
"""vCPUs, and behind a dash those left on in a constrained size: `E4-2s_v5` is an Esv5."""


def _azure_family(name: str) -> str:
    if "_" not in name:
        return name
    tier, _, rest = name.partition("_")
    return _AZURE_NUMBER.sub("", rest if tier in _AZURE_TIERS else name, count=1).replace("_", "")


_GCP_SIZE = re.compile(r"\d+[gt]?|micro|small|medium")
"""A count of vCPUs, megabytes, GPUs (`1g`) or TPUs (`4t`), or a shared-core size."""


def _gcp_family(name: str) -> str:
    series, *parts = name.split("-")
    return "-".join((series, *(part for part in parts if not _GCP_SIZE.fullmatch(part))))


def _merged(offers: Mapping[str, Offer], text: str, file: str) -> dict[str, Offer]:
    try:
        document = read_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the catalogue {file} is not valid TOML: {error}") from error
    _known(document, _HEAD, f"the catalogue {file}")
    types = document.get("types", {})
    if not isinstance(types, dict):
        raise SettingsError(f"the catalogue {file}: types must be a table of instance types")
    for name in ("cloud", "region", "currency"):
        if not isinstance(document.get(name, ""), str):
            raise SettingsError(f"the catalogue {file}: {name} = {document[name]!r} is not a text")
    head = {name: str(value) for name, value in document.items() if name != "types"}
    merged = dict(offers)
    for name, figures in types.items():
        merged[name] = _offer(name, figures, head, merged.get(name), f"the catalogue {file}, {name}")
    return merged


def _offer(name: str, figures: Any, head: Mapping[str, str], known: Offer | None, where: str) -> Offer:
    if not isinstance(figures, dict):
        raise SettingsError(f"{where}: write {{ vcpus = 2, memory_gib = 8, on_demand = 0.096 }}")
    _known(figures, _FIELDS, where)
    for field, value in figures.items():
        if not _fits(field, value):
            kind = "text" if field == "arch" else "number of at least 0"
            raise SettingsError(f"{where}: {field} = {value!r} is not a {kind}")
    missing = [field for field in ("vcpus", "memory_gib") if known is None and not figures.get(field)]
    if missing:
        raise SettingsError(f"{where}: {' and '.join(missing)} must be given, above 0, for a new type")
    nothing = [field for field in ("vcpus", "memory_gib") if figures.get(field) == 0]
    if nothing:
        raise SettingsError(f"{where}: {' and '.join(nothing)} must be above 0")
    base = _elsewhere(known, head) or Offer(InstanceType(name, family_of(name, head.get("cloud")), vcpus=0, memory=0))
    own: dict[str, Any] = {field: figures[field] for field in ("vcpus", "gpus", "arch") if field in figures}
    if "memory_gib" in figures:
        own["memory"] = int(figures["memory_gib"] * GIB)
    prices = {field: float(figures[field]) for field in ("on_demand", "spot") if field in figures}
    dated = {field: value for field, value in head.items() if field != "as_of" or prices or known is None}
    changes: dict[str, Any] = {**dated, **prices}
    return replace(base, type=replace(base.type, **own), **changes)


def _elsewhere(known: Offer | None, head: Mapping[str, str]) -> Offer | None:
    """A known type in a file's region: its price in another region does not hold there."""
    if known is None or head.get("region", known.region) == known.region:
        return known
    return replace(known, on_demand=None, spot=None, as_of="")


def _fits(field: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, _FIELDS[field]):
        return False
    return not isinstance(value, int | float) or (value >= 0 and math.isfinite(value))


def _known(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = tuple(known)
    for name in given:
        if name not in names:
            raise SettingsError(f"{where}: {name} is not known; {suggestion(name, names)}")


def catalog_text(offers: Iterable[Offer]) -> str:
    """The file (TOML) of these offers, which all are of one cloud, region, currency and date (ISO 8601)."""
    ordered = sorted(offers, key=lambda offer: (offer.type.family, offer.type.vcpus, offer.type.name))
    heads = {(offer.cloud, offer.region, offer.currency, offer.as_of) for offer in ordered}
    if len(heads) != 1:
        raise ValueError(f"a catalogue file has one cloud, region, currency and date, not {sorted(heads)}")
    ((cloud, region, currency, as_of),) = heads
    head = [f"{name} = {json.dumps(value)}" for name, value in (("cloud", cloud), ("region", region))]
    return "\n".join(
        [*head, f"currency = {json.dumps(currency)}", f"as_of = {as_of}", "", "[types]", *map(_line, ordered), ""]
    )


def _line(offer: Offer) -> str:
    figures = {
        "vcpus": f"{offer.type.vcpus}",
        "memory_gib": _number(offer.type.memory / GIB),
        "gpus": f"{offer.type.gpus}",
        "arch": json.dumps(offer.type.arch),
        "on_demand": None if offer.on_demand is None else _number(offer.on_demand),
        "spot": None if offer.spot is None else _number(offer.spot),
    }
    given = ", ".join(f"{name} = {value}" for name, value in figures.items() if value is not None)
    return f"{json.dumps(offer.type.name)} = {{ {given} }}"


def _number(value: float) -> str:
    """As TOML writes it, without loss."""
    return f"{int(value)}" if value == int(value) else repr(value)
