"""Request sets and what they say of node arrays, until they lapse.

A set's newest update is all that it wants. Definitions are merged over updates; that of an array of the settings holds
while a live set names it, a dynamic array's until `remove_array`. An update is one transaction: whoever looks sees all
of it or none. Nothing here knows the settings: what may be asked for is judged before (`nodearrays.requests`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, NodeOperation, Requests, RequestSet, Target
from autoscaler.errors import SettingsError
from autoscaler.store import encoding
from autoscaler.store.database import Database, Migration

TABLES: Migration = (
    """
    CREATE TABLE request_sets (
        name TEXT PRIMARY KEY,
        by TEXT NOT NULL,
        at REAL NOT NULL,
        expires_at REAL,
        targets TEXT NOT NULL,
        arrays TEXT NOT NULL
    ) STRICT
    """,
    "CREATE TABLE array_definitions (name TEXT PRIMARY KEY, definition TEXT NOT NULL) STRICT",
)

_BOTH = (
    "SELECT name, by, at, expires_at, targets, arrays, NULL AS definition FROM request_sets"
    " UNION ALL SELECT name, NULL, NULL, NULL, NULL, NULL, definition FROM array_definitions ORDER BY name"
)
"""In one statement, so that an observation is of one moment and keeps no writer waiting."""
_DEFINITION = ArrayDefinition("")
_OBJECTS = ("configuration", "attributes")
_APART = (*_OBJECTS, "keep_alive")
"""Fields whose newest value does not take the place of the one before as a whole."""
MOST_CONFIGURATION = 8192
"""Bytes of an array's whole configuration: it travels with what a machine is booted with; clouds take little there."""
MOST_ATTRIBUTES = 65536
MOST_SETS = 1000
MOST_ARRAYS = 500
"""Node arrays that may be defined at a time, flagged ones included; each costs every pass a little."""


class DefinitionRefused(SettingsError):
    """What is said of a node array cannot be kept beside what was said of it before."""

    def __init__(self, node_array: str, attribute: str, problem: str) -> None:
        super().__init__(f"{node_array}: {attribute}: {problem}" if attribute else f"{node_array}: {problem}")
        self.node_array = node_array
        self.attribute = attribute
        """By its name in an update; '' for all that have no meaning here."""
        self.problem = problem


def merged(existing: ArrayDefinition, given: ArrayDefinition) -> ArrayDefinition:
    """What is known of an array once `given` was said of it: what it does not say stays as it was.

    Objects are merged key by key, to any depth; a key given as null is taken out.
    """
    said = {
        field.name: getattr(given, field.name)
        for field in fields(ArrayDefinition)
        if field.name not in _APART and getattr(given, field.name) != getattr(_DEFINITION, field.name)
    }
    objects: dict[str, Any] = {
        name: json.dumps(_merged_objects(json.loads(getattr(existing, name)), json.loads(getattr(given, name))))
        for name in _OBJECTS
    }
    kept = tuple(sorted({**dict(existing.keep_alive), **dict(given.keep_alive)}.items()))
    return replace(existing, **said, **objects, keep_alive=kept)


