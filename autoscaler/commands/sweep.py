"""`sge-autoscaler sweep`: search settings on recorded jobs, on many processes or machines."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoscaler.commands import simulate
from autoscaler.commands._output import csv_option, echo, json_option, print_json
from autoscaler.commands._simulated import (
    SimulationOptions,
    Stopper,
    assumed,
    conditions_of,
    deciding,
    in_force,
    largest_host,
    policy_of,
    refuse_unwritable,
    tried,
    workload_of,
)
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError, suggestion
from autoscaler.new_folder import write_file

if TYPE_CHECKING:
    from autoscaler.simulation.candidates import Candidate, Conditions
    from autoscaler.simulation.results import Document
    from autoscaler.simulation.sweep.dispatch import Spread, Task, Workers
    from autoscaler.simulation.sweep.points import Point
    from autoscaler.simulation.sweep.results import Results
    from autoscaler.simulation.sweep.runs import Run
    from autoscaler.simulation.sweep.summary import Summary
    from autoscaler.simulation.sweep.sweep_file import Sweep
    from autoscaler.simulation.sweep.windows import Window

_NOT_CONDITIONS = frozenset({"most", "seed", "skip"})
"""Options of `simulate` that a sweep has in another form."""
_PATHS = frozenset({"catalog", "market"})


@click.command("sweep")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--example", is_flag=True, help="Print a FILE with comments, and end.")
@click.option("--processes", type=click.IntRange(min=1), help="Run on so many processes here. Default: one for a core.")
@click.option("--grid-engine", "jobs", type=click.IntRange(min=1), help="Run on so many jobs of this Grid Engine.")
@click.option("--scheduler", help="Run on the workers of this Dask scheduler, as tcp://10.0.0.5:8786.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="SQLite file of finished runs; none is made again. Default: FILE with the ending .sqlite.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained HTML page.")
@click.option(
    "--settings",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the chosen point as lines of settings, if nothing is against it.",
)
@csv_option(help="Print CSV, a line for each point.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    file: Path | None,
    example: bool,
    processes: int | None,
    jobs: int | None,
    scheduler: str | None,
    results: Path | None,
    page: Path | None,
    settings: Path | None,
    as_csv: bool,
    as_json: bool,
) -> int:
    """Search settings: simulate each point of FILE on windows of its workloads.

    Shows which points are cheapest for which wait, beside the settings of today, and judges them on jobs that they were
    not chosen on. Ctrl-C shows what is known until then; the same command goes on from there. No cell, no cloud and no
    state is changed, but --grid-engine submits jobs.
    """
    from autoscaler.simulation.sweep.results import Results
    from autoscaler.simulation.sweep.sweep_file import read_sweep

    if example:
        text = resources.files("autoscaler.conf") / "simulation" / "sweep.toml"
        sys.stdout.write(text.read_text(encoding="utf-8"))
        return 0
    if file is None:
        raise SettingsError("name the FILE of a sweep; --example prints one")
    if sum(each is not None for each in (processes, jobs, scheduler)) > 1:
        raise SettingsError("--processes, --grid-engine and --scheduler exclude each other; name one")
    refuse_unwritable(page)
    refuse_unwritable(settings)
    sweep = read_sweep(file)
    search = _Search(invocation, sweep)
    with (
        Results.opened(results or file.with_suffix(".sqlite")) as kept,
        Stopper() as stopper,
    ):
        started = _Started(invocation, sweep, processes, jobs, scheduler)
        with contextlib.closing(started):
            played, spent = search.play(kept, started, stopper)
    summary = search.summary(played)
    if page is not None:
        from autoscaler.simulation.sweep.page import sweep_page

        names = [window.name for window in search.task.windows]
        _write(page, sweep_page(summary, spent, search.assumptions, names))
    if settings is not None:
        _write_settings(settings, summary)
    _print(summary, spent, search.assumptions, as_csv=as_csv, as_json=as_json)
    return stopper.exit_code


class _Search:
    """The runs of a sweep, in their order, and what became of them."""

    def __init__(self, invocation: Invocation, sweep: Sweep) -> None:
        from autoscaler.simulation.sweep.dispatch import Task
        from autoscaler.simulation.sweep.points import points_of
        from autoscaler.simulation.sweep.runs import keys_of

        self._sweep = sweep
        options = in_force(invocation, _options(sweep))
        with _entry(sweep, "conditions"):
            conditions = conditions_of(options)
        self.points: Sequence[Point] = points_of(sweep)
        candidates = _candidates(invocation, options, sweep, self.points, conditions)
        one_host = options.one_host or min(largest_host(one.policy, one.buckets_in(conditions)) for one in candidates)
        remembers = any(one.policy.estimates for one in candidates)
        windows, said = _windows(sweep, options, one_host, remembers=remembers)
        idle = _without_effect(invocation, options, self.points, candidates)
        self.assumptions = [
            *said,
            *assumed(conditions, candidates, options),
            *_assumed(sweep, conditions, windows),
            *idle,
        ]
        self.task: Task = Task(candidates, windows, conditions)
        self._keys = keys_of(candidates, windows, conditions)

    def play(self, kept: Results, started: _Started, stopper: Stopper) -> tuple[Mapping[Any, Document], Spread]:
        """All points on the windows to choose on, then today and the front on the others."""
        from autoscaler.simulation.sweep.dispatch import Spread

        played: dict[tuple[int, int, int], Document] = {}
        spent = Spread()
        to_choose, to_judge = self._windows_of(judges=False), self._windows_of(judges=True)
        self._play(range(len(self.points)), to_choose, kept, played, spent, started, stopper)
        if to_judge and not stopper.asked:
            front = dict.fromkeys((0, *self.summary(played).front))
            self._play(list(front), to_judge, kept, played, spent, started, stopper)
        return played, spent

    def _windows_of(self, *, judges: bool) -> list[int]:
        return [number for number, window in enumerate(self.task.windows) if window.judges is judges]

    def _play(
        self,
        points: Sequence[int],
        windows: Sequence[int],
        kept: Results,
        played: dict[tuple[int, int, int], Document],
        spent: Spread,
        started: _Started,
        stopper: Stopper,
    ) -> None:
        from autoscaler.simulation.sweep.dispatch import spread
        from autoscaler.simulation.sweep.points import title_of
        from autoscaler.simulation.sweep.runs import Run, digest

        # Window by window: whenever the sweep is stopped, many points can be compared.
        runs = [
            Run(point, window, seed, digest([self._keys[point][window], seed]))
            for window in windows
            for seed in self._sweep.seeds
            for point in points
        ]
        known = kept.known(run.key for run in runs)
        played |= {(run.point, run.window, run.seed): known[run.key] for run in runs if run.key in known}
        first: dict[str, Run] = {}
        for run in runs:
            if run.key not in known:
                first.setdefault(run.key, run)
        shown = _Progress(len(runs), sum(run.key in known for run in runs))
        if not first:
            return
        same = {key: [run for run in runs if run.key == key] for key in first}

        def finished(run: Run, document: Document) -> None:
            kept.add(run, title_of(self.points[run.point]), self.task.windows[run.window].name, document)
            played.update({(each.point, each.window, each.seed): document for each in same[run.key]})
            shown.done += len(same[run.key])

        def goes_on(spent: Spread) -> bool:
            shown.show(spent)
            return not stopper.asked

        try:
            spread(started.workers, self.task, list(first.values()), spent, finished, goes_on)
        finally:
            shown.clear()

    def summary(self, played: Mapping[Any, Document]) -> Summary:
        from autoscaler.simulation.sweep.summary import summary_of

        windows = (self._windows_of(judges=False), self._windows_of(judges=True))
        return summary_of(self.points, played, windows, self._sweep.seeds, self._sweep.mean_wait)


def _options(sweep: Sweep) -> SimulationOptions:
    """The options of `simulate` as `[conditions]` has them, read by that command."""
    options = {
        option.opts[0].removeprefix("--").replace("-", "_"): option
        for option in simulate.command.params
        if option.name in SimulationOptions.__dataclass_fields__ and option.name not in _NOT_CONDITIONS
    }
    words: list[str] = []
    for name, value in sweep.conditions.items():
        if name not in options:
            raise SettingsError(f"{sweep.path}, conditions: {name!r} is not known here; {suggestion(name, options)}")
        option = options[name]
        if isinstance(option, click.Option) and option.is_flag:
            if not isinstance(value, bool):
                raise SettingsError(f"{sweep.path}, conditions: {name}: {value!r} is neither true nor false")
            words += [option.opts[0]] if value else option.secondary_opts
        else:
            several = value if option.multiple and isinstance(value, list) else [value]
            words += [f"{option.opts[0]}={sweep.path.parent / str(one) if name in _PATHS else one}" for one in several]
    try:
        read = simulate.command.make_context("sweep", ["", *words])
    except click.UsageError as error:
        raise SettingsError(f"{sweep.path}, conditions: {error.format_message()}") from error
    of_conditions = {option.name for option in options.values() if option.name}
    return SimulationOptions(**{name: read.params[name] for name in of_conditions})


@contextlib.contextmanager
def _entry(sweep: Sweep, where: str) -> Iterator[None]:
    """What is wrong within is wrong with this entry of the file."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{sweep.path}, {where}: {error}") from error


