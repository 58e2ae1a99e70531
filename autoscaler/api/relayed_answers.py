"""Passes questions on to the running autoscaler of this machine, for a server without a loop: `serve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import quote, urlencode

from autoscaler.answer_client import (
    OF_CELL,
    PREFIX,
    ROLE,
    SOURCE,
    UNKNOWN_NAME,
    ServiceAddress,
    ServiceReply,
    Unanswered,
    send,
)
from autoscaler.api.answers import Asker, Reply, refusal
from autoscaler.api.principal import ON_BEHALF, Role

NOBODY = (
    "no autoscaler runs on this machine now: `systemctl start sge-autoscaler` starts the service, "
    "`sge-autoscaler run` one by hand"
)

OLDER = (
    "the autoscaler that runs is of an earlier version than this server and does not know this question: "
    "`systemctl restart sge-autoscaler` starts the version that is installed"
)


def unanswered(why: str) -> Reply:
    """The refusal when the autoscaler gave no answer at all."""
    return replace(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why, 5), unanswered=why)


@dataclass(frozen=True, slots=True)
class RelayedAnswers:
    """Any thread may call. If `serve` runs as another user than the running autoscaler, it may not name the caller for
    whom it asks, and gets what every user of this machine gets.
    """

    find: Callable[[], str]
    """Returns the socket of the running autoscaler; '': none listens."""

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        path = self.find()
        if not path:
            return unanswered(NOBODY)
        role = OF_CELL if asker.of_cell else str(Role.ADMIN if asker.manages() else Role.READER)
        headers = {ON_BEHALF: quote(asker.name, safe="@:.-_"), ROLE: role, SOURCE: asker.source}
        try:
            reply = send(ServiceAddress(path), f"{PREFIX}/{question}?{urlencode(query)}", headers)
        except Unanswered as error:
            return unanswered(str(error))
        if _does_not_know(reply):
            return refusal(HTTPStatus.NOT_IMPLEMENTED, OLDER)
        later = reply.headers.get("retry-after", "")
        return Reply(
            reply.status, (reply.body,), int(later) if later.isdecimal() else None, "x-answers" in reply.headers
        )


def _does_not_know(reply: ServiceReply) -> bool:
    """Whether the autoscaler has no such question, or the question no such parameter. This server has both: its own
    routes and views have checked that.
    """
    match reply.status:
        case HTTPStatus.NOT_FOUND:
            return "x-answers" not in reply.headers
        case HTTPStatus.BAD_REQUEST:
            return UNKNOWN_NAME.encode() in reply.body
        case _:
            return False
