"""Reasons of a pass as a whole."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import Row

HEADING = "The pass as a whole"

ROWS = {
    Code.PAUSED: Row("paused[ by {by}]", short="paused", remedy="`sge-autoscaler resume`."),
    Code.CIRCUIT_BREAKER: Row(
        "{count} {what} within {window_s} are more than the {most} allowed; the circuit breaker stops launches and "
        "removals until `sge-autoscaler resume`",
        short="circuit breaker",
        remedy="Find the cause, then `sge-autoscaler resume`.",
    ),
    Code.KILLS_STOPPED: Row(
        "{count} deleted or held jobs within {window_s}, besides those of the owner with most of them, are more than "
        "the {most} allowed; no job is deleted or held until `sge-autoscaler resume`",
        short="no job is deleted or held",
        remedy="Find out why jobs of so many owners can never run, then `sge-autoscaler resume`. Launches and removals "
        "go on.",
    ),
    Code.IGNORED: Row(
        "{what} ignored: {why}", remedy="Please report what could not be read, with `sge-autoscaler record`."
    ),
    Code.JOBS_NOT_READ: Row(
        "{count} jobs could not be read: {why}[ (jobs {jobs})]",
        remedy="Nothing is launched for them. Please report it, with `sge-autoscaler record`.",
    ),
    Code.NOT_OBSERVED: Row(
        "nothing can be observed, so the autoscaler does nothing: {why}",
        remedy="`sge-autoscaler doctor` shows what does not answer; the next passes try again.",
    ),
    Code.OLD_PRICES: Row(
        "the oldest price that is used is of {day}, more than {days} days old",
        remedy="`sge-autoscaler catalog refresh`.",
    ),
    Code.BUDGET_LEVEL: Row(
        "{level} % of the budget of {owner} are spent ({budget} {currency} a month)",
        short="{level} % of the budget of {owner} spent",
        remedy="`sge-autoscaler cost` shows for what; `CP_CAP_AUTOSCALE_BUDGET_ACTION` says what happens at 100 %.",
    ),
}
