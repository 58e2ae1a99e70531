"""Grid Engine answers whether a job could ever run on probe hosts, and is then left unchanged."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX, ProbeHost
from autoscaler.core.model.evidence import Answer
from autoscaler.hosts_file import HOSTS, HostsFile
from autoscaler.lab.cell import Cell
from autoscaler.process import Completed, only_reads
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.sge.qstat import COMMAND
from autoscaler.sge.reading import read_configuration
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import log_and_journal
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.waiting import Shown, Until

ROOT = Path(__file__).parents[2]
LOAD = (("arch", "lx-amd64"), ("mem_free", "240G"), ("mem_total", "256G"), ("num_proc", "64"))
"""What the execd of such a machine would report."""
BIG = ProbeHost("main.q", 64, (*LOAD, ("h_vmem", "256G")))


class Died(Exception):
    """The process ends here, and does nothing more."""


class Dying:
    """A runner whose caller dies after this many commands that change something."""

    def __init__(self, cell: Cell, after: int) -> None:
        self.inner, self.left = cell.runner, after

    def __call__(self, argv: Sequence[str], *, timeout: float, **more: object) -> Completed:
        if self.left <= 0:
            raise Died
        ended = self.inner(argv, timeout=timeout)
        if not only_reads(argv):
            self.left -= 1
        return ended


class NamesThatDie:
    """The hosts file of a process that has died."""

    def __init__(self, cell: Cell, dying: Dying) -> None:
        self.inner, self.dying = names_of(cell), dying

    def locked(self, patience: float) -> AbstractContextManager[None]:
        return self.inner.locked(patience)

    def put(self, addresses: Mapping[str, str]) -> None:
        self._live()
        self.inner.put(addresses)

    def clear(self) -> None:
        self._live()
        self.inner.clear()

    def _live(self) -> None:
        if self.dying.left <= 0:
            raise Died


def names_of(cell: Cell) -> HostsFile:
    """The hosts file of the cell's master: the file that is mounted there."""
    return HostsFile(cell.tree.directory / "hosts.txt")


def probe_hosts(cell: Cell) -> ProbeHosts:
    return ProbeHosts(cell.runner, names_of(cell))


def _line(cell: Cell, job: str) -> str:
    return next((line for line in cell.out("qstat", "-u", "*").splitlines() if line.split()[:1] == [job]), "")


def configuration(cell: Cell) -> tuple[str, ...]:
    """Everything that asking could have left: hosts, queues with their instances, and the master's hosts file."""
    shown = (("qconf", "-sel"), ("qconf", "-sq", "*"), ("qselect",), ("cat", str(HOSTS)))
    return tuple(cell.out(*argv) for argv in shown)


POSSIBLE = (
    ("-pe", "local", "64"),
    ("-pe", "mpi", "132"),
    ("-pe", "m*", "132"),
    ("-pe", "mpi", "100-400"),
    ("-t", "1-100:3", "-pe", "local", "64"),
    ("-l", "arch=lx-amd64", "-pe", "local", "64"),
    ("-l", "mem_free=200G"),
    ("-l", "mem_total=256G"),
    ("-l", "num_proc=64"),
    ("-hold_jid", "1", "-pe", "local", "64"),
)
IMPOSSIBLE = (
    ("-pe", "local", "65"),
    ("-pe", "mpi", "133"),
    ("-pe", "m*", "133"),
    ("-pe", "mpi", "200-400"),
    ("-t", "1-100:3", "-pe", "local", "65"),
    ("-l", "arch=sol-sparc"),
    ("-l", "mem_total=257G"),
    ("-l", "num_proc=8"),
    ("-l", "swap_total=8G"),
)
UNANSWERED = (("-h",), ("-h", "-pe", "local", "64"))
"""Grid Engine gives no answer for a held job, unless it could never run."""


def test_every_answer_of_grid_engine_is_understood(cell: Cell, until: Until) -> None:
    running = cell.submit("-b", "y", "sleep", "60")
    until(lambda: " r " in _line(cell, running), message="the job did not start")
    cell.out("qmod", "-d", "*")
    expected = {int(running): Answer.NONE, 999: Answer.NONE}
    for options, answer in (
        *((options, Answer.SATISFIABLE) for options in POSSIBLE),
        *((options, Answer.UNSATISFIABLE) for options in IMPOSSIBLE),
        *((options, Answer.NONE) for options in UNANSWERED),
    ):
        expected[int(cell.submit("-b", "y", *options, "sleep", "60"))] = answer
    asked = probe_hosts(cell).ask(list(expected), [BIG, BIG])
    wrong = {job: found for job, found in asked.answers.items() if found[0] is not expected[job]}
    assert (wrong, asked.left) == ({}, "")


