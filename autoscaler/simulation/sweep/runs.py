"""One run of a sweep: a point on a window with a seed. Its key names all that its result depends on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from autoscaler.errors import AutoscalerError
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.results import Document
from autoscaler.simulation.sweep.windows import Window, market_in

_DECIDING = ("core", "simulation")
"""Packages whose code the result of a run depends on."""
_NOT_DECIDING = "simulation/sweep"
"""What prepares and shows runs: all that they get of it is in their key."""


class OtherProgram(AutoscalerError):
    """A worker has another sge-autoscaler than the command: their results would not be of one kind."""


@dataclass(frozen=True, slots=True)
class Run:
    """Numbers of its point and window, and its seed."""

    point: int
    window: int
    seed: int
    key: str


def perform(program: str, candidate: Candidate, window: Window, conditions: Conditions, seed: int) -> Document:
    """Play it, on whichever worker. Raises OtherProgram, WorkloadError."""
    if program != program_digest():
        raise OtherProgram(
            "a worker has another sge-autoscaler than this command; install the same one there, and start the workers "
            "anew"
        )
    began, used = time.monotonic(), time.process_time()
    there = replace(conditions, seed=seed, market=market_in(conditions.market, window))
    document = try_policy(candidate, window.workload, there)
    del document["series"]
    return document | {"run_s": time.monotonic() - began, "run_cpu_s": time.process_time() - used}


def keys_of(candidates: Sequence[Candidate], windows: Sequence[Window], conditions: Conditions) -> list[list[str]]:
    """The first part of the keys of all runs, by point and window: equal ones have equal results for equal seeds."""
    policies = [
        digest(["policy", candidate.policy, candidate.rule, candidate.durations_in(conditions), candidate.buckets])
        for candidate in candidates
    ]
    played = [digest([window.jobs, window.begins, window.started_at, window.earlier]) for window in windows]
    shared = digest([program_digest(), conditions])
    return [[digest([shared, policy, window]) for window in played] for policy in policies]


@cache
def program_digest() -> str:
    """Of the code that results depend on."""
    found = hashlib.sha256()
    for package in _DECIDING:
        for name, data in sorted(_modules(resources.files("autoscaler") / package, package)):
            found.update(f"{name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()


def _modules(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    found = []
    for item in folder.iterdir():
        if f"{name}/{item.name}" == _NOT_DECIDING:
            continue
        if item.is_dir():
            found += _modules(item, f"{name}/{item.name}")
        elif item.name.endswith(".py"):
            found.append((f"{name}/{item.name}", item.read_bytes()))
    return found


def digest(value: object) -> str:
    """Equal values have equal digests, in every process."""
    return hashlib.sha256(json.dumps(_plain(value)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value as JSON knows it, without an order where it has none."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, Mapping):
        return sorted(([_plain(name), _plain(one)] for name, one in value.items()), key=json.dumps)
    if isinstance(value, Set):
        return sorted((_plain(one) for one in value), key=json.dumps)
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    raise TypeError(f"{value!r} has no digest")
