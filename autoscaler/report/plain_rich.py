"""Tables and a console that write out control characters of what others wrote."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from autoscaler.plain_text import plain


class PlainTable(Table):
    """Of cells that others may have written."""

    def add_row(self, *cells: Any, **more: Any) -> None:
        super().add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in cells), **more)


class PlainConsole(Console):
    """Prints a string as one line, whatever is in it; our own first line's end stays."""

    def print(self, *objects: Any, **more: Any) -> None:
        super().print(*(_line(each) if isinstance(each, str) else each for each in objects), **more)


def _line(text: str) -> str:
    begin = "\n" if text.startswith("\n") else ""
    return begin + plain(text.removeprefix(begin))
