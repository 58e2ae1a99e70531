"""Reasons of groups of workers: launched, kept and removed as a whole."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "Groups of workers"

ROWS = {
    Code.GROUP_LAUNCHED: ReasonRow(
        "group {group}: {workers} {type}",
        owner_remedy="Nothing needs to be done: it can start once the workers have come.",
    ),
    Code.GROUP_TOO_LARGE: ReasonRow(
        "a group of {workers} {type} is launched whole or not at all",
        remedy="Lift the limit that is named, ask for smaller groups, or allow larger types.",
        owner_remedy="Ask for fewer slots (`qalter -pe PE SLOTS JOB`), or ask an administrator.",
    ),
    Code.GROUP_LOST_WORKERS: ReasonRow("group {group} has only {have} of its workers left"),
    Code.GROUP_INCOMPLETE: ReasonRow(
        "its group {group} runs no job before all its workers are ready: {ready} of {want} are",
        remedy="`explain` the workers of its group that are not ready yet.",
    ),
    Code.GROUP_NOT_COMPLETED: ReasonRow(
        "its group {group} has {have} of {want} workers and cannot be completed[: {message}]",
        remedy="Name further instance types (`MachineType`), or ask for smaller groups.",
    ),
    Code.GROUP_NOT_NEEDED: ReasonRow("its group {group} is not complete, and no longer needed"),
    Code.GROUP_COMPLETE: ReasonRow(
        "its group {group} is complete without it",
        remedy="It came late and was replaced. To wait longer: `CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT`.",
    ),
    Code.GROUP_IN_USE: ReasonRow("a job runs in its group {group}"),
    Code.GROUP_LEAVES: ReasonRow(
        "its group {group} leaves as a whole", remedy="`sge-autoscaler keep HOST` keeps the group of an idle worker."
    ),
    Code.GROUP_STAYS: ReasonRow(
        "its group {group} leaves as a whole, and {others} has not asked to stop recently, and has not been idle for "
        "long enough",
        remedy="It stops when all workers of its group have asked within 10 min of each other.",
    ),
}
