"""A Cloud Pipeline platform in memory: runs and their lives, tokens, preferences, allowed types. No HTTP in it.

Time is a clock that is passed in; a run's record is made of how long ago it was created, when it is asked for. What a
running or ended run means beyond the record, such as a host that starts, is up to `on_running` and `on_ended`.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

DATE = "%Y-%m-%d %H:%M:%S.%f"
FINAL = frozenset({"SUCCESS", "FAILURE", "STOPPED"})
OTHER_RUNS = 7000
"""Runs of the master's cluster that no autoscaler launched have ids from here."""


class Refusal(Exception):
    """The platform refuses with this message, with HTTP 200 and `status: ERROR`."""


@dataclass(slots=True)
class Timing:
    """Seconds from a run's creation until it has an address, is initialized, has set itself up."""

    address: float = 0.0
    initialized: float = 0.02
    set_up: float = 0.04


@dataclass(slots=True)
class Run:
    """One run, as it was asked for and as it was changed since."""

    id: int
    asked: dict[str, Any]
    created: float
    tags: dict[str, str]
    status: str = "RUNNING"
    ended: float | None = None
    reason: str | None = None
    doom: tuple[float, str] | None = None
    """Seconds after its creation at which it fails, and why."""
    pod: str = ""
    """Its host name; '': made of its id."""
    address: str = ""
    never_set_up: bool = False
    left: bool = False
    """Whether its machine and disk were left when it ended."""
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All parameters as the platform keeps them (PipelineRun.java: convertParamsToString)."""
        return "|".join(
            f"{name}={'null' if one.get('value') is None else one['value']}"
            + (f"={one['type']}" if one.get("type") else "")
            for name, one in self.asked["params"].items()
        )

    @property
    def parent(self) -> int | None:
        return self.asked.get("parentRunId")

    @property
    def final(self) -> bool:
        return self.status in FINAL


@dataclass(slots=True)
class Platform:
    """One platform with one user, safe to be called by several threads."""

    clock: Callable[[], float] = time.time
    timing: Timing = field(default_factory=Timing)
    limit: int | None = None
    """This many runs the user may have at once, the master's not counted."""
    scheduled: int = 1000
    """`launch.max.scheduled.number`: this many runs one call may launch; 0 while nothing may be launched."""
    refusal: str | None = None
    """What every launch is refused with."""
    short_of: set[str] = field(default_factory=set)
    """Instance types of which the cloud has none: their runs fail after a while."""
    lag: float = 0.0
    """Seconds after which a new run shows in listings."""
    hidden_from: float | None = None
    """Runs that were launched since then show in no listing."""
    hidden: set[int] = field(default_factory=set)
    """Runs that slip through between two pages of a filtered listing."""
    keeps_null: bool = False
    """A tag that is set to nothing stays."""
    types: list[dict[str, Any]] = field(default_factory=list)
    prices: dict[str, float] = field(default_factory=dict)
    preferences: dict[str, str] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    tokens: dict[str, float] = field(default_factory=dict)
    """Token → when it ends."""
    on_running: Callable[[Run], None] = lambda _: None
    on_ended: Callable[[Run], None] = lambda _: None
    guard: threading.RLock = field(default_factory=threading.RLock)
    _ids: Iterable[int] = field(default_factory=lambda: itertools.count(1001))

    def price(self, name: str, *, spot: bool) -> float:
        """An hour of a type; of spot, half as much."""
        return self.prices.get(name, 0.0) / (2 if spot else 1)

    # -- tokens --------------------------------------------------------------------------------------------------

    def new_token(self, duration: float) -> str:
        """A JWT as far as a client can read it: whether it is signed is the platform's business."""
        end = self.clock() + duration
        parts = ({"alg": "none"}, {"sub": "USER", "exp": end, "jti": len(self.tokens)})
        head, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        token = f"{head}.{claims}.c2ln"
        self.tokens[token] = end
        return token

    def takes(self, token: str) -> bool:
        return self.tokens.get(token, 0.0) > self.clock()

    def expire_tokens(self) -> None:
        """Every token that was given out counts no more for calls, but may be renewed."""
        self.tokens = dict.fromkeys(self.tokens, 0.0)

    # -- runs ----------------------------------------------------------------------------------------------------

    def add(self, **asked: Any) -> Run:
        """A run that was not launched by a call: the master's, or a static worker's."""
        with self.guard:
            number = int(next(iter(self._ids)))
            self.runs[number] = Run(number, asked, self.clock(), dict(asked.get("tags") or {}))
            return self.runs[number]

    def launch(self, asked: dict[str, Any]) -> Run:
        with self.guard:
            if self.refusal is not None:
                raise Refusal(self.refusal)
            if self.scheduled < 1:  # PipelineRunManager.java: runCmd; messages.properties: error.exceed.max.runs.count
                raise Refusal(
                    f"Error: exceeded allowed number of scheduled at once runs: allowed '{self.scheduled}', "
                    "but actual '1'"
                )
            name = asked["instanceType"]
            if not any(kind["name"] == name for kind in self.types):
                raise Refusal(f"Instance type '{name}' is not allowed.")
            parent = asked.get("parentRunId")
            if parent is not None and parent not in self.runs:
                raise Refusal(f"Run with id: {parent} was not found.")
            if self.limit is not None and sum(not run.final for run in self.children(parent)) >= self.limit:
                raise Refusal(
                    "Launch of new jobs is restricted as [USER] user will exceed [<user-global-limit>] "
                    f"runs limit [{self.limit}]"
                )
            run = self.add(**asked)
            if name in self.short_of:
                run.doom = (self.timing.initialized, "Insufficient instance capacity.")
            self.on_running(run)  # it is not listed before it has a host name and an address
            return run

    def find(self, number: int) -> Run:
        with self.guard:
            if number not in self.runs:
                # messages.properties: error.pipeline.not.found, which runs share with pipelines
                raise Refusal(f"Pipeline with requested id: '{number}' was not found.")
            run = self.runs[number]
            if run.doom is not None and not run.final and self.clock() >= run.created + run.doom[0]:
                self.end(run, "FAILURE", run.doom[1])
            return run

    def children(self, parent: int | None) -> list[Run]:
        with self.guard:
            return [self.find(number) for number, run in self.runs.items() if run.parent == parent]

    def listed(self) -> list[Run]:
        """Newest first, as the platform sorts; what is too new is not there yet."""
        with self.guard:
            numbers = sorted(self.runs, reverse=True)
            until = self.clock() - self.lag if self.hidden_from is None else self.hidden_from
            return [self.find(number) for number in numbers if self.runs[number].created <= until]

    def end(self, run: Run, status: str, reason: str | None = None) -> None:
        """A final status is final: ending twice changes nothing."""
        with self.guard:
            if run.final:
                return
            run.status, run.ended, run.reason = status, self.clock(), reason
        self.on_ended(run)

    def terminate(self, run: Run) -> None:
        if run.status != "PAUSED":
            # messages.properties has this sentence under error.run.termination.wrong.status.
            raise Refusal(f"Only paused runs can be terminated. Given run '{run.id}' has '{run.status}' status.")
        self.end(run, "STOPPED")

    def stop(self, run: Run) -> None:
        """Whatever its status: of a run that is or is being paused the machine is left (PipelineRunManager.java:
        updatePipelineStatusIfNotFinal, beside terminateRun).
        """
        run.left = run.left or run.status in ("PAUSED", "PAUSING", "RESUMING")
        self.end(run, "STOPPED")

    # -- records -------------------------------------------------------------------------------------------------

    def record(self, run: Run) -> dict[str, Any]:
        """A run as `GET run/{id}` and `POST run/filter` print it."""
        age = self.clock() - run.created
        asked, up = run.asked, age >= self.timing.address
        shown: dict[str, Any] = {
            "id": run.id,
            "name": f"pipeline-{run.id}",
            "createdDate": text_of(run.created),
            "startDate": text_of(run.created),
            "status": run.status,
            "owner": "USER",
            "dockerImage": asked.get("dockerImage"),
            "cmdTemplate": asked.get("cmdTemplate"),
            "podId": run.pod or f"pipeline-{run.id}",
            "initialized": age >= self.timing.initialized and run.doom is None,
            "parentRunId": run.parent,
            "pipelineRunParameters": parsed(run.text) + ([] if run.parent is None else [_parent(run.parent)]),
            "instance": {
                "nodeType": asked.get("instanceType"),
                "nodeDisk": asked.get("hddSize"),
                "spot": asked.get("isSpot"),
                "cloudRegionId": asked.get("cloudRegionId"),
            },
            "pricePerHour": self.price(asked.get("instanceType", ""), spot=bool(asked.get("isSpot"))),
            "tags": run.tags,
        }
        if up and run.status == "RUNNING":
            shown["podIP"] = run.address or f"10.244.{run.id // 250 % 250}.{run.id % 250 + 1}"
            shown["instance"]["nodeIP"] = "10.0.0.1"
        if run.ended is not None:
            shown["endDate"] = text_of(run.ended)
        if run.reason is not None:
            shown["stateReasonMessage"] = run.reason
        return {name: value for name, value in shown.items() if value is not None}

    def set_up(self, run: Run) -> list[dict[str, Any]]:
        """The log of a worker's task that enrols it."""
        age = self.clock() - run.created
        lines = [("RUNNING", "Joining the Grid Engine of the master")] if age >= self.timing.address else []
        if age >= self.timing.set_up and not run.never_set_up and run.doom is None:
            lines.append(("SUCCESS", "The worker is part of the cluster"))
        return [
            {"runId": run.id, "date": text_of(run.created), "status": status, "logText": text, "task": task}
            for status, text in lines
            for task in ({"name": "SGEWorkerSetup"},)
        ]


