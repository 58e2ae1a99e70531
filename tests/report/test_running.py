"""Running jobs beside waiting ones, by `jobs --running`: each job or task once, on all its hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoscaler.core.model.cluster import ExecutionHost, HostJob
from autoscaler.report.running import running_block, running_rows
from tests.core.building import NOW, a_host, a_job, a_snapshot


def holding(name: str, *held: HostJob) -> ExecutionHost:
    host = a_host(name, slots=8)
    return replace(host, instances=(replace(host.instances[0], jobs=held, used=sum(job.slots for job in held)),))


PARALLEL = HostJob(7, "", "r", 4, "ann", NOW - 600)
HOSTS = (
    holding("w1", PARALLEL, HostJob(9, "10", "r", 1, "bob", NOW - 60)),
    holding("w2", replace(PARALLEL, slots=2, started=NOW - 500), HostJob(9, "2", "t", 1, "bob")),
)


def row(job: str, owner: str, state: str, slots: int, *hosts: str, runs: float | None) -> dict[str, Any]:
    started = {600.0: "2027-01-15T07:50:00+00:00", 60.0: "2027-01-15T07:59:00+00:00", None: None}[runs]
    return {
        "job": job,
        "owner": owner,
        "state": state,
        "slots": slots,
        "hosts": list(hosts),
        "started_at": started,
        "runs_s": runs,
    }


def test_each_job_or_task_is_a_row_with_all_its_hosts_in_the_order_of_numbers() -> None:
    assert running_rows(a_snapshot(a_job(1), *HOSTS)) == [
        row("7", "ann", "r", 6, "w1", "w2", runs=600.0),
        row("9.2", "bob", "t", 1, "w2", runs=None),
        row("9.10", "bob", "r", 1, "w1", runs=60.0),
    ]


def test_of_one_owner_only_their_jobs_are_shown() -> None:
    assert [each["job"] for each in running_rows(a_snapshot(*HOSTS), "bob")] == ["9.2", "9.10"]


def test_people_read_a_table_of_them() -> None:
    shown = running_block(running_rows(a_snapshot(*HOSTS)))
    assert shown.rows[0] == ("7", "ann", "r", "6", "10m", "w1, w2")
    assert running_block([]).lines == ["no job runs"]
