"""Requests of callers: a worker that serves a created node stays, and after the calm exactly the workers exist
that request sets and nodes need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from autoscaler.core.model.request_sets import Target
from autoscaler.providers.fake import Machine
from tests.soak.group_rules import group_of, of_workers, want

if TYPE_CHECKING:
    from tests.soak.world import World

RULE = 12


def check_created_nodes(world: World, machine: Machine, breaks: Callable[[int, str], None]) -> None:
    """Before a machine is terminated: not one that served a created node, unless it is lost, or a person drains it."""
    node = next((node for node in world.people.nodes.live() if node.worker_id == machine.id), None)
    served = world.served - world.disturbed - world.silent  # a person may enable one whose execd never starts
    if node is not None and machine.id in served and world.stopping is None:
        breaks(RULE, f"ends one that serves a created node: {machine.id} of {node.name}")


def has_requests(world: World) -> bool:
    """Whether callers request anything."""
    return bool(world.targets or world.people.nodes.live())


def differences(world: World) -> list[str]:
    """What is there of each node array, if it is not what callers request; [] if all is as requested. To be called
    when no job is left. A node whose worker ended without our doing gets no other.
    """
    nodes = world.people.nodes.live()
    served = {node.worker_id for node in nodes}
    found = [f"{node.name} is served by none" for node in nodes if node.worker_id is None]
    there: dict[str, list[Machine]] = {}
    for machine in world.living:
        if machine.id not in served:
            there.setdefault(machine.order.node_array, []).append(machine)
    by_array: dict[str, list[Target]] = {}
    for target in world.targets:
        by_array.setdefault(target.node_array, []).append(target)
    for name in sorted({*there, *by_array}):
        machines, targets = there.get(name, []), by_array.get(name, [])
        if ":" in name:
            found += _group_differences(name, machines, targets)
        elif not _meets(sorted(machine.bucket.type.vcpus for machine in machines), targets):
            found.append(f"{name}: {[machine.bucket.type.name for machine in machines]} for {targets}")
    return found


def _group_differences(name: str, machines: list[Machine], targets: list[Target]) -> list[str]:
    sizes = Counter(map(group_of, machines))
    whole = [group for group, size in sizes.items() if size == want(_any(machines, group))]
    found = [f"{name}: {dict(sizes)}, not all of them whole"] if len(whole) != len(sizes) else []
    for kind in (False, True):
        asked = sum(target.groups or 0 for target in targets if (target.group_count is not None) is kind)
        if asked != sum(of_workers(group) is kind for group in whole):
            found.append(f"{name}: {dict(sizes)}, where {asked} are requested of {'workers' if kind else 'vCPUs'}")
    return found


def within_limits(world: World) -> bool:
    """Whether all that callers request has room within the limits, whichever of its types it is made of, and may be
    launched within one hour: for what takes several the calm is too short.
    """
    limits, types = world.policy.node_arrays[0].limits, (2, 4, 8)
    workers = cores = 0
    for target in world.targets:
        size = target.group_count or -(-(target.group_cores or 0) // types[0])
        count = (target.count or 0) + -(-(target.cores or 0) // types[0]) + (target.groups or 0) * size
        workers, cores = workers + count, cores + count * types[-1]
    alone = sum(node.worker_id is None or world.lives(node.worker_id) for node in world.people.nodes.live())
    workers, cores = workers + alone, cores + alone * types[-1]
    return (
        workers <= limits.max_workers
        and (limits.max_launches_per_hour is None or workers <= limits.max_launches_per_hour)
        and (limits.max_cores is None or cores <= limits.max_cores)
        and (limits.max_price_per_hour is None or cores * 0.048 <= limits.max_price_per_hour)
    )


def _meets(ascending: list[int], targets: list[Target]) -> bool:
    """The smallest workers stand for counts and the others for cores; and none of them is too many."""
    count, cores = sum(target.count or 0 for target in targets), sum(target.cores or 0 for target in targets)

    def enough(sizes: list[int]) -> bool:
        return len(sizes) >= count and sum(sizes[count:]) >= cores

    return enough(ascending) and not any(
        enough(ascending[:place] + ascending[place + 1 :]) for place in range(len(ascending))
    )


def _any(machines: list[Machine], group: str) -> Machine:
    return next(machine for machine in machines if group_of(machine) == group)
