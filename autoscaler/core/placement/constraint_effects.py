"""The effects of rules on hosts: resources that a worker has before it exists, and which constraints a host meets.

A met constraint becomes a property of the host, named by its place in the document (`apply[0]`). A counted resource
without a complex of Grid Engine becomes a consumable (`rules.mem`). So placement, growth, shrink and swap follow rules
without knowing them. Without rules this costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    MinimumResource,
    NodeResourceConstraint,
    NodeUse,
    Not,
    Or,
    XOr,
)
from autoscaler.core.constraints.default_resources import OfResource, by_itself, node_of, resources_of
from autoscaler.core.constraints.node import Node, NodeProperties, properties_of_bucket, properties_of_worker
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.constraints.values import Size, Value, is_number
from autoscaler.core.model.cluster import Cluster, Complex, Consumable, ExecutionHost
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, Worker
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.amounts import written
from autoscaler.core.placement.counted import counted, counted_names
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.snapshot import Snapshot

MET = "1"
"""Value of the property that stands for a constraint that a host meets."""
_TEXTS = frozenset({"STRING", "CSTRING", "RESTRING", "HOST"})


@dataclass(frozen=True, slots=True)
class Given:
    """What one kind of worker gets by rules."""

    values: Mapping[str, float | str]
    """By complex, the value that its execution host gets: a number or text."""
    counted: Mapping[str, float]
    """Counted resources without a complex."""
    met: Mapping[str, str]
    """The constraints that it meets, by place."""


def node_of_type(
    rules: Rules, type_: InstanceType, key: BucketKey, offered: Mapping[str, float], complexes: Mapping[str, Complex]
) -> Node:
    """A worker of this type as rules see it before it exists. `offered`: by complex, what it has if rules give no other
    value.
    """
    properties = properties_of_bucket(Bucket(key, type_), location=rules.location, facts=rules.facts.get(type_.name))
    anyway = {rules.resource_of(name): _as_value(amount, complexes[name]) for name, amount in offered.items()}
    by_rules = resources_of(properties, rules.default_resources)
    return Node(properties, {**by_itself(properties), **anyway, **by_rules})


def given_to(
    rules: Rules,
    type_: InstanceType,
    array: NodeArrayPolicy,
    key: BucketKey,
    offered: Mapping[str, float],
    complexes: Mapping[str, Complex],
) -> Given:
    """What a worker of this type, bucket and node array has by rules."""
    node = node_of_type(rules, type_, key, offered, complexes)
    by_rules = {default.name for default in rules.default_resources}
    values: dict[str, float | str] = {}
    for resource, value in node.resources.items():
        if resource not in by_rules:
            continue
        for name in rules.complexes_of(resource):
            entry = complexes.get(name)
            if entry is not None and _may_give(entry, mapped=name in rules.complexes):
                given = _as_complex(value, entry)
                if given is not None:
                    values[name] = given
    return Given(values, counted(rules, node, complexes), _met(rules, node, frozenset({array.queue})))


def complexes_given(rules: Rules | None) -> frozenset[str]:
    """Complexes that rules may give values for: a worker's values of them depend on more than its type."""
    if rules is None:
        return frozenset()
    return frozenset(name for default in rules.default_resources for name in rules.complexes_of(default.name))


def _may_give(entry: Complex, *, mapped: bool) -> bool:
    """Whether a rule may give this complex a value. To avoid accidents, a complex that is not counted has to be mapped
    by name.
    """
    if entry.name == SLOTS or entry.relop == "EXCL":
        return False
    return mapped or entry.consumable is not Consumable.NO


def _as_complex(value: Value, entry: Complex) -> float | str | None:
    """A resource's value for the complex; None: the complex cannot have it."""
    if entry.type in _TEXTS:
        return None if value is None else str(value)
    if isinstance(value, bool):
        return float(value) if entry.type == "BOOL" else None
    return value if is_number(value) else None


def as_text(given: float | str, entry: Complex) -> str:
    """The value as Grid Engine writes it in `complex_values`."""
    return given if isinstance(given, str) else written(given, entry.type)


# -- hosts that are there ------------------------------------------------------------------------------------------


