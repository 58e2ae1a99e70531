"""Callers that MUNGE proves: users of the cell, as submit hosts name them. They may read; managers of Grid Engine may
act.

Every credential is new and must be decoded. Only a few are decoded or wait at once, so that other callers keep their
places; of one address only half of them, and calls that act have places of their own. A credential cannot be guessed,
so a wrong one is charged to nobody: anybody on a submit host could make its users wait by wrong ones. Nor does anything
tell a wrong one before it is decoded, so nobody holds a place against those who come later.
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
"""Credentials decoded at once, and those decoded or waiting; who gives way gets 503. Calls that act have as many."""
OF_ADDRESS = LINE // 2
"""Of `LINE`, those of one address."""
PATIENCE = 2.0
"""Seconds that a credential waits to be decoded."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call whose credential waits to be decoded."""

    address: str
    told: threading.Event = field(default_factory=threading.Event)
    has_turn: bool = False


@dataclass(slots=True)
class _Line:
    """Those whose credentials are decoded or wait. The newest of the address that has the fewest is next, and where
    there is no room the oldest of the address that has the most gives way: so those who come without a pause push out
    each other, and whoever comes in between has a turn at once, or after trying again.
    """

    _decoded: Counter[str] = field(default_factory=Counter)
    """By address, those whose credentials are decoded now."""
    _waiting: list[_Waiting] = field(default_factory=list)
    """The oldest first."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def turn(self, address: str) -> Iterator[None]:
        with self._guard:
            waits = self._decoded.total() >= AT_ONCE
            if waits:
                self._make_room(address)
                own = _Waiting(address)
                self._waiting.append(own)
            else:
                self._decoded[address] += 1
        if waits:
            own.told.wait(PATIENCE)
            with self._guard:
                if own in self._waiting:
                    self._waiting.remove(own)
                if not own.has_turn:
                    raise Undecided("too many logins at the same time; try again")
        try:
            yield
        finally:
            self._next(address)

    def _make_room(self, address: str) -> None:
        held = self._decoded + Counter(each.address for each in self._waiting)
        if held.total() >= LINE:
            ours = Counter({address: 1})  # of two addresses that have as many, the other one gives way
            most = max((each.address for each in self._waiting), key=lambda each: (held[each], -ours[each]))
        elif held[address] >= OF_ADDRESS:
            most = address
        else:
            return
        oldest = next((each for each in self._waiting if each.address == most), None)
        if oldest is None:
            raise Undecided("too many logins at the same time; try again")
        self._waiting.remove(oldest)
        oldest.told.set()

    def _next(self, address: str) -> None:
        with self._guard:
            self._decoded[address] -= 1
            self._decoded = +self._decoded
            if not self._waiting:
                return
            following = min(reversed(self._waiting), key=lambda each: self._decoded[each.address])
            self._waiting.remove(following)
            following.has_turn = True
            self._decoded[following.address] += 1
            following.told.set()


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
