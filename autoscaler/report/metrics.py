"""Every metric of `/metrics`: name, unit, labels and help, by Prometheus' conventions; and their text.

The values of each label are bounded: codes, phases, the settings' node arrays, types of existing machines. No label
names jobs, hosts or users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from autoscaler.plain_text import plain
from autoscaler.store.measures import Measures

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

PREFIX = "sge_autoscaler_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
WAITS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 43_200.0, 86_400.0)
COMING = (10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0, 1800.0)
WORK = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of buckets, in seconds."""


class MetricKind(StrEnum):
    """As Prometheus names them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `name` is without the prefix, and of a counter with `_total`."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _gauge(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, help_text, labels)


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, help_text, labels)


def _histogram(name: str, buckets: tuple[float, ...], help_text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, help_text, labels, buckets)


METRICS: tuple[Metric, ...] = (
    _gauge("last_pass_timestamp_seconds", "When the last whole pass observed, in Unix seconds."),
    _gauge("polling_delay_seconds", "Seconds between two passes if nothing happens."),
    _counter("passes_total", "Passes by how they ended; only a whole one observes and acts.", "result"),
    _gauge("failed_passes_in_a_row", "Passes since the last whole one that failed; 0: the last pass was whole."),
    _histogram(
        "pass_duration_seconds", WORK, "Duration of whole passes, from the first observation to the last action."
    ),
    _histogram(
        "pass_part_duration_seconds",
        WORK,
        "Duration of the parts of a whole pass: read (waiting for Grid Engine and provider), parse, decide, act.",
        "part",
    ),
    _histogram(
        "grid_engine_command_duration_seconds", WORK, "Duration of commands of Grid Engine, by program.", "command"
    ),
    _counter("grid_engine_command_failures_total", "Commands of Grid Engine that failed, by program.", "command"),
    _gauge("waiting_tasks", "Jobs and tasks that wait, by the code of their innermost cause.", "reason"),
    _gauge("counted_tasks", "Waiting jobs and tasks that count as demand."),
    _gauge("fitting_tasks", "Counted tasks that fit on what is there or coming."),
    _gauge("running_tasks", "Jobs and tasks that run, on any host."),
    _gauge("longest_wait_seconds", "Longest time for which a counted task that waits has been able to run."),
    _counter("started_tasks_total", "Jobs and tasks that were seen to have started."),
    _histogram("task_wait_seconds", WAITS, "Seconds from when a job or task could run to its start."),
    _gauge("slots", "Slots of the autoscaled queues."),
    _gauge("used_slots", "Slots of the autoscaled queues in use."),
    _gauge("workers", "Workers that exist or are ordered, by phase and instance type.", "phase", "instance_type"),
    _gauge("workers_with_condition", "Workers by the condition that outweighs their phase.", "condition"),
    _counter(
        "lost_workers_total",
        "Workers that were silent for too long, were fenced because their cloud took them, or ended unasked.",
    ),
    _gauge("persistent_hosts", "Execution hosts that are no workers."),
    _gauge("worker_cores", "vCPUs of all workers that exist."),
    _gauge("price_per_hour", "Price an hour of all workers of known price, in the currency of the price list."),
    _gauge("workers_of_unknown_price", "Workers whose price is not known; price_per_hour leaves them out."),
    _counter("price_total", "What workers of known price have cost, estimated from their price an hour."),
    _gauge("oldest_price_timestamp_seconds", "Date of the oldest price that is used, in Unix seconds."),
    _counter(
        "actions_total", "Actions of passes, by kind, reason code and how they ended.", "kind", "reason", "result"
    ),
    _counter(
        "ordered_workers_total", "Workers that were ordered, by the first instance type of each order.", "instance_type"
    ),
    _counter("launch_failures_total", "Launches that a provider refused and machines that never joined.", "kind"),
    _histogram("worker_boot_seconds", COMING, "Seconds from a worker's creation until its machine is up."),
    _histogram("worker_join_seconds", COMING, "Seconds from when a worker's machine is up until jobs may start on it."),
    _counter("provider_calls_total", "Calls to the provider's cloud, repeated ones included.", "provider"),
    _counter("provider_throttled_calls_total", "Calls that the cloud answered with: too many calls.", "provider"),
    _counter(
        "provider_call_wait_seconds_total",
        "Seconds that calls to the provider's cloud waited for their turn.",
        "provider",
    ),
    _gauge("provider_calls_available", "Calls to the provider's cloud that could start at once.", "provider"),
    _gauge("provider_calls_waiting", "Calls to the provider's cloud that wait for their turn.", "provider"),
    _gauge("notifications_waiting", "Notifications of operators that have not been sent to all services yet."),
    _gauge("notification_failures_in_a_row", "Attempts to send notifications that failed since the last success."),
    _counter("dropped_notifications_total", "Notifications that were given up."),
    _gauge("offers_in_backoff", "Instance types and places that are left alone because launches failed there."),
    _gauge("launches_allowed", "1: launches are allowed; 0: a person paused or stops, or the circuit breaker is open."),
    _gauge("paused", "1: a person has paused it."),
    _gauge("circuit_breaker_open", "1: too much happened in too short a time; nothing is launched or removed."),
    _gauge(
        "node_array_stopped", "1: this node array launches nothing until a person corrects it.", "node_array", "cause"
    ),
)
BY_NAME = {metric.name: metric for metric in METRICS}


def exposition(measures: Measures) -> bytes:
    """Prometheus' text format. Imports prometheus_client, which is not needed before the first scrape."""
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(measures))
    return generate_latest(registry)


class _Collected:
    """A collector of these measures."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for metric in METRICS:
            name = PREFIX + metric.name
            if metric.kind is MetricKind.HISTOGRAM:
                histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
                for labels, seen in sorted(self._measures.histograms.get(metric.name, {}).items()):
                    histogram.add_metric(_shown(labels), seen.cumulative(metric.buckets), seen.total)
                yield histogram
                continue
            of_kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
            family = of_kind(name, metric.help, labels=metric.labels)
            for labels, value in sorted(self._measures.values.get(metric.name, {}).items()):
                family.add_metric(_shown(labels), value)
            yield family


def _shown(labels: Iterable[str]) -> list[str]:
    """The values of labels, with control characters escaped: a cloud may name its types as it likes."""
    return list(map(plain, labels))
