"""The table of transitions: every step that a rule may take with a worker, and the phase that follows.

The rules themselves stand where their procedure does: joining/joining.py, scale_down/scale_down.py (motives),
scale_down/leaving.py, recovery/recovery.py. A test walks every observation through them and finds the row of each step
here; docs/worker-phases.md is made of this table and of those in workers/phases.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.actions import Action, Disable, Enable, Enrol, Hold, Kill, Remove, Reschedule, Terminate
from autoscaler.core.model.reasons import Code
from autoscaler.core.workers.phases import Phase, Procedure


@dataclass(frozen=True, slots=True)
class Transition:
    """A row: what a rule may do with a worker of these phases, and the phase that follows."""

    procedure: Procedure | None
    """None: nobody decides it; it is what an observation shows."""
    rule: str
    """The function or motive of that procedure that takes the step; '' where an observation shows it."""
    sources: frozenset[Phase]
    when: str
    action: type[Action] | None = None
    """None: it waits."""
    to: Phase | None = None
    """None: it stays in its phase."""
    reasons: tuple[Code, ...] = ()
    """Codes of the step's reason; empty where it is that of a verdict on its group, of demand, or of a request."""


_P, _R = Phase, Procedure
_COMING = frozenset({_P.BOOTING, _P.JOINING})
_WITH_HOST = frozenset({_P.JOINING, _P.READY, _P.DRAINING})
_READY = frozenset({_P.READY})
_LISTED = frozenset(Phase) - {_P.ORDERED, _P.GONE}
_BY_A_PERSON = (Code.STOPPING, Code.DRAINED_BY_COMMAND)
_DRAINS = (Code.EMPTY,)


def _one(phase: Phase) -> frozenset[Phase]:
    return frozenset({phase})


SHOWN: tuple[Transition, ...] = (
    Transition(None, "", _one(_P.ORDERED), "Its provider lists the machine.", to=_P.BOOTING),
    Transition(
        None, "", _one(_P.ORDERED), "No listing shows it for `order_grace`: its order no longer counts.", to=_P.GONE
    ),
    Transition(None, "", _one(_P.BOOTING), "It is up and has a name, or its image enrolled it.", to=_P.JOINING),
    Transition(None, "", _one(_P.JOINING), "An observation shows it enabled and reporting.", to=_P.READY),
    Transition(None, "", _one(_P.JOINING), "A person removed its execution host before it was up.", to=_P.BOOTING),
    Transition(None, "", _one(_P.DRAINING), "An observation shows it enabled: our mark is removed.", to=_P.READY),
    Transition(
        None, "", _one(_P.LEAVING), "An observation shows it enabled or busy: its removal is cancelled.", to=_P.READY
    ),
    Transition(None, "", _one(_P.READY), "Its execution host is not there any more.", to=_P.JOINING),
    Transition(None, "", _LISTED - {_P.ENDING}, "Its provider says that the machine is stopping.", to=_P.ENDING),
    Transition(None, "", _LISTED, "Its provider says that the machine has ended.", to=_P.GONE),
    Transition(None, "", _one(_P.GONE), "No listing shows it and its execution host is removed: it is forgotten."),
)
"""What becomes of a worker without a step of ours."""

