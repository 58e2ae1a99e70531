"""Reads a caller's list of node arrays, as CycleCloud's autoscale call takes it, into targets and definitions.

Names are exactly CycleCloud's. Every error is a SettingsError that begins with the place inside the list
(`[1].TargetCount: …`); a list with an error changes nothing. Unknown attributes are kept as given.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from autoscaler.constraints.documents import listed, table, truth, words, wrong
from autoscaler.constraints.json_text import below
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.request_sets import POLICY_PREFIX, QUEUE, STANDARD, ArrayDefinition, Target
from autoscaler.errors import SettingsError, suggestion
from autoscaler.store.array_definitions import DefinitionRefused
from autoscaler.store.store import Store

DEFAULT_EXPIRATION = 300.0
"""Seconds that an update holds by default."""
MOST_ARRAYS = 1000
"""Node arrays in one list; more must be an error of the caller."""
MOST = 1_000_000
"""Workers, vCPUs or groups in one target."""
LONGEST_TYPE = 128
"""Letters of a machine type."""
LONGEST = 10 * 365 * 86400.0
"""Seconds that an update may hold."""

_TARGETS = ("TargetCount", "TargetCoreCount", "TargetGroupCount")
_SIZES = ("GroupCoreCount", "GroupInstanceCount")
_DEFINING = (
    *("MachineType", "Configuration", "Extends", "Dynamic", "Interruptible", "MaxCount", "MaxCoreCount"),
    *("HealthCheck", "KeepAlive"),
)
WANTING = ("Name", *_TARGETS, *_SIZES)
"""Attributes that concern the caller's own request set only."""
MEANT = (*WANTING, *_DEFINING)
"""Names that have an effect."""
CLUSTER = "ClusterName"
"""Has no effect if it names this cluster, and is refused if it names another."""
KEPT = frozenset({"CoreCount"})
"""Attributes of CycleCloud's reference that are similar to those above but no misspellings of them."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,63}")
_OF_GROUPS = re.compile(r"(?P<base>.+):\d+")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_CLOSE = 0.8


@dataclass(frozen=True, slots=True)
class Update:
    """A whole list, read."""

    targets: tuple[Target, ...] = ()
    definitions: tuple[ArrayDefinition, ...] = ()
    """One for each named array, in the order of the list."""
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By name of a defined array: its place in the list."""
    news: bool = True
    """Whether it changed anything but the expiry."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, and facts of the cell."""

    name: str
    at: float
    node_arrays: Collection[str]
    """The node arrays of the settings, in their order."""
    cluster: str = ""
    """The name of this cluster; arrays of another one are refused. '': any name is accepted."""
    of_policy: bool = False
    """An autoscale policy of this process: its set's name begins with `policy:`."""


def ask(
    store: Store,
    arrays: Any,
    caller: Caller,
    *,
    request_set: str = STANDARD,
    expiration_interval: float | None = DEFAULT_EXPIRATION,
) -> Update:
    """Replace all targets of a set by a list, in one transaction. Raises SettingsError and changes nothing.

    An interval of None: until the set is ended.
    """
    set_name_from(request_set, of_policy=caller.of_policy)
    seconds = None if expiration_interval is None else interval_from(expiration_interval)
    with store.database.transaction():
        known = {array.name: array for array in store.requests.load(caller.at).arrays if array.dynamic}
        update = read_update(
            arrays, node_arrays=caller.node_arrays, dynamic=known, request_set=request_set, cluster=caller.cluster
        )
        expires_at = None if seconds is None else caller.at + seconds
        try:
            news = store.requests.update(
                request_set, caller.name, caller.at, expires_at, update.targets, update.definitions
            )
        except DefinitionRefused as error:
            wrong(below(update.places[error.node_array], error.attribute), error.problem)
    return replace(update, news=news)


