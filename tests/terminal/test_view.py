"""What people see: a picture on a terminal, plain lines elsewhere, and each sentence once."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from autoscaler.core.model.cluster import HostJob, QueueInstance
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.store.store import Store
from autoscaler.terminal.screen import Queueing, Screen, read_screen
from autoscaler.terminal.view import PlainView, open_view, picture

NOW = 1_800_000_000.0
M5 = InstanceType("m5.large", "m5", 2, 8 << 30)


def a_worker(name: str, **facts: object) -> Worker:
    values = {"id": f"i-{name}", "type": M5, "node_array": "execute", "state": MachineState.RUNNING}
    return Worker(**{**values, "created_at": NOW - 3600, "name": name, "price_per_hour": 0.096, **facts})  # type: ignore[arg-type]


def an_instance(host: str, *, used: int = 0, states: str = "") -> QueueInstance:
    jobs = tuple(HostJob(number, "", "r", 1) for number in range(used))
    return QueueInstance("main.q", host, slots=2, used=used, reserved=0, states=states, jobs=jobs)


def a_screen(
    tmp_path: Path, *workers: Worker, joined: tuple[str, ...] = (), instances: tuple[QueueInstance, ...]
) -> Screen:
    store = Store.open(tmp_path / "store.sqlite")
    store.history.see_workers(workers, joined, NOW)
    store.history.add_pass(1, NOW, "pass 1: 3 jobs wait; launching 1 m5.large", {})
    queueing = Queueing(waiting=3, running=2, instances=instances)
    before = Screen(at=NOW)
    return read_screen(store, queueing, before=before, now=NOW, done=5, types={"master": "m5.large (master)"})


def test_an_hour_of_a_worker_costs_its_price(tmp_path: Path) -> None:
    screen = a_screen(tmp_path, a_worker("w1"), instances=())

    assert (round(screen.cost, 6), round(screen.price_per_hour, 6)) == (0.096, 0.096)


def test_a_worker_that_never_served_is_joining_and_one_disabled_after_serving_is_draining(tmp_path: Path) -> None:
    screen = a_screen(
        tmp_path,
        a_worker("w1"),
        a_worker("w2"),
        a_worker("w3"),
        replace(a_worker("w4"), name=None),
        a_worker("w5", state=MachineState.TERMINATED),
        joined=("i-w2",),
        instances=(an_instance("master", used=2), an_instance("w1", states="d"), an_instance("w2", states="d")),
    )

    states = {row.name: row.state for row in screen.hosts}
    assert states == {"master": "busy", "w1": "joining", "w2": "draining", "w3": "booting", "i-w4": "booting"}


def test_a_terminated_worker_no_longer_costs(tmp_path: Path) -> None:
    screen = a_screen(tmp_path, a_worker("w1", state=MachineState.TERMINATED), instances=())

    assert (screen.workers_there, screen.price_per_hour) == (0, 0.0)


def test_plain_lines_say_each_sentence_once(tmp_path: Path) -> None:
    output = io.StringIO()
    view = PlainView(Console(file=output, width=200), tasks=10)
    screen = a_screen(tmp_path, a_worker("w1"), instances=(an_instance("master", used=2),))

    view.show(screen)
    view.show(screen)

    assert output.getvalue().count("launching 1 m5.large") == 1
    assert (
        "3 wait, 2 run, 5 of 10 done; master (m5.large (master)) busy 2/2, w1 (m5.large) booting" in output.getvalue()
    )


def test_a_console_that_is_no_terminal_gets_plain_lines() -> None:
    with open_view(Console(file=io.StringIO()), "title", 10) as view:
        assert isinstance(view, PlainView)


def test_the_picture_shows_queue_workers_price_and_sentences(tmp_path: Path) -> None:
    output = io.StringIO()
    screen = a_screen(tmp_path, a_worker("w1"), joined=("i-w1",), instances=(an_instance("w1", used=1),))

    Console(file=output, width=120).print(picture(screen, "demo", 10))

    shown = output.getvalue()
    for part in ("3 wait", "5 of 10 done", "m5.large", "■□", "0.096", "launching 1 m5.large", "1 additional workers"):
        assert part in shown
