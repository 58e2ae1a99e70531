"""Consumables that jobs may request and workers are not given: reported by `doctor`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from autoscaler.core.capacity.max_capacity import naming_setting
from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.complexes import by_any_name
from autoscaler.core.placement.hosts import MEMORY_NAMES, exclusive_of
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.sge.checks import Finding, Level

WHAT = "consumables"


def consumable_finding(
    complexes: Mapping[str, Complex],
    arrays: Sequence[NodeArrayPolicy],
    elsewhere: Iterable[str],
    by_rules: Collection[str] = (),
) -> Finding:
    """The finding. `elsewhere`: complexes that the global host or queues have; `by_rules`: those that rules give."""
    known = by_any_name(complexes)
    others = {known[name].name for name in (*elsewhere, *by_rules) if name in known}
    missing = [
        entry
        for entry in complexes.values()
        if entry.consumable is not Consumable.NO
        and entry.requestable.upper() != "NO"
        and entry.name not in {SLOTS, *others}
        and not all(_is_given(entry, array, complexes) for array in arrays)
    ]
    if not missing:
        return Finding(WHAT, Level.OK, "workers are given every consumable that jobs may request")
    settings = dict.fromkeys(setting for entry in missing if (setting := naming_setting(entry)) is not None)
    return Finding(
        WHAT,
        Level.WARN,
        f"workers are not given {', '.join(entry.name for entry in missing)}: none comes for jobs that request it",
        f"{', '.join((*settings, 'rules (docs/rules.md)'))} give it to workers, where they have it",
    )


def _is_given(entry: Complex, array: NodeArrayPolicy, complexes: Mapping[str, Complex]) -> bool:
    named = (array.gpu_complex, array.cpu_complex, exclusive_of(array, complexes))
    of_memory = entry.type == "MEMORY" and entry.name in {*MEMORY_NAMES, array.memory_complex}
    return of_memory or entry.name in named
