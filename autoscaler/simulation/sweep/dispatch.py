"""Spreads runs over processes by Dask: on this machine, on jobs of a Grid Engine, or on a Dask cluster that is there.

Dask has the queue, the workers and their failures; nothing here does. What this module adds is what Dask leaves open:
encryption (whoever reaches an open Dask scheduler runs code as its user), no web server, and no import of files of the
current directory.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import pickle
import queue
import shlex
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.process import PythonProgram
from autoscaler.simulation.candidates import Candidate, Conditions
from autoscaler.simulation.results import Document
from autoscaler.simulation.sweep.runs import Run, perform, program_digest
from autoscaler.simulation.sweep.windows import Window

MISSING = (
    "a sweep needs Dask, which is not installed: install the add-on sge-autoscaler-dask, or in a virtual environment "
    "pip install 'sge-autoscaler[dask]'"
)
STEP = 0.5
"""Seconds between two looks at the workers, for progress."""
ASK_AGAIN = 60.0
"""Seconds after which jobs are submitted again in place of workers that have ended."""
LOOPBACK = "127.0.0.1"
WEB = f"{LOOPBACK}:0"
"""Where Dask's web servers listen, which cannot be left out: without an address they are open to the network."""
# Dask's own annotations are incomplete.
Client = Any
Cluster = Any
Future = Any


class NoWorkers(AutoscalerError):
    """The runs cannot be spread: Dask's scheduler or its workers cannot be started or reached."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where runs go. `again` asks for workers in place of those that ended; None: Dask does that itself."""

    client: Client
    again: Callable[[], object] | None = None

    def count(self) -> int:
        return len(self.client.scheduler_info(n_workers=-1)["workers"])


@contextlib.contextmanager
def on_processes(count: int) -> Iterator[Workers]:
    """Processes of this machine, which end with this one. Only they can reach the scheduler."""
    distributed = _imported("distributed")
    with _cluster(
        lambda: distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host=LOOPBACK,
            protocol="tls://",
            security=distributed.Security.temporary(),
            dashboard_address=WEB,
            scheduler_kwargs={"dashboard": False},
            preload=["autoscaler.simulation.sweep.worker_signals"],
            silence_logs=logging.CRITICAL,
        )
    ) as cluster:
        yield Workers(_client(cluster))


@dataclass(frozen=True, slots=True)
class GridEngineJobs:
    """How workers are submitted as jobs."""

    count: int
    queue: str
    address: str
    """Name or address of this machine, as the hosts reach it."""
    shared: Path
    """A directory that this machine and all hosts see under this name; the workers' keys and output are there."""
    request: str | None = None
    """`-l`."""
    project: str | None = None
    memory: str = "1GiB"
    """What Dask lets a worker use; Grid Engine is told by `request`."""
    run_time: str | None = None
    """`-l h_rt`."""
    directives: Sequence[str] = ()
    """Further options of `qsub`."""


@contextlib.contextmanager
def on_grid_engine(jobs: GridEngineJobs) -> Iterator[Workers]:
    """Jobs of a Grid Engine, one worker each. They are deleted at the end; where this process is killed, they end by
    themselves within a minute.
    """
    distributed, sge_cluster = _imported("distributed"), _imported("dask_jobqueue").SGECluster
    # Dask's own default ends every worker after half an hour.
    with (
        _imported("dask").config.set({"jobqueue.sge.walltime": None}),
        _cluster(
            lambda: sge_cluster(
                queue=jobs.queue,
                project=jobs.project,
                resource_spec=jobs.request,
                walltime=jobs.run_time,
                cores=1,
                processes=1,
                memory=jobs.memory,
                job_name="sge-autoscaler-sweep",
                python=worker_python(),
                job_extra_directives=["-r y", *jobs.directives],
                log_directory=str(jobs.shared),
                shared_temp_directory=str(jobs.shared),
                security=distributed.Security.temporary(),
                protocol="tls://",
                scheduler_options={"host": jobs.address, "dashboard": False, "dashboard_address": WEB},
                worker_extra_args=["--no-dashboard", "--dashboard-address", WEB],
                silence_logs=logging.CRITICAL,
            )
        ) as cluster,
    ):
        workers = Workers(_client(cluster), lambda: cluster.scale(jobs=jobs.count))
        cluster.scale(jobs=jobs.count)
        yield workers


def worker_python() -> str:
    """What a worker's command begins with, quoted for the shell of the job: Python, with the options of all ours.
    dask-jobqueue adds the rest.
    """
    argv = PythonProgram.module("distributed.cli.dask_worker").argv
    return shlex.join(argv[: argv.index("-m")])