def under_rules(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the effects of rules on every host; the same snapshot without rules."""
    rules = snapshot.policy.rules
    if rules is None or not rules.entries:
        return snapshot
    cluster = snapshot.cluster
    names = counted_names(rules, cluster.complexes)
    complexes = {
        **cluster.complexes,
        **{entry.place: _complex(entry.place, "STRING", Consumable.NO) for entry in rules.entries},
        **{name: _complex(name, "DOUBLE", Consumable.PER_JOB) for name in names},
    }
    hosts = tuple(_described(host, node, rules, cluster) for host, node in nodes_of(snapshot))
    return replace(snapshot, cluster=replace(cluster, hosts=hosts, complexes=complexes))


def nodes_of(snapshot: Snapshot) -> Iterator[tuple[ExecutionHost, Node]]:
    """Every execution host as rules see it, as if nothing ran there."""
    rules = snapshot.policy.rules or Rules()
    workers = {_label(worker.name): worker for worker in snapshot.fleet.workers if worker.name and worker.exists}
    named = _named_resources(rules)
    for host in snapshot.cluster.hosts:
        worker = workers.get(_label(host.name))
        if worker is None:
            properties = _properties_of_persistent(host)
        else:
            properties = _properties_of(worker, host, snapshot, rules)
        own = {name: _own(host, name, rules, snapshot.cluster.complexes) for name in named}
        yield host, node_of(properties, rules.default_resources, own)


def _complex(name: str, type_: str, consumable: Consumable) -> Complex:
    return Complex(name, name, type_, "<=" if type_ == "DOUBLE" else "==", "YES", consumable, "0")


def _described(host: ExecutionHost, node: Node, rules: Rules, cluster: Cluster) -> ExecutionHost:
    queues = frozenset(instance.queue for instance in host.instances)
    there = {name: f"{value:f}" for name, value in counted(rules, node, cluster.complexes).items()}
    return replace(
        host,
        fixed={**host.fixed, **_met(rules, node, queues)},
        consumables={**host.consumables, **there} if there else host.consumables,
    )


def _properties_of(worker: Worker, host: ExecutionHost, snapshot: Snapshot, rules: Rules) -> NodeProperties:
    array, note = snapshot.policy.node_array(worker.node_array), snapshot.memory.workers.get(worker.id)
    kept_by_person = any(_label(name) == _label(host.name) for name in snapshot.overrides.keep)
    return properties_of_worker(
        worker,
        now=snapshot.now,
        boot_timeout=array.boot_timeout if array else 0.0,
        location=rules.location,
        facts=rules.facts.get(worker.type.name),
        keep_alive=kept_by_person
        or rules.keep_alive.holds(worker.node_array, worker.name)
        or (array is not None and bool(array.keep_alive)),
        last_match=snapshot.now if host.busy else note.idle_since if note is not None else None,
        made_at=None if note is None else note.made_at,
    )


def _properties_of_persistent(host: ExecutionHost) -> NodeProperties:
    """The properties of a persistent host by its load values: it has no node array and no size."""
    cores, memory = amount(host.load.get("num_proc", "1"), "INT"), amount(host.load.get("mem_total", "0"), "MEMORY")
    return NodeProperties(
        nodearray="",
        vm_size="",
        name=host.name,
        hostname=host.name,
        hostname_or_uuid=host.name,
        vcpu_count=int(cores or 1),
        pcpu_count=int(cores or 1),
        cores_per_socket=int(cores or 1),
        memory=Size(memory or 0),
        exists=True,
        state="Ready",
    )


def _own(host: ExecutionHost, resource: str, rules: Rules, complexes: Mapping[str, Complex]) -> Value:
    """The host's own value of a resource, used or not; None: it has none."""
    for name in rules.complexes_of(resource):
        entry = complexes.get(name)
        text = next((values[name] for values in (host.consumables, host.fixed, host.load) if name in values), None)
        if entry is None or text is None:
            continue
        value = None if entry.type in _TEXTS else amount(text, entry.type)
        if value is None:
            return text
        if entry.consumable is not Consumable.NO:
            value += sum(_taken(host, entry))
        return _as_value(value, entry)
    return None


def _as_value(value: float, entry: Complex) -> Value:
    match entry.type:
        case "BOOL":
            return bool(value)
        case "MEMORY" if value < float("inf"):
            return Size(value)
        case _:
            return value


def _taken(host: ExecutionHost, entry: Complex) -> Iterator[float]:
    """The amounts of a consumable that running jobs hold."""
    for instance in host.instances:
        for job in instance.jobs:
            for name, text in job.hard:
                if name in (entry.name, entry.shortcut):
                    slots = job.slots if entry.consumable is Consumable.PER_SLOT else 1
                    yield (amount(text, entry.type) or 0) * slots


# -- what of a node matters ------------------------------------------------------------------------------------------


def _met(rules: Rules, node: Node, queues: frozenset[str]) -> dict[str, str]:
    return {entry.place: MET for entry in rules.entries if refusal_of(entry, node, queues) is None}


def refusal_of(entry: Entry, node: Node, queues: frozenset[str]) -> Reason | None:
    """Why a node does not meet an entry; None: it does. An entry for a queue applies to nodes that give slots to it."""
    if not any(entry.who.uses(queue) for queue in queues):
        return None
    after = entry.parts.checked.take(NodeUse(node))
    return after if isinstance(after, Reason) else None


def _named_resources(rules: Rules) -> frozenset[str]:
    """Every resource that a constraint, a filter or a value names: no other one is read from hosts."""
    constraints = [entry.constraint for entry in rules.entries]
    constraints += [default.select for default in rules.default_resources]
    operands = [
        one for default in rules.default_resources for one in (default.value, *(by for _, by in default.changes))
    ]
    return frozenset(
        [name for constraint in constraints for name in _names(constraint)]
        + [one.name for one in operands if isinstance(one, OfResource)]
    )


def _names(constraint: Constraint) -> Iterator[str]:
    match constraint:
        case And(children) | Or(children) | XOr(children):
            for child in children:
                yield from _names(child)
        case Not(child):
            yield from _names(child)
        case MinimumResource(resource) | NodeResourceConstraint(resource):
            yield resource
        case _:
            return


def _label(host: str | None) -> str:
    return (host or "").partition(".")[0].lower()
