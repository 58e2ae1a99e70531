"""Which nodes a request means: the union of its selectors."""

from __future__ import annotations

from autoscaler.api.expressions import InvalidExpression, expression
from autoscaler.api.models import NodeManagementRequest
from autoscaler.api.records import node_record
from autoscaler.api.refusal import Conflict
from autoscaler.api.view import Node, View


def selected(view: View, request: NodeManagementRequest) -> list[Node]:
    """The union of what a request's selectors name, in the order of the listing. Raises Conflict without a selector."""
    selectors = (request.ids, request.names, request.hostnames, request.ip_addresses, request.filter)
    if all(selector is None for selector in selectors):
        raise Conflict("no node is named: give ids, names, hostnames, ip_addresses or filter")
    try:
        matches = expression(request.filter) if request.filter is not None else None
    except InvalidExpression as error:
        raise Conflict(f"filter: {error}") from error
    ids, names = frozenset(request.ids or ()), frozenset(request.names or ())
    hosts = frozenset(_label(host) for host in request.hostnames or ())
    addresses = frozenset(request.ip_addresses or ())

    def meant(node: Node) -> bool:
        worker = node.seen.worker if node.seen else None
        host = (node.seen.host or node.seen.worker.name) if node.seen else None
        return (
            node.id in ids
            or node.name in names
            or (host is not None and _label(host) in hosts)
            or (worker is not None and worker.address is not None and worker.address in addresses)
            or (matches is not None and matches(node_record(view, node)))
        )

    return [node for node in view.nodes if meant(node)]


def _label(host: str) -> str:
    return host.partition(".")[0].lower()
