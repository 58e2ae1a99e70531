"""The demo trusts Grid Engine's accounting, not itself."""

from autoscaler.lab.demo import SCENARIOS, Summary, TaskEnd, read_task_ends
from autoscaler.store.history import Lifetime

QACCT = """\
==============================================================
qname        main.q
hostname     ip-10-1-0-11
jobnumber    1
taskid       10
qsub_time    Sat Nov 21 11:23:14 2026
start_time   Sat Nov 21 11:23:30 2026
end_time     Sat Nov 21 11:23:42 2026
failed       0
exit_status  0
==============================================================
qname        main.q
hostname     master
jobnumber    1
taskid       2
qsub_time    Sat Nov 21 11:23:14 2026
start_time   Sat Nov 21 11:23:14 2026
end_time     Sat Nov 21 11:23:16 2026
failed       100 : assumedly after job
exit_status  137
"""


def test_task_records_are_sorted_by_task() -> None:
    assert [(end.task, end.host, end.wait) for end in read_task_ends(QACCT)] == [
        ("2", "master", 0.0),
        ("10", "ip-10-1-0-11", 16.0),
    ]


def test_a_failed_task_did_not_end_well() -> None:
    assert [end.well for end in read_task_ends(QACCT)] == [False, True]


def test_a_record_without_a_start_time_is_read() -> None:
    rescheduled = QACCT.replace("Sat Nov 21 11:23:30 2026", "-/-").replace("Sat Nov 21 11:23:42 2026", "-/-")
    assert [(end.task, end.wait) for end in read_task_ends(rescheduled)] == [("2", 0.0), ("10", None)]


def test_without_accounting_there_are_no_tasks() -> None:
    assert read_task_ends("error: job id 1 not found\n") == ()


def test_the_summary_adds_up_worker_seconds_and_price() -> None:
    worker = Lifetime("i-1", "w1", "m5.large", "execute", "on_demand", 0.096, 100.0, 105.0, 130.0, 136.0)
    tasks = (TaskEnd("1", "w1", 4.0, "0", "0"), TaskEnd("2", "w1", 8.0, "0", "0"))

    lines = list(Summary(tasks, (worker,), seconds=40.0, at=200.0).lines())

    assert lines[-1].strip() == "36 worker-seconds, 0.000960 USD in all"
    assert "median 6 s, longest 8 s" in lines[3]


def test_both_documented_examples_exist() -> None:
    assert set(SCENARIOS) == {"homogeneous", "hybrid"}
