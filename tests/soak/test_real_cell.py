"""The same over a real cell: SOAK_MINUTES (10) of submits, deletions, deaths, hands and restarts, then calm.

SOAK_SEED chooses what happens; when it happens within the cell's own doings, nobody chooses. What a failed run left is
kept in a folder that the failure names (under SOAK_EVIDENCE, or the temporary folder).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from autoscaler.errors import AutoscalerError
from autoscaler.lab.cell import Cell
from tests.grid_engine.evidence import open_orders
from tests.soak.conftest import MET
from tests.soak.real import Ground
from tests.soak.records import folder_of, kept_if_it_fails

SEED = int(os.environ.get("SOAK_SEED", "0"))
SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "10"))
SETTLES = 600.0
"""Seconds; it took 40 on an idle machine. One that is busy is no defect."""


@pytest.fixture
def ground() -> Iterator[Ground]:
    with Cell.up(hosts=1, scheduler={"schedule_interval": "0:0:1"}) as cell:
        cell.configure(max_unheard="00:00:04", load_report_time="00:00:01")
        made = Ground(cell, random.Random(SEED))
        made.start()
        try:
            yield made
        finally:
            made.stop()


def test_on_a_real_cell_no_rule_is_broken_and_all_comes_to_rest(ground: Ground) -> None:
    with kept_if_it_fails(folder_of(SEED), ground.cell, ground.scaling) as texts:
        try:
            _play(ground)
        finally:
            texts["diary"] = "\n".join(ground.diary)
            texts["findings"] = "\n".join([*ground.broken, "", *ground.notes])
            MET.update({f"real cell: {name}": count for name, count in ground.met.items()})
            MET.update({f"note: {note}": 1 for note in ground.notes})
            MET.update(steps=len(ground.diary), histories=1, findings=bool(ground.broken))
        assert (ground.broken, open_orders(ground.scaling)) == ([], []), f"seed {SEED}"


def _play(ground: Ground) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not ground.broken:
        ground.happen()
        time.sleep(ground.chance.choice((0.1, 0.5, 1.5)))
        ground.check()
    if not ground.broken:
        _settle(ground)
        ground.check()
        ground.check_at_the_end()


def _settle(ground: Ground) -> None:
    ground.calm()
    end = time.monotonic() + SETTLES
    while time.monotonic() < end:
        try:
            if not ground.there() and ground.scaling.all_gone():
                return
            ground.help_out()
        except AutoscalerError:
            pass  # the qmaster is busy: looked at again
        time.sleep(2.0)
    ground.breaks(f"rule 8: after {SETTLES:g} s jobs {sorted(ground.there())}, hosts {sorted(ground.scaling.rented())}")
