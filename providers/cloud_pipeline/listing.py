"""The runs of the master run that are our workers, with their states: a whole listing, or an error.

The living are read page by page. Pages shift when runs come and go between two calls, so the compact list of all child
runs is read afterwards, and living runs that were on no page are loaded one by one. The same list has the runs that
ended lately. A run's parameters never change: its owner is read once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from autoscaler.core.model.fleet import PriceType, Worker
from autoscaler.providers.cloud_pipeline.api import Api, NotKnown, as_record, as_records, run_path, unix_time
from autoscaler.providers.cloud_pipeline.catalogue import Catalogue
from autoscaler.providers.cloud_pipeline.runs import (
    CELL,
    LIVING,
    NODE_ARRAY,
    Run,
    of_platform,
    run_from,
    taken_over,
    worker_from,
)
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.interface import ProviderError, Unreachable
from autoscaler.providers.rest import Deadline, reading

log = logging.getLogger(__name__)
LISTED_AFTER_END = 3600.0
"""Seconds that an ended worker is still listed, so that its end is certain."""
PATIENCE = 45.0
"""Seconds for one listing, of which the observer waits for at most 60."""
LANES = 8
ASKED_FOR_SET_UP = 200
"""Workers for which one listing checks the set-up, youngest first; the next listing checks the others."""
CLOCKS_APART = 60.0
SET_UP = "the set-up of workers"


@dataclass(frozen=True, slots=True)
class _Child:
    """One line of the compact list."""

    id: str
    status: str
    ended_at: float | None

    @property
    def living(self) -> bool:
        return self.status in LIVING

    def ending_of(self, run: Run | None) -> Run | None:
        """The ended run, made of what was known of it; None if it must be loaded, as a failure is for its reason."""
        if run is None or self.status == "FAILURE":
            return None
        return run if run.is_final else replace(run, status=self.status, ended_at=self.ended_at)


class Listing:
    """Reads the workers of one cell. Called by one thread at a time, except `known`."""

    def __init__(
        self,
        api: Api,
        settings: CloudPipelineSettings,
        cell: str,
        catalogue: Catalogue,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._settings, self._cell = api, settings, cell
        self._catalogue, self._clock = catalogue, clock
        self._guard = threading.Lock()
        self.advice = catalogue.advice
        self._known: dict[str, Run] = {}
        self.foreign: frozenset[str] = frozenset()
        """Ids of child runs that are not ours."""
        self._taken_over: set[str] = set()
        self._set_up: set[str] = set()
        self._ended: dict[str, Run] = {}

    def workers(self) -> tuple[Worker, ...]:
        """All living workers of ours and those that ended lately. Raises Unreachable, never gives a part."""
        with reading("the list of workers"):
            deadline = Deadline(PATIENCE)
            living = {run.id: run for run in self._pages(deadline)}
            children = self._children(deadline)
            late = [child.id for child in children if child.living and self._unseen(child.id, living)]
            ended = self._lately_ended(children)
            loaded = self._load([*late, *(run_id for run_id, run in ended.items() if run is None)], deadline)
            mine = {run.id: run for run in loaded if run.cell == self._cell}
            self._ended = {run_id: run for run_id, run in ended.items() if run is not None}
            self._ended |= {run_id: run for run_id, run in mine.items() if run.is_final}
            living |= {run_id: run for run_id, run in mine.items() if not run.is_final}
            living = {run_id: run for run_id, run in living.items() if run_id not in ended}
            self._see_set_up(living.values(), deadline)
        with self._guard:
            self._known = {**living, **self._ended}
        return tuple(self._worker(run) for run in (*living.values(), *self._ended.values()))

    def known(self, run_id: str) -> Run | None:
        """A worker of ours as the last listing showed it."""
        with self._guard:
            return self._known.get(run_id)

    def load(self, run_id: str, deadline: Deadline | None = None) -> Run | None:
        """One run by its id, even one that is not ours; None if there is none. One of the platform's own autoscaler is
        ours if the settings say so.
        """
        run = self._read(run_id, deadline)
        if run is None or run.parent != self._settings.run_id:
            return run
        ours = taken_over(run, self._cell, self._settings.arrays_taken_over)
        if ours is not run and run.id not in self._taken_over:
            self._taken_over.add(run.id)
            array = ours.parameters[NODE_ARRAY]
            log.info(
                "run %s (%s) of the platform's own autoscaler is a worker of %s from now on", run.id, run.pod, array
            )
        return ours

    def _read(self, run_id: str, deadline: Deadline | None) -> Run | None:
        if not run_id.isdecimal():
            return None
        try:
            record = self._api.get(run_path(run_id), deadline=deadline)
        except NotKnown:
            return None
        return run_from(as_record(record, f"run {run_id}")) if record is not None else None

    def of_platform(self) -> tuple[Run, ...]:
        """Living additional workers that the platform's own autoscaler launched."""
        deadline = Deadline(PATIENCE)
        with reading("the list of workers"):
            known = {run.id for run in self._pages(deadline)}
            others = [child.id for child in self._children(deadline) if child.living and child.id not in known]
            with ThreadPoolExecutor(LANES, thread_name_prefix="runs") as lanes:
                runs = list(lanes.map(lambda run_id: self._read(run_id, deadline), others))
        return tuple(run for run in runs if run is not None and of_platform(run))

    def _pages(self, deadline: Deadline) -> Iterable[Run]:
        wanted = {
            "parentId": self._settings.run_id,
            "statuses": list(LIVING),
            "partialParameters": f"{CELL}={self._cell}",
        }
        runs = [run_from(item) for item in self._api.pages("run/filter", wanted, self._settings.page_size, deadline)]
        return [run for run in runs if run.cell == self._cell]

    def _children(self, deadline: Deadline) -> list[_Child]:
        path = run_path("parents", str(self._settings.run_id))
        return [_child(item) for item in as_records(self._api.get(path, deadline=deadline) or [], path)]

    def _unseen(self, run_id: str, living: Mapping[str, Run]) -> bool:
        return run_id not in living and run_id not in self.foreign

    def _lately_ended(self, children: Iterable[_Child]) -> dict[str, Run | None]:
        """Those that ended lately and are not known to be somebody else's; None: still to be loaded."""
        since = self._clock() - LISTED_AFTER_END - CLOCKS_APART
        late = [child for child in children if not child.living and (child.ended_at is None or child.ended_at > since)]
        return {
            child.id: self._ended.get(child.id) or child.ending_of(self.known(child.id))
            for child in late
            if child.id not in self.foreign
        }

    def _load(self, run_ids: Iterable[str], deadline: Deadline) -> list[Run]:
        """These runs; those that are not ours are remembered as such."""
        with ThreadPoolExecutor(LANES, thread_name_prefix="runs") as lanes:
            runs = [run for run in lanes.map(lambda run_id: self.load(run_id, deadline), run_ids) if run is not None]
        self.foreign |= {run.id for run in runs if run.cell != self._cell}
        return runs

    def _see_set_up(self, living: Iterable[Run], deadline: Deadline) -> None:
        """Check whether the set-up of initialized workers is done; once it is, it stays so."""
        self.advice.forget(SET_UP)
        runs = {run.id: run for run in living}
        self._set_up &= runs.keys()
        waiting = [run for run in runs.values() if run.initialized and run.id not in self._set_up]
        youngest = sorted(waiting, key=lambda run: -int(run.id))[:ASKED_FOR_SET_UP]
        if not youngest:
            return

        def is_set_up(run: Run) -> bool:
            """A log that cannot be read shows no set-up; the next listing asks again."""
            return self.advice.read(SET_UP, lambda: self._is_set_up(run, deadline), otherwise=False)

        with ThreadPoolExecutor(LANES, thread_name_prefix="set-up") as lanes:
            done = list(lanes.map(is_set_up, youngest))
        self._set_up |= {run.id for run, ready in zip(youngest, done, strict=True) if ready}

    def _is_set_up(self, run: Run, deadline: Deadline) -> bool:
        return any(item.get("status") == "SUCCESS" for item in self.set_up_log(run.id, deadline))

    def set_up_log(self, run_id: str, deadline: Deadline | None = None) -> list[dict[str, Any]]:
        """The lines of a worker's set-up so far; none before it has begun."""
        path = run_path(run_id, "task")
        try:
            payload = self._api.get(path, {"taskName": self._settings.setup_task}, deadline=deadline)
        except Unreachable:
            raise
        except ProviderError:
            return []
        return as_records(payload or [], path)

    def _worker(self, run: Run) -> Worker:
        price_type = PriceType.SPOT if run.spot else PriceType.ON_DEMAND
        if run.price_per_hour:
            self._catalogue.learn(run.node_type, price_type, run.price_per_hour)
        return worker_from(run, self._catalogue.type_of(run.node_type), ready=run.id in self._set_up)


def _child(item: Mapping[str, Any]) -> _Child:
    what = "the list of child runs"
    run_id, status, ended = item.get("runId"), item.get("status"), item.get("endDate")
    if not isinstance(run_id, int) or isinstance(run_id, bool) or not isinstance(status, str):
        raise Unreachable(f"{what} has an entry without id or status")
    return _Child(str(run_id), status, unix_time(ended, what) if ended else None)
