"""Prints manual pages as JSON (name → roff), from the texts of `--help` and of the reference of settings.

It runs in the Python that has the program, so it imports nothing of this folder. Its arguments are the pages of
section 7, which that of the program names.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version

import click

from autoscaler.commands.main import NAME, cli
from autoscaler.settings.pages import sample_file

SECTIONS = {"1": "User Commands", "5": "File Formats"}


def pages() -> dict[str, str]:
    found = {}
    also = [name.removesuffix(".7") for name in sys.argv[1:]]
    for command, context in _commands(cli, click.Context(cli, info_name=NAME)):
        name = context.command_path.replace(" ", "-")
        found[f"{name}.1"] = _page(name, "1", command.get_short_help_str(200), _of_command(command, context))
    for name in also:
        found[f"{NAME}.1"] += f".BR {_text(name)} (7)\n"
    about = "settings of sge-autoscaler, with their defaults"
    body = [".SH DESCRIPTION", ".nf", _text(sample_file()), ".fi", *_see_also(NAME)]
    return found | {f"{NAME}.toml.5": _page(f"{NAME}.toml", "5", about, body)}


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        child = command.get_command(context, name) if isinstance(command, click.Group) else None
        if child is not None and not child.hidden:
            yield from _commands(child, click.Context(child, info_name=name, parent=context))


def _of_command(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [".SH SYNOPSIS", f".B {_text(context.command_path)}", _text(usage), ".SH DESCRIPTION"]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += [".PP", _text(paragraph)]
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    if options := [record for record in records if record is not None]:
        lines.append(".SH OPTIONS")
        for name, about in options:
            lines += [".TP", f".B {_text(name)}", _text(about or "")]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                lines += [".TP", f".B {_text(name)}", _text(child.get_short_help_str(200))]
    above = context.parent.command_path if context.parent else f"{NAME}.toml"
    return lines + _see_also(above.replace(" ", "-"))


def _see_also(name: str) -> list[str]:
    return [".SH SEE ALSO", f".BR {_text(name)} ({5 if name.endswith('.toml') else 1})"]


def _page(name: str, section: str, about: str, body: list[str]) -> str:
    program = f"{NAME} {version(NAME)}"
    head = f'.TH "{_text(name).upper()}" "{section}" "" "{_text(program)}" "{SECTIONS[section]}"'
    return "\n".join((head, ".SH NAME", f"{_text(name)} \\- {_text(about or 'a command')}", *body, ""))


def _text(plain: str) -> str:
    """Text as roff shows it: no line of it is a request."""
    escaped = plain.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


if __name__ == "__main__":
    json.dump(pages(), sys.stdout)
