"""What a trial says: what would have been launched and removed, what waits and prices would have been beside what
happened, and which settings matter. Every figure that did not happen is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import groupby
from typing import Any

from autoscaler.report.blocks import Block
from autoscaler.report.wording import count
from autoscaler.report.wording import duration as words
from autoscaler.simulation.comparison import NO_DIFFERENCE, least_wait
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.results import Document
from autoscaler.simulation.watched import Watched

HOSTS, BESIDE, ALONE = "your hosts", "your hosts and workers", "workers alone"
"""The scenarios of every trial."""
MOST_MOVES, MOST_CAUSES = 20, 12
"""Rows of their tables."""
MOMENT = 60.0
"""Launches and removals of so many seconds are one row."""


@dataclass(frozen=True)
class Changed:
    """The same scenario with one setting changed."""

    setting: str
    now: str
    tried: str
    document: Document


@dataclass
class TrialReport:
    """A trial with what was simulated of it."""

    watched: Watched
    price_of_hosts: float | None
    zone: tzinfo
    queue: str = ""
    """Where several are watched."""
    documents: list[Document] = field(default_factory=list)
    """The scenarios, and what else was compared."""
    moves: Measures | None = None
    """Of the scenario whose launches are told."""
    changed: list[Changed] = field(default_factory=list)

    def named(self, name: str) -> Document | None:
        return next((each for each in self.documents if each["policy"] == name), None)

    @property
    def told(self) -> Document | None:
        """The scenario whose launches are told and whose settings are changed: workers beside the hosts if there would
        be any, else workers alone.
        """
        beside = self.named(BESIDE)
        return beside if beside is not None and beside["launches"] else self.named(ALONE) or beside

    # -- sentences -----------------------------------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """What somebody may say of it in a meeting."""
        return [*self._happened(), *self._of(BESIDE), *self._of(ALONE), *self._sure()]

    def _happened(self) -> Iterator[str]:
        seen, watched = self.watched.happened, self.watched
        lasted = f"In {words(watched.until - watched.since)}"
        if not seen["hosts"]:
            left = count(seen["waiting_at_end"], "task")
            yield f"{lasted}, there was no host of yours, and {left} waited at the end."
            return
        wait = "" if seen["mean_wait_s"] is None else f", and waited {words(seen['mean_wait_s'])} on average"
        yield (
            f"{lasted}, {count(seen['tasks'], 'task')} started on {count(seen['hosts'], 'host')} of yours{wait}. "
            f"{self._worth()}"
        )

    def _worth(self) -> str:
        if self.price_of_hosts is None:
            return "What these hosts cost is not known: --core-price says it."
        return f"These hosts cost {self._money(self.price_of_hosts)} in that time."

    def _of(self, name: str) -> Iterator[str]:
        found = self.named(name)
        if found is None:
            return
        where = "Beside your hosts" if name == BESIDE else "In place of your hosts"
        if not found["launches"]:
            yield f"{where} nothing would have been launched."
            return
        wait = found["wait_s"]
        waited = f", and a task would have waited {words(wait['mean'])} on average{self._instead()}"
        yield (
            f"{where}, {count(found['launches'], 'worker')} would have been launched and {found['removals']} removed, "
            f"for {self._money(found['workers_price'])}{waited if wait['tasks'] else ''}."
        )

    def _instead(self) -> str:
        """Compared with the hosts alone in the same simulation: what it leaves out is left out of both."""
        before = self._simulated("mean") if self.watched.happened["tasks"] else None
        return "" if before is None else f", where your hosts alone give {words(before)}"

    def _sure(self) -> Iterator[str]:
        happened, simulated = self.watched.happened["mean_wait_s"], self._simulated("mean")
        if happened is None or simulated is None:
            return
        yield (
            f"The simulation of your hosts as they were gives {words(simulated)} on average where {words(happened)} "
            f"happened: take no difference of waits below {words(abs(simulated - happened))} for one."
        )

    def _money(self, amount: float) -> str:
        return f"{amount:,.2f} {self.documents[0]['currency'] if self.documents else ''}".rstrip()

    # -- tables --------------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[Block]:
        """What stands beside the comparison of the scenarios."""
        if self.watched.happened["tasks"] and self.named(HOSTS) is not None:
            yield self._backtest()
        if self.moves is not None and (rows := list(self._moves())):
            told = self.told
            title = "" if told is None else f"What would have been done: {told['policy']}"
            more = [f"… and {len(rows) - MOST_MOVES} more"] if len(rows) > MOST_MOVES else []
            yield Block(title, ("time", "launched", "removed"), rows[:MOST_MOVES], more)
        yield from self._settings()
        if self.watched.causes:
            causes = self.watched.causes
            rows = [[f"{each.jobs}", each.code, each.sentence] for each in causes[:MOST_CAUSES]]
            more = [f"… and {len(causes) - MOST_CAUSES} more"] if len(causes) > MOST_CAUSES else []
            yield Block("Why jobs waited, by these settings, with an example", ("jobs", "reason", ""), rows, more)

    def _backtest(self) -> Block:
        happened = self.watched.happened
        rows = [
            [
                f"{head} wait",
                "?" if happened[f"{name}_wait_s"] is None else words(happened[f"{name}_wait_s"]),
                "?" if (simulated := self._simulated(name)) is None else words(simulated),
                "?" if (error := self.error(name)) is None else f"{error:.1%}",
            ]
            for name, head in (("mean", "mean"), ("median", "median"), ("p95", "95 %"))
        ]
        return Block("Backtest: your hosts as they were", ("", "happened", "simulated", "error"), rows)

    def _simulated(self, name: str) -> float | None:
        found = self.named(HOSTS)
        return None if found is None or not found["wait_s"]["tasks"] else found["wait_s"][name]

    def error(self, name: str) -> float | None:
        """How far the simulated wait of the hosts is from what happened, as a share of that; None: not known."""
        happened, simulated = self.watched.happened[f"{name}_wait_s"], self._simulated(name)
        if happened is None or simulated is None or not happened:
            return None
        return float(abs(simulated - happened) / happened)

    def _moves(self) -> Iterator[list[str]]:
        if self.moves is None:
            return
        both = [(at, kind, number, 0) for at, kind, number in self.moves.launches_at]
        both += [(at, kind, 0, 1) for at, kind in self.moves.removals_at]
        for moment, group in groupby(sorted(both), key=lambda each: each[0] // MOMENT):
            launched: dict[str, int] = {}
            removed: dict[str, int] = {}
            for _, kind, more, less in group:
                launched[kind] = launched.get(kind, 0) + more
                removed[kind] = removed.get(kind, 0) + less
            at = datetime.fromtimestamp(self.watched.since + moment * MOMENT, self.zone)
            yield [at.strftime("%Y-%m-%d %H:%M"), _counts(launched), _counts(removed)]

    def _settings(self) -> Iterator[Block]:
        base = self.told
        if base is None or not self.changed or not base["launches"]:
            return
        rows, same = [], []
        for each in sorted(self.changed, key=lambda each: -abs(_share(base, each.document))):
            price, wait = _share(base, each.document), each.document["wait_s"]["mean"] - base["wait_s"]["mean"]
            if abs(price) < NO_DIFFERENCE and abs(wait) < least_wait(base):
                same.append(f"{each.setting}={each.tried}")
                continue
            sign = "+" if wait > 0 else "-" if wait < 0 else ""
            waited = f"{sign}{words(abs(wait))}" if base["wait_s"]["tasks"] else ""
            rows.append([each.setting, each.now, each.tried, f"{price:+.1%}", waited])
        lines = [f"No difference: {', '.join(same)}."] if same else []
        yield Block(
            f"Which settings matter: {base['policy']}", ("setting", "now", "tried", "price", "mean wait"), rows, lines
        )

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def document(self, assumptions: Sequence[str]) -> dict[str, Any]:
        watched = self.watched
        return {
            "since": watched.since,
            "until": watched.until,
            "unwatched_s": watched.unwatched,
            "happened": {**watched.happened, "price": self.price_of_hosts},
            "error": {name: self.error(name) for name in ("mean", "median", "p95")},
            "policies": self.documents,
            "settings": [
                {"setting": each.setting, "now": each.now, "tried": each.tried, "policy": each.document}
                for each in self.changed
            ],
            "moves": [dict(zip(("at", "launched", "removed"), row, strict=True)) for row in self._moves()],
            "causes": [{"code": each.code, "sentence": each.sentence, "jobs": each.jobs} for each in watched.causes],
            "assumptions": list(assumptions),
        }


def with_hosts(document: Document, price: float | None) -> Document:
    """The figures of a scenario in which the own hosts stay: they cost something, too."""
    whole = document["price"] + (price or 0.0)
    floor = document["price_of_busy_core_hours"]
    return {
        **document,
        "price": whole,
        "price_ratio": whole / floor if floor and price is not None else None,
        "workers_price": document["price"],
    }


def _share(base: Document, changed: Document) -> float:
    """By which share the price of workers changes."""
    before = float(base["workers_price"])
    return float(changed["workers_price"]) / before - 1 if before else 0.0


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
