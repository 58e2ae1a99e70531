"""The points of a sweep: settings of today with some values changed, by grid or by seeded random search."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping

from autoscaler.simulation.sweep.sweep_file import Range, Sweep, Values

Point = Mapping[str, str]
"""The value of each setting that is tried, as a text of the environment. Empty: the settings of today."""
TODAY: Point = {}
_TRIES = 20
"""Draws for each point of a random search until a new one is found."""


def points_of(sweep: Sweep) -> list[Point]:
    """Today first, then all others. Equal files give equal points."""
    return [TODAY, *(_random(sweep) if sweep.search == "random" else _grid(sweep.settings))]


def _grid(settings: Mapping[str, Values]) -> list[Point]:
    lists = [values for values in settings.values() if not isinstance(values, Range)]
    return [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*lists)]


def _random(sweep: Sweep) -> list[Point]:
    """Different points: fewer than asked for where there are no more."""
    chance = random.Random(sweep.seed)
    found: dict[tuple[str, ...], Point] = {}
    for _ in range(_TRIES * sweep.points):
        point = {name: _drawn(values, chance) for name, values in sweep.settings.items()}
        found.setdefault(tuple(point.values()), point)
        if len(found) == sweep.points:
            break
    return list(found.values())


def _drawn(values: Values, chance: random.Random) -> str:
    if not isinstance(values, Range):
        return chance.choice(values)
    if values.log:
        value = math.exp(chance.uniform(math.log(values.low), math.log(values.high)))
    else:
        value = chance.uniform(values.low, values.high)
    return str(round(value)) if values.is_whole else f"{value:.4g}"


def title_of(point: Point) -> str:
    """As `simulate --compare` takes it."""
    return "+".join(f"{name}={value}" for name, value in point.items()) or "today"
