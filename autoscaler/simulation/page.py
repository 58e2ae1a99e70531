"""A comparison as one self-contained HTML page: no script, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def page_text(
    documents: Sequence[Document],
    assumptions: Sequence[str],
    backtest: Document | None = None,
    *,
    title: str = "Simulated policies",
    said: Sequence[str] | None = None,
    blocks: Iterable[Block] = (),
) -> str:
    """The whole page. All texts are escaped. `said`: what it says first, in place of the comparison's own sentences.
    `blocks`: tables before the charts.
    """
    if backtest is not None:
        blocks = (backtest_block(backtest, documents[0]["currency"]), *blocks)
    return rendered(
        "page.html.j2",
        documents=documents,
        title=title,
        sentences=sentences(documents, assumptions, backtest) if said is None else said,
        blocks=list(blocks),
        assumptions=assumptions,
        remarks=remarks(documents),
        currency=documents[0]["currency"],
        front=pareto_front(documents) if len(documents) > 1 else [],
        parts=PARTS,
        meanings=_MEANINGS,
        price_and_wait=price_and_wait(documents),
        money=where_money_goes(documents),
        charts=[over_time(document) for document in documents],
    )
