"""Workers with sequence numbers: the scheduler fills one after the other, and nobody else's numbers change."""

from __future__ import annotations

import getpass
import time

import pytest

from autoscaler import namespaces
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.sge.admin import Administrator
from autoscaler.sge.membership import Membership
from autoscaler.sge.qconf import read_attributes
from autoscaler.sge.removal import membership_of
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

PACKED = {
    "CP_CAP_AUTOSCALE_PACK": "fixed",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.xlarge",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "2",
    "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE": "2",
}


def seq_no(cell: Cell) -> str:
    return read_attributes(cell.out("qconf", "-sq", "main.q"))["seq_no"]


def sort_method(cell: Cell) -> str:
    return read_attributes(cell.out("qconf", "-ssconf"))["queue_sort_method"]


def states(autoscaling: Autoscaling, *hosts: str) -> list[str]:
    instances = autoscaling.instances()
    places = (f"main.q@{host}" for host in hosts)
    return [instances[place].states if place in instances else "not there" for place in places]


def test_jobs_go_to_the_first_worker_and_the_numbers_leave_with_the_workers(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    empty_cell.add_host(ExecHost("master", slots=0))
    empty_cell.out("qconf", "-rattr", "queue", "seq_no", "9", "main.q@master")
    autoscaling = Autoscaling(empty_cell, PACKED)
    show_on_failure["autoscaler"] = autoscaling.log_text
    assert (autoscaling.command("init", "--yes").returncode, sort_method(empty_cell)) == (0, "load"), "nobody agreed"
    autoscaling.command("init", "--yes", "--apply", "scheduler")
    assert sort_method(empty_cell) == "seqno"
    gate = Gate(empty_cell)

    with autoscaling.running(CP_CAP_AUTOSCALE_MIN_WORKERS="2"):
        until(lambda: len(autoscaling.execution_hosts()) == 3, 60, "the workers did not join")
        # A host is there a moment before its number.
        until(lambda: seq_no(empty_cell).count("[ip-") == 2, 60, "the workers got no numbers")
        first, second = sorted(
            autoscaling.execution_hosts() - {"master"}, key=lambda name: f"[{name}=2]" in seq_no(empty_cell)
        )
        until(lambda: not any(states(autoscaling, first, second)), 60, "they were not enabled")
        assert sorted(seq_no(empty_cell).split(",")) == sorted(("0", "[master=9]", f"[{first}=1]", f"[{second}=2]"))
        jobs = []
        for _ in range(3):
            jobs.append(gate.submit())
            until(lambda: autoscaling.running_on(jobs[-1]), 30, "a job did not start")
        assert {host for job in jobs for host in autoscaling.running_on(job)} == {first}
        gate.open()

    with autoscaling.running():
        until(autoscaling.all_gone, 60, "the workers did not leave")
    assert seq_no(empty_cell) == "0,[master=9]"
    autoscaling.command("init", "--undo", "--yes")
    assert sort_method(empty_cell) == "load"


def ran(owner: str, limit: int, seconds: int) -> str:
    """Lines of `accounting`, in the order of accounting(5): ten jobs with this time limit that ran so long."""
    begun = int(time.time()) - 3 * 24 * 3_600
    lines = [
        f"main.q:master:root:{owner}:gate:{1_000_000 + limit + number}:sge:0:{begun}:{begun}:{begun + seconds}:0:0:"
        f"{':'.join(['0'] * 18)}:NONE:defaultdepartment:NONE:1:0:0.0:0.0:0.0:-l h_rt={limit}:0.0:NONE:0.0:0:0\n"
        for number in range(10)
    ]
    return "".join(lines)


def test_workers_exchange_numbers_so_that_jobs_go_where_work_is_estimated_to_end_last(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    empty_cell.add_host(ExecHost("master", slots=0))
    empty_cell.out("qconf", "-rattr", "queue", "seq_no", "9", "main.q@master")
    owner = getpass.getuser()
    accounting = empty_cell.root / "default" / "common" / "accounting"
    with accounting.open("a", encoding="utf-8") as file:
        file.write(ran(owner, 600, 300) + ran(owner, 90_000, 80_000))
    autoscaling = Autoscaling(empty_cell, {**PACKED, "CP_CAP_AUTOSCALE_PACK": "predicted"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    autoscaling.command("init", "--yes", "--apply", "scheduler")
    gate = Gate(empty_cell)

    with autoscaling.running(CP_CAP_AUTOSCALE_MIN_WORKERS="2"):
        until(lambda: seq_no(empty_cell).count("[ip-") == 2, 60, "the workers got no numbers")
        first, second = sorted(
            autoscaling.execution_hosts() - {"master"}, key=lambda name: f"[{name}=2]" in seq_no(empty_cell)
        )
        until(lambda: not any(states(autoscaling, first, second)), 60, "they were not enabled")
        short = gate.submit("-q", f"main.q@{first}", "-l", "h_rt=600")
        long = gate.submit("-q", f"main.q@{second}", "-l", "h_rt=90000")
        until(lambda: autoscaling.running_on(short) and autoscaling.running_on(long), 30, "the jobs did not start")
        exchanged = sorted(("0", "[master=9]", f"[{first}=2]", f"[{second}=1]"))
        until(lambda: sorted(seq_no(empty_cell).split(",")) == exchanged, 60, "they did not exchange their numbers")
        another = gate.submit()
        until(lambda: autoscaling.running_on(another), 30, "a job did not start")
        assert set(autoscaling.running_on(another)) == {second}
        gate.open()

    with autoscaling.running():
        until(autoscaling.all_gone, 60, "the workers did not leave")
    assert seq_no(empty_cell) == "0,[master=9]"


CATALOG = """
cloud = "aws"
region = "eu-central-1"
currency = "USD"
as_of = 2026-01-01

[types]
"m5.large" = { vcpus = 2, memory_gib = 8, on_demand = 0.1 }
"m5.xlarge" = { vcpus = 2, memory_gib = 8, gpus = 2, on_demand = 0.5 }
"""


def test_jobs_without_gpus_leave_the_worker_with_gpus_to_those_that_need_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    complexes, catalog = empty_cell.home / "complexes", empty_cell.home / "catalog.toml"
    complexes.write_text(empty_cell.out("qconf", "-sc") + "gpus gpus INT <= YES YES 0 0\n")
    empty_cell.out("qconf", "-Mc", str(complexes))
    catalog.write_text(CATALOG)
    empty_cell.add_host(ExecHost("master", slots=0))
    settings = {
        **PACKED,
        "CP_CAP_AUTOSCALE_HYBRID": "true",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        "CP_CAP_AUTOSCALE_LOCAL_CATALOG": str(catalog),
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600",
    }
    autoscaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = autoscaling.log_text
    autoscaling.command("init", "--yes", "--apply", "scheduler")
    gate = Gate(empty_cell)

    def started(*requests: str) -> str:
        job = gate.submit(*requests)
        until(lambda: autoscaling.running_on(job), 60, "a job did not start")
        (host,) = autoscaling.running_on(job)
        return host

    with autoscaling.running():
        with_gpus = started("-l", "gpus=1")
        beside = gate.submit()
        until(lambda: autoscaling.running_on(beside), 30, "the job beside it did not start")
        without = started()
        assert without != with_gpus, "it had no free slot"
        empty_cell.out("qdel", beside)
        until(lambda: not autoscaling.running_on(beside), 30, "the job beside it did not end")
        assert started() == without
        assert started("-l", "gpus=1") == with_gpus
        assert len(autoscaling.lifetimes()) == 2
        gate.open()


def test_a_host_that_grid_engine_refuses_to_remove_gets_its_number_back(cell: Cell, until: Until) -> None:
    administrator = Administrator(cell.runner)
    busy = cell.out("qconf", "-sel").split()[0]
    cell.out("qconf", "-rattr", "queue", "seq_no", "4", f"main.q@{busy}")
    before = membership_of(administrator, [busy])[busy]
    cell.out("qsub", "-b", "y", "-q", f"main.q@{busy}", "sleep", "600")
    until(lambda: " r " in cell.out("qstat"), message="the job runs")
    assert not administrator.remove(busy, None).removed
    assert membership_of(administrator, [busy])[busy] == before
    assert before.seq_nos == (("main.q", "4"),)


@pytest.mark.parametrize("number", (None, 3))
def test_a_worker_is_enrolled_with_its_number_and_leaves_without_a_trace(cell: Cell, number: int | None) -> None:
    administrator = Administrator(cell.runner)
    name = namespaces.default_name(5)
    administrator.enrol(name, "main.q", "@allhosts", 4, seq_no=number)
    found = membership_of(administrator, [name])[name]
    assert found == Membership((("main.q", "4"),), ("@allhosts",), seq_nos=(("main.q", "3"),) if number else ())
    assert administrator.remove(name, None).removed
    assert seq_no(cell) == "0"
