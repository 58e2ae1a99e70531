"""The whole service at scale: thousands of jobs, hundreds of machines that do not exist (`autoscaler.lab.absent_hosts`)
on a real qmaster with SIMULATE_EXECDS, `run` and `serve` as an operator starts them, all on loopback, in real time.

Prints passes, commands, processor time, memory, store and waits. Needs root and Debian's Grid Engine (`make setup`).
Ctrl-C shows what there is so far; all processes end with this one.

    python -m bench.scale [--workers N] [--jobs N] [--minutes M] [--seed S] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from autoscaler.answer_client import PREFIX as ANSWERS
from autoscaler.api.passwords import set_password
from autoscaler.errors import AutoscalerError
from autoscaler.lab import absent_hosts
from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.report.metrics import PREFIX
from autoscaler.sge.accounting import JobEnd
from autoscaler.sge.events import find_qevent
from autoscaler.simulation.measures import quantile
from autoscaler.simulation.workload import WorkloadJob
from autoscaler.store.history import Lifetime
from bench.fidelity import LARGEST, SCHEDULER, SETTINGS, command_of, ends_in, jobs_of, lives_of, with_qhost
from bench.idle import descendants, environment
from bench.pass_times import FILE_ENV

ROOT = Path(__file__).parent.parent
PORT, USER = 8651, "monitor"
EVERY = 15.0
"""Seconds between two samples."""
NEEDED = 0.9
"""The share of the slots of all workers that jobs need on the average: at times all workers are rented."""
TRANSFER = 5.0
"""Seconds by which each task runs longer than it says on hosts that do not exist."""
LATE = 60.0
"""A task that starts later than so many seconds after it could is late: a boot, a few passes and the scheduler."""
AFTERWARDS = 1800.0
"""Seconds after the last submission within which all has to end."""
QUESTIONS = ("/metrics", f"{ANSWERS}/status", f"{ANSWERS}/jobs", f"{ANSWERS}/workers", f"{ANSWERS}/history")


@dataclass(slots=True)
class Process:
    """One of the processes that are measured, found again by its number."""

    name: str
    pid: int

    def cpu(self) -> tuple[float, float]:
        """Seconds of its own, and of its ended children."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            own, own_system, children, children_system = (int(each) / _TICKS for each in words[11:15])
            return own + own_system, children + children_system
        return 0.0, 0.0

    def megabytes(self) -> float:
        with contextlib.suppress(OSError):
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 1e6
        return 0.0


_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Found:
    """What one run showed."""

    jobs: Sequence[WorkloadJob]
    workers: int
    began: float = 0.0
    submitted: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By our number: Grid Engine's, and by how many seconds its submission came too late."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    passes: list[dict[str, Any]] = field(default_factory=list)
    ends: list[JobEnd] = field(default_factory=list)
    lives: Sequence[Lifetime] = ()
    log: str = ""
    whole: bool = False