def _merged_objects(existing: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    result = dict(existing)
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = _merged_objects(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result


class RequestTable:
    """The tables above. `nodes`, `auto_stops` and `operations` tell what the owners of those tables hold."""

    def __init__(
        self,
        database: Database,
        nodes: Callable[[], tuple[CreatedNode, ...]] = tuple,
        auto_stops: Callable[[], frozenset[str]] = frozenset,
        operations: Callable[[], tuple[NodeOperation, ...]] = tuple,
    ) -> None:
        self._database = database
        self._nodes = nodes
        self._auto_stops = auto_stops
        self._operations = operations

    def update(
        self,
        set_name: str,
        by: str,
        at: float,
        expires_at: float | None,
        targets: Sequence[Target],
        definitions: Sequence[ArrayDefinition],
    ) -> bool:
        """Replace all that a set wants; the arrays it names are those of its targets and definitions. Returns whether
        anything but the time is new.

        Raises SettingsError, having changed nothing, where there would be more of anything than the limits above.
        """
        named = sorted({target.node_array for target in targets} | {definition.name for definition in definitions})
        with self._database.transaction():
            self.lapse(at)
            before = {row["name"]: _request_set(row) for row in self._set_rows()}
            news = set_name not in before or before[set_name].targets != tuple(targets)
            news = self._define(definitions) or news
            if len(before.keys() | {set_name}) > MOST_SETS:
                raise SettingsError(
                    f"there are already {MOST_SETS} request sets, the most allowed: give each caller one name"
                )
            self._database.execute(
                "INSERT OR REPLACE INTO request_sets VALUES (?, ?, ?, ?, ?, ?)",
                (set_name, by, at, expires_at, encoding.write(tuple(targets)), json.dumps(named)),
            )
            return self._drop_unnamed() or news

    def _define(self, definitions: Sequence[ArrayDefinition]) -> bool:
        """Merge what is said into what is known; returns whether that changed anything."""
        known = {definition.name: definition for definition in self._definitions()}
        news = False
        for given in definitions:
            existing = known.get(given.name)
            known[given.name] = _bounded(merged(existing or ArrayDefinition(given.name), given))
            if known[given.name] == existing:
                continue
            news = True
            self._database.execute(
                "INSERT OR REPLACE INTO array_definitions VALUES (?, ?)",
                (given.name, encoding.write(known[given.name])),
            )
        if len(known) > MOST_ARRAYS:
            raise SettingsError(
                f"there are already {MOST_ARRAYS} defined node arrays, the most allowed: use fewer names"
            )
        return news

    def load(self, now: float) -> Requests:
        """All that holds now. Only reads: what has lapsed is left out, whether or not `lapse` has dropped it."""
        rows = self._database.rows(_BOTH)
        live = [row for row in rows if row["targets"] is not None and not _over(row, now)]
        named = _named(live)
        definitions = (encoding.read(row["definition"], ArrayDefinition) for row in rows if row["definition"])
        held = (_held(definition, live) for definition in definitions)
        arrays = (replace(definition, wanted=definition.name in named) for definition in held)
        return Requests(
            sets=tuple(_request_set(row) for row in live),
            arrays=tuple(array for array in arrays if array.wanted or array.dynamic),
            nodes=self._nodes(),
            auto_stops=self._auto_stops(),
            operations=self._operations(),
        )

    def lapse(self, now: float) -> tuple[str, ...]:
        """Drop sets whose time is over, and what only they said of arrays of the settings; returns their names."""
        with self._database.transaction():
            over = tuple(row["name"] for row in self._set_rows() if _over(row, now))
            for name in over:
                self._database.execute("DELETE FROM request_sets WHERE name = ?", (name,))
            if over:
                self._drop_unnamed()
        return over

    def end(self, set_name: str) -> bool:
        """Take a whole set back; tells whether there was one."""
        with self._database.transaction():
            ended = bool(self._database.execute("DELETE FROM request_sets WHERE name = ?", (set_name,)))
            self._drop_unnamed()
        return ended

    def remove_array(self, name: str) -> bool:
        """Forget a dynamic array whose last worker is gone. One that a set has named meanwhile, or that another array
        extends, stays: False.
        """
        with self._database.transaction():
            extended = {definition.extends for definition in self._definitions()}
            if name in _named(self._set_rows()) | extended:
                return False
            return bool(self._database.execute("DELETE FROM array_definitions WHERE name = ?", (name,)))

    def clear(self) -> None:
        """Forget all sets and arrays: the cluster is given back."""
        with self._database.transaction():
            self._database.execute("DELETE FROM request_sets")
            self._database.execute("DELETE FROM array_definitions")

    def _set_rows(self) -> list[Any]:
        return list(self._database.rows("SELECT * FROM request_sets ORDER BY name"))

    def _definitions(self) -> tuple[ArrayDefinition, ...]:
        rows = self._database.rows("SELECT definition FROM array_definitions ORDER BY name")
        return tuple(encoding.read(row["definition"], ArrayDefinition) for row in rows)

    def _drop_unnamed(self) -> bool:
        """What nobody says any more of arrays of the settings, and for whom no set keeps workers any more; returns
        whether there was any.
        """
        rows = self._set_rows()
        named, known = _named(rows), self._definitions()
        gone = [each.name for each in known if not each.dynamic and each.name not in named]
        for name in gone:
            self._database.execute("DELETE FROM array_definitions WHERE name = ?", (name,))
        changed = [held for each in known if each.name not in gone and (held := _held(each, rows)) != each]
        for each in changed:
            self._database.execute(
                "UPDATE array_definitions SET definition = ? WHERE name = ?", (encoding.write(each), each.name)
            )
        return bool(gone or changed)


def _over(row: Any, now: float) -> bool:
    return row["expires_at"] is not None and row["expires_at"] <= now


def _named(rows: Iterable[Any]) -> frozenset[str]:
    return frozenset(name for row in rows for name in json.loads(row["arrays"]))


def _held(definition: ArrayDefinition, rows: Iterable[Any]) -> ArrayDefinition:
    """Without what sets said of keeping its workers that no longer live or no longer name it."""
    if not definition.keep_alive:
        return definition
    naming = {row["name"] for row in rows if definition.name in json.loads(row["arrays"])}
    return replace(definition, keep_alive=tuple((name, kept) for name, kept in definition.keep_alive if name in naming))


def _request_set(row: Any) -> RequestSet:
    targets = encoding.read(row["targets"], tuple[Target, ...])
    named = tuple(json.loads(row["arrays"]))
    return RequestSet(row["name"], row["by"], row["at"], row["expires_at"], targets, named)


def _bounded(definition: ArrayDefinition) -> ArrayDefinition:
    for name, attribute, most in (
        ("configuration", "Configuration", MOST_CONFIGURATION),
        ("attributes", "", MOST_ATTRIBUTES),
    ):
        if (size := len(getattr(definition, name).encode())) > most:
            what = "it" if attribute else "all other attributes"
            problem = f"{what} would have {size} bytes, more than {most}; null removes a key"
            raise DefinitionRefused(definition.name, attribute, problem)
    return definition
