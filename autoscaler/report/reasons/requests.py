"""Reasons of what callers ask for: request sets and created nodes."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Requests for workers"

ROWS = {
    Code.REQUESTED: ReasonRow(
        "{sets} requested workers of {node_array}[ ({workers} workers)][ ({cores} vCPUs)][ ({groups} groups)]",
        short="requested[ by {sets}]",
        remedy="`sge-autoscaler requests` shows who requested what, and until when.",
        listed="keeping",
    ),
    Code.NODE_REQUESTED: ReasonRow("created nodes of {node_array} have no worker yet: {nodes}", short="created nodes"),
    Code.CREATED_NODE: ReasonRow(
        "it serves the created node {node}",
        short="created node",
        remedy="It stays until the node is terminated by the API that created it, or drained by hand.",
        listed="keeping",
    ),
    Code.ASKED_TO_STOP: ReasonRow("it asked to stop, and nothing needs it", short="asked to stop"),
    Code.NO_SUCH_NODE_ARRAY: ReasonRow(
        "{by} requests workers of {node_array}, which is no node array",
        remedy="Request an array of the settings, or create it: `Dynamic: True`.",
    ),
    Code.TYPES_NOT_OFFERED: ReasonRow(
        "the provider offers nothing of what is requested for {node_array}: {requested}[; requested by {sets}]; "
        "requests get no worker of it, jobs get what the settings allow",
        remedy="Ask again with a `MachineType` that `sge-autoscaler buckets --all` lists, at a price type that it has "
        "there (`Interruptible`).",
    ),
}
