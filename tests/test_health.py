"""Health checks: which workers are checked, how often, how many at once, and the meaning of each exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.health_checks import AT_ONCE, TIMEOUT, HealthChecks
from autoscaler.errors import CommandTimedOut
from autoscaler.process import Completed
from autoscaler.store.store import Store
from tests.core.building import Thing, a_machine, a_snapshot, a_worker
from tests.simulated.executor import at_once

Value = TypeVar("Value")
CHECK = ("/opt/check", "--quick")


@dataclass
class Answers:
    """A command that answers the same for all workers."""

    code: int = 0
    output: bytes = b""
    never: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        assert timeout == TIMEOUT
        self.asked.append(tuple(argv))
        if self.never:
            raise CommandTimedOut("/opt/check did not end within 30 s")
        return Completed(tuple(argv), self.code, self.output, b"", 0.1)


def never_ends(call: Callable[[], Value], name: str) -> Future[Value]:
    """An executor whose calls never end."""
    del call, name
    return Future()


@dataclass
class Bench:
    """Checks over a store, with a clock."""

    answers: Answers = field(default_factory=Answers)
    now: float = 1000.0
    rung: int = 0

    def __post_init__(self) -> None:
        self.store = Store.open(None)
        self.checks = HealthChecks(self.answers, self.store.health, lambda: self.now, self.ring, at_once)

    def ring(self) -> None:
        self.rung += 1

    def begin(self, *things: Thing, command: tuple[str, ...] = CHECK) -> None:
        world: Snapshot = a_snapshot(*(things or (a_worker(),)), health_check=command, health_interval=60.0)
        self.checks.begin(world.fleet.workers, world.memory, world.policy)

    @property
    def results(self) -> list[tuple[bool, str]]:
        return [(health.healthy, health.message) for health in self.store.findings(self.now).health.values()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_check_gets_name_address_and_id(bench: Bench) -> None:
    bench.begin(a_worker("w1", address="10.0.0.5"), a_worker("w2"))
    assert bench.answers.asked == [(*CHECK, "w1", "10.0.0.5", "i-w1"), (*CHECK, "w2", "", "i-w2")]


def test_an_id_that_a_program_would_take_for_an_option_is_not_passed_on(bench: Bench) -> None:
    bench.begin(a_worker("w1", id="-oProxyCommand=id"), a_worker("w2"))
    assert bench.answers.asked == [(*CHECK, "w2", "", "i-w2")]


def test_without_a_command_no_worker_is_checked(bench: Bench) -> None:
    bench.begin(command=())
    assert bench.answers.asked == []


@pytest.mark.parametrize(
    "worker",
    (
        a_worker(mark=Disabling.IDLE),
        a_worker(mark=Disabling.ENROL, heard=False),
        a_worker(known=False),
        a_worker(state=MachineState.STOPPING),
        a_worker(node_array="another"),
        a_machine(),
    ),
    ids=("leaves", "comes", "not known yet", "ends", "unknown array", "no host"),
)
def test_only_workers_in_service_are_checked(bench: Bench, worker: Thing) -> None:
    bench.begin(worker)
    assert bench.answers.asked == []


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    (
        (0, b"all is well\n", [(True, "")]),
        (1, b"no /data\nlook there\n", [(False, "no /data")]),
        (1, b"", [(False, "")]),
        (1, b"\x1b[31mred\x1b[0m\n", [(False, "[31mred[0m")]),
        (2, b"usage\n", []),
        (-9, b"", []),
    ),
)
def test_exit_0_is_healthy_1_is_sick_and_others_are_unknown(
    bench: Bench, code: int, output: bytes, expected: list[tuple[bool, str]]
) -> None:
    bench.answers.code, bench.answers.output = code, output
    bench.begin()
    assert bench.results == expected


def test_a_check_that_times_out_has_no_result_and_is_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answers.never = True
    for _ in range(3):
        bench.begin()
        bench.now += 60
    assert (bench.results, len(caplog.records), bench.rung) == ([], 1, 0)


def test_a_sick_worker_wakes_the_loop(bench: Bench) -> None:
    bench.answers.code = 1
    bench.begin()
    assert bench.rung == 1


def test_a_worker_is_checked_again_after_the_interval(bench: Bench) -> None:
    times = []
    for _ in range(7):
        bench.begin()
        times.append(len(bench.answers.asked))
        bench.now += 20
    assert times == [1, 1, 1, 2, 2, 2, 3]


def test_the_number_of_concurrent_checks_is_limited(bench: Bench) -> None:
    started: list[str] = []

    def start(call: Callable[[], Value], name: str) -> Future[Value]:
        started.append(name)
        return never_ends(call, name)

    bench.checks.executor = start
    fleet = [a_worker(f"w{n}") for n in range(AT_ONCE + 3)]
    bench.begin(*fleet)
    bench.now += 600
    bench.begin(*fleet)
    assert len(started) == AT_ONCE


def test_the_worker_that_waited_is_checked_first(bench: Bench) -> None:
    under_way: list[Future[Any]] = []

    def hold(call: Callable[[], Value], name: str) -> Future[Value]:
        del call, name
        under_way.append(Future())
        return under_way[-1]

    fleet = [a_worker(f"w{n:02}") for n in range(AT_ONCE + 1)]
    bench.checks.executor = hold
    bench.begin(*fleet)
    for check in under_way:
        check.set_result(None)
    bench.checks.executor = at_once
    bench.now += 60
    bench.begin(*fleet)
    assert bench.answers.asked[0][-1] == f"i-w{AT_ONCE:02}"


def test_without_memory_no_worker_is_checked(bench: Bench) -> None:
    world = a_snapshot(a_worker(), health_check=CHECK)
    bench.checks.begin(world.fleet.workers, Memory(), world.policy)
    assert bench.answers.asked == []


def test_a_result_that_cannot_be_stored_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.store.close()
    bench.begin()
    bench.begin()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
