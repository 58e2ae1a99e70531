"""The same over a real cell: SOAK_MINUTES (10) of submits, deletions, failures, commands and restarts, then calm.

SOAK_SEED chooses what happens; the exact moment within the cell's own actions is not chosen. What a failed run left is
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
from tests.soak.real import RealCell
from tests.soak.records import folder_of, kept_if_it_fails

SEED = int(os.environ.get("SOAK_SEED", "0"))
SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "10"))
SETTLES = 600.0
"""Seconds; it took 40 on an idle machine. One that is busy is no defect."""


@pytest.fixture
def real_cell() -> Iterator[RealCell]:
    with Cell.up(hosts=1, scheduler={"schedule_interval": "0:0:1"}) as cell:
        cell.configure(max_unheard="00:00:04", load_report_time="00:00:01")
        made = RealCell(cell, random.Random(SEED))
        made.start()
        try:
            yield made
        finally:
            made.stop()


def test_on_a_real_cell_no_rule_is_broken_and_everything_converges(real_cell: RealCell) -> None:
    with kept_if_it_fails(folder_of(SEED), real_cell.cell, real_cell.scaling) as texts:
        try:
            _play(real_cell)
        finally:
            texts["diary"] = "\n".join(real_cell.diary)
            texts["findings"] = "\n".join([*real_cell.broken, "", *real_cell.notes])
            MET.update({f"real cell: {name}": count for name, count in real_cell.met.items()})
            MET.update({f"note: {note}": 1 for note in real_cell.notes})
            MET.update(steps=len(real_cell.diary), histories=1, findings=bool(real_cell.broken))
        assert (real_cell.broken, open_orders(real_cell.scaling)) == ([], []), f"seed {SEED}"


def _play(real_cell: RealCell) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not real_cell.broken:
        real_cell.happen()
        time.sleep(real_cell.chance.choice((0.1, 0.5, 1.5)))
        real_cell.check()
    if not real_cell.broken:
        _settle(real_cell)
        real_cell.check()
        real_cell.check_at_the_end()


def _settle(real_cell: RealCell) -> None:
    real_cell.calm()
    end = time.monotonic() + SETTLES
    while time.monotonic() < end:
        try:
            if not real_cell.there() and real_cell.scaling.all_gone():
                return
            real_cell.operator_cleans_up()
        except AutoscalerError:
            pass  # the qmaster is busy: tried again
        time.sleep(2.0)
    real_cell.breaks(
        f"rule 8: after {SETTLES:g} s jobs {sorted(real_cell.there())}, hosts {sorted(real_cell.scaling.rented())}"
    )
