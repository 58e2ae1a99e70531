"""Callers that MUNGE proves: users of the cell, as submit hosts name them. They may read; managers of Grid Engine may
act.

Every credential is new and must be decoded. Only a few are decoded or wait at once, so that other callers keep their
places.
"""

from __future__ import annotations

import contextlib
import pwd
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.principal import Principal, of_munge
from autoscaler.munge import Call, Undecided, Unproven, uid_of
from autoscaler.process import Runner

AT_ONCE, LINE = 4, 16
"""Credentials decoded at once, and those decoded or waiting; further callers get 503."""
PATIENCE = 2.0
"""Seconds that a credential waits to be decoded."""


@dataclass(slots=True)
class MungeLogin:
    """For one process. Any thread may call."""

    socket: Path
    """The daemon's."""
    roles: LocalRoles
    runner: Runner
    _line: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(LINE))
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def caller(self, given: str, call: Call, address: str) -> Principal:
        """The user of a credential; call it within `turn`. `address`: where the call came in. Raises Unproven,
        Undecided.
        """
        uid = uid_of(self.runner, self.socket, given, call)
        if not call.meant_for(address):
            raise Unproven(f"this credential is for {call.host}, which this machine is not called here")
        try:
            return of_munge(pwd.getpwuid(uid).pw_name)
        except KeyError:
            raise Unproven(f"no user of the autoscaler's machine has the uid {uid}") from None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold one of the `AT_ONCE` places. Raises Undecided."""
        with contextlib.ExitStack() as held:
            if not self._line.acquire(blocking=False):
                raise Undecided("too many logins at the same time; try again")
            held.callback(self._line.release)
            if not self._turns.acquire(timeout=PATIENCE):
                raise Undecided("too many logins at the same time; try again")
            held.callback(self._turns.release)
            yield
