"""A trial on a real cell: it changes nothing, whoever makes it, and says what would have been done."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.store.lock import try_lock
from autoscaler.store.trial import RunSeen, TrialTable
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown
from tests.grid_engine.gate import Gate
from tests.grid_engine.test_hybrid import make_memory_consumable
from tests.grid_engine.test_leaving import configuration
from tests.grid_engine.test_readonly import changed, files
from tests.grid_engine.waiting import Until

NOBODY = 65534
READING = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""The Python of a checkout may lie below a home that the account could not enter."""
MOVING = re.compile(rb"^(usage|scheduling info|exec_host_list|binding)\b|^ +(queue instance|cannot run)", re.MULTILINE)
"""What `qstat -j` prints of a job that goes on."""
ON_A_TERMINAL = (sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])")
"""A terminal for a command. It closes with this process."""
QUICK = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_POLLING_DELAY": "0.5"}


def everything(cell: Cell) -> dict[str, bytes]:
    """All that Grid Engine shows of its configuration, hosts and jobs, loads and usage aside."""
    shown = configured(cell)
    for words in (("qconf", "-secl"), ("qconf", "-sep"), ("qconf", "-sds"), ("qhost", "-q"), ("qstat", "-j", "*")):
        done = cell.runner(words, timeout=60.0)
        lines = (done.stdout + done.stderr).splitlines(keepends=True)
        kept = (line for line in lines if not MOVING.search(line))
        shown[" ".join(words)] = b"".join(kept if words[0] != "qhost" else (_without_load(line) for line in kept))
    states = Autoscaling(cell).instances().values()
    return shown | {f"{each.queue}@{each.host}": f"{each.slots} {each.states}".encode() for each in states}


def configured(cell: Cell) -> dict[str, bytes]:
    """The configuration. Of load values only the first line is left out already; here are those that continue it."""
    return {words: re.sub(rb"(?m)^ +\S*=\S*.*\n", b"", text) for words, text in configuration(cell).items()}


def _without_load(line: bytes) -> bytes:
    """Of `qhost -q`: names, and queues with slots and states."""
    return line if line.startswith(b" ") else line.split()[0] + b"\n"


@contextmanager
def trial(
    scaling: Autoscaling, *words: str, user: int = 0, under: Sequence[str] = ()
) -> Iterator[tuple[Running, Path]]:
    """The command beside the test, as a user, started by another one (`under`); with its output."""
    scaling.state.mkdir(exist_ok=True)
    os.chown(scaling.state, user, user)
    output = scaling.cell.home / f"trial-{len(list(scaling.cell.home.glob('trial-*')))}"
    output.touch()
    drop = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *READING) if user else ()
    # Whoever started the tests may ignore SIGHUP (`nohup`), which all processes below would do, too.
    argv = ("env", "--default-signal=HUP", *drop, *under, "sge-autoscaler", "trial", *words)
    running = scaling.cell.start(argv, env=scaling.environment, output=output)
    try:
        yield running, output
    finally:
        running.terminate(120.0)


def watched(scaling: Autoscaling) -> list[tuple[float, float]]:
    """When the trial watched."""
    found = list(scaling.state.glob("*.trial"))
    if not found:
        return []
    table = TrialTable.open(found[0])
    try:
        return table.periods()
    finally:
        table.close()


def seen_runs(scaling: Autoscaling) -> list[RunSeen]:
    table = TrialTable.open(next(iter(scaling.state.glob("*.trial"))))
    try:
        return table.runs()
    finally:
        table.close()


def reported(scaling: Autoscaling, *words: str) -> dict[str, Any]:
    done = scaling.command("trial", "--report", "--json", "--boot", "5s", *words)
    assert done.returncode == 0, done.stderr.decode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("user", (0, NOBODY), ids=("as a manager", "by an account that may not write"))
