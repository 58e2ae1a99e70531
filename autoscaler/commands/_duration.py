"""Durations on a command line: `90`, `90s`, `1h30m`, `7d`."""

from __future__ import annotations

import click

from autoscaler.durations import HOW, seconds_of


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        seconds = seconds_of(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration: {HOW}", param, ctx)
        return seconds
