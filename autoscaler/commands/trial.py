"""`sge-autoscaler trial`: watch a cell without changing it, then say what the autoscaler would have done there."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
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
    refuse_unwritable,
    scheduler_of_cell,
    shown_by_qconf,
    tried,
    write_sections,
)
from autoscaler.commands._varied_settings import VariedSetting, varied_settings
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
    from autoscaler.report.blocks import Block
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
    refuse_unwritable(page)
    options = in_force(invocation, SimulationOptions(catalog=catalog, boot=boot, consumables=consumables))
    trial = _Trial(invocation, options, core_price, compared(compare))
    trial.check()
    with _opened(trial.files, alone=not only_report) as tables:
        if not only_report and not trial.watch(tables, days * 86_400 if days is not None else lasts, anew=anew):
            _tell("stopped: started again, it goes on")
            return 0
        reports, assumptions = trial.reports(tables)
    if page is not None:
        _write_page(page, reports, assumptions)
    if as_json:
        from autoscaler.report import SCHEMA

        documents = [report.document(assumptions) for report in reports]
        several = {"queues": [{"queue": one.queue, **each} for one, each in zip(reports, documents, strict=True)]}
        print_json({"schema": SCHEMA, **(documents[0] if len(documents) == 1 else several)})
        return 0
    from autoscaler.report.blocks import print_blocks

    print_blocks(_blocks(reports, assumptions))
    return 0


def _blocks(reports: Sequence[TrialReport], assumptions: Sequence[str]) -> Iterator[Block]:
    """Of each queue; what all rests on stands behind the last one."""
    from autoscaler.report.blocks import Block
    from autoscaler.simulation.tables import comparison_blocks

    for number, report in enumerate(reports, start=1):
        if report.queue:
            yield Block(f"Queue {report.queue}")
        *first, rests_on = comparison_blocks(report.documents, assumptions, said=report.sentences())
        if len(reports) == 1:
            yield from (*first, rests_on, *report.blocks())
        else:
            yield from (*first, *report.blocks(), *([rests_on] if number == len(reports) else []))


def _assumed_of_all(said: Mapping[str, Sequence[str]]) -> list[str]:
    """What the simulations of all queues rest on; what does not hold for all stands behind the queue's name."""
    if len(said) == 1:
        return list(*said.values())
    of_all = [each for each in next(iter(said.values())) if all(each in others for others in said.values())]
    own = [f"{queue}: {each}" for queue, sentences in said.items() for each in sentences if each not in of_all]
    return [*of_all, *own, "Queues are simulated one by one: a host of several has its slots and its price in each."]


