"""The JSON of a plan, schema 1, declared once: `document` fills it in; docs/json.md and conf/plan.schema.json come from
it.

Parts of actions are made of the actions' classes.

Programs rely on names and units: fields are added, never renamed or removed.
Durations end in `_s` and are seconds; times are ISO 8601 with offset; prices are an hour's.
"""

from __future__ import annotations

import dataclasses
import inspect
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from autoscaler.core.actions import Action, ActionKind
from autoscaler.report.document import PAIRS, json_fields
from autoscaler.report.reasons.table import REASONS


class Part(BaseModel):
    """Base of all parts: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReasonPart(Part):
    """Why. `code` is stable; `text` is for people and may be reworded; `facts` are what both rest on."""

    code: str = Field(
        description="Stable code; docs/reasons.md lists all.",
        json_schema_extra={"enum": [code.value for code in REASONS]},
    )
    text: str = Field(description="A sentence for people, with what the trail adds. Do not match on it.")
    facts: dict[str, Any] = Field(description="The facts in the sentence. Names that end in _s are seconds.")
    trail: list[ReasonPart] = Field(
        default=[], description="Reasons that led to it or were added to it, such as a cap."
    )


class CausePart(Part):
    """The innermost cause for which a job waits: the same wherever it is told, the job's context included."""

    code: str = Field(description="Its stable code.", json_schema_extra={"enum": [code.value for code in REASONS]})
    text: str = Field(description="Its sentence for people. Do not match on it.")
    owner_remedy: str = Field(description="What the job's owner can do.")
    remedy: str = Field(description="What an administrator can do besides; empty: nothing.")


class ActionPart(Part):
    """The fields of every action; others follow from its class."""

    kind: str
    reason: ReasonPart


@cache
def part_of(kind: type) -> type[Part]:
    """The part that declares an action, or a value inside one."""
    fields: dict[str, Any] = {
        field.key: (_declared(field.type), Field(description=field.description or None)) for field in json_fields(kind)
    }
    base: type[Part] = Part
    if issubclass(kind, ActionKind):
        base, fields = ActionPart, {"kind": (Literal[kind.kind], kind.kind), **fields, "reason": (ReasonPart, ...)}
    words = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return _create(f"{kind.__name__}Part", base, words, fields)


def _create(name: str, base: type[Part], words: str, fields: dict[str, Any]) -> type[Part]:
    return create_model(name, __base__=base, __doc__=words, **fields)


def _declared(kind: Any) -> Any:
    """A type of the core as pydantic declares it."""
    if kind == PAIRS:
        return dict[str, str]
    if get_origin(kind) is tuple:
        return list[_declared(get_args(kind)[0])]  # type: ignore[misc]  # known at run time only
    return part_of(kind) if dataclasses.is_dataclass(kind) and isinstance(kind, type) else kind


ACTION_PARTS: tuple[type[Part], ...] = tuple(part_of(kind) for kind in get_args(Action))
"""One for every kind of action."""
VALUE_PARTS: tuple[type[Part], ...] = tuple(
    dict.fromkeys(
        part_of(get_args(field.type)[0])
        for kind in get_args(Action)
        for field in json_fields(kind)
        if get_origin(field.type) is tuple and dataclasses.is_dataclass(get_args(field.type)[0])
    )
)
"""One for every value inside an action that has keys of its own."""

if TYPE_CHECKING:
    AnyAction = ActionPart
else:
    AnyAction = Annotated[Union[ACTION_PARTS], Field(discriminator="kind")]  # noqa: UP007 - of a tuple


class JobCategoryPart(Part):
    """Waiting jobs with the same requests and the same verdict; with `--jobs` one job each."""

    jobs: list[str] = Field(description='Job numbers; an array job with its waiting tasks, as in "13.1-100:3".')
    count: int = Field(description="How many jobs.")
    slots: int = Field(description="Slots that one task requests; of a range the fewest.")
    tasks: int = Field(description="How many tasks wait; a job that is no array counts as one.")
    counted: bool = Field(description="Whether they count as demand.")
    waited_s: float = Field(description="Time since the longest waiting one became able to run.")
    cause: CausePart
    reason: ReasonPart


class WorkerPart(Part):
    """One worker or persistent host and the verdict on it."""

    name: str
    id: str | None = Field(
        description="The provider's id; null: a persistent host, which the autoscaler never changes."
    )
    verdict: str
    reason: ReasonPart


class BucketPart(Part):
    """Why a kind of machine was or was not chosen."""

    instance_type: str
    node_array: str
    zone: str
    price_type: str
    placement_group: str
    chosen: bool
    reason: ReasonPart


class AssignedPart(Part):
    """What one worker of a launch is meant for. Grid Engine decides which job starts where."""

    node_array: str
    worker: str = Field(
        description="The instance type and the worker's number in the launch, or a host that a job spreads to as well."
    )
    category: str = Field(description="Key of a job category.")
    jobs: list[str] = Field(description="Of this category, some of them.")
    slots: int


class TimingsPart(Part):
    """The seconds of a pass by part; null: not measured."""

    read: float | None = None
    parse: float | None = None
    decide: float | None = None


class PlanDocument(Part):
    """One pass."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    now: str = Field(description="When Grid Engine and the provider were read.")
    sentence: str = Field(description="The pass in one line, as the log has it.")
    actions: list[AnyAction]
    job_categories: list[JobCategoryPart]
    workers: list[WorkerPart]
    buckets: list[BucketPart]
    notes: list[ReasonPart] = Field(
        description="Reasons that concern the whole pass: paused, circuit breaker, unreadable values, caps."
    )
    waiting: int = Field(description="Tasks that wait, counted or not.")
    counted: int = Field(description="Tasks that count as demand.")
    fitting: int = Field(description="Counted tasks that fit on hosts that exist or are coming.")
    currency: str = Field(description="Of all prices.")
    timings: TimingsPart
    assignment: list[AssignedPart] | None = Field(
        default=None, description="With `--assignment` alone: what each worker of the launches is meant for."
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema shipped as conf/plan.schema.json."""
    schema = PlanDocument.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sge-autoscaler plan, schema 1"} | {
        key: value for key, value in schema.items() if key != "title"
    }