_JOINING_ROWS: tuple[Transition, ...] = (
    Transition(
        _R.JOINING, "give_back_for_group", _COMING, "Its group leaves or is whole without it.", Terminate, _P.LEAVING
    ),
    Transition(_R.JOINING, "give_back_for_group", _COMING, "The same, as an execution host.", Disable, _P.DRAINING),
    Transition(
        _R.JOINING, "give_back_for_group", _COMING, "The same, and a person keeps it or the autoscaler is paused."
    ),
    Transition(
        _R.JOINING,
        "give_back_unneeded",
        _COMING,
        "A person drains it, or nothing will need it.",
        Terminate,
        _P.LEAVING,
        _BY_A_PERSON,
    ),
    Transition(
        _R.JOINING,
        "give_back_unneeded",
        _one(_P.BOOTING),
        "The same, and a host has its name already.",
        Disable,
        _P.DRAINING,
        _BY_A_PERSON,
    ),
    Transition(
        _R.JOINING,
        "give_back_unneeded",
        _one(_P.JOINING),
        "The same, and its host is enabled.",
        Disable,
        None,
        _BY_A_PERSON,
    ),
    Transition(
        _R.JOINING, "give_back_unneeded", _one(_P.JOINING), "The same, and it was drained.", Remove, _P.LEAVING, _DRAINS
    ),
    Transition(_R.JOINING, "give_back_unneeded", _COMING, "The same, and it is busy, kept, or not seen empty twice."),
    Transition(
        _R.JOINING,
        "give_up",
        _COMING,
        "It is failed or overdue, and no execution host.",
        Terminate,
        _P.LEAVING,
        (Code.BOOT_FAILED, Code.BOOT_TIMEOUT, Code.JOIN_TIMEOUT),
    ),
    Transition(
        _R.JOINING,
        "give_up",
        _one(_P.JOINING),
        "It is overdue, and its host is enabled.",
        Disable,
        None,
        (Code.JOIN_TIMEOUT, Code.INCOMPLETE_TIMEOUT),
    ),
    Transition(
        _R.JOINING,
        "give_up",
        _one(_P.BOOTING),
        "It is overdue, and a host has its name already.",
        Disable,
        _P.DRAINING,
        (Code.BOOT_TIMEOUT,),
    ),
    Transition(_R.JOINING, "give_up", _one(_P.JOINING), "It is overdue and drained.", Remove, _P.LEAVING, _DRAINS),
    Transition(_R.JOINING, "give_up", _COMING, "It is overdue, and busy, kept, or not seen empty twice."),
    Transition(
        _R.JOINING,
        "await_name",
        _one(_P.BOOTING),
        "Its name is that of an older machine's execution host.",
        reasons=(Code.NAME_STILL_USED,),
    ),
    Transition(_R.JOINING, "hold_for_group", _one(_P.JOINING), "It is joined, and its group incomplete."),
    Transition(_R.JOINING, "stand_closed", _one(_P.JOINING), "It is joined, and a person closed its queue."),
    Transition(
        _R.JOINING,
        "stand_closed",
        _one(_P.JOINING),
        "The same, empty for `idle_timeout`, and nothing else needs it.",
        Disable,
        _P.DRAINING,
    ),
    Transition(_R.JOINING, "enable_joined", _one(_P.JOINING), "It is joined.", Enable, _P.READY, (Code.JOINED,)),
    Transition(_R.JOINING, "enable_joined", _one(_P.JOINING), "It was enabled a moment ago.", reasons=(Code.JOINED,)),
    Transition(
        _R.JOINING, "complete_host", _one(_P.JOINING), "Its image left it incomplete.", Enrol, None, (Code.INCOMPLETE,)
    ),
    Transition(
        _R.JOINING, "complete_host", _one(_P.JOINING), "It was completed a moment ago.", reasons=(Code.INCOMPLETE,)
    ),
    Transition(
        _R.JOINING,
        "enrol_when_up",
        _one(_P.JOINING),
        "It is no execution host, or an incomplete one.",
        Enrol,
        None,
        (Code.BOOTED,),
    ),
    Transition(
        _R.JOINING,
        "enrol_when_up",
        _COMING,
        "It is not up, has no name, or was enrolled a moment ago.",
        reasons=(Code.BOOTING, Code.JOINING),
    ),
    Transition(
        _R.JOINING, "wait_for_execd", _COMING, "qmaster has no load report from it yet.", reasons=(Code.JOINING,)
    ),
)

_SCALE_DOWN_ROWS: tuple[Transition, ...] = (
    Transition(
        _R.SCALE_DOWN,
        "StoppedNow",
        _READY,
        "A person stops all (`stop --now`).",
        Disable,
        _P.DRAINING,
        (Code.STOPPING,),
    ),
    Transition(
        _R.SCALE_DOWN, "Drained", _READY, "A person drains it.", Disable, _P.DRAINING, (Code.DRAINED_BY_COMMAND,)
    ),
    Transition(
        _R.SCALE_DOWN,
        "Quarantined",
        _READY,
        "It seems broken.",
        Disable,
        _P.DRAINING,
        (Code.BLACK_HOLE, Code.UNHEALTHY, Code.INSTANCE_IN_ERROR),
    ),
    Transition(_R.SCALE_DOWN, "Swapped", _READY, "A stronger worker replaces it.", Disable, _P.DRAINING, (Code.SWAP,)),
    Transition(
        _R.SCALE_DOWN,
        "Advised",
        _READY,
        "Its cloud advises to move away, and nothing needs it.",
        Disable,
        _P.DRAINING,
        (Code.REBALANCE_RECOMMENDED,),
    ),
    Transition(
        _R.SCALE_DOWN, "Stopped", _READY, "A person stops all, no job needs it.", Disable, _P.DRAINING, (Code.STOPPING,)
    ),
    Transition(_R.SCALE_DOWN, "GroupLeaves", _READY, "Its group leaves.", Disable, _P.DRAINING),
    Transition(_R.SCALE_DOWN, "AskedToStop", _READY, "It asks to stop.", Disable, _P.DRAINING, (Code.ASKED_TO_STOP,)),
    Transition(
        _R.SCALE_DOWN, "IdleTooLong", _READY, "It is idle for `idle_timeout`.", Disable, _P.DRAINING, (Code.IDLE,)
    ),
    *(
        Transition(_R.SCALE_DOWN, motive, _READY, "The same, and the autoscaler is paused or braked.")
        for motive in ("Quarantined", "Swapped", "Advised", "GroupLeaves", "AskedToStop")
    ),
    Transition(_R.SCALE_DOWN, "IdleTooLong", _READY, "Something keeps it, or it has not been idle for long enough."),
)

