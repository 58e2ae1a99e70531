"""How commands print: what others wrote never reaches the terminal as a command to it."""

from __future__ import annotations

import click

from autoscaler.plain_text import plain_lines


def echo(text: str = "", *, err: bool = False) -> None:
    """One or several lines; of what may hold a line's end of somebody else's, give `plain` text."""
    click.echo(plain_lines(str(text)), err=err)
