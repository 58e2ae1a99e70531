"""Answers workers that ask whether they may stop: `GET /autostop/<order>/<token>?instance=<id>`.

It decides nothing and calls no provider: it stores the question, the loop's next pass answers it from demand, and the
caller waits for that answer. A caller needs the token of that machine and, if its address is known, must call from it.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from autoscaler.core.model.cluster import short_name
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.report.wording import text
from autoscaler.store.auto_stops import Answered, AutoStopTable
from autoscaler.worker_configuration import order_key, stop_token

PATIENCE = 20.0
"""Seconds that a caller waits for a pass to answer; then it gets 503."""
BURST, A_SECOND = 60, 5.0
"""Questions that one worker may ask at once, and further ones a second: each costs an observation of the cluster."""
PATH = re.compile(r"/autostop/([0-9A-Za-z-]{1,64})/([0-9a-f]{64})")
_WILDCARDS = ("", "0.0.0.0", "::")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and port to listen at."""

    address: str
    port: int

    @classmethod
    def parse(cls, written: str) -> Endpoint:
        """`10.0.0.1:8650`, `[fd00::1]:8650`. Raises SettingsError."""
        address, _, port = written.rpartition(":")
        address = address.removeprefix("[").removesuffix("]")
        try:
            ipaddress.ip_address(address)
            if not 0 < int(port) < 65536:
                raise ValueError(port)
        except ValueError:
            raise SettingsError(
                f"CP_CAP_AUTOSCALE_AUTOSTOP cannot be {written!r}: write the address of the interface that workers "
                "reach, and a port: 10.0.0.1:8650"
            ) from None
        return cls(address, int(port))

    def url(self, master: str) -> str:
        """The URL for workers, without order and token. `master`: their name for this host."""
        host = master if self.address in _WILDCARDS else f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/autostop"


@dataclass(frozen=True, slots=True)
class AutoStopReply:
    """The answer to a call."""

    status: HTTPStatus
    says: dict[str, Any]
    retry_after: int | None = None


def refusal(status: HTTPStatus, why: str, retry_after: int | None = None) -> AutoStopReply:
    """A refusal with its cause."""
    return AutoStopReply(status, {"error": why}, retry_after)


