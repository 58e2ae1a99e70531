"""Cloud Pipeline's launcher on a real cell: the process that decides is killed SOAK_KILLS (50) times, as jobs come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import played_cloud
from tests.grid_engine.test_cloud_pipeline_launcher import QUICK, SECOND, WATCHED, killed_among_jobs, launcher_of
from tests.grid_engine.waiting import wait_until

KILLS = int(os.environ.get("SOAK_KILLS", "50"))


@pytest.fixture
def cell() -> Iterator[Cell]:
    with Cell.up(scheduler={"schedule_interval": "0:0:1"}) as cell:
        hostless = replace(cell, declared=())
        hostless.reset()
        yield hostless


def test_whoever_decides_is_killed_again_and_again_and_nothing_is_lost_or_doubled(cell: Cell) -> None:
    with played_cloud(cell, "cloud_pipeline") as cloud:
        launcher = launcher_of(cell, cloud, {**QUICK, **SECOND, **WATCHED})
        try:
            killed_among_jobs(launcher, cell, cloud, wait_until, times=KILLS)
        finally:
            print(launcher.shown()[-20000:])
