"""The local provider with real hosts: the whole contract, and machines that are real execution hosts of a cell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from autoscaler import namespaces
from autoscaler.core.model.fleet import MachineState
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.namespaces import Tree
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import CELL, ControlPlane, Fault, LostAnswer, ProviderContract
from autoscaler.providers.interface import LaunchOrder
from autoscaler.providers.local.hosts import TreeHosts
from autoscaler.providers.local.provider import LocalProvider
from autoscaler.providers.local.settings import LocalSettings
from tests.deadlines import stretched
from tests.grid_engine.waiting import Until


class DyingHosts(TreeHosts):
    """Starts a host, and dies before it can say so."""

    def start(self, *arguments: Any) -> int:
        super().start(*arguments)
        raise LostAnswer


class TreePlane(ControlPlane):
    """Real hosts, no Grid Engine; every test has records of its own."""

    deadline = 20.0
    many = 4
    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {
            Fault.STOPPED: "a host of namespaces exists or does not",
            Fault.ENDED_OUTSIDE: "the cause of a killed host is not recorded: it counts as one that died",
            Fault.IMAGE_DISKS: "a host of namespaces has no disks",
            Fault.THROTTLED: "calls on this host are not counted",
            Fault.LOST_THEN_THROTTLED: "calls on this host are not counted",
            Fault.ADVICE: "nobody is asked but this host",
            Fault.LONG_PAUSE: "calls on this host are not counted",
            Fault.CREDENTIALS: "whoever may start hosts needs none",
            Fault.BROKEN_TLS: "there is no network between provider and machines",
            Fault.HIDE_NEW: "its listing lags as a whole",
            Fault.NO_IDS: "an id is made of the order before its machine is",
            Fault.CUT_LISTING: "its files are one page; tests/providers has one that cannot be read",
            Fault.FORGOTTEN: "the records of ended machines stay for a day; tests/providers acts it out",
            Fault.CHANGED_SETTINGS: "no setting is part of a launch",
            Fault.REFUSED: "whoever runs this test may start hosts; tests/providers acts it out",
        }
    )

    def __init__(self, tree: Tree, state: Path) -> None:
        self.tree, self.state = tree, state
        self.chosen: dict[str, Any] = {}
        self.hosts = TreeHosts(tree)

    def connect(self, cell: str) -> LocalProvider:
        settings = LocalSettings(network=self.tree.directory, **{"state": self.state, **self.chosen})
        return LocalProvider(settings, cell=cell, hosts=self.hosts)

    def billable(self) -> Collection[str]:
        return list(self.tree.hosts())

    def inject(self, fault: Fault) -> None:
        match fault:
            case Fault.OUT_OF_CAPACITY:
                self.chosen = {"out_of_capacity": tuple(load_catalog().types)}
            case Fault.PARTIAL:
                self.chosen = {"max_machines": 2}
            case Fault.QUOTA:
                self.chosen = {"max_machines": 0}
            case Fault.LAG:
                self.chosen = {"listing_lag": 3600}
            case Fault.LOST_ANSWER:
                self.hosts = DyingHosts(self.tree)
            case Fault.ACCEPTED_THEN_DEAD:
                self.chosen = {"sudden_death": 0.1}
            case Fault.MALFORMED:
                for record in self.state.glob("*/machine.json"):
                    record.write_text("")
            case Fault.UNREACHABLE:
                self.state.write_text("no directory")
            case _:
                raise AssertionError(fault)

    def heal(self) -> None:
        self.chosen, self.hosts = {}, TreeHosts(self.tree)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    with namespaces.own_tree(tmp_path_factory.mktemp("tree"), names={1: "master", 11: "persistent"}) as tree:
        yield tree


class TestLocalWithRealHosts(ProviderContract):
    @pytest.fixture
    def plane(self, tree: Tree, tmp_path: Path) -> Iterator[ControlPlane]:
        yield TreePlane(tree, tmp_path / "machines")
        for name in tree.hosts():
            namespaces.end_host(tree, name)


def provider_of(cell: Cell, **settings: Any) -> LocalProvider:
    chosen = LocalSettings(network=cell.tree.directory, state=cell.home / "machines", **settings)
    return LocalProvider(chosen, cell=CELL)


def order(cell: Cell, *, count: int = 1) -> LaunchOrder:
    """A machine that starts a real execd, as the boot script of a worker does."""
    bucket = next(bucket for bucket in load_catalog().buckets() if bucket.type.name == "m5.xlarge")
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in cell.environment.items()]
    script = "#!/bin/sh\n" + "".join(exports) + "echo starting execd\nsge_execd\n"
    return LaunchOrder("order-0", "order", CELL, "execute", (bucket,), count, script)


def processes_of(worker_id: str) -> list[str]:
    """Every process on this machine that a worker started, in whatever namespace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"WORKER_ID={worker_id}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return found


def test_a_worker_runs_a_job_as_an_execution_host_and_leaves_nothing(empty_cell: Cell, until: Until) -> None:
    provider = provider_of(empty_cell)
    (worker_id,) = provider.launch(order(empty_cell)).ids
    (worker,) = provider.workers()
    assert worker.name is not None
    empty_cell.enrol(ExecHost(worker.name, worker.type.vcpus))
    out = empty_cell.output / "ran-on"
    empty_cell.submit("-b", "y", "-o", str(out), "-pe", "local", "4", "hostname")
    until(lambda: out.exists() and out.read_text().strip(), 30, "the job did not run")

    provider.terminate([worker_id])

    assert out.read_text().strip() == worker.name
    until(lambda: processes_of(worker_id) == [])
    assert [listed.state for listed in provider.workers()] == [MachineState.TERMINATED]


