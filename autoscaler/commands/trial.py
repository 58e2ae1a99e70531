"""`sge-autoscaler trial`: watch a cell without changing it, then say what the autoscaler would have done there."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoscaler.commands._duration import Duration
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands._simulated import (
    MEMORY_COMPLEXES,
    Progress,
    SimulationOptions,
    Stopper,
    assumed,
    candidate_of,
    compared,
    conditions_of,
    in_force,
    largest_host,
    policy_of,
    refuse_unknown_consumable,
    tried,
    write_page,
)
from autoscaler.commands._varied_settings import varied_settings
from autoscaler.commands.context import Invocation
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.errors import AutoscalerError, LockHeld, SettingsError
from autoscaler.report.wording import count
from autoscaler.report.wording import duration as words

if TYPE_CHECKING:
    from autoscaler.core.model.fleet import Bucket
    from autoscaler.core.policy import Policy
    from autoscaler.engine.loop import Loop
    from autoscaler.engine.trial_keeper import TrialKeeper
    from autoscaler.providers.interface import Provider
    from autoscaler.settings import Settings
    from autoscaler.simulation.candidates import Candidate, Conditions
    from autoscaler.simulation.results import Document
    from autoscaler.simulation.run import Simulation
    from autoscaler.simulation.trial_report import TrialReport
    from autoscaler.simulation.watched import Scenario, Watched
    from autoscaler.store.lock import CellKey
    from autoscaler.store.trial import TrialTable

USUAL = 7 * 86_400.0
"""Seconds that a trial lasts."""
TOLD_EVERY = 3600.0
"""Seconds between two lines about a trial that goes on, where they do not go to a terminal."""
TIMEOUT = 30.0
"""Seconds for the cell to say which complexes it has."""
OVER = "the trial is over"
SERVED = "an autoscaler serves this cell now, which ends the trial"


@click.command("trial")
@click.option("--for", "lasts", type=Duration(), help="How long to watch, from its beginning.  [default: 7d]")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="The same, in days.")
@click.option("--report", "only_report", is_flag=True, help="Report what was watched so far, and watch no further.")
@click.option("--anew", is_flag=True, help="Forget what was watched of this cell, and begin another trial.")
@click.option("--compare", default="", help="What to simulate besides, as `simulate --compare` has it.")
@click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A catalogue file with prices. Default: that of the settings.",
)
@click.option(
    "--core-price",
    type=click.FloatRange(min=0),
    help="What a core of your own hosts costs an hour. Default: a host costs what the cheapest offer of its size does.",
)
@click.option("--boot", type=Duration(), default="120s", show_default=True, help="From an order to a running machine.")
@click.option(
    "--memory",
    "--consumable",
    "consumables",
    multiple=True,
    help="Count requests of this consumable, each slot. For several: several times.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained HTML page.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    lasts: float | None,
    days: float | None,
    only_report: bool,
    anew: bool,
    compare: str,
    catalog: Path | None,
    core_price: float | None,
    boot: float,
    consumables: tuple[str, ...],
    page: Path | None,
    as_json: bool,
) -> int:
    """Watch this cell, change nothing, and report what the autoscaler would have done.

    It observes as the service does, and decides with these settings, at the prices of a catalogue. The settings have to
    name an instance type. It needs no cloud, no credentials, and no rights in Grid Engine but to look. When the time is
    over, or after Ctrl-C, what it saw is simulated: with your hosts alone, with workers beside them, with workers
    alone, and with other settings.

    Ended in another way, it goes on when it is started again.
    """
    _refuse_served(invocation)
    if lasts is not None and days is not None:
        raise SettingsError("--for and --days say the same: leave one out")
    if page is not None and not os.access(page if page.exists() else page.parent, os.W_OK):
        raise SettingsError(f"cannot write {page}: choose a place that is yours to write")
    options = in_force(invocation, SimulationOptions(catalog=catalog, boot=boot, consumables=consumables))
    trial = _Trial(invocation, options, core_price, compared(compare))
    trial.check()
    with _opened(trial.file, alone=not only_report) as table:
        if not only_report and not trial.watch(table, days * 86_400 if days is not None else lasts, anew=anew):
            _tell("stopped: started again, it goes on")
            return 0
        report, assumptions = trial.report(table)
    said, blocks = report.sentences(), list(report.blocks())
    if page is not None:
        write_page(page, report.documents, assumptions, title="Trial", said=said, blocks=blocks)
    if as_json:
        from autoscaler.report import SCHEMA

        print_json({"schema": SCHEMA, **report.document(assumptions)})
        return 0
    from autoscaler.report.blocks import print_blocks
    from autoscaler.simulation.tables import comparison_blocks

    print_blocks((*comparison_blocks(report.documents, assumptions, said=said), *blocks))
    return 0


def _tell(text: str, *, ends_line: bool = True) -> None:
    """Print for whoever looks on. A terminal that was closed meanwhile hinders nothing."""
    with contextlib.suppress(OSError):
        if ends_line:
            echo(text, err=True)
        else:
            sys.stderr.write(text)
            sys.stderr.flush()


def _refuse_served(invocation: Invocation) -> None:
    if invocation.running is not None:
        raise LockHeld(
            f"an autoscaler serves this cell already (process {invocation.running.pid}): "
            "`sge-autoscaler simulate --last 7d` compares what it did with other settings"
        )


@contextlib.contextmanager
def _opened(file: Path, *, alone: bool) -> Iterator[TrialTable]:
    """The record of this cell's trial. `alone`: no other process may watch. Raises LockHeld, StateNotKept,
    SettingsError.
    """
    from autoscaler.store.lock import try_lock
    from autoscaler.store.trial import TrialTable

    table = TrialTable.open(file)
    if not alone:
        try:
            yield table
        finally:
            table.close()
        return
    try:
        lock = try_lock(file.with_suffix(".trial-lock"))
        if lock is None:
            raise LockHeld("another process watches this cell already: end it with Ctrl-C, and it reports")
        try:
            yield table
        finally:
            os.close(lock)
    finally:
        table.close()


def _unreadable(accounting: Path) -> str:
    """Why accounting cannot be read; '': it can."""
    from autoscaler.sge.accounting import files_of

    files = [file for file in files_of(accounting) if file.exists()]
    if not files:
        return f"there is no {accounting}"
    closed = [file for file in files if not os.access(file, os.R_OK)]
    return f"{closed[0]} cannot be read" if closed else ""


class _Watching(Invocation):
    """The same call as a dry run, with a price list in place of a cloud."""

    def __init__(self, invocation: Invocation, catalog: Path | None) -> None:
        super().__init__({**invocation.environ, "CP_CAP_AUTOSCALE_DRY_RUN": "true"})
        self._catalog = catalog

    def provider(self, *, make_tag: bool = False) -> Provider:
        from autoscaler.providers.price_list import PriceList

        return PriceList(self._catalog)

    @cached_property
    def settings_in_force(self) -> Settings:
        """No platform is asked for its preferences."""
        return self.settings


@dataclass(frozen=True)
class _Trial:
    """One trial: what is watched, and what is simulated of it."""

    invocation: Invocation
    options: SimulationOptions
    core_price: float | None
    compared: Sequence[str]

    @property
    def file(self) -> Path:
        return self.invocation.store_file.with_suffix(".trial")

    @cached_property
    def policy(self) -> Policy:
        return policy_of(self.invocation, {})

    @cached_property
    def conditions(self) -> Conditions:
        return conditions_of(self.options)

    def check(self) -> None:
        """Tell what is wrong now, and not in a week. Raises SettingsError."""
        self.offers()
        known = self._countable() if self.options.consumables else []
        for name in self.options.consumables:
            refuse_unknown_consumable(name, known)
        for name in self.compared:
            candidate_of(self.invocation, name, self.options)

    def _countable(self) -> list[str]:
        """Complexes of the cell that may be counted; as shipped where it does not answer, as for a report of what was
        watched before.
        """
        from autoscaler.process import ReadOnlyRunner, SystemRunner
        from autoscaler.sge.admin import Administrator
        from autoscaler.sge.complex_table import read_complexes
        from autoscaler.simulation.watched import is_countable

        try:
            table = Administrator(ReadOnlyRunner(SystemRunner()), timeout=TIMEOUT).show("-sc")
            return [entry.name for entry in read_complexes(table).values() if is_countable(entry)]
        except AutoscalerError:
            return list(MEMORY_COMPLEXES)

    def offers(self) -> list[Bucket]:
        """What these settings may rent. Raises WorkloadError if that is nothing."""
        from autoscaler.simulation.candidates import allowed_offers

        return allowed_offers(self.policy, self.conditions.buckets)

    # -- watching ------------------------------------------------------------------------------------------------------

    def watch(self, table: TrialTable, lasts: float | None, *, anew: bool) -> bool:
        """Watch until the time is over or Ctrl-C; False: something else ended it, so it goes on later."""
        now, times = time.time(), table.times
        if times is None or anew:
            table.begin(now, now + (USUAL if lasts is None else lasts))
        elif lasts is not None:
            table.end_at(times.began + lasts)
        times = table.times
        assert times is not None
        if times.ends <= now:
            echo("the trial of this cell is over, and reported again; --anew begins another one", err=True)
            return True
        types = ", ".join(dict.fromkeys(offer.type.name for offer in self.offers()))
        echo(
            f"watching cell {self.invocation.cell.title} for {words(times.ends - now)}, and changing nothing; Ctrl-C "
            f"ends it and reports. These settings scale queue {self.policy.queues[0].name} with {types}, at most "
            f"{self.policy.node_arrays[0].limits.max_workers} workers.",
            err=True,
        )
        if why := _unreadable(self.invocation.common / "accounting"):
            echo(f"{why}: ends of jobs are known to a pass, and jobs of less may be missing", err=True)
        stopped = self._watch(table, times.ends)
        if stopped in (SERVED, "SIGINT"):
            table.end_at(time.time())
        return stopped in (OVER, SERVED, "SIGINT")

    def _watch(self, table: TrialTable, ends: float) -> str:
        """Make passes; returns what ended them."""
        from autoscaler.commands.serving import Around, serving
        from autoscaler.engine.trial_keeper import TrialKeeper

        queue = self.policy.queues[0].name
        keeper = TrialKeeper(table, queue, ends, lambda: loop.stop(OVER))
        watching = _Watching(self.invocation, self.options.catalog)
        with serving(watching, around=Around(lambda _: keeper)) as loop, loop.signals(reloads=False):
            loop.observer.ask_scheduler = None  # qmaster notes who asks about jobs of others
            teller = _Teller(keeper, ends, queue)
            loop.attach(teller)
            loop.attach(_EndedByService(self.invocation.cell, loop))
            loop.run()
            teller.clear()
            if loop.stopped_by == SERVED:
                _tell(SERVED)
            return loop.stopped_by

    # -- the report ----------------------------------------------------------------------------------------------------

    def report(self, table: TrialTable) -> tuple[TrialReport, list[str]]:
        """Simulate what was watched. Ctrl-C ends that, too, and what is done is reported. Raises WorkloadError."""
        from autoscaler.simulation.trial_report import ALONE, BESIDE, HOSTS, Changed, TrialReport
        from autoscaler.simulation.watched import Scenario, read_watched

        queue = self.policy.queues[0].name
        watched = read_watched(table, self.invocation.common / "accounting", queue)
        price = watched.price(self.conditions.buckets, self.core_price)
        largest = largest_host(self.policy, self.conditions.buckets)
        report = TrialReport(watched, price, self.invocation.zone)
        only_hosts = Scenario(HOSTS, watched.largest, watched.all_slots)
        with _Scenarios(self, watched) as scenarios:
            beside = Scenario(BESIDE, max(largest, watched.largest))
            if watched.all_slots:
                scenarios.add(report, tried(HOSTS, self.invocation, {}, self.options, rule="static:0"), only_hosts)
                scenarios.add(report, tried(BESIDE, self.invocation, {}, self.options), beside)
            alone = Scenario(ALONE, largest, keeps_hosts=False)
            scenarios.add(report, tried(ALONE, self.invocation, {}, self.options), alone)
            told = report.told
            base = told["policy"] if told is not None else ALONE
            report.moves = scenarios.runs[base].measures if base in scenarios.runs else None
            for name in self.compared:
                candidate = candidate_of(self.invocation, name, self.options)
                own = max(largest_host(candidate.policy, candidate.buckets_in(self.conditions)), watched.largest)
                scenarios.add(report, candidate, Scenario(name, own))
            for varied in varied_settings(self.invocation):
                candidate = tried(f"{varied.setting}={varied.tried}", self.invocation, varied.environ, self.options)
                document = scenarios.document(candidate, alone if base == ALONE else beside)
                if document is not None:
                    report.changed.append(Changed(varied.setting, varied.now, varied.tried, document))
        return report, scenarios.assumptions


class _Scenarios:
    """Simulates one scenario after the other, until Ctrl-C."""

    def __init__(self, trial: _Trial, watched: Watched) -> None:
        self._trial, self._watched = trial, watched
        self._stopper = Stopper()
        self._assumptions: dict[str, None] = {}
        self.runs: dict[str, Simulation] = {}
        """By the name of the policy."""

    def __enter__(self) -> _Scenarios:
        self._stopper.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopper.__exit__(*raised)

    @property
    def assumptions(self) -> list[str]:
        return list(self._assumptions)

    def add(self, report: TrialReport, candidate: Candidate, scenario: Scenario) -> None:
        document = self.document(candidate, scenario)
        if document is not None:
            report.documents.append(document)

    def document(self, candidate: Candidate, scenario: Scenario) -> Document | None:
        """One run; None: Ctrl-C ended the report before."""
        from autoscaler.simulation.accounting import AccountingOptions
        from autoscaler.simulation.candidates import try_policy
        from autoscaler.simulation.trial_report import with_hosts
        from autoscaler.simulation.watched import UNBOUNDED

        if self._stopper.asked:
            return None
        trial, watched = self._trial, self._watched
        counted = trial.conditions.cell.consumables
        read = watched.workload(AccountingOptions(UNBOUNDED, requests=counted), scenario)
        array = trial.policy.node_arrays[0]
        numbers = frozenset(filter(None, (array.gpu_complex, array.cpu_complex)))
        changes = watched.host_changes(counted, numbers) if scenario.keeps_hosts else ()
        conditions = replace(trial.conditions, cell=replace(trial.conditions.cell, host_changes=changes))
        self._assumptions |= dict.fromkeys([*read.said, *assumed(conditions, [candidate], trial.options)])
        shown = Progress(read)

        def started(run: Simulation) -> None:
            self.runs[candidate.name] = run
            self._stopper.watch(run)

        document = try_policy(candidate, read, conditions, shown.show, started)
        shown.clear()
        price = watched.price(conditions.buckets, trial.core_price) if scenario.keeps_hosts else 0.0
        return with_hosts(document, price)


class _EndedByService(PassListener):
    """Ends a trial when an autoscaler begins to serve its cell: workers are no hosts of one's own."""

    title = "the end of the trial"
    in_dry_run = True

    def __init__(self, cell: CellKey, loop: Loop) -> None:
        self._cell, self._loop = cell, loop

    def begins(self) -> None:
        from autoscaler.store.lock import running

        if running(self._cell) is not None:
            self._loop.stop(SERVED)


