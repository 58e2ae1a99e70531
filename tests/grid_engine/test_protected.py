"""Protected mode in a real cell: workers are launched, and Grid Engine starts no job on them, whatever the cause."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal
from tests.grid_engine.test_closed_queues import more_passes
from tests.grid_engine.waiting import Until
from tests.samples import sample

SOON = {"CP_CAP_AUTOSCALE_PROTECTED_MODE_TIMEOUT": "6", "CP_CAP_AUTOSCALE_WORKERS": "20"}
FAILURES = 2
"""This many launches that helped no job are waited for: the waits between them double, from the second of a boot on."""


def failing_prolog(cell: Cell) -> Callable[[], object]:
    """It puts every queue instance into state E, and the job back among the waiting."""
    cell.out("qconf", "-rattr", "queue", "prolog", "/bin/false", "main.q")
    return lambda: cell.out("qconf", "-rattr", "queue", "prolog", "NONE", "main.q")


def no_slots(cell: Cell) -> Callable[[], object]:
    """Before a host is enabled, a script of the site takes the slots of its queue instance."""
    script = cell.home / "site" / "qmod"
    script.parent.mkdir(exist_ok=True)
    taken = 'if [ "$1" = -e ]; then for at; do [ "$at" = -e ] || qconf -rattr queue slots 0 "main.q@${at#*@}"; done; fi'
    script.write_text(f'#!/bin/sh\n{taken}\nexec {shlex.quote(real("qmod", cell))} "$@"\n')
    script.chmod(0o755)
    return script.unlink


def alarm(cell: Cell) -> Callable[[], object]:
    """A load sensor that finds something wrong with every new host."""
    sensor = cell.home / "sensor"
    sensor.write_text(
        '#!/bin/sh\nwhile read -r line; do\n[ "$line" = quit ] && exit 0\n'
        'echo begin; echo "$(hostname):trouble:1"; echo end\ndone\n'
    )
    sensor.chmod(0o755)
    complexes = cell.out("qconf", "-sc") + "trouble trouble INT >= YES NO 0 0\n"
    file = cell.home / "complexes"
    file.write_text(complexes)
    cell.out("qconf", "-Mc", str(file))
    cell.configure(load_sensor=str(sensor))
    cell.out("qconf", "-rattr", "queue", "load_thresholds", "trouble=1", "main.q")
    return lambda: cell.out("qconf", "-rattr", "queue", "load_thresholds", "NONE", "main.q")


def real(program: str, cell: Cell) -> str:
    found = shutil.which(program, path=cell.environment["PATH"])
    assert found
    return found


@pytest.mark.parametrize(
    "cause", sample((failing_prolog, no_slots), failing_prolog), ids=lambda cause: str(cause.__name__)
)
def test_launches_that_help_no_job_become_rarer_and_jobs_run_once_the_cause_is_gone(
    empty_cell: Cell, until: Until, show_on_failure: Shown, cause: Callable[[Cell], Callable[[], object]]
) -> None:
    site = {"PATH": f"{empty_cell.home / 'site'}:{empty_cell.environment['PATH']}"}
    scaling = Autoscaling(empty_cell, {**SOON, **site})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    mend = cause(empty_cell)
    job = empty_cell.submit("-b", "y", "true")

    with scaling.running():
        # Launches are counted first: more of them may come while `explain` works.
        made, helped_none = until(lambda: enough(launches(scaling), failures(scaling, job)), 60, "too few launches")
        assert made <= helped_none + 1
        status, doctor = (scaling.command(name).stdout.decode() for name in ("status", "doctor"))
        mend()
        retried = scaling.command("retry").stdout.decode()
        until(lambda: any(end.well for end in scaling.ends(job)), 40, "the job did not run")

    told_by = (scaling.log_text(), status, doctor)
    assert all("helped none of" in text for text in told_by), told_by
    assert "launches for execute" in retried


@pytest.mark.thorough
def test_a_worker_in_alarm_by_a_load_sensor_is_ordered_once_and_runs_the_job_afterwards(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, SOON)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    mend = alarm(empty_cell)
    job = empty_cell.submit("-b", "y", "true")

    with scaling.running():
        until(lambda: in_alarm(scaling, job), 60, "the alarm of the worker was not reported")
        more_passes(scaling, until)
        assert (len(scaling.living()), in_alarm(scaling, job)) == (1, True)
        mend()
        until(lambda: any(end.well for end in scaling.ends(job)), 60, "the job did not run")
        assert launches(scaling) == 1


@pytest.mark.thorough
def test_a_worker_that_reports_less_memory_than_its_type_is_ordered_once(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """Six may come, and this machine has less memory than any m5.24xlarge."""
    huge = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.24xlarge", "CP_CAP_AUTOSCALE_WORKERS": "6"}
    scaling = Autoscaling(empty_cell, {**SOON, **huge})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-l", "mem_total=380G", "-b", "y", "true")

    with scaling.running():
        until(
            lambda: "its hosts report mem_total=" in explained(scaling, job),
            60,
            "the values that its hosts report were not shown",
        )
        assert launches(scaling) == 1


def explained(scaling: Autoscaling, job: str) -> str:
    """What `explain` prints, which may observe between two changes of Grid Engine."""
    return scaling.command("explain", job).stdout.decode()


def in_alarm(scaling: Autoscaling, job: str) -> bool:
    """Whether `explain` shows that the workers for the job are in alarm."""
    done = scaling.command("explain", job, "--json")
    if done.returncode != 0:  # an observation between two changes of Grid Engine
        return False
    return any(row["reason"]["code"] == Code.IN_ALARM for row in json.loads(done.stdout)["waiting"])


def enough(made: int, failed: int) -> tuple[int, ...]:
    return (made, failed) if failed >= FAILURES else ()


def failures(scaling: Autoscaling, job: str) -> int:
    """How many launches in a row helped no job, as `explain` shows for the job."""
    done = scaling.command("explain", job, "--json")
    if done.returncode != 0:  # an observation between two changes of Grid Engine
        return 0
    rows = json.loads(done.stdout)["waiting"]
    return max((link["facts"]["failures"] for row in rows for link in links(row["reason"])), default=0)


def links(reason: dict[str, Any]) -> list[dict[str, Any]]:
    mine = [reason] if reason["code"] == Code.LAUNCHES_DID_NOT_HELP else []
    return [*mine, *(found for link in reason["trail"] for found in links(link))]


def launches(scaling: Autoscaling) -> int:
    return sum(entry.kind == "launch" for entry in journal(scaling))
