"""The rules that `plan` is compared with, by the names that `simulate --compare` knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.model.fleet import Bucket
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.simulation.oracle import Oracle
from autoscaler.simulation.rules import CloudPipeline, OneNodeForTheBatch, OnePerJob, Rule, Static
from autoscaler.simulation.workload import WorkloadError

ORACLE = "oracle"
"""The rule that knows what nobody can know."""
RULES = ("static", "one-per-job", "karpenter", "cloud-pipeline", ORACLE)


def rule_of(name: str, offers: Sequence[Bucket], max_workers: int, array: NodeArrayPolicy) -> Rule:
    """The rule of this name: one of `RULES`; a fixed cluster is `static:N` or `static:N:TYPE`. `array`: the node array
    in whose place it decides. Raises WorkloadError.
    """
    kind, *rest = name.split(":")
    by_name = {offer.type.name: offer for offer in offers}
    own = by_name.get(array.instance_type) or next(iter(offers))
    if kind == "static":
        return _static(name, rest, offers, array, by_name, own)
    if kind == "one-per-job":
        return OnePerJob(offers, max_workers, array)
    if kind == ORACLE:
        return Oracle(offers, max_workers, array)
    if kind == "karpenter":
        return OneNodeForTheBatch(offers, max_workers, array)
    if kind == "cloud-pipeline":
        ordered = [own, *(offer for offer in offers if offer is not own)]
        return CloudPipeline(ordered, max_workers, array, hybrid=array.hybrid)
    raise WorkloadError(f"there is no rule {name!r}: static:N, static:N:TYPE, {', '.join(RULES[1:])}")


def _static(
    name: str,
    rest: Sequence[str],
    offers: Sequence[Bucket],
    array: NodeArrayPolicy,
    by_name: Mapping[str, Bucket],
    own: Bucket,
) -> Static:
    if not rest or not rest[0].isdecimal() or len(rest) > 2:
        raise WorkloadError(f"{name!r}: write static:N or static:N:TYPE, as static:4:m5.2xlarge")
    if len(rest) == 2 and rest[1] not in by_name:
        raise WorkloadError(f"{name!r}: no offer of type {rest[1]}; these are allowed: {', '.join(sorted(by_name))}")
    offer = by_name[rest[1]] if len(rest) == 2 else own
    return Static(offers, int(rest[0]), array, count=int(rest[0]), offer=offer)
