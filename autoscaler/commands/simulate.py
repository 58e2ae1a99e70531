"""`sge-autoscaler simulate`: try settings on recorded or generated jobs before paying for them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoscaler.commands._duration import Duration
from autoscaler.commands._output import csv_option, json_option, print_json
from autoscaler.commands._simulated import (
    TODAY,
    Progress,
    SimulationOptions,
    Stopper,
    assumed,
    candidate_of,
    compared,
    conditions_of,
    in_force,
    largest_host,
    refuse_unwritable,
    scheduler_of_cell,
    simulated_alike,
    workload_of,
    write_page,
)
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from autoscaler.simulation.past import Past
    from autoscaler.simulation.results import Document

_WEIGHT = "Of the scheduler, by `qconf -ssconf`. Default: as Grid Engine is shipped; with --last, as here."
_OPTIONS = {"queue_sort_method": "fixed_order"}
"""By what `qconf -ssconf` calls it: the option that is named otherwise."""


@click.command("simulate")
@click.argument("workload", required=False)
@click.option(
    "--last",
    type=Duration(),
    help="Instead of WORKLOAD: what this cell's jobs and workers did since, by accounting and the autoscaler's store. "
    "The settings in force are simulated first and compared with it.",
)
@click.option(
    "--compare",
    default=TODAY,
    show_default=True,
    help="What to try, separated by commas: 'today' (these settings), a settings file, NAME=VALUE (today with one "
    "setting changed; several with '+'), or a rule to compare with: static:N, static:N:TYPE, one-per-job, karpenter, "
    "cloud-pipeline, oracle.",
)
@click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A catalogue file with prices. Default: that of the settings.",
)
@click.option(
    "--market",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with prices over time, shortages, quotas and spot interruptions.",
)
@click.option("--jobs", "most", type=click.IntRange(min=1), help="Only the first so many jobs.")
@click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    help="Begin after so many jobs. Estimates of run times know those of them that had ended by then.",
)
@click.option("--boot", type=Duration(), default="120s", show_default=True, help="From an order to a running machine.")
@click.option("--join", type=Duration(), default="10s", show_default=True, help="From then to its first load report.")
@click.option(
    "--spread", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="Spread of these times (lognormal)."
)
@click.option("--failing", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of failed boots.")
@click.option("--billing-minimum", type=Duration(), help="Least time that is billed. Default: as the settings have it.")
@click.option("--billing-step", type=Duration(), help="Billing goes in such steps. Default: as the settings have it.")
@click.option("--schedule-interval", type=Duration(), default="15s", show_default=True, help="Of the scheduler.")
@click.option("--weight-priority", type=click.FloatRange(0), default=1.0, show_default=True, help=_WEIGHT)
@click.option("--weight-urgency", type=click.FloatRange(0), default=0.1, show_default=True, help=_WEIGHT)
@click.option("--weight-waiting-time", type=click.FloatRange(0), default=0.0, show_default=True, help=_WEIGHT)
@click.option("--fixed-order", is_flag=True, help="Hosts are filled in one order (queue_sort_method seqno).")
@click.option(
    "--one-host",
    type=click.IntRange(min=1),
    help="Jobs of up to so many slots have all of them on one host, larger ones spread. Default: the largest type that "
    "every tried policy may rent. Where accounting names a parallel environment, that decides.",
)
@click.option(
    "--memory",
    "--consumable",
    "consumables",
    multiple=True,
    help="Count requests of this consumable, each slot. For several: several times. A worker has of it what the "
    "settings give it: memory, GPUs. Of a SWF the first one is the memory.",
)
@click.option("--user-slots", type=click.IntRange(min=1), help="A quota: at most so many slots of one user at once.")
@click.option(
    "--dependencies/--no-dependencies", default=False, help="Whether predecessors of a SWF have to end first."
)
@click.option("--seed", type=int, default=1, show_default=True, help="For all that is drawn by chance.")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained HTML page.")
@csv_option(help="Print CSV, a line for each policy.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    workload: str | None,
    last: float | None,
    compare: str,
    page: Path | None,
    as_csv: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Simulate what settings would have cost, and how long jobs would have waited.

    WORKLOAD is a Standard Workload Format file (.swf, .swf.gz), Grid Engine's accounting file (any other file), or
    'generated:JOBS:SEED:DAYS', of which SEED and DAYS may be left out. The same function decides as in the service;
    Grid Engine and cloud are played in memory, at list prices. No cell, no cloud and no state is touched.
    """
    from autoscaler.report import SCHEMA
    from autoscaler.simulation.candidates import refuse_unplayable, try_policy
    from autoscaler.simulation.past import backtest_of
    from autoscaler.simulation.scheduler_settings import as_configured
    from autoscaler.simulation.tables import backtest_block, comparison_blocks, csv_text

    if (workload is None) == (last is None):
        raise SettingsError("name either a WORKLOAD or --last, as --last 30d")
    options = SimulationOptions(**given)
    if last is not None and (options.skip or options.most is not None):
        raise SettingsError(
            "--last compares with all that happened, and --jobs and --skip would simulate a part of it; leave them "
            "out, and name a shorter time"
        )
    given_delays = [f"--{name}" for name in ("boot", "spread", "failing") if _is_given(name)]
    if last is not None and given_delays:
        raise SettingsError(
            f"--last takes boots and failures as they were here, and {', '.join(given_delays)} would replace them; "
            "leave that out, or name an accounting file as WORKLOAD"
        )
    refuse_unwritable(page)
    invocation = invocation if last is None else invocation.as_running
    options = in_force(invocation, options)
    conditions, past = conditions_of(options), None
    if last is not None:
        past = _past(invocation, last)
        scheduler = {
            name: value for name, value in scheduler_of_cell().items() if not _is_given(_OPTIONS.get(name, name))
        }
        conditions = replace(
            conditions,
            cell=as_configured(conditions.cell, scheduler),
            delays=past.delays(conditions.delays),
            durations=past.durations,
        )
    candidates = [candidate_of(invocation, name, options) for name in compared(compare)]
    if not candidates:
        raise SettingsError("--compare names nothing to try; leave it out to try the settings of today")
    if past is not None and candidates[0].name != TODAY:
        candidates = [candidate_of(invocation, TODAY, options), *(each for each in candidates if each.name != TODAY)]
    for candidate in candidates:
        refuse_unplayable(candidate, conditions)
    # One workload for all: what one policy could place on one host, all are asked to.
    one_host = options.one_host or min(largest_host(one.policy, one.buckets_in(conditions)) for one in candidates)
    same = simulated_alike(candidates)
    documents: list[Document] = []
    assumptions: list[str] = []
    with Stopper() as stopper:
        for candidate in candidates:
            if stopper.asked and documents:
                break
            read = workload_of(workload or "", options, one_host, past)
            shown = Progress(read)
            documents.append(try_policy(candidate, read, conditions, shown.show, stopper.watch))
            shown.clear()
            assumptions = assumptions or [
                *read.said,
                *assumed(conditions, candidates, options),
                *same,
            ]  # the same for all policies
    backtest = None if past is None else backtest_of(past, documents[0], conditions.billing)
    if page is not None:
        write_page(page, documents, assumptions, backtest)
    if as_json:
        of_past = {} if backtest is None else {"backtest": backtest}
        print_json({"schema": SCHEMA, "policies": documents, "assumptions": assumptions, **of_past})
    elif as_csv:
        sys.stdout.write(csv_text(documents))
    else:
        from autoscaler.report.blocks import print_blocks

        before = () if backtest is None else (backtest_block(backtest, documents[0]["currency"]),)
        print_blocks((*before, *comparison_blocks(documents, assumptions, backtest)))
    return stopper.exit_code


def _is_given(name: str) -> bool:
    """Whether an option of the command in hand was given, and is no default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def _past(invocation: Invocation, last: float) -> Past:
    from autoscaler.commands._observation import reading_store
    from autoscaler.simulation.past import durations_of, read_past, until_ordered
    from autoscaler.simulation.run import PassDurations

    now = float(int(time.time()))  # accounting has whole seconds, and so have the events of qmaster
    with reading_store(invocation) as store:
        listed = store.history.lifetimes(now - last)
        lives = until_ordered(listed, store.journal.end_times([life.worker_id for life in listed]))
        given = PassDurations(invocation.settings.process.polling_delay)
        durations = durations_of(store.measures.load(), given, store.journal.plans_of_one_kind(now - last))
    return read_past(invocation.common / "accounting", lives, now - last, now, durations)
