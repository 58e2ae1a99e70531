"""Lets a worker delete its own machine, and no other: a role for its own identity, on that machine alone.

A machine of Azure is paid for even when it is shut down, so a worker that finds no master must be able to request its
own end. A new identity is not known everywhere at once, and a process may be killed between making a machine and
granting the role: later listings try missing grants again.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial

from autoscaler.background import Executor
from autoscaler.providers.azure.calls import Calls, Record
from autoscaler.providers.azure.errors import AlreadyGranted
from autoscaler.providers.azure.listing import unix_time
from autoscaler.providers.interface import ProviderError, Throttled, Unreachable

VERSION = "2022-04-01"
TRIED_FOR = 3600.0
"""Seconds after a machine's creation in which its grant is tried. After that it is there, or is refused for good."""
AGAIN_AFTER = 5.0
_GRANTS = uuid.UUID("0e0a2a57-5f7c-5b0a-9a3f-6d1f2c7b4e55")

log = logging.getLogger(__name__)


class Grants:
    """Which machines have their role, as far as this process knows. Safe to be used by several threads."""

    def __init__(self, calls: Calls, executor: Executor, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls, self._executor, self._clock = calls, executor, clock
        self._settled: set[str] = set()
        self._tried_at: dict[str, float] = {}
        self._under_way: Future[None] | None = None
        self._guard = threading.Lock()

    def of_new(self, name: str, machine: Record) -> None:
        """Grant it to a machine that was just made."""
        if self._wanted(name, machine):
            self._grant(name, machine)

    def of_listed(self, machines: Iterable[Record]) -> None:
        """Try again for young machines that are not known to have it, off the caller's thread."""
        if self._under_way is not None and not self._under_way.done():
            return
        now = time.time()
        open_ = [
            (str(machine["name"]), machine)
            for machine in machines
            if now - unix_time(machine["properties"]["timeCreated"]) < TRIED_FOR
        ]
        due = [(name, machine) for name, machine in open_ if self._wanted(name, machine) and self._due(name)]
        if due:
            self._under_way = self._executor(partial(self._grant_all, due), "grants")

    def _wanted(self, name: str, machine: Record) -> bool:
        known = (machine.get("identity") or {}).get("principalId")
        return bool(self._calls.settings.worker_role and known) and name not in self._settled

    def _due(self, name: str) -> bool:
        return self._clock() - self._tried_at.get(name, float("-inf")) >= AGAIN_AFTER

    def _grant_all(self, due: Iterable[tuple[str, Record]]) -> None:
        for name, machine in due:
            self._grant(name, machine)

    def _grant(self, name: str, machine: Record) -> None:
        """A failure is logged: the machine works all the same, and the master ends it as usual."""
        role, scope = self._calls.settings.worker_role, str(machine["id"])
        # The caller chooses the id of a role assignment: the same one each time makes a repetition harmless.
        path = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{uuid.uuid5(_GRANTS, f'{scope} {role}')}"
        principal = machine["identity"]["principalId"]
        # Without principalType Azure looks up the identity in its directory, where a new one may be missing.
        properties = {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}
        try:
            self._calls.put(path, VERSION, {"properties": properties})
        except AlreadyGranted:
            pass
        except (Unreachable, Throttled) as error:
            with self._guard:
                self._tried_at[name] = self._clock()
            log.info("worker %s cannot delete itself yet if its master is gone: %s", name, error)
            return
        except ProviderError as error:
            log.warning("worker %s cannot delete itself if its master is gone: %s", name, error)
        with self._guard:
            self._settled.add(name)
            self._tried_at.pop(name, None)
