"""Request sets and their definitions of node arrays, until they lapse.

A set's newest update replaces its earlier targets. Its definition of an array holds as
`autoscaler.store.array_definitions` says, a dynamic array until `remove_array`. An update is one transaction: every
reader sees all of it or none. Nothing here knows the settings: requests are checked before they come here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, NodeOperation, Requests, RequestSet, Target
from autoscaler.errors import SettingsError
from autoscaler.store import encoding
from autoscaler.store.array_definitions import Definitions, SetDefinition, refuse_too_long
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
    """
    CREATE TABLE set_definitions (
        name TEXT NOT NULL,
        set_name TEXT NOT NULL,
        number INTEGER NOT NULL,
        makes INTEGER NOT NULL,
        definition TEXT NOT NULL,
        PRIMARY KEY (name, set_name)
    ) STRICT
    """,
)
"""`set_definitions`: each set's definition of each array; `array_definitions` has those that last."""

_ALL = (
    "SELECT name, by, at, expires_at, targets, arrays, NULL AS definition, NULL AS set_name, 0 AS number, 0 AS makes"
    " FROM request_sets"
    " UNION ALL SELECT name, NULL, NULL, NULL, NULL, NULL, definition, NULL, 0, 0 FROM array_definitions"
    " UNION ALL SELECT name, NULL, NULL, NULL, NULL, NULL, definition, set_name, number, makes FROM set_definitions"
    " ORDER BY name"
)
"""In one statement, so that an observation is of one moment and keeps no writer waiting."""
MOST_SETS = 1000
MOST_ARRAYS = 500
"""Node arrays that may be defined at a time, flagged ones included; each costs every pass a little."""


class RequestTable:
    """The tables above. `nodes`, `auto_stops` and `operations` come from the owners of those tables."""

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
        """Replace all that a set requests; the arrays it names are those of its targets and definitions. Returns
        whether anything but the time is new.

        Raises SettingsError, having changed nothing, if a limit above would be exceeded.
        """
        named = sorted({target.node_array for target in targets} | {definition.name for definition in definitions})
        with self._database.transaction():
            self.lapse(at)
            rows = self._rows()
            before = {row["name"]: _request_set(row) for row in _sets(rows)}
            if len(before.keys() | {set_name}) > MOST_SETS:
                raise SettingsError(
                    f"there are already {MOST_SETS} request sets, the most allowed: give each caller one name"
                )
            known = _definitions(rows)
            names = {one.name: one.arrays for one in before.values()} | {set_name: tuple(named)}
            new = _with_all(known, set_name, definitions, names).while_named(names)
            _refuse_too_much(new, {definition.name for definition in definitions})
            self._database.execute(
                "INSERT OR REPLACE INTO request_sets VALUES (?, ?, ?, ?, ?, ?)",
                (set_name, by, at, expires_at, encoding.write(tuple(targets)), json.dumps(named)),
            )
            self._write(known, new)
            same = set_name in before and before[set_name].targets == tuple(targets)
            return not same or _holds(new) != _holds(known)

    def load(self, now: float) -> Requests:
        """All that is in force now. Only reads: lapsed requests are left out, dropped by `lapse` or not."""
        rows = self._rows()
        live = [row for row in _sets(rows) if not _over(row, now)]
        named = _named(live)
        held = _definitions(rows).while_named(_names(live)).in_force().values()
        arrays = (replace(definition, requested=definition.name in named) for definition in held)
        return Requests(
            sets=tuple(_request_set(row) for row in live),
            arrays=tuple(array for array in arrays if array.requested or array.dynamic),
            nodes=self._nodes(),
            auto_stops=self._auto_stops(),
            operations=self._operations(),
        )

    def lapse(self, now: float) -> tuple[str, ...]:
        """Drop sets whose time is over, and definitions that only they gave; returns their names."""
        with self._database.transaction():
            over = tuple(row["name"] for row in _sets(self._rows()) if _over(row, now))
            self._drop(over)
        return over

    def end(self, set_name: str) -> bool:
        """Withdraw a whole set; returns whether there was one."""
        with self._database.transaction():
            return self._drop((set_name,))

    def _drop(self, set_names: tuple[str, ...]) -> bool:
        gone = [self._database.execute("DELETE FROM request_sets WHERE name = ?", (name,)) for name in set_names]
        if any(gone):
            rows = self._rows()
            known = _definitions(rows)
            self._write(known, known.while_named(_names(_sets(rows))))
        return any(gone)

    def remove_array(self, name: str) -> bool:
        """Forget a dynamic array whose last worker is gone. One that a set has named meanwhile, or that another array
        extends, stays: False.
        """
        with self._database.transaction():
            rows = self._rows()
            extended = {definition.extends for definition in _definitions(rows).in_force().values()}
            if name in _named(_sets(rows)) | extended:
                return False
            return bool(self._database.execute("DELETE FROM array_definitions WHERE name = ?", (name,)))

    def clear(self) -> None:
        """Forget all sets and arrays: the cluster is given back."""
        with self._database.transaction():
            for each in ("request_sets", "array_definitions", "set_definitions"):
                self._database.execute(f"DELETE FROM {each}")

    def _rows(self) -> list[Any]:
        return list(self._database.rows(_ALL))

    def _write(self, known: Definitions, new: Definitions) -> None:
        """Store `new` where it differs from `known`."""
        before, after = ({(each.definition.name, each.set_name): each for each in one.by_set} for one in (known, new))
        for name in known.lasting.keys() - new.lasting.keys():
            self._database.execute("DELETE FROM array_definitions WHERE name = ?", (name,))
        for key in before.keys() - after.keys():
            self._database.execute("DELETE FROM set_definitions WHERE name = ? AND set_name = ?", key)
        for name, definition in new.lasting.items():
            if known.lasting.get(name) != definition:
                self._database.execute(
                    "INSERT OR REPLACE INTO array_definitions VALUES (?, ?)", (name, encoding.write(definition))
                )
        for key, each in after.items():
            if before.get(key) != each:
                self._database.execute(
                    "INSERT OR REPLACE INTO set_definitions VALUES (?, ?, ?, ?, ?)",
                    (*key, each.number, int(each.makes), encoding.write(each.definition)),
                )


