"""Callers that MUNGE proves: users of the cell, as submit hosts name them. They may read; managers of Grid Engine may
act.

Every credential is new and must be decoded. Only a few are decoded or wait at once, so that other callers keep their
places; of one address only half of them, and calls that act have places of their own. A credential cannot be guessed,
so a wrong one is charged to nobody: anybody on a submit host could make its users wait by wrong ones.
"""

from __future__ import annotations

import contextlib
import pwd
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.principal import Principal, of_munge
from autoscaler.munge import Call, Undecided, Unproven, uid_of
from autoscaler.process import Runner

AT_ONCE, LINE = 4, 16
"""Credentials decoded at once, and those decoded or waiting; further callers get 503. Calls that act have as many."""
OF_ADDRESS = LINE // 2
"""Of `LINE`, those of one address."""
PATIENCE = 2.0
"""Seconds that a credential waits to be decoded."""


@dataclass(slots=True)
class _Line:
    """Those whose credentials are decoded or wait."""

    _held: Counter[str] = field(default_factory=Counter)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    @contextlib.contextmanager
    def turn(self, address: str) -> Iterator[None]:
        with self._guard:
            if self._held.total() >= LINE or self._held[address] >= OF_ADDRESS:
                raise Undecided("too many logins at the same time; try again")
            self._held[address] += 1
        try:
            if not self._turns.acquire(timeout=PATIENCE):
                raise Undecided("too many logins at the same time; try again")
            try:
                yield
            finally:
                self._turns.release()
        finally:
            with self._guard:
                self._held[address] -= 1
                self._held = +self._held


@dataclass(slots=True)
class MungeLogin:
    """For one process. Any thread may call."""

    socket: Path
    """The daemon's."""
    roles: LocalRoles
    runner: Runner
    _reads: _Line = field(default_factory=_Line)
    _acts: _Line = field(default_factory=_Line)

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

    def turn(self, address: str, *, acts: bool) -> contextlib.AbstractContextManager[None]:
        """Hold one of the `AT_ONCE` places of calls that act, or read. `address`: the caller's. Raises Undecided."""
        return (self._acts if acts else self._reads).turn(address)
