"""The commands of operators: `pause`, `resume`, `retry`, `keep`, `drain`, `stop`, `log-level`. Each is stored for the
next pass, and the answer says what changed; the same on the command line and at a listener.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler import audit
from autoscaler.core.model.fleet import FailureKind
from autoscaler.errors import NotFound, SettingsError
from autoscaler.store.overrides import LogLevel, Verb
from autoscaler.store.store import Store

OF_WORKERS = (Verb.KEEP, Verb.DRAIN)
"""Commands that name a host, and that can be cancelled one by one."""
_ENDED = {
    Verb.PAUSE: "the pause",
    Verb.STOP_DRAIN: "the stop",
    Verb.STOP_NOW: "the stop at once",
}


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """One command. `host` and `undo`: of `OF_WORKERS` only; `level`: of `LOG_LEVEL` only."""

    verb: Verb
    host: str = ""
    undo: bool = False
    level: LogLevel | None = None

    def __str__(self) -> str:
        words = self.verb.value, "--undo" if self.undo else "", self.host, self.level or ""
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of a command."""

    message: str
    changed: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The facts of the sentence."""


def carry_out(store: Store, command: OperatorCommand, *, who: str, at: float) -> Stored:
    """Store it, and tell the system's log. Raises NotFound for a host that is no worker, SettingsError for a command
    without its host.
    """
    if (command.verb in OF_WORKERS) != bool(command.host) or (command.undo and not command.host):
        raise SettingsError(f"{command.verb}: only {' and '.join(OF_WORKERS)} take a host and --undo, and need a host")
    if (command.verb is Verb.LOG_LEVEL) != (command.level is not None):
        raise SettingsError(f"{command.verb}: only {Verb.LOG_LEVEL} takes a level, and needs one")
    stored = _stored(store, command, who, at)
    if stored.changed:
        audit.changed(who, f"{command}: {stored.message}")
    return stored


def _stored(store: Store, command: OperatorCommand, who: str, at: float) -> Stored:
    with store.database.transaction():
        match command.verb:
            case Verb.PAUSE:
                return _pause(store, who, at)
            case Verb.RESUME:
                return _resume(store, who, at)
            case Verb.RETRY:
                return _retry(store, who, at)
            case Verb.KEEP | Verb.DRAIN:
                return _of_worker(store, command, who, at)
            case Verb.STOP_DRAIN | Verb.STOP_NOW:
                return _stop(store, command.verb, who, at)
            case Verb.LOG_LEVEL:
                return _log_level(store, command.level or LogLevel.SETTINGS, who, at)


def worker_named(store: Store, name: str) -> str:
    """The worker that a host name means, as the provider names it. Raises NotFound for every other host: the autoscaler
    never changes a host that is not its worker (rule 4).
    """
    ours = sorted({life.name for life in store.history.renting() if life.name})
    for own in ours:
        if own.lower() == name.lower() or own.partition(".")[0].lower() == name.partition(".")[0].lower():
            return own
    letters = [own for own in ours if _without_digits(own) != _without_digits(name)]  # another number: another machine
    close = difflib.get_close_matches(name, letters, 1, cutoff=0.6)
    meant = f"did you mean {close[0]}? Its workers" if close else "its workers"
    raise NotFound(f"this autoscaler has no worker {name}; {meant}: {', '.join(ours) or 'none'}")


def _without_digits(name: str) -> str:
    return re.sub("[0-9]+", "", name.lower())


def _pause(store: Store, who: str, at: float) -> Stored:
    new = store.overrides.ask(Verb.PAUSE, who=who, at=at)
    by = store.overrides.load().paused_by
    message = (
        "pauses from its next pass on; `sge-autoscaler resume` ends the pause" if new else f"is paused already, by {by}"
    )
    return Stored(f"the autoscaler {message}", new, {"paused_by": by})


def _resume(store: Store, who: str, at: float) -> Stored:
    memory = store.memory.load()
    ended = [_ENDED[verb] for verb in store.overrides.resume(who=who, at=at)]
    ended += ["the circuit breaker"] if memory.circuit_breaker is not None or memory.kills_stopped is not None else []
    ended += [f"the refusal of launches for {array}" for array in memory.stopped]
    refused = {each.bucket.instance_type for each in memory.backoffs if each.kind is FailureKind.PERMANENT}
    ended += [f"the refusal of {type_}" for type_ in sorted(refused)] if not memory.stopped else []
    ended += [f"protected mode of {name}" for name, array in memory.protected.items() if array.stopped is not None]
    message = f"ended: {', '.join(ended)}" if ended else "nothing was paused"
    return Stored(message, bool(ended), {"ended": ended})


def _retry(store: Store, who: str, at: float) -> Stored:
    memory = store.memory.load()
    nodes = store.retry(who=who, at=at)
    retried = [
        f"{backoff.bucket.instance_type} ({backoff.message})" for backoff in memory.backoffs if backoff.until > at
    ]
    retried += [f"{array} ({message})" for array, message in memory.stopped.items()]
    retried += [f"node {name}" for name in nodes]
    retried += [f"launches for {name}" for name, array in memory.protected.items() if array.categories]
    retried = list(dict.fromkeys(retried))
    message = f"tried again: {', '.join(retried)}" if retried else "no bucket is in backoff, and no node has failed"
    return Stored(message, bool(retried), {"again": retried})


def _of_worker(store: Store, command: OperatorCommand, who: str, at: float) -> Stored:
    """The later command wins: `keep` ends a drain, `drain` a keep. Callers of the REST API name workers by their id."""
    verb, name = command.verb, worker_named(store, command.host)
    names = (name, *(life.worker_id for life in store.history.renting() if life.name == name))

    def end(which: Verb) -> bool:
        return bool(sum(store.overrides.end(which, who=who, at=at, host=each) for each in names))

    facts = {"host": name}
    if command.undo:
        known = end(verb)
        if verb is Verb.KEEP:
            return Stored(f"{name} is no longer kept" if known else f"{name} was not kept", known, facts)
        message = f"the drain of {name} is cancelled" if known else f"no drain of {name} was requested"
        return Stored(message, known, facts)
    other = end(Verb.DRAIN if verb is Verb.KEEP else Verb.KEEP)
    new = store.overrides.ask(verb, who=who, at=at, host=name)
    if verb is Verb.KEEP:
        message = f"{name} will be kept" + ("; it is no longer to be drained" if other else "")
        return Stored(message if new else f"{name} is kept", new, facts)
    message = f"{name} will be drained" + ("; it is no longer kept" if other else "")
    return Stored(message if new else f"{name} is draining already", new, facts)


def _log_level(store: Store, level: LogLevel, who: str, at: float) -> Stored:
    new = store.overrides.set_log_level(level, who=who, at=at)
    held = "; it holds until `sge-autoscaler log-level settings`" if level is not LogLevel.SETTINGS else ""
    which = "that of the settings" if level is LogLevel.SETTINGS else level
    return Stored(f"the log level is {which} from the next pass on{held}", new, {"level": level.value})


def _stop(store: Store, verb: Verb, who: str, at: float) -> Stored:
    """`stop` ends all `keep` overrides."""
    new = store.overrides.ask(verb, who=who, at=at)
    kept = sorted(store.overrides.load().keep)
    for host in kept:
        store.overrides.end(Verb.KEEP, who=who, at=at, host=host)
    message = "the stop is stored; `sge-autoscaler status` shows which workers are left"
    message += f"; no longer kept: {', '.join(kept)}" if kept else ""
    return Stored(message, new, {"stop": verb.value, "no_longer_kept": kept})
