"""Answers for people and programs from what the last pass saw and decided: nothing is asked of Grid Engine for them.

An answer says of when it is. Each is made in a thread of its own, one at a time, and kept for the pass, so that many
who ask for the same cost one. Whoever asks too often is told to wait.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol

from autoscaler.answer_client import VERSION
from autoscaler.errors import AutoscalerError, NotFound, SettingsError, StateNotKept
from autoscaler.report.blocks import Block
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.subjects import Ends, Job, Known, explain, job_of, lines_of
from autoscaler.store.accounting_index import AccountingIndex
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.api")

BURST, EVERY = 60, 0.1
"""So many questions of one asker at once, and one more each so many seconds."""
SHARE = 2
"""An asker may have one in so many seconds of a processor, beyond what `BURST` allows at once."""
MOST_ASKERS = 1000
LARGEST_KEPT = 16 << 20
"""Bytes of an answer that is kept for who asks next."""
LINE = 8
"""Questions under way at once: they leave places to callers of other kinds."""
PATIENCE = 20.0
"""Seconds that a question waits for the one before it."""
AT_ONCE = 32 << 20
"""Bytes of accounting that one question takes in."""
STEP, PAUSE = 1 << 20, 0.1
"""Bytes that are taken in afterwards, and seconds until the next ones: a fifth of a core until all is."""
NO_PASS = "the autoscaler has just started, and no pass has been made yet: ask again in a moment"
BUSY = "others ask for much now: ask again in a moment"
TOO_OFTEN = "you ask too often: ask again in a second"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants to know."""

    name: str
    """As callers are known; of a local process its user."""
    manages: Callable[[], bool]
    """Whether they may see the jobs of others where only owners do."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is sent."""

    status: int
    parts: tuple[bytes, ...]
    retry_after: int | None = None
    missing: bool = False
    """Whether what was asked about does not exist: the question was understood."""


class Answering(Protocol):
    """Who answers: the service itself, or a server that passes questions on to it."""

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply: ...


class LastPass(Protocol):
    """What the loop tells of itself; any thread may look."""

    @property
    def decided(self) -> tuple[ObservedPlan, int] | None:
        """What was last observed and decided, and the pass's number; None: nothing yet."""
        ...

    @property
    def unobserved(self) -> str:
        """Why there was no observation since; '' while there is."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    decided: object
    second: int
    """0: it holds for the whole pass."""
    body: bytes


class NotYours(AutoscalerError):
    """Only a job's owner and managers may see it."""


