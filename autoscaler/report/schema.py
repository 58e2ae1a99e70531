"""The JSON of a plan, schema 1, declared once: `document` fills it in, docs/json.md and conf/plan.schema.json state it.

Names and units are a promise to whoever reads them with a program: fields are added, never renamed or taken away.
Durations end in `_s` and are seconds; times are ISO 8601 with offset; prices are an hour's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1


class Part(BaseModel):
    """Base of all parts: a misspelt field is an error on our side, never a silent extra."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReasonPart(Part):
    """Why. `code` is stable; `text` is for people and may be reworded; `facts` are what both rest on."""

    code: str = Field(description="Stable code; docs/reasons.md lists all.")
    text: str = Field(description="A sentence for people, what the trail adds included. Not for matching.")
    facts: dict[str, Any] = Field(description="What the sentence rests on. Names ending in _s are seconds.")
    trail: list[ReasonPart] = Field(default=[], description="What led to it or was added to it, such as a cap.")


class CandidatePart(Part):
    """One way to meet a launch's demand; they are tried in order until one gives a worker."""

    instance_type: str
    count: int
    price_per_hour: float | None = Field(description="Of one worker; null: unknown.")
    price_type: str
    zones: list[str] = Field(default=[], description="Zones tried, in order; empty: whichever.")


class LaunchPart(Part):
    """Order workers. The fields beside `candidates` are the first candidate's."""

    kind: Literal["launch"] = "launch"
    node_array: str
    instance_type: str
    count: int
    price_per_hour: float | None = Field(description="Of one worker; null: unknown.")
    group_id: str | None = Field(description="The group that they are (the rest of); null: of none.")
    nodes: list[str] = Field(
        default=[], description="Ids of the created nodes that they serve, one each, in this order; empty: of none."
    )
    candidates: list[CandidatePart]
    reason: ReasonPart


class EnrolPart(Part):
    """Make a machine an execution host, disabled at first."""

    kind: Literal["enrol"] = "enrol"
    worker_id: str
    host: str
    node_array: str
    queue: str
    host_group: str
    slots: int
    complex_values: dict[str, str]
    group_id: str | None = Field(description="The group that it is one of; null: of none.")
    joined: bool = Field(description="Whether its own image made it one: it gets these values besides what it has.")
    reason: ReasonPart


class HostPart(Part):
    """Let jobs in, keep further jobs out, or take an empty, disabled host out of Grid Engine."""

    kind: Literal["enable", "disable", "remove"]
    worker_id: str
    host: str
    reason: ReasonPart


class TerminatePart(Part):
    """End a machine that is no execution host (any more)."""

    kind: Literal["terminate"] = "terminate"
    worker_id: str
    host: str | None
    failure: str | None = Field(default=None, description="`boot`: it never joined, which is held against its type.")
    reason: ReasonPart


class PhantomPart(Part):
    """A host without a machine that Grid Engine is asked about; taken away again at once."""

    queue: str
    slots: int
    complex_values: dict[str, str]


class AskPart(Part):
    """Ask Grid Engine whether these jobs could ever run on such hosts. Nothing else is decided before it answers."""

    kind: Literal["ask"] = "ask"
    jobs: list[str]
    phantoms: list[PhantomPart]
    reason: ReasonPart


class JobsPart(Part):
    """Leave the reason in the jobs' context, hold them, or lift that hold."""

    kind: Literal["annotate", "hold", "release"]
    jobs: list[str] = Field(description='Job numbers, of array jobs with the tasks meant: "12", "12.3-9:2".')
    reason: ReasonPart


class KillPart(Part):
    """Delete jobs, the reason in their context first."""

    kind: Literal["kill"] = "kill"
    jobs: list[str]
    lost: bool = Field(default=False, description="Their machine is gone, so Grid Engine has to be forced.")
    reason: ReasonPart


class PushBackPart(Part):
    """Put running jobs back among the waiting."""

    kind: Literal["push_back"] = "push_back"
    jobs: list[str]
    worker_id: str
    host: str
    forced: bool = Field(default=False, description="Also those that may not be started again.")
    reason: ReasonPart


ActionPart = Annotated[
    LaunchPart | EnrolPart | HostPart | TerminatePart | AskPart | JobsPart | KillPart | PushBackPart,
    Field(discriminator="kind"),
]


class ShapePart(Part):
    """Waiting jobs that ask for the same things and got the same verdict; with `--jobs` one job each."""

    jobs: list[str] = Field(description='Job numbers; an array job with its waiting tasks, as in "13.1-100:3".')
    count: int = Field(description="How many jobs.")
    slots: int = Field(description="Slots that one task asks for, the fewest where it gives a range.")
    tasks: int = Field(description="How many tasks wait; a job that is no array counts one.")
    counted: bool = Field(description="Whether they count as demand.")
    waited_s: float = Field(description="Since the longest waiting one became able to run.")
    reason: ReasonPart


class WorkerPart(Part):
    """One worker or persistent host and what becomes of it."""

    name: str
    id: str | None = Field(description="The provider's; null: persistent, never touched.")
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


class TimingsPart(Part):
    """Where a pass's seconds went; null: not measured."""

    read: float | None = None
    parse: float | None = None
    decide: float | None = None


class PlanDocument(Part):
    """One pass."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    now: str = Field(description="When Grid Engine and the provider were read.")
    sentence: str = Field(description="The pass in one line, as the log has it.")
    actions: list[ActionPart]
    shapes: list[ShapePart]
    workers: list[WorkerPart]
    buckets: list[BucketPart]
    notes: list[ReasonPart] = Field(description="What concerns the pass as a whole: paused, brake, set aside, capped.")
    waiting: int = Field(description="Tasks that wait, counted or not.")
    counted: int = Field(description="Tasks that count as demand.")
    fitting: int = Field(description="Counted tasks that fit on what is there or coming.")
    timings: TimingsPart


def json_schema() -> dict[str, Any]:
    """The JSON Schema shipped as conf/plan.schema.json."""
    schema = PlanDocument.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sge-autoscaler plan, schema 1"} | {
        key: value for key, value in schema.items() if key != "title"
    }