@contextlib.contextmanager
def on_scheduler(address: str) -> Iterator[Workers]:
    """The workers of a Dask scheduler that is there. For `tls://` Dask's own configuration names the keys."""
    distributed = _imported("distributed")
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise NoWorkers(f"no Dask scheduler answers at {address}: {error}") from error
    with contextlib.closing(client):
        yield Workers(client)


def _imported(name: str) -> Any:
    """A module of Dask, which may not be installed. Raises SettingsError."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise SettingsError(MISSING) from error
    if name == "distributed":
        importlib.import_module("dask").config.set({"distributed.scheduler.http.routes": []})
    for each in ("distributed", "tornado", "asyncio"):
        logging.getLogger(each).setLevel(logging.CRITICAL)
    return module


@contextlib.contextmanager
def _cluster(start: Callable[[], Cluster]) -> Iterator[Cluster]:
    try:
        cluster = start()
    except (OSError, RuntimeError, ValueError) as error:
        raise NoWorkers(f"Dask cannot start its scheduler: {error}") from error
    with contextlib.closing(cluster):
        yield cluster


def _client(cluster: Cluster) -> Client:
    return _imported("distributed").Client(cluster, set_as_default=False)


@dataclass
class Spread:
    """How the runs of a sweep went."""

    finished: int = 0
    failed: dict[str, list[Run]] = field(default_factory=dict)
    """Runs that ended with an error, by its message."""
    began: float = field(default_factory=time.monotonic)
    run_s: float = 0.0
    """Sum of the time that runs took."""
    worker_s: float = 0.0
    """Sum of the time for which workers were there."""
    workers: int = 0
    """How many there are now."""
    most_workers: int = 0

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self.began


@dataclass(frozen=True, slots=True)
class Task:
    """What all runs are made of, by their numbers."""

    candidates: Sequence[Candidate]
    windows: Sequence[Window]
    conditions: Conditions


def spread(
    workers: Workers,
    task: Task,
    runs: Sequence[Run],
    spent: Spread,
    finished: Callable[[Run, Document], None],
    goes_on: Callable[[Spread], bool],
) -> None:
    """Play the runs, the first ones first. `finished` is called with each result as it comes; `goes_on` twice a second:
    where it says no, what is not finished is given up.
    """
    ended: queue.Queue[tuple[Run, Future]] = queue.Queue()
    client = workers.client
    # What many runs share is a task itself: unlike scattered data, it is made again after its worker has ended.
    played = {number: _shared(client, task.windows[number]) for number in sorted({run.window for run in runs})}
    shared = _shared(client, task.conditions)
    waiting = set()
    for rank, run in enumerate(runs):
        future = client.submit(
            perform,
            program_digest(),
            task.candidates[run.point],
            played[run.window],
            shared,
            run.seed,
            key=f"run-{run.key}",
            pure=False,
            priority=-rank,
        )
        waiting.add(future)
        future.add_done_callback(lambda done, run=run: ended.put((run, done)))
    try:
        _gather(workers, ended, waiting, spent, finished, goes_on)
    finally:
        with contextlib.suppress(Exception):
            client.cancel(list(waiting), force=True)


def _gather(
    workers: Workers,
    ended: queue.Queue[tuple[Run, Future]],
    waiting: set[Future],
    spent: Spread,
    finished: Callable[[Run, Document], None],
    goes_on: Callable[[Spread], bool],
) -> None:
    looked = asked = time.monotonic()
    while waiting:
        with contextlib.suppress(queue.Empty):
            run, future = ended.get(timeout=STEP)
            waiting.discard(future)
            _take(run, future, spent, finished)
        now = time.monotonic()
        if now - looked < STEP:
            continue
        spent.workers = workers.count()
        spent.most_workers = max(spent.most_workers, spent.workers)
        spent.worker_s += spent.workers * (now - looked)
        looked = now
        if not goes_on(spent):
            return
        if workers.again is not None and now - asked >= ASK_AGAIN:
            workers.again()
            asked = now


def _take(run: Run, future: Future, spent: Spread, finished: Callable[[Run, Document], None]) -> None:
    error = future.exception()
    if error is None:
        document = future.result()
        spent.finished += 1
        spent.run_s += document["run_s"]
        finished(run, document)
    else:
        spent.failed.setdefault(_words_of(error), []).append(run)
    future.release()


def _words_of(error: BaseException) -> str:
    if isinstance(error, _imported("distributed").scheduler.KilledWorker):
        return "each of the workers that it was given to ended meanwhile; look why (memory, run time), and start again"
    return str(error) if isinstance(error, AutoscalerError) else f"{type(error).__name__}: {error}"


def _shared(client: Client, value: object) -> Future:
    return client.submit(_unpacked, zlib.compress(_imported("cloudpickle").dumps(value)), pure=True)


def _unpacked(packed: bytes) -> object:
    return pickle.loads(zlib.decompress(packed))
