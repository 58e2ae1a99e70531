"""Durations on a command line: `90`, `90s`, `1h30m`, `7d`."""

from __future__ import annotations

import re

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip().lower()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        parts = _PARTS.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is not a duration: write 90s, 30m, 1h30m or 7d", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
