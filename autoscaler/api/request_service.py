"""Requests for node arrays, whichever way callers send them: update, show, end.

It takes a JSON document and returns a status and a document. It only writes to the store and wakes the loop, which
reads the store in its next pass.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from autoscaler.constraints.documents import known, table
from autoscaler.constraints.json_text import read_json
from autoscaler.constraints.request_documents import DEFAULT_EXPIRATION, WANTING, Caller, ask
from autoscaler.core.model.request_sets import STANDARD
from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.report.requests import requests_document
from autoscaler.report.wording import few
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.requests")

LONGEST_DOCUMENT = 1 << 20
"""Bytes of one update."""
NO_LOOP = "no autoscaler serves this cell now: the request is stored, and `sge-autoscaler run` acts on it"
STOPPING = "the autoscaler is giving all workers back (`sge-autoscaler stop`), including those of new requests"
Answer = tuple[HTTPStatus, dict[str, Any]]


class NotYours(AutoscalerError):
    """A caller tried to change another caller's request."""


@dataclass(frozen=True, slots=True)
class RequestService:
    """The calls of one cell. Any thread may call."""

    store: Store
    node_arrays: Callable[[], Sequence[str]]
    """Names of the node arrays of the settings, in their order."""
    clock: Callable[[], float] = time.time
    ring: Callable[[], None] = lambda: None
    """Wakes the loop."""
    loop_runs: Callable[[], bool] = lambda: True
    offered: Callable[[], frozenset[str]] = frozenset
    """Names of all instance types that the provider offers; empty if not known."""
    cluster: str = ""
    """The cluster's name; '': callers may give any."""

    def update(self, body: str | bytes, by: str, *, own_only: bool = False) -> Answer:
        """Replace all targets of a set: `{"arrays": […], "request_set": …, "expiration_interval": …}`. `own_only`:
        refuse a set of another caller.
        """
        return self._answered(lambda: self._update(body, by, own_only))

    def show(self) -> Answer:
        """Every live request, and what each node array has now."""
        now = self.clock()
        return self._answered(
            lambda: requests_document(
                self.store.requests.load(now), now, self.store.history.living(), offered=self.offered()
            )
        )

    def settings(self) -> Answer:
        """The settings of the autoscaler, without secrets, by environment name."""
        return self._answered(lambda: dict(self.store.service_settings.load() or {}))

    def end(self, set_name: str, by: str, *, own_only: bool = False) -> Answer:
        """End a set. `own_only`: refuse a set of another caller."""

        def end_set() -> dict[str, Any]:
            self._refuse_foreign(set_name, by if own_only else None)
            ended = self.store.requests.end(set_name)
            if ended:
                log.info("%s ended request set %s", by, set_name)
                self.ring()
            return {"request_set": set_name, "ended": ended}

        return self._answered(end_set)

    def _update(self, body: str | bytes, by: str, own_only: bool) -> dict[str, Any]:
        given = table(read_json(_text(body)), "the request")
        for name in given:
            known(name, ("arrays", "request_set", "expiration_interval"), "the request")
        if "arrays" not in given:
            raise SettingsError('the request: "arrays" is missing: the list of node arrays')
        set_name, interval = given.get("request_set"), given.get("expiration_interval")
        set_name = STANDARD if set_name is None else set_name
        interval = DEFAULT_EXPIRATION if interval is None else interval  # a null must not mean without end
        self._refuse_foreign(set_name, by if own_only else None)
        if own_only:
            self._refuse_defining(given["arrays"], by)
        now = self.clock()
        asked = ask(
            self.store,
            given["arrays"],
            Caller(by, now, self.node_arrays(), self.cluster),
            request_set=set_name,
            expiration_interval=interval,
        )
        arrays = [definition.name for definition in asked.definitions]
        if asked.news:
            log.info("%s requests as request set %s: %s", by, set_name, few(arrays) or "nothing")
            self.ring()
        note = STOPPING if self.store.overrides.load().stop else "" if self.loop_runs() else NO_LOOP
        named = (name for definition in asked.definitions for name in definition.machine_types)
        note = "; ".join(filter(None, (note, not_offered(named, self.offered()))))
        return {"request_set": set_name, "expires_at": now + float(interval), "arrays": arrays, "note": note}

    def _refuse_foreign(self, set_name: Any, by: str | None) -> None:
        sets = () if by is None else self.store.requests.load(self.clock()).sets
        other = next((one.by for one in sets if one.name == set_name and one.by != by), None)
        if other is not None:
            raise NotYours(f"request set {set_name} was requested by {other}: only they, or an admin, may change it")

    def _refuse_defining(self, arrays: Any, by: str) -> None:
        """Refuse definitions (`MaxCount`, `MachineType`, `KeepAlive` …), which hold for all users of an array: of
        arrays of the settings, and of those that others request, only an admin may set them.
        """
        named = [one for one in arrays if isinstance(one, dict)] if isinstance(arrays, list) else []
        sets = self.store.requests.load(self.clock()).sets
        whose = {name: f"that {one.by} requests" for one in sets if one.by != by for name in one.arrays}
        whose |= dict.fromkeys(self.node_arrays(), "of the settings")
        for one in named:
            defining, name = sorted(one.keys() - {*WANTING}), str(one.get("Name"))
            if defining and name in whose:
                raise NotYours(f"{name} is a node array {whose[name]}: only an admin may set {', '.join(defining)}")

    def _answered(self, do: Callable[[], dict[str, Any]]) -> Answer:
        try:
            return HTTPStatus.OK, do()
        except NotYours as error:
            return HTTPStatus.FORBIDDEN, {"error": str(error)}
        except SettingsError as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except AutoscalerError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}


def not_offered(named: Iterable[str], offered: Collection[str]) -> str:
    """A sentence about machine types that the provider does not offer; '' if it offers all, or its offers are not
    known.
    """
    strange = [name for name in dict.fromkeys(named) if name not in offered] if offered else []
    names = []
    for name in strange:
        close = difflib.get_close_matches(name, sorted(offered), 1, cutoff=0.8)
        names.append(name + (f" (did you mean {close[0]}?)" if close else ""))
    return f"the provider does not offer {', '.join(names)}: requests get no worker of that type" if names else ""


def _text(body: str | bytes) -> str:
    if isinstance(body, str):
        return body
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"the request: it is not UTF-8 text, because of byte {error.start}") from error
