"""The private cell itself: what `up` makes, what `reset` restores, and that nothing outlives its owner."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler import namespaces
from autoscaler.commands import cell as command
from autoscaler.lab import cell_folder
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.lab.private_root import CellError
from tests.grid_engine.waiting import Until

OWNER = """
import time
from autoscaler.lab.cell import Cell
with Cell.up(hosts=1) as cell:
    print(cell.directory, flush=True)
    time.sleep(99)
"""


def queues(cell: Cell) -> set[str]:
    return set(re.findall(r"main\.q@\S+", cell.out("qstat", "-f")))


def processes_of(directory: Path) -> list[str]:
    """Commands on this machine, in whatever namespace, that were given something below `directory`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_jobs_run_on_several_hosts_at_once(cell: Cell, until: Until) -> None:
    cell.submit("-b", "y", "-pe", "mpi", "4", "sleep", "60")
    running = until(lambda: re.findall(r"main\.q@(\S+)", cell.out("qstat", "-s", "r", "-g", "t")))
    assert set(running) == {host.name for host in cell.declared}


def test_every_host_has_a_name_and_an_address_that_resolve_both_ways(cell: Cell) -> None:
    names = [host.name for host in cell.declared]
    seen = [
        (
            cell.host_runner(name)(("hostname",), timeout=60.0).stdout.decode().strip(),
            cell.out("gethostbyname", "-name", name).strip(),
            cell.out("gethostbyaddr", "-name", cell.tree.address(name)).strip(),
        )
        for name in names
    ]
    assert seen == [(name, name, name) for name in names]


@pytest.mark.thorough
def test_a_job_reaches_every_host_of_its_pe_from_its_master_task(cell: Cell, until: Until) -> None:
    # Without -nostdin, qrsh eats the loop's input; with </dev/null its output is lost now and then.
    script = cell.home / "reach"
    script.write_text(
        "#!/bin/bash\nwhile read host rest; do qrsh -inherit -nostdin $host hostname; done < $PE_HOSTFILE\n"
    )
    script.chmod(0o755)
    out = cell.output / "reached"
    cell.submit("-b", "y", "-pe", "mpi", "4", "-o", str(out), "-j", "y", str(script))
    until(lambda: not cell.out("qstat", "-u", "*"), 40)  # qacct knows of it once the first of its tasks has ended
    assert sorted(out.read_text().split()) == sorted(host.name for host in cell.declared)


def test_a_job_runs_in_no_login_shell(cell: Cell, until: Until) -> None:
    out = cell.output / "shell"
    cell.submit("-b", "y", "-o", str(out), "shopt", "-p", "login_shell")
    until(lambda: cell.runner(("qacct", "-j", "1"), timeout=60.0).returncode == 0)
    assert out.read_text() == "shopt -u login_shell\n"


def test_variables_of_the_execd_are_not_in_the_environment_of_a_job(cell: Cell, until: Until) -> None:
    out = cell.output / "environment"
    cell.submit("-b", "y", "-o", str(out), "env")
    until(lambda: cell.runner(("qacct", "-j", "1"), timeout=60.0).returncode == 0)
    assert "SGE_ND" not in out.read_text()


def test_reset_undoes_jobs_hosts_and_configuration_of_a_scenario(cell: Cell) -> None:
    cell.submit("-b", "y", "-t", "1-20", "sleep", "60")
    cell.add_host(ExecHost("ip-10-1-0-7", slots=8))
    cell.configure(max_unheard="00:00:05")
    cell.out("qmod", "-d", "*")
    cell.out("qconf", "-as", "ip-10-1-0-9")
    before = cell.out("qconf", "-sconf")
    cell.reset()
    after = (
        queues(cell),
        cell.out("qstat", "-u", "*"),
        "ip-10-1-0-9" in cell.out("qconf", "-ss"),
        cell.out("qconf", "-sconf") != before,
        cell.submit("-b", "y", "true"),
    )
    assert after == ({f"main.q@{host.name}" for host in cell.declared}, "", False, True, "1")


def test_reset_ends_the_machines_and_processes_of_a_scenario(cell: Cell) -> None:
    namespaces.start_host(cell.tree, "ip-10-1-0-7", boot=("sleep", "998"))
    with cell.start(("sleep", "998")) as child:
        cell.reset()
        assert (child.wait(120) != 0, "ip-10-1-0-7" in cell.tree.hosts()) == (True, False)


def test_ending_a_host_ends_its_jobs_and_not_the_cell(cell: Cell, until: Until) -> None:
    victim = cell.declared[0].name
    cell.submit("-b", "y", "-q", f"main.q@{victim}", "sleep", "997")

    def sleeping() -> list[str]:
        return [words for words in processes_of(cell.directory) if "sleep 997" in words]

    until(sleeping)
    cell.end_host(victim)
    assert not sleeping()
    assert cell.out("qconf", "-sh").split() == ["master"]