def test_a_worker_outlives_the_autoscaler_that_launched_it(empty_cell: Cell, until: Until) -> None:
    provider = provider_of(empty_cell)
    script = empty_cell.home / "launch.py"
    bucket = "next(bucket for bucket in provider.buckets() if bucket.type.name == 'm5.large')"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from autoscaler.providers.interface import LaunchOrder\n"
        "from autoscaler.providers.local.provider import LocalProvider\n"
        "from autoscaler.providers.local.settings import LocalSettings\n"
        "network, state = map(Path, sys.argv[1:])\n"
        f"provider = LocalProvider(LocalSettings(network=network, state=state), cell={CELL!r})\n"
        f"provider.launch(LaunchOrder('a-0', 'a', {CELL!r}, 'execute', ({bucket},), 1, '#!/bin/sh\\nsleep 600\\n'))\n"
        "os._exit(9)\n"
    )
    argv = (sys.executable, str(script), str(empty_cell.tree.directory), str(empty_cell.home / "machines"))
    ended = empty_cell.runner(argv, timeout=60.0)

    (worker,) = provider.workers()

    assert (ended.returncode, worker.state) == (9, MachineState.RUNNING), ended.stderr
    assert worker.name in empty_cell.tree.hosts()


def test_a_worker_listed_from_inside_the_cell_is_the_one_launched_from_outside(empty_cell: Cell) -> None:
    provider = provider_of(empty_cell)
    launched = provider.launch(order(empty_cell))
    listing = (
        "import sys\n"
        "from pathlib import Path\n"
        "from autoscaler.providers.local.provider import LocalProvider\n"
        "from autoscaler.providers.local.settings import LocalSettings\n"
        "network, state = map(Path, sys.argv[1:])\n"
        f"provider = LocalProvider(LocalSettings(network=network, state=state), cell={CELL!r})\n"
        "print(*(worker.id for worker in provider.workers() if worker.exists))\n"
    )
    argv = (sys.executable, "-c", listing, str(empty_cell.tree.directory), str(empty_cell.home / "machines"))

    seen = empty_cell.runner(argv, timeout=60.0)

    assert seen.stdout.decode().split() == list(launched.ids), seen.stderr


def test_a_worker_dies_suddenly_with_all_it_runs(empty_cell: Cell, until: Until) -> None:
    lives_on = provider_of(empty_cell)
    (worker_id,) = lives_on.launch(order(empty_cell)).ids
    until(lambda: "sge_execd" in processes_of(worker_id))

    provider = provider_of(empty_cell, sudden_death=1)
    until(lambda: not [worker for worker in provider.workers() if worker.exists])

    until(lambda: processes_of(worker_id) == [])


@pytest.mark.thorough
def test_a_worker_waits_its_boot_delay_before_it_runs_the_script(empty_cell: Cell, until: Until) -> None:
    provider = provider_of(empty_cell, boot_delay=stretched(2))
    (worker_id,) = provider.launch(order(empty_cell)).ids
    first = (provider.workers()[0].state, provider.console(worker_id))

    until(lambda: "starting execd" in provider.console(worker_id))

    assert first == (MachineState.PENDING, "")
    assert provider.workers()[0].state is MachineState.RUNNING


def test_a_failed_boot_leaves_a_running_machine_and_its_console(empty_cell: Cell, until: Until) -> None:
    provider = provider_of(empty_cell, failing_boots=("m5.xlarge",))
    (worker_id,) = provider.launch(order(empty_cell)).ids

    until(lambda: "boot script ended with status 1" in provider.console(worker_id))

    assert provider.workers()[0].state is MachineState.RUNNING


def test_names_of_workers_are_never_those_of_persistent_hosts(cell: Cell) -> None:
    provider = provider_of(cell)
    provider.launch(order(cell, count=3))

    names = {worker.name for worker in provider.workers()}

    assert len(names) == 3
    assert names.isdisjoint(host.name for host in cell.declared)


def test_two_cells_at_a_time_list_only_their_own_workers(empty_cell: Cell, tmp_path: Path) -> None:
    provider = provider_of(empty_cell)
    provider.launch(order(empty_cell))
    with namespaces.own_tree(tmp_path / "tree", names={1: "master"}) as other:
        beside = LocalProvider(LocalSettings(network=other.directory), cell=CELL)
        seen = (list(beside.workers()), beside.launch(order(empty_cell)).shortfalls)

        assert seen == ([], ())
        assert len(provider.workers()) == len(beside.workers()) == 1


def test_a_check_in_a_running_cell_finds_nothing(empty_cell: Cell) -> None:
    assert list(provider_of(empty_cell).check()) == []


def test_a_check_reports_that_the_cell_is_gone(tmp_path: Path) -> None:
    (problem,) = LocalProvider(LocalSettings(network=tmp_path), cell=CELL).check()

    assert problem.what == f"no namespace tree lives in {tmp_path}"