def _sets(rows: Iterable[Any]) -> list[Any]:
    return [row for row in rows if row["targets"] is not None]


def _definitions(rows: Iterable[Any]) -> Definitions:
    found = [(row, encoding.read(row["definition"], ArrayDefinition)) for row in rows if row["definition"]]
    return Definitions(
        {definition.name: definition for row, definition in found if row["set_name"] is None},
        tuple(
            SetDefinition(row["set_name"], row["number"], bool(row["makes"]), definition)
            for row, definition in found
            if row["set_name"] is not None
        ),
    )


def _with_all(
    known: Definitions, set_name: str, given: Iterable[ArrayDefinition], names: Mapping[str, Collection[str]]
) -> Definitions:
    """With a set's definition of each array."""
    for definition in given:
        others = [name for name, arrays in names.items() if name != set_name and definition.name in arrays]
        known = known.with_definition(set_name, definition, others)
    return known


def _refuse_too_much(new: Definitions, given: Collection[str]) -> None:
    holds = new.in_force()
    refuse_too_long(each for name, each in holds.items() if name in given)
    refuse_too_long(each.definition for each in new.by_set if each.definition.name in given)
    if len(holds) > MOST_ARRAYS:
        raise SettingsError(
            f"there would be {len(holds)} defined node arrays, and {MOST_ARRAYS} are the most allowed: use fewer names"
        )


def _holds(definitions: Definitions) -> dict[str, ArrayDefinition]:
    """The definitions in force."""
    return {name: replace(each, defined_by=()) for name, each in definitions.in_force().items()}


def _over(row: Any, now: float) -> bool:
    return row["expires_at"] is not None and row["expires_at"] <= now


def _names(rows: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    return {row["name"]: tuple(json.loads(row["arrays"])) for row in rows}


def _named(rows: Iterable[Any]) -> frozenset[str]:
    return frozenset(name for arrays in _names(rows).values() for name in arrays)


def _request_set(row: Any) -> RequestSet:
    return encoding.from_row(row, RequestSet)