def _candidates(
    invocation: Invocation,
    options: SimulationOptions,
    sweep: Sweep,
    points: Sequence[Point],
    conditions: Conditions,
) -> list[Candidate]:
    """A policy for each point. Raises SettingsError for the first that is none."""
    from autoscaler.simulation.candidates import allowed_offers
    from autoscaler.simulation.sweep.points import title_of

    made = []
    for point in points:
        where = f"settings ({title_of(point)})" if point else "the settings of today"
        with _entry(sweep, where):
            candidate = tried(title_of(point), invocation, dict(point), options)
            allowed_offers(candidate.policy, candidate.buckets_in(conditions))
        # Names that this machine has say nothing about a point, and would make each machine's runs others.
        made.append(replace(candidate, policy=replace(candidate.policy, host_names=())))
    return made


def _without_effect(
    invocation: Invocation, options: SimulationOptions, points: Sequence[Point], candidates: Sequence[Candidate]
) -> list[str]:
    """Which settings change nothing that is simulated, with whatever values they and others are tried."""
    known = {tuple(point.items()): _deciding(candidate) for point, candidate in zip(points, candidates, strict=True)}

    def without(name: str, point: Point) -> object:
        """None: others need it."""
        others = tuple((other, value) for other, value in point.items() if other != name)
        if others not in known:
            try:
                known[others] = _deciding(tried("", invocation, dict(others), options))
            except SettingsError:
                known[others] = None
        return known[others]

    names = dict.fromkeys(name for point in points for name in point)
    return [
        f"{name} changes nothing here: none of its values differs from today's in what is simulated."
        for name in names
        if all(known[tuple(point.items())] == without(name, point) for point in points if name in point)
    ]