def parsed(text: str) -> list[dict[str, str]]:
    """The text of all parameters as records have it: split at each `|` and `=`, and a part of more than three pieces,
    or of one, is a name (PipelineRun.java: parseParameters). Java's `split` drops empty pieces at the end.
    """
    found: list[dict[str, str]] = []
    for part in _split(text, "|") if text.strip() else ():
        match _split(part, "="):
            case [name, value]:
                found.append({"name": name, "value": value, "resolvedValue": value})
            case [name, value, kind]:
                found.append({"name": name, "value": value, "type": kind, "resolvedValue": value})
            case _:
                found.append({"name": part})
    return found


def _parent(number: int) -> dict[str, str]:
    """The server adds it to the parameters of every run that has a parent (PipelineRun.java: parseParameters)."""
    return {"name": "parent-id", "value": str(number), "resolvedValue": str(number)}


def _split(text: str, at: str) -> list[str]:
    pieces = text.split(at)
    while len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces


def text_of(seconds: float) -> str:
    """Unix seconds as the platform prints them: UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime(DATE)[:-3]


def usual_platform(clock: Callable[[], float] = time.time) -> tuple[Platform, Run]:
    """A platform with a few types and a master run, as most tests want one."""
    platform = Platform(
        clock=clock,
        types=[_kind("m5", *size) for size in (("large", 2, 8), ("xlarge", 4, 16), ("2xlarge", 8, 32))]
        + [_kind("c5", "large", 2, 4), {**_kind("p3", "2xlarge", 8, 61), "gpu": 1, "gpuDevice": {"name": "V100"}}],
        prices={"m5.large": 0.096, "m5.xlarge": 0.192, "m5.2xlarge": 0.384, "c5.large": 0.085},
        preferences={
            "ge.autoscaling.scale.up.timeout": "45",
            "ge.autoscaling.scale.up.polling.timeout": "1200",
            "launch.system.parameters": json.dumps(
                [
                    {"name": "CP_CAP_LIMIT_MOUNTS", "type": "string", "passToWorkers": True},
                    {"name": "CP_SENSITIVE_", "type": "string", "passToWorkers": True, "prefix": True},
                    {"name": "CP_CAP_NOT_FOR_WORKERS", "type": "string"},
                ]
            ),
        },
    )
    parameters: Mapping[str, str] = {
        "CP_CAP_AUTOSCALE": "true",
        "CP_CAP_LIMIT_MOUNTS": "1,2,3",
        "CP_CAP_MOUNT_OPTIONS_4": "rw,vers=4",
        "CP_CAP_NOT_FOR_WORKERS": "secret",
        "OWN_PARAMETER": "own",
    }
    master = platform.add(
        instanceType="m5.large",
        hddSize=50,
        dockerImage="registry/library/cluster:latest",
        params={name: {"value": value, "type": "string", "required": False} for name, value in parameters.items()},
        tags={"project": "genomes"},
    )
    return platform, master


def _kind(family: str, size: str, vcpus: int, memory: float) -> dict[str, Any]:
    return {
        "sku": f"SKU{family}{size}",
        "name": f"{family}.{size}",
        "termType": "OnDemand",
        "operatingSystem": "Linux",
        "vcpu": vcpus,
        "memory": memory,
        "memoryUnit": "GiB",
        "instanceFamily": "General purpose",
        "gpu": 0,
        "regionId": 1,
    }
