"""Workers that ask to stop, by the lines that CycleCloud's documentation gives for its nodes, on a real cell."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from autoscaler import jetpack
from autoscaler.errors import CommandError
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal, machines
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until

LISTENS = {"CP_CAP_AUTOSCALE_AUTOSTOP": "10.1.0.1:8650", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"}
"""No worker leaves for idleness: a worker that stops was allowed to."""
ASK = """\
AUTOSTOP_URL=$( jetpack config cyclecloud.cluster.autoscale.stop_callback )
INSTANCE_ID=$( jetpack config cyclecloud.instance.id )
curl -sS --fail-with-body -m 25 "$AUTOSTOP_URL?instance=$INSTANCE_ID"
"""


def asked(cell: Cell, worker: str) -> dict[str, Any]:
    """The answer to a worker that runs the documentation's lines."""
    answer = cell.tree.host_runner(worker)(("sh", "-c", ASK), timeout=60.0)
    assert answer.returncode == 0, (answer.stdout + answer.stderr).decode()
    reply: dict[str, Any] = json.loads(answer.stdout)
    return reply


def test_a_worker_that_asks_to_stop_stops_when_idle_but_not_while_a_job_runs(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, LISTENS)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    by_hand = [{"Name": "execute", "TargetCount": 0, "Configuration": {"application_version": "1.2.3"}}]
    wanted, script, output = (empty_cell.home / name for name in ("arrays.json", "job", "said"))
    wanted.write_text(json.dumps(by_hand))
    script.write_text(f"""{ASK}
jetpack config application_version
PATH=$SGE_O_PATH
sge-autoscaler worker config get application_version
sge-autoscaler worker config get cyclecloud.node.name
""")
    scaling.command("autoscale", "--file", str(wanted))
    job = empty_cell.submit("-b", "y", "-j", "y", "-o", str(output), "sh", str(script))
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
        (worker,) = scaling.rented()
        when_idle = asked(empty_cell, worker)
        until(scaling.all_gone, 30)
    while_busy, *configured = output.read_text().splitlines()
    assert (json.loads(while_busy)["stop"], configured) == (False, ["1.2.3", "1.2.3", worker])
    assert (when_idle["stop"], "/autostop/" in scaling.log_text()) == (True, False)


CLIENTS, ROUNDS, ASKS_EVERY = 20, 50, 5
BUSY, WANTED = 2, 4
"""Busy workers, and those that the last updates of all clients request besides."""


@dataclass
class Crowd:
    """Clients that update their request sets and ask for workers to stop, all at once, and the answers."""

    scaling: Autoscaling
    stopped: set[str] = field(default_factory=set)
    """Ids of workers whose answer was to stop."""
    answered: int = 0

    def client(self, number: int) -> None:
        """One client's life; the last update requests a worker for the first few clients only."""
        chance = random.Random(number)
        for round_ in range(ROUNDS):
            last = round_ == ROUNDS - 1
            requested = number < WANTED if last else number < 2 * WANTED and chance.random() < 0.5
            array = {
                "Name": "execute",
                "TargetCount" if number % 2 else "TargetCoreCount": requested * (2 - number % 2),
            }
            jetpack.autoscale.update([array], request_set=f"client-{number}")
            if round_ % ASKS_EVERY == ASKS_EVERY - 1:
                self.ask(chance.choice(sorted(self.scaling.rented())))

    def ask(self, worker: str) -> None:
        """Ask as this worker until there is an answer, or the worker is gone."""
        while worker in self.scaling.rented():
            try:
                answer = self.scaling.cell.tree.host_runner(worker)(("sh", "-c", ASK), timeout=60.0)
                reply = json.loads(answer.stdout)
            except (CommandError, json.JSONDecodeError):
                time.sleep(0.1)  # it is booting, or its end took the caller along
                continue
            if "stop" in reply:
                self.answered += 1
                self.stopped |= {reply["instance"]} if reply["stop"] else set()
                return

    def all_ask(self, workers: Iterable[str]) -> None:
        """All these workers ask at the same time."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self.ask, sorted(workers)))

    def in_service(self, count: int) -> bool:
        """Whether this many workers are enabled, and there is no other machine."""
        instances = self.scaling.instances()
        serving = {
            name for name in self.scaling.rented() if (one := instances.get(f"main.q@{name}")) and not one.states
        }
        return len(serving) == count == len(self.scaling.rented())

    def settled(self) -> bool:
        """Whether all machines are enabled, and are at least as many as requested."""
        there = len(self.scaling.rented())
        return there >= BUSY + WANTED and self.in_service(there)


def ended(scaling: Autoscaling) -> set[str]:
    """Ids of all machines that were given back."""
    return {machine.id for machine in machines(scaling) if machine.ended_at is not None}


@pytest.mark.thorough
def test_of_many_workers_that_ask_to_stop_exactly_the_surplus_stops_and_jobs_run_on(
    empty_cell: Cell, until: Until, show_on_failure: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaling = Autoscaling(empty_cell, {**LISTENS, "CP_CAP_AUTOSCALE_WORKERS": "8"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    crowd, gate = Crowd(scaling), Gate(empty_cell)
    submitted = [gate.submit("-pe", "local", "2") for _ in range(BUSY)]
    with scaling.running():
        until(lambda: all(scaling.running_on(job) for job in submitted), 40)
        busy = {host for job in submitted for host in scaling.running_on(job)}
        monkeypatch.setenv("CP_CAP_AUTOSCALE_WORKDIR", str(scaling.state))
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(crowd.client, range(CLIENTS)))
        until(crowd.settled, 30)
        made = len(machines(scaling))
        crowd.all_ask(scaling.rented())
        until(lambda: crowd.in_service(BUSY + WANTED), 30)
        still_busy = {host for job in submitted for host in scaling.running_on(job)}
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in submitted))
        crowd.all_ask(scaling.rented())
        until(lambda: crowd.in_service(WANTED), 30)
        until(lambda: ended(scaling) == crowd.stopped)
    assert (still_busy, len(machines(scaling))) == (busy, made), "too many stopped, and others had to be launched"
    assert crowd.answered >= CLIENTS * ROUNDS // ASKS_EVERY
