"""Durations as people write them: `90`, `90s`, `10m`, `1h30m`, `7d`; a number alone is seconds."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_NUMBER = re.compile(r"\d+(\.\d+)?")
HOW = "write 90s, 30m, 1h30m or 7d"


def seconds_of(text: str) -> float | None:
    """Seconds; None: it is no duration."""
    words = text.strip().lower()
    if _NUMBER.fullmatch(words):
        return float(words)
    parts = _PARTS.findall(words)
    if not parts or "".join(number + unit for number, unit in parts) != words:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