def read_update(
    value: Any,
    *,
    node_arrays: Collection[str],
    dynamic: Mapping[str, ArrayDefinition] = MappingProxyType({}),
    request_set: str = STANDARD,
    cluster: str = "",
) -> Update:
    """The targets and definitions of a list of node arrays.

    `node_arrays` and `cluster`: as in `Caller`; `dynamic`: those that exist through earlier requests.
    """
    elements = [
        _Element(table(part, f"[{number}]"), f"[{number}]", request_set)
        for number, part in enumerate(_list_of_arrays(value))
    ]
    for element in elements:
        element.check_names()
        element.check_cluster(cluster)
    made = {element.name for element in elements if element.dynamic}
    targets: list[Target] = []
    definitions: dict[str, ArrayDefinition] = {}
    places: dict[str, str] = {}
    for element in elements:
        element.check_existence(node_arrays, dynamic, made)
        target, defined = element.read()
        if target is not None:
            if any(_kind(target) == _kind(other) for other in targets):
                wrong(element.at, f"{target.node_array} is named twice: give each array once, with one target")
            targets.append(target)
        for definition in defined:
            _define(definitions, definition, element)
            if definition.name not in places or definition != ArrayDefinition(definition.name):
                places[definition.name] = element.at
    _check_chains(elements, definitions, dynamic)
    return Update(tuple(targets), tuple(definitions.values()), places)


def _define(definitions: dict[str, ArrayDefinition], definition: ArrayDefinition, element: _Element) -> None:
    """Several groups of one array name it several times: all with equal attributes, or only one with any."""
    existing = definitions.get(definition.name)
    plain = ArrayDefinition(definition.name)
    if existing is None or existing == plain:
        definitions[definition.name] = definition
        return
    cores, count = (definition.group_cores or existing.group_cores, definition.group_count or existing.group_count)
    before, now = (replace(each, group_cores=cores, group_count=count) for each in (existing, definition))
    if definition != plain and now != before:
        wrong(element.at, f"{definition.name} is named twice: give each array once, with all its attributes")
    definitions[definition.name] = before


def _kind(target: Target) -> tuple[str, bool]:
    """A target's key: its array, and whether its groups are sized in workers. An array may have groups sized in vCPUs,
    too.
    """
    return target.node_array, target.group_count is not None


def set_name_from(value: Any, *, of_policy: bool = False) -> str:
    """A request set's name that a caller may use."""
    name = words(value, "request_set")
    if name == QUEUE:
        wrong("request_set", f"{QUEUE!r} is the set of the queues' own demand: use another name")
    if name.startswith(POLICY_PREFIX) != of_policy:
        wrong("request_set", f"{POLICY_PREFIX}… is for autoscale policies: use another name")
    if len(name) > 128 or not name.isprintable():
        wrong("request_set", "a name has at most 128 printable characters")
    return name