class Scale:
    """One cell with its service, while it lives."""

    def __init__(self, cell: Cell, workers: int, machines: int) -> None:
        self.cell, self._password = cell, secrets.token_hex(8)
        self._events, self._log, self._times = (cell.home / name for name in ("events", "log", "passes"))
        for file in (self._events, self._log, self._times):
            file.touch()
        self._settings = {
            **environment(cell),
            **SETTINGS,
            "CP_CAP_AUTOSCALE_WORKERS": str(workers),
            "CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{PORT}",
            "CP_CAP_AUTOSCALE_SOCKET": str(cell.home / "s"),
            "CP_CAP_AUTOSCALE_LISTENERS": "bench.pass_times:PassTimes",
            "PATH": with_qhost(cell, machines),
            "PYTHONPATH": str(ROOT),
            FILE_ENV: str(self._times),
        }
        self._children: list[Running] = []
        self.processes: list[Process] = []

    def start(self) -> None:
        cell = self.cell
        set_password(cell.home / "state" / "http-passwords", USER, self._password)
        self._children.append(cell.start((find_qevent(), "-ts"), output=self._events))
        for command in ("run", "serve"):
            child = cell.start(("sge-autoscaler", command), env=self._settings, output=self._log)
            self._children.append(child)
            self.processes.append(Process(command, _until_below(child, command)))
        pid = int((cell.root / "default/spool/qmaster/qmaster.pid").read_text())
        self.processes.append(Process("qmaster", _seen_from_here(pid, cell)))

    def end(self) -> None:
        for child in reversed(self._children):
            child.terminate(60.0)

    def submit(self, jobs: Sequence[WorkloadJob], began: float) -> Running:
        """Starts the process that submits all jobs at their times."""
        lines = "".join(json.dumps([job.number, began + job.submitted, job.after, in_qsub(job)]) + "\n" for job in jobs)
        (self.cell.home / "jobs").write_text(lines)
        (self.cell.home / "submitted").touch()
        argv = ("sh", "-c", f"exec {sys.executable} -m bench.submitting <{self.cell.home}/jobs")
        env = {"PYTHONPATH": str(ROOT)}
        child = self.cell.start(argv, env=env, cwd=ROOT, output=self.cell.home / "submitted")
        self._children.append(child)
        return child

    def ask(self, path: str) -> tuple[float, bytes]:
        """How long `serve` took for its answer, and the answer. Raises AutoscalerError."""
        argv = ("curl", "--silent", "--fail", "--max-time", "60", "--user", f"{USER}:{self._password}")
        done = self.cell.runner((*argv, "--write-out", "\n%{time_total}", f"http://127.0.0.1:{PORT}{path}"), timeout=70)
        body, _, seconds = done.stdout.rpartition(b"\n")
        if done.returncode:
            raise AutoscalerError(f"{path}: curl ended with {done.returncode}")
        return float(seconds), body

    def sample(self, began: float) -> dict[str, Any]:
        row: dict[str, Any] = {"at": time.time() - began, "load": os.getloadavg()[0], "answers": {}}
        for path in QUESTIONS:
            try:
                seconds, body = self.ask(path)
            except AutoscalerError as error:
                row["answers"][path] = None
                row.setdefault("unanswered", []).append(str(error))
                continue
            row["answers"][path] = seconds
            if path == "/metrics":
                row |= _measured(body.decode())
        for process in self.processes:
            row[process.name] = [*process.cpu(), process.megabytes()]
        for name, pattern in (("store", "*.sqlite"), ("log of the store", "*.sqlite-wal")):
            row[name] = sum(file.stat().st_size for file in (self.cell.home / "state").glob(pattern)) / 1e6
        return row

    def gather(self, found: Found) -> None:
        with contextlib.suppress(ValueError):
            for line in (self.cell.home / "submitted").read_text().splitlines():
                number, made, late = json.loads(line)
                found.submitted[number] = made, late
        found.log = self._log.read_text(errors="replace")
        found.passes = [json.loads(line) for line in self._times.read_text().splitlines()]
        by_theirs = {made: number for number, (made, _) in found.submitted.items()}
        ours = {job.number: job for job in found.jobs}
        theirs = [replace(ours[number], number=made) for made, number in by_theirs.items()]
        found.ends = list(ends_in(self._events.read_text(), theirs, found.began))
        found.lives = lives_of(self.cell)

    @property
    def is_empty(self) -> bool:
        """Whether no job is left, nor a worker."""
        if any(life.ended_at is None for life in lives_of(self.cell)):
            return False
        return not self.cell.out("qstat", "-u", "*").strip()

    def refuse_ended(self) -> None:
        for child in self._children[:3]:
            if child.poll() is not None:
                raise RuntimeError(f"{child.argv[-2:]} ended:\n" + self._log.read_text()[-3000:])


def in_qsub(job: WorkloadJob) -> list[str]:
    """Its qsub: numbers differ from ours here, so a dependency is named."""
    words = command_of(job)
    if job.after:
        words[words.index("-hold_jid") + 1] = f"j{job.after}"
    return words


