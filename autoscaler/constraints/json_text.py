"""Parses JSON text. An error names the place inside the document, also if the text is cut short.

Stricter than JSON: a name given twice (the first value would be lost), NaN, and very deep nesting are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from autoscaler.errors import SettingsError

MAX_DEPTH = 64
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


class _Named(dict[str, Any]):
    """An object, with the name that its text gives twice."""

    twice: str | None = None


def read_json(text: str, where: str = "") -> Any:
    """The value that the text stands for. Raises SettingsError: `default_resources[1].select: …`; `where` leads it."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refused)
    except json.JSONDecodeError as error:
        place = below(where, path_at(text, error.pos))
        raise SettingsError(f"{place}: {_why(text, error)} (line {error.lineno}, column {error.colno})") from error
    except RecursionError as error:
        raise SettingsError(f"{where or 'the document'}: it is nested too deeply") from error
    except ValueError as error:
        raise SettingsError(f"{where or 'the document'}: {error}") from error
    _sound(value, where)
    return value


def below(where: str, path: str) -> str:
    """One place under another: `constraints` and `[1].or` are `constraints[1].or`."""
    if not where or not path:
        return where or path or "the document"
    return where + path if path.startswith("[") else f"{where}.{path}"


def path_at(text: str, position: int) -> str:
    """The place in the document for a position in its text: `a.b[2]`."""
    stack: list[str | int | None] = []
    last = ""
    for token in _TOKEN.findall(text[:position]):
        if token == "{":
            stack.append(None)
        elif token == "[":
            stack.append(0)
        elif token in "}]":
            stack[-1:] = []
        elif token == "," and stack:
            at = stack[-1]
            stack[-1] = at + 1 if isinstance(at, int) else None
        elif token == ":" and stack and stack[-1] is None and last.startswith('"'):
            stack[-1] = last[1:-1]
        last = token
    return "".join(_steps(stack)).removeprefix(".")


def _steps(stack: list[str | int | None]) -> Iterator[str]:
    for step in stack:
        if isinstance(step, int):
            yield f"[{step}]"
        elif step is not None:
            yield f".{step}"


def _why(text: str, error: json.JSONDecodeError) -> str:
    if not text[error.pos :].strip() and error.msg != "Extra data":
        return "the text ends inside this: close what is open"
    if error.msg == "Extra data":
        return "text follows after the end: put several values in a list, names and values in an object"
    return f"{error.msg[:1].lower()}{error.msg[1:]}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = _Named(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        value.twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return value


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _sound(value: Any, where: str, path: tuple[str | int, ...] = ()) -> None:
    """Refuse deep nesting and repeated names. The place is built for an error only, to be fast."""
    if len(path) > MAX_DEPTH:
        raise SettingsError(f"{_place(where, path)[:MAX_DEPTH]}…: it is nested too deeply")
    if isinstance(value, _Named) and value.twice is not None:
        raise SettingsError(f"{below(_place(where, path), value.twice)}: it is given twice")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        _sound(part, where, (*path, name))


def _place(where: str, path: tuple[str | int, ...]) -> str:
    for step in path:
        where = below(where, f"[{step}]" if isinstance(step, int) else step)
    return where
