"""Removes owners' names from sentences of reasons.

Where a name stands follows from the table of reasons: a sentence that is worded anew, or added, hides its owner, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import pairwise

from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.report.reasons.table import REASONS

_OWNER = "{owner}"
_OTHER_FACT = re.compile(r"\{(?!owner\})\w+\}")
_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_READ_IN_TURNS = re.compile(r"(?<=\bjobs of )[^;:]+?(?= are (?:too long|huge)\b)")
"""The names of owners whose jobs take long to read (`sge/shared_listing.py`, `sge/detail_lookups.py`)."""
_CELL = Budget(Whose.CELL, "", 0.0).owner
"""The cell is nobody's name."""


def without_owners(sentence: str, own: Collection[str] = ()) -> str:
    """The same with `a user`, `a project` or `one owner` for all owners but `own`."""

    def hidden(found: re.Match[str]) -> str:
        name = found[0]
        if name in own or name == _CELL:
            return name
        kind = name.partition(" ")[0]
        return f"a {kind}" if kind in (Whose.USER, Whose.PROJECT) and kind != name else "one owner"

    return _pattern().sub(hidden, _READ_IN_TURNS.sub("some owners", sentence))


@cache
def _pattern() -> re.Pattern[str]:
    """Matches the names alone, wherever a template has one. What is longer comes first: the name in `cy are spent` does
    not end before `spent`.
    """
    templates = [words for row in REASONS.values() for words in (row.sentence, row.short) if words and _OWNER in words]
    places = {place for template in templates for place in _places(template)}
    return re.compile("|".join(sorted(places, key=len, reverse=True)))


def _places(template: str) -> Iterator[str]:
    for words in (_OPTIONAL.sub("", template), _OPTIONAL.sub(r"\1", template)):
        for part in _OTHER_FACT.split(words):
            for before, after in pairwise(part.split(_OWNER)):
                yield _before(before) + (f"(?={re.escape(after)})" if after else "(?=;|$)")


def _before(words: str) -> str:
    """What precedes the name, and the name. A sentence that begins with it may follow another."""
    if not words:
        return r"(?:^|(?<=[;:] )|(?<=\())[^\s;]+"
    one = words.replace(" jobs ", " job ", 1)  # after a count of 1
    preceded = "|".join(f"(?<={re.escape(each)})" for each in dict.fromkeys((words, one)))
    return f"(?:{preceded})[^;]+?"