def _deciding(candidate: Candidate) -> object:
    """What of it is simulated."""
    return deciding(candidate.policy), candidate.polling_delay, candidate.buckets


def _windows(
    sweep: Sweep, options: SimulationOptions, one_host: int, *, remembers: bool
) -> tuple[list[Window], list[str]]:
    from autoscaler.simulation.sweep.windows import windows_of

    windows: list[Window] = []
    said: dict[str, None] = {}
    for number, source in enumerate(sweep.sources, start=1):
        place = source.workload
        if not place.startswith("generated"):
            place = str(sweep.path.parent / place)
        with _entry(sweep, f"workload {number}"):
            read = workload_of(place, options, one_host)
            windows += windows_of(read, source, sweep.judge, remembers=remembers)
        said |= dict.fromkeys(read.said)
    return windows, list(said)


def _assumed(sweep: Sweep, conditions: Conditions, windows: Sequence[Window]) -> list[str]:
    delays, market = conditions.delays, conditions.market
    said = ["Each window begins with an empty cell, and ends when its last job has ended."]
    if len(sweep.seeds) > 1 and not (delays.spread or delays.failing or market.interruptions_per_hour):
        said.append(
            "Seeds change nothing here: no boot time, failure or interruption is drawn. Give spread, failing or market "
            "in [conditions]."
        )
    if sum(not window.judges for window in windows) == 1:
        said.append("There is one window to choose on, so intervals say nothing about other jobs.")
    return said


