"""Turn validated settings into the policy that decisions rest on. No value is invented here."""

from __future__ import annotations

import shlex

from autoscaler.core.cost.spending import Budget, Whose
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.policy import Limits, NodeArrayPolicy, QueuePolicy
from autoscaler.settings.process_settings import Process, budget_of
from autoscaler.settings.queue_settings import QueueSettings


def array_name(suffix: str) -> str:
    """The default node array of the queue with this suffix; the first is `execute`. Workers carry it: never rename."""
    return f"execute_{suffix}" if suffix else "execute"


def budgets(process: Process) -> tuple[Budget, ...]:
    """That of the cell first."""
    cell = () if process.budget is None else (Budget(Whose.CELL, "", process.budget),)
    return (*cell, *map(budget_of, process.budgets))


def queue_policy(queue: QueueSettings, suffix: str) -> QueuePolicy:
    return QueuePolicy(
        name=queue.queue,
        node_array=array_name(suffix),
        scale_up_timeout=queue.scale_up_timeout,
        scale_down_timeout=queue.scale_down_timeout,
        default=queue.default,
        static=queue.static,
    )


def node_array_policy(queue: QueueSettings, suffix: str, process: Process, currency: str = "USD") -> NodeArrayPolicy:
    return NodeArrayPolicy(
        name=array_name(suffix),
        queue=queue.queue,
        host_group=queue.host_group,
        instance_type=queue.instance_type or "",
        hybrid=queue.hybrid,
        family=queue.hybrid_family,
        max_cores_per_worker=queue.hybrid_max_cores or None,
        descending=queue.descending,
        strategy=queue.strategy.value,
        price_types=tuple(PriceType(kind) for kind in queue.price_types),
        price_type_deadline=queue.price_type_deadline,
        price_type_premium=queue.price_type_premium,
        limits=Limits(
            max_workers=queue.workers,
            min_workers=queue.min_workers,
            max_cores=queue.max_cores,
            max_price_per_hour=queue.max_price_per_hour,
            max_launches_per_hour=queue.max_launches_per_hour,
            total_workers=process.total_workers,
            total_cores=process.total_cores,
            total_price_per_hour=process.total_price_per_hour,
            currency=currency,
        ),
        scale_up_batch=queue.scale_up_batch,
        scale_down_batch=queue.scale_down_batch,
        free_cores=queue.free_cores,
        memory_complex=queue.memory_complex,
        gpu_complex=queue.gpu_complex,
        cpu_complex=queue.cpu_complex,
        exclusive_complex=queue.exclusive_complex,
        idle_timeout=queue.idle_timeout,
        boot_timeout=queue.boot_timeout,
        health_check=tuple(shlex.split(queue.health_check or "")),
        health_checks=str(queue.health_checks),
        health_interval=queue.health_interval,
        unavailability_delay=queue.unavailability_delay,
        unavailability_count_capacity=queue.unavailability_count_capacity,
        unavailability_count_failure=queue.unavailability_count_failure,
    )