def _until_below(child: Running, command: str) -> int:
    """The process of a command below the one that enters the cell, once it is there."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        for pid in descendants(child.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                if words[-1] == command.encode() and b"python" in words[0]:
                    return pid
        time.sleep(0.1)
    raise RuntimeError(f"sge-autoscaler {command} does not run")


def _seen_from_here(inner: int, cell: Cell) -> int:
    """The process of the cell that has this number there."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            numbers = re.search(r"(?m)^NSpid:\s+(.*)$", status.read_text())
            if numbers and numbers[1].split()[-1] == str(inner):
                folder = status.parent
                if str(cell.root).encode() in (folder / "environ").read_bytes():
                    return int(folder.name)
    raise RuntimeError("the qmaster was not found")


def _measured(text: str) -> dict[str, Any]:
    """Of `/metrics`: what has been counted so far, and what there is now."""
    found: dict[str, Any] = {"commands": {}, "command_seconds": {}, "actions": Counter(), "phases": Counter()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(PREFIX)
            if name == "grid_engine_command_duration_seconds_count":
                found["commands"][sample.labels["command"]] = sample.value
            elif name == "grid_engine_command_duration_seconds_sum":
                found["command_seconds"][sample.labels["command"]] = sample.value
            elif name == "actions_total":
                found["actions"][f"{sample.labels['kind']} {sample.labels['result']}"] += sample.value
            elif name == "workers":
                found["phases"][sample.labels["phase"]] += sample.value
            elif name == "passes_total":
                found.setdefault("passes", {})[sample.labels["result"]] = sample.value
            elif name in ("counted_tasks", "running_tasks", "longest_wait_seconds", "slots", "used_slots"):
                found[name] = sample.value
    return found


def stretched(jobs: Sequence[WorkloadJob], slot_seconds: float) -> list[WorkloadJob]:
    """Jobs so long that they need their share of so many slot-seconds."""
    overhead = TRANSFER * sum(job.slots * job.tasks for job in jobs)
    longer = (NEEDED * slot_seconds - overhead) / sum(job.slots * job.tasks * job.seconds for job in jobs)
    return [replace(job, seconds=float(max(1, round(longer * job.seconds)))) for job in jobs]


def play(found: Found, minutes: float) -> None:
    """The whole run; `found` has what there is of it at any time, whatever ends it."""
    machines = max(500, 12 * found.workers)
    with Cell.up(hosts=0, scheduler=SCHEDULER, configuration=dict(absent_hosts.CONFIGURATION)) as cell:
        scale = Scale(cell, found.workers, machines)
        try:
            scale.start()
            time.sleep(5.0)
            scale.refuse_ended()
            found.began = time.time() + 1.0
            submitting = scale.submit(found.jobs, found.began)
            deadline = time.monotonic() + 60.0 * minutes + AFTERWARDS
            _watch(scale, found, submitting, deadline)
        finally:
            with contextlib.suppress(AutoscalerError, OSError):
                scale.gather(found)
            scale.end()


def _watch(scale: Scale, found: Found, submitting: Running, deadline: float) -> None:
    """Sample until all is over. Raises RuntimeError if that takes too long."""
    while True:
        began = time.monotonic()
        row = scale.sample(found.began)
        found.samples.append(row)
        _show(row)
        scale.refuse_ended()
        if submitting.poll() is not None and scale.is_empty:
            found.whole = submitting.poll() == 0
            return
        if began > deadline:
            print("not all ended in time: what there is", file=sys.stderr)
            return
        time.sleep(max(1.0, EVERY - (time.monotonic() - began)))


def _show(row: Mapping[str, Any]) -> None:
    phases = " ".join(f"{name} {count:g}" for name, count in sorted(row.get("phases", {}).items()) if count)
    passes = row.get("passes", {}).get("whole", 0)
    memory = " ".join(f"{name} {row[name][2]:.0f}" for name in ("run", "serve", "qmaster"))
    print(
        f"{row['at']:6.0f} s  load {row['load']:.1f}  passes {passes:g}  wait {row.get('counted_tasks', 0):g}"
        f"  run {row.get('running_tasks', 0):g}  [{phases}]  MB {memory}  store {row['store']:.1f}",
        file=sys.stderr,
        flush=True,
    )


# -- what is printed ---------------------------------------------------------------------------------------------------


def table(found: Found) -> Iterator[tuple[str, str]]:
    """What the run showed: a name and words for each."""
    tasks = sum(job.tasks for job in found.jobs)
    late = sorted(late for _, late in found.submitted.values())
    yield (
        "submitted",
        f"{len(found.submitted):,} of {len(found.jobs):,} jobs ({tasks:,} tasks)"
        + (f"; {quantile(late, 0.95):.1f} s late in 95 %, {late[-1]:.1f} s at most" if late else ""),
    )
    yield "over", "yes" if found.whole else "NO"
    yield from _of_workers(found)
    yield from _of_passes(found.passes)
    yield from _of_samples(found.samples)
    yield from _of_tasks(found)
    for words, count in troubles_in(found.log).most_common(20):
        yield "log", f"{count}× {words}"


def _of_workers(found: Found) -> Iterator[tuple[str, str]]:
    lives = found.lives
    at = sorted([(life.created_at, 1) for life in lives] + [(life.ended_at, -1) for life in lives if life.ended_at])
    now = most = 0
    for _, change in at:
        now += change
        most = max(most, now)
    never = sum(life.joined_at is None for life in lives)
    kinds = Counter(life.instance_type for life in lives)
    yield "workers", f"{most} at once, {len(lives)} in all ({', '.join(f'{n} {k}' for k, n in kinds.most_common())})"
    joined = sorted(life.joined_at - life.created_at for life in lives if life.joined_at)
    if joined:
        middle, most_s = quantile(joined, 0.5), joined[-1]
        yield "in service", f"{middle:.1f} s after the launch in the median, {most_s:.1f} s at most; {never} never"


def _of_passes(passes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    whole = [each for each in passes if "failed" not in each]
    for words, count in Counter(each["failed"] for each in passes if "failed" in each).most_common(5):
        yield "failed passes", f"{count}× {words}"
    if not whole:
        return
    yield "passes", f"{len(whole)}: " + spread([each["whole"] for each in whole], " s")
    for part in ("read", "parse", "decide", "act"):
        yield f"  {part}", spread([each["parts"].get(part, 0.0) for each in whole], " s")
    yield "  CPU of a pass", spread([each["cpu"] for each in whole], " s")
    gaps = [after["began"] - before["began"] for before, after in itertools.pairwise(whole)]
    if gaps:
        yield "  from pass to pass", spread(gaps, " s")
    outcomes: Counter[str] = Counter()
    for each in whole:
        outcomes.update(each["outcomes"])
    yield "actions", ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))