def interval_from(value: Any, at: str = "expiration_interval") -> float:
    """Seconds that an update holds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        wrong(at, f"seconds above 0 and at most {LONGEST:.0f} are expected, not {value!r}")
    return float(value)


def _list_of_arrays(value: Any) -> list[Any]:
    if isinstance(value, dict):
        raise SettingsError("the arrays: a list is expected, not one object: put it in brackets, as in [{…}]")
    found = listed(list(value) if isinstance(value, tuple) else value, "the arrays")
    if len(found) > MOST_ARRAYS:
        raise SettingsError(f"the arrays: {len(found)} are more than the {MOST_ARRAYS} that one update may name")
    return found


@dataclass(frozen=True, slots=True)
class _Element:
    """One node array of the list, with its place."""

    given: dict[str, Any]
    at: str
    request_set: str = STANDARD

    def place(self, name: str) -> str:
        return below(self.at, name)

    @property
    def name(self) -> str:
        """The array's name."""
        if "Name" not in self.given:
            wrong(self.at, "Name is missing: give the name of the node array")
        found = words(self.given["Name"], self.place("Name"))
        if not _NAME.fullmatch(found):
            wrong(self.place("Name"), f"{found!r} is not a name: use up to 64 letters, digits and any of _ . - + : @")
        if of_groups := _OF_GROUPS.fullmatch(found):
            wrong(
                self.place("Name"),
                f"{found} is an array of groups: name {of_groups['base']}, with TargetGroupCount and GroupCoreCount",
            )
        return found

    @property
    def dynamic(self) -> bool:
        return self.value("Dynamic") is not None and truth(self.given["Dynamic"], self.place("Dynamic"))

    @property
    def extends(self) -> str | None:
        found = self.value("Extends")
        return None if found is None else words(found, self.place("Extends"))

    def value(self, name: str) -> Any:
        """The value of a name; None for null, which counts as not given."""
        return self.given.get(name)

    def check_names(self) -> None:
        """Refuse a misspelt name: it must not count as an attribute of the caller's own."""
        for name in self.given:
            if name not in MEANT and name not in KEPT and (meant := _misspelt(name)):
                wrong(self.place(name), f"it is not known; did you mean {meant}?")

    def check_cluster(self, cluster: str) -> None:
        """Refuse an array of another cluster."""
        named = self.value(CLUSTER)
        if named is None:
            return
        if cluster and words(named, self.place(CLUSTER)) != cluster:
            wrong(
                self.place(CLUSTER),
                f"this is cluster {cluster}, not {_shown(named)}: leave it out, or ask the other cluster; "
                "CP_CAP_AUTOSCALE_HTTP_CLUSTER names this one",
            )

    def check_existence(
        self, node_arrays: Collection[str], dynamic: Mapping[str, ArrayDefinition], made: Collection[str]
    ) -> None:
        """Refuse an array, or one that it extends, that neither exists nor is created now."""
        existing = (*node_arrays, *dynamic)
        if self.name in node_arrays:
            if self.dynamic:
                wrong(
                    self.place("Dynamic"), f"{self.name} is an array of the settings: leave it out, or use another name"
                )
            if self.extends is not None:
                wrong(self.place("Extends"), f"{self.name} is an array of the settings and extends none")
        elif self.name not in dynamic and not self.dynamic:
            known = [name for name in existing if not _OF_GROUPS.fullmatch(name)]
            wrong(
                self.place("Name"),
                f"there is no node array {self.name!r}; {suggestion(self.name, known)}; to make it, say Dynamic: true",
            )
        if self.extends is not None and self.extends not in (*existing, *made):
            wrong(
                self.place("Extends"),
                f"there is no node array {self.extends!r}; {suggestion(self.extends, (*existing, *made))}",
            )

    def read(self) -> tuple[Target | None, tuple[ArrayDefinition, ...]]:
        """The target and the definitions: of the array, or of its array of groups."""
        count, cores, groups = (self._number(name, least=0) for name in _TARGETS)
        given = [name for name in _TARGETS if self.value(name) is not None]
        if len(given) > 1:
            wrong(self.place(given[1]), f"{given[0]} is given too: give only one of them")
        definition = self._definition()
        if groups is None:
            for name in _SIZES:
                if self.value(name) is not None:
                    wrong(self.place(name), "give the number of groups as TargetGroupCount")
            target = None if count is None and cores is None else Target(self.name, count, cores)
            return target, (definition,)
        group_cores, group_count = self._group_size()
        name = f"{self.name}:{group_cores or group_count}"
        grouped = replace(
            definition,
            name=name,
            dynamic=True,
            extends=self.name,
            group_cores=group_cores,
            group_count=group_count,
        )
        base = definition if self.dynamic else ArrayDefinition(self.name)
        return Target(name, groups=groups, group_cores=group_cores, group_count=group_count), (base, grouped)

    def _group_size(self) -> tuple[int | None, int | None]:
        group_cores, group_count = (self._number(name, least=1) for name in _SIZES)
        if group_cores is not None and group_count is not None:
            wrong(self.place(_SIZES[1]), f"{_SIZES[0]} is given too: give only one of them as the size of a group")
        if group_cores is None and group_count is None:
            wrong(self.place("TargetGroupCount"), f"give the size of a group as {_SIZES[0]} or {_SIZES[1]}")
        return group_cores, group_count

    def _definition(self) -> ArrayDefinition:
        interruptible = self.value("Interruptible")
        price_type = None
        if interruptible is not None:
            wants_spot = truth(interruptible, self.place("Interruptible"))
            price_type = PriceType.SPOT if wants_spot else PriceType.ON_DEMAND
        attributes = {name: value for name, value in self.given.items() if name not in (*MEANT, CLUSTER)}
        return ArrayDefinition(
            name=self.name,
            dynamic=self.dynamic,
            extends=self.extends,
            machine_types=self._machine_types(),
            price_type=price_type,
            max_count=self._number("MaxCount", least=0),
            max_cores=self._number("MaxCoreCount", least=0),
            keep_alive=self._keep_alive(),
            health_check=self._health_check(),
            configuration=self._json(
                "Configuration", table(self.value("Configuration") or {}, self.place("Configuration"))
            ),
            attributes=self._json("", attributes),
        )

    def _keep_alive(self) -> tuple[tuple[str, bool], ...]:
        value = self.value("KeepAlive")
        return () if value is None else ((self.request_set, truth(value, self.place("KeepAlive"))),)

    def _health_check(self) -> str | None:
        value, at = self.value("HealthCheck"), self.place("HealthCheck")
        if value is None:
            return None
        if not _FILE.fullmatch(found := words(value, at)):
            wrong(at, f"{found!r} is not a health check: name a file of the directory of health checks")
        return found

    def _machine_types(self) -> tuple[str, ...]:
        """One, a list, or several in one text with commas; the order is the preference."""
        value, at = self.value("MachineType"), self.place("MachineType")
        if value is None:
            return ()
        parts = list(value) if isinstance(value, list | tuple) else words(value, at).split(",")
        if not parts:
            wrong(at, "name at least one machine type, or leave it out")
        single = len(parts) == 1 and isinstance(value, str)
        found = [words(part, at if single else f"{at}[{number}]").strip() for number, part in enumerate(parts)]
        if strange := next((part for part in found if not part.isprintable() or len(part) > LONGEST_TYPE), None):
            wrong(at, f"{_shown(strange)} is not a machine type")
        return tuple(dict.fromkeys(found))

    def _number(self, name: str, *, least: int) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        whole = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value) and value == int(value))
        if isinstance(value, bool) or not whole or not least <= value <= MOST:
            wrong(self.place(name), f"a whole number from {least} to {MOST} is expected, not {_shown(value)}")
        return int(value)

    def _json(self, name: str, value: dict[str, Any]) -> str:
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            wrong(self.place(name) if name else self.at, f"it cannot be kept as JSON: {error}")


def _check_chains(
    elements: Iterable[_Element], given: Mapping[str, ArrayDefinition], dynamic: Mapping[str, ArrayDefinition]
) -> None:
    """Refuse an array that extends itself, directly or through others."""
    extends = {name: array.extends for name, array in dynamic.items()}
    extends |= {name: array.extends for name, array in given.items() if array.extends is not None}
    for element in elements:
        seen, name = {element.name}, extends.get(element.name)
        while name is not None and name not in seen:
            seen.add(name)
            name = extends.get(name)
        if name is not None:
            wrong(element.place("Extends"), f"{element.name} would extend itself")


def _misspelt(name: str) -> str | None:
    """The effective name of which this one is a misspelling; None: of none."""
    bare = re.sub(r"[\s_-]", "", name).lower()
    same = next((meant for meant in MEANT if meant.lower() == bare), None)
    return same or next(iter(difflib.get_close_matches(name, MEANT, n=1, cutoff=_CLOSE)), None)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