@dataclass(slots=True)
class Answers:
    """For the life of a service."""

    loop: LastPass
    store: Store
    status: Callable[[], dict[str, Any]]
    """The document of `status`."""
    accounting: AccountingIndex | None = None
    owners_only: bool = False
    """Whether details of a job are for its owner and managers."""
    clock: Callable[[], float] = time.time
    turns: Turns = field(default_factory=lambda: Turns())
    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)
    _line: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(LINE))
    _taking_in: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        """The answer to `status`, `jobs`, `workers`, `explain` (subject), `history` (since, step, array) or `cost` (by,
        month, since, until), as `form=document`, or for people as `form=text`.
        """
        if not self.turns.take(asker.name):
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, TOO_OFTEN, 1)
        if not self._line.acquire(blocking=False):
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, 5)
        try:
            if not self._one.acquire(timeout=PATIENCE):
                return refusal(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, 5)
            began = time.thread_time()
            try:
                return self._carefully(question, query, asker)
            finally:
                self.turns.charge(asker.name, time.thread_time() - began)
        finally:
            self._line.release()

    def _carefully(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        """The answer, or why there is none, while it is this question's turn."""
        try:
            return Reply(HTTPStatus.OK, tuple(self._answer(question, query, asker)))
        except NotFound as error:
            return refusal(HTTPStatus.NOT_FOUND, str(error), missing=True)
        except SettingsError as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        except NotYours as error:
            return refusal(HTTPStatus.FORBIDDEN, str(error))
        except AutoscalerError as error:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), 5)
        finally:
            self._one.release()

    def close(self) -> None:
        """Take in no more."""
        self._ended.set()
        with self._taking_in, contextlib.suppress(AutoscalerError):
            if self.accounting is not None:
                self.accounting.close()

    def _answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Iterator[bytes]:
        decided, form = self.loop.decided, query.get("form", "document")
        if decided is None and question not in ("status", "history", "cost"):
            raise _NoPass(NO_PASS)
        body = self._body(question, form, query, decided, asker)
        yield from (self._head(decided), b', "blocks": ' if form == "text" else b', "document": ', body, b"}\n")

    def _head(self, decided: tuple[ObservedPlan, int] | None) -> bytes:
        seen = None if decided is None else decided[0].snapshot.now
        head = {
            "answers": VERSION,
            "pass": None if decided is None else decided[1],
            "as_of": None if seen is None else datetime.fromtimestamp(seen, UTC).astimezone().isoformat(),
            "age_s": None if seen is None else round(max(self.clock() - seen, 0.0), 3),
            "trouble": self.loop.unobserved,
        }
        return json.dumps(head, ensure_ascii=False).encode(errors="backslashreplace")[:-1]

    def _body(
        self,
        question: str,
        form: str,
        query: Mapping[str, str],
        decided: tuple[ObservedPlan, int] | None,
        asker: Asker,
    ) -> bytes:
        """Kept for the pass where it is the same for all who ask, and for a second where it is of the store."""
        all_see = not self.owners_only or (question == "jobs" and asker.manages())
        if question not in ("status", "jobs", "workers") or (question == "jobs" and not all_see):
            return b"".join(encoded(self._made(question, form, query, decided, asker)))
        second = int(self.clock()) if question == "status" else 0
        found = self._kept.get((question, form))
        if found is not None and found.decided is decided and found.second == second:
            return found.body
        body = b"".join(encoded(self._made(question, form, query, decided, asker)))
        self._kept = {key: kept for key, kept in self._kept.items() if kept.decided is decided}
        if len(body) <= LARGEST_KEPT:
            self._kept[question, form] = _Kept(decided, second, body)
        return body

    def _made(
        self,
        question: str,
        form: str,
        query: Mapping[str, str],
        decided: tuple[ObservedPlan, int] | None,
        asker: Asker,
    ) -> Any:
        from autoscaler.report.history import asked_history, csv_text, history_block
        from autoscaler.report.history import document as history_document
        from autoscaler.report.status import status_pairs
        from autoscaler.report.tables import jobs_blocks, pairs_block, workers_blocks

        text = form == "text"
        if question == "status":
            document = self.status()
            return [pairs_block(status_pairs(document))] if text else document
        if question == "history":
            now = self.clock()
            currency = "USD" if decided is None else decided[0].snapshot.policy.currency
            report = asked_history(self.store.samples, query, now, currency)
            if form == "csv":
                return csv_text(report)
            return [history_block(report)] if text else history_document(report, now)
        if question == "cost":
            return self._cost(form, query, asker)
        assert decided is not None
        seen = decided[0]
        if question == "jobs":
            document, besides = self._jobs(seen, asker)
            return jobs_blocks(document["jobs"], besides) if text else document
        if question == "workers":
            document = seen.workers()
            return workers_blocks(document["workers"]) if text else document
        document = self._explained(query.get("subject", ""), seen, asker)
        return [Block(lines=lines_of(document))] if text else document

    def _cost(self, form: str, query: Mapping[str, str], asker: Asker) -> Any:
        """Where details of jobs are for their owners, those of others are one row."""
        from autoscaler.report.cost import asked_cost, cost_blocks, cost_report, csv_text, document

        now = self.clock()
        visible = asker.name if self.owners_only and not asker.manages() else None
        report = cost_report(self.store, asked_cost(query, now, visible), now)
        return cost_blocks(report) if form == "text" else csv_text(report) if form == "csv" else document(report)

    def _jobs(self, seen: ObservedPlan, asker: Asker) -> tuple[dict[str, Any], list[str]]:
        """The document, and what is said besides its rows."""
        from autoscaler.report.sentence import jobs_not_read

        document = seen.jobs()
        unread = jobs_not_read(seen.plan.notes)
        said = [unread] if unread else []
        if not self.owners_only or asker.manages():
            return document, said
        owners = seen.owners()
        own = [row for row in document["jobs"] if owners.get(_number(row["jobs"][0])) == asker.name]
        hidden = len(document["jobs"]) - len(own)
        if hidden:
            said.append(f"{hidden} jobs of others wait, too: only their owners and managers see them")
        return document | {"jobs": own, "not_shown": hidden}, said

    def _explained(self, subject: str, seen: ObservedPlan, asker: Asker) -> dict[str, Any]:
        if not subject:
            raise SettingsError("explain: name a job, host or worker")
        job = job_of(subject)
        ends = Ends() if job is None else self._ends(job)
        if job is not None and self.owners_only and not asker.manages():
            owners = {end.owner for end in ends.found} | {seen.owners().get(job.number, "")}
            if owners - {""} != {asker.name}:
                raise NotYours(f"job {job.number} is not yours: only its owner and managers may see why it waits")
        return explain(subject, Known(seen, lambda _: ends, lambda: contextlib.nullcontext(self.store)))

    def _ends(self, job: Job) -> Ends:
        if self.accounting is None:
            return Ends()
        try:
            found = self.accounting.find(job.number, None if job.task is None else int(job.task), AT_ONCE)
        except OSError as error:
            return Ends(unread=f"{error.filename} cannot be read: {error.strerror}")
        except StateNotKept as error:  # a full disk: all else is known
            return Ends(unread=f"the accounting cannot be taken in: {error}")
        if not found.unread:
            return Ends(found.ends)
        self._take_in_the_rest()
        left = f"{found.unread / 1e6:.0f} MB of the accounting have not been taken in yet: ask again in a minute"
        return Ends(found.ends, left)

    def _take_in_the_rest(self) -> None:
        if self._taking_in.acquire(blocking=False):
            threading.Thread(target=self._take_in, name="accounting", daemon=True).start()

    def _take_in(self) -> None:
        """The thread's edge: what ends it is told, and the next question begins again."""
        try:
            while not self._ended.wait(PAUSE) and self.accounting is not None and self.accounting.advance(STEP):
                pass
        except (OSError, AutoscalerError) as error:
            log.warning("the accounting is not taken in any further: %s", error)
        finally:
            self._taking_in.release()


