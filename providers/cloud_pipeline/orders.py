"""Orders: a run for each worker, created in a few lanes at a time, and never twice for one token.

The platform knows no idempotency token. Ours is a parameter of the run in each creating call, and before anything is
created the runs of the token are listed: if there are some, they are the answer. After a call whose answer was lost
nothing is created for a while, since the platform may still be working on it, and its listing may lag. That holds for
an earlier process's call as well: the journal knows it (`LaunchOrder.asked_before`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from autoscaler.providers.cloud_pipeline.api import Api, as_record
from autoscaler.providers.cloud_pipeline.parameters import launch_body
from autoscaler.providers.cloud_pipeline.runs import TOKEN, Run, run_from
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.interface import (
    Launched,
    LaunchOrder,
    NotAuthenticated,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.rest import Deadline

LANES = 8
"""Runs that are requested at the same time."""
PATIENCE = 25.0
"""Seconds for one order; runs that were not requested by then are missing from the answer."""
LAST_CALL = 5.0
"""No further run is requested with fewer seconds left: its answer might be lost."""
LOCKS = 64
REMEMBERED = 1000
"""Orders whose answers are cached."""
SETTLED = 60.0
"""Seconds after a lost answer from which on the platform is assumed to have finished the call."""


@dataclass(slots=True)
class _Progress:
    """The results of the calls of one order."""

    ids: dict[int, str] = field(default_factory=dict)
    errors: list[ProviderError] = field(default_factory=list)
    lost: Unreachable | None = None

    @property
    def halted(self) -> bool:
        """Whether the next call would have the same result."""
        return bool(self.errors) or self.lost is not None


class Orders:
    """Requests workers. Safe to be used by several threads: only one works on a token at a time."""

    def __init__(
        self,
        api: Api,
        settings: CloudPipelineSettings,
        inherited: Callable[[], Mapping[str, str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._settings, self._inherited, self.clock = api, settings, inherited, clock
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._answers: dict[str, tuple[str, ...]] = {}
        self._lost_at: dict[str, float | None] = {}
        """By token that this process has requested: the time of the last call without an answer, if there was one."""

    def launch(self, order: LaunchOrder) -> Launched:
        """See `Provider.launch`: earlier runs of the token are the answer, else one run for each worker."""
        deadline = Deadline(PATIENCE)
        with self._locks[hash(order.token) % LOCKS]:
            if order.token not in self._lost_at:
                # Another process's call may have come just before this one. Its clock may have been another, too.
                self._lost_at[order.token] = self.clock() if order.asked_before else None
                _forget_oldest(self._lost_at)
            if answered := self._answers.get(order.token):
                return _launched(order, answered, "was not launched then")
            if found := self._made(order, deadline):
                if len(found) < order.count and self._in_doubt(order.token):
                    raise Unreachable(f"{len(found)} of {order.count} runs exist; more may come")
                return self._settle(order, found, "did not come about")
            if self._in_doubt(order.token):
                raise Unreachable("the answer to this order was just lost; its runs may still come")
            return self._conclude(order, self._ask_all(order, deadline))

    def _in_doubt(self, token: str) -> bool:
        lost_at = self._lost_at.get(token)
        return lost_at is not None and self.clock() - lost_at < SETTLED

    def _made(self, order: LaunchOrder, deadline: Deadline) -> tuple[str, ...]:
        """The runs that were created under this token, ended ones too, in the order of their requests."""
        runs = [run for run in self._listed(order, deadline) if run.mark(TOKEN) == order.token]
        made = {run.id: run for run in runs if run.cell == order.cell}
        return tuple(run.id for run in sorted(made.values(), key=lambda run: (run.index, int(run.id))))

    def _listed(self, order: LaunchOrder, deadline: Deadline) -> Sequence[Run]:
        wanted = {"parentId": self._settings.run_id, "partialParameters": f"{TOKEN}={order.token}"}
        return [run_from(item) for item in self._api.pages("run/filter", wanted, self._settings.page_size, deadline)]

    def _ask_all(self, order: LaunchOrder, deadline: Deadline) -> _Progress:
        inherited, progress, guard = self._inherited(), _Progress(), threading.Lock()

        def ask(index: int) -> None:
            with guard:
                if progress.halted or deadline.left < LAST_CALL:
                    return
            try:
                body = launch_body(order, index, self._settings, inherited)
                payload = self._api.post("run", body, repeat=False, deadline=deadline)
                run_id = str(as_record(payload, "POST run")["id"])
            except NotAuthenticated as error:  # nothing was made
                with guard:
                    progress.errors.append(error)
            except Unreachable as error:
                with guard:
                    progress.lost = error
            except ProviderError as error:
                with guard:
                    progress.errors.append(error)
            except KeyError:
                with guard:
                    progress.lost = Unreachable("POST run answered without the run's id")
            else:
                with guard:
                    progress.ids[index] = run_id

        with ThreadPoolExecutor(min(LANES, order.count), thread_name_prefix="order") as lanes:
            list(lanes.map(ask, range(order.count)))
        return progress

    def _conclude(self, order: LaunchOrder, progress: _Progress) -> Launched:
        """The answer, or an error in its place: if there is no run at all, whether to try again."""
        if progress.lost is not None:
            self._lost_at[order.token] = self.clock()
            raise progress.lost
        ids = tuple(progress.ids[index] for index in sorted(progress.ids))
        permanent = [error for error in progress.errors if isinstance(error, Refused | Throttled | NotAuthenticated)]
        if not ids and permanent:
            raise permanent[0]
        if not ids and not progress.errors:
            raise Throttled(f"no run could be launched within {PATIENCE:g} s")
        short = progress.errors[0] if progress.errors else None
        return self._settle(order, ids, "could not be launched in time", short)

    def _settle(
        self, order: LaunchOrder, ids: tuple[str, ...], why: str, error: ProviderError | None = None
    ) -> Launched:
        self._answers[order.token] = ids
        _forget_oldest(self._answers)
        self._lost_at[order.token] = None
        return _launched(order, ids, why, error)


def _forget_oldest(known: dict[str, Any]) -> None:
    while len(known) > REMEMBERED:
        known.pop(next(iter(known)), None)


def _launched(order: LaunchOrder, ids: tuple[str, ...], why: str, error: ProviderError | None = None) -> Launched:
    """Fewer than requested is an answer; the error of the first call that failed says why."""
    if len(ids) >= order.count:
        return Launched(ids)
    missing = order.count - len(ids)
    reason = error or Throttled(f"{missing} of {order.count} runs {why}")
    return Launched(ids, ((order.buckets[0].key, reason),))
