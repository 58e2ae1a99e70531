"""Reasons of a pass as a whole."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import ReasonRow

HEADING = "The pass as a whole"

ROWS = {
    Code.PAUSED: ReasonRow(
        "paused[ by {by}]",
        short="paused",
        remedy="`sge-autoscaler resume`.",
        owner_remedy="Wait until an administrator lets it go on.",
    ),
    Code.CIRCUIT_BREAKER: ReasonRow(
        "{count} {what} within {window_s} are more than the {most} allowed; the circuit breaker stops launches and "
        "removals until an administrator resumes",
        short="circuit breaker",
        remedy="Find the cause, then `sge-autoscaler resume`.",
        owner_remedy="Ask an administrator.",
    ),
    Code.KILLS_STOPPED: ReasonRow(
        "{count} deleted or held jobs within {window_s}, besides those of the owner with most of them, are more than "
        "the {most} allowed; no job is deleted or held until an administrator resumes",
        short="no job is deleted or held",
        remedy="Find out why jobs of so many owners can never run, then `sge-autoscaler resume`. Launches and removals "
        "go on.",
    ),
    Code.IGNORED: ReasonRow(
        "{what} ignored: {why}", remedy="Please report what could not be read, with `sge-autoscaler record`."
    ),
    Code.JOBS_NOT_READ: ReasonRow(
        "{count} jobs could not be read: {why}[ (jobs {jobs})]",
        remedy="Nothing is launched for them. Please report it, with `sge-autoscaler record`.",
    ),
    Code.NOT_OBSERVED: ReasonRow(
        "nothing can be observed, so the autoscaler does nothing: {why}",
        remedy="`sge-autoscaler doctor` shows what does not answer; the next passes try again.",
    ),
    Code.OLD_PRICES: ReasonRow(
        "the oldest price that is used is of {day}, more than {days} days old",
        remedy="`sge-autoscaler catalog refresh`.",
    ),
    Code.BUDGET_LEVEL: ReasonRow(
        "{level} % of the budget of {owner} are spent ({budget} {currency} a month)",
        short="{level} % of the budget of {owner} spent",
        remedy="`sge-autoscaler cost` shows for what; `CP_CAP_AUTOSCALE_BUDGET_ACTION` says what happens at 100 %.",
    ),
}
