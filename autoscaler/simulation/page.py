"""A comparison as one self-contained HTML page: no script, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.report.blocks import Block
from autoscaler.simulation.charts import PARTS, over_time, price_and_wait, where_money_goes
from autoscaler.simulation.comparison import pareto_front, remarks, sentences
from autoscaler.simulation.results import Document
from autoscaler.simulation.tables import backtest_block
from autoscaler.simulation.templates import rendered

_MEANINGS = {
    "busy": "slots with jobs",
    "stranded": "free slots beside running jobs",
    "idle": "workers without jobs",
    "boot": "booting and leaving",
}


@dataclass(frozen=True)
class Section:
    """What a page says of one comparison. All texts are escaped."""

    documents: Sequence[Document]
    said: Sequence[str]
    """What it says first."""
    blocks: Sequence[Block] = ()
    """Tables before the charts."""
    title: str = ""
    """Where a page has several."""

    @property
    def currency(self) -> str:
        return str(self.documents[0]["currency"])

    @property
    def remarks(self) -> list[str]:
        return remarks(self.documents)

    @property
    def front(self) -> list[str]:
        return pareto_front(self.documents) if len(self.documents) > 1 else []

    @property
    def price_and_wait(self) -> str:
        return price_and_wait(self.documents)

    @property
    def money(self) -> str:
        return where_money_goes(self.documents)

    @property
    def charts(self) -> list[str]:
        return [over_time(document) for document in self.documents]


def compared_section(
    documents: Sequence[Document], assumptions: Sequence[str], backtest: Document | None = None
) -> Section:
    """Of compared policies. `backtest`: as `comparison.sentences` has it."""
    blocks = () if backtest is None else (backtest_block(backtest, documents[0]["currency"]),)
    return Section(documents, sentences(documents, assumptions, backtest), blocks)


def page_text(sections: Sequence[Section], assumptions: Sequence[str], *, title: str = "Simulated policies") -> str:
    """The whole page."""
    return rendered(
        "page.html.j2", sections=sections, title=title, assumptions=assumptions, parts=PARTS, meanings=_MEANINGS
    )
