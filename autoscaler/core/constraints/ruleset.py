"""A document of rules as one value, and which of its entries hold for which jobs.

`constraints` hold for every job, an entry of `apply` for jobs of some queue, parallel environment, project, user or
context. A node must meet all entries that hold for a job. Messages name an entry by its place in the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from types import MappingProxyType

from autoscaler.core.constraints.constraint import And, Constraint, Exclusive, MinimumResource
from autoscaler.core.constraints.default_resources import DefaultResource
from autoscaler.core.constraints.node import SizeFacts
from autoscaler.core.constraints.node_room import takes_of_nodes
from autoscaler.core.constraints.per_array import KeepAlive, PerNodeArray
from autoscaler.core.constraints.shared import SharedConsumableConstraint, SharedResource

NONE_KEPT = KeepAlive()
NO_SHARED: Mapping[str, SharedResource] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Who:
    """The jobs for which an entry holds. Every field that is given must match, by any of its names. Names may have
    wildcards.
    """

    queues: tuple[str, ...] = ()
    pes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    """Variables of a job's context (`qsub -ac tier=gold`) with their values."""

    def is_meant(self, user: str, project: str | None) -> bool:
        return _fits(self.users, user) and _fits(self.projects, project or "")

    def is_of_context(self, context: Mapping[str, str]) -> bool:
        return all(name in context and fnmatchcase(context[name], value) for name, value in self.context)

    def is_of_pe(self, pe: str | None) -> bool:
        return _fits(self.pes, pe or "")

    def uses(self, queue: str) -> bool:
        return _fits(self.queues, queue)


ANYBODY = Who()


@dataclass(frozen=True)
class Entry:
    """One constraint with the jobs for which it holds."""

    place: str
    """In the document: `constraints[0]`, `apply[2]`."""
    constraint: Constraint
    who: Who = ANYBODY

    @cached_property
    def parts(self) -> Parts:
        return parts_of(self.constraint)


@dataclass(frozen=True, slots=True)
class Parts:
    """A constraint in parts: what placement counts, and what is only checked against a node."""

    checked: Constraint
    takes: tuple[tuple[str, int | float], ...] = ()
    """Amounts that every task takes of a node."""
    exclusive: bool = False
    alone: bool = False
    """Its tasks share a node with no other job's (`exclusive-task`)."""
    shared: tuple[SharedConsumableConstraint, ...] = ()
    """What every task takes of the resources that all nodes share."""
    tried: bool = False
    """The amount that a task takes depends on the node, so it has to be tried on each how many fit."""


@dataclass(frozen=True)
class Rules:
    """A whole document of rules; None: the document does not say."""

    default_resources: tuple[DefaultResource, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    shared: Mapping[str, SharedResource] = field(default_factory=lambda: NO_SHARED)
    boot_timeout: PerNodeArray[float] | None = None
    idle_timeout: PerNodeArray[float] | None = None
    keep_alive: KeepAlive = NONE_KEPT
    apply: tuple[Entry, ...] = ()
    complexes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Complexes of Grid Engine with the resources that they stand for."""
    location: str = ""
    """Region of the workers; '': their zone."""
    facts: Mapping[str, SizeFacts] = field(default_factory=lambda: MappingProxyType({}))
    """By VM size, facts that its provider does not report."""
    document: str = field(default="", repr=False)
    """JSON that reads back to these rules without the files that they name."""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Entries for every job, then entries for some."""
        every = (Entry(f"constraints[{number}]", one) for number, one in enumerate(self.constraints))
        return (*every, *self.apply)

    @property
    def by_context(self) -> bool:
        """Whether some entry depends on a job's context, which only `qstat -j` shows."""
        return any(entry.who.context for entry in self.apply)

    @property
    def by_project(self) -> bool:
        """Whether some entry depends on a job's project, which Grid Engine's own listing leaves out."""
        return any(entry.who.projects for entry in self.apply)

    def complexes_of(self, resource: str) -> tuple[str, ...]:
        """The complexes that stand for a resource, one of the same name included."""
        return (*(name for name, meant in self.complexes.items() if meant == resource), resource)

    def resource_of(self, complex_: str) -> str:
        return self.complexes.get(complex_, complex_)


def parts_of(constraint: Constraint) -> Parts:
    """Amounts and exclusiveness count if the constraint always holds. Below `or` and `xor` the node decides what is
    taken, and below `not` nothing is.
    """
    match constraint:
        case And(children):
            return _together([parts_of(child) for child in children])
        case MinimumResource(resource, amount):
            return Parts(constraint, takes=((resource, amount),))
        case Exclusive(tasks):
            return Parts(And(), exclusive=not tasks, alone=tasks)
        case SharedConsumableConstraint():
            return Parts(And(), shared=(constraint,))
        case _:
            return Parts(constraint, tried=takes_of_nodes(constraint))


def _together(parts: Sequence[Parts]) -> Parts:
    takes: dict[str, int | float] = {}
    for part in parts:
        for name, amount in part.takes:
            takes[name] = takes.get(name, 0) + amount
    constraints = tuple(part.checked for part in parts if part.checked != And())
    return Parts(
        checked=constraints[0] if len(constraints) == 1 else And(constraints),
        takes=tuple(takes.items()),
        exclusive=any(part.exclusive for part in parts),
        alone=any(part.alone for part in parts),
        shared=tuple(one for part in parts for one in part.shared),
        tried=any(part.tried for part in parts),
    )


def _fits(names: tuple[str, ...], value: str) -> bool:
    return not names or any(fnmatchcase(value, name) for name in names)
