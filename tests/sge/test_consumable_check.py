"""`doctor` names consumables that workers are not given, with the setting that would."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.policy import Limits, NodeArrayPolicy
from autoscaler.sge.checks import Level
from autoscaler.sge.complex_table import COMPLEXES
from autoscaler.sge.consumable_check import consumable_finding
from tests.core.building import COMPLEXES as COUNTED

ARRAY = NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.large", limits=Limits(max_workers=3))
SEAT = replace(COUNTED["lic"], name="seat", shortcut="st")
ROOM = replace(COUNTED["h_vmem"], name="room", shortcut="rm")


def test_workers_are_given_all_that_grid_engine_ships() -> None:
    assert consumable_finding(COMPLEXES, (ARRAY,), ()).level is Level.OK


def test_a_consumable_of_another_name_is_named_with_its_setting() -> None:
    found = consumable_finding({**COMPLEXES, "seat": SEAT, "room": ROOM}, (ARRAY,), ())
    assert found.level is Level.WARN
    assert found.found.startswith("workers are not given seat, room: ")
    assert found.remedy.startswith("CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM, rules ")


def test_what_the_global_host_queues_or_rules_have_is_not_missing() -> None:
    both = {**COMPLEXES, "seat": SEAT, "room": ROOM}
    assert consumable_finding(both, (ARRAY,), ("st",), ("room",)).level is Level.OK
    assert consumable_finding(both, (replace(ARRAY, memory_complex="room"),), ("seat",)).level is Level.OK
