"""A sweep as tables for a terminal, as CSV, and as lines of a settings file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

from autoscaler.report.blocks import Block
from autoscaler.report.wording import duration
from autoscaler.simulation.sweep.dispatch import Spread
from autoscaler.simulation.sweep.intervals import Interval
from autoscaler.simulation.sweep.points import Point, title_of
from autoscaler.simulation.sweep.summary import Outcome, Summary, seconds, sentences_of, share

PREFIX = "CP_CAP_AUTOSCALE_"


def sweep_blocks(summary: Summary, spent: Spread, assumptions: Sequence[str]) -> Iterator[Block]:
    """Today, the Pareto front, what they say in words, and what they rest on."""
    if summary.chosen_on:
        columns, rows = front_table(summary)
        yield Block("Pareto front of price and mean wait", columns, rows, front_notes(summary))
    yield Block("In short", lines=[*sentences_of(summary), *remarks(summary, spent)])
    yield Block("This rests on", lines=[f"- {each}" for each in assumptions])


def front_table(summary: Summary) -> tuple[tuple[str, ...], list[list[str]]]:
    """Columns and rows of today and the front."""
    names = settings_of(summary)
    judged = ("price, judged", "wait, judged") if summary.judged_on else ()
    tried = (name.removeprefix(PREFIX) for name in names)
    columns = ("", *tried, f"price ({summary.currency})", "of today's", "mean wait", "change", *judged)
    rows = []
    for number in dict.fromkeys((0, *summary.front)):
        outcome, point = summary.chosen_on[number], summary.points[number]
        mark = "today" if not number else "chosen" if number == summary.chosen else ""
        row = [mark, *(point.get(name, "") for name in names), f"{outcome.price.mean:,.2f}"]
        row += _beside_today(outcome) if number else ["1", duration(outcome.wait.mean), ""]
        if judged:
            there = summary.judged_on.get(number)
            row += ["", ""] if there is None or not number else [share(there.ratio), seconds(there.wait_change)]
        rows.append(row)
    return columns, rows


def _beside_today(outcome: Outcome) -> list[str]:
    return [share(outcome.ratio), duration(outcome.wait.mean), seconds(outcome.wait_change)]


def front_notes(summary: Summary) -> list[str]:
    """How to read the table."""
    return [
        "No other point is both cheaper and quicker than these. Prices: of a window, on average. In parentheses: 95 % "
        "intervals for windows like these.",
        *(["Judged: the same on jobs that points were not chosen on."] if summary.judged_on else []),
    ]


def settings_of(summary: Summary) -> list[str]:
    """The names of all settings that were tried."""
    return list(dict.fromkeys(name for point in summary.points for name in point))


def remarks(summary: Summary, spent: Spread) -> list[str]:
    """What the figures of points do not show: those without, failed runs, and how well the workers were used."""
    said = []
    reasons: dict[str, int] = {}
    for reason in summary.excluded.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    said += [f"{count:,} points are left out: {reason}." for reason, count in reasons.items()]
    said += [f"{len(runs):,} runs failed: {message}." for message, runs in spent.failed.items()]
    if spent.finished and spent.worker_s:
        said.append(
            f"{spent.finished:,} runs took {duration(spent.run_s)} on up to {spent.most_workers} workers, within "
            f"{duration(spent.wall_s)}; workers were busy with them {min(1.0, spent.run_s / spent.worker_s):.0%} of "
            "their time."
        )
    return said


def csv_text(summary: Summary) -> str:
    """A line for each point."""
    names, out = settings_of(summary), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = ("price", "price_of_today", "mean_wait_s", "mean_wait_change_s")
    writer.writerow(
        [
            "point", *names, "currency", "on_front", "chosen", "excluded",
            *(f"{part}{name}{end}" for part in ("", "judged_") for name in figures for end in ("", "_low", "_high")),
        ]
    )  # fmt: skip
    for number, point in enumerate(summary.points):
        writer.writerow(
            [
                title_of(point),
                *(point.get(name, "") for name in names),
                summary.currency,
                number in summary.front,
                number == summary.chosen,
                summary.excluded.get(number, ""),
                *_cells(summary.chosen_on.get(number)),
                *_cells(summary.judged_on.get(number)),
            ]
        )
    return out.getvalue()


def _cells(outcome: Outcome | None) -> list[float | None]:
    intervals: list[Interval | None] = (
        [None] * 4 if outcome is None else [outcome.price, outcome.ratio, outcome.wait, outcome.wait_change]
    )
    return [end for one in intervals for end in ((None,) * 3 if one is None else (one.mean, one.low, one.high))]


def settings_text(point: Point, said: Sequence[str]) -> str:
    """Lines for the settings file. `said`: why, as comments."""
    comments = "".join(f"# {line}\n" for line in said)
    lines = "".join(f"{name} = {_toml(value)}\n" for name, value in point.items())
    return f"{comments}# Put these lines in the place of those with the same names in the settings file.\n{lines}"


def _toml(value: str) -> str:
    try:
        float(value)
    except ValueError:
        return value if value in ("true", "false") else json.dumps(value, ensure_ascii=False)
    return value if value.lower() not in ("nan", "inf", "-inf", "infinity") else json.dumps(value)
