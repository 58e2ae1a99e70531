"""Rules for any scheduler: demand in, matched nodes and reasons out. No Grid Engine, no provider, no clock involved.

    from autoscaler.constraints.library import JobDemand, match, read_constraints, ...

`docs/rules.md` shows a whole example.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from autoscaler.constraints.documents import NO_SHARED, Shared, constraint_from, constraints_from, read_document
from autoscaler.constraints.matching import Candidate, JobDemand, Matched, Matching, Rejected, match
from autoscaler.constraints.rules import load_rules, rules_from
from autoscaler.constraints.vm_sizes import VmSizes, load_vm_sizes
from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    InAPlacementGroup,
    MinimumResource,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    NodeUse,
    Not,
    Or,
    XOr,
    put_one,
)
from autoscaler.core.constraints.default_resources import (
    DefaultResource,
    OfNode,
    OfResource,
    Operator,
    node_of,
    resources_of,
)
from autoscaler.core.constraints.node import (
    PROPERTIES,
    Node,
    NodeProperties,
    SizeFacts,
    properties_of_bucket,
    properties_of_worker,
)
from autoscaler.core.constraints.per_array import KeepAlive, PerNodeArray
from autoscaler.core.constraints.ruleset import Entry, Rules, Who
from autoscaler.core.constraints.shared import (
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableResource,
)
from autoscaler.core.constraints.values import Size, read_size
from autoscaler.core.model.fleet import Bucket, Worker
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.report.wording import text

__all__ = [
    "PROPERTIES",
    "And",
    "Bucket",
    "Candidate",
    "Code",
    "Constraint",
    "DefaultResource",
    "Entry",
    "Exclusive",
    "InAPlacementGroup",
    "JobDemand",
    "KeepAlive",
    "Matched",
    "Matching",
    "MinimumResource",
    "Never",
    "Node",
    "NodeProperties",
    "NodePropertyConstraint",
    "NodeResourceConstraint",
    "NodeUse",
    "Not",
    "OfNode",
    "OfResource",
    "Operator",
    "Or",
    "PerNodeArray",
    "Reason",
    "Rejected",
    "Rules",
    "SharedConstraint",
    "SharedConsumableConstraint",
    "SharedConsumableResource",
    "SharedNonConsumableResource",
    "Size",
    "SizeFacts",
    "VmSizes",
    "Who",
    "Worker",
    "XOr",
    "candidates_of",
    "constraint_from",
    "constraints_from",
    "load_rules",
    "load_vm_sizes",
    "match",
    "node_of",
    "properties_of_bucket",
    "properties_of_worker",
    "put_one",
    "read_constraint",
    "read_rules",
    "read_size",
    "resources_of",
    "rules_from",
    "text",
]


def read_constraint(document: str, *, shared: Shared = NO_SHARED, resources: Collection[str] = ()) -> Constraint:
    """The constraint in a JSON text. Raises SettingsError naming the place inside it, also for a name that is close to
    a word of the language and none of these resources.
    """
    return constraint_from(read_document(document, where="constraint"), shared=shared, resources=resources)


def read_rules(document: str, *, toml: bool = False, shared: Shared = NO_SHARED) -> Rules:
    """The rules in a JSON or TOML text. Raises SettingsError naming the place inside it."""
    return rules_from(read_document(document, toml=toml), shared=shared)


def candidates_of(
    buckets: Iterable[Bucket],
    defaults: Sequence[DefaultResource] = (),
    *,
    location: str = "",
    sizes: VmSizes | None = None,
) -> tuple[Candidate, ...]:
    """The buckets as candidates, in their order; a bucket with a problem has 0 available."""
    return tuple(
        Candidate(
            properties_of_bucket(
                bucket, location=location, facts=sizes.facts(location, bucket.key.instance_type) if sizes else None
            ),
            tuple(defaults),
            0 if bucket.problem is not None else bucket.available,
        )
        for bucket in buckets
    )
