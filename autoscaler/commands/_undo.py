"""`init --undo`: shows what `init` made, and takes it back after a yes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autoscaler.commands._output import echo, print_json
from autoscaler.errors import GridEngineRefused
from autoscaler.new_folder import write_file
from autoscaler.report import SCHEMA
from autoscaler.sge import undo
from autoscaler.sge.admin import Administrator

LEFT = 1


def made_file(state: Path) -> Path:
    """Where `init` keeps what it made."""
    return state / "init" / "made.json"


def take_back(administrator: Administrator, state: Path, *, yes: bool, as_json: bool) -> int:
    """The exit code: 0 if nothing of it is left."""
    file = made_file(state)
    plans = list(undo.undoing(administrator, undo.read_made(file)))
    if workers := [each.made.name for each in plans if (each.made.kind, each.why) == (undo.GROUP, undo.CHANGED)]:
        problem = f"{', '.join(workers)} has other hosts than `init` gave it: run `sge-autoscaler stop --now` before"
        return _told([], [(each, problem) for each in plans], as_json=as_json)
    if not as_json:
        for line in dict.fromkeys(f"{each.made.kind} {each.made.name}: {_way(each)}" for each in plans):
            echo(line)
    if not plans:
        return _told([], [], as_json=as_json)
    if not (yes or (not as_json and sys.stdin.isatty() and click.confirm("Take it back?"))):
        if not as_json:
            echo("nothing was changed: run it again with --yes", err=True)
        return LEFT
    done: list[undo.Undone] = []
    left = [(each, each.why) for each in plans if each.why]
    for each in (one for one in plans if not one.why):
        if (each.made.kind, each.made.name) in {(other.made.kind, other.made.name) for other, _ in left}:
            continue
        try:
            undo.take_back(administrator, each.made)
            done.append(each)
        except GridEngineRefused as error:
            left.append((each, str(error)))
    if not left:
        write_file(file, b"[]")
    return _told(done, left, as_json=as_json)


def _way(each: undo.Undone) -> str:
    if each.why:
        return f"left alone: {each.why}"
    return "will be made as it was" if each.made.before else "will be deleted"


def _told(done: list[undo.Undone], left: list[tuple[undo.Undone, str]], *, as_json: bool) -> int:
    if as_json:
        rows = [{"kind": each.made.kind, "name": each.made.name} for each in done]
        kept = [{"kind": each.made.kind, "name": each.made.name, "why": why} for each, why in left]
        print_json({"schema": SCHEMA, "undone": rows, "left": kept})
    elif not done and not left:
        echo("`init` has made nothing here, or it is gone: nothing to do")
    else:
        for each in done:
            echo(f"taken back: {each.made.kind} {each.made.name}")
        for why in dict.fromkeys(f"{each.made.kind} {each.made.name}: {why}" for each, why in left):
            echo(f"left alone: {why}")
    return LEFT if left else 0
