"""`python -m bench.cost`: how long `cost` of many jobs takes the service, and how long others then wait for answers.

The service is a process of its own: its socket, its answers, and a store that is filled up to its bound.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import tempfile
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from autoscaler.answer_client import ServiceAddress, Unanswered, ask
from autoscaler.api.answers import Answers, Turns
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.local_socket import served_locally
from autoscaler.api.request_service import RequestService
from autoscaler.core.cost.shares import Payer
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.core.plan import plan
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.status import Now, status
from autoscaler.store.store import Store
from autoscaler.store.usages import Run, RunKey
from bench.generate import Mix, generate
from bench.passes import read
from bench.world import snapshot_of, world

WORKERS, SLOTS, USERS = 2000, 8, 200
SPAN = 86_400.0
"""Seconds for which each worker was rented, full of jobs."""
BAR = 0.3
QUESTIONS = ("status", "jobs", "workers", "events", "passes", "explain?subject={}", "history?since=3600")


def fill(file: Path, jobs: int) -> None:
    store, chance, now = Store.open(file), random.Random(1), time.time()
    kind = InstanceType("m5.2xlarge", "m5", SLOTS, 32 << 30)
    begin, each = now - SPAN, max(jobs // WORKERS, 1)
    rented = [
        Worker(f"i-{at}", kind, "execute", MachineState.RUNNING, begin, f"w{at}", price_per_hour=0.384)
        for at in range(WORKERS)
    ]
    store.history.note_workers(rented, [worker.id for worker in rented], begin, {}, "USD")
    payers = [Payer(f"user{at}", "users", "staff", f"project{at % 20}", "sge", "main.q") for at in range(USERS)]
    with store.database.transaction():
        for at, worker in enumerate(rented):
            starts = sorted(begin + chance.random() * (SPAN - 600) for _ in range(each))
            store.usages.account(
                Run(RunKey(worker.id, at * each + number + 1, 0), chance.choice(payers), 1, start, start + 600)
                for number, start in enumerate(starts)
            )
    store.usages.mark(None, now, now)
    store.close()


class Loop:
    """The last pass of a cell with 2,000 waiting jobs."""

    unobserved = ""
    quiet_s = 0.0

    def __init__(self) -> None:
        outputs = generate(Mix(jobs=2000))
        snapshot = snapshot_of(read(outputs), world(outputs))
        self.seen = ObservedPlan(snapshot, plan(snapshot), {}, None), 1


def serve(folder: Path, ended: Event) -> None:
    store = Store.open(folder / "cell.sqlite")
    now = Now(time.time(), "cell", "fake", True, None)
    answers = Answers(Loop(), store, lambda: status(store, now))
    answers.turns = Turns(lambda: time.monotonic() * 1e6)  # no caller has to wait
    api = Api(requests=RequestService(store, lambda: ("execute",)), answers=answers, local=LocalRoles(None, list))
    with served_locally(lambda: make_app(api), folder / "a.sock"):
        ended.wait()


def timed(place: ServiceAddress, question: str) -> float:
    began = time.perf_counter()
    ask(place, question)
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder, ended = Path(made), multiprocessing.Event()
        fill(folder / "cell.sqlite", options.jobs)
        service = multiprocessing.Process(target=serve, args=(folder, ended))
        service.start()
        try:
            return measure(ServiceAddress(str(folder / "a.sock")))
        finally:
            ended.set()
            service.join(20)
            service.kill()


def measure(place: ServiceAddress) -> int:
    while True:
        try:
            ask(place, "status")
            break
        except Unanswered:
            time.sleep(0.2)
    job = ask(place, "jobs")["document"]["jobs"][0]["jobs"][0].partition(".")[0]
    questions = [question.format(job) for question in QUESTIONS]
    for question in questions:
        ask(place, question)
    alone = {question: timed(place, question) for question in questions}
    took: list[float] = []
    costing = threading.Thread(target=lambda: took.append(timed(place, "cost?by=user&since=2d")))
    costing.start()
    meanwhile: dict[str, list[float]] = {question: [] for question in questions}
    while costing.is_alive():
        for question in questions:
            meanwhile[question].append(timed(place, question))
    costing.join()
    print(f"cost: {took[0]:.1f} s" if took else "cost: no answer")
    for question in questions:
        times = meanwhile[question]
        usual, worst = statistics.median(times), max(times)
        figures = f"alone {alone[question]:.3f} s, meanwhile {usual:.3f} s, at most {worst:.3f} s of {len(times)}"
        print(f"{question:24} {figures}")
    return int(not took or any(max(times) > BAR for times in meanwhile.values()))


if __name__ == "__main__":
    sys.exit(main())
