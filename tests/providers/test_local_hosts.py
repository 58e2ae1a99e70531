"""Hosts of a namespace tree as its files show them; with namespaces they are tested in tests/grid_engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.namespaces import Tree, default_name
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.local.failures import freeze
from autoscaler.providers.local.hosts import TreeHosts
from autoscaler.providers.local.machines import Machine

HOLDS = """\
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.read()
"""
Hold = Callable[[Path], int]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Locks a file as the first process of a host does, and returns the id of the process that holds it."""
    holding: list[subprocess.Popen[bytes]] = []

    def start(lock: Path) -> int:
        lock.parent.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-I", "-S", "-c", HOLDS, str(lock))
        holding.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert holding[-1].stdout is not None
        holding[-1].stdout.readline()
        return holding[-1].pid

    yield start
    for process in holding:
        process.communicate()


def test_the_start_of_a_host_is_that_of_its_first_process(tmp_path: Path, hold: Hold) -> None:
    tree = Tree(tmp_path)
    pid = hold(tree.place("w1") / "first")
    started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    hosts = TreeHosts(tree)
    assert (hosts.born("w1"), hosts.born("w2")) == (started, None)


def test_names_of_hosts_of_the_cell_are_not_free(tmp_path: Path, hold: Hold) -> None:
    tree, taken, free = Tree(tmp_path), default_name(3), default_name(4)
    tree.hosts_file.write_text(f"10.1.0.1 master\n10.1.0.2 theirs\n10.1.0.3 {taken}\n10.1.0.4 {free}\n")
    hold(tree.place(taken) / "first")
    assert TreeHosts(tree).free_names() == [free]


def test_without_a_running_namespace_tree_no_host_can_be_started(tmp_path: Path, hold: Hold) -> None:
    tree = Tree(tmp_path)
    hosts, missing = TreeHosts(tree), f"no namespace tree lives in {tmp_path}"
    problems = [hosts.problem()]
    tree.hosts_file.write_text("10.1.0.1 master\n")
    problems.append(hosts.problem())
    assert problems == [missing, missing]
    hold(tree.directory / "first")
    assert hosts.problem() != missing


def test_freezing_a_terminated_machine_raises_nothing(tmp_path: Path) -> None:
    kind = load_catalog().offers["m5.large"].type
    machine = Machine("i-1", "cell", "t", 0, 1, "w1", "o", "execute", kind, PriceType.ON_DEMAND, 0.1, 1.0)
    freeze(machine, Tree(tmp_path))
