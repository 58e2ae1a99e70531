"""docs/commands.md: every command with its options, from what `--help` says, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import click

_HEAD = """# Commands

<!-- Made by `sge-autoscaler config docs`; change the help of a command in autoscaler/commands/ instead. -->

`sge-autoscaler COMMAND --help` says more. `--version` and `--config` come before the command.

"""
_EXIT_CODES = {
    0: "done",
    1: "failed: an action failed or was refused, you may not do it, `doctor` found something, `init` left something "
    "missing",
    2: "usage or settings",
    3: "the object that was named does not exist",
    4: "Grid Engine or the provider could not be observed, or the autoscaler did not answer; nothing was done",
    5: "another autoscaler serves this cell",
    6: "`stop`: all listed workers have ended, but a machine that was ordered was in no listing for "
    "`CP_CAP_AUTOSCALE_ORDER_GRACE` and may still come; it is named",
    7: "the state cannot be kept: its disk is full, read-only or broken, or its file is damaged or was replaced; the "
    "unit starts the service again",
    130: "Ctrl-C",
}


def commands_page(root: click.Group) -> str:
    """The page for the commands of this group, in Markdown."""
    rows = "".join(f"{_row(name, command)}\n" for name, command in all_commands(root))
    codes = "".join(f"| {code} | {words} |\n" for code, words in _EXIT_CODES.items())
    return f"{_HEAD}{rows}\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}"


def all_commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its full name; of a group without a command of its own its commands."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if command is None:
            continue
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield above + name, command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{above}{name} ")


def _row(name: str, command: click.Command) -> str:
    found = (one for parameter in command.params if isinstance(parameter, click.Option) for one in parameter.opts)
    options = " ".join(f"`{option}`" for option in found if option.startswith("--"))
    return f"- `{name}` {options}: {command.get_short_help_str(1000)}".replace(" :", ":")
