"""A dynamic node array is removed when nothing requests it and nothing is left of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.request_sets import ArrayDefinition, Requests
from autoscaler.core.outcome.fulfilled import empty_arrays
from tests.core.building import Thing, a_machine, a_snapshot, an_order

BURST = ArrayDefinition("burst", dynamic=True, requested=False)


@pytest.mark.parametrize(
    ("things", "goes"),
    (
        ((), True),
        ((a_machine(node_array="burst"),), False),
        ((a_machine(node_array="burst", state=MachineState.TERMINATED),), True),
        ((a_machine(node_array="execute"),), True),
        ((replace(an_order(), node_array="burst"),), False),
    ),
)
def test_a_dynamic_array_no_longer_requested_is_removed_with_its_last_worker(
    things: tuple[Thing, ...], goes: bool
) -> None:
    snapshot = replace(a_snapshot(*things), requests=Requests(arrays=(BURST,)))
    assert empty_arrays(snapshot) == (("burst",) if goes else ())


@pytest.mark.parametrize("kept", (replace(BURST, requested=True), replace(BURST, dynamic=False)))
def test_a_requested_or_configured_array_stays_and_so_does_the_one_it_extends(kept: ArrayDefinition) -> None:
    assert empty_arrays(replace(a_snapshot(), requests=Requests(arrays=(kept,)))) == ()
    base = replace(BURST, name="base")
    both = Requests(arrays=(base, replace(BURST, extends="base", requested=True)))
    assert empty_arrays(replace(a_snapshot(), requests=both)) == ()
