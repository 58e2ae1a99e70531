"""Every observation of one worker: provider state × execution host × what the store remembers of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from autoscaler.core.model.cluster import ExecutionHost, HostJob, QueueInstance
from autoscaler.core.model.fleet import BucketKey, FailureKind, Interruption, MachineState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.snapshot import Snapshot
from tests.core.building import LARGE, NOW, a_host, a_machine, a_snapshot, a_worker, jobs

OURS = "i-w1"
LISTED = (*MachineState, "left out", "left out and gone")
"""The machine's state; the store may know that an unlisted machine is gone."""
NAMES = ("w1", None)
HOSTS = (
    "none",
    "bare",
    "unqueued",
    "open",
    "closed",
    "partly",
    "busy",
    "closed and busy",
    "reserved",
    "error",
    "alarm",
)
AGES = (20.0, 300.0, 4000.0)
"""Seconds: just now, a while ago, longer than any limit here."""
MARKS = (None, *Disabling)
NOTICES = ("", "terminate", "rebalance")


@dataclass(frozen=True)
class Observation:
    """One of them. `None` of a time: the store holds none."""

    listed: MachineState | str = MachineState.RUNNING
    name: str | None = "w1"
    host: str = "open"
    heard: bool = True
    known: bool = True
    """Whether the store holds a note of it."""
    age: float = 4000.0
    mark: Disabling | None = None
    disabled: float = 300.0
    seen_disabled: bool = True
    empty: float | None = None
    idle: float | None = None
    silent: float | None = None
    joined: bool = True
    """Whether its execd has reported before."""
    retired: float | None = None
    fenced: float | None = None
    enabled: float | None = None
    ended: float | None = None
    notice: str = ""
    array: str = "execute"
    enrols_itself: bool = False
    failure: FailureKind | None = None
    taken: str = ""
    """Another machine of its name that is `newer` or `older`."""
    others_heard: bool = True
    override: str = ""
    vouched: bool = False
    """Another worker reports, so that the network between qmaster and workers is fine."""
    waiting: int = 0
    """This many jobs wait."""


def snapshot_of(seen: Observation) -> Snapshot:
    """A snapshot of that one worker, another machine of its name, and a persistent host."""
    listed = seen.listed if isinstance(seen.listed, MachineState) else None
    made = a_machine(seen.name, age=seen.age, state=listed or MachineState.RUNNING, id=OURS, node_array=seen.array)
    made = replace(made, worker=replace(made.worker, failure=seen.failure), note=_note(seen) if seen.known else None)
    host = _host(seen)
    things: list[Any] = [a_host("h1", heard=seen.others_heard, states="" if seen.others_heard else "u")]
    memory = Memory(passes=7, observed_at=NOW - 10)
    if listed is not None:
        things.append(made)
    elif made.note is not None:
        memory = replace(memory, workers={OURS: made.note})
    if host is not None:
        things.append(host)
    if seen.taken:
        age = seen.age / 2 if seen.taken == "newer" else seen.age * 2
        older = WorkerNote(NOW - age, host="w1", joined_at=NOW - age / 2) if seen.taken == "older" else None
        things.append(a_machine("w1", age=age, id="i-other", note=older))
    if seen.vouched:
        things.append(a_worker("w9", used=1))
    if seen.override == "drain":
        things.append(Overrides(drain=frozenset({"w1"})))
    if seen.override == "keep":
        things.append(Overrides(keep=frozenset({"w1"})))
    if seen.override.startswith("stop"):
        things.append(Overrides(stop=seen.override.partition(" ")[2]))
    if seen.waiting:
        things.append(jobs(seen.waiting))
    snapshot = a_snapshot(*things, memory, enrols_itself=seen.enrols_itself)
    interruptions = (Interruption(OURS, NOW + 60, seen.notice),) if seen.notice and listed is not None else ()
    return replace(snapshot, fleet=replace(snapshot.fleet, interruptions=interruptions))


def _ago(seconds: float | None) -> float | None:
    return None if seconds is None else NOW - seconds


def _note(seen: Observation) -> WorkerNote:
    return WorkerNote(
        first_seen=NOW - seen.age,
        idle_since=_ago(seen.idle),
        disabled_at=None if seen.mark is None else NOW - seen.disabled,
        disabling=seen.mark,
        seen_disabled=seen.seen_disabled and seen.mark is not None,
        retired_at=_ago(seen.retired),
        joined_at=NOW - seen.age / 2 if seen.joined else None,
        host="w1" if seen.host != "none" or seen.joined else None,
        empty_since=_ago(seen.empty),
        enabled_at=_ago(seen.enabled),
        terminated_at=_ago(seen.ended),
        missing_since=None if isinstance(seen.listed, MachineState) else NOW - seen.age / 2,
        bucket=BucketKey("m5.large", node_array=seen.array),
        silent_s=seen.silent,
        fenced_at=_ago(seen.fenced),
        gone=seen.listed == "left out and gone",
        vcpus=LARGE.vcpus,
    )


def _host(seen: Observation) -> ExecutionHost | None:
    heard, unheard = seen.heard, "" if seen.heard else "u"
    match seen.host:
        case "none":
            return None
        case "bare":
            return ExecutionHost("w1", (), heard=heard, consumables={"slots": "0"})
        case "unqueued":
            return ExecutionHost("w1", (), heard=heard, consumables={"slots": "2"})
        case "partly":
            more = QueueInstance("other.q", "w1", 2, 0, 0, unheard)
            return a_host("w1", heard=heard, states=f"d{unheard}", more=(more,))
        case "reserved":
            return a_host("w1", heard=heard, states=f"d{unheard}", reserved=1)
        case _:
            states = {"closed": "d", "closed and busy": "d", "error": "E", "alarm": "a"}.get(seen.host, "")
            host = a_host("w1", heard=heard, states=f"{states}{unheard}")
            if "busy" not in seen.host:
                return host
            job = HostJob(9000, "", "r", 1, "ann", started=NOW - 60)
            return replace(host, instances=(replace(host.instances[0], jobs=(job,), used=1),))
