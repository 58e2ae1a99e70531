"""Charts of a comparison as SVG text: made of shapes and text only, so that a page needs no script.

Colours come from the page's style by class, so that light and dark both work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from autoscaler.report.wording import duration
from autoscaler.simulation.comparison import pareto_front
from autoscaler.simulation.results import Document

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 16, 40
PARTS = ("busy", "stranded", "idle", "boot")


def price_and_wait(documents: Sequence[Document]) -> str:
    """Each policy by its price and mean wait, with its number in the table; a line joins those that no other one beats
    in both.
    """
    points = [(document["price"], document["wait_s"]["mean"], document["policy"]) for document in documents]
    x_axis = Axis(0.0, _round_up(max(price for price, _, _ in points)))
    y_axis = Axis(0.0, _round_up(max(wait for _, wait, _ in points)))
    front = pareto_front(documents)
    by_name = {name: (across(x_axis, price), upwards(y_axis, wait)) for price, wait, name in points}
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (by_name[name] for name in front))
    marks = []
    for number, (name, (x, y)) in enumerate(by_name.items(), start=1):
        kind = "best" if name in front else "other"
        marks.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="11"><title>{escape(name)}</title></circle>')
        marks.append(f'<text class="in" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{number}</text>')
    axes = grid(x_axis, y_axis, f"price in {documents[0]['currency']}", "mean wait")
    return svg("Price and mean wait of each policy", axes, f'<polyline class="front" points="{line}"/>', *marks)


def where_money_goes(documents: Sequence[Document]) -> str:
    """A bar a policy: what was paid for busy slots, free slots beside jobs, idle workers and booting."""
    most = max(_workers_price(document) for document in documents) or 1.0
    height = 26 * len(documents) + 10
    left, width = 230, WIDTH - 230 - 90
    rows = []
    for number, document in enumerate(documents):
        y, x = 8 + 26 * number, float(left)
        rows.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(_short(document["policy"]))}</text>')
        for part in PARTS:
            share = width * document["price_parts"][part] / most
            label = f"{document['policy']}: {part} {document['price_parts'][part]:,.2f}"
            rows.append(
                f'<rect class="{part}" x="{x:.1f}" y="{y}" width="{share:.1f}" height="18"><title>{escape(label)}'
                "</title></rect>"
            )
            x += share
        rows.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{_workers_price(document):,.2f}</text>')
    return svg("What was paid for, by policy", *rows, height=height)


def _workers_price(document: Document) -> float:
    """Without hosts of one's own, whose price a trial adds."""
    return float(document["workers_price"] if "workers_price" in document else document["price"])


def over_time(document: Document) -> str:
    """Waiting tasks and workers over time, each with its own scale."""
    series, height = document["series"], 200
    if not series["at_s"]:
        return ""
    end = series["at_s"][-1] or 1
    parts = []
    for name, side in (("waiting", "left"), ("workers", "right")):
        most = _round_up(max(series[name]))
        points = " ".join(
            f"{_LEFT + (WIDTH - 2 * _LEFT) * at / end:.1f},{height - 30 - (height - 50) * value / most:.1f}"
            for at, value in zip(series["at_s"], series[name], strict=True)
        )
        beside, anchor = (_LEFT - 6, "end") if side == "left" else (WIDTH - _LEFT + 6, "start")
        parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(f'<text class="{name}" x="{beside}" y="24" text-anchor="{anchor}">{most:,.4g}</text>')
        parts.append(f'<text class="{name}" x="{beside}" y="{height - 30}" text-anchor="{anchor}">0</text>')
    parts.append(f'<text class="waiting" x="{_LEFT}" y="12">waiting tasks</text>')
    parts.append(f'<text class="workers" x="{WIDTH - _LEFT}" y="12" text-anchor="end">workers</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + (WIDTH - 2 * _LEFT) * share
        parts.append(f'<text x="{x:.0f}" y="{height - 10}" text-anchor="middle">{_moment(end * share)}</text>')
    return svg(f"Waiting tasks and workers over time: {document['policy']}", *parts, height=height)


def _moment(seconds: float) -> str:
    return "start" if not seconds else f"day {seconds / 86_400:.1f}" if seconds > 2 * 86_400 else duration(seconds)


@dataclass(frozen=True, slots=True)
class Axis:
    """From one value to another."""

    low: float
    high: float
    steps: int = 4

    @property
    def rounded(self) -> Axis:
        """With ends that are multiples of a round step."""
        step = _round_up((self.high - self.low) / 5)
        first, last = math.floor(self.low / step), math.ceil(self.high / step)
        return Axis(first * step, last * step, max(1, last - first))


def across(axis: Axis, value: float) -> float:
    """Where a value is on the horizontal axis."""
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value - axis.low) / (axis.high - axis.low)


def upwards(axis: Axis, value: float) -> float:
    """Where a value is on the vertical axis."""
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - axis.low) / (axis.high - axis.low)


def grid(x_axis: Axis, y_axis: Axis, x_unit: str, y_name: str) -> str:
    """Lines and labels of both axes; the vertical one is of durations."""
    parts = []
    for step in range(y_axis.steps + 1):
        value = y_axis.low + (y_axis.high - y_axis.low) * step / y_axis.steps
        y = upwards(y_axis, value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{duration(value)}</text>')
    for step in range(x_axis.steps + 1):
        value = x_axis.low + (x_axis.high - x_axis.low) * step / x_axis.steps
        x = across(x_axis, value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 20}" text-anchor="middle">{value:,.4g}</text>')
    parts.append(f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_unit)}</text>')
    parts.append(f'<text x="{_LEFT}" y="12">{escape(y_name)}</text>')
    return "".join(parts)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10 … above a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _short(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:33]}…"


def svg(title: str, *parts: str, height: int = HEIGHT) -> str:
    shown = escape(title)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{shown}"><title>{shown}</title>'
    return f"{head}{''.join(parts)}</svg>"