class _Started:
    """Workers, started when the first run needs them."""

    def __init__(
        self, invocation: Invocation, sweep: Sweep, processes: int | None, jobs: int | None, scheduler: str | None
    ) -> None:
        self._invocation, self._sweep = invocation, sweep
        self._processes, self._jobs, self._scheduler = processes, jobs, scheduler
        self._open = contextlib.ExitStack()
        self._workers: Workers | None = None

    @property
    def workers(self) -> Workers:
        """Raises SettingsError, NoWorkers."""
        if self._workers is None:
            self._workers = self._open.enter_context(self._start())
        return self._workers

    def _start(self) -> contextlib.AbstractContextManager[Workers]:
        from autoscaler.simulation.sweep import dispatch

        if self._scheduler is not None:
            return dispatch.on_scheduler(self._scheduler)
        if self._jobs is None:
            return dispatch.on_processes(self._processes or len(os.sched_getaffinity(0)))
        given = dict(self._sweep.grid_engine)
        shared = self._open.enter_context(_folder(self._sweep.path.parent / str(given.pop("shared", "."))))
        given = {"queue": self._queue, "address": socket.gethostname()} | given
        return dispatch.on_grid_engine(dispatch.GridEngineJobs(self._jobs, shared=shared, **given))

    @property
    def _queue(self) -> str:
        return policy_of(self._invocation, {}).node_arrays[0].queue

    def close(self) -> None:
        self._open.close()


@contextlib.contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    """A directory for keys and output of workers, ours alone."""
    try:
        with tempfile.TemporaryDirectory(prefix=".sweep-", dir=parent, ignore_cleanup_errors=True) as name:
            yield Path(name).resolve()
    except OSError as error:
        raise SettingsError(
            f"cannot write into {parent}: {error.strerror}; name a directory that all hosts share as shared in "
            "[grid_engine]"
        ) from error


class _Progress:
    """A line on the terminal: how many runs are done, and how long the others will take."""

    def __init__(self, runs: int, known: int) -> None:
        self._runs, self._known = runs, known
        self.done = 0
        self._on = sys.stderr.isatty()
        if known:
            echo(f"{known:,} of {runs:,} runs are known from before", err=True)

    def show(self, spent: Spread) -> None:
        if not self._on:
            return
        left = self._runs - self._known - self.done
        time = ""
        if spent.finished and spent.workers:
            seconds = left * spent.run_s / spent.finished / spent.workers
            time = f", about {seconds:,.0f} s left"
        failed = sum(map(len, spent.failed.values()))
        sys.stderr.write(
            f"\r\x1b[K{self._known + self.done:,} of {self._runs:,} runs, {spent.workers} workers"
            f"{f', {failed} failed' if failed else ''}{time}"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _print(summary: Summary, spent: Spread, assumptions: Sequence[str], *, as_csv: bool, as_json: bool) -> None:
    from autoscaler.report import SCHEMA
    from autoscaler.report.blocks import print_blocks
    from autoscaler.simulation.sweep.summary import document_of, sentences_of
    from autoscaler.simulation.sweep.tables import csv_text, remarks, sweep_blocks

    if as_json:
        said = [*sentences_of(summary), *remarks(summary, spent)]
        print_json({"schema": SCHEMA, "points": document_of(summary), "said": said, "assumptions": list(assumptions)})
    elif as_csv:
        sys.stdout.write(csv_text(summary))
    else:
        print_blocks(sweep_blocks(summary, spent, assumptions))


def _write_settings(path: Path, summary: Summary) -> None:
    from autoscaler.simulation.sweep.summary import objection_to, sentences_of
    from autoscaler.simulation.sweep.tables import settings_text

    objection = objection_to(summary)
    if summary.chosen is None or objection is not None:
        echo(f"{path}: not written, since {objection}", err=True)
        return
    _write(path, settings_text(summary.points[summary.chosen], sentences_of(summary)))


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode(), mode=0o644)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from error
    echo(f"{path}: written", err=True)
