"""Splits the output of one `qconf` with many switches, if only hosts' places changed: the list of execution hosts,
queues and host groups, which are all that changes when a worker joins or leaves.

Everything else of the output must stand as before, each stretch at one place only, and the text in between must be
possible output of its switches: a list of names, or exactly the requested objects. Otherwise nothing is split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autoscaler.sge.membership import split_objects
from autoscaler.sge.qconf import read_attributes

_HOSTS = "-sel"
_OBJECTS = {"-sq": "qname", "-shgrp": "group_name"}
"""Switches, and the first attribute of their output."""
# `qconf -sel` prints a name a line; no line of `qconf -sc`, which stands before it, is a single word.
_NAMES = re.compile(rb"(?:\S+\n)*")


class Shown(NamedTuple):
    """The output of some switches of qconf, and its meaning: '' for a list that is empty."""

    switches: tuple[str, ...]
    printed: bytes
    text: str


def split_output(before: Sequence[Shown], now: bytes) -> list[Shown] | None:
    """The present output of each of these switches, if all of them together print `now`; None: that is not certain."""
    fixed, moving = _stretches(before)
    if not now.startswith(fixed[0]):
        return None
    at, found = len(fixed[0]), dict[tuple[str, ...], Shown]()
    for part, following in zip(moving, fixed[1:], strict=True):
        ends = list(_places(now, following, at)) if following else [len(now)] * (part is moving[-1])
        if len(ends) != 1:
            return None
        text = now[at : ends[0]].decode("utf-8", "replace")
        if not _may_print(part, text):
            return None
        found[part.switches] = Shown(part.switches, now[at : ends[0]], text)
        at = ends[0] + len(following)
    return [found.get(part.switches, part) for part in before] if at == len(now) else None


def _stretches(before: Sequence[Shown]) -> tuple[list[bytes], list[Shown]]:
    """The stretches that must stand as before, and the parts that may differ, each between two of those."""
    fixed, moving = [b""], list[Shown]()
    for part in before:
        if part.switches[0] == _HOSTS or part.switches[0] in _OBJECTS:
            moving.append(part)
            fixed.append(b"")
        else:
            fixed[-1] += part.printed
    return fixed, moving


def _places(text: bytes, stretch: bytes, begin: int) -> Iterator[int]:
    """Where it begins a line."""
    at = text.find(stretch, begin)
    while at >= 0:
        if at == 0 or text[at - 1 : at] == b"\n":
            yield at
        at = text.find(stretch, at + 1)


def _may_print(before: Shown, text: str) -> bool:
    """Whether its switches may print this: nothing was cut off, and no object came, went, or misses an attribute."""
    if before.switches[0] == _HOSTS:
        return _NAMES.fullmatch(text.encode()) is not None
    first = _OBJECTS[before.switches[0]]
    parts, had = split_objects(text, first), split_objects(before.text, first)
    if "".join(parts) != text or not text.endswith("\n") or text.endswith("\\\n") or len(parts) != len(had):
        return False
    found = [(read_attributes(part), read_attributes(old)) for part, old in zip(parts, had, strict=True)]
    return all(new.keys() == old.keys() and new[first] == old[first] for new, old in found)
