"""What the runs of a sweep say: each point beside the settings of today, the Pareto front, the chosen point.

Points are compared with today on the same windows and seeds, prices as the ratio of the two bills. So a window that is
dear for every point makes none of them look dear, and an interval shows how surely a point differs from today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.simulation.comparison import is_comparable
from autoscaler.simulation.results import Document
from autoscaler.simulation.sweep.intervals import Interval, interval_of, ratio_of
from autoscaler.simulation.sweep.points import Point, title_of

Played = Mapping[tuple[int, int, int], Document]
"""Results by point, window and seed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A point over all windows and seeds that every point was played on. Ratios and differences are to today."""

    price: Interval
    """Of a window's jobs."""
    ratio: Interval
    wait: Interval
    """Mean wait of a window's tasks, seconds."""
    wait_change: Interval
    launches: float
    """In a window, on average."""

    @property
    def place(self) -> tuple[float, float]:
        """Price and wait, as points are compared."""
        return self.ratio.mean, self.wait.mean


@dataclass(frozen=True, slots=True)
class Summary:
    """All points by number; 0 is today."""

    points: Sequence[Point]
    chosen_on: Mapping[int, Outcome]
    """Of the windows to choose on; without points that are not comparable."""
    judged_on: Mapping[int, Outcome]
    """Of the other windows: today and the Pareto front."""
    front: Sequence[int]
    """Cheapest first."""
    chosen: int | None
    """The cheapest of the front that waits no longer than `limit`; None: nothing can be compared."""
    limit: float | None
    """Seconds."""
    excluded: Mapping[int, str]
    """Points that are not comparable, with the reason."""
    currency: str = ""
    """Of prices."""

    @property
    def keeps_limit(self) -> bool:
        """Whether the chosen point waits no longer than `limit`, on the windows that it was chosen on."""
        if self.chosen is None or self.limit is None:
            return False
        return self.chosen_on[self.chosen].wait.mean <= self.limit


def outcomes_of(
    played: Played, points: Sequence[int], windows: Sequence[int], seeds: Sequence[int]
) -> tuple[dict[int, Outcome], dict[int, str]]:
    """The outcomes of these points (0 among them), and why others have none."""
    excluded = {point: said for point in points if (said := _not_comparable(point, played)) is not None}
    if 0 in excluded:
        return {}, excluded
    usable = [point for point in points if point not in excluded]
    pairs = [[seed for seed in seeds if all((point, window, seed) in played for point in usable)] for window in windows]
    shared = {window: found for window, found in zip(windows, pairs, strict=True) if found}
    if not shared:
        return {}, excluded
    return {point: _outcome(point, played, shared) for point in usable}, excluded


def _not_comparable(point: int, played: Played) -> str | None:
    documents = [document for (number, *_), document in played.items() if number == point]
    if not documents:
        return "no run of it ended"
    if any(document["unpriced_workers"] for document in documents):
        return "workers have no known price; name a catalogue that has it"
    if not all(is_comparable(document) for document in documents):
        return "some tasks never started: nothing that it may rent runs them, or a limit is reached"
    return None


def _outcome(point: int, played: Played, shared: Mapping[int, Sequence[int]]) -> Outcome:
    pairs = [[(played[point, window, seed], played[0, window, seed]) for seed in shared[window]] for window in shared]
    return Outcome(
        interval_of([[mine["price"] for mine, _ in group] for group in pairs], least=0.0),
        ratio_of([[(mine["price"], today["price"]) for mine, today in group] for group in pairs]),
        interval_of([[_wait(mine) for mine, _ in group] for group in pairs], least=0.0),
        interval_of([[_wait(mine) - _wait(today) for mine, today in group] for group in pairs]),
        interval_of([[float(mine["launches"]) for mine, _ in group] for group in pairs]).mean,
    )


def _wait(document: Document) -> float:
    return float(document["wait_s"]["mean"])


def front_of(outcomes: Mapping[int, Outcome]) -> list[int]:
    """Points that no other one beats in price and wait, cheapest first; of equal ones the first."""
    ordered = sorted(outcomes, key=lambda point: (*outcomes[point].place, point))
    front: list[int] = []
    for point in ordered:
        if not front or outcomes[point].wait.mean < outcomes[front[-1]].wait.mean:
            front.append(point)
    return front


def choose(outcomes: Mapping[int, Outcome], front: Sequence[int], limit: float) -> int | None:
    """The cheapest point whose jobs wait no longer, else the one with the least wait."""
    quick = [point for point in front if outcomes[point].wait.mean <= limit]
    return min(quick or front, key=lambda point: outcomes[point].place[:: 1 if quick else -1], default=None)


def summary_of(
    points: Sequence[Point],
    played: Played,
    windows: tuple[Sequence[int], Sequence[int]],
    seeds: Sequence[int],
    mean_wait: float | None,
) -> Summary:
    """`windows`: the numbers of those to choose on, and of those to judge on."""
    chosen_on, excluded = outcomes_of(played, range(len(points)), windows[0], seeds)
    front = front_of(chosen_on)
    limit = mean_wait if mean_wait is not None or not chosen_on else chosen_on[0].wait.mean
    chosen = None if limit is None or not front else choose(chosen_on, front, limit)
    of_judges = {key: document for key, document in played.items() if key[1] in windows[1]}
    judged = sorted({point for point, *_ in of_judges} & {0, *front})
    judged_on, _ = outcomes_of(of_judges, judged, windows[1], seeds) if judged else ({}, {})
    currency = next((document["currency"] for document in played.values()), "")
    return Summary(points, chosen_on, judged_on, front, chosen, limit, excluded, currency)


