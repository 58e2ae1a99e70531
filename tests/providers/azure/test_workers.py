"""How a listing shows machines, above all those that failed, were shut down or are gone."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from autoscaler.core.model.fleet import Ending, MachineState, PriceType, Worker
from autoscaler.providers.azure.provider import STATUS_AGE, AzureProvider
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import Refused, Unreachable
from tests.clouds.azure.plane import AzurePlane
from tests.clouds.played import Region
from tests.providers.azure.building import SMALL, an_order, the_worker, until


def rented(plane: AzurePlane, count: int = 1, **order: str) -> AzureProvider:
    provider = plane.connect(CELL)
    provider.launch(an_order(provider, count=count))
    return provider


def described(worker: Worker) -> tuple[MachineState, str | None, str | None]:
    return worker.state, worker.failure, worker.message


@pytest.mark.parametrize(
    ("code", "kind"),
    (
        ("AllocationFailed", "capacity"),
        ("ZonalAllocationFailed", "capacity"),
        ("OverconstrainedAllocationRequest", "capacity"),
        ("SkuNotAvailable", "capacity"),
        ("QuotaExceeded", "quota"),
        ("OSProvisioningTimedOut", "boot"),
    ),
)
def test_a_machine_whose_provisioning_fails_has_failure_and_message(
    azure_plane: AzurePlane, code: str, kind: str
) -> None:
    azure_plane.region.control("set", fails={SMALL: code})
    worker = the_worker(rented(azure_plane))
    assert described(worker) == (MachineState.PENDING, kind, f"{code}: Allocation failed. {code}")


def test_terminating_a_machine_whose_provisioning_failed_leaves_nothing(azure_plane: AzurePlane) -> None:
    azure_plane.region.control("set", fails={SMALL: "AllocationFailed"})
    provider = rented(azure_plane)
    provider.terminate([the_worker(provider).id])
    until(lambda: not azure_plane.billable())
    assert not [worker for worker in provider.workers() if worker.exists]


@pytest.mark.parametrize(
    ("power", "failure", "ending", "words"),
    (
        ("stopped", "boot", Ending.UNKNOWN, "stopped, by its own system or by a call (Azure does not say which),"),
        ("deallocated", None, Ending.STOPPED, "deallocated,"),
        ("deallocating", None, Ending.STOPPED, "deallocating,"),
    ),
)
def test_a_machine_that_is_down_exists_and_failed_unless_a_call_deallocated_it(
    azure_plane: AzurePlane, power: str, failure: str | None, ending: Ending, words: str
) -> None:
    provider = rented(azure_plane)
    (name,) = azure_plane.region.control()["machines"]
    azure_plane.region.control("power", name=name, power=power)
    worker = the_worker(provider)
    assert described(worker) == (MachineState.PENDING, failure, f"it is {words} and still costs money")
    assert worker.ending is ending


def test_a_running_machine_with_a_failed_extension_has_not_failed(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    (name,) = azure_plane.region.control()["machines"]
    azure_plane.region.control("break", name=name, code="VMExtensionProvisioningError")
    assert described(the_worker(provider))[:2] == (MachineState.RUNNING, None)


def test_a_booting_machine_is_pending_and_then_runs_with_name_and_address(azure_plane: AzurePlane) -> None:
    azure_plane.region.control("set", boot=0.2)
    provider = rented(azure_plane)
    states = [the_worker(provider).state]
    until(lambda: the_worker(provider).state is MachineState.RUNNING)
    worker = the_worker(provider)
    assert (states, worker.name, worker.address) == ([MachineState.PENDING], worker.id, "10.0.0.1")


def test_a_host_name_may_have_a_domain(region: Region) -> None:
    provider = rented(AzurePlane(region, host_domain="Workers.Internal"))
    worker = the_worker(provider)
    assert worker.name == f"{worker.id}.workers.internal"


def test_addresses_are_requested_only_while_one_is_unknown(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane, count=3)
    for _ in range(3):
        provider.workers()
    assert azure_plane.region.control()["calls"].count("Cards") == 1


def test_without_permission_to_list_addresses_a_worker_has_no_address(azure_plane: AzurePlane) -> None:
    azure_plane.region.fault({"kind": "error", "operation": "Cards", "code": "AuthorizationFailed", "status": 403})
    assert the_worker(rented(azure_plane)).address is None


def test_states_are_requested_once_a_minute(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    times = iter((0.0, 0.0, 1.0, STATUS_AGE - 1, STATUS_AGE + 1, *(STATUS_AGE + 2,) * 9))
    provider.clock = lambda: next(times)
    for _ in range(4):
        provider.workers()
    assert azure_plane.region.control()["calls"].count("ListStates") == 2


def test_a_machine_that_vanished_is_listed_as_terminated(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    name = the_worker(provider).id
    azure_plane.region.control("vanish", name=name)
    until(lambda: not azure_plane.region.control()["machines"])
    gone = the_worker(provider)
    assert (gone.id, gone.state) == (name, MachineState.TERMINATED)


def test_a_machine_that_we_terminated_is_not_requested_singly_when_unlisted(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane, count=3)
    provider.terminate([worker.id for worker in provider.workers()])
    until(lambda: not azure_plane.billable())
    states = [worker.state for worker in provider.workers()]
    assert (states, "GetMachine" in azure_plane.region.control()["calls"]) == ([MachineState.TERMINATED] * 3, False)


def test_a_machine_missing_from_a_listing_is_not_terminated(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    provider.workers()
    azure_plane.region.control("set", lag=60)
    assert [provider.workers() for _ in range(2)] == [[], []]
    azure_plane.region.control("set", lag=0)
    assert the_worker(provider).state is MachineState.RUNNING


def test_a_foreign_web_page_is_not_an_empty_listing(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    azure_plane.region.fault({"kind": "stranger", "operation": "ListMachines"})
    with pytest.raises(Unreachable, match="no value"):
        provider.workers()


def test_an_error_on_the_second_page_fails_the_listing(azure_plane: AzurePlane) -> None:
    azure_plane.region.control("set", page=2)
    provider = rented(azure_plane, count=3)
    provider.workers()
    azure_plane.region.fault({"kind": "error", "operation": "ListMachinesNext", "status": 503, "code": "ServerBusy"})
    with pytest.raises(Unreachable, match="ServerBusy"):
        provider.workers()


@pytest.mark.parametrize(("status", "code"), ((403, "AuthorizationFailed"), (401, "ExpiredAuthenticationToken")))
def test_a_refused_listing_raises_unreachable(azure_plane: AzurePlane, status: int, code: str) -> None:
    provider = rented(azure_plane)
    azure_plane.region.fault({"kind": "error", "operation": "ListMachines", "status": status, "code": code})
    with pytest.raises(Unreachable, match=code):
        provider.workers()


def test_a_spot_worker_is_listed_as_spot(azure_plane: AzurePlane) -> None:
    provider = azure_plane.connect(CELL)
    provider.launch(an_order(provider, price_type=PriceType.SPOT))
    assert the_worker(provider).bucket.price_type is PriceType.SPOT


def test_a_worker_of_a_size_that_is_no_longer_offered_keeps_its_type(region: Region) -> None:
    provider = rented(AzurePlane(region))
    other = AzurePlane.__new__(AzurePlane)
    other.__dict__.update(region=region, own={"families": "Fsv2"}, unreachable=False)
    assert the_worker(other.connect(CELL)).type == the_worker(provider).type


def test_the_console_is_requested_without_the_token_for_azure(
    azure_plane: AzurePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = rented(azure_plane)
    name = the_worker(provider).id
    asked: list[object] = []
    get = requests.get

    def listened(*args: Any, **more: Any) -> requests.Response:
        asked.append(more.get("headers"))
        return get(*args, **more)

    monkeypatch.setattr(requests, "get", listened)
    assert (provider.console(name), asked) == (f"{name} login:\n", [None])


def test_the_console_of_a_machine_of_another_cell_is_empty(azure_plane: AzurePlane) -> None:
    name = the_worker(rented(azure_plane)).id
    assert azure_plane.connect("other").console(name) == ""


def test_terminating_several_is_refused_if_one_belongs_to_another_cell(azure_plane: AzurePlane) -> None:
    ours = rented(azure_plane)
    theirs = azure_plane.connect("other")
    order = an_order(theirs, token="u-0")
    named = theirs.launch(type(order)(**{**{name: getattr(order, name) for name in order.__slots__}, "cell": "other"}))
    with pytest.raises(Refused, match="left alone"):
        ours.terminate([the_worker(ours).id, *named.ids])
    assert len(azure_plane.region.control()["machines"]) == 2


def test_a_locked_machine_is_refused_with_the_error_code(azure_plane: AzurePlane) -> None:
    provider = rented(azure_plane)
    azure_plane.region.fault({"kind": "error", "operation": "DeleteMachine", "code": "ScopeLocked", "status": 409})
    with pytest.raises(Refused, match="ScopeLocked"):
        provider.terminate([the_worker(provider).id])
