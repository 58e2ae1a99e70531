"""Workers for Celery: requests follow its tasks, with a real Celery worker and a broker in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.model.request_sets import Requests, RequestSet, Target
from autoscaler.core.policy import Limits
from autoscaler.errors import SettingsError
from autoscaler.policies.celery_queue import CeleryQueue, CeleryQueueSettings, Tasks
from autoscaler.policies.interface import AutoscalePolicy
from autoscaler.policies.policy_requests import Policies, Recorded
from autoscaler.policies.registry import load
from autoscaler.providers.settings import read_settings
from autoscaler.store.store import Store
from tests.core.building import NOW, a_snapshot
from tests.deadlines import Deadline
from tests.policies.celery_tasks import BROKER, app, options, wait
from tests.simulated.autoscaler import POLICY, TAG, World, start, step
from tests.simulated.executor import at_once

PREFIX = "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_"
ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
ARRAY = replace(POLICY.node_arrays[0], limits=Limits(max_workers=4), scale_up_batch=4)


def settings(**given: str) -> CeleryQueueSettings:
    values = {"BROKER": "memory://", **{name.upper(): text for name, text in given.items()}}
    return read_settings(CeleryQueueSettings, {f"{PREFIX}{name}": text for name, text in values.items()})


class Clock:
    """A clock that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def requested(*readings: tuple[float, Tasks], before: int = 0, **given: str) -> list[int]:
    """The cores requested at each reading, (time in seconds, tasks), with `before` requested in front of each."""
    clock, found = Clock(), iter(tasks for _, tasks in readings)
    policy, asked = CeleryQueue(settings(**given), lambda: next(found), clock), []
    for clock.now in (1000.0 + at for at, _ in readings):
        asked.append(_cores(policy, before))
    return asked


def _cores(policy: AutoscalePolicy, before: int) -> int:
    held = RequestSet("policy:celery_queue", "policy", NOW, None, (Target("execute", cores=before),))
    snapshot = replace(a_snapshot(), requests=Requests(sets=(held,) if before else ()))
    return sum(array["TargetCoreCount"] for array in policy.requests(snapshot, Recorded(Store.open(None).samples, NOW)))


@pytest.mark.parametrize(
    ("tasks", "before", "given", "wanted"),
    (
        (Tasks(0, {}), 0, {}, 0),
        (Tasks(5, {}), 0, {}, 5),
        (Tasks(5, {"c1": 2, "c2": 1}), 0, {}, 8),
        (Tasks(5, {}), 0, {"cores_per_task": "0.5"}, 3),
        (Tasks(500, {}), 0, {"most_cores": "64"}, 64),
    ),
)
def test_cores_are_requested_for_waiting_and_taken_tasks(
    tasks: Tasks, before: int, given: dict[str, str], wanted: int
) -> None:
    assert requested((0, tasks), before=before, **given) == [wanted]


BUSY, FREE = Tasks(0, {"c1": 1, "c2": 0}), Tasks(0, {"c1": 0, "c2": 0})


def test_cores_stay_requested_until_celery_was_idle_for_a_while() -> None:
    assert requested((0, BUSY), (10, FREE), (29, FREE), (31, FREE), before=8) == [8, 8, 8, 0]


def test_a_task_in_between_restarts_the_idle_time() -> None:
    assert requested((0, BUSY), (20, FREE), (25, BUSY), (50, FREE), (56, FREE), before=8) == [8, 8, 8, 8, 0]


def test_a_silent_celery_worker_counts_as_busy_for_a_while() -> None:
    one = Tasks(0, {"c2": 0})
    assert requested((0, FREE), (60, one), (119, one), (121, one), (150, one), before=8) == [8, 8, 8, 8, 0]


def test_without_any_answer_taken_tasks_count_as_running_for_a_while() -> None:
    readings = ((0, Tasks(3, {})), (10, Tasks(0, {})), (119, Tasks(0, {})), (121, Tasks(0, {})))
    assert requested(*readings, before=8) == [8, 8, 8, 0]


def test_a_new_process_does_not_lower_the_request_at_its_first_reading() -> None:
    assert requested((0, FREE), (31, FREE), before=8) == [8, 0]


def test_a_node_array_of_its_own_is_defined() -> None:
    policy = CeleryQueue(settings(node_array="celery", extends="execute"), lambda: Tasks(2, {}))
    (array,) = policy.requests(a_snapshot(), Recorded(Store.open(None).samples, NOW))
    assert array == {"Name": "celery", "TargetCoreCount": 2, "Dynamic": True, "Extends": "execute"}


def test_a_broker_is_needed_and_its_password_is_not_shown() -> None:
    with pytest.raises(SettingsError, match="CELERY_QUEUE_BROKER: Field required"):
        read_settings(CeleryQueueSettings, {})
    assert "hunter2" not in repr(settings(broker="redis://:hunter2@broker/0"))


def test_without_celery_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    with pytest.raises(SettingsError, match=r"package sge-autoscaler-celery, or the wheel's file with \[celery\]"):
        load(("celery_queue",), {f"{PREFIX}BROKER": "memory://"})


# -- with Celery itself ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A broker without any worker."""
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    app.conf.broker_transport_options = options(tmp_path)
    return tmp_path


@pytest.fixture
def celery_worker(folder: Path) -> Iterator[None]:
    """A real Celery worker, two tasks at a time."""
    argv: tuple[str, ...] = (
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tests.policies.celery_tasks:app",
        "worker",
        "--pool",
        "threads",
    )
    argv += ("--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "error")
    with (folder / "worker.log").open("wb") as log:
        environ = {**os.environ, "CELERY_FOLDER": str(folder), "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait(10)


def policy_for(folder: Path, clock: Callable[[], float] = time.monotonic) -> CeleryQueue:
    given = settings(broker=BROKER, transport_options=json.dumps(options(folder)), reply_timeout="0.15")
    return CeleryQueue(given, clock=clock)


def until(found: Callable[[], Any], wanted: Any) -> Any:
    """Ask until the answer is as expected; returns the last one."""
    limit = Deadline(PATIENCE)
    while (answer := found()) != wanted and not limit.over():
        time.sleep(0.05)
    return answer


def test_a_queue_that_does_not_exist_counts_as_empty(folder: Path) -> None:
    assert _cores(policy_for(folder), 0) == 0


@pytest.mark.usefixtures("celery_worker")
@pytest.mark.thorough
def test_a_real_celery_gets_workers_and_keeps_them_until_its_tasks_end(folder: Path, tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", policy=replace(POLICY, node_arrays=(ARRAY,)))
    loop, policy = start(world), policy_for(folder, world.clock)
    policies = Policies({"celery_queue": policy}, loop.store, executor=at_once, stopwatch=world.clock)
    loop.observer.policies = policies.ask

    def machines() -> int:
        step(world, loop)
        return len(world.cloud.living(TAG))

    ends = [folder / f"end-{number}" for number in range(5)]
    for end in ends:
        wait.delay(str(end))
    seen = [until(machines, 3)]  # of two cores each
    for end in ends[:4]:  # one task still runs: it is not known on which host
        end.touch()
    until(lambda: len(list((folder / "queue").iterdir())), 0)
    seen += [machines() for _ in range(3)]
    ends[4].touch()
    seen.append(until(machines, 0))
    assert seen == [3, 3, 3, 3, 0], (folder / "worker.log").read_text()
