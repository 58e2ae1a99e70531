"""One action of every kind, with every field that JSON may show."""

from __future__ import annotations

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Numbered,
    ProbeHost,
    Question,
    Reimage,
    Release,
    Remove,
    Renumber,
    Reschedule,
    Restart,
    TellWaiting,
    Terminate,
)
from autoscaler.core.model.fleet import FailureKind
from autoscaler.core.model.reasons import Code, because
from tests.report.plans import launch

WHY = because(Code.IDLE, idle_s=660.0, limit_s=600.0)
ONE_OF_EACH: tuple[Action, ...] = (
    launch(2),
    Enrol("i-1", "w1", "execute", "main.q", "@allhosts", 8, (("h_vmem", "32G"),), because(Code.BOOTED)),
    Enable("i-1", "w1", because(Code.JOINED)),
    Disable("i-1", "w1", WHY),
    Remove("i-1", "w1", because(Code.EMPTY)),
    Terminate("i-1", None, because(Code.BOOT_TIMEOUT), FailureKind.BOOT),
    Restart("i-1", "w1", because(Code.NODE_OPERATION, by="anna", operation="restart")),
    Reimage("i-1", "w1", because(Code.NODE_OPERATION, by="anna", operation="reimage")),
    AskGridEngine((Question(12, "as asked"),), (ProbeHost("main.q", 8, (("arch", "lx-amd64"),)),), WHY),
    Annotate(("12",), WHY),
    TellWaiting(("12", "13"), because(Code.CAPPED, cap="max_workers")),
    Hold(("12", "13.1-9:2"), WHY),
    Release(("12",), WHY),
    Kill(("12",), WHY, lost=True),
    Reschedule(("12",), "i-1", "w1", WHY, forced=True),
    Renumber("main.q", (Numbered("w1", 7), Numbered("w2", 3)), because(Code.HOSTS_ORDERED, workers=2)),
)
