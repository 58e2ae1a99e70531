"""The world of the store that an older version left in `older_store.sql`: a worker for each of its states and marks."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.model.fleet import Interruption, MachineState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.snapshot import Snapshot
from tests.core.building import LONG_AGO, NOW, AWorker, a_host, a_machine, a_snapshot, a_worker

NEWER = frozenset[Disabling]()
"""Marks that the older version did not know."""
MARKS = tuple(mark for mark in Disabling if mark not in NEWER)
"""Those that it knew. Tests fail on a new mark until it stands in `NEWER`."""
MARKED = tuple(a_worker(f"w-{mark.value}", mark=mark, empty=30.0 if mark is Disabling.IDLE else None) for mark in MARKS)
IN_SERVICE = (a_worker("w-idle-long", idle=400.0), a_worker("w-busy", used=1), a_worker("w-by-hand", states="d"))
SILENT = (a_worker("w-unheard", heard=False), a_worker("w-joining", mark=Disabling.ENROL, heard=False))
OTHERS = (
    a_worker("w-unknown-array", node_array="forgotten"),
    a_machine(None, id="i-booting", state=MachineState.PENDING),
    a_machine("w-up"),
    a_machine("w-ending", state=MachineState.STOPPING),
    a_machine("w-gone", state=MachineState.TERMINATED),
    a_machine(
        "w-retired", note=WorkerNote(LONG_AGO, retired_at=NOW - 60, host="w-retired", heard_at=LONG_AGO, opened=True)
    ),
    a_worker("w-noticed"),
    a_worker("w-twin", age=1800.0),
)
YOUNGER = a_machine("w-twin", id="i-younger", age=60.0)


def _with(worker: AWorker, **note: object) -> AWorker:
    assert worker.note is not None
    return replace(worker, note=replace(worker.note, **note))  # type: ignore[arg-type]


TIMED = (
    _with(a_worker("w-fenced", mark=Disabling.SILENT, heard=False), fenced_at=NOW - 30, silent_s=900.0),
    _with(a_worker("w-removing", mark=Disabling.IDLE, empty=60.0), retired_at=NOW - 5),
)
LEFT_OUT = a_worker("w-left-out")
"""Its provider's listing leaves it out, and its host is there."""


def older_world(memory: Memory | None = None) -> Snapshot:
    """The observation of that time; `memory`: the stored memory, or else the memory to store."""
    workers = (*MARKED, *IN_SERVICE, *SILENT, *OTHERS, YOUNGER, *TIMED)
    assert LEFT_OUT.note is not None
    absent = {LEFT_OUT.worker.id: replace(LEFT_OUT.note, missing_since=NOW - 50)}
    snapshot = a_snapshot(*workers, a_host("w-left-out"), Memory(passes=7, looked_at=NOW - 10, workers=absent))
    notice = Interruption("i-w-noticed", NOW + 90, "terminate")
    snapshot = replace(snapshot, fleet=replace(snapshot.fleet, interruptions=(notice,)))
    return snapshot if memory is None else replace(snapshot, memory=memory)