def spread(values: Sequence[float], unit: str) -> str:
    ordered = sorted(values)
    mean = sum(ordered) / len(ordered)
    return f"mean {mean:.2f}, median {quantile(ordered, 0.5):.2f}, 95 % {quantile(ordered, 0.95):.2f}, " + (
        f"longest {ordered[-1]:.2f}{unit}"
    )


def _of_samples(samples: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    known = [each for each in samples if each.get("commands")]
    if len(known) < 2:
        return
    first, last = known[0], known[-1]
    seconds = last["at"] - first["at"]
    counts = Counter(last["commands"])
    counts.subtract(first["commands"])
    rates = [
        60 * (sum(after["commands"].values()) - sum(before["commands"].values())) / (after["at"] - before["at"])
        for before, after in itertools.pairwise(known)
    ]
    by_program = ", ".join(f"{name} {60 * count / seconds:.1f}" for name, count in counts.most_common() if count)
    took = Counter(last["command_seconds"])
    took.subtract(first["command_seconds"])
    share = sum(took.values()) / seconds
    yield "commands a minute", f"mean {60 * sum(counts.values()) / seconds:.1f}, most {max(rates):.1f} ({by_program})"
    yield "  they took", f"{share:.1%} of the time"
    for name in ("run", "serve", "qmaster"):
        own, children = (last[name][at] - first[name][at] for at in (0, 1))
        commands = f", its commands {children / seconds:.1%}" if children > 0.5 else ""
        yield f"CPU of {name}", f"{own:.0f} s, {own / seconds:.1%} of a core{commands}"
    parts = [known[round(at * (len(known) - 1) / 6)] for at in range(7)]
    yield "minute", "  ".join(f"{each['at'] / 60:7.1f}" for each in parts)
    for name in ("run", "serve", "qmaster"):
        yield f"MB of {name}", "  ".join(f"{each[name][2]:7.1f}" for each in parts)
    for name in ("store", "log of the store"):
        yield f"MB of the {name}", "  ".join(f"{each[name]:7.1f}" for each in parts)
    yield "load of the machine", "  ".join(f"{each['load']:7.1f}" for each in parts)
    for path in QUESTIONS:
        times = [each["answers"][path] for each in samples if each["answers"].get(path) is not None]
        missing = sum(each["answers"].get(path) is None for each in samples)
        if times:
            yield f"serve: {path}", spread(times, " s") + (f"; {missing} not answered" if missing else "")


def _of_tasks(found: Found) -> Iterator[tuple[str, str]]:
    waits = sorted(max(0.0, (end.started_at or 0.0) - end.submitted_at) for end in found.ends)
    if not waits:
        return
    yield "tasks that ended", f"{len(waits):,}; wait " + spread(waits, " s")
    theirs = {made: number for number, (made, _) in found.submitted.items()}
    free = {job.number for job in found.jobs if job.after is None and job.concurrency is None}
    alone = sorted(
        max(0.0, (end.started_at or 0.0) - end.submitted_at) for end in found.ends if theirs.get(end.job) in free
    )
    if not alone:
        return
    late = sum(wait > LATE for wait in alone)
    yield "  that depend on none", f"{len(alone):,} without `-tc`; wait " + spread(alone, " s")
    yield f"  later than {LATE:g} s", f"{late:,} of them ({late / len(alone):.1%})"


_LINE = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL): (.*)$")
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


