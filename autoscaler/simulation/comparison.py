"""How the tried policies compare: which are on the Pareto front of price and wait, and two sentences that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.report.reasons.remedies import SETTINGS_OF_CAPS
from autoscaler.report.wording import duration as words
from autoscaler.simulation.baselines import ORACLE
from autoscaler.simulation.results import Document

NO_DIFFERENCE = 0.005
"""A share below which two figures are the same."""


def pareto_front(documents: Sequence[Document]) -> list[str]:
    """The policies that no other one beats in both price and mean wait, cheapest first: none where no wait counted."""
    complete = [document for document in documents if is_comparable(document) and document["wait_s"]["tasks"]]
    front = [
        document["policy"]
        for document in complete
        if not any(_beats(other, document) for other in complete if other is not document)
    ]
    price = {document["policy"]: document["price"] for document in complete}
    return sorted(front, key=lambda name: price[name])


def is_comparable(document: Document) -> bool:
    """Whether its figures say what it costs: it came to its end, and all its workers have a known price."""
    return bool(document["complete"]) and not document["unpriced_workers"]


def remarks(documents: Sequence[Document]) -> list[str]:
    """What the figures of a policy do not show: that it did not end, or what its cloud refused and took."""
    return [f"{document['policy']}: {said}" for document in documents for said in _remarks(document)]


def _remarks(document: Document) -> Iterator[str]:
    tasks, taken = document["tasks"], document["interrupted"]
    if not document["complete"] and tasks["waiting"] and tasks["finished"] + tasks["waiting"] >= tasks["submitted"]:
        left_out = document["left_out_tasks"] or 0
        if left_out:
            yield f"{left_out:,} tasks launched nothing: all that it may rent does not hold one of them."
        if tasks["waiting"] > left_out:
            rest = tasks["waiting"] - left_out
            yield f"{rest:,} tasks never started: nothing that it may rent runs them, or a limit is reached."
    elif not document["complete"]:
        yield f"stopped after {tasks['finished']:,} of {tasks['submitted']:,} submitted tasks."
    if document["unpriced_workers"]:
        yield (
            f"{document['unpriced_workers']:,} workers have no known price, so it is not compared; name a catalogue "
            "that has it with --catalog."
        )
    for cap, seconds in document["limited_s"].items():
        if seconds >= 1:
            limit = "what the cloud has" if cap == "availability" else SETTINGS_OF_CAPS.get(cap, cap)
            yield f"tasks waited at the limit {limit} for {words(seconds)}."
    if document["not_to_be_had"]:
        yield f"{document['not_to_be_had']:,} machines were ordered that the cloud did not have."
    if taken["workers"] or taken["tasks_started_again"]:
        yield (
            f"the cloud took {taken['workers']:,} workers back; {taken['tasks_started_again']:,} tasks started again "
            f"and lost {taken['core_hours_lost']:,.1f} core-hours."
        )


def _beats(one: Document, other: Document) -> bool:
    pairs = [(one["price"], other["price"]), (one["wait_s"]["mean"], other["wait_s"]["mean"])]
    return all(mine <= its for mine, its in pairs) and any(mine < its for mine, its in pairs)


def sentences(documents: Sequence[Document], assumptions: Sequence[str], backtest: Document | None = None) -> list[str]:
    """What an administrator can say of the comparison, and what it rests on. Empty if there is nothing to compare.
    `backtest`: how far a simulation of the settings in force is from what happened; a gain within that is none.
    """
    compared = [document for document in documents if is_comparable(document) and document["rule"] != ORACLE]
    complete = [document for document in compared if document["wait_s"]["tasks"]]
    if len(complete) < 2:
        return []
    base, best = complete[0], _best(complete[0], complete[1:])
    if backtest is not None and not _is_sure(base, best, backtest):
        return [_unsure(base, best, backtest)]
    return [_first(base, best), _second(base, best, assumptions)]


def _best(base: Document, others: Sequence[Document]) -> Document:
    """The cheapest of those that are cheaper than `base` and let tasks wait no longer; else the cheapest of all."""
    better = [other for other in others if other["price"] < base["price"] and not waits_longer(other, base)]
    return min(better or others, key=lambda document: document["price"])


def waits_longer(document: Document, base: Document) -> bool:
    """Whether tasks wait longer than with `base`, by more than makes a difference."""
    return float(document["wait_s"]["mean"]) - float(base["wait_s"]["mean"]) >= least_wait(base)


def least_wait(base: Document) -> float:
    """By how many seconds a mean wait has to differ from that of `base`."""
    return max(1.0, NO_DIFFERENCE * float(base["wait_s"]["mean"]))


def _is_sure(base: Document, best: Document, backtest: Document) -> bool:
    error = backtest["error"]["price"]
    return error is not None and base["price"] > 0 and abs(1 - best["price"] / base["price"]) > error


def _unsure(base: Document, best: Document, backtest: Document) -> str:
    error = backtest["error"]["price"]
    if error is None:
        return "Nothing is recommended: the record does not say what the workers cost, so the error is not known."
    gain = abs(1 - best["price"] / base["price"]) if base["price"] else 0.0
    return (
        f"Nothing is recommended: {best['policy']} differs from {base['policy']} by {gain:.1%} in price, and the "
        f"simulation of what was in force is off by {error:.1%}."
    )


def _first(base: Document, best: Document) -> str:
    less = best["price"] < base["price"]
    share = abs(1 - best["price"] / base["price"]) if base["price"] else 0.0
    same = share < NO_DIFFERENCE
    change = "about as much as" if same else f"{share:.1%} {'less' if less else 'more'} than"
    dearly = less and not same and waits_longer(best, base)
    return (
        f"On these {base['tasks']['finished']:,} tasks, {best['policy']} would have cost {change} "
        f"{base['policy']} ({money(best)} instead of {money(base)}), {'but' if dearly else 'and'} a task would have "
        f"waited {words(best['wait_s']['mean'])} on average instead of {words(base['wait_s']['mean'])}."
        f"{' Nothing here costs less without longer waits.' if dearly else ''}"
    )


def _second(base: Document, best: Document, assumptions: Sequence[str]) -> str:
    parts = {name: base["price_parts"][name] - best["price_parts"][name] for name in ("stranded", "idle", "boot")}
    name = max(parts, key=lambda each: abs(parts[each]))
    what = {"stranded": "free slots beside running jobs", "idle": "workers without jobs", "boot": "booting workers"}
    same = abs(best["price"] - base["price"]) < NO_DIFFERENCE * base["price"]
    most = (
        f"Most of the difference is {what[name]}: {base['price_parts'][name]:,.2f} against "
        f"{best['price_parts'][name]:,.2f} {base['currency']}. "
    )
    return (
        f"{'' if same else most}This rests on list prices, on {len(assumptions)} assumptions that are listed, and on "
        "jobs that would have been submitted just the same."
    )


def money(document: Document) -> str:
    return f"{document['price']:,.2f} {document['currency']}"
