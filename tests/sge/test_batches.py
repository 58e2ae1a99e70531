"""Several hosts at once: few edits, and at every moment as safe as one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import AT_ONCE, Batches, NewHost
from autoscaler.sge.membership import Membership
from autoscaler.sge.removal import RemovalOutcome
from tests.sge.grid_engine_model import GridEngineModel, Killed

VALUES = (("h_vmem", "8G"),)
NAMES = tuple(f"w{number}" for number in range(1, 9))


def new(names: Sequence[str] = NAMES, slots: int = 4) -> list[NewHost]:
    return [NewHost(name, slots, VALUES) for name in names]


def enrol(model: GridEngineModel, hosts: Sequence[NewHost]) -> dict[str, bool]:
    return dict(Batches(Administrator(model)).enrol(hosts, "main.q", "@allhosts"))


def edits(model: GridEngineModel, *words: str) -> int:
    """How many commands begin with these."""
    return sum(call[: len(words)] == words for call in model.calls)


def state(model: GridEngineModel) -> tuple[object, ...]:
    return model.hosts, sorted(model.members), model.slots, model.disabled


def test_workers_enrolled_together_are_as_if_enrolled_one_after_the_other() -> None:
    together, single = GridEngineModel(), GridEngineModel()
    outcomes = enrol(together, new())
    for host in new():
        Administrator(single).enrol(host.name, "main.q", "@allhosts", host.slots, host.values)
    assert (state(together), outcomes) == (state(single), dict.fromkeys(NAMES, True))


def test_host_group_and_queue_are_edited_once_for_workers_enrolled_together() -> None:
    model = GridEngineModel()
    enrol(model, new([f"w{number}" for number in range(AT_ONCE)]))
    assert (
        len(model.calls),
        edits(model, "qconf", "-aattr", "hostgroup"),
        edits(model, "qconf", "-rattr", "queue"),
    ) == (
        5,
        1,
        1,
    )


def test_no_job_can_start_on_workers_enrolled_together_at_any_moment() -> None:
    model = GridEngineModel()
    model.slots = {"w1": 8}  # a stale entry of an earlier worker of that name
    outcomes = enrol(model, new())
    assert (model.startable, outcomes) == ([], dict.fromkeys(NAMES, True))


def test_hosts_of_different_sizes_get_their_own_slots_and_values() -> None:
    model = GridEngineModel()
    enrol(model, [*new(NAMES[:4], 2), *new(NAMES[4:], 16)])
    assert (model.slots["w1"], model.slots["w8"], model.hosts["w8"]) == (2, 16, "slots=16,h_vmem=8G")


@pytest.mark.parametrize("after", range(1, 6))
def test_an_enrolment_of_several_killed_after_any_command_is_completed_by_the_next(after: int) -> None:
    whole = GridEngineModel()
    enrol(whole, new())
    model = GridEngineModel(dies_after=after)
    with pytest.raises(Killed):
        enrol(model, new())
    model.dies_after = None
    outcomes = enrol(model, new())
    assert (state(model), set(outcomes), model.startable) == (state(whole), set(NAMES), [])


def test_a_host_that_does_not_resolve_does_not_stop_the_enrolment_of_the_others() -> None:
    class Unresolved(GridEngineModel):
        def add_host(self, text: str) -> tuple[int, str]:
            named = text.split()[1]
            return (1, 'can\'t resolve hostname "w3"') if named == "w3" else super().add_host(text)

    model = Unresolved()
    outcomes = enrol(model, new())
    assert (set(outcomes), "w3" in model.members, "w3" in model.slots) == (set(NAMES) - {"w3"}, False, False)


def test_a_host_missing_from_the_host_group_gets_no_slots_and_does_not_count_as_enrolled() -> None:
    class Forgetful(GridEngineModel):
        def join(self, host: str) -> tuple[int, str]:
            answer = super().join(host)
            self.members = [name for name in self.members if name != "w3"]
            return answer

    model = Forgetful()
    outcomes = enrol(model, new())
    assert (set(outcomes), "w3" in model.slots, model.hosts["w3"]) == (set(NAMES) - {"w3"}, False, "slots=0,h_vmem=8G")


def test_no_host_counts_as_enrolled_if_the_queue_does_not_include_the_host_group() -> None:
    class Closed(GridEngineModel):
        def instances(self) -> set[str]:
            return set()

    assert enrol(Closed(), new()) == {}


def test_several_hosts_are_enabled_by_one_command_and_disabled_by_one() -> None:
    model = GridEngineModel()
    enrol(model, new())
    model.calls.clear()
    batches = Batches(Administrator(model))
    enabled = batches.enable([*NAMES, "nowhere"])
    enabled_hosts = {name for name in NAMES if model.can_start_jobs(name)}
    disabled = batches.disable(NAMES)
    assert ({enabled, frozenset(enabled_hosts), disabled}, len(model.calls)) == ({frozenset(NAMES)}, 2)


class Gone(GridEngineModel):
    """Its qmaster answers only so many more commands."""

    left = 0

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        if self.left <= 0:
            return 1, "error: commlib error: got select error (Connection refused)"
        self.left -= 1
        return super().answer(argv)


@pytest.mark.parametrize("answered", range(5))
def test_a_qmaster_that_becomes_unreachable_fails_an_enrolment_of_several_without_an_enabled_host(
    answered: int,
) -> None:
    model = Gone()
    model.left = answered
    with pytest.raises(GridEngineNotObservable):
        enrol(model, new())
    assert model.startable == []


def joined(model: GridEngineModel, names: Sequence[str] = NAMES) -> GridEngineModel:
    """With these hosts enrolled, and no command recorded yet."""
    enrol(model, new(names))
    model.calls.clear()
    model.startable.clear()
    return model


def had(name: str) -> Membership:
    return Membership(slots=(("main.q", "4"),), host_groups=("@allhosts",))


def remove(model: GridEngineModel, names: Sequence[str] = NAMES) -> dict[str, RemovalOutcome]:
    return dict(Batches(Administrator(model)).remove({name: had(name) for name in names}))


def test_workers_removed_together_leave_no_trace() -> None:
    model = joined(GridEngineModel())
    model.submit_hosts = ["w2", "w3"]
    outcomes = remove(model)
    assert (state(model), model.submit_hosts) == (({}, [], {}, set()), [])
    assert {name for name, outcome in outcomes.items() if outcome.removed} == set(NAMES)


def test_workers_removed_together_take_one_host_group_edit_and_one_qconf_de() -> None:
    model = joined(GridEngineModel(), [f"w{number}" for number in range(AT_ONCE)])
    remove(model, list(model.hosts))
    purges = edits(model, "qconf", "-purge")
    assert (model.hosts, edits(model, "qconf", "-dattr", "hostgroup"), edits(model, "qconf", "-de")) == ({}, 1, 1)
    assert (purges, len(model.calls) - purges) == (AT_ONCE, 10)


@pytest.mark.parametrize("occupied", ("busy", "reserved"))
def test_an_occupied_host_keeps_its_membership_while_the_others_are_removed(occupied: str) -> None:
    model = joined(GridEngineModel())
    getattr(model, occupied).add("w3")
    outcomes = remove(model)
    assert (model.hosts, model.members, model.slots, model.disabled, model.startable) == (
        {"w3": "slots=4,h_vmem=8G"},
        ["w3"],
        {"w3": 4},
        {"w3"},
        [],
    )
    assert [name for name, outcome in outcomes.items() if not outcome.removed] == ["w3"]
    assert (outcomes["w3"].restored, len(outcomes["w3"].output)) == (had("w3"), 1)


def test_a_change_refused_for_several_hosts_is_repeated_for_each_alone() -> None:
    class Particular(GridEngineModel):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            if argv[1] == "-dattr" and "w3" in argv[4].split():
                return 1, 'denied: "w3" may not leave'
            return super().answer(argv)

    model = joined(Particular())
    outcomes = remove(model)
    assert (list(model.hosts), model.members, model.slots) == (["w3"], ["w3"], {"w3": 4})
    assert (outcomes["w3"].output, outcomes["w4"].removed) == (('denied: "w3" may not leave',), True)


def test_a_host_without_an_answer_in_a_batch_is_removed_alone() -> None:
    class Silent(GridEngineModel):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            code, output = super().answer(argv)
            lines = [
                line for line in output.splitlines() if argv[1] != "-de" or "," not in argv[2] or '"w3"' not in line
            ]
            return code, "\n".join(lines)

    model = joined(Silent())
    model.busy.add("w3")
    outcomes = remove(model)
    assert (list(model.hosts), outcomes["w3"].removed, outcomes["w3"].restored) == (["w3"], False, had("w3"))


@pytest.mark.parametrize("after", range(1, 19))
@pytest.mark.parametrize("busy", ((), ("w3",)))
def test_a_removal_of_several_killed_after_any_command_converges_when_called_again(
    after: int, busy: tuple[str, ...]
) -> None:
    model = joined(GridEngineModel())
    model.busy, model.dies_after = set(busy), after
    with pytest.raises(Killed):
        remove(model)
    model.dies_after = None
    outcomes = remove(model)
    assert (list(model.hosts), model.members, model.slots) == (list(busy), list(busy), dict.fromkeys(busy, 4))
    assert (model.disabled, model.startable) == (set(busy), [])
    assert {name for name, outcome in outcomes.items() if outcome.removed} == set(NAMES) - set(busy)


@pytest.mark.parametrize("answered", range(18))
def test_a_removal_of_several_fails_while_qmaster_is_unreachable_and_is_completed_later(answered: int) -> None:
    model = Gone()
    model.left = 100
    joined(model)
    model.left = answered
    with pytest.raises(GridEngineNotObservable):
        remove(model)
    assert model.startable == []
    model.left = 100
    remove(model)
    assert state(model) == ({}, [], {}, set())