def _write_page(page: Path, reports: Sequence[TrialReport], assumptions: Sequence[str]) -> None:
    """One page for all queues. Raises SettingsError if that is not possible."""
    from autoscaler.simulation.page import Section

    sections = [
        Section(
            report.documents, report.sentences(), list(report.blocks()), title=report.queue and f"Queue {report.queue}"
        )
        for report in reports
    ]
    write_sections(page, sections, assumptions, title="Trial")


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
def _opened(files: Mapping[str, Path], *, alone: bool) -> Iterator[dict[str, TrialTable]]:
    """The records of this cell's trial, by queue. `alone`: no other process may watch. Raises LockHeld, StateNotKept,
    SettingsError.
    """
    from autoscaler.store.lock import try_lock
    from autoscaler.store.trial import TrialTable

    with contextlib.ExitStack() as opened:
        tables = {}
        for queue, file in files.items():
            tables[queue] = TrialTable.open(file)
            opened.callback(tables[queue].close)
        if alone:
            lock = try_lock(next(iter(files.values())).with_suffix(".trial-lock"))
            if lock is None:
                raise LockHeld("another process watches this cell already: end it with Ctrl-C, and it reports")
            opened.callback(os.close, lock)
        yield tables


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
    def files(self) -> dict[str, Path]:
        """By queue. The first one has the name that a trial of one queue has."""
        first = self.invocation.store_file.with_suffix(".trial")
        return {
            queue: first.with_stem(f"{first.stem}-{queue}") if number else first
            for number, queue in enumerate(self.queues)
        }

    @cached_property
    def queues(self) -> list[str]:
        """Those that the settings scale; if none is switched on, the first."""
        off = {array.name for array in self.all.node_arrays if array.limits.switched_off is not None}
        scaled = [queue.name for queue in self.all.queues if queue.node_array not in off]
        return scaled or [self.all.queues[0].name]

    @cached_property
    def all(self) -> Policy:
        return policy_of(self.invocation, {})

    def policy(self, queue: str) -> Policy:
        """Of one queue alone."""
        from autoscaler.simulation.candidates import for_queue

        return for_queue(self.all, queue)

    @cached_property
    def conditions(self) -> Conditions:
        return conditions_of(self.options)

    def check(self) -> None:
        """Tell what is wrong now, and not in a week. Raises SettingsError."""
        for queue in self.queues:
            self.offers(queue)
        known = self._countable() if self.options.consumables else []
        for name in self.options.consumables:
            refuse_unknown_consumable(name, known)
        for queue in self.queues:
            self.candidates(queue)

    def _countable(self) -> list[str]:
        """Complexes of the cell that may be counted; as shipped where it does not answer, as for a report of what was
        watched before.
        """
        from autoscaler.sge.complex_table import read_complexes
        from autoscaler.simulation.watched import is_countable

        try:
            return [entry.name for entry in read_complexes(shown_by_qconf("-sc")).values() if is_countable(entry)]
        except AutoscalerError:
            return list(MEMORY_COMPLEXES)

    def candidates(self, queue: str) -> list[Candidate]:
        """What `--compare` names, for one queue. Raises SettingsError."""
        from autoscaler.simulation.candidates import for_queue, refuse_unplayable

        found = []
        for name in self.compared:
            candidate = candidate_of(self.invocation, name, self.options)
            candidate = replace(candidate, policy=for_queue(candidate.policy, queue))
            try:
                refuse_unplayable(candidate, self.conditions)
            except SettingsError as error:
                raise SettingsError(f"--compare {name}, queue {queue}: {error}") from error
            found.append(candidate)
        return found

    def varied(self, queue: str) -> Iterator[tuple[VariedSetting, Candidate]]:
        """One setting changed at a time, but not to what the other settings do not allow, as no type to rent."""
        from autoscaler.simulation.candidates import for_queue, refuse_unplayable

        for one in varied_settings(self.invocation, queue):
            with contextlib.suppress(SettingsError):
                candidate = tried(f"{one.setting}={one.tried}", self.invocation, one.environ, self.options)
                candidate = replace(candidate, policy=for_queue(candidate.policy, queue))
                refuse_unplayable(candidate, self.conditions)
                yield one, candidate

    def offers(self, queue: str) -> list[Bucket]:
        """What these settings may rent. Raises WorkloadError if that is nothing."""
        from autoscaler.simulation.candidates import allowed_offers

        return allowed_offers(self.policy(queue), self.conditions.buckets)

    # -- watching ------------------------------------------------------------------------------------------------------

    def watch(self, tables: Mapping[str, TrialTable], lasts: float | None, *, anew: bool) -> bool:
        """Watch until the time is over or Ctrl-C; False: something else ended it, so it goes on later."""
        now, table = time.time(), next(iter(tables.values()))
        times = table.times
        if times is None or anew:
            ends = now + (USUAL if lasts is None else lasts)
        else:
            ends = times.ends if lasts is None else times.began + lasts
        for each in tables.values():
            if each.times is None or anew:
                each.begin(now, ends)
            else:
                each.end_at(ends)
        times = table.times
        assert times is not None
        if times.ends <= now:
            echo("the trial of this cell is over, and reported again; --anew begins another one", err=True)
            return True
        echo(
            f"watching cell {self.invocation.cell.title} for {words(times.ends - now)}, and changing nothing; Ctrl-C "
            f"ends it and reports. These settings scale {'; '.join(map(self._scaled, self.queues))}.",
            err=True,
        )
        if why := _unreadable(self.invocation.common / "accounting"):
            echo(f"{why}: ends of jobs are known to a pass, and jobs of less may be missing", err=True)
        self._note_scheduler(table)
        stopped = self._watch(tables, times.ends)
        if stopped in (SERVED, "SIGINT"):
            for each in tables.values():
                each.end_at(time.time())
        return stopped in (OVER, SERVED, "SIGINT")

    def _scaled(self, queue: str) -> str:
        types = ", ".join(dict.fromkeys(offer.type.name for offer in self.offers(queue)))
        return f"queue {queue} with {types}, at most {self.policy(queue).node_arrays[0].limits.max_workers} workers"

    @staticmethod
    def _note_scheduler(table: TrialTable) -> None:
        table.note_scheduler(scheduler_of_cell())

    def _watch(self, tables: Mapping[str, TrialTable], ends: float) -> str:
        """Make passes; returns what ended them."""
        from autoscaler.commands.serving import Around, serving
        from autoscaler.engine.trial_keeper import TrialKeeper

        first, *others = [
            TrialKeeper(table, queue, ends, lambda: loop.stop(OVER), alone=len(tables) == 1)
            for queue, table in tables.items()
        ]
        watching = _Watching(self.invocation, self.options.catalog)
        with serving(watching, around=Around(lambda _: first)) as loop, loop.signals(reloads=False):
            loop.observer.ask_scheduler = None  # qmaster notes who asks about jobs of others
            for other in others:
                loop.attach(other)
            teller = _Teller((first, *others), ends)
            loop.attach(teller)
            loop.attach(_EndedByService(self.invocation.cell, loop))
            loop.run()
            teller.clear()
            if loop.stopped_by == SERVED:
                _tell(SERVED)
            return loop.stopped_by

    # -- the report ----------------------------------------------------------------------------------------------------

    def reports(self, tables: Mapping[str, TrialTable]) -> tuple[list[TrialReport], list[str]]:
        """Simulate what was watched, queue by queue, and say what it rests on. Ctrl-C ends that, too, and what is done
        is reported. Raises WorkloadError.
        """
        scheduler = next(iter(tables.values())).scheduler()
        found, said, elsewhere = [], dict[str, list[str]](), set[int]()
        for queue, table in tables.items():
            report, said[queue] = self._report(queue, table, scheduler, elsewhere)
            elsewhere |= {job.job for job in table.waiting() if job.tasks}
            found.append(report)
        return found, _assumed_of_all(said)

    def _report(
        self, queue: str, table: TrialTable, scheduler: Mapping[str, str], elsewhere: Container[int]
    ) -> tuple[TrialReport, list[str]]:
        from autoscaler.simulation.trial_report import ALONE, BESIDE, HOSTS, Changed, TrialReport
        from autoscaler.simulation.watched import Scenario, read_watched

        only = len(self.queues) == 1
        accounting = self.invocation.common / "accounting"
        watched = read_watched(table, accounting, queue, alone=only, elsewhere=elsewhere)
        price = watched.price(self.conditions.buckets, self.core_price)
        largest = largest_host(self.policy(queue), self.conditions.buckets)
        report = TrialReport(watched, price, self.invocation.zone, "" if only else queue)
        only_hosts = Scenario(HOSTS, watched.largest, watched.all_slots)
        with _Scenarios(self, queue, watched, scheduler) as scenarios:
            beside = Scenario(BESIDE, max(largest, watched.largest))
            if watched.all_slots:
                scenarios.add(report, tried(HOSTS, self.invocation, {}, self.options, rule="static:0"), only_hosts)
                scenarios.add(report, tried(BESIDE, self.invocation, {}, self.options), beside)
            alone = Scenario(ALONE, largest, keeps_hosts=False)
            scenarios.add(report, tried(ALONE, self.invocation, {}, self.options), alone)
            told = report.told
            base = told["policy"] if told is not None else ALONE
            report.moves = scenarios.runs[base].measures if base in scenarios.runs else None
            for candidate in self.candidates(queue):
                own = max(largest_host(candidate.policy, candidate.buckets_in(self.conditions)), watched.largest)
                scenarios.add(report, candidate, Scenario(candidate.name, own))
            for varied, candidate in self.varied(queue):
                document = scenarios.document(candidate, alone if base == ALONE else beside)
                if document is not None:
                    report.changed.append(Changed(varied.setting, varied.now, varied.tried, document))
        return report, scenarios.assumptions