_LEAVING_ROWS: tuple[Transition, ...] = (
    Transition(
        _R.LEAVING,
        "end_removed",
        _one(_P.LEAVING),
        "It is no execution host any more.",
        Terminate,
        None,
        (Code.REMOVED_FROM_GRID_ENGINE,),
    ),
    Transition(
        _R.LEAVING, "end_removed", _one(_P.LEAVING), "Its end was requested recently, or the autoscaler is paused."
    ),
    Transition(_R.LEAVING, "enable_kept", _one(_P.DRAINING), "It has to stay after all.", Enable, _P.READY),
    Transition(_R.LEAVING, "enable_kept", _one(_P.DRAINING), "The same; it was enabled a moment ago."),
    Transition(_R.LEAVING, "enable_needed", _one(_P.DRAINING), "It is needed again.", Enable, _P.READY),
    Transition(_R.LEAVING, "enable_needed", _one(_P.DRAINING), "The same; it was enabled a moment ago."),
    Transition(
        _R.LEAVING, "drain_further", frozenset({_P.DRAINING, _P.LEAVING}), "Its disabling does not show.", Disable, None
    ),
    Transition(
        _R.LEAVING,
        "drain_further",
        frozenset({_P.DRAINING, _P.LEAVING}),
        "It is drained.",
        Remove,
        _P.LEAVING,
        _DRAINS,
    ),
    Transition(
        _R.LEAVING,
        "drain_further",
        frozenset({_P.DRAINING, _P.LEAVING}),
        "It is busy, kept, or not seen empty twice.",
    ),
)

_UNLISTED = frozenset({_P.JOINING, _P.READY, _P.DRAINING, _P.LEAVING, _P.ENDING})
_RECOVERY_ROWS: tuple[Transition, ...] = (
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Its host is enabled.", Disable),
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Its jobs are to be held before they start again.", Hold),
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Its jobs may start again elsewhere.", Reschedule),
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Its jobs may not, and the settings delete these.", Kill),
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Nothing is on its host any more.", Remove),
    Transition(_R.RECOVERY, "remove_gone", _one(_P.GONE), "Its jobs are in question, or its host was just removed."),
    Transition(
        _R.RECOVERY,
        "confirm_end",
        _UNLISTED,
        "Unlisted for `order_grace`, and silent too long or its name is another's.",
        Terminate,
        _P.ENDING,
        (Code.UNLISTED_AND_SILENT,),
    ),
    Transition(_R.RECOVERY, "confirm_end", _UNLISTED, "Unlisted, and it may run on; or a person keeps it."),
    Transition(_R.RECOVERY, "watch_fenced", _one(_P.ENDING), "It is still silent.", Terminate, None, (Code.FENCED,)),
    Transition(
        _R.RECOVERY,
        "watch_fenced",
        _one(_P.ENDING),
        "It reports, `order_grace` after its end was requested.",
        Enable,
        _P.READY,
        (Code.FENCE_CANCELLED,),
    ),
    Transition(_R.RECOVERY, "watch_fenced", _one(_P.ENDING), "Its end takes its time."),
    Transition(_R.RECOVERY, "close_ending", _one(_P.ENDING), "Its host is enabled.", Disable, None, (Code.ENDING,)),
    Transition(
        _R.RECOVERY, "close_ending", _one(_P.ENDING), "Its end hangs: silent too long.", Terminate, None, (Code.FENCED,)
    ),
    Transition(_R.RECOVERY, "close_ending", _one(_P.ENDING), "Its end takes its time."),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _COMING,
        "Interrupted, and no execution host.",
        Terminate,
        _P.LEAVING,
        (Code.INTERRUPTED,),
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _WITH_HOST,
        "Interrupted, and enabled.",
        Disable,
        _P.READY,
        (Code.INTERRUPTED,),
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _READY,
        "Its notice was withdrawn, and a person drains it.",
        Disable,
        _P.DRAINING,
        _BY_A_PERSON,
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _READY,
        "Its notice was withdrawn, it is silent and enabled, and stays.",
        Disable,
        _P.READY,
        (Code.SILENT,),
    ),
    Transition(
        _R.RECOVERY, "leave_before_interruption", _WITH_HOST, "Interrupted and drained.", Remove, _P.LEAVING, _DRAINS
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _WITH_HOST,
        "Silent too long; or taken in seconds, and all that it runs may start again.",
        Terminate,
        _P.ENDING,
        (Code.FENCED, Code.TERMINATED_BEFORE_INTERRUPTION),
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _READY,
        "Its notice was withdrawn, and it reports.",
        Enable,
        _P.READY,
        (Code.INTERRUPTION_WITHDRAWN,),
    ),
    Transition(
        _R.RECOVERY,
        "leave_before_interruption",
        _COMING | _WITH_HOST,
        "Its jobs may end before it does; or a step was planned a moment ago.",
    ),
    Transition(_R.RECOVERY, "fence_cut_off", _one(_P.DRAINING), "Cut off.", Terminate, _P.ENDING, (Code.FENCED,)),
    Transition(
        _R.RECOVERY, "fence_cut_off", _one(_P.DRAINING), "Cut off, and a person keeps it or the autoscaler is paused."
    ),
    Transition(
        _R.RECOVERY, "watch_silent", _READY, "Silent for a while, and enabled.", Disable, _P.READY, (Code.SILENT,)
    ),
    Transition(
        _R.RECOVERY,
        "watch_silent",
        _READY,
        "Silent, and a person drains it.",
        Disable,
        _P.DRAINING,
        _BY_A_PERSON,
    ),
    Transition(
        _R.RECOVERY,
        "watch_silent",
        _READY,
        "The same, and that we disabled it while it was silent does not show yet.",
        Disable,
        _P.READY,
        _BY_A_PERSON,
    ),
    Transition(
        _R.RECOVERY,
        "watch_silent",
        _READY,
        "Cordoned, and it reports again.",
        Enable,
        _P.READY,
        (Code.LOAD_REPORTS_AGAIN,),
    ),
    Transition(_R.RECOVERY, "watch_silent", _READY, "Silent too long, and drained.", Remove, _P.LEAVING, _DRAINS),
    Transition(_R.RECOVERY, "watch_silent", _READY, "Silent too long, and busy.", Terminate, _P.ENDING, (Code.FENCED,)),
    Transition(_R.RECOVERY, "watch_silent", _READY, "Silent, and it may report again."),
)

