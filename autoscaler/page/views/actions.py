"""Actions for those who may: each with a question that says what will happen. They go the way of the commands, with the
same journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from autoscaler.engine.operator_commands import OF_WORKERS, OperatorCommand, carry_out, worker_named
from autoscaler.errors import NotFound, SettingsError
from autoscaler.page.reader import Unavailable
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.wording import count, few
from autoscaler.store.overrides import Verb


@dataclass(frozen=True, slots=True)
class Offered:
    """One action: its name, and what will happen."""

    name: str
    question: str
    undo_name: str = ""
    undo_question: str = ""


OFFERED: Mapping[Verb, Offered] = MappingProxyType(
    {
        Verb.PAUSE: Offered(
            "Pause",
            "From its next pass on the autoscaler launches nothing, and removes only workers that are drained. Jobs go "
            "on, and workers go on costing. It holds until somebody resumes.",
        ),
        Verb.RESUME: Offered(
            "Resume",
            "Ends a pause, a stop, the circuit breaker, protected mode, and the refusal of instance types. The "
            "autoscaler launches and removes again from its next pass on.",
        ),
        Verb.RETRY: Offered(
            "Retry",
            "Ends every backoff: what failed is launched again in the next pass, for waiting jobs and created nodes.",
        ),
        Verb.DRAIN: Offered(
            "Drain",
            "No further job starts on this worker. When its jobs have ended, it is removed from Grid Engine, and its "
            "machine is terminated. A keep of it ends.",
            "Cancel the drain",
            "The worker is not drained any more. If it is not removed yet, it serves again.",
        ),
        Verb.KEEP: Offered(
            "Keep",
            "This worker stays, and costs, even if it is idle, until the keep is cancelled. A drain of it ends.",
            "Cancel the keep",
            "The worker may leave again when it is idle.",
        ),
    }
)


def actions(looking: Looking) -> Shown:
    """What may be done, and what is in force."""
    status = looking.document("status")
    values = {
        "status": status,
        "acts": looking.viewer.acts(),
        "offered": [(verb.value, one) for verb, one in OFFERED.items() if verb not in OF_WORKERS],
        "of_workers": [(verb.value, one) for verb, one in OFFERED.items() if verb in OF_WORKERS],
    }
    return Shown("actions.html", "Actions", "actions", values)


def question(looking: Looking) -> Shown:
    """Asks before an action, of what is there: whether it would change anything, and which jobs run on a worker."""
    command = read_command(looking.query)
    if not looking.viewer.acts():
        return refused(looking)
    if command is None:
        return _trouble("There is no such action.", 404)
    jobs = ""
    if command.host:
        try:
            command = replace(command, host=worker_named(looking.operations.store, command.host))
        except NotFound as error:
            return _trouble(str(error), 404)
        jobs = "" if command.undo or command.verb is not Verb.DRAIN else _jobs_on(looking, command.host)
    values = _values(command) | {"jobs": jobs, "no_change": _no_change(looking.document("status"), command)}
    return Shown("question.html", _name(command), "actions", values, live=False)


def _jobs_on(looking: Looking, host: str) -> str:
    """Which jobs a drain of this worker waits for."""
    try:
        document: Any = looking.document("explain", {"subject": host})
    except Unavailable:
        return "Which jobs run on it is not known now."
    jobs = sorted({str(job) for instance in document.get("instances") or () for job in instance["jobs"]})
    return f"{count(len(jobs), 'job')} on it now: {few(jobs)}." if jobs else "No job runs on it now."


def _no_change(status: Mapping[str, Any], command: OperatorCommand) -> str:
    """Why the command would change nothing; '': it may change something."""
    if command.verb is Verb.PAUSE and status["paused"]:
        return f"The autoscaler is paused already, by {status['paused']['by']}."
    if command.verb not in OF_WORKERS:
        return ""
    done = {Verb.DRAIN: "drained", Verb.KEEP: "kept"}[command.verb]
    stands = command.host in status[command.verb.value]
    if command.undo:
        return "" if stands else f"{command.host} is not {done} by command."
    return f"{command.host} is {done} by command already." if stands else ""


def act(looking: Looking, form: Mapping[str, str]) -> Shown:
    """Carry an action out. Call it for who may act only."""
    command = read_command(form)
    if command is None:
        return _trouble("There is no such action.", 404)
    operations = looking.operations
    try:
        stored = carry_out(operations.store, command, who=looking.viewer.principal.by, at=operations.clock())
    except NotFound as error:
        return _trouble(str(error), 404)
    except SettingsError as error:
        return _trouble(str(error), 400)
    operations.ring()
    values = _values(command) | {"message": stored.message, "changed": stored.changed, "late": operations.warning()}
    return Shown(
        "done.html", f"{_name(command)}: {'done' if stored.changed else 'no change'}", "actions", values, live=False
    )


def refused(looking: Looking) -> Shown:
    return _trouble(
        f"{looking.viewer.name} may look, but not act: only an admin may, and whom the cell knows as a manager of Grid "
        "Engine",
        403,
    )


def read_command(given: Mapping[str, str]) -> OperatorCommand | None:
    """The command of a form or a link; None: there is none such."""
    name = given.get("verb", "")
    verb = next((each for each in OFFERED if each.value == name), None)
    host = given.get("host", "").strip()[:300]
    if verb is None or (verb in OF_WORKERS) != bool(host):
        return None
    return OperatorCommand(verb, host, undo=given.get("undo") == "true" and verb in OF_WORKERS)


def _name(command: OperatorCommand) -> str:
    offered = OFFERED[command.verb]
    return f"{offered.undo_name if command.undo else offered.name}{f' {command.host}' if command.host else ''}"


def _values(command: OperatorCommand) -> dict[str, Any]:
    offered = OFFERED[command.verb]
    return {
        "command": command,
        "name": _name(command),
        "text": offered.undo_question if command.undo else offered.question,
    }


def _trouble(text: str, status: int) -> Shown:
    return Shown("trouble.html", "Not done", "actions", {"text": text}, status, live=False)
