"""Kinds of hosts remember their room for needs, those with the same contents together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement import kinds
from autoscaler.core.placement.kinds import MOST_NEEDS, kind_of
from autoscaler.core.placement.needs import need_of

HOST = Host("w1", {"main.q": 4}, (("h_vmem", 8.0),), {"arch": "lx-amd64"})


def test_hosts_with_the_same_contents_share_what_they_remember() -> None:
    one, other = (kind_of(replace(HOST, name=name), (name,)) for name in ("w1", "w2"))
    need = need_of(Demand(frozenset({"main.q"}), per_slot=(("h_vmem", 4.0),), per_host=1))
    assert need is not None
    assert (one.room_for(need), other.rooms) == (2, one.rooms)
    assert other.rooms is one.rooms


@pytest.mark.parametrize(
    "change",
    (
        {"slots": {"main.q": 3}},
        {"free": (("h_vmem", 7.0),)},
        {"properties": {"arch": "lx-arm64"}},
        {"empty": False},
        {"own": {"main.q": (("h_vmem", 8.0),)}},
        {"forced": frozenset({"gpu"})},
    ),
    ids=lambda change: next(iter(change)),
)
def test_hosts_that_differ_in_what_room_depends_on_share_nothing(change: dict[str, Any]) -> None:
    one, other = kind_of(HOST, ("w1",)), kind_of(replace(HOST, **change), ("w1",))
    assert other.rooms is not one.rooms


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST_ROOMS", 0)
    kind = kind_of(Host("bounded", {"main.q": 4}, (("h_vmem", 3.5),)), ("bounded",))
    for number in range(MOST_NEEDS * 2):
        need = need_of(Demand(frozenset({"main.q"}), per_slot=(("h_vmem", 0.5 + number),), per_host=1))
        assert need is not None
        kind.room_for(need)
    assert kind.rooms is not None
    assert len(kind.rooms) <= MOST_NEEDS