_SET_ASIDE_ROWS: tuple[Transition, ...] = (
    Transition(
        _R.SET_ASIDE,
        "drain_by_command",
        _COMING | {_P.LEAVING},
        "A person drains it; its array is unknown.",
        Terminate,
        _P.LEAVING,
        (Code.DRAINED_BY_COMMAND,),
    ),
    Transition(
        _R.SET_ASIDE,
        "drain_by_command",
        _READY,
        "A person drains it: by hand disabled, or its array unknown.",
        Disable,
        _P.DRAINING,
        (Code.DRAINED_BY_COMMAND,),
    ),
    Transition(
        _R.SET_ASIDE,
        "drain_by_command",
        _READY,
        "The same, and its provider says that the machine is down for good.",
        Disable,
        _P.ENDING,
        (Code.DRAINED_BY_COMMAND,),
    ),
    Transition(
        _R.SET_ASIDE,
        "drain_by_command",
        _LISTED,
        "The same, and its disabling does not show.",
        Disable,
        None,
        (Code.DRAINED_BY_COMMAND,),
    ),
    Transition(
        _R.SET_ASIDE, "drain_by_command", _LISTED - {_P.ENDING}, "The same, and drained.", Remove, _P.LEAVING, _DRAINS
    ),
    Transition(
        _R.SET_ASIDE, "drain_by_command", _one(_P.ENDING), "The same, after it was fenced.", Remove, None, _DRAINS
    ),
    Transition(_R.SET_ASIDE, "drain_by_command", _LISTED, "The same, and it is busy or not seen empty twice."),
    Transition(
        _R.SET_ASIDE,
        "stand_aside",
        _LISTED,
        "Only a person decides on it.",
        reasons=(Code.DISABLED_BY_HAND, Code.NAME_TAKEN, Code.UNKNOWN_NODE_ARRAY),
    ),
)

TRANSITIONS: tuple[Transition, ...] = (
    *_JOINING_ROWS,
    *_SCALE_DOWN_ROWS,
    *_LEAVING_ROWS,
    *_RECOVERY_ROWS,
    *_SET_ASIDE_ROWS,
    *SHOWN,
)
"""Every way from a phase to the next, by procedure, in the order in which its rules are read."""
