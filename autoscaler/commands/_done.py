"""What a command says that it did: a sentence, or with `--json` an object with it."""

from __future__ import annotations

import json

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._observation import print_json
from autoscaler.plain_text import plain, plain_json
from autoscaler.report import SCHEMA

says_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_result(message: str, *, as_json: bool, done: bool = True, **facts: object) -> None:
    """`done`: whether anything changed. `facts`: what the sentence rests on."""
    if as_json:
        print_json({"schema": SCHEMA, "done": done, "message": message, **facts})
    else:
        echo(plain(message))


def print_progress(message: str, *, as_json: bool, **facts: object) -> None:
    """What a command says on its way: a line, with `--json` an object in a line."""
    if as_json:
        document = {"schema": SCHEMA, "message": message, **facts}
        echo(plain_json(json.dumps(document, ensure_ascii=False, default=str)))
    else:
        echo(plain(message))
