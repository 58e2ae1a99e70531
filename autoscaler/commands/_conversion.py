"""Settings, records and state of commit 3486b244, which was piloted before the first release, under today's names.

`conf/renamed.toml` has the names; nothing here names one. It goes with the release after the first one.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from autoscaler.errors import SettingsError
from autoscaler.store.store import Store

PILOT_VERSION = 22
"""`user_version` of that commit's database."""
KEPT = ".before-0.1.0"
"""Ends the name of what a conversion keeps of the old."""
_TOKEN = re.compile(r"\bCP_CAP_[A-Z0-9_]+")


@dataclass(frozen=True)
class Renamed:
    """The table of names, by section."""

    sections: Mapping[str, Mapping[str, str]]

    @classmethod
    def load(cls) -> Renamed:
        return cls(tomllib.loads(resources.files("autoscaler.conf").joinpath("renamed.toml").read_text("utf-8")))

    def __getitem__(self, section: str) -> Mapping[str, str]:
        return self.sections.get(section, {})

    def values(self, kind: str) -> Mapping[str, str]:
        """Old and new values of this kind."""
        prefix = f"{kind}: "
        return {old.removeprefix(prefix): new for old, new in self["values"].items() if old.startswith(prefix)}


# -- JSON ---------------------------------------------------------------------------------------------------------


def renamed_paths(document: Any, paths: Mapping[str, str]) -> Any:
    """The document with the last key of each path under its new name. All names in a path are old ones."""
    for path, new in sorted(paths.items(), key=lambda item: -item[0].count(".")):
        *outer, last = path.split(".")
        for found in _at(document, outer):
            if isinstance(found, dict) and last in found:
                found[new] = found.pop(last)
    return document


def _at(document: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield document
        return
    first, *rest = path
    if first == "*":
        inner: Iterable[Any] = (
            document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
        )
        for each in inner:
            yield from _at(each, rest)
    elif isinstance(document, dict) and first in document:
        yield from _at(document[first], rest)


def renamed_reasons(document: Any, renamed: Renamed) -> Any:
    """The document with the codes and facts of all reasons in it under their new names."""
    if isinstance(document, list):
        return [renamed_reasons(each, renamed) for each in document]
    if not isinstance(document, dict):
        return document
    found = {key: renamed_reasons(value, renamed) for key, value in document.items()}
    if "code" in found and "facts" in found:
        found["code"] = renamed["codes"].get(found["code"], found["code"])
        facts, names = found["facts"], renamed["facts"]
        if isinstance(facts, dict):
            found["facts"] = {names.get(name, name): value for name, value in facts.items()}
        elif isinstance(facts, list):
            found["facts"] = [[names.get(name, name), value] for name, value in facts]
    return found


def _answers(evidence: Any, renamed: Renamed) -> Any:
    names = renamed.values("answer")
    for found in _at(evidence, ["answers", "*"]):
        found["answer"] = names.get(found["answer"], found["answer"])
    return evidence


def _action(action: Any, renamed: Renamed) -> Any:
    kinds = renamed.values("action")
    if isinstance(action, dict) and "kind" in action:
        action["kind"] = kinds.get(action["kind"], action["kind"])
    return renamed_paths(action, renamed["action"])


def _plan_document(document: Any, renamed: Renamed) -> Any:
    shown = {path.removeprefix("plan: "): new for path, new in renamed["answers"].items() if path.startswith("plan: ")}
    for action in _at(document, ["actions", "*"]):
        _action(action, renamed)
    return renamed_paths(document, shown)


def _notified(known: Any, renamed: Renamed) -> Any:
    kinds = renamed.values("notification")
    watched = known.get("watched", {})
    for each in watched.values():
        each["kind"] = kinds.get(each["kind"], each["kind"])
    known["watched"] = {
        next((key.replace(old, new, 1) for old, new in kinds.items() if key.startswith(old)), key): each
        for key, each in watched.items()
    }
    return renamed_paths(known, renamed["notifications"])


def _definition(definition: Any, renamed: Renamed) -> Any:
    inner = {path.removeprefix("arrays.*."): new for path, new in renamed["requests.json"].items()}
    return renamed_paths(definition, inner)


_JSON: Mapping[tuple[str, str], Callable[[Any, Renamed], Any]] = {
    ("memory", "memory"): lambda document, renamed: renamed_paths(document, renamed["memory"]),
    ("looks", "look"): lambda document, renamed: renamed_paths(document, renamed["observation"]),
    ("actions", "action"): _action,
    ("passes", "document"): _plan_document,
    ("notification_state", "known"): _notified,
    ("array_definitions", "definition"): _definition,
    ("said_of_arrays", "definition"): _definition,
}
"""What is renamed in a column besides codes and facts of reasons, by old table and column."""
_VALUES: Mapping[tuple[str, str], str] = {
    ("actions", "kind"): "action",
    ("answers", "answer"): "answer",
    ("notifications", "kind"): "notification",
}
"""Kind of the values of a column."""


# -- files --------------------------------------------------------------------------------------------------------


def converted_settings(text: str, renamed: Renamed) -> str:
    """A settings file, or any other text with names of settings. A suffix of a further queue stays."""

    def new(found: re.Match[str]) -> str:
        name = found[0]
        for old, now in renamed["settings"].items():
            if name == old or re.fullmatch(rf"{old}_\d+", name):
                return now + name.removeprefix(old)
        return name

    return _TOKEN.sub(new, text)


def convert_record(directory: Path, renamed: Renamed) -> list[str]:
    """Convert a record folder in place; returns what was changed."""
    changed: list[str] = []
    for old, new in renamed["files"].items():
        if (directory / old).exists():
            (directory / old).rename(directory / new)
            changed.append(f"{old} is {new}")
    texts: dict[str, Callable[[Any], Any]] = {
        "memory.json": lambda document: renamed_paths(document, renamed["memory"]),
        "provider.json": lambda document: renamed_paths(document, renamed["provider.json"]),
        "requests.json": lambda document: renamed_paths(document, renamed["requests.json"]),
        "evidence.json": lambda document: _answers(document, renamed),
    }
    for name, convert in texts.items():
        file = directory / name
        if file.exists():
            text = file.read_text("utf-8", "surrogateescape")
            before = json.loads(text)
            after = renamed_reasons(convert(json.loads(text)), renamed)
            if after != before:
                file.write_text(json.dumps(after, indent=2) + "\n", "utf-8", "surrogateescape")
                changed.append(name)
    return changed + [name for name in ("settings.toml",) if _rewrite(directory / name, renamed)]


def _rewrite(file: Path, renamed: Renamed) -> bool:
    if not file.exists():
        return False
    before = file.read_text("utf-8", "surrogateescape")
    after = converted_settings(before, renamed)
    if after != before:
        file.write_text(after, "utf-8", "surrogateescape")
    return after != before


def convert_settings(file: Path, renamed: Renamed) -> bool:
    """Convert a settings file in place and keep the old one beside it; returns whether anything changed."""
    old = file.read_text("utf-8")
    if converted_settings(old, renamed) == old:
        return False
    kept = file.with_name(file.name + KEPT)
    kept.touch(file.stat().st_mode & 0o777)
    kept.write_text(old, "utf-8")
    os.chown(kept, file.stat().st_uid, file.stat().st_gid)
    return _rewrite(file, renamed)


# -- the database -------------------------------------------------------------------------------------------------


def convert_store(file: Path, renamed: Renamed) -> int:
    """Put a new database in the place of the pilot's, which is kept beside it; returns how many rows it has. Nothing is
    changed if anything cannot be converted.

    Raises SettingsError if it is no database of that commit.
    """
    new, kept = file.with_name(f"{file.name}.new"), file.with_name(file.name + KEPT)
    if kept.exists():
        raise SettingsError(f"{kept} exists already: a conversion was made before; move it away to make another")
    for stale in (new, *_beside(new)):
        stale.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True, isolation_level=None)) as old:
        old.row_factory = sqlite3.Row
        version = old.execute("PRAGMA user_version").fetchone()[0]
        if version != PILOT_VERSION:
            raise SettingsError(
                f"{file} has version {version}: only that of commit 3486b244 ({PILOT_VERSION}) can be converted"
            )
        try:
            # Only without any other connection: the log goes into the file, which is then whole by itself.
            old.execute("PRAGMA busy_timeout=0").fetchall()
            old.execute("PRAGMA journal_mode=DELETE").fetchall()
        except sqlite3.OperationalError as error:
            raise SettingsError(f"{file} is in use ({error}): stop the autoscaler, and any command, first") from error
        Store.open(new).close()
        with closing(sqlite3.connect(new, isolation_level=None)) as target:
            rows = _copied(old, target, renamed)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    new.chmod(file.stat().st_mode & 0o777)
    os.chown(new, file.stat().st_uid, file.stat().st_gid)
    file.rename(kept)
    for stale in _beside(file):
        stale.unlink(missing_ok=True)
    new.rename(file)
    return rows


