"""Several hosts at once, on a real Grid Engine: what it does with lists of hosts, and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler import namespaces
from autoscaler.lab.cell import Cell
from autoscaler.process import Completed
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches, NewHost
from autoscaler.sge.membership import Membership
from autoscaler.sge.qconf import read_attributes
from autoscaler.sge.removal import membership_of
from tests.grid_engine.waiting import Until
from tests.sge.grid_engine_model import Killed

NAMES = tuple(namespaces.default_name(number) for number in (5, 6, 7))


def test_workers_enrolled_together_have_slots_host_group_and_values(cell: Cell) -> None:
    administrator = Administrator(cell.runner)
    hosts = [NewHost(name, 4, (("h_vmem", "8G"),)) for name in NAMES]
    found = Batches(administrator).enrol([*hosts, NewHost("no-such-host", 4)], "main.q", "@allhosts")
    again = Batches(administrator).enrol(hosts, "main.q", "@allhosts")
    assert (dict(found), dict(again)) == (dict.fromkeys(NAMES, True), dict.fromkeys(NAMES, False))
    for name in NAMES:
        values = read_attributes(cell.out("qconf", "-se", name))["complex_values"]
        assert (membership_of(administrator, [name])[name], values) == (
            Membership(slots=(("main.q", "4"),), host_groups=("@allhosts",)),
            "slots=4,h_vmem=8G",
        )
    assert "no-such-host" not in cell.out("qconf", "-shgrp", "@allhosts")


def test_several_workers_are_enabled_disabled_and_get_a_load_sensor_at_once(cell: Cell) -> None:
    batches = Batches(Administrator(cell.runner))
    batches.enrol([NewHost(name, 4) for name in NAMES], "main.q", "@allhosts")
    enabled = batches.enable([*NAMES, "nowhere"])
    states = [line for line in cell.out("qstat", "-f").splitlines() if any(name in line for name in NAMES)]
    sensing = batches.sense(NAMES, "/usr/local/sbin/sge-worker-notice")
    assert {enabled, sensing, batches.disable(NAMES)} == {frozenset(NAMES)}
    assert ["d" in line.split()[-1] for line in states] == [False] * 3
    assert "sge-worker-notice" in cell.out("qconf", "-sconf", NAMES[2])


def test_in_a_removal_of_several_a_busy_and_a_reserved_host_keep_their_membership(cell: Cell, until: Until) -> None:
    administrator = Administrator(cell.runner)
    Batches(administrator).enrol([NewHost(name, 4) for name in NAMES], "main.q", "@allhosts")
    busy, reserved = cell.out("qconf", "-sel").split()[:2]
    cell.out("qsub", "-b", "y", "-q", f"main.q@{busy}", "sleep", "600")
    cell.out("qrsub", "-q", f"main.q@{reserved}", "-d", "1:0:0", "-pe", "local", "1")
    until(lambda: " r " in cell.out("qstat"), message="the job runs")
    cell.out("qconf", "-as", NAMES[0])
    hosts = (NAMES[0], busy, NAMES[1], "no-such-host", reserved, NAMES[2])
    before = membership_of(administrator, [busy, reserved])
    found = Batches(administrator).remove(dict.fromkeys(hosts))
    assert {name: outcome.removed for name, outcome in found.items()} == {
        name: name not in (busy, reserved) for name in hosts
    }
    assert membership_of(administrator, [busy, reserved]) == before
    assert " r " in cell.out("qstat")
    assert membership_of(administrator, NAMES) == dict.fromkeys(NAMES, Membership())
    assert not set(NAMES) & {*cell.out("qconf", "-sel").split(), *cell.out("qconf", "-ss").split()}
    states = {line.split()[0]: line.split()[-1] for line in cell.out("qstat", "-f").splitlines() if "main.q@" in line}
    assert (states[f"main.q@{busy}"], states[f"main.q@{reserved}"]) == ("d", "d")


@pytest.mark.parametrize("after", (4, 6, 8, 11))
def test_a_removal_of_several_that_was_killed_is_completed_by_the_next(cell: Cell, after: int) -> None:
    """Killed after this many commands, of which the first four only read."""
    found: list[tuple[str, ...]] = []

    def mortal(argv: Sequence[str], **means: Any) -> Completed:
        if len(found) == after:
            raise Killed
        found.append(tuple(argv))
        return cell.runner(argv, **means)

    Batches(Administrator(cell.runner)).enrol([NewHost(name, 4) for name in NAMES], "main.q", "@allhosts")
    with pytest.raises(Killed):
        Batches(Administrator(mortal)).remove(dict.fromkeys(NAMES))
    outcomes = Batches(Administrator(cell.runner)).remove(dict.fromkeys(NAMES))
    assert [outcome.removed for outcome in outcomes.values()] == [True] * 3
    assert membership_of(Administrator(cell.runner), NAMES) == dict.fromkeys(NAMES, Membership())
    assert not set(NAMES) & set(cell.out("qconf", "-sel").split())
