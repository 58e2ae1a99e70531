"""Machines that are not available, never boot or break: the next candidate, or another machine, runs the job."""

from __future__ import annotations

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal, machines
from tests.grid_engine.waiting import Until

FAILS_ONCE = "#!/bin/sh\nmkdir {mark} 2>/dev/null && exit 1\nexit 0\n"
"""A prolog that ends with 1 puts its queue instance into state E, and the job back among the waiting."""


@pytest.mark.thorough
def test_a_worker_whose_queue_instance_is_in_error_is_reported_and_replaced(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    prolog = empty_cell.home / "prolog"
    prolog.write_text(FAILS_ONCE.format(mark=empty_cell.output / "failed"))
    prolog.chmod(0o755)
    empty_cell.out("qconf", "-rattr", "queue", "prolog", str(prolog), "main.q")
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        # Where no pass saw the job start, the launch helped no job, and the next one waits for a minute.
        until(lambda: _ended_well_at_last(empty_cell, job), 120)
        until(lambda: machines(scaling)[0].ended_at, 20)
    broken, whole = machines(scaling)
    assert f"disabling {broken.name} (queue instance in error" in scaling.log_text()
    assert (broken.message, whole.message) == ("ended by request", None)


@pytest.mark.thorough
def test_a_type_without_capacity_is_replaced_by_the_next_type(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(
        empty_cell,
        {
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.xlarge",
            "CP_CAP_AUTOSCALE_DESCENDING": "true",
            "CP_CAP_AUTOSCALE_LOCAL_OUT_OF_CAPACITY": "m5.xlarge",
            "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_INSUFFICIENT": "1",
        },
    )
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "sleep", "1")
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
    assert [machine.type.name for machine in machines(scaling)] == ["m5.large"]


def test_a_machine_that_never_joins_is_terminated_with_its_console_and_its_type_backs_off(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(
        empty_cell,
        {
            "CP_CAP_AUTOSCALE_WORKERS": "1",
            "CP_CAP_AUTOSCALE_LOCAL_FAILING_BOOTS": "m5.large",
            "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "6",  # long enough for the machine's console
            "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_FAILURE": "1",
            "CP_CAP_AUTOSCALE_PROTECTED_MODE_TIMEOUT": "60",  # the first wait after a launch in vain is a tenth of it
        },
    )
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(scaling.all_gone, 40)
        until(lambda: Code.BUCKET_BACKOFF in {bucket["reason"]["code"] for bucket in scaling.plan()["buckets"]}, 20)
    (machine,) = machines(scaling)
    (ending,) = [entry for entry in journal(scaling) if entry.kind == "terminate"]
    assert (machine.message, ending.result) == ("ended by request", "done")
    assert "boot failed, as asked" in ending.message
    assert "boot failed, as asked" in scaling.log_text()


def _ended_well_at_last(cell: Cell, job: str) -> bool:
    """Whether accounting has an end without failure; that of the failed start has no times, and stands before it."""
    shown = cell.runner(("qacct", "-j", job), timeout=60.0).stdout.decode()
    return "failed       0" in shown and "exit_status  0" in shown.rpartition("failed       0")[2]
