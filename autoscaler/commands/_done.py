"""What a command says that it did: a sentence, or with `--json` an object with it."""

from __future__ import annotations

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._observation import print_json
from autoscaler.plain_text import plain
from autoscaler.report import SCHEMA

says_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def tell_done(message: str, *, as_json: bool, done: bool = True, **facts: object) -> None:
    """`done`: whether anything changed. `facts`: what the sentence rests on."""
    if as_json:
        print_json({"schema": SCHEMA, "done": done, "message": message, **facts})
    else:
        echo(plain(message))
