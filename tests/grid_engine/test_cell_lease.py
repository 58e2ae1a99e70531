"""A second autoscaler on another master's machine is refused, by a lease that is stored in qmaster."""

from __future__ import annotations

import re

import pytest

from autoscaler.engine.cell_lease import LeaseStore
from autoscaler.lab.cell import Cell
from autoscaler.sge.admin import Administrator
from autoscaler.sge.leases import PREFIX, Leases
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Until
from tests.leases import LeaseStoreContract


class TestLeasesOfGridEngine(LeaseStoreContract):
    @pytest.fixture(autouse=True)
    def _cell(self, cell: Cell) -> None:
        self.cell = cell

    def leases(self) -> LeaseStore:
        return Leases(Administrator(self.cell.runner))


@pytest.mark.thorough
def test_an_autoscaler_on_a_shadow_master_is_refused_and_takes_over_when_the_first_has_ended(
    cell: Cell, until: Until
) -> None:
    shadow = cell.declared[0].name
    cell.out("qconf", "-ah", shadow)
    leases = Leases(Administrator(cell.runner))
    first = Autoscaling(cell)
    state, log = cell.home / "shadow-state", cell.home / "shadow.log"
    other = {**first.environment, "CP_CAP_AUTOSCALE_WORKDIR": str(state), "CP_CAP_AUTOSCALE_PROVIDER": "fake"}

    with first.running():
        until(leases.numbers, 30.0, "the first has the lease")
        second = cell.start(("sge-autoscaler", "run"), host=shadow, env=other, output=log)
        code = second.wait(300.0)
        text = log.read_text()
    assert code == 5, text
    assert re.search(r"another autoscaler serves this cell: process \d+ of \S+ on master", text), text
    assert leases.numbers() == [], "it was given back"

    third = cell.start(("sge-autoscaler", "run"), host=shadow, env=other, output=log)
    (number,) = until(leases.numbers, 30.0, "the other has the lease at once")
    held = leases.read(number)
    assert held is not None
    assert held.host == shadow
    assert PREFIX in cell.out("qconf", "-sul")
    third.terminate(120.0)
