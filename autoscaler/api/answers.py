"""Answers for people and programs from what the last pass observed and decided. Grid Engine is asked only about a job
that no pass has seen.

An answer contains its time. Answers are made one at a time, and beside them one that may take seconds. An answer is
kept for the pass, so that many equal questions cost one. A caller that asks too often gets 429.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Protocol

from autoscaler.answer_client import VERSION
from autoscaler.api.logins import network_of
from autoscaler.errors import AutoscalerError, NotFound, SettingsError, StateNotKept
from autoscaler.report.blocks import Block
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.subjects import Ends, Job, KnownSubjects, explain, is_newer, job_of, lines_of
from autoscaler.report.wording import instant
from autoscaler.store.accounting_index import AccountingIndex
from autoscaler.store.events import KeptEvent
from autoscaler.store.run_time_history import RunTimeHistory
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.api")

BURST, EVERY = 60, 0.1
"""Questions that one asker may ask at once, and seconds until it may ask one more."""
SHARE = 2
"""An asker may use one second of a processor in this many, beyond what `BURST` allows at once."""
MOST_ASKERS = 1000
LARGEST_KEPT = 16 << 20
"""Bytes of the largest answer that is kept."""
LINE = 12
"""Questions under way at once, so that other calls have places left."""
RESERVED = 2
"""Further ones of root and the user of the service."""
OF_ONE, OF_NAME = 4, 8
"""Of these, at most this many of one asker, and of one name at all addresses."""
PATIENCE = 20.0
"""Seconds that a question waits for the one before it."""
SOON = 3.0
"""Seconds that a question about a job that no pass has seen waits for Grid Engine."""
NAMES_FOR = 10.0
"""Seconds for which names of jobs are used again."""
AT_ONCE = 32 << 20
"""Bytes of accounting that one question may read."""
STEP, PAUSE = 1 << 20, 0.1
"""Bytes that are read at a time afterwards, and the pause after them: a fifth of a core until all is read."""
OF_STORE = frozenset({"cost", "decisions", "events", "history", "lanes", "passes", "status"})
"""Questions that the store answers."""
KEPT = frozenset({"status", "jobs", "queue", "workers"})
"""Answers that are the same for every asker."""
ANYBODYS = frozenset({"history"})
"""Questions that every asker gets the same answer to."""
SAME = frozenset({"cost", "decisions", "jobs", "lanes", "passes", "queue", "status", "workers"})
"""The same, unless job details are their owners'."""
LONG = frozenset({"cost"})
"""Questions that may take seconds: one of them is answered at a time, beside the others."""
OF_OWNERS = frozenset({"status", "jobs", "queue", "waiting", "workers"})
"""Questions whose answer contains less for a user who is no manager, if job details are their owners'."""
LATE, LATE_POLLS = 120.0, 12
"""Seconds, and polls, after which the loop counts as stuck: an idle one waits six polls."""
NO_PASS = "the autoscaler has just started, and no pass has been made yet: ask again in a moment"
BUSY = "others ask for much now: ask again in a moment"
TOO_OFTEN = "you ask too often: ask again in a second"
AT_ONCE_OF_ONE = "you ask too much at once: ask again when you have an answer"


@dataclass(frozen=True, slots=True)
class Asker:
    """The user who asks."""

    name: str
    """The caller's name; of a local process its user."""
    manages: Callable[[], bool]
    """Whether they may see others' jobs if job details are their owners'."""
    source: str = ""
    """The address, if remote: a token may serve many hosts."""
    of_cell: bool = False
    """Whether this is a remote user of the cell, who may be a manager of Grid Engine."""
    counted_as: str = ""
    """The user whose subordinate uid asks; '': the asker."""
    reserved: bool = False
    """Whether it is root or the user of the service, who have places of their own."""

    @property
    def place(self) -> str:
        """Questions with the same value count together."""
        return f"{self.name} {network_of(self.source)}" if self.source else self.person

    @property
    def person(self) -> str:
        return self.counted_as or self.name


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is sent."""

    status: int
    parts: tuple[bytes, ...]
    retry_after: int | None = None
    missing: bool = False
    """Whether the question is valid but its subject does not exist."""
    unanswered: str = ""
    """Why the autoscaler gave no answer at all; '' if it gave one, be it a refusal."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """What Grid Engine said of a job that no pass had seen."""

    owner: str | None
    """None: it has no such job."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, the asker, and the pass that answers it."""

    name: str
    query: Mapping[str, str]
    asker: Asker
    decided: tuple[ObservedPlan, int] | None
    newcomer: Newcomer | None = None
    named: Mapping[int, str] | None = None
    """The names of jobs that have the text that is searched for; None: not known."""
    own_names: Mapping[int, str] = field(default_factory=dict)
    """The names of the asker's own waiting jobs, as far as known."""

    @property
    def form(self) -> str:
        return self.query.get("form", "document")

    @property
    def running(self) -> bool:
        """Whether `jobs` has running jobs, too. The query is checked by the route."""
        return self.query.get("running", "").lower() in ("true", "1", "yes", "on")


