"""What people with an open page cost the autoscaler: a private cell with waiting jobs, a pass every two seconds, `run`
and `serve`; passes with nobody looking and with 50 pages that load the overview after each pass, by turns, so that a
machine that becomes slower meanwhile slows both.

Needs root and Debian's Grid Engine packages (`make setup`). Prints the duration of passes by the autoscaler's own
metrics, and processor time and memory of both processes. Exits with 1 if the pages slow a pass by more than 5 % or
add more than 40 MB.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import requests
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.api.passwords import set_password
from autoscaler.lab.cell import Cell
from bench.answers import wait_for_pass
from bench.idle import HOSTS, descendants, environment, resident, spent

VIEWERS, JOBS, SETTLING, TURNS = 50, 200, 10.0, 5
SLOWER, LARGER = 1.05, 40.0  # of a pass, and MB
ALIVE = 10.0  # seconds between the questions of a page whether the autoscaler answers
URL, PASSWORD = "http://127.0.0.1:8651", "bench"
USERS = 10
ROOT = Path(__file__).parent.parent


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.viewers", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="how long the pages are open in all, nobody looks half as long (default 60)",
    )
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.look:
        look()
        return 0
    with Cell.up(hosts=HOSTS) as cell:
        own = {"CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651", "CP_CAP_AUTOSCALE_POLLING_DELAY": "2"}
        env = environment(cell) | own | {"PYTHONPATH": str(ROOT), "CP_CAP_AUTOSCALE_SOCKET": str(cell.home / "s")}
        for number in range(USERS):
            set_password(cell.home / "state" / "http-passwords", f"u{number}", PASSWORD)
        for _ in range(JOBS):
            cell.submit("-h", "-b", "y", "sleep", "1")
        run = cell.start(("sge-autoscaler", "run"), env=env, output=cell.home / "log")
        serve = cell.start(("sge-autoscaler", "serve"), env=env, output=cell.home / "log")
        try:
            wait_for_pass(cell, env)
            time.sleep(SETTLING)
            pids = below(run.pid, b"run"), below(serve.pid, b"serve")
            alone, watched = [], []
            for _ in range(TURNS):
                alone.append(measure(cell, *pids, options.seconds / 2 / TURNS))
                argv = (sys.executable, "-m", "bench.viewers", "--look")
                viewers = cell.start(argv, env=env, cwd=ROOT, output=cell.home / "viewers")
                time.sleep(SETTLING)
                watched.append(measure(cell, *pids, options.seconds / TURNS))
                viewers.terminate(10.0)
                print((cell.home / "viewers").read_text().splitlines()[-1])
                time.sleep(SETTLING)
        finally:
            serve.terminate(10.0)
            run.terminate(10.0)
    for name, measured in (("nobody looks", alone), (f"{VIEWERS} open pages", watched)):
        figures = ", ".join(f"{what} {figure:.3g}" for what, figure in together(measured).items())
        print(f"{name:14} {figures}; ms a pass by turns: {' '.join(f'{each.ms_a_pass:.1f}' for each in measured)}")
    slower = sum(each.seconds for each in watched) * sum(each.passes for each in alone)
    slower /= sum(each.seconds for each in alone) * sum(each.passes for each in watched)
    larger = max(each.megabytes for each in watched) - alone[0].megabytes
    print(f"a pass takes {slower:.3f} of its time (at most {SLOWER}), {larger:.1f} MB more (at most {LARGER:g})")
    return int(slower > SLOWER or larger > LARGER)


class Measured(NamedTuple):
    """What one turn cost: `seconds` of all its passes together, a share of a core and megabytes of each process."""

    passes: float
    seconds: float
    run: float
    serve: float
    megabytes_of_run: float
    megabytes_of_serve: float

    @property
    def ms_a_pass(self) -> float:
        return 1000 * self.seconds / max(self.passes, 1)

    @property
    def megabytes(self) -> float:
        return self.megabytes_of_run + self.megabytes_of_serve


def measure(cell: Cell, run: int, serve: int, seconds: float) -> Measured:
    began, made, used = time.monotonic(), passes(cell), [spent(run).all, spent(serve).all]
    time.sleep(seconds)
    count, total = (after - before for before, after in zip(made, passes(cell), strict=True))
    took = time.monotonic() - began
    of_run, of_serve = (
        (after - before) / took for before, after in zip(used, [spent(run).all, spent(serve).all], strict=True)
    )
    return Measured(count, total, of_run, of_serve, resident(run), resident(serve))


def together(measured: Sequence[Measured]) -> dict[str, float]:
    count, seconds = sum(each.passes for each in measured), sum(each.seconds for each in measured)
    return {
        "passes": count,
        "ms a pass": 1000 * seconds / max(count, 1),
        "% of a core of run": 100 * fmean(each.run for each in measured),
        "of serve": 100 * fmean(each.serve for each in measured),
        "MB of run": max(each.megabytes_of_run for each in measured),
        "MB of serve": max(each.megabytes_of_serve for each in measured),
    }


def below(pid: int, command: bytes) -> int:
    """The process of a command: a child of the process that enters the cell."""
    for one in descendants(pid):
        words = Path(f"/proc/{one}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if words[-1] == command and b"nsenter" not in words[0] and b"python" in words[0]:
            return one
    raise RuntimeError(f"sge-autoscaler {command.decode()} does not run")


def passes(cell: Cell) -> tuple[float, float]:
    """How many passes were made, and their seconds."""
    argv = ("curl", "--silent", "--user", f"u0:{PASSWORD}", f"{URL}/metrics")
    text = cell.runner(argv, timeout=60.0).stdout.decode()
    found: Mapping[str, float] = {
        sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
    }
    names = {
        name.rpartition("pass_duration_seconds")[2]: value
        for name, value in found.items()
        if "pass_duration_seconds" in name
    }
    return names["_count"], names["_sum"]


def look() -> None:
    """50 people with an open page, until this process is ended: what their browsers ask."""
    shown, refused = [0], [0]

    def look_after(session: requests.Session) -> None:
        while True:
            time.sleep(ALIVE)
            session.get(f"{URL}/page/alive", headers={"HX-Request": "true"}, timeout=60).raise_for_status()

    def person(number: int) -> None:
        session = requests.Session()
        form = {"user": f"u{number % USERS}", "password": PASSWORD}
        session.post(f"{URL}/page/login", form, headers={"Origin": URL}, timeout=60)
        threading.Thread(target=look_after, args=(session,), daemon=True).start()
        with session.get(f"{URL}/page/stream?seen=-", stream=True, timeout=60) as stream:
            for line in stream.iter_lines(chunk_size=1):
                if line.startswith(b"event: pass"):
                    status = session.get(f"{URL}/page/", timeout=60).status_code
                    (shown if status == 200 else refused)[0] += 1

    people = [threading.Thread(target=person, args=(number,), daemon=True) for number in range(VIEWERS)]
    for one in people:
        one.start()
        time.sleep(0.1)  # more at once would be refused: few passwords are checked at a time
    while True:
        time.sleep(1)
        print(f"\r{shown[0]} views shown, {refused[0]} refused", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
