"""Who calls by MUNGE: a user of the cell, as far as a submit host may say so. They look; who manages Grid Engine acts.

Each credential is new, so each is decoded. Few are at once, and few wait for that: callers of other kinds keep their
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
"""So many are judged at once, and so many wait or are judged; further ones are told to ask again."""
PATIENCE = 2.0
"""Seconds that one waits for its turn."""


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
        """Whose credential this is. `address`: at which the call came in. Raises Unproven, Undecided."""
        with self._turn():
            uid = uid_of(self.runner, self.socket, given, call)
            if not call.meant_for(address):
                raise Unproven(f"this credential is for {call.host}, which this machine is not called here")
            try:
                return of_munge(pwd.getpwuid(uid).pw_name)
            except KeyError:
                raise Unproven(f"no user of the autoscaler's machine has the uid {uid}") from None

    def manages(self, name: str) -> bool:
        """Whether this user is a manager of Grid Engine. Raises Undecided."""
        with self._turn():
            return self.roles.manages(name)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            if not self._line.acquire(blocking=False):
                raise Undecided("too many ask at once")
            held.callback(self._line.release)
            if not self._turns.acquire(timeout=PATIENCE):
                raise Undecided("too many ask at once")
            held.callback(self._turns.release)
            yield
