"""The demo: a private Grid Engine, the autoscaler beside it as an operator would run it, ten jobs, and the results.

Nothing is staged: the autoscaler runs as `sge-autoscaler run` in the cell and is only watched. The demo is over when
Grid Engine's own accounting says that every task ended well, and Grid Engine and the provider report every worker as
gone.
"""

from __future__ import annotations

import re
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from autoscaler.answer_client import SOCKET_ENV, ServiceAddress, ask, target
from autoscaler.api.passwords import set_password
from autoscaler.errors import AutoscalerError
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.lab.played_cloud import CLOUDS, played_cloud
from autoscaler.lab.played_launcher import Launcher
from autoscaler.lab.private_root import MASTER
from autoscaler.process import Running, start
from autoscaler.report.wording import count
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store

LOOK_EVERY = 0.7
LAUNCHES = "cloud_pipeline"
"""The provider whose platform starts the autoscaler itself."""
SERVES_WITHIN = 60.0
"""Seconds for the page to come up."""
DEADLINE = 170.0
"""Seconds from the submission until the demo gives up."""
_ENDED_WELL = "0"
_NEVER = "-/-"


class DemoFailed(AutoscalerError):
    """The demo did not finish; the message says what was missing."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One of the two examples, seconds standing for minutes."""

    title: str
    settings: Mapping[str, str]
    master_slots: int = 2
    tasks: int = 10
    task_seconds: int = 12


_COMMON = {
    "CP_CAP_AUTOSCALE": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "3",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "4",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "4",
    "CP_CAP_SGE_MASTER_CORES": "2",
    "price_type": "on_demand",
}
SCENARIOS = {
    "homogeneous": Scenario("homogeneous: workers of the master's type, one after the other", _COMMON),
    "hybrid": Scenario(
        "hybrid: one worker as large as what waits", {**_COMMON, "CP_CAP_AUTOSCALE_HYBRID": "true"}, task_seconds=15
    ),
}


@dataclass(frozen=True, slots=True)
class Rental:
    """The provider of workers, and its name for the master's instance type."""

    master_type: str = "m5.large"
    settings: Mapping[str, str] = field(default_factory=dict)


PROVIDERS = {
    "local": Rental(settings={"CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY": "3"}),
    "aws": Rental(),
    "azure": Rental("Standard_D2s_v5"),
    "cloud_pipeline": Rental(),
    "cyclecloud": Rental("Standard_D2s_v5"),
}


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """One task in Grid Engine's accounting. `wait` in seconds from submission to start; None: there is no start, as for
    a task that was rescheduled, or whose job could not be begun.
    """

    task: str
    host: str
    wait: float | None
    failed: str
    exit_status: str

    @property
    def well(self) -> bool:
        return self.failed.split()[:1] == [_ENDED_WELL] and self.exit_status == _ENDED_WELL


@dataclass(frozen=True, slots=True)
class Summary:
    """The results."""

    tasks: tuple[TaskEnd, ...]
    workers: tuple[Lifetime, ...]
    seconds: float
    at: float

    def document(self) -> dict[str, Any]:
        """As JSON."""
        workers = [
            {
                "name": one.name,
                "id": one.worker_id,
                "instance_type": one.instance_type,
                "rented_s": round(one.seconds(self.at), 3),
                "price_per_hour": one.price_per_hour,
                "cost": one.cost(self.at),
            }
            for one in self.workers
        ]
        tasks = [{"task": one.task, "host": one.host, "waited_s": one.wait} for one in self.tasks]
        return {"seconds": round(self.seconds, 3), "tasks": tasks, "workers": workers}

    def lines(self) -> Iterator[str]:
        waits = [task.wait for task in self.tasks if task.wait is not None]
        yield f"{len(self.tasks)} tasks ended well in {self.seconds:.0f} s (qacct)"
        for task in self.tasks:
            waited = "?" if task.wait is None else f"{task.wait:.0f}"
            yield f"  task {task.task:>2} waited {waited:>3} s, ran on {task.host}"
        yield f"  waits: median {statistics.median(waits):.0f} s, longest {max(waits):.0f} s"
        yield f"{count(len(self.workers), 'additional worker')} launched and removed (qhost shows the master alone)"
        for worker in self.workers:
            cost = worker.cost(self.at)
            price = (
                "price unknown"
                if cost is None
                else f"{worker.price_per_hour} {worker.currency} an hour, {cost:.6f} in all"
            )
            yield f"  {worker.name} {worker.instance_type}: {worker.seconds(self.at):.0f} s, {price}"
        total = sum(worker.seconds(self.at) for worker in self.workers)
        currency = next((worker.currency for worker in self.workers if worker.currency), "USD")
        cost = sum(worker.cost(self.at) or 0.0 for worker in self.workers)
        yield f"  {total:.0f} worker-seconds, {cost:.6f} {currency} in all"


Say = Callable[[str], None]


