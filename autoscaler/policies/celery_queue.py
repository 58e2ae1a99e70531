"""Workers for the tasks of Celery: as many vCPUs as tasks wait in its queues, are fetched, or run.

Grid Engine does not know which host works on a task, so nothing is let go while any task is with a Celery worker, or
may be: a target falls only when Celery has said for a while that none is.
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
from providers.settings import ExtensionSettings, Names, Secret

SETTLED = 30.0
"""For so many seconds no Celery worker may have had a task before anything is let go."""
SILENT_FOR = 120.0
"""Who answered once, or took the last tasks, is taken to be at work for so many seconds of silence."""


def _from_json(value: object) -> object:
    return from_json(value) if isinstance(value, str) else value


class CeleryQueueSettings(ExtensionSettings):
    """Which queues, and what a task takes."""

    env_prefix = "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_"

    broker: Secret = Field(description="The broker's URL, or `env:NAME` or `file:PATH` where it holds a password.")
    transport_options: Annotated[dict[str, Any], BeforeValidator(_from_json)] = Field(
        {}, description="Celery's `broker_transport_options`, as JSON, where the broker needs any."
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
    """What Celery has to do."""

    waiting: int
    """Messages in the queues."""
    taken: Mapping[str, int]
    """By Celery worker that answered: tasks that it runs or has fetched."""


def read_tasks(settings: CeleryQueueSettings) -> Callable[[], Tasks]:
    """Asks the broker and the Celery workers behind it. Raises SettingsError where Celery is not installed."""
    try:
        from celery import Celery  # type: ignore[import-untyped]
    except ImportError as error:
        raise SettingsError("the autoscale policy celery_queue needs Celery: install sge-autoscaler[celery]") from error
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
    """Messages that wait; a queue that nobody has made yet is empty."""
    try:
        with connection.channel() as channel:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
    except connection.channel_errors:
        return 0


@dataclass(slots=True)
class Work:
    """Whether tasks are at work somewhere, though a Celery worker may be new, or too busy to answer."""

    began: float
    _heard: dict[str, float] = field(default_factory=dict)
    """By Celery worker: when it last answered."""
    _busy_at: float | None = None

    def over(self, tasks: Tasks, now: float) -> bool:
        """Whether it is sure that no task is with any Celery worker, and has been for a while. `now` only grows."""
        self._heard.update(dict.fromkeys(tasks.taken, now))
        self._heard = {name: at for name, at in self._heard.items() if now - at < SILENT_FOR}
        silent = self._heard.keys() - tasks.taken.keys()
        unheard = tasks.waiting and not tasks.taken
        if silent or unheard or any(tasks.taken.values()):
            self._busy_at = now
        quiet = now - (self.began if self._busy_at is None else self._busy_at)
        return quiet >= (SETTLED if tasks.taken else SILENT_FOR)


class CeleryQueue:
    """Wants vCPUs of one node array for what is in Celery's queues and with its workers."""

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
        """What it wants as of this observation: survives a restart, and ends where nobody heard of it for minutes."""
        held = set_before(self.name, snapshot)
        return sum(target.cores or 0 for target in held.targets) if held is not None else 0

    def _array(self, cores: int) -> dict[str, Any]:
        array: dict[str, Any] = {"Name": self.settings.node_array, "TargetCoreCount": cores}
        if self.settings.extends is not None:
            array |= {"Dynamic": True, "Extends": self.settings.extends}
        return array