class _Teller(PassListener):
    """Says how a trial goes: on a terminal in one line that changes, else in a line an hour."""

    title = "the lines about the trial"
    in_dry_run = True

    def __init__(self, keeper: TrialKeeper, ends: float, queue: str) -> None:
        self._keeper, self._ends, self._queue = keeper, ends, queue
        self._line = sys.stderr.isatty()
        self._told: float | None = None

    def passed(self, done: Pass) -> None:
        cluster, now = done.snapshot.cluster, done.snapshot.now
        if self._told is None and self._queue not in cluster.queues:
            self.clear()
            names = ", ".join(sorted(cluster.queues)) or "none"
            _tell(f"this cell has no queue {self._queue}: jobs of all queues count ({names})")
        if not self._line and self._told is not None and now - self._told < TOLD_EVERY:
            return
        self._told = now
        keeper = self._keeper
        text = (
            f"{count(len(keeper.jobs_seen), 'job')} seen, {count(keeper.wait_now, 'task')} waiting, "
            f"{count(keeper.hosts_now, 'host')}; {words(max(0.0, self._ends - now))} left"
        )
        if self._line:
            _tell(f"\r\x1b[K{text}", ends_line=False)
        else:
            _tell(text)

    def clear(self) -> None:
        if self._line:
            _tell("\r\x1b[K", ends_line=False)
