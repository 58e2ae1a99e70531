"""The `category` field of accounting: what a job asked for, in the scheduler's words (`-l h_rt=3600 -pe mpi 8`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FIELD = 39
"""Place of the field between colons (accounting(5))."""
_REST_OF_TIME = re.compile(r"\d{1,2}(?:$|[, ].*)")
"""What follows a colon inside a duration: `00`, `00,mem=4G -pe mpi 4`."""


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
    """The fields of a line of accounting. Durations in the category hold colons, too: they part no fields."""
    words = line.split(":")
    if len(words) <= _FIELD or not words[_FIELD].startswith("-"):
        return words
    end = _FIELD + 1
    while end < len(words) and _REST_OF_TIME.fullmatch(words[end]) is not None:
        end += 1
    return [*words[:_FIELD], ":".join(words[_FIELD:end]), *words[end:]]


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
