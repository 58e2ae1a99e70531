"""Traces of jobs on a real cell: every process of one writes down where it is and each moment it lives.

The files lie outside the machines, so that they outlive them, and nothing in them is the autoscaler's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

STEP = 0.4
"""Seconds between two signs of life."""
_JOB = """\
#!/bin/sh
space=$(readlink /proc/self/ns/pid | tr -cd 0-9)
began=$(date +%s.%N)
trace={folder}/$JOB_ID.$SGE_TASK_ID.$(hostname).$space.$$.${{began%.*}}${{began#*.}}
echo "began $began $(hostname) $space $$ ${{RESTARTED:-0}}" >>$trace
for step in $(seq $1); do
    echo "lives $(date +%s.%N)" >>$trace
    sleep {step}
done
echo "ended $(date +%s.%N)" >>$trace
"""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process of a job left. Times as Unix seconds; `last` is its last sign of life."""

    job: str
    task: str
    """`undefined` where the job is no array, as Grid Engine has it."""
    host: str
    space: str
    """Its PID namespace: with `pid` it identifies the process, also on a later machine of the same name."""
    pid: str
    restarted: bool
    """Whether RESTARTED was set: it was started before."""
    began: float
    last: float
    ended: bool
    """Whether its work was done."""

    @property
    def name(self) -> str:
        """As Grid Engine names it: `12`, or `12.3` for a task."""
        return self.job if self.task == "undefined" else f"{self.job}.{self.task}"

    def __str__(self) -> str:
        again, end = " as restarted" if self.restarted else "", "its end" if self.ended else "no end"
        return f"{self.name} on {self.host}, process {self.pid}{again}, {self.began:.1f} to {self.last:.1f}, {end}"


def write_job(file: Path, folder: Path) -> None:
    """A program that lives for as many steps as its argument, and leaves its trace in `folder`."""
    folder.mkdir()
    folder.chmod(0o777)
    file.write_text(_JOB.format(folder=folder, step=STEP))
    file.chmod(0o755)


def read_traces(folder: Path) -> list[Trace]:
    """Every trace, ordered by when its process began."""
    found = (_read(file) for file in folder.iterdir())
    return sorted((trace for trace in found if trace is not None), key=lambda trace: trace.began)


def _read(file: Path) -> Trace | None:
    """None where the process has only just opened it, or died while it did."""
    job, task, *_ = file.name.split(".")
    lines = [line.split() for line in file.read_text().splitlines()]
    if not lines or len(lines[0]) < 6:
        return None
    _, began, host, space, pid, restarted = lines[0]
    times = [float(words[1]) for words in lines if len(words) > 1]
    ended = lines[-1][0] == "ended"
    return Trace(job, task, host, space, pid, restarted != "0", float(began), max(times), ended)


def by_task(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """The runs of every task in the order given, under its name."""
    runs: dict[str, list[Trace]] = {}
    for trace in traces:
        runs.setdefault(trace.name, []).append(trace)
    return runs