class _NoPass(AutoscalerError):
    """There is nothing to tell yet."""


class Turns:
    """How often each asker may ask; of so many askers that their number is bounded."""

    def __init__(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._stopwatch, self._guard = stopwatch, threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> bool:
        now = self._stopwatch()
        with self._guard:
            left, since = self._left.pop(name, (float(BURST), now))
            left = min(float(BURST), left + (now - since) / EVERY)
            self._left[name] = (left - 1 if left >= 1 else left), now
            if len(self._left) > MOST_ASKERS:
                self._left.popitem(last=False)
            return left >= 1

    def charge(self, name: str, seconds: float) -> None:
        """What an answer took of the processor is taken off: who asks for what is large may ask more seldom."""
        with self._guard:
            left, since = self._left.get(name, (float(BURST), self._stopwatch()))
            self._left[name] = left - seconds / EVERY * SHARE, since


def refusal(status: int, text: str, retry_after: int | None = None, *, missing: bool = False) -> Reply:
    body = json.dumps({"error": text}, ensure_ascii=False).encode(errors="backslashreplace")
    return Reply(status, (body, b"\n"), retry_after, missing)


def encoded(value: Any, depth: int = 3) -> Iterator[bytes]:
    """JSON in pieces: between two of them other threads get their turn, however many rows there are."""
    if depth and isinstance(value, Mapping):
        yield b"{"
        for number, (name, each) in enumerate(value.items()):
            yield b", " * bool(number) + json.dumps(name).encode() + b": "
            yield from encoded(each, depth - 1)
        yield b"}"
    elif depth and isinstance(value, list | tuple):
        yield b"["
        yield from _listed(value, depth)
        yield b"]"
    else:
        yield json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")


def _listed(values: Iterable[Any], depth: int) -> Iterator[bytes]:
    for number, each in enumerate(values):
        if number:
            yield b", "
        yield from encoded(each, depth - 1)


def _number(name: str) -> int:
    return int(name.partition(".")[0])
