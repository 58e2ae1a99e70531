"""Workers for the tasks of Celery: vCPUs for all tasks that wait in its queues, are fetched, or run.

Grid Engine does not know which host runs a task. So no worker is released while a Celery worker has, or may have, a
task: a target is lowered only after Celery has reported for a while that none has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_core import from_json

from autoscaler.core.snapshot import Snapshot
from autoscaler.errors import SettingsError
from autoscaler.policies.interface import Arrays, Past, set_before
from autoscaler.providers.settings import ExtensionSettings, Names, Secret

SETTLED = 30.0
"""Seconds without a task at any Celery worker before a target is lowered."""
SILENT_FOR = 120.0
"""Seconds for which a silent Celery worker counts as busy after its last answer, or after the last tasks were taken."""


def _from_json(value: object) -> object:
    return from_json(value) if isinstance(value, str) else value


class CeleryQueueSettings(ExtensionSettings):
    """The queues, and the vCPUs of a task."""

    env_prefix = "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_"

    broker: Secret = Field(description="The broker's URL, or `env:NAME` or `file:PATH` if it contains a password.")
    transport_options: Annotated[dict[str, Any], BeforeValidator(_from_json)] = Field(
        {}, description="Celery's `broker_transport_options`, as JSON, if the broker needs any."
    )
    queues: Names = Field(("celery",), description="Names of the Celery queues.")
    node_array: str = Field("execute", description="Node array whose workers serve them.")
    extends: str | None = Field(
        None, description="If set, the autoscaler creates the node array as a copy of this one."
    )
    cores_per_task: float = Field(1.0, gt=0, description="vCPUs of one task.")
    most_cores: int | None = Field(None, ge=1, description="Most vCPUs that the policy requests.")
    reply_timeout: float = Field(1.0, gt=0, description="Time limit of a Celery worker's answer, in seconds.")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of Celery."""

    waiting: int
    """Messages in the queues."""
    taken: Mapping[str, int]
    """By Celery worker that answered: tasks that it runs or has fetched."""


def read_tasks(settings: CeleryQueueSettings) -> Callable[[], Tasks]:
    """Asks the broker and the Celery workers behind it. Raises SettingsError where Celery is not installed."""
    try:
        from celery import Celery  # type: ignore[import-untyped]
    except ImportError as error:
        raise SettingsError(
            "the autoscale policy celery_queue needs Celery: install the package sge-autoscaler-celery, or the wheel's "
            "file with [celery]"
        ) from error
    app = Celery("sge-autoscaler", broker=settings.broker.get_secret_value(), set_as_current=False)
    app.conf.broker_transport_options = settings.transport_options
    app.conf.broker_connection_retry = False

    def read() -> Tasks:
        with app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1)
            waiting = sum(_length(connection, queue) for queue in settings.queues)
        inspect = app.control.inspect(timeout=settings.reply_timeout)
        taken: dict[str, int] = {}
        for answers in (inspect.reserved(), inspect.active()):
            for worker, tasks in (answers or {}).items():
                taken[worker] = taken.get(worker, 0) + len(tasks)
        return Tasks(waiting, taken)

    return read


def _length(connection: Any, queue: str) -> int:
    """Messages that wait; a queue that does not exist yet is empty."""
    try:
        with connection.channel() as channel:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
    except connection.channel_errors:
        return 0


@dataclass(slots=True)
class Work:
    """Whether tasks may be running: a Celery worker may be new, or too busy to answer."""

    began: float
    _answered_at: dict[str, float] = field(default_factory=dict)
    """By Celery worker: the time of its last answer."""
    _busy_at: float | None = None

    def over(self, tasks: Tasks, now: float) -> bool:
        """Whether certainly no Celery worker has had a task for a while. `now` is monotonic."""
        self._answered_at.update(dict.fromkeys(tasks.taken, now))
        self._answered_at = {name: at for name, at in self._answered_at.items() if now - at < SILENT_FOR}
        silent = self._answered_at.keys() - tasks.taken.keys()
        unanswered = tasks.waiting and not tasks.taken
        if silent or unanswered or any(tasks.taken.values()):
            self._busy_at = now
        idle_for = now - (self.began if self._busy_at is None else self._busy_at)
        return idle_for >= (SETTLED if tasks.taken else SILENT_FOR)


class CeleryQueue:
    """Requests vCPUs of one node array for the tasks in Celery's queues and with its workers."""

    name: ClassVar[str] = "celery_queue"
    Settings: ClassVar[type[ExtensionSettings]] = CeleryQueueSettings

    def __init__(
        self,
        settings: CeleryQueueSettings,
        read: Callable[[], Tasks] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._read = read or read_tasks(settings)
        self._clock = clock
        self._work = Work(clock())

    def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
        tasks = self._read()
        cores = math.ceil((tasks.waiting + sum(tasks.taken.values())) * self.settings.cores_per_task)
        if not self._work.over(tasks, self._clock()):
            cores = max(cores, self._before(snapshot))
        cores = min(cores, self.settings.most_cores or cores)
        return [self._array(cores)] if cores else []

    def _before(self, snapshot: Snapshot) -> int:
        """Its target in this observation. It survives a restart, and lapses if no answer comes for minutes."""
        held = set_before(self.name, snapshot)
        return sum(target.cores or 0 for target in held.targets) if held is not None else 0

    def _array(self, cores: int) -> dict[str, Any]:
        array: dict[str, Any] = {"Name": self.settings.node_array, "TargetCoreCount": cores}
        if self.settings.extends is not None:
            array |= {"Dynamic": True, "Extends": self.settings.extends}
        return array
