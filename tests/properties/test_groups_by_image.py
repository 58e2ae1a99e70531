"""The same histories of groups where workers enrol themselves: none is enabled before it is complete, and requested
groups become complete all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from autoscaler.core.actions import Action, Enable, Enrol, Remove
from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.snapshot import Snapshot
from tests.properties.test_groups import Groups, GroupWorld
from tests.properties.world import Host
from tests.samples import examples


@dataclass
class ImageWorld(GroupWorld):
    """A cell in which machines enrol themselves, disabled, and know neither values nor groups."""

    given: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Host → the values that it was given since."""

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        return replace(seen, fleet=replace(seen.fleet, enrols_itself=True))

    def _shown(self, name: str, host: Host) -> ExecutionHost:
        group = {"group_id": self.groups[name]} if self.groups.get(name) else {}
        return replace(super()._shown(name, host), consumables=dict(self.given.get(name, ())), fixed=group)

    def boot(self, worker_id: str) -> None:
        super().boot(worker_id)
        worker = self.machines[worker_id]
        self.hosts[worker.name or ""] = Host(worker.type.vcpus, disabled=True, heard=False)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Enrol():
                assert action.joined, "its image makes it a host"
                if action.host not in self.hosts:
                    return  # Grid Engine refuses
                assert not self.hosts[action.host].jobs
                self.given[action.host] = (*self.given.get(action.host, ()), *action.complex_values)
            case Enable():
                worker = self.worker_of(action.host)
                assert worker is not None
                assert self.given.get(action.host), "it is enabled without the values of its type"
                assert self.groups.get(action.host) == worker.group_id
            case Remove() if action.host in self.hosts and not self.hosts[action.host].jobs:
                self.given.pop(action.host, None)
                self.groups.pop(action.host, None)
            case _:
                pass
        super()._carry_out(action)


class GroupsByImage(Groups):
    """Drives an ImageWorld."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ImageWorld()

    @precondition(lambda self: self.world.hosts)
    @rule(data=st.data())
    def a_person_enables_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.hosts)))
        self.world.hosts[name].disabled = False
        self.world.took_jobs.add(self.world.groups.get(name, ""))

    def teardown(self) -> None:
        self.world.list_all()
        self.decide()  # what a lost store left disabled is known as ours again
        super().teardown()


TestGroupsByImage = GroupsByImage.TestCase
TestGroupsByImage.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)