def _beside(file: Path) -> tuple[Path, ...]:
    return tuple(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))


_EMPTY = {"TEXT": "", "INTEGER": 0, "REAL": 0.0}
"""By type, the value in a column that the old database did not have."""


def _copied(old: sqlite3.Connection, target: sqlite3.Connection, renamed: Renamed) -> int:
    names = [row["name"] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    count = 0
    target.execute("PRAGMA foreign_keys = OFF")
    target.execute("BEGIN IMMEDIATE")
    for table in sorted(name for name in names if not name.startswith("sqlite_")):
        into = renamed["tables"].get(table, table)
        target.execute(f'DELETE FROM "{into}"')  # rows that a new database begins with
        further = {
            name: _EMPTY[kind]
            for _, name, kind, required, default, key in target.execute(f'PRAGMA table_info("{into}")')
            if required and default is None and not key
        }
        for row in old.execute(f'SELECT * FROM "{table}"'):
            columns = {**further, **dict(_converted(table, row, renamed))}
            marks = ", ".join("?" * len(columns))
            quoted = ", ".join(f'"{each}"' for each in columns)
            target.execute(f'INSERT INTO "{into}" ({quoted}) VALUES ({marks})', tuple(columns.values()))
            count += 1
    target.execute("COMMIT")
    broken = target.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise SettingsError(f"{len(broken)} rows of the old database refer to rows that it does not have")
    return count


def _converted(table: str, row: sqlite3.Row, renamed: Renamed) -> Iterator[tuple[str, Any]]:
    """Columns of a row under their new names, with their values."""
    for column in row.keys():  # noqa: SIM118 # iterating a row gives its values
        new = renamed["columns"].get(f"{table}.{column}", column)
        if new:
            yield new, _value(table, column, row[column], renamed)


def _value(table: str, column: str, value: Any, renamed: Renamed) -> Any:
    if not isinstance(value, str):
        return value
    if (table, column) in _VALUES:
        return renamed.values(_VALUES[table, column]).get(value, value)
    if table == "measures":
        for old, new in renamed["metrics"].items():
            value = value.replace(f'"{old}"', f'"{new}"')
    if value[:1] not in ("{", "["):
        return value
    try:
        document = json.loads(value)
    except ValueError:
        return value
    convert = _JSON.get((table, column))
    if convert is not None:
        document = convert(document, renamed)
    return json.dumps(renamed_reasons(document, renamed), ensure_ascii=False)
