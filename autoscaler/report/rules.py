"""The rules for a job or host, as rows and lines: each entry, the nodes that meet it, and why others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from autoscaler.core.constraints.constraint import as_text
from autoscaler.core.outcome.constraint_verdicts import EntryVerdict
from autoscaler.report.document import reason_part


def rule_rows(verdicts: Iterable[EntryVerdict]) -> list[dict[str, Any]]:
    """One row an entry. A node whose `reason` is null meets it."""
    return [
        {
            "place": verdict.entry.place,
            "constraint": as_text(verdict.entry.constraint),
            "nodes": [
                {"node": each.node, "reason": None if each.refusal is None else reason_part(each.refusal)}
                for each in verdict.looked
            ],
        }
        for verdict in verdicts
    ]


def rule_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The same for people."""
    for row in rows:
        yield f"the rule {row['place']} requires: {row['constraint']}"
        met = [node["node"] for node in row["nodes"] if node["reason"] is None]
        yield f"  met by {', '.join(met) if met else 'no node'}"
        for node in row["nodes"]:
            if node["reason"] is not None:
                yield f"  not by {node['node']}: {node['reason']['text']}"
