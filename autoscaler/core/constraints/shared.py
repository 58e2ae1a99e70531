"""Resources that all nodes share: those that tasks use up (licences, a quota), and those that are only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.constraints.constraint import Document, NodeUse, SharedKey, among, several
from autoscaler.core.constraints.values import Scalar, is_number, less, millionths, shown, shown_apart, written
from autoscaler.core.model.reasons import Code, Reason, because


@dataclass(frozen=True, slots=True)
class SharedConsumableResource:
    """An amount for all nodes together. `source` says where the figure comes from."""

    resource_name: str
    source: str
    initial_value: int | float
    current_value: int | float

    def __post_init__(self) -> None:
        if not (is_number(self.initial_value) and is_number(self.current_value)):
            raise ValueError(f"{self.resource_name} is counted: {self.current_value!r} of {self.initial_value!r}")

    @property
    def key(self) -> SharedKey:
        return self.resource_name, self.source


@dataclass(frozen=True, slots=True)
class SharedNonConsumableResource:
    """One value for all nodes."""

    resource_name: str
    source: str
    current_value: Scalar


SharedResource = SharedConsumableResource | SharedNonConsumableResource


@dataclass(frozen=True, slots=True)
class SharedConsumableConstraint:
    """This amount of each of these is left, and every task takes it."""

    shared_resources: Sequence[SharedConsumableResource]
    amount: int | float

    def __post_init__(self) -> None:
        if not is_number(self.amount) or not self.amount >= 0:
            raise ValueError(f"of a shared resource the amount must be at least 0, not {self.amount!r}")

    def take(self, use: NodeUse) -> NodeUse | Reason:
        spent = dict(use.spent)
        for resource in self.shared_resources:
            left = less(resource.current_value, spent.get(resource.key, 0))
            if millionths(left) < millionths(self.amount):
                return because(
                    Code.SHARED_SHORT,
                    resource=resource.resource_name,
                    left=shown(left),
                    whole=shown(resource.initial_value),
                    requested=shown(self.amount),
                )
            spent[resource.key] = spent.get(resource.key, 0) + self.amount
        return replace(use, spent=spent)

    def document(self) -> Document:
        return {resource.resource_name: written(self.amount) for resource in self.shared_resources}


@dataclass(frozen=True, slots=True)
class SharedConstraint:
    """Each of these has this value. Nothing is taken."""

    shared_resources: Sequence[SharedNonConsumableResource]
    value: Scalar | Sequence[Scalar]

    @property
    def allowed(self) -> tuple[Scalar, ...]:
        return several(self.value)

    def take(self, use: NodeUse) -> NodeUse | Reason:
        for resource in self.shared_resources:
            if not among(resource.current_value, self.allowed):
                value, required = shown_apart(resource.current_value, self.allowed)
                return because(Code.SHARED_DIFFERS, resource=resource.resource_name, value=value, requested=required)
        return use

    def document(self) -> Document:
        values = [written(value) for value in self.allowed]
        return {resource.resource_name: values[0] if len(values) == 1 else values for resource in self.shared_resources}
