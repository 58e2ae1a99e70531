"""Reasons of constraints: why a node was or was not chosen."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Rules"

ROWS = {
    Code.LACKS_RESOURCE: ReasonRow(
        "it has no {resource}", remedy="Give it one by a default resource, or correct the name."
    ),
    Code.RESOURCE_SHORT: ReasonRow("of {resource} it has {left} left of {whole}, and {requested} is requested"),
    Code.RESOURCE_DIFFERS: ReasonRow("its {resource} is {value}, and {requested} is requested"),
    Code.NO_ALTERNATIVE: ReasonRow(
        "it meets no alternative of {count}", remedy="The lines below say for each alternative why not."
    ),
    Code.SEVERAL_ALTERNATIVES: ReasonRow(
        "it meets several alternatives where only one may be met: {alternatives}",
        remedy="Use `or` where the first that fits may be taken.",
    ),
    Code.MEETS_EXCLUDED: ReasonRow("it meets a constraint that must not hold: {excluded}"),
    Code.NODE_IN_USE: ReasonRow("it is requested exclusively, but {jobs} runs on it"),
    Code.NODE_TAKEN: ReasonRow("{job} uses it exclusively"),
    Code.IN_PLACEMENT_GROUP: ReasonRow("it is in the placement group {placement_group}, and must be in none"),
    Code.IN_NO_PLACEMENT_GROUP: ReasonRow("it is in no placement group, and must be in one"),
    Code.NEVER: ReasonRow("{message}", remedy="The message is the rule's own."),
    Code.SHARED_SHORT: ReasonRow(
        "of {resource}, which all share, {left} of {whole} are left, and {requested} is requested",
        remedy="Provide more of it, or run fewer jobs at a time: more workers would not help.",
    ),
    Code.SHARED_DIFFERS: ReasonRow(
        "the shared resource {resource} is {value}, and the constraint requires {requested}"
    ),
    Code.NONE_LEFT: ReasonRow("no more of it is available"),
    Code.RULES_FORBID: ReasonRow(
        "the rules allow no worker that is available ({places})",
        remedy="Change the rules at these places, or allow types that they take; `sge-autoscaler buckets "
        "--constraint` shows the types that a rule allows.",
        owner_remedy="Change the request as the rule's message says, or ask an administrator.",
    ),
    Code.AGAINST_RULES: ReasonRow("not {node}"),
    Code.ONLY_RULES: ReasonRow(
        "only rules forbid it, and Grid Engine would run it: left alone",
        remedy="Change the rules, or give the job to Grid Engine on a host of your own.",
    ),
    Code.KEPT_BY_RULES: ReasonRow(
        "rules keep it alive",
        short="kept by rules",
        remedy="Take it out of `keep_alive` in the rules.",
        listed="keeping",
    ),
    Code.KEPT_BY_REQUEST: ReasonRow(
        "{sets} requested that workers of {node_array} are kept alive",
        short="kept[ for {sets}]",
        remedy="It becomes a normal worker once these sets lapse, set `KeepAlive: false` for the node array, or are "
        "ended: `sge-autoscaler requests --end SET`. `sge-autoscaler drain HOST` ends this worker sooner.",
        listed="keeping",
    ),
}
