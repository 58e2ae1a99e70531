"""A sweep as one self-contained HTML page: no script, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from autoscaler.simulation import charts
from autoscaler.simulation.sweep.dispatch import Spread
from autoscaler.simulation.sweep.points import title_of
from autoscaler.simulation.sweep.summary import Summary, effects_of, sentences_of
from autoscaler.simulation.sweep.tables import PREFIX, front_notes, front_table, remarks
from autoscaler.simulation.templates import rendered


def sweep_page(summary: Summary, spent: Spread, assumptions: Sequence[str], windows: Sequence[str]) -> str:
    """The whole page. All texts are escaped."""
    columns, rows = front_table(summary) if summary.chosen_on else ((), [])
    return rendered(
        "sweep.html.j2",
        sentences=sentences_of(summary),
        remarks=remarks(summary, spent),
        notes=front_notes(summary),
        columns=columns,
        rows=rows,
        front=front_chart(summary) if summary.chosen_on else "",
        effects={name.removeprefix(PREFIX): values for name, values in effects_of(summary).items()},
        windows=windows,
        assumptions=assumptions,
    )


def front_chart(summary: Summary) -> str:
    """Every point by its price and mean wait; those on the front with their intervals, joined by a line."""
    outcomes = summary.chosen_on
    shown = {0, *summary.front}
    of_front = [one.ratio for number, one in outcomes.items() if number in shown]
    least = min(one.mean if one.low is None else one.low for one in of_front)
    most = max(one.mean if one.high is None else one.high for one in of_front)
    most = max(most, *(one.ratio.mean for one in outcomes.values()))
    x = charts.Axis(max(0.0, least), most).rounded
    y = charts.Axis(0.0, max(one.wait.mean for one in outcomes.values())).rounded
    parts = [charts.grid(x, y, "of today's price", "mean wait")]
    for number, one in sorted(outcomes.items(), key=lambda item: (item[0] in shown, item[0])):
        at = charts.across(x, one.ratio.mean), charts.upwards(y, one.wait.mean)
        if number in shown and one.ratio.low is not None and one.ratio.high is not None:
            ends = charts.across(x, max(x.low, one.ratio.low)), charts.across(x, one.ratio.high)
            parts.append(
                f'<line class="range" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{at[1]:.1f}" y2="{at[1]:.1f}"/>'
            )
        kind = "today" if not number else "best" if number in shown else "other"
        size = 9 if number == summary.chosen else 6 if number in shown else 4
        parts.append(
            f'<circle class="{kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{size}">'
            f"<title>{escape(title_of(summary.points[number]))}</title></circle>"
        )
    line = " ".join(
        f"{charts.across(x, one.ratio.mean):.1f},{charts.upwards(y, one.wait.mean):.1f}"
        for one in (outcomes[number] for number in summary.front)
    )
    parts.append(f'<polyline class="front" points="{line}"/>')
    return charts.svg("Price and mean wait of each point", *parts)
