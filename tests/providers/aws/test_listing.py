"""Why EC2 ended a machine, and whether that is a failed launch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from autoscaler.core.model.fleet import Ending, InstanceType, MachineState, Worker
from autoscaler.providers.aws.catalogue import Prices
from autoscaler.providers.aws.listing import worker


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
def test_the_state_reason_decides_whether_the_launch_failed(code: str, failure: str | None) -> None:
    assert listed(code=code, message="words").failure == failure


def test_the_message_of_a_failed_launch_has_its_code_once() -> None:
    message = listed(code="Client.InternalError", message="Client error on launch").message
    assert message == "Client.InternalError: Client error on launch"
    assert (
        listed(code="Client.InternalError", message="Client.InternalError: Client error on launch").message == message
    )


def test_without_a_state_reason_the_transition_reason_decides() -> None:
    found = listed(transition="Server.InternalError: Internal error on launch")
    assert (found.failure, found.message) == ("boot", "Server.InternalError: Internal error on launch")
    assert listed(transition="User initiated (2026-01-01 10:00:00 GMT)").failure is None


@pytest.mark.parametrize("state", ("pending", "running"))
def test_a_pending_or_running_machine_has_not_failed(state: str) -> None:
    assert listed(state, code="Server.InternalError").failure is None


def test_a_failed_machine_that_is_shutting_down_has_failed() -> None:
    found = listed("shutting-down", code="Client.InternalError", message="Client error on launch")
    assert (found.failure, found.ending) == ("boot", Ending.UNKNOWN)


@pytest.mark.parametrize(
    ("code", "failure", "ending"),
    (
        ("Client.UserInitiatedShutdown", None, Ending.STOPPED),
        ("Client.UserInitiatedHibernate", None, Ending.STOPPED),
        ("Server.ScheduledStop", None, Ending.STOPPED),
        ("Client.InstanceInitiatedShutdown", "boot", Ending.UNKNOWN),
        ("Server.InternalError", "boot", Ending.UNKNOWN),
        ("", "boot", Ending.UNKNOWN),
    ),
)
def test_a_stopped_machine_exists_and_failed_unless_somebody_stopped_it(
    code: str, failure: str | None, ending: Ending
) -> None:
    """Only a person starts it again, and its disks cost money."""
    found = listed("stopped", code=code, message=f"{code}: as it says")
    assert (found.exists, found.state, found.failure) == (True, MachineState.PENDING, failure)
    assert (found.ending, "stopped" in str(found.message)) == (ending, True)


def test_a_machine_that_ec2_says_in_prose_that_a_user_stopped_has_not_failed() -> None:
    found = listed("stopped", transition="User initiated (2026-11-27 10:00:00 UTC)")
    assert (found.failure, found.ending) == (None, Ending.STOPPED)


def test_a_stopping_machine_is_not_yet_a_failed_launch() -> None:
    found = listed("stopping", code="Server.InternalError")
    assert (found.state, found.failure) == (MachineState.STOPPING, None)
