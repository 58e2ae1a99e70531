"""Bodies of the REST API, with CycleCloud's names to the letter; descriptions are ours.

Bodies of callers are read strictly: an unknown name or a value of another kind is refused with its path, because a
misspelt limit would otherwise have no effect and cost money. A name that is given as null counts as not given.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP_ID = r"^[A-Za-z0-9_-]{1,64}$"
NAME_FORMAT = r"^[A-Za-z0-9._-]{0,64}%d[A-Za-z0-9._-]{0,64}$"
MOST_NODES = 100_000
LARGEST = 2**53
"""JSON readers do not agree on larger integers."""


def _finite(value: object) -> object:
    """Refuse numbers that JSON readers would not read back: infinite ones and very large integers."""
    match value:
        case dict():
            for each in value.values():
                _finite(each)
        case list():
            for each in value:
                _finite(each)
        case float() if not math.isfinite(value):
            raise ValueError("a number is too large")
        case int() if abs(value) > LARGEST:
            raise ValueError("a whole number is too large")
        case _:
            pass
    return value


Text = Annotated[str, Field(min_length=1, max_length=256)]
Texts = Annotated[list[Text], Field(max_length=MOST_NODES)]
Attributes = Annotated[dict[str, Any], AfterValidator(_finite)]
Count = Annotated[int, Field(ge=0)]


def _whole(value: object) -> object:
    """A number that some programs write with a point: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""After the bounds: pydantic describes bounds around a validator by names that JSON Schema does not have."""


class RequestModel(BaseModel):
    """Base of bodies that callers send."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel, frozen=True)


class AnswerModel(BaseModel):
    """Base of answers. Names that do not apply are left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


# -- creating ----------------------------------------------------------------------------------------------------


class NodeDefinition(RequestModel):
    """Which bucket nodes are taken from."""

    machine_type: Text | None = Field(None, description="Instance type. Default: the first one that is available.")


class NodeSet(RequestModel):
    """Nodes that are alike."""

    count: Annotated[int, Field(ge=1, le=MOST_NODES), WHOLE]
    nodearray: Text
    definition: NodeDefinition | None = None
    name_format: Annotated[str, Field(pattern=NAME_FORMAT)] | None = Field(
        None, description="Names of the nodes, `%d` standing for a number. Default: the node array's name, then `-%d`."
    )
    name_offset: Annotated[int, Field(ge=0, le=2**31), WHOLE] | None = Field(
        None, description="The first number to use. Default: 1."
    )
    node_attributes: Attributes | None = None
    placement_group_id: Annotated[str, Field(pattern=GROUP_ID)] | None = Field(
        None, description="Nodes with one id stand near each other, where the provider can."
    )


class NodeCreationRequest(RequestModel):
    """Nodes to create."""

    request_id: Text | None = Field(
        None, description="The caller's own token. A second request with the same token is refused with 409."
    )
    sets: Annotated[list[NodeSet], Field(min_length=1, max_length=1000)]


class CreatedSet(AnswerModel):
    """The result for one set."""

    added: Count
    message: str | None = Field(None, description="Why fewer nodes were added than requested.")


class NodeCreationResult(AnswerModel):
    """The result for each set, in the order of the request."""

    operation_id: str
    sets: list[CreatedSet]


# -- managing ----------------------------------------------------------------------------------------------------


class NodeManagementRequest(RequestModel):
    """Which nodes; of several selectors the union is meant."""

    filter: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description='Expression over the names of a node record: `State === "Started"`.'
    )
    hostnames: Texts | None = Field(None, description="Short host names, without domain.")
    ids: Texts | None = None
    ip_addresses: Texts | None = Field(None, alias="ip_addresses")
    names: Texts | None = None
    request_id: Text | None = Field(None, description="As in NodeCreationRequest.")


class ManagedNode(AnswerModel):
    """The result for one node."""

    id: str
    name: str
    status: Literal["OK", "Error"]
    error: str | None = None


class NodeManagementResult(AnswerModel):
    """All nodes that were meant."""

    operation_id: str
    nodes: list[ManagedNode]


# -- reading -----------------------------------------------------------------------------------------------------


class OperationStatus(AnswerModel):
    """An operation."""

    action: str
    start_time: str = Field(description="When it was asked for, UTC.")


class NodeList(AnswerModel):
    """Node records."""

    nodes: list[dict[str, Any]]
    operation: OperationStatus | None = None


class BucketDefinition(AnswerModel):
    """The key of a bucket within its node array."""

    machine_type: str


class VirtualMachine(AnswerModel):
    """One machine of a bucket."""

    vcpu_count: Count
    pcpu_count: Count
    gpu_count: Count
    memory: Annotated[float, Field(ge=0, description="GB")]
    infiniband: bool
    vcpu_quota_count: Count


class PlacementGroup(AnswerModel):
    """A placement group in use."""

    name: str
    active_count: Count
    active_core_count: Count


class BucketStatus(AnswerModel):
    """The existing and available nodes of one instance type in one node array."""

    bucket_id: str
    definition: BucketDefinition
    virtual_machine: VirtualMachine
    valid: bool
    invalid_reason: str
    active_count: Count
    active_core_count: Count
    active_nodes: list[str] | None = None
    available_count: Count
    available_core_count: Count
    max_count: Count
    max_core_count: Count
    quota_count: Count
    quota_core_count: Count
    consumed_core_count: Count
    family_quota_count: Count
    family_quota_core_count: Count
    family_consumed_core_count: Count
    regional_quota_count: Count
    regional_quota_core_count: Count
    regional_consumed_core_count: Count
    max_placement_group_size: Count
    max_placement_group_core_size: Count
    placement_groups: list[PlacementGroup]
    last_capacity_failure: float = Field(description="Seconds ago; negative: never.")
    spot_placement_score: str


class NodeArrayStatus(AnswerModel):
    """A node array."""

    name: str
    max_count: Count
    max_core_count: Count
    nodearray: dict[str, Any] = Field(description="Its attributes.")
    buckets: list[BucketStatus]


class ClusterStatus(AnswerModel):
    """The cluster."""

    state: str
    target_state: str
    max_count: Count
    max_core_count: Count
    nodearrays: list[NodeArrayStatus]
    nodes: list[dict[str, Any]] | None = None


class UsageDetail(BaseModel):
    """Core-hours of one instance type in a node array."""

    vm_size: str
    core_count: float | None = None
    hours: float
    cost: float | None = None
    priority: Literal["Regular", "Spot"]
    os: Literal["Linux"] = "Linux"
    region: str


class UsageItem(AnswerModel):
    """Core-hours of the cluster or of one node array."""

    category: Literal["cluster", "node", "nodearray"]
    node: str | None = None
    hours: float
    cost: float | None = Field(None, description="An estimate from prices an hour; absent where one is not known.")
    details: list[UsageDetail] | None = None


class UsageInterval(AnswerModel):
    """Core-hours of one stretch of time, its end not included."""

    start: str
    end: str
    total: UsageItem
    breakdown: list[UsageItem]


class ClusterUsage(AnswerModel):
    """Core-hours by interval."""

    usage: list[UsageInterval]


class Conflict(Exception):
    """A request that is understood and refused; the message says why and what to do."""