def test_without_probe_hosts_nothing_is_changed_and_only_existing_hosts_count(cell: Cell) -> None:
    before = configuration(cell)
    job = int(cell.submit("-b", "y", "-pe", "local", "64", "sleep", "60"))
    asked = probe_hosts(cell).ask([job], [])
    assert (asked.answers[job][0], configuration(cell)) == (Answer.UNSATISFIABLE, before)


def test_asking_leaves_the_configuration_unchanged(cell: Cell) -> None:
    before = configuration(cell)
    job = int(cell.submit("-b", "y", "-pe", "local", "64", "sleep", "60"))
    asked = probe_hosts(cell).ask([job], [BIG] * 4)
    assert (asked.answers[job][0], configuration(cell)) == (Answer.SATISFIABLE, before)


def test_a_sweep_after_a_kill_at_any_command_restores_the_configuration(cell: Cell) -> None:
    job = int(cell.submit("-b", "y", "-pe", "local", "64", "sleep", "60"))
    before, unswept = configuration(cell), list[int]()
    deaths = 0
    while True:
        dying = Dying(cell, deaths)
        try:
            ProbeHosts(dying, NamesThatDie(cell, dying)).ask([job], [BIG, BIG])
        except Died:
            deaths += 1
        else:
            break
        probe_hosts(cell).sweep()
        if configuration(cell) != before:
            unswept.append(deaths)
    assert (deaths > 8, unswept, configuration(cell)) == (True, [], before)


def test_no_job_starts_on_a_probe_host_and_it_is_not_in_the_cluster(cell: Cell, until: Until) -> None:
    job = int(cell.submit("-b", "y", "-pe", "local", "64", "sleep", "60"))
    with pytest.raises(Died):
        ProbeHosts(dying := Dying(cell, 6), NamesThatDie(cell, dying)).ask([job], [BIG])
    until(lambda: " 0.00000 " not in _line(cell, str(job)), message="the scheduler did not consider the job")
    outputs = Outputs(cell.out(*COMMAND).encode(), qconf=read_configuration(cell.runner))
    cluster = cluster_from(outputs, zone=UTC, now=0.0)
    shown = repr((cluster.hosts, cluster.queues, cluster.host_groups, cluster.execution_hosts))
    there = PROBE_HOST_PREFIX in outputs.qstat.decode() and PROBE_HOST_PREFIX in outputs.qconf["sel"]
    assert (there, " qw " in _line(cell, str(job)), PROBE_HOST_PREFIX in shown) == (True, True, False)
    probe_hosts(cell).sweep()


def test_an_unreachable_qmaster_gives_no_answer(cell: Cell) -> None:
    def unreachable(argv: Sequence[str], *, timeout: float, **more: object) -> Completed:
        return Completed(tuple(argv), 1, b"", b"error: commlib error: got select error (Connection refused)\n", 0.0)

    asked = ProbeHosts(unreachable, names_of(cell)).ask([1], [BIG])
    assert (asked.answers[1][0], "commlib" in asked.left) == (Answer.NONE, True)


ASK = """
import sys
from autoscaler.core.actions import ProbeHost
from autoscaler.hosts_file import HostsFile
from autoscaler.process import SystemRunner
from autoscaler.sge.probe_hosts import ProbeHosts

print(ProbeHosts(SystemRunner(), HostsFile()).ask([int(sys.argv[1])], [ProbeHost("main.q", 64, ())] * 2).answers)
"""


@pytest.mark.thorough
def test_probe_hosts_of_a_killed_process_are_removed_by_the_next(cell: Cell, show_on_failure: Shown) -> None:
    """Killed right before the question, then right after it; `once` removes the probe hosts."""
    job = cell.submit("-b", "y", "-h", "sleep", "60")
    before, stand_in, scaling = configuration(cell), StandIn(cell, "qalter"), Autoscaling(cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    stand_in.kill_caller_around("-w v*")
    environment = {**cell.environment, "PATH": stand_in.path, "PYTHONPATH": str(ROOT)}
    left: list[bool] = []
    after: list[tuple[str, ...]] = []
    for _ in range(2):
        killed = cell.runner((sys.executable, "-c", ASK, job), timeout=60.0, env=environment)
        there = set(re.findall(rf"{PROBE_HOST_PREFIX}\d+", " ".join(configuration(cell))))
        left.append(killed.returncode != 0 and len(there) == 2)
        once = scaling.command("once")
        assert once.returncode == 0, once.stderr.decode()
        after.append(configuration(cell))
    assert (stand_in.killed(), left, after) == ({"before", "after"}, [True, True], [before, before])
