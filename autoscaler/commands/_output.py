"""How commands print: control characters in texts of others are escaped, and `--json` prints JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from autoscaler.plain_text import plain, plain_json, plain_lines
from autoscaler.report import SCHEMA

if TYPE_CHECKING:
    from autoscaler.report.blocks import Block

AT_ONCE = 1 << 16
"""Characters of JSON that are printed at a time."""


def _alone(context: click.Context, option: click.Parameter, given: bool) -> bool:
    """One document is printed. Called for both options, so the second one finds the first."""
    others = {"as_json", "as_csv"} - {option.name}
    if given and any(context.params.get(name) for name in others):
        raise click.UsageError("give --csv or --json, not both")
    return given


json_option = click.option("--json", "as_json", is_flag=True, callback=_alone, help="Print JSON.")
csv_option = partial(click.option, "--csv", "as_csv", is_flag=True, callback=_alone)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one or several lines. Pass texts of others through `plain`, which escapes newlines."""
    click.echo(plain_lines(str(text)), err=err)


def print_json(document: Mapping[str, Any]) -> None:
    """Values that are iterators are printed as lists, item by item: a long list need not be in memory."""
    waiting, size = [], 0
    for piece in _pieces(document):
        waiting.append(plain_json(piece))
        size += len(piece)
        if size > AT_ONCE:
            click.echo("".join(waiting), nl=False)
            waiting, size = [], 0
    click.echo("".join(waiting))


def _pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """The text that `json.dumps` would make with an indentation of 2."""
    before = "{"
    for name, value in document.items():
        yield f"{before}\n  {json.dumps(name)}: "
        yield from _listed(value) if isinstance(value, Iterator) else (_indented(value, 2),)
        before = ","
    yield "\n}" if document else "{}"


def _listed(values: Iterator[Any]) -> Iterator[str]:
    before = "["
    for value in values:
        yield f"{before}\n    {_indented(value, 4)}"
        before = ","
    yield "[]" if before == "[" else "\n  ]"


def _indented(value: Any, spaces: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + " " * spaces)


def print_document(document: Mapping[str, Any], blocks: Callable[[], Iterable[Block]], *, as_json: bool) -> None:
    """A document as JSON, or for people as the blocks made of it."""
    if as_json:
        print_json(document)
    else:
        from autoscaler.report.blocks import print_blocks

        print_blocks(blocks())


def print_result(message: str, *, as_json: bool, done: bool = True, **facts: object) -> None:
    """Print the result of a command, as a sentence or as an object with it. `done`: whether anything changed. `facts`:
    the values in the sentence.
    """
    if as_json:
        print_json({"schema": SCHEMA, "done": done, "message": message, **facts})
    else:
        echo(plain(message))


def print_progress(message: str, *, as_json: bool, **facts: object) -> None:
    """Print the progress of a command: a line, or with `--json` an object in a line."""
    if as_json:
        document = {"schema": SCHEMA, "message": message, **facts}
        echo(plain_json(json.dumps(document, ensure_ascii=False, default=str)))
    else:
        echo(plain(message))
