"""Taking back what `prepare` made: each object that is still as it was made, the last first.

What somebody changed since is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autoscaler.new_folder import write_file
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.complex_table import has_complex, rows_of
from autoscaler.sge.prepare import SCHEDULER_KIND, Difference
from autoscaler.sge.qconf import joined, read_names

GROUP = "host group"
_REPORTED = ("load_values", "processors", "report_variables")
"""What an execution host says of itself."""
CHANGED = "it was changed since"
_NAMED_BY_OTHERS = frozenset({"parallel environment", GROUP, "execution host", "complex"})
"""What Grid Engine does not delete while another object names it."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The flags of `qconf` for one kind of object."""

    listed: str
    shown: str
    deleted: str
    changed: str


_KINDS = {
    "queue": _Kind("-sql", "-sq", "-dq", "-Mq"),
    GROUP: _Kind("-shgrpl", "-shgrp", "-dhgrp", "-Mhgrp"),
    "parallel environment": _Kind("-spl", "-sp", "-dp", "-Mp"),
    "execution host": _Kind("-sel", "-se", "-de", "-Me"),
    "submit host": _Kind("-ss", "", "-ds", ""),
}


@dataclass(frozen=True, slots=True)
class Made:
    """One object that was created or changed."""

    kind: str
    name: str
    before: str
    """'': it was created."""
    after: str
    """As Grid Engine showed it then."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What becomes of one of them."""

    made: Made
    why: str
    """'': it can be taken back; else why it is left alone."""


def remember(administrator: Administrator, difference: Difference, file: Path) -> None:
    """Add to the list in `file` what was just carried out. Raises OSError."""
    made = Made(
        difference.kind,
        difference.name,
        difference.before,
        shown(administrator, difference.kind, difference.name) or "",
    )
    rows = [*map(asdict, read_made(file)), asdict(made)]
    write_file(file, json.dumps(rows, indent=1).encode(), make=True)


def read_made(file: Path) -> list[Made]:
    """The list, oldest first; empty without a file. Raises OSError, ValueError."""
    return [Made(**row) for row in json.loads(file.read_text("utf-8"))] if file.exists() else []


def shown(administrator: Administrator, kind: str, name: str) -> str | None:
    """The object without what hosts report; None: it is not there. Raises GridEngineNotObservable."""
    if kind == "complex":
        return "" if has_complex(administrator.show("-sc"), name) else None
    if kind == SCHEDULER_KIND:
        return joined(administrator.show("-ssconf"))
    flags = _KINDS[kind]
    if name.lower() not in (one.lower() for one in read_names(administrator.show(flags.listed))):
        return None
    return _own(kind, administrator.show(flags.shown, name)) if flags.shown else ""


def undoing(administrator: Administrator, made: Sequence[Made]) -> Iterator[Undone]:
    """What would be done, in the order in which it can be. Raises GridEngineNotObservable."""
    expected: dict[tuple[str, str], str | None] = {}
    left: dict[tuple[str, str], str] = {}
    for each in reversed(made):
        key = (each.kind, each.name)
        there = expected[key] if key in expected else shown(administrator, *key)
        same = there == each.after
        expected[key] = (_own(each.kind, each.before) if each.before else None) if same else there
        if there is None:
            continue
        why = "" if same else CHANGED
        if not why and not each.before and each.kind in _NAMED_BY_OTHERS:
            why = next(
                (f"{' '.join(other)} stays, and names it" for other in left if _names(left[other], each.name)), ""
            )
        if why:
            left[key] = there
        yield Undone(each, why)


def take_back(administrator: Administrator, made: Made) -> None:
    """Delete it, or make it as it was. Raises GridEngineRefused."""
    words: tuple[str, ...]
    if made.kind == "complex":
        left = [row for row in rows_of(administrator.show("-sc")) if row.split()[:1] != [made.name]]
        words, text = ("-Mc",), "\n".join(left) + "\n"
    elif made.kind == SCHEDULER_KIND:
        words, text = ("-Msconf",), made.before
    elif not made.before:
        words, text = (_KINDS[made.kind].deleted, made.name), ""
    else:
        words, text = (_KINDS[made.kind].changed,), _own(made.kind, made.before)
    with objects.as_file(text) as file:
        administrator.configure(*words, *((str(file),) if text else ()))


def _names(text: str, name: str) -> bool:
    """Whether an object, as Grid Engine shows it, has the name of another among its words."""
    return name in re.split(r"[\s,=\[\]]+", text)


def _own(kind: str, text: str) -> str:
    """The attributes that somebody set, in one form."""
    rows = [line.split() for line in joined(text).splitlines() if line.split()]
    kept = (row for row in rows if kind != "execution host" or row[0] not in _REPORTED)
    return "".join(f"{' '.join(row)}\n" for row in kept)