@contextmanager
def played(mode: str, provider: str, say: Say, *, page: bool = False) -> Iterator[Watch]:
    """One scenario with the autoscaler running, until the block ends. `page`: with its page, on the loopback address of
    this machine. Raises DemoFailed, NoControlPlane, CellError or NamespaceError.
    """
    scenario = SCENARIOS[mode]
    say(f"sge-autoscaler demo · {scenario.title}")
    with Cell.up(hosts=[ExecHost(MASTER, slots=scenario.master_slots)], prepared=False) as cell:
        say(f"a private Grid Engine is up: qmaster, one execution host of {scenario.master_slots} slots")
        rental = PROVIDERS[provider]
        with _control_plane(cell, provider, say) as address:
            environment = {**scenario.settings, **rental.settings, **address, **_of_cell(cell, rental)}
            _prepare(cell, environment, say)
            started = _launched(cell, environment, say) if provider == LAUNCHES else _autoscaler(cell, environment)
            with started as running, _page(cell, environment, say) if page else nullcontext():
                yield Watch(cell, scenario, running)


@contextmanager
def _control_plane(cell: Cell, provider: str, say: Say) -> Iterator[Mapping[str, str]]:
    """The settings that reach it; a cloud's serves until the block ends, `local` needs none."""
    if provider not in CLOUDS:
        yield {"CP_CAP_AUTOSCALE_PROVIDER": provider, "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(cell.tree.directory)}
        return
    with played_cloud(cell, provider) as cloud:
        say(f"the control plane of {provider} serves on loopback: no cloud is asked, and nothing is paid for")
        yield cloud.environment


def _of_cell(cell: Cell, rental: Rental) -> dict[str, str]:
    return {
        "CP_CAP_AUTOSCALE_WORKDIR": str(cell.directory / "state"),
        SOCKET_ENV: str(_socket(cell)),
        "instance_size": rental.master_type,
    }


def _socket(cell: Cell) -> Path:
    return cell.directory / "answers.sock"


def _prepare(cell: Cell, environment: Mapping[str, str], say: Say) -> None:
    """The one-time steps of an administrator: let `init` make queue, host group and parallel environments."""
    done = cell.runner(("sge-autoscaler", "init", "--yes"), timeout=60.0, env={**cell.environment, **environment})
    if done.returncode != 0:
        raise DemoFailed(f"`sge-autoscaler init --yes` failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    # A job that is killed with the cell would leave its folder in the machine's /tmp.
    cell.out("qconf", "-mattr", "queue", "tmpdir", str(cell.tree.private), "main.q")
    # Killed jobs leave their folders; here they are removed with the machine.
    cell.out("qconf", "-rattr", "queue", "tmpdir", str(cell.tree.private), "main.q")
    say("sge-autoscaler init --yes: queue main.q, host group @allhosts and two parallel environments are there")


@contextmanager
def _autoscaler(cell: Cell, environment: Mapping[str, str]) -> Iterator[Running]:
    log = cell.directory / "autoscaler.log"
    log.touch()
    running = cell.start(("sge-autoscaler", "run"), env=environment, output=log)
    try:
        yield running
    finally:
        running.terminate(10.0)


@contextmanager
def _page(cell: Cell, environment: Mapping[str, str], say: Say) -> Iterator[None]:
    """`serve` outside of the cell's network, so that a browser of this machine reaches it. It ends with us."""
    password, log = secrets.token_urlsafe(9), cell.directory / "page.log"
    set_password(Path(environment["CP_CAP_AUTOSCALE_WORKDIR"]) / "http-passwords", "demo", password)
    own = {"CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:0"}
    argv = ("setpriv", "--pdeathsig", "TERM", "--", "sge-autoscaler", "serve")
    serving = start(argv, env={**cell.environment, **environment, **own}, cwd=cell.home, output=log)
    try:
        for _ in range(int(SERVES_WITHIN / LOOK_EVERY)):
            if found := re.search(r"page at (\S+)", log.read_text(errors="replace")):
                say(f"{found[0]}: user demo, password {password}")
                break
            if serving.poll() is not None:
                break
            time.sleep(LOOK_EVERY)
        else:
            raise DemoFailed("the page does not come up")
        if serving.poll() is not None:
            raise DemoFailed(f"the page ended: {log.read_text(errors='replace').strip()}")
        yield
    finally:
        serving.terminate(15.0)


@contextmanager
def _launched(cell: Cell, environment: Mapping[str, str], say: Say) -> Iterator[Launched]:
    """As in a master run: the platform's launcher starts our script in place of its own."""
    launcher = Launcher(cell, environment)
    launcher.lay_out()
    queues = list(launcher.generate())
    done = launcher.command("platform", "install")
    if done.returncode != 0:
        raise DemoFailed(f"`sge-autoscaler platform install` failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    say("sge-autoscaler platform install: our shim stands where Cloud Pipeline starts its autoscaler")
    with launcher.launched():
        say(f"Cloud Pipeline's launcher starts a process for {', '.join(queues)}; its log is autoscaler.sge.main.q.log")
        yield Launched(launcher, queues)


@dataclass(slots=True)
class Launched:
    """The processes that the launcher started, as far as `Watch` uses a process."""

    launcher: Launcher
    queues: Sequence[str]
    _seen: bool = False

    def poll(self) -> int | None:
        """None until all of them have ended."""
        lives = any(map(self.launcher.pids, self.queues))
        self._seen = self._seen or lives
        return 1 if self._seen and not lives else None

    def log_text(self) -> str:
        return "".join(map(self.launcher.log_text, self.queues))


class Watch:
    """Watches the cell until all is over. Only reads."""

    def __init__(self, cell: Cell, scenario: Scenario, running: Running | Launched) -> None:
        self._cell, self._scenario, self._running = cell, scenario, running
        self._began, self._job = time.monotonic(), ""
        self._store: Store | None = None
        self.abandoned = threading.Event()
        """Set: stop watching."""

    def submit(self, say: Say) -> None:
        argv = ("-b", "y", "-t", f"1:{self._scenario.tasks}", "sleep", str(self._scenario.task_seconds))
        self._job = self._cell.submit(*argv)
        say(f"qsub {' '.join(argv)}: job {self._job}")

    def ask(self, question: str, query: Mapping[str, str]) -> dict[str, Any]:
        """The autoscaler's answer. Raises AutoscalerError."""
        return ask(ServiceAddress(str(_socket(self._cell))), target(question, query))

    def until_over(self, on_change: Callable[[], None]) -> Summary:
        """Wait for the end. `on_change` shows news, each time. Raises DemoFailed."""
        while not self.abandoned.wait(LOOK_EVERY):
            on_change()
            ends = self._ended(self._job)
            if len(ends) == self._scenario.tasks and self._all_gone():
                return self._summary(ends)
            self._fail_if_lost(ends)
        raise DemoFailed("the demo was stopped before the jobs had ended")

    def _lifetimes(self) -> tuple[Lifetime, ...]:
        store = self._opened_store()
        return () if store is None else store.history.lifetimes()

    def _opened_store(self) -> Store | None:
        files = list((self._cell.directory / "state").glob("**/*.sqlite*"))
        file = next((file for file in files if file.suffix in (".sqlite", ".sqlite3", ".db")), None)
        if self._store is None and file is not None:
            self._store = Store.open(file)
        return self._store

    def _ended(self, job: str) -> tuple[TaskEnd, ...]:
        answer = self._cell.runner(("qacct", "-j", job), timeout=10.0)
        return read_task_ends(answer.stdout.decode("utf-8", "replace")) if answer.returncode == 0 else ()

    def _all_gone(self) -> bool:
        """Whether Grid Engine has the master alone, and every machine that was ever rented has ended."""
        known = set(self._cell.out("qconf", "-sel").split())
        rented = self._lifetimes()
        machines = self._cell.tree.hosts()
        return known == {MASTER} and bool(rented) and all(one.ended_at for one in rented) and not machines

    def _fail_if_lost(self, ends: Sequence[TaskEnd]) -> None:
        bad = [end.task for end in ends if not end.well]
        if bad:
            raise DemoFailed(f"qacct shows that tasks {', '.join(bad)} did not end well" + self._last_lines())
        if self._running.poll() is not None:
            raise DemoFailed("the autoscaler ended before the jobs did" + self._last_lines())
        if time.monotonic() - self._began > DEADLINE:
            there = ", ".join(sorted(self._cell.tree.hosts())) or "none"
            raise DemoFailed(
                f"after {DEADLINE:.0f} s {len(ends)} of {self._scenario.tasks} tasks had ended, "
                f"machines still there: {there}" + self._last_lines()
            )

    def _last_lines(self) -> str:
        log = self._cell.directory / "autoscaler.log"
        text = self._running.log_text() if isinstance(self._running, Launched) else log.read_text(errors="replace")
        words = text.splitlines()[-20:]
        return "\nthe autoscaler's last lines:\n  " + "\n  ".join(words)

    def _summary(self, ends: tuple[TaskEnd, ...]) -> Summary:
        shown = self._cell.out("qhost").split()
        workers = self._lifetimes()
        if any(one.name in shown for one in workers):
            raise DemoFailed("qhost still shows a worker that was removed")
        return Summary(ends, workers, time.monotonic() - self._began, time.time())


def read_task_ends(text: str) -> tuple[TaskEnd, ...]:
    """The records of `qacct -j`, by task. Times there have whole seconds, in the C locale and the local zone."""
    records = [
        dict(line.split(None, 1) for line in block.splitlines() if len(line.split(None, 1)) == 2)
        for block in text.split("=" * 62)
    ]
    ends = [
        TaskEnd(
            task=record["taskid"].strip(),
            host=record["hostname"].strip(),
            wait=_wait(record["qsub_time"].strip(), record["start_time"].strip()),
            failed=record["failed"].strip(),
            exit_status=record["exit_status"].strip(),
        )
        for record in records
        if "taskid" in record
    ]
    return tuple(sorted(ends, key=lambda end: int(end.task) if end.task.isdigit() else 0))


def _wait(submitted: str, started: str) -> float | None:
    return None if started == _NEVER else _accounting_time(started) - _accounting_time(submitted)


def _accounting_time(text: str) -> float:
    return datetime.strptime(text.strip(), "%a %b %d %H:%M:%S %Y").astimezone().timestamp()
