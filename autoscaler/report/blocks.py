"""Output for people: lines, and tables of text cells. Printed without any library.

The running autoscaler sends blocks and a command prints them, so that the command starts fast.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

from autoscaler.plain_text import plain

GAP = "  "
PIPE = 200
"""Columns if the output is not a terminal."""
NARROWEST = 8
"""Columns that a cell keeps, however narrow the terminal is."""


class Block(NamedTuple):
    """A table with lines after it; each may be missing."""

    title: str = ""
    columns: Sequence[str] = ()
    """Heads; if all are '', the table has none."""
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()


def print_blocks(blocks: Iterable[Block], out: TextIO | None = None) -> None:
    """Print them as wide as the terminal, or wide enough for a pipe."""
    stream = sys.stdout if out is None else out
    shown = stream.isatty()
    width = shutil.get_terminal_size().columns if shown else PIPE
    for block in blocks:
        for line in _block(block, width, bold=shown):
            stream.write(f"{_encodable(line, stream)}\n")


def _encodable(line: str, stream: TextIO) -> str:
    """The line in the encoding of the terminal; other characters are escaped."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _block(block: Block, width: int, *, bold: bool) -> Iterator[str]:
    if block.title:
        yield ""
        yield plain(block.title)
    if block.rows:
        yield from _table([[plain(cell) for cell in row] for row in (block.columns, *block.rows)], width, bold=bold)
    yield from map(plain, block.lines)


def _table(rows: list[list[str]], width: int, *, bold: bool) -> Iterator[str]:
    """Lines of a table. The first row holds the heads; a cell that does not fit continues on the next line."""
    count = max(map(len, rows))
    rows = [row + [""] * (count - len(row)) for row in rows]
    widths = _fitting([max(map(_wide, column)) for column in zip(*rows, strict=True)], width)
    for number, row in enumerate(rows):
        if number == 0 and not any(row):
            continue
        cells = [_folded(cell, most) for cell, most in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells))):
            parts = (cell[at] if at < len(cell) else "" for cell in cells)
            padded = (part + " " * (most - _wide(part)) for part, most in zip(parts, widths, strict=True))
            line = GAP.join(padded).rstrip()
            yield f"\x1b[1m{line}\x1b[0m" if bold and number == 0 else line


def _fitting(widths: list[int], width: int) -> list[int]:
    """Column widths that fit together; the widest columns are reduced first."""
    left = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > left:
        widest = max(widths)
        if widest <= NARROWEST:
            break
        next_to = max((each for each in widths if each < widest), default=NARROWEST)
        equal = widths.count(widest)
        target = max(next_to, widest - -(-(sum(widths) - left) // equal), NARROWEST)
        widths = [target if each == widest else each for each in widths]
    return widths


def _folded(cell: str, most: int) -> list[str]:
    """The lines of a cell, broken between words if possible."""
    if _wide(cell) <= most:
        return [cell]
    lines, line = [], ""
    for word in cell.split(" "):
        joined = f"{line} {word}" if line else word
        if _wide(joined) <= most:
            line = joined
            continue
        if line:
            lines.append(line)
        *whole, line = _pieces(word, most)
        lines += whole
    return [*lines, line]


def _pieces(word: str, most: int) -> list[str]:
    pieces, piece = [], ""
    for letter in word:
        if piece and _wide(piece + letter) > most:
            pieces.append(piece)
            piece = ""
        piece += letter
    return [*pieces, piece]


def _wide(text: str) -> int:
    """Terminal columns of a text."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
