"""Shows screens: a live picture on a terminal, plain lines elsewhere. Each new sentence is shown once, in order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoscaler.plain_text import plain
from autoscaler.terminal.screen import HostRow, Screen

_COLOURS = {"busy": "green", "idle": "cyan", "booting": "yellow", "joining": "yellow", "draining": "magenta"}
_SHOWN_SENTENCES = 8


class View(Protocol):
    """Where screens go."""

    def say(self, line: str) -> None:
        """A line of its own, kept."""
        ...

    def show(self, screen: Screen) -> None: ...


@contextlib.contextmanager
def open_view(console: Console, title: str, tasks: int) -> Iterator[View]:
    """A live picture where the console is a terminal, plain lines where it is not."""
    if not console.is_terminal:
        yield PlainView(console, tasks)
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield LiveView(live, title, tasks)


class PlainView:
    """One line for each change."""

    def __init__(self, console: Console, tasks: int) -> None:
        self._console, self._tasks = console, tasks
        self._sentences = 0
        self._counts: tuple[object, ...] = ()
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        self._print(line)

    def show(self, screen: Screen) -> None:
        for record in screen.sentences[self._sentences :]:
            self._print(record.sentence)
        self._sentences = len(screen.sentences)
        counts = (screen.waiting, screen.running, screen.done, tuple((row.name, row.state) for row in screen.hosts))
        if counts != self._counts:
            self._counts = counts
            hosts = ", ".join(_host_words(row) for row in screen.hosts)
            self._print(
                f"  {screen.waiting} wait, {screen.running} run, {screen.done} of {self._tasks} done; {hosts}; "
                f"{screen.price_per_hour:.3f} {screen.currency} an hour, {screen.cost:.6f} so far"
            )

    def _print(self, line: str) -> None:
        self._console.print(
            f"{time.monotonic() - self._began:6.1f}s  {plain(line)}", highlight=False, markup=False, soft_wrap=True
        )


class LiveView:
    """The whole picture, redrawn in place; said lines scroll above it."""

    def __init__(self, live: Live, title: str, tasks: int) -> None:
        self._live, self._title, self._tasks = live, title, tasks

    def say(self, line: str) -> None:
        self._live.console.print(Text(plain(line), style="dim"))

    def show(self, screen: Screen) -> None:
        self._live.update(picture(screen, self._title, self._tasks))


def picture(screen: Screen, title: str, tasks: int) -> RenderableType:
    """Queue, workers with what they cost, and what each pass said."""
    return Panel(
        Group(_queue_line(screen, tasks), "", _host_table(screen), "", *_sentence_lines(screen)),
        title=title,
        subtitle=(
            f"{screen.workers_there} additional workers · {screen.price_per_hour:.3f} {screen.currency} an hour · "
            f"{screen.cost:.6f} so far"
        ),
        box=box.ROUNDED,
        padding=(1, 2),
    )


def _queue_line(screen: Screen, tasks: int) -> RenderableType:
    words = Text.assemble(
        ("queue  ", "bold"),
        (f"{screen.waiting:>3} wait  ", "yellow"),
        (f"{screen.running:>3} run  ", "green"),
        (f"{screen.done:>3} of {tasks} done  ", "cyan"),
    )
    line = Table.grid(padding=(0, 1))
    line.add_row(words, ProgressBar(total=max(tasks, 1), completed=screen.done, width=30))
    return line


def _host_table(screen: Screen) -> Table:
    table = Table("host", "type", "state", "slots", "an hour", "so far", "for", box=None, pad_edge=False)
    for row in screen.hosts:
        table.add_row(
            Text(plain(row.name)),
            Text(plain(row.type)),
            Text(row.state, style=_COLOURS.get(row.state, "")),
            _slots(row),
            "" if row.price_per_hour is None else f"{row.price_per_hour:.3f}",
            "" if row.cost is None else f"{row.cost:.6f}",
            "" if row.since is None else f"{screen.at - row.since:.0f}s",
        )
    return table


def _slots(row: HostRow) -> RenderableType:
    if row.slots is None or row.used is None:
        return ""
    return Text("■" * row.used + "□" * max(0, row.slots - row.used), style="green")


def _sentence_lines(screen: Screen) -> list[RenderableType]:
    newest = screen.sentences[-_SHOWN_SENTENCES:]
    lines = [
        Text.assemble((f"{datetime.fromtimestamp(record.at).astimezone():%H:%M:%S}  ", "dim"), plain(record.sentence))
        for record in newest
    ]
    return [*lines, *([Text("")] * (_SHOWN_SENTENCES - len(lines)))]


def _host_words(row: HostRow) -> str:
    slots = "" if row.slots is None else f" {row.used}/{row.slots}"
    return f"{row.name} ({row.type}) {row.state}{slots}"
