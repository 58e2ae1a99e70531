"""`sge-autoscaler buckets`: which buckets each node array could launch now, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from autoscaler.commands._observation import from_record, observe_and_plan
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.constraints.documents import constraint_from, read_document
from autoscaler.core.facts.prospects import Prospect, prospects
from autoscaler.core.model.reasons import Code
from autoscaler.core.outcome.constraint_verdicts import refusal_by
from autoscaler.core.requests.targets import unknown_types
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.document import reason_part
from autoscaler.report.prospects import prospect_rows
from autoscaler.report.tables import print_buckets
from autoscaler.report.wording import text


@click.command("buckets")
@from_record
@json_option
@click.option("--all", "all_types", is_flag=True, help="Show also types that the settings do not allow.")
@click.option(
    "--constraint",
    metavar="JSON",
    help="Show which types meet this constraint of the rules, and why the others do not.",
)
@click.pass_obj
def command(
    invocation: Invocation, record: Path | None, as_json: bool, all_types: bool, constraint: str | None
) -> None:
    """List the buckets: instance types by zone and price type, their prices, and why some cannot be launched now.

    Each node array has its own list, by its settings and limits, its workers, and the backoff after failures. A
    constraint is one of the language of docs/rules.md, for example '{"node.vcpu_count": 4}'.
    """
    if constraint is not None:
        constraint_from(read_document(constraint, where="constraint"))  # reports errors before it observes
    seen = observe_and_plan(invocation, record)
    found = prospects(seen.snapshot)
    rows = prospect_rows(found, seen.snapshot.policy.currency)
    if constraint is not None:
        refusals = _refusals(constraint, found, seen.snapshot)
        rows = [{**row, "constraint": refusal} for row, refusal in zip(rows, refusals, strict=True)]
    allowed = [row for row in rows if row["reason"] is None or row["reason"]["code"] != Code.BUCKET_NOT_ALLOWED]
    shown = rows if all_types else allowed
    if as_json:
        document = seen.document()
        print_json({"schema": document["schema"], "now": document["now"], "buckets": shown})
        return
    print_buckets(shown)
    for note in unknown_types(seen.snapshot.requests, seen.snapshot.policy):
        echo(text(note))
    if len(shown) < len(rows):
        echo(f"the settings do not allow {len(rows) - len(shown)} more; --all shows them")


def _refusals(text: str, found: Sequence[Prospect], snapshot: Snapshot) -> Iterator[dict[str, Any] | None]:
    """For each prospect, why it does not meet the constraint; None: it does."""
    shared = snapshot.policy.rules.shared if snapshot.policy.rules is not None else {}
    constraint = constraint_from(read_document(text, where="constraint"), shared=shared)
    for prospect in found:
        array = snapshot.policy.node_array(prospect.node_array)
        why = None if array is None else refusal_by(constraint, prospect.bucket, array, snapshot)
        yield None if why is None else reason_part(why)
