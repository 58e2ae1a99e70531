"""Stores the progress of requests: which worker serves which created node, which nodes ended or failed, and which
dynamic arrays have ended.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from autoscaler.core.model.request_sets import RequestSet
from autoscaler.core.outcome.fulfilled import empty_arrays, lost_workers
from autoscaler.core.requests.created_nodes import answers
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import few
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.requests")


class Fulfilment:
    """One for the life of a process: it remembers what it has stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bound: frozenset[tuple[str, str]] = frozenset()
        self._live: Mapping[str, RequestSet] = {}

    def note(self, snapshot: Snapshot) -> None:
        """Call this after a successful observation. If an earlier process has stored a line already, nothing
        changes.
        """
        store, now = self._store, snapshot.now
        self._report_lapsed(snapshot)
        found = tuple(answers(snapshot.fleet.orders))
        lost, empty = lost_workers(snapshot), empty_arrays(snapshot)
        new = frozenset(found) - self._bound
        late = self._late(snapshot)
        if not (new or lost or empty or late):
            return
        with store.database.transaction():
            for node, worker_id in found:
                if (node, worker_id) in new:
                    store.nodes.bind(node, worker_id)
            store.nodes.lose(lost, at=now)
            if empty:
                store.requests.lapse(now)  # a set whose time is over requests nothing
            for name in empty:
                store.requests.remove_array(name)
                store.nodes.end_failed(name, at=now)
            for worker_id, by in late.items():
                store.overrides.ask(Verb.DRAIN, who=by, at=now, host=worker_id)
        self._bound = frozenset(found)

    def _report_lapsed(self, snapshot: Snapshot) -> None:
        """Log the request sets that lapsed since the last observation: nobody repeated them in time."""
        before, self._live = self._live, {live.name: live for live in snapshot.requests.sets}
        for name, live in before.items():
            over = live.expires_at is not None and live.expires_at <= snapshot.now
            if over and live.arrays and name not in self._live:
                log.info("request set %s of %s for %s has lapsed", name, live.by, few(live.arrays))

    def _late(self, snapshot: Snapshot) -> dict[str, str]:
        """Machines that came for nodes after a caller had ended these, and the caller's name. A person who enabled such
        a worker is not overruled.
        """
        there = [worker.id for worker in snapshot.fleet.workers if worker.exists]
        return {
            row.node.worker_id: row.ended_by
            for row in self._store.nodes.listed(there)
            if row.ended_at is not None
            and row.node.worker_id is not None
            and not self._store.overrides.ever(Verb.DRAIN, row.node.worker_id)
        }

    def end_all(self, at: float, by: str) -> None:
        """All workers have been given back: end all request sets."""
        with self._store.database.transaction():
            self._store.requests.clear()
            for row in self._store.nodes.listed(()):
                self._store.nodes.end(row.node.id, at=at, by=by)