class _Scenarios:
    """Simulates one scenario after the other, until Ctrl-C."""

    def __init__(self, trial: _Trial, queue: str, watched: Watched, scheduler: Mapping[str, str]) -> None:
        self._trial, self._queue, self._watched, self._scheduler = trial, queue, watched, scheduler
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
        from autoscaler.simulation.candidates import for_queue, try_policy
        from autoscaler.simulation.cloud import Billing
        from autoscaler.simulation.scheduler_settings import as_configured, not_simulated
        from autoscaler.simulation.trial_report import with_hosts
        from autoscaler.simulation.watched import UNBOUNDED

        if self._stopper.asked:
            return None
        trial, watched = self._trial, self._watched
        counted = trial.conditions.cell.consumables
        read = watched.workload(AccountingOptions(UNBOUNDED, requests=counted), scenario)
        array = trial.policy(self._queue).node_arrays[0]
        candidate = replace(candidate, policy=for_queue(candidate.policy, self._queue))
        numbers = frozenset(filter(None, (array.gpu_complex, array.cpu_complex)))
        changes = watched.host_changes(counted, numbers) if scenario.keeps_hosts else ()
        cell = as_configured(replace(trial.conditions.cell, host_changes=changes), self._scheduler)
        billing = Billing(array.billing_minimum, array.billing_step)
        conditions = replace(trial.conditions, cell=cell, billing=billing)
        said = [*read.said, *assumed(conditions, [candidate], trial.options), *not_simulated(self._scheduler)]
        if not self._scheduler:
            said.append("The scheduler's configuration was not read: it is taken as Grid Engine ships it.")
        self._assumptions |= dict.fromkeys(said)
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

    def __init__(self, keepers: Sequence[TrialKeeper], ends: float) -> None:
        self._keepers, self._ends = keepers, ends
        self._line = sys.stderr.isatty()
        self._told: float | None = None

    def passed(self, done: Pass) -> None:
        cluster, now = done.snapshot.cluster, done.snapshot.now
        missing = [keeper.queue for keeper in self._keepers if keeper.queue not in cluster.queues]
        if self._told is None and missing:
            self.clear()
            names = ", ".join(sorted(cluster.queues)) or "none"
            counts = "jobs of all queues count" if len(self._keepers) == 1 else "there is nothing of it to watch"
            _tell(f"this cell has no queue {', '.join(missing)}: {counts} ({names})")
        if not self._line and self._told is not None and now - self._told < TOLD_EVERY:
            return
        self._told = now
        seen = set[int]().union(*(keeper.jobs_seen for keeper in self._keepers))
        hosts = set[str]().union(*(keeper.hosts_now for keeper in self._keepers))
        waiting: dict[int, int] = {}
        for keeper in self._keepers:  # a job may wait for several queues
            waiting |= keeper.wait_now
        text = (
            f"{count(len(seen), 'job')} seen, {count(sum(waiting.values()), 'task')} waiting, "
            f"{count(len(hosts), 'host')}; {words(max(0.0, self._ends - now))} left"
        )
        if self._line:
            _tell(f"\r\x1b[K{text}", ends_line=False)
        else:
            _tell(text)

    def clear(self) -> None:
        if self._line:
            _tell("\r\x1b[K", ends_line=False)
