"""`-masterq`: one task of the job in a queue that it names, the others where `-q` allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.cluster import ExecutionHost, QueueInstance
from autoscaler.core.plan import plan
from autoscaler.core.policy import NodeArrayPolicy, Policy, QueuePolicy
from tests.core.building import MAIN, a_job, a_snapshot

NAMES = ("main.q", "b.q")
CELL = Policy(
    queues=tuple(QueuePolicy(name, name[0]) for name in NAMES),
    node_arrays=tuple(NodeArrayPolicy(name[0], name, "@allhosts", "m5.large") for name in NAMES),
    master="master",
)


def fits(*, queues: tuple[str, ...], master: str, slots: int = 2, pe: str = "mpi", main: int = 0, b: int = 3) -> bool:
    """Whether such a job could start on three hosts, each with so many slots of both queues."""
    hosts = [
        ExecutionHost(
            name, tuple(QueueInstance(queue, name, n, 0, 0) for queue, n in zip(NAMES, (main, b), strict=True))
        )
        for name in ("h1", "h2", "h3")
    ]
    both = {name: replace(MAIN, name=name) for name in NAMES}
    job = a_job(slots=slots, pe=pe, queues=queues, master_queues=(master,))
    return plan(a_snapshot(job, *hosts, policy=CELL, queues=both)).fitting == 1


def test_the_master_task_alone_is_in_its_queue() -> None:
    assert fits(queues=("main.q",), master="b.q", pe="local", main=1)
    assert not fits(queues=("main.q",), master="b.q", pe="local", main=0)


def test_without_a_queue_for_the_others_all_tasks_may_be_in_the_masters_queue() -> None:
    assert fits(queues=(), master="b.q", slots=9)
    assert not fits(queues=(), master="b.q", slots=10)


@pytest.mark.parametrize(("slots", "room"), ((1, True), (2, False), (4, False)))
def test_where_the_master_task_names_a_host_no_other_task_is_in_its_queue_elsewhere(slots: int, *, room: bool) -> None:
    """The queue that `-q` names has no slots: only the master task fits."""
    assert fits(queues=("main.q",), master="b.q@h2", slots=slots) is room
