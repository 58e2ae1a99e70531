"""Why EC2 ended a machine, and whether that is a failed launch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from autoscaler.core.model.fleet import Ending, InstanceType, MachineState, Worker
from providers.aws.catalogue import Prices
from providers.aws.listing import worker


def listed(state: str = "terminated", *, code: str = "", message: str = "", transition: str = "") -> Worker:
    instance: dict[str, Any] = {
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": "c5.large",
        "State": {"Name": state},
        "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
        "StateTransitionReason": transition,
        **({"StateReason": {"Code": code, "Message": message}} if code else {}),
    }
    return worker(instance, lambda name: InstanceType(name, "c5", 2, 4), Prices({}), "full")


@pytest.mark.parametrize(
    ("code", "failure"),
    (
        ("Client.InternalError", "boot"),
        ("Client.InvalidSnapshot.NotFound", "boot"),
        ("Client.VolumeLimitExceeded", "quota"),
        ("Server.InternalError", "boot"),
        ("Server.InsufficientInstanceCapacity", "capacity"),
        ("Client.SomethingNew", "boot"),
        ("Client.UserInitiatedShutdown", None),  # a person, or we
        ("Client.InstanceInitiatedShutdown", None),
        ("Server.SpotInstanceTermination", None),
        ("Server.SpotInstanceShutdown", None),
        ("Server.ScheduledStop", None),
        ("", None),
    ),
)
def test_the_state_reason_tells_whether_the_launch_failed(code: str, failure: str | None) -> None:
    assert listed(code=code, message="words").failure == failure


def test_the_cause_is_told_with_its_code() -> None:
    told = listed(code="Client.InternalError", message="Client error on launch").message
    assert told == "Client.InternalError: Client error on launch"
    assert listed(code="Client.InternalError", message="Client.InternalError: Client error on launch").message == told


def test_where_there_is_no_state_reason_the_transition_tells_it() -> None:
    found = listed(transition="Server.InternalError: Internal error on launch")
    assert (found.failure, found.message) == ("boot", "Server.InternalError: Internal error on launch")
    assert listed(transition="User initiated (2026-01-01 10:00:00 GMT)").failure is None


@pytest.mark.parametrize("state", ("pending", "running"))
def test_a_machine_that_lives_has_not_failed(state: str) -> None:
    assert listed(state, code="Server.InternalError").failure is None


def test_one_that_is_shutting_down_has() -> None:
    found = listed("shutting-down", code="Client.InternalError", message="Client error on launch")
    assert (found.failure, found.ending) == ("boot", Ending.UNKNOWN)


def test_a_stopped_machine_is_down_and_to_be_ended() -> None:
    """It comes up by nobody's doing but a person's, and its disks are paid for."""
    found = listed("stopped", code="Client.UserInitiatedShutdown", message="Client.UserInitiatedShutdown: by a person")
    assert (found.exists, found.state, found.failure) == (True, MachineState.PENDING, "boot")
    assert "stopped" in str(found.message)


def test_a_machine_that_is_stopping_is_no_failed_launch_yet() -> None:
    found = listed("stopping", code="Server.InternalError")
    assert (found.state, found.failure) == (MachineState.STOPPING, None)
