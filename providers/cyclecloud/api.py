"""The calls of CycleCloud's REST API that we need, each with the statuses of its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.providers.cyclecloud.status import Status, status_from
from autoscaler.providers.interface import Refused, Unreachable
from autoscaler.providers.rest import Answer, Deadline, Rest, segment

ACCEPTED, CONFLICT = 202, 409


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of an end call for one node."""

    id: str
    error: str | None


class Api:
    """One cluster of one server. Errors are the contract's; a 409 is returned if the caller has to interpret it."""

    def __init__(self, rest: Rest, cluster: str) -> None:
        self.rest, self.cluster = rest, cluster
        self._path = f"clusters/{segment(cluster)}"

    def status(self, deadline: Deadline | None = None) -> Status:
        """State, limits, buckets and nodes, in one answer."""
        answer = self.rest.ask("GET", f"{self._path}/status", params={"nodes": "true"}, deadline=deadline)
        return status_from(answer.record(), self.cluster)

    def nodes(self, deadline: Deadline | None = None) -> list[dict[str, Any]]:
        """All nodes of the cluster: one answer, there are no pages."""
        return _nodes(self.rest.ask("GET", f"{self._path}/nodes", deadline=deadline))

    def nodes_of(self, request: str, deadline: Deadline) -> list[dict[str, Any]] | None:
        """The existing nodes of a creating request; None: the server does not know the request.

        An answer without nodes does not show that, unless it names the operation.
        """
        # The reference has both 400 and 404 for an unknown request.
        answer = self.rest.ask(
            "GET", f"{self._path}/nodes", params={"request_id": request}, accept=(200, 400, 404), deadline=deadline
        )
        if answer.status == 200:
            found = _nodes(answer)
            if found or answer.record().get("operation"):
                return found
        return [] if self._knows(request, deadline) else None

    def _knows(self, request: str, deadline: Deadline) -> bool:
        answer = self.rest.ask(
            "GET", "operations/", params={"request_id": request}, accept=(200, 400, 404), deadline=deadline
        )
        if answer.status != 200:
            return False
        operations = answer.json()
        if not isinstance(operations, list):
            raise Unreachable(f"{answer.what} answered no list of operations")
        return bool(operations)

    def create(self, request: str, node_set: Mapping[str, Any], deadline: Deadline) -> tuple[int, str] | Refused:
        """Request nodes: how many are added, and the server's message about the missing ones. Refused: a 409, either
        because it refuses the request or because the request was made before.
        """
        body = {"requestId": request, "sets": [dict(node_set)]}
        answer = self.rest.ask(
            "POST",
            f"{self._path}/nodes/create",
            body=body,
            accept=(ACCEPTED, CONFLICT),
            repeat=True,
            deadline=deadline,
        )
        if answer.status == CONFLICT:
            return Refused(f"CycleCloud refused to create nodes: {answer.words or 'no reason given'}")
        try:
            (one,) = answer.record()["sets"]
            return int(one["added"]), str(one.get("message") or "")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise Unreachable(f"{answer.what} answered without the added nodes: {error!r}") from error

    def manage(self, verb: str, ids: Sequence[str], deadline: Deadline) -> list[Ended] | Refused:
        """Request an operation on nodes: its result for each. Refused: a 409, all of it was refused."""
        answer = self.rest.ask(
            "POST",
            f"{self._path}/nodes/{segment(verb)}",
            body={"ids": list(ids)},
            accept=(ACCEPTED, CONFLICT),
            repeat=True,
            deadline=deadline,
        )
        if answer.status == CONFLICT:
            return Refused(f"CycleCloud refused to {verb} nodes: {answer.words or 'no reason given'}")
        try:
            return [_ended(node) for node in answer.record()["nodes"]]
        except (TypeError, KeyError, AttributeError) as error:
            raise Unreachable(f"{answer.what} answered without a result for each node: {error!r}") from error


def _ended(node: Mapping[str, Any]) -> Ended:
    error = None if node.get("status") == "OK" else str(node.get("error") or "no reason given")
    return Ended(str(node["id"]), error)


def _nodes(answer: Answer) -> list[dict[str, Any]]:
    found = answer.record().get("nodes")
    if not isinstance(found, list) or not all(isinstance(node, dict) for node in found):
        raise Unreachable(f"{answer.what} answered without a list of nodes")
    return found
