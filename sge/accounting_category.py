"""The `category` field of accounting: what a job asked for, in the scheduler's words (`-l h_rt=3600 -pe mpi 8`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FIELD = 39
"""Place of the field between colons (accounting(5))."""
_INPUT_WAIT = re.compile(r"\d+(?:\.\d+)?")
"""`iow`, the field behind it: `0.000000`, `0`."""
_PART = re.compile(r"NONE|\d+\.(?!\d+$)[^\s,=]+")
"""`pe_taskid`, the one behind that: `NONE`, `1.host`."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What a category says of its jobs."""

    hard: tuple[tuple[str, str], ...] = ()
    """Hard requests, sorted by name."""
    pe: str = ""
    """Its parallel environment; '': none."""
    queues: tuple[str, ...] = ()
    project: str = ""


def fields_of(line: str) -> list[str]:
    """The fields of a line of accounting. Durations in the category hold colons, too: they part no fields. A number
    behind one may belong to it (`1:30:00`) or be the next field (`:0:`), so the category ends where both fields that
    follow it are.
    """
    words = line.split(":")
    if len(words) <= _FIELD or not words[_FIELD].startswith("-"):
        return words
    end = _FIELD + 1
    while end < len(words) and not _ends_category(words[end : end + 2]):
        end += 1
    return [*words[:_FIELD], ":".join(words[_FIELD:end]), *words[end:]]


def _ends_category(words: Sequence[str]) -> bool:
    return len(words) == 2 and bool(_INPUT_WAIT.fullmatch(words[0]) and _PART.fullmatch(words[1]))


def read_category(text: str) -> Requests:
    """The requests of a category; unknown options are passed over. `text`: '' or 'NONE' for a job that asks nothing."""
    hard: dict[str, str] = {}
    pe, project = "", ""
    queues: tuple[str, ...] = ()
    for option, values in _options(text.split()):
        match option, values:
            case "-l", [first, *_]:
                pairs = (part.partition("=") for part in first.split(",") if part)
                hard |= {name: value if sign else "TRUE" for name, sign, value in pairs}
            case "-pe", [name, *_]:
                pe = name
            case "-q", [names, *_]:
                queues = tuple(names.split(","))
            case "-P", [name, *_]:
                project = name
            case _:
                pass  # access lists, reservations …: they say where a job may run, not how much it takes
    return Requests(tuple(sorted(hard.items())), pe, queues, project)


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option with what follows it."""
    option, values = "", list[str]()
    for word in words:
        if word.startswith("-"):
            if option:
                yield option, values
            option, values = word, []
        else:
            values.append(word)
    if option:
        yield option, values