@dataclass(slots=True)
class AutoStops:
    """Checks the caller, stores the question, waits for the answer. Shared by the threads of callers and the loop."""

    table: AutoStopTable
    secret: bytes
    ring: Callable[[], None]
    """Wakes the loop."""
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.monotonic
    patience: float = PATIENCE
    _workers: dict[str, Worker] | None = None
    _passes: int = 0
    _closed: bool = False
    _allowance: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By worker id: how many questions it has left, as of what time."""
    _answers: dict[str, AutoStopAnswer] = field(default_factory=dict)
    _not_stored: str = ""
    """Why questions could not be stored since the last pass."""
    _woken: threading.Condition = field(default_factory=threading.Condition)

    def passed(self, workers: Iterable[Worker], memory: Memory) -> None:
        """Note that a pass has stored its answers. `workers`: those that it observed.

        The questions of workers that are gone are ended: of those listed as ended, and of unlisted ones without memory.
        """
        listed = {worker.id: worker for worker in workers}
        awaited = {worker_id for worker_id, note in memory.workers.items() if not note.gone}
        there = {worker_id for worker_id, worker in listed.items() if worker.exists} | (awaited - listed.keys())
        if over := self.table.open() - there:
            self.table.end(over)
        with self._woken:
            self._workers = {worker_id: worker for worker_id, worker in listed.items() if worker.exists}
            self._allowance = {key: left for key, left in self._allowance.items() if key in self._workers}
            self._answers = {key: answer for key, answer in self._answers.items() if key in self._workers}
            self._passes += 1
            self._not_stored = ""
            self._woken.notify_all()

    def close(self) -> None:
        """End all waiting: no further pass will answer."""
        with self._woken:
            self._closed = True
            self._woken.notify_all()

    def reply_to(self, path: str, peer: str) -> AutoStopReply:
        """The reply to a GET of `path`; it may take `patience` seconds. `peer`: the caller's address."""
        try:
            split = urlsplit(path)
            instances = parse_qs(split.query, max_num_fields=8).get("instance", [])
        except ValueError:
            return refusal(HTTPStatus.BAD_REQUEST, "there is nothing at this path")
        found = PATH.fullmatch(split.path)
        if found is None:
            return refusal(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if len(instances) != 1:
            return refusal(HTTPStatus.BAD_REQUEST, "name the worker exactly once: ?instance=ID")
        order_id, token, instance = *found.groups(), instances[0]
        if not hmac.compare_digest(token, stop_token(order_key(self.secret, order_id), instance)):
            return refusal(HTTPStatus.FORBIDDEN, "the token does not belong to that instance")
        if self._workers is None:
            return self._not_yet()
        worker = self._worker(order_id, instance)
        if worker is None:
            return refusal(HTTPStatus.NOT_FOUND, f"{instance} is not in the list of workers (any more, or yet)")
        if worker.address and not same_address(worker.address, peer):
            return refusal(HTTPStatus.FORBIDDEN, f"{instance} asks from {worker.address}, not from {peer}")
        if not self._allowed(worker):
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, "this worker asks too often", 5)
        return self._ask(worker)

    def _ask(self, worker: Worker) -> AutoStopReply:
        try:
            at = self.clock()
            self.table.ask(worker.id, at)
            self.ring()
            answered = self._wait(worker, at)
        except StateNotKept as error:
            self._log_once(worker, str(error))
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "no decision is possible: see the autoscaler's log", 30)
        if answered is None:
            return self._not_yet()
        stops = answered.answer is AutoStopAnswer.STOPS
        reason = text(answered.reason)
        with self._woken:
            before, self._answers[worker.id] = self._answers.get(worker.id), answered.answer
        if before is not answered.answer:
            message = "%s stops: %s" if stops else "%s asked to stop, but stays: %s"
            log.info(message, worker.name or worker.id, reason)
        return AutoStopReply(HTTPStatus.OK, {"instance": worker.id, "stop": stops, "reason": reason})

    def _wait(self, worker: Worker, at: float) -> Answered | None:
        deadline = self.stopwatch() + self.patience
        while True:
            with self._woken:
                seen = self._passes
            if (answered := self.table.answered(worker.id, at)) is not None:
                return answered
            with self._woken:
                left = deadline - self.stopwatch()
                if self._closed or left <= 0:
                    return None
                if self._passes == seen:
                    self._woken.wait(left)

    def _log_once(self, worker: Worker, why: str) -> None:
        """Log the cause, which may name files of the master, instead of sending it to a worker."""
        with self._woken:
            known, self._not_stored = self._not_stored, why
        if known != why:
            log.warning("%s asked to stop and got no answer: %s", worker.name or worker.id, why)

    def _worker(self, order_id: str, instance: str) -> Worker | None:
        """The worker by its id, else by its host name: on some clouds a machine knows only that."""
        workers = [worker for worker in (self._workers or {}).values() if worker.order_id == order_id]
        by_name = (worker for worker in workers if worker.name and short_name(worker.name) == short_name(instance))
        return next((worker for worker in workers if worker.id == instance), next(by_name, None))

    def _allowed(self, worker: Worker) -> bool:
        now = self.stopwatch()
        with self._woken:
            left, since = self._allowance.get(worker.id, (float(BURST), now))
            left = min(float(BURST), left + (now - since) * A_SECOND)
            self._allowance[worker.id] = (max(0.0, left - 1), now)
        return left >= 1

    def _not_yet(self) -> AutoStopReply:
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "not decided yet: ask again", 5)


def same_address(known: str, peer: str) -> bool:
    """Whether both are one address; an IPv4 address may be written as IPv6. Text that is not an address equals
    only itself.
    """
    try:
        first, second = (ipaddress.ip_address(one.partition("%")[0]) for one in (known, peer))
    except ValueError:
        return known == peer
    return _plain(first) == _plain(second)


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return getattr(address, "ipv4_mapped", None) or address
