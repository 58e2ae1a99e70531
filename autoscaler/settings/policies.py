"""Turn validated settings into the policy of the core. It adds no values of its own."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.policy import Limits, NodeArrayPolicy, QueuePolicy, SwitchedOff
from autoscaler.settings.process_settings import Process, budget_of
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.settings.strategies import of_others

_BY_ADDRESS = ("ip-10-0-0-7", "ip-10-1-0-2", "ip-172-16-4-21", "ip-172-31-5-9", "ip-192-168-1-30")
HOST_NAMES = {
    "local": _BY_ADDRESS,
    "aws": (*_BY_ADDRESS, *(f"{name}.ec2.internal" for name in _BY_ADDRESS)),
    "cyclecloud": ("ip-0a000007", "ip-ac1f0509"),
    "cloud_pipeline": ("pipeline-48211", "pipeline-1203377"),
}
"""By provider, names such as its machines have: jobs may request hosts by pattern (`-l h=!ip-*`). Not of Azure, where
names begin as the operator says.
"""


def array_name(suffix: str) -> str:
    """The default node array of the queue with this suffix; the first is `execute`. Workers are tagged with it: never
    rename.
    """
    return f"execute_{suffix}" if suffix else "execute"


def budgets(process: Process) -> tuple[Budget, ...]:
    """All budgets, the cell's first."""
    cell = () if process.budget is None else (Budget(Whose.CELL, "", process.budget),)
    return (*cell, *map(budget_of, process.budgets))


def of_one_name(settings: BaseModel, kind: type[Any]) -> dict[str, Any]:
    """The settings that a policy of this kind has under the same names."""
    return {
        each.name: getattr(settings, each.name) for each in fields(kind) if each.name in type(settings).model_fields
    }


def queue_policy(queue: QueueSettings, suffix: str) -> QueuePolicy:
    own = {"name": queue.queue, "node_array": array_name(suffix)}
    return QueuePolicy(**(of_one_name(queue, QueuePolicy) | own))


def node_array_policy(
    queue: QueueSettings,
    suffix: str,
    process: Process,
    currency: str = "USD",
    *,
    several: bool = False,
    of_profiles: bool = False,
) -> NodeArrayPolicy:
    """`several`: whether other queues have node arrays, too; `of_profiles`: whether each queue has a profile of Cloud
    Pipeline's launcher, in which `CP_CAP_AUTOSCALE` switches it.
    """
    of_all = {"max_workers": queue.workers, "currency": currency, "of": array_name(suffix) if several else None}
    if queue.watch_only:
        of_profile = ("autoscale", "CP_CAP_AUTOSCALE=false", "true")
        by = of_profile if of_profiles else ("watch_only", "CP_CAP_AUTOSCALE_WATCH_ONLY=true", "false")
        off = SwitchedOff(queue.queue, *by, queue.workers)
        of_all |= {"max_workers": 0, "min_workers": 0, "switched_off": off}
    own = {
        "name": array_name(suffix),
        "instance_type": queue.instance_type or "",
        "family": queue.hybrid_family,
        "max_cores_per_worker": queue.hybrid_max_cores or None,
        "strategy": queue.strategy,
        "proposes": of_others(queue.strategy),
        "price_types": tuple(PriceType(kind) for kind in queue.price_types),
        "limits": Limits(**(of_one_name(queue, Limits) | of_one_name(process, Limits) | of_all)),
        "health_check": tuple(shlex.split(queue.health_check or "")),
        "health_checks": str(queue.health_checks),
        "of_profile": of_profiles,
    }
    return NodeArrayPolicy(**(of_one_name(queue, NodeArrayPolicy) | own))
