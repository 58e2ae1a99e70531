"""Several hosts at once, on a real Grid Engine: what it does with lists of hosts, and what it says."""

from __future__ import annotations

from autoscaler import namespaces
from autoscaler.lab.cell import Cell
from sge.admin import Administrator
from sge.batches import Batches, NewHost
from sge.membership import Membership
from sge.qconf import read_attributes

NAMES = tuple(namespaces.default_name(number) for number in (5, 6, 7))


def test_workers_enrolled_together_have_all_that_one_enrolled_alone_has(cell: Cell) -> None:
    administrator = Administrator(cell.runner)
    hosts = [NewHost(name, 4, (("h_vmem", "8G"),)) for name in NAMES]
    told = Batches(administrator).enrol([*hosts, NewHost("no-such-host", 4)], "main.q", "@allhosts")
    again = Batches(administrator).enrol(hosts, "main.q", "@allhosts")
    assert (dict(told), dict(again)) == (dict.fromkeys(NAMES, True), dict.fromkeys(NAMES, False))
    for name in NAMES:
        values = read_attributes(cell.out("qconf", "-se", name))["complex_values"]
        assert (administrator._membership(name), values) == (
            Membership(slots=(("main.q", "4"),), host_groups=("@allhosts",)),
            "slots=4,h_vmem=8G",
        )
    assert "no-such-host" not in cell.out("qconf", "-shgrp", "@allhosts")


def test_several_are_disabled_enabled_and_given_a_sensor_at_once(cell: Cell) -> None:
    batches = Batches(Administrator(cell.runner))
    batches.enrol([NewHost(name, 4) for name in NAMES], "main.q", "@allhosts")
    opened = batches.enable([*NAMES, "nowhere"])
    states = [line for line in cell.out("qstat", "-f").splitlines() if any(name in line for name in NAMES)]
    sensing = batches.sense(NAMES, "/usr/local/sbin/sge-worker-notice")
    assert {opened, sensing, batches.disable(NAMES)} == {frozenset(NAMES)}
    assert ["d" in line.split()[-1] for line in states] == [False] * 3
    assert "sge-worker-notice" in cell.out("qconf", "-sconf", NAMES[2])