def test_a_restarted_qmaster_has_its_jobs(cell: Cell) -> None:
    cell.submit("-h", "-b", "y", "true")
    cell.stop_qmaster()
    cell.start_qmaster()
    assert "hqw" in cell.out("qstat")


def test_a_machine_started_inside_the_cell_outlives_its_starter_and_ends_with_the_cell() -> None:
    with Cell.up() as cell:
        program = (
            "from pathlib import Path; from autoscaler.namespaces import Tree, start_host;"
            f"start_host(Tree(Path({str(cell.tree.directory)!r})), 'ip-10-1-0-9', boot=('sleep', '996'))"
        )
        cell.out(sys.executable, "-c", program)
        machine = cell.tree.hosts()["ip-10-1-0-9"]
    assert not Path(f"/proc/{machine}").exists()


def test_two_cells_at_a_time_do_not_share_hosts(cell: Cell) -> None:
    with Cell.up(hosts=[ExecHost("elsewhere", slots=64)]) as other:
        assert (queues(other), "elsewhere" in cell.out("qstat", "-f")) == ({"main.q@elsewhere"}, False)


def test_a_bare_cell_has_a_master_only() -> None:
    with Cell.up(prepared=False) as bare:
        shown = [bare.runner(("qconf", switch), timeout=60.0) for switch in ("-sql", "-spl", "-shgrpl", "-ss", "-sel")]
    assert [(ended.returncode, b"defined" in ended.stdout + ended.stderr) for ended in shown] == [(1, True)] * 5


def test_the_master_can_be_an_execution_host_too(until: Until) -> None:
    with Cell.up(hosts=[ExecHost("master", slots=3)]) as cell:
        cell.submit("-b", "y", "-pe", "local", "3", "sleep", "60")
        until(lambda: "main.q@master" in cell.out("qstat", "-s", "r"))
        cell.reset()
        assert queues(cell) == {"main.q@master"}


def test_a_cell_whose_owner_is_killed_leaves_nothing(until: Until) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    place = Path(owner.stdout.readline().strip())
    links = set(Path("/sys/class/net").iterdir())
    assert any("sge_qmaster" in words for words in processes_of(place))
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not processes_of(place), 5, "processes of the cell ended")
    until(lambda: not place.exists(), 5, "the cell's place was removed")
    assert set(Path("/sys/class/net").iterdir()) == links


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_a_cell_ends_with_the_command_that_holds_it(number: signal.Signals, until: Until) -> None:
    name = f"held-{os.getpid()}-{number}"
    argv = (sys.executable, "-m", "autoscaler.commands.main", "cell", "up", name, "--hosts", "1")
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().startswith(f"cell {name} is up")
    holder.send_signal(number)
    status = holder.wait(120)
    holder.stdout.close()
    assert (status, (cell_folder.folder() / name).exists()) == (128 + number, False)


def test_a_cell_can_be_entered_and_ended_by_name(cell: Cell) -> None:
    argv = (sys.executable, "-m", "autoscaler.commands.main", "cell")
    with Cell.up(directory=None) as other:
        name = other.directory.name
        entered = subprocess.run((*argv, "exec", name, "--", "sh", "-c", "qconf -sh; exit 7"), capture_output=True)
        ended = subprocess.run((*argv, "down", name), capture_output=True)
        alive = namespaces.holder(other.tree.directory / "first")
    assert (entered.returncode, entered.stdout, ended.returncode, alive) == (7, b"master\n", 0, None)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGHUP))
def test_cell_exec_passes_on_signals(cell: Cell, number: signal.Signals) -> None:
    program = f"trap 'exit 9' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    argv = (sys.executable, "-m", "autoscaler.commands.main", "cell", "exec", cell.directory.name, "--", "sh", "-c")
    with subprocess.Popen((*argv, program), stdout=subprocess.PIPE, text=True) as entered:
        assert entered.stdout is not None
        assert entered.stdout.readline() == "ready\n"
        entered.send_signal(number)
        assert entered.wait(60) == 9


def test_cell_exec_passes_on_a_signal_that_comes_during_the_start() -> None:
    got: list[signal.Signals] = []

    @contextlib.contextmanager
    def start(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        os.kill(os.getpid(), signal.SIGTERM)
        yield SimpleNamespace(signal=got.append, child=SimpleNamespace(wait=lambda: 9))

    place = SimpleNamespace(directory=Path("/nowhere"))
    entered: Any = SimpleNamespace(start=start, tree=place, directory=place.directory)
    assert (command._run(entered, ("true",), None), got) == (9, [signal.SIGTERM])


def test_a_cell_name_can_be_claimed_only_once() -> None:
    name = f"taken-{os.getpid()}"
    with cell_folder.claim(name), pytest.raises(CellError, match="already"), cell_folder.claim(name):
        pass
