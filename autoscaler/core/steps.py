"""The step a single worker takes in a pass: at most one action, always a verdict, and the note that remembers it.

What pauses or brakes turns a step into waiting, and says so in the reason's trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autoscaler.core.actions import Action, Disable, Enable, Enrol, Remove, Terminate
from autoscaler.core.cluster import Complex
from autoscaler.core.life import Machine, named_in
from autoscaler.core.memory import Disabling, WorkerNote
from autoscaler.core.model import Wishes, WorkerVerdict
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.rules.per_array import KeepAlive
from autoscaler.core.rules.ruleset import NONE_KEPT


@dataclass(frozen=True, slots=True)
class Moment:
    """What every worker's step depends on besides the worker itself."""

    now: float
    wishes: Wishes
    schedule_interval: float
    retry_after: float
    """An action whose effect does not show is planned again after so long."""
    complexes: Mapping[str, Complex]
    held_back: Reason | None = None
    """Paused or braked: no worker is let go."""
    keep_alive: KeepAlive = NONE_KEPT
    """Whom rules keep."""
    asking: frozenset[str] = frozenset()
    """Ids of workers that ask to stop."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments that each group of workers has one of its own of."""

    def let_go(self, machine: Machine) -> Reason | None:
        """Why a person wants this machine gone; None: nobody does."""
        if named_in(self.wishes.keep, machine):
            return None
        if self.wishes.stop == "now":
            return because(Code.STOPPING, how=self.wishes.stop)
        if named_in(self.wishes.drain, machine):
            return because(Code.DRAINED_BY_COMMAND)
        return None

    @property
    def winding_down(self) -> Reason | None:
        """Why every worker leaves as soon as neither a running nor a waiting job needs it; None: it does not."""
        return because(Code.STOPPING, how=self.wishes.stop) if self.wishes.stop == "drain" else None

    def kept(self, machine: Machine) -> Reason | None:
        """Why this machine is never let go; None: it may be."""
        if named_in(self.wishes.keep, machine):
            return because(Code.KEPT_BY_COMMAND)
        # Only what once came up, and as long as no person wants it gone: a person cannot take a rule back.
        if self.wishes.stop is not None or named_in(self.wishes.drain, machine) or machine.note.heard_at is None:
            return None
        if machine.array is not None and machine.array.keep_alive:
            return because(Code.KEPT_BY_REQUEST, node_array=machine.array.name, sets=machine.array.keep_alive)
        if self.keep_alive.holds(machine.worker.node_array, machine.worker.name):
            return because(Code.KEPT_BY_RULES)
        return None


@dataclass(frozen=True, slots=True)
class Step:
    """What one worker does now."""

    machine: Machine
    verdict: WorkerVerdict
    note: WorkerNote
    action: Action | None = None


def keep(machine: Machine, reason: Reason, note: WorkerNote | None = None) -> Step:
    return Step(machine, _verdict(machine, "keep", reason), note or machine.note)


def wait(machine: Machine, reason: Reason, note: WorkerNote | None = None) -> Step:
    return Step(machine, _verdict(machine, "wait", reason), note or machine.note)


def enrol(machine: Machine, moment: Moment, action: Enrol) -> Step:
    note = replace(
        machine.note,
        disabled_at=moment.now,
        disabling=Disabling.ENROL,
        seen_disabled=False,
        host=action.host,
        left=False,
    )
    return Step(machine, _verdict(machine, "enrol", action.reason), note, action)


def complete(machine: Machine, moment: Moment, action: Enrol) -> Step:
    """Of a host that its own image made: our mark on it stays as old as it is."""
    note = replace(machine.note, completed_at=moment.now)
    return Step(machine, _verdict(machine, "enrol", action.reason), note, action)


def enable(machine: Machine, moment: Moment, reason: Reason) -> Step:
    """Let jobs in. Our mark stays until a look shows it enabled."""
    note = machine.note
    if note.enabled_at is not None and moment.now - note.enabled_at < moment.retry_after:
        return wait(machine, reason)
    action = Enable(machine.worker.id, machine.name, reason)
    return Step(machine, _verdict(machine, "enable", reason), replace(note, enabled_at=moment.now), action)


def disable(machine: Machine, moment: Moment, disabling: Disabling, reason: Reason, *, by_person: bool = False) -> Step:
    if moment.held_back is not None and not by_person:
        return wait(machine, reason.then(moment.held_back))
    note = replace(
        machine.note,
        disabled_at=moment.now,
        disabling=disabling,
        seen_disabled=False,
        empty_since=None,
        enabled_at=None,
        idle_since=None,
    )
    action = Disable(machine.worker.id, machine.name, reason)
    return Step(machine, _verdict(machine, "disable", reason), note, action)


def remove(machine: Machine, moment: Moment, reason: Reason, *, by_person: bool = False) -> Step:
    if moment.held_back is not None and not by_person:
        return wait(machine, reason.then(moment.held_back))
    action = Remove(machine.worker.id, machine.name, reason)
    return Step(machine, _verdict(machine, "remove", reason), replace(machine.note, retired_at=moment.now), action)


def terminate(
    machine: Machine, moment: Moment, reason: Reason, *, failure: str | None = None, by_person: bool = False
) -> Step:
    """End the machine. Only ever called for one that is no execution host."""
    note = machine.note
    if note.terminated_at is not None and moment.now - note.terminated_at < moment.retry_after:
        return wait(machine, because(Code.ENDING))
    if moment.held_back is not None and not by_person:
        return wait(machine, reason.then(moment.held_back))
    note = replace(note, retired_at=note.retired_at or moment.now, terminated_at=moment.now)
    host = machine.worker.name or note.host
    action = Terminate(machine.worker.id, host, reason, failure)
    return Step(machine, _verdict(machine, "terminate", reason), note, action)


def _verdict(machine: Machine, verdict: str, reason: Reason) -> WorkerVerdict:
    return WorkerVerdict(machine.name, machine.worker.id, verdict, reason)
