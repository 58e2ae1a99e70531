"""Why a job waits, for people: the innermost cause as one sentence, and what can be done about it, by its owner and by
an administrator. Every reader of a verdict on a job shows this (`core.outcome.innermost` chooses the cause).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.report.reasons.remedies import remedy_for
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.wording import text

_OF_JOBS = MappingProxyType(
    {
        Code.DEMAND: "workers are launched now for jobs such as it",
        Code.MIN_WORKERS_FLOOR: "workers are launched now",
        Code.GROUP_LAUNCHED: "a group of workers is launched now for jobs such as it",
    }
)
"""Sentences of causes that speak of launches elsewhere."""


REQUESTS_THAT_FIT = frozenset({Code.WOULD_FIT_WITH_REQUEST, Code.WOULD_FIT_WITH_SETTING})
SETTINGS_THAT_FIT = frozenset({Code.WOULD_FIT_WITH_SETTING, Code.SETTING_NEEDED_TOO})
THAT_FIT = REQUESTS_THAT_FIT | SETTINGS_THAT_FIT
"""Links that say with what the job would fit: they are remedies."""


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """The innermost cause for which a job waits."""

    cause: Reason
    sentence: str
    owner_remedy: str
    """What the job's owner can do: no setting, and no command that only administrators may run."""
    remedy: str
    """What an administrator can do besides; '': nothing."""


def waiting_cause(reason: Reason) -> WaitingCause:
    """The cause in the reason of a verdict on a waiting job. A request or a setting with which the job would fit is
    part of the remedies.
    """
    cause = cause_of(reason)
    row = REASONS[cause.code]
    return WaitingCause(
        cause,
        sentence_of(cause),
        _joined(_request_that_fits(reason), row.owner_remedy),
        _joined(_settings_that_fit(reason), remedy_for(cause.code, dict(cause.facts))),
    )


def sentence_of(cause: Reason) -> str:
    """The sentence of an innermost cause."""
    return _OF_JOBS.get(cause.code) or text(cause)


def cause_part(reason: Reason) -> dict[str, Any]:
    """The same as JSON."""
    found = waiting_cause(reason)
    return {
        "code": found.cause.code.value,
        "text": found.sentence,
        "owner_remedy": found.owner_remedy,
        "remedy": found.remedy,
    }


def _request_that_fits(reason: Reason) -> str:
    """`Request …`, with which an allowed worker could run it; '': there is none."""
    requests = (dict(link.facts).get("request") for link in reason.trail if link.code in REQUESTS_THAT_FIT)
    return next((f"Request `{request}`." for request in requests if request), "")


def _settings_that_fit(reason: Reason) -> str:
    """`Set … to …`, with which a worker could run it; '': there are none."""
    links = [link for link in reason.trail if link.code in SETTINGS_THAT_FIT]
    said = " ".join(text(link.only({"limit_setting", "to"})) for link in links)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