def test_a_trial_changes_nothing(cell: Cell, until: Until, show_on_failure: Shown, user: int) -> None:
    scaling = Autoscaling(cell, QUICK)
    show_on_failure["trial"] = lambda: "\n".join(file.read_text() for file in cell.home.glob("trial-*"))
    if user:
        refused = cell.runner(
            ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "qmod", "-d", "main.q"), timeout=60.0
        )
        assert b"no permission to modify" in refused.stdout + refused.stderr
    gate = Gate(cell)
    running = gate.submit("-pe", "local", "2")
    gate.submit("-t", "1-6", "-pe", "local", "2")
    gate.submit("-h")
    cell.submit("-b", "y", "-pe", "local", "400", "true")
    until(lambda: scaling.running_on(running), 30)
    common = cell.root / "default" / "common"
    before = (everything(cell), files(common))
    with trial(scaling, "--for", "1h", "--boot", "5s", user=user) as (process, output):
        until(lambda: (seen := watched(scaling)) and seen[-1][1] - seen[0][0] > 3.0, 60)
        during = (everything(cell), files(common))
        assert {name for name in before[0] if before[0][name] != during[0].get(name)} == set()
        assert changed(before[1], during[1]) == set()
        gate.open()
        until(lambda: not any(instance.jobs for instance in scaling.instances().values()), 60)
        process.signal(signal.SIGINT)
        assert process.wait(120.0) == 0, output.read_text()
    text = output.read_text()
    assert re.search(r"In \d+s, \d+ tasks started on 2 hosts of yours, and waited", text)
    assert re.search(r"In place of your hosts, \d+ workers? would have been launched and \d+ removed", text)
    assert "TOO_LARGE" in text
    assert "it is held" in text
    assert "Its weights: priority 0, urgency 0.5, waiting time 0.278." in " ".join(text.split())  # Debian's
    after = configured(cell)
    assert {name for name in after if before[0][name] != after[name]} == set()
    cell.out("qmod", "-d", "main.q")
    assert everything(cell) != before[0], "a change would have been seen"


