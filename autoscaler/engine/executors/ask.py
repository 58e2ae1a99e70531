"""Ask: let Grid Engine itself say whether jobs could ever run on hosts of a given kind. Its answers become evidence."""

from __future__ import annotations

from collections import Counter

from autoscaler.core.actions import AskGridEngine
from autoscaler.core.model.evidence import Answer, Finding
from autoscaler.engine.execution import ExecutionContext
from autoscaler.store.journal import Outcome, Result


def ask(action: AskGridEngine, context: ExecutionContext) -> Outcome:
    """A missing answer is stored as well: a later plan then knows that and when Grid Engine was asked."""
    asked = context.scheduler.ask([question.job for question in action.questions], action.probe_hosts)
    at = context.clock()
    findings = [
        Finding(question.job, question.fingerprint, at, *asked.answers[question.job]) for question in action.questions
    ]
    context.store.evidence.find(findings)
    counts = Counter(finding.answer for finding in findings)
    summary = ", ".join(f"{counts[answer]} {word}" for answer, word in _WORDS if counts[answer])
    why = next((finding.said for finding in findings if finding.answer is Answer.NONE), "")
    trouble = [f"no answer: {why}" if why else "", f"probe hosts stay for now: {asked.left}" if asked.left else ""]
    answered = counts[Answer.NONE] < len(findings)
    return Outcome(action, Result.DONE if answered else Result.FAILED, "; ".join(filter(None, (summary, *trouble))))


_WORDS = ((Answer.UNSATISFIABLE, "impossible"), (Answer.SATISFIABLE, "possible"), (Answer.NONE, "unanswered"))
