"""Workers are enrolled disabled and removed only if Grid Engine agrees; an interrupted change can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.errors import GridEngineNotObservable, GridEngineRefused
from autoscaler.process import Completed
from autoscaler.sge.admin import Administrator
from autoscaler.sge.membership import Membership, memberships
from autoscaler.sge.objects import UnusableName
from tests.sge.grid_engine_model import GridEngineModel, Killed

HAD = Membership(slots=(("main.q", "4"),), host_groups=("@allhosts",))


def enrolled(**changes: Any) -> GridEngineModel:
    model = GridEngineModel()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4, {"h_vmem": "8G"})
    Administrator(model).enable("w1")
    model.calls.clear()
    model.startable.clear()
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def test_an_enrolled_worker_is_disabled_and_has_its_slots_and_values() -> None:
    model = GridEngineModel()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4, [("h_vmem", "8G")])
    assert (model.hosts, model.members, model.slots, model.disabled) == (
        {"w1": "slots=4,h_vmem=8G"},
        ["w1"],
        {"w1": 4},
        {"w1"},
    )


def test_no_job_can_start_on_a_worker_at_any_moment_of_its_enrolment() -> None:
    model = GridEngineModel()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    assert (model.startable, model.slots) == ([], {"w1": 4})


def test_no_job_can_start_while_a_worker_with_slots_from_before_is_enrolled_again() -> None:
    model = GridEngineModel()
    model.slots = {"w1": 8}  # a stale entry of an earlier worker of that name
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    assert (model.startable, model.slots) == ([], {"w1": 4})


def test_enrolling_twice_changes_nothing() -> None:
    model = enrolled(disabled={"w1"})
    assert not Administrator(model).enrol("w1", "main.q", "@allhosts", 4, {"h_vmem": "8G"}).changed


def test_enrolling_with_other_slots_changes_them() -> None:
    model = enrolled()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 6)
    assert model.slots == {"w1": 6}


@pytest.mark.parametrize("step", range(1, 6))
def test_an_enrolment_killed_after_any_command_converges_when_called_again(step: int) -> None:
    model = GridEngineModel(dies_after=step)
    with pytest.raises(Killed):
        Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    assert (model.hosts, model.members, model.slots, model.disabled, model.startable) == (
        {"w1": "slots=4"},
        ["w1"],
        {"w1": 4},
        {"w1"},
        [],
    )


def test_a_host_enrolled_by_its_image_is_disabled_first_and_its_missing_values_are_added() -> None:
    model = enrolled()
    Administrator(model).complete("w1", "main.q", (("gpus", "1"), ("group_id", "execute:4-1")), ("@of-the-group",))
    assert (model.hosts["w1"], "w1" in model.disabled) == ("slots=4,h_vmem=8G,gpus=1,group_id=execute:4-1", True)
    changing = [call[1:3] for call in model.calls if call[1].endswith("attr")]
    assert changing == [("-aattr", "hostgroup"), ("-mattr", "exechost")]
    assert model.startable == ["w1"], "it could start jobs until it was disabled, which comes first"


@pytest.mark.parametrize("step", range(1, 6))
def test_a_completion_killed_after_any_command_converges_when_called_again(step: int) -> None:
    model = enrolled(disabled={"w1"}, dies_after=step)
    for _ in range(2):
        with contextlib.suppress(Killed):
            Administrator(model).complete("w1", "main.q", {"gpus": "1"}, ("@of-the-group",))
    assert (model.hosts["w1"], model.startable) == ("slots=4,h_vmem=8G,gpus=1", [])


def test_completing_a_removed_host_is_refused_and_leaves_its_name_in_no_host_group() -> None:
    model = enrolled()
    with pytest.raises(GridEngineRefused, match="w2 is not an execution host"):
        Administrator(model).complete("w2", "main.q", {"gpus": "1"}, ("@of-the-group",))
    assert model.members == ["w1"]


def test_enrolling_is_refused_if_the_queue_does_not_include_the_host_group() -> None:
    class Unconnected(GridEngineModel):
        def instances(self) -> set[str]:
            return set()

    with pytest.raises(GridEngineRefused, match="does not include @allhosts"):
        Administrator(Unconnected()).enrol("w1", "main.q", "@allhosts", 4)


def test_a_worker_is_never_made_an_admin_or_submit_host() -> None:
    model = GridEngineModel()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    assert list(model.hosts) == ["w1"]
    assert not [call for call in model.calls if call[1] in ("-ah", "-as")]


def test_enabling_a_host_without_queue_instance_is_refused() -> None:
    with pytest.raises(GridEngineRefused, match="invalid queue"):
        Administrator(GridEngineModel()).enable("w1")


def test_enabling_twice_changes_nothing() -> None:
    assert not Administrator(enrolled()).enable("w1").changed


def test_a_removed_worker_leaves_no_trace() -> None:
    model = enrolled(submit_hosts=["w1"])
    Administrator(model).remove("w1")
    assert (model.hosts, model.members, model.slots, model.submit_hosts) == ({}, [], {}, [])


def test_removing_disables_first() -> None:
    model = enrolled()
    Administrator(model).remove("w1")
    changes = [call for call in model.calls if not call[1].startswith("-s")]
    assert changes[0] == ("qmod", "-d", "*@w1")


def test_a_busy_host_is_not_removed_keeps_its_membership_and_is_disabled() -> None:
    model = enrolled(busy={"w1"})
    outcome = Administrator(model).remove("w1")
    assert (outcome.removed, outcome.restored, model.hosts, model.members, model.slots, model.disabled) == (
        False,
        HAD,
        {"w1": "slots=4,h_vmem=8G"},
        ["w1"],
        {"w1": 4},
        {"w1"},
    )


def test_a_refused_removal_carries_grid_engines_message() -> None:
    outcome = Administrator(enrolled(busy={"w1"})).remove("w1")
    assert outcome.output == ('Host object "w1" is still referenced in cluster queue "main.q".',)


def test_no_job_can_start_on_a_host_whose_removal_is_undone() -> None:
    model = enrolled(busy={"w1"}, disabled={"w1"})
    removal = Administrator(model).remove("w1")
    assert (removal.output != (), model.startable, list(model.hosts)) == (True, [], ["w1"])


class OpensAtOnce(GridEngineModel):
    """Its queue gives slots to every host of its group. It deletes no host."""

    def delete_host(self, host: str) -> tuple[int, str]:
        return 1, f'Host object "{host}" is still referenced in host group "@other".'

    def can_start_jobs(self, host: str) -> bool:
        self.slots.setdefault(host, 4)
        return super().can_start_jobs(host)


@pytest.mark.parametrize("step", range(1, 20))
def test_no_job_can_start_wherever_the_restoration_of_a_host_is_cut_short(step: int) -> None:
    model = OpensAtOnce()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4, {"h_vmem": "8G"})
    model.startable.clear()
    model.dies_after = len(model.calls) + step
    with contextlib.suppress(Killed):
        Administrator(model).remove("w1", HAD)
    model.dies_after = None
    Administrator(model).remove("w1", HAD)
    assert (model.hosts, model.members, model.disabled, model.startable) == (
        {"w1": "slots=4,h_vmem=8G"},
        ["w1"],
        {"w1"},
        [],
    )


def test_a_host_with_a_reservation_is_not_removed_though_grid_engine_exits_0() -> None:
    model = enrolled(reserved={"w1"})
    outcome = Administrator(model).remove("w1")
    assert (outcome.removed, model.members, model.slots) == (False, ["w1"], {"w1": 4})


def test_a_removal_that_grid_engine_does_not_confirm_is_undone() -> None:
    class Mumbling(GridEngineModel):
        def delete_host(self, host: str) -> tuple[int, str]:
            return 0, "something new"

    model = Mumbling()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4)
    assert (Administrator(model).remove("w1").removed, model.members, model.slots) == (False, ["w1"], {"w1": 4})


def test_a_host_that_is_gone_already_counts_as_removed() -> None:
    assert Administrator(GridEngineModel()).remove("w1").removed


def test_slots_left_by_a_host_that_is_gone_are_purged() -> None:
    model = GridEngineModel()
    model.slots = {"w1": 4, "w2": 8}
    Administrator(model).remove("w1")
    assert model.slots == {"w2": 8}


@pytest.mark.parametrize("step", range(1, 12))
def test_a_removal_killed_after_any_command_converges_when_called_again(step: int) -> None:
    model = enrolled(dies_after=step)
    with pytest.raises(Killed):
        Administrator(model).remove("w1")
    Administrator(model).remove("w1")
    assert (model.hosts, model.members, model.slots) == ({}, [], {})


@pytest.mark.parametrize("step", range(1, 12))
def test_a_busy_host_gets_its_membership_back_after_a_killed_removal(step: int) -> None:
    model = enrolled(busy={"w1"}, dies_after=step)
    with pytest.raises(Killed):
        Administrator(model).remove("w1", HAD)
    Administrator(model).remove("w1", HAD)
    assert (model.members, model.slots, model.disabled) == (["w1"], {"w1": 4}, {"w1"})


@pytest.mark.parametrize(
    "text",
    (
        "",
        "error: commlib error: got select error (Connection refused)",
        "denied: host is neither submit nor admin host",
    ),
)
def test_an_unreadable_list_of_hosts_does_not_count_a_host_as_removed(text: str) -> None:
    def unreachable(argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 1, b"", text.encode(), 0.0)

    with pytest.raises(GridEngineNotObservable):
        Administrator(unreachable).remove("w1")


@pytest.mark.parametrize("host", ("w1,w2", "w1\nslots 99", "w1]", "-de", "@allhosts", "", "w*"))
def test_a_host_name_with_special_characters_is_refused_before_any_command(host: str) -> None:
    model = GridEngineModel()
    with pytest.raises(UnusableName):
        Administrator(model).enrol(host, "main.q", "@allhosts", 4)
    assert model.calls == []


@pytest.mark.parametrize(
    "values", ({"h_vmem": "8G,slots=99"}, {"a b": "1"}, {"h_vmem": ""}, {"x": "1\nuser_lists NONE"})
)
def test_a_complex_value_with_special_characters_is_refused_before_any_command(values: dict[str, str]) -> None:
    model = GridEngineModel()
    with pytest.raises(UnusableName):
        Administrator(model).enrol("w1", "main.q", "@allhosts", 4, values)
    assert model.calls == []


def test_membership_is_read_from_concatenated_objects() -> None:
    queues = """qname                 main.q
hostlist              @allhosts
slots                 2,[w1=4], \\
                      [w2=8]

qname                 two.q
hostlist              w1 @other
slots                 1
"""
    groups = "group_name @allhosts\nhostlist w2 W1 \\\n         w3\ngroup_name @other\nhostlist NONE\n"
    assert memberships(["w1"], queues=queues, host_groups=groups) == {
        "w1": Membership(slots=(("main.q", "4"),), host_groups=("@allhosts",), queues=("two.q",))
    }
