"""Decisions and events of the running autoscaler as lines, where `top` cannot be shown."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import islice

from rich.console import Console

from autoscaler.plain_text import plain
from autoscaler.terminal.readings import Readings
from autoscaler.terminal.rows import summary_lines


class Lines:
    """Prints each line once, with the seconds since the start. While `paused` it prints nothing, and afterwards the
    rest.
    """

    def __init__(self, console: Console) -> None:
        self.paused = False
        self._console, self._began = console, time.monotonic()
        self._passes = self._events = 0
        self._summary = ""

    def say(self, line: str) -> None:
        self._console.print(
            f"{time.monotonic() - self._began:6.1f}s  {plain(line)}", highlight=False, markup=False, soft_wrap=True
        )

    def show(self, readings: Readings) -> None:
        """Print new decisions and events in their order, then workers, price and demand if they changed."""
        if self.paused:
            return
        news = [(one["at"], one["sentence"]) for one in readings.passes if one["pass"] > self._passes]
        news += [(one["at"], f"  {one['text']}") for one in readings.events if one["id"] > self._events]
        for _, line in sorted(news, key=lambda each: datetime.fromisoformat(each[0])):
            self.say(line)
        self._passes = max((one["pass"] for one in readings.passes), default=self._passes)
        self._events = max((one["id"] for one in readings.events), default=self._events)
        summary = next(islice(summary_lines(readings), 1, None), "")
        if summary not in ("", self._summary):
            self._summary = summary
            self.say(f"  {summary}")