def sentences_of(summary: Summary) -> list[str]:
    """What an operator can say of it."""
    from autoscaler.report.wording import duration

    number, limit = summary.chosen, summary.limit
    if number is None or limit is None:
        return ["Nothing can be said yet: no window was played by every point that can be compared."]
    tried = len(summary.points) - 1
    mine = summary.chosen_on[number]
    if number == 0:
        return [
            f"No point (of {tried:,}) is cheaper than the settings of today where jobs wait {duration(limit)} or less."
        ]
    said = [
        f"Of {tried:,} points, {title_of(summary.points[number])} is the cheapest whose jobs wait {duration(limit)} or "
        f"less on average: {_shown(mine)}."
        if summary.keeps_limit
        else f"No point keeps the mean wait at {duration(limit)}; {title_of(summary.points[number])} waits least: "
        f"{_shown(mine)}."
    ]
    judged = summary.judged_on.get(number)
    if judged is None:
        said.append("It was not judged on other jobs than it was chosen on, so its gain is likely to be overestimated.")
    elif is_sure(judged, keeps_limit=summary.keeps_limit):
        said.append(f"On jobs that it was not chosen on: {_shown(judged)}.")
    else:
        said.append(
            f"It is not recommended: on jobs that it was not chosen on, {_shown(judged)}, so that may be chance."
        )
    return said


def objection_to(summary: Summary) -> str | None:
    """Why the chosen point is not to be set; None: nothing is known against it."""
    if not summary.chosen or summary.limit is None:
        return "no point is chosen but the settings of today"
    if not summary.keeps_limit:
        from autoscaler.report.wording import duration

        return f"no point keeps the mean wait at {duration(summary.limit)}"
    judged = summary.judged_on.get(summary.chosen)
    if judged is not None and not is_sure(judged, keeps_limit=True):
        return "on jobs that the chosen point was not chosen on, its gain may be chance"
    return None


def is_sure(outcome: Outcome, *, keeps_limit: bool = True) -> bool:
    """Whether the whole interval of the gain for which it was chosen is better than today's: of the price, or of the
    wait of a point that is surely no dearer. One that was chosen though no point keeps the limit is to wait less.
    """
    dearest, longest = outcome.ratio.high, outcome.wait_change.high
    quicker = longest is not None and longest < 0.0
    if not keeps_limit:
        return quicker
    return dearest is not None and (dearest < 1.0 or (quicker and dearest <= 1.0))


def _shown(outcome: Outcome) -> str:
    from autoscaler.report.wording import duration

    return (
        f"{share(outcome.ratio)} of today's price, and a mean wait of {duration(outcome.wait.mean)} "
        f"({seconds(outcome.wait_change)})"
    )


def share(interval: Interval) -> str:
    """`0.931 (0.90 to 0.96)`."""
    ends = "" if interval.low is None else f" ({interval.low:.3f} to {interval.high:.3f})"
    return f"{interval.mean:.3f}{ends}"


def seconds(interval: Interval) -> str:
    """`-12 s (-20 to -4)`."""
    ends = "" if interval.low is None else f" ({interval.low:+.0f} to {interval.high:+.0f})"
    return f"{interval.mean:+.0f} s{ends}"


def effects_of(summary: Summary) -> dict[str, list[tuple[str, int, float, float]]]:
    """By setting that has few values: for each value the number of points, their mean price beside today's and wait."""
    effects: dict[str, list[tuple[str, int, float, float]]] = {}
    names = dict.fromkeys(name for point in summary.points for name in point)
    for name in names:
        groups: dict[str, list[Outcome]] = {}
        for number, outcome in summary.chosen_on.items():
            if name in summary.points[number]:
                groups.setdefault(summary.points[number][name], []).append(outcome)
        if 1 < len(groups) <= MOST_VALUES:
            effects[name] = [
                (
                    value,
                    len(group),
                    sum(each.ratio.mean for each in group) / len(group),
                    sum(each.wait.mean for each in group) / len(group),
                )
                for value, group in groups.items()
            ]
    return effects


MOST_VALUES = 12
"""Values of a setting of which the effect is shown one by one."""


def document_of(summary: Summary) -> list[dict[str, Any]]:
    """All points as plain values."""
    return [
        {
            "point": title_of(point),
            "settings": dict(point),
            "on_front": number in summary.front,
            "chosen": number == summary.chosen,
            "excluded": summary.excluded.get(number),
            "chosen_on": _plain(summary.chosen_on.get(number)),
            "judged_on": _plain(summary.judged_on.get(number)),
        }
        for number, point in enumerate(summary.points)
    ]


def _plain(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    intervals = {
        "price": outcome.price,
        "price_of_today": outcome.ratio,
        "mean_wait_s": outcome.wait,
        "mean_wait_change_s": outcome.wait_change,
    }
    shown = {name: {"mean": one.mean, "low": one.low, "high": one.high} for name, one in intervals.items()}
    return {**shown, "launches": outcome.launches}