def troubles_in(log: str) -> Counter[str]:
    """Warnings and errors of the log, with all numbers alike."""
    lines = (_LINE.match(line) for line in log.splitlines())
    return Counter(f"{found[1]} {_NUMBERS.sub('0', found[2])[:300]}" for found in lines if found)


def _ends_as_ctrl_c(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=500, help="most workers (default 500)")
    parser.add_argument("--jobs", type=int, default=20_000, help="default 20,000")
    parser.add_argument("--minutes", type=float, default=30.0, help="in which they are submitted (default 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for all samples, passes and ends, too")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _ends_as_ctrl_c)
    jobs = jobs_of(given.jobs, given.minutes, given.seed)
    found = Found(stretched(jobs, given.workers * LARGEST * 60.0 * given.minutes), given.workers)
    stopped = False
    try:
        play(found, given.minutes)
    except KeyboardInterrupt:
        stopped = True
        print("stopped: what there is so far", file=sys.stderr)
    if given.json is not None:
        _write(found, given.json)
    print(f"{given.workers} workers, {given.jobs:,} jobs in {given.minutes:g} minutes, seed {given.seed}")
    for name, words in table(found):
        print(f"{name:24} {words}")
    return 130 if stopped else 0 if found.whole else 1


def _write(found: Found, file: Path) -> None:
    ends = [[end.job, end.task, end.submitted_at, end.started_at, end.ended_at] for end in found.ends]
    lives = [[life.instance_type, life.created_at, life.joined_at, life.ended_at] for life in found.lives]
    file.write_text(
        json.dumps(
            {
                "began": found.began,
                "samples": found.samples,
                "passes": found.passes,
                "ends": ends,
                "lives": lives,
                "submitted": found.submitted,
                "log": found.log,
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