class Answering(Protocol):
    """Answers questions: the service itself, or a server that relays them to it."""

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply: ...


class LastPass(Protocol):
    """`engine.last_decision.LastDecision`; any thread may read it."""

    @property
    def seen(self) -> tuple[ObservedPlan, int] | None:
        """The last observation with its plan, and the pass's number; None: none yet."""
        ...

    @property
    def unobserved(self) -> str:
        """Why there was no observation since; '' if there was."""
        ...

    @property
    def quiet_s(self) -> float:
        """Seconds for which no pass has begun, decided, ended or failed."""
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

    last_pass: LastPass
    store: Store
    status: Callable[[], dict[str, Any]]
    """The document of `status`."""
    accounting: AccountingIndex | None = None
    owners_only: bool = False
    """Whether details of a job are for its owner and managers."""
    clock: Callable[[], float] = time.time
    polling_delay: Callable[[], float] = lambda: 0.0
    """Seconds from one pass to the next."""
    owner_now: Callable[[int], str | None] | None = None
    """Asks Grid Engine who owns a job; None: it has no such job. Raises GridEngineNotObservable."""
    names_now: Callable[[], Mapping[int, str]] | None = None
    """Asks Grid Engine for the names of waiting jobs, which no pass reads. Raises GridEngineNotObservable."""
    own_names_now: Callable[[str], Mapping[int, str]] | None = None
    """Asks Grid Engine for the names of one owner's waiting jobs. Raises GridEngineNotObservable."""
    run_times: RunTimeHistory | None = None
    """Of earlier jobs, for estimates."""
    stored: bool = False
    """Whether no autoscaler answers, so that these are answers of the store alone. They say so."""
    turns: Turns = field(default_factory=lambda: Turns())
    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)
    _long: threading.Lock = field(default_factory=threading.Lock)
    _line: Line = field(default_factory=lambda: Line())
    _indexing: threading.Lock = field(default_factory=threading.Lock)
    _grid_engine: threading.Lock = field(default_factory=threading.Lock)
    _names: Mapping[int, str] = field(default_factory=dict)
    _names_at: float = -math.inf
    _own_names: OrderedDict[str, tuple[float, Mapping[int, str]]] = field(default_factory=OrderedDict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        """The answer to `status`, `jobs` (running), `queue`, `waiting` (search, owner, code, first, last), `workers`,
        `explain` (subject), `history` (since, step, array),
        `events` (job, host, since, after, last), `passes` (last), `decisions` (kind, since, until, before,
        last), `lanes` (since, until, search, first, last) or `cost` (by, month, since, until, first, last), as
        `form=document`, or for people as `form=text`.
        """
        if not self.turns.take(asker.place):
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, TOO_OFTEN, 1)
        if (refused := self._line.enter(asker)) is not None:
            return refused
        try:
            asker = self._judged(asker)
            newcomer = self._newcomer(query.get("subject", "")) if question == "explain" else None
            named = self._named(query.get("search", "")) if question == "waiting" else None
            own_names = self._names_of(asker.name) if question == "waiting" and query.get("names") else {}
            turn = self._long if question in LONG else self._one
            if not turn.acquire(timeout=PATIENCE):
                return refusal(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, 5)
            began = time.thread_time()
            try:
                return self._carefully(question, query, asker, newcomer, named, own_names)
            finally:
                turn.release()
                self.turns.charge(asker.place, time.thread_time() - began)
        finally:
            self._line.leave(asker)

    def _judged(self, asker: Asker) -> Asker:
        """The asker with `manages` known. Grid Engine may take long to answer, so this is done before the turn."""
        if not self.owners_only:
            return asker
        manages = asker.manages()
        return replace(asker, manages=lambda: manages)

    def _newcomer(self, subject: str) -> Newcomer | None:
        """What Grid Engine says of a job that no pass has seen: its owner need not wait for one. None: a pass has seen
        it, or Grid Engine does not answer soon. It is asked one question at a time, before the turn.
        """
        job, decided = job_of(subject), self.last_pass.seen
        if job is None or decided is None or self.owner_now is None or job.number in decided[0].owners():
            return None
        if self.store.history.explanation(job.number) or not self._grid_engine.acquire(timeout=SOON):
            return None
        try:
            return Newcomer(self.owner_now(job.number))
        except AutoscalerError as error:
            log.info("whether there is a job %d is not known: %s", job.number, error)
            return None
        finally:
            self._grid_engine.release()

    def _named(self, search: str) -> Mapping[int, str] | None:
        """The names of waiting jobs that have this text; None: not asked for, or Grid Engine does not answer soon.
        What it said is used again for a while, since a page is loaded after each pass.
        """
        words = search.strip().lower()
        if not words or words[0].isdecimal() or self.names_now is None:
            return None
        if not self._grid_engine.acquire(timeout=SOON):
            return None
        try:
            if time.monotonic() - self._names_at >= NAMES_FOR:
                self._names, self._names_at = self.names_now(), time.monotonic()
            return {job: name for job, name in self._names.items() if words in name.lower()}
        except AutoscalerError as error:
            log.info("the names of waiting jobs are not known: %s", error)
            return None
        finally:
            self._grid_engine.release()

    def _names_of(self, owner: str) -> Mapping[int, str]:
        """The names of the waiting jobs of this owner, as far as Grid Engine says them soon. It is asked for those who
        have some, each once in a while: what that costs it follows from their own jobs.
        """
        decided, now = self.last_pass.seen, time.monotonic()
        if self.own_names_now is None or decided is None:
            return {}
        if not any(one.ask.owner == owner for one in decided[0].plan.job_categories):
            return {}
        if not self._grid_engine.acquire(timeout=SOON):
            return {}
        try:
            at, names = self._own_names.pop(owner, (-math.inf, {}))
            if now - at >= NAMES_FOR:
                at, names = now, self.own_names_now(owner)
            self._own_names[owner] = at, names
            while len(self._own_names) > MOST_ASKERS:
                self._own_names.popitem(last=False)
            return names
        except AutoscalerError as error:
            log.info("the names of waiting jobs are not known: %s", error)
            return {}
        finally:
            self._grid_engine.release()

    def _carefully(
        self,
        name: str,
        query: Mapping[str, str],
        asker: Asker,
        newcomer: Newcomer | None,
        named: Mapping[int, str] | None = None,
        own_names: Mapping[int, str] = MappingProxyType({}),
    ) -> Reply:
        """The answer or the refusal; call it within a turn."""
        try:
            question = _Question(name, query, asker, self.last_pass.seen, newcomer, named, own_names)
            return Reply(HTTPStatus.OK, tuple(self._answer(question)))
        except NotFound as error:
            return refusal(HTTPStatus.NOT_FOUND, str(error), missing=True)
        except SettingsError as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        except NotYours as error:
            return refusal(HTTPStatus.FORBIDDEN, str(error))
        except AutoscalerError as error:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), 5)

    def close(self) -> None:
        """Stop reading the accounting."""
        self._ended.set()
        with self._indexing, contextlib.suppress(AutoscalerError):
            if self.accounting is not None:
                self.accounting.close()

    def _answer(self, question: _Question) -> Iterator[bytes]:
        if question.decided is None and question.name not in OF_STORE:
            raise _NoPass(NO_PASS)
        body, text = self._body(question), question.form == "text"
        head = self._head(question.decided, for_all=self._for_all(question.name))
        yield from (head, b', "blocks": ' if text else b', "document": ', body, b"}\n")

    def _for_all(self, name: str) -> bool:
        """Whether every asker gets the same answer to a question."""
        return name in ANYBODYS or (name in SAME and not self.owners_only)

    def _head(self, decided: tuple[ObservedPlan, int] | None, *, for_all: bool) -> bytes:
        seen = None if decided is None else decided[0].snapshot.now
        if decided is None and self.stored:
            seen = self.store.memory.saved_at or None
        late = self._late()
        head = {
            "answers": VERSION,
            "pass": None if decided is None else decided[1],
            "as_of": None if seen is None else datetime.fromtimestamp(seen, UTC).astimezone().isoformat(),
            "age_s": None if seen is None else round(max(self.clock() - seen, 0.0), 3),
            "trouble": late or self.last_pass.unobserved,
            "for_all": for_all,
        }
        head |= ({"stored": True} if self.stored else {}) | ({"late": True} if late else {})
        return json.dumps(head, ensure_ascii=False).encode(errors="backslashreplace")[:-1]

    def _late(self) -> str:
        """Since when the loop is stuck; '' if it is not. Passes that fail show that it is not."""
        quiet, poll = self.last_pass.quiet_s, self.polling_delay()
        if self.stored or not poll or quiet <= LATE + LATE_POLLS * poll:
            return ""
        return (
            f"no pass has begun or ended since {instant(self.clock() - quiet)}: the autoscaler hangs. "
            "`journalctl -u sge-autoscaler` says where, `systemctl restart sge-autoscaler` starts it again"
        )

    def _body(self, question: _Question) -> bytes:
        """The body; kept for the pass if it is the same for every asker, `status` for a second."""
        if (
            question.name not in KEPT
            or question.running
            or (question.name in OF_OWNERS and self._only(question.asker) is not None)
        ):
            return b"".join(encoded(self._made(question)))
        second = int(self.clock()) if question.name == "status" else 0
        found = self._kept.get((question.name, question.form))
        if found is not None and found.decided is question.decided and found.second == second:
            return found.body
        body = b"".join(encoded(self._made(question)))
        self._kept = {key: kept for key, kept in self._kept.items() if kept.decided is question.decided}
        if len(body) <= LARGEST_KEPT:
            self._kept[question.name, question.form] = _Kept(question.decided, second, body)
        return body

    def _made(self, question: _Question) -> Any:
        from autoscaler.report.running import running_block
        from autoscaler.report.tables import jobs_blocks, queue_blocks, waiting_blocks, workers_blocks

        text = question.form == "text"
        if question.name in OF_STORE:
            return self._of_store(question)
        assert question.decided is not None
        seen = question.decided[0]
        if question.name == "jobs":
            document, besides = self._jobs(seen, question.asker)
            blocks = jobs_blocks(document["jobs"], besides) if text else []
            if question.running:
                document = document | {"running": seen.running(self._only(question.asker))}
                blocks += [running_block(document["running"])] if text else []
            return blocks if text else document
        if question.name == "queue":
            document = seen.queue(self._only(question.asker))
            return queue_blocks(document) if text else document
        if question.name == "waiting":
            only = self._only(question.asker)
            document = self._of_owners(
                seen.waiting(question.query, question.asker.name, only, question.named), question.asker
            )
            for row in document["categories"]:
                if row["owner"] == question.asker.name and not row["names"]:
                    row["names"] = [question.own_names.get(_number(job)) for job in row["jobs"]]
            return waiting_blocks(document) if text else document
        if question.name == "workers":
            document = self._of_owners(seen.workers(), question.asker)
            return workers_blocks(document["workers"]) if text else document
        document = self._of_owners(self._explained(question, seen), question.asker)
        return [Block(lines=lines_of(document))] if text else document

    def _of_store(self, question: _Question) -> Any:
        """Answers that need no pass."""
        from autoscaler.report import history
        from autoscaler.report.decisions import decision_lines, find_decisions
        from autoscaler.report.events import events_document, events_lines, find_events
        from autoscaler.report.lanes import find_lanes, lane_lines
        from autoscaler.report.passes import find_passes, passes_lines, without_names
        from autoscaler.report.status import status_pairs
        from autoscaler.report.tables import pairs_block

        text, now = question.form == "text", self.clock()
        match question.name:
            case "status":
                document = self._of_own(self.status(), question.asker)
                return [pairs_block(status_pairs(document))] if text else document
            case "events":
                document = events_document(
                    self._visible(find_events(self.store.events, question.query, now), question), now
                )
                return [Block(lines=events_lines(document))] if text else document
            case "passes":
                document = find_passes(self.store.history, question.query, now)
                if self._only(question.asker) is not None:
                    document["passes"] = [
                        {**each, "sentence": without_names(each["sentence"])} for each in document["passes"]
                    ]
                return [Block(lines=list(passes_lines(document)))] if text else document
            case "decisions":
                decided = find_decisions(self.store.history, question.query, now, self._only(question.asker))
                return [Block(lines=list(decision_lines(decided)))] if text else decided
            case "lanes":
                lanes = find_lanes(self.store, question.query, now)
                return [Block(lines=list(lane_lines(lanes)))] if text else lanes
            case "cost":
                return self._cost(question)
            case _:
                assert question.name == "history", question.name
        currency = "USD" if question.decided is None else question.decided[0].snapshot.policy.currency
        report = history.find_history(self.store.samples, question.query, now, currency)
        if question.form == "csv":
            return history.csv_text(report)
        return [history.history_block(report)] if text else history.document(report, now)

    def _of_own(self, document: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """The document; if job details are their owners', without others' budgets and without job numbers."""
        from autoscaler.report.owners import budgets_of
        from autoscaler.report.passes import without_names

        only = self._only(asker)
        if only is None:
            return document
        filtered = {
            "sentence": document["sentence"] and without_names(document["sentence"]),
            "troubles": [without_names(each) for each in document["troubles"]],
            "budgets": [each for each in document["budgets"] if each["owner"] in budgets_of(only)],
        }
        return {**document, **filtered}

    def _of_owners(self, document: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """The document; if job details are their owners', without reasons that name other owners."""
        from autoscaler.report.owners import of_owner

        only = self._only(asker)
        return document if only is None else of_owner(document, only)

    def _only(self, asker: Asker) -> str | None:
        """The only owner whose jobs an asker may see; None: all."""
        return asker.name if self.owners_only and not asker.manages() else None

    def _visible(self, events: Sequence[KeptEvent], question: _Question) -> tuple[KeptEvent, ...]:
        from autoscaler.report.events import shown_to

        owner, owners = self._only(question.asker), {one.event.owner for one in events} - {""}
        job = question.query.get("job")
        if job and owner is not None and owners and owner not in owners:
            raise NotYours(f"job {job} is not yours: only its owner and managers may see what happened to it")
        return tuple(shown_to(owner, events))

    def _cost(self, question: _Question) -> Any:
        """The cost; if job details are their owners', the jobs of others are one row."""
        from autoscaler.report.cost import cost_blocks, cost_report, csv_text, document, read_cost_query

        now = self.clock()
        report = cost_report(self.store, read_cost_query(question.query, now, self._only(question.asker)), now)
        match question.form:
            case "text":
                return cost_blocks(report)
            case "csv":
                return csv_text(report)
            case _:
                return document(report)

    def _jobs(self, seen: ObservedPlan, asker: Asker) -> tuple[dict[str, Any], list[str]]:
        """The document, and lines about jobs that have no row."""
        from autoscaler.report.owners import without_jobs
        from autoscaler.report.passes import without_names
        from autoscaler.report.sentence import jobs_not_read

        document = seen.jobs()
        unread = jobs_not_read(seen.plan.notes)
        lines = [unread] if unread else []
        owner = self._only(asker)
        if owner is None:
            return document, lines
        owners = seen.owners()
        own = [row for row in document["jobs"] if owners.get(_number(row["jobs"][0])) == owner]
        hidden = len(document["jobs"]) - len(own)
        if hidden:
            lines.append(f"{hidden} jobs of others wait, too: only their owners and managers see them")
        shown = self._of_owners(document | {"jobs": own, "not_shown": hidden}, asker)
        return shown | {"notes": [without_jobs(note) for note in shown["notes"]]}, list(map(without_names, lines))

    def _explained(self, question: _Question, seen: ObservedPlan) -> dict[str, Any]:
        subject, newcomer = question.query.get("subject", ""), question.newcomer
        if not subject:
            raise SettingsError("explain: name a job, host or worker")
        job = job_of(subject)
        ends = Ends() if job is None else self._ends(job)
        owner = self._only(question.asker)
        if job is not None and owner is not None:
            owners = {end.owner for end in ends.found} | {seen.owners().get(job.number, "")}
            owners |= {one.event.owner for one in self.store.events.read(job=job.number)}
            owners |= {"" if newcomer is None else newcomer.owner or ""}
            newer = newcomer is None and is_newer(seen, job.number, self.store.history.newest_job())
            unseen = not owners - {""} and newer
            if owners - {""} != {owner} and not unseen:
                raise NotYours(f"job {job.number} is not yours: only its owner and managers may see why it waits")
        next_pass = max(0.0, seen.snapshot.now + self.polling_delay() - self.clock())
        known = KnownSubjects(
            seen,
            lambda _: ends,
            lambda: contextlib.nullcontext(self.store),
            owner=owner,
            next_pass=next_pass,
            in_grid_engine=None if newcomer is None else newcomer.owner is not None,
            estimate=None if self.run_times is None else self.run_times.estimate,
        )
        return explain(subject, known)

    def _ends(self, job: Job) -> Ends:
        if self.accounting is None:
            return Ends()
        try:
            found = self.accounting.find(job.number, None if job.task is None else int(job.task), AT_ONCE)
        except OSError as error:
            return Ends(unread=f"{error.filename} cannot be read: {error.strerror}")
        except StateNotKept as error:  # a full disk: all else is known
            return Ends(unread=f"the accounting cannot be indexed: {error}")
        if not found.unread:
            return Ends(found.ends)
        self._index_in_background()
        left = f"{found.unread / 1e6:.0f} MB of the accounting are not indexed yet: ask again in a minute"
        return Ends(found.ends, left)

    def _index_in_background(self) -> None:
        if self._indexing.acquire(blocking=False):
            threading.Thread(target=self._index_rest, name="accounting", daemon=True).start()

    def _index_rest(self) -> None:
        """The body of a thread. An error is logged, and the next question starts it again."""
        try:
            while not self._ended.wait(PAUSE) and self.accounting is not None and self.accounting.advance(STEP):
                pass
        except (OSError, AutoscalerError) as error:
            log.warning("the index of the accounting does not go on: %s", error)
        finally:
            self._indexing.release()


class _NoPass(AutoscalerError):
    """No pass has been made yet."""


class Line:
    """The questions under way. Neither one asker nor one name at many addresses can take all places."""

    def __init__(self) -> None:
        self._guard, self._held = threading.Lock(), Counter[str]()

    def enter(self, asker: Asker) -> Reply | None:
        """Take a place until `leave`, and return None; or return the refusal."""
        with self._guard:
            places = LINE + RESERVED * asker.reserved
            if self._held.total() >= 2 * places:  # each counts twice: as an asker, and by name
                return refusal(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, 5)
            if self._held[f"at {asker.place}"] >= OF_ONE or self._held[f"as {asker.person}"] >= OF_NAME:
                return refusal(HTTPStatus.TOO_MANY_REQUESTS, AT_ONCE_OF_ONE, 1)
            self._held.update((f"at {asker.place}", f"as {asker.person}"))
            return None

    def leave(self, asker: Asker) -> None:
        with self._guard:
            self._held.subtract((f"at {asker.place}", f"as {asker.person}"))
            self._held = +self._held


class Turns:
    """Limits how often each asker may ask; it remembers at most `MOST_ASKERS`."""

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
        """Count the processor time of an answer: large answers make an asker wait longer."""
        with self._guard:
            left, since = self._left.get(name, (float(BURST), self._stopwatch()))
            self._left[name] = left - seconds / EVERY * SHARE, since


def refusal(status: int, text: str, retry_after: int | None = None, *, missing: bool = False) -> Reply:
    body = json.dumps({"error": text}, ensure_ascii=False).encode(errors="backslashreplace")
    return Reply(status, (body, b"\n"), retry_after, missing)


def encoded(value: Any, depth: int = 3) -> Iterator[bytes]:
    """JSON in pieces, so that other threads run in between, however many rows there are."""
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