def test_a_killed_trial_goes_on_and_ends_by_itself(cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = Autoscaling(cell, QUICK)
    show_on_failure["trial"] = lambda: "\n".join(file.read_text() for file in cell.home.glob("trial-*"))
    gate = Gate(cell)
    with trial(scaling, "--for", "1h") as (process, _):
        until(lambda: (seen := watched(scaling)) and seen[-1][1] > seen[0][0] + 2.0, 60)
        first = gate.submit("-t", "1-4")
        until(lambda: sum(scaling.running_on(first).values()) == 4, 30)
        seen = watched(scaling)[-1][1]
        until(lambda: watched(scaling)[-1][1] > seen + 2.0, 30)
        beside = scaling.command("trial")
        assert (beside.returncode, b"watches this cell already" in beside.stderr) == (5, True)
        process.signal(signal.SIGKILL)
        process.wait(60.0)
    time.sleep(1.0)  # accounting rounds a submission down to its second, which may be that of the last pass
    second = gate.submit()
    gate.open()
    until(lambda: scaling.ended_well(second), 30)
    began = watched(scaling)[0][0]
    document = reported(scaling)
    assert document["happened"]["tasks"] == 4, [(run.key, run.started, run.ended) for run in seen_runs(scaling)]
    lasts = f"{watched(scaling)[-1][1] - began + 15:.0f}s"
    with trial(scaling, "--for", lasts) as (process, output):
        third = cell.submit("-b", "y", "sleep", "2")
        assert process.wait(120.0) == 0
    assert "tasks started on 2 hosts of yours" in output.read_text()
    document = reported(scaling)
    assert len(watched(scaling)) == 2
    assert document["unwatched_s"] > 0
    assert document["happened"]["tasks"] == 6, (first, second, third)
    assert document["happened"]["running_at_end"] == document["happened"]["waiting_at_end"] == 0
    assert b"--anew begins another one" in scaling.command("trial").stderr


def test_a_trial_knows_the_memory_that_hosts_are_configured_with_also_while_jobs_hold_some(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    make_memory_consumable(cell)
    configured_with = {}
    for number, host in enumerate(sorted(cell.out("qconf", "-sel").split()), start=1):
        cell.out("qconf", "-mattr", "exechost", "complex_values", f"h_vmem={number * 10}G", host)
        shown = cell.out("qconf", "-se", host)
        assert f"h_vmem={number * 10}G" in shown
        configured_with[host] = number * 10 * 1024**3
    scaling = Autoscaling(cell, QUICK)
    show_on_failure["trial"] = lambda: "\n".join(file.read_text() for file in cell.home.glob("trial-*"))
    jobs = Gate(cell).submit("-t", "1-4", "-l", "h_vmem=1500M")
    until(lambda: sum(scaling.running_on(jobs).values()) == 4, 30)
    with trial(scaling, "--memory", "h_vmem", "--boot", "5s") as (process, output):
        until(lambda: watched(scaling), 60)
        process.signal(signal.SIGINT)
        assert process.wait(120.0) == 0, output.read_text()
    table = TrialTable.open(next(iter(scaling.state.glob("*.trial"))))
    try:
        seen = {host.name: dict(host.complex_values)["h_vmem"] for host in table.hosts() if host.slots}
    finally:
        table.close()
    assert seen == pytest.approx(configured_with, rel=0.001)
    refused = scaling.command("trial", "--memory", "h_vmen")
    assert (refused.returncode, b"did you mean h_vmem?" in refused.stderr) == (2, True)


def test_the_end_of_its_terminal_ends_a_trial_that_goes_on_later_but_for_nohup(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell, QUICK)
    show_on_failure["trial"] = lambda: "\n".join(file.read_text() for file in cell.home.glob("trial-*"))
    with trial(scaling, "--for", "1h") as (process, output):
        until(lambda: watched(scaling), 60)
        process.signal(signal.SIGHUP)
        assert process.wait(120.0) == 0
    assert "started again, it goes on" in output.read_text()
    assert "In short" not in output.read_text(), "it reported, as if it were over"
    with trial(scaling, under=("nohup",)) as (process, output):
        until(lambda: len(watched(scaling)) == 2, 60)
        process.signal(signal.SIGHUP)
        seen = watched(scaling)[-1][1]
        until(lambda: watched(scaling)[-1][1] > seen + 2.0, 60)
        process.signal(signal.SIGINT)
        assert process.wait(120.0) == 0
    assert "In short" in output.read_text()


def test_a_trial_ends_well_when_its_terminal_is_closed(cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = Autoscaling(cell, QUICK)
    show_on_failure["trial"] = lambda: "\n".join(file.read_text() for file in cell.home.glob("trial-*"))
    with trial(scaling, "--for", "1h", under=ON_A_TERMINAL) as (terminal, output):
        until(lambda: watched(scaling), 60)
        until(lambda: "left" in output.read_text(), 30, "it does not show on the terminal how it goes")
        (lock,) = scaling.state.glob("*.trial-lock")
        assert try_lock(lock) is None, "it watches"
        terminal.signal(signal.SIGKILL)
        terminal.wait(60.0)
        free = until(lambda: try_lock(lock), 60, "the trial goes on without its terminal")
        assert free is not None
        os.close(free)
    assert "Traceback" not in output.read_text()
    assert reported(scaling)["unwatched_s"] == 0


def test_where_an_autoscaler_serves_there_is_nothing_to_try(cell: Cell, until: Until) -> None:
    scaling = Autoscaling(cell)
    with trial(scaling, "--for", "1h") as (process, output):
        until(lambda: watched(scaling), 60)
        with scaling.running():
            until(lambda: "serving cell" in scaling.log_text(), 60)
            done = scaling.command("trial")
            assert process.wait(120.0) == 0, output.read_text()
    assert (done.returncode, b"simulate --last 7d" in done.stderr) == (5, True)
    assert "an autoscaler serves this cell now, which ends the trial" in output.read_text()
