"""Roles of local users at the Unix socket: every user may read; root, the user of the service, members of the
configured group and Grid Engine's managers may do everything.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from autoscaler.api.principal import Role
from autoscaler.errors import AutoscalerError

FRESH = 60.0
"""Seconds for which a manager counts as one without asking Grid Engine again, and for which it is not asked again after
it did not answer.
"""
FRESH_FOR_OTHERS = 5.0
"""The same for a user who is none, and may just have become one."""
PATIENCE = 2.0
"""Seconds that a caller waits while Grid Engine is asked for another one."""
_ASKED = "Grid Engine has not answered yet"


@dataclass(slots=True)
class LocalRoles:
    """Any thread may call. `managers` is called for users without another right, once in `FRESH_FOR_OTHERS` at most."""

    group: int | None = None
    """Gid of the group whose members may call."""
    managers: Callable[[], Collection[str]] = tuple
    """Names of Grid Engine's managers (`qconf -sm`). May raise AutoscalerError."""
    stopwatch: Callable[[], float] = time.monotonic
    unread: str = ""
    """Why Grid Engine's managers are not known; '' if they are."""
    _known: frozenset[str] = frozenset()
    _read_at: float | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def role(self, uid: int | None, groups: Collection[int] = ()) -> Role:
        """The role that follows from user and groups alone, without asking Grid Engine."""
        trusted = uid in (0, os.geteuid()) or (self.group is not None and self.group in groups)
        return Role.ADMIN if trusted else Role.READER

    def manages(self, name: str) -> bool:
        """Whether this user is a manager of Grid Engine; False while Grid Engine does not answer. If qmaster hangs,
        only one caller waits for it.
        """
        if not self._guard.acquire(timeout=PATIENCE):
            return False
        try:
            now = self.stopwatch()
            fresh = FRESH if self.unread or name in self._known else FRESH_FOR_OTHERS
            if self._read_at is None or now - self._read_at >= fresh:
                self._read_at, self.unread = now, _ASKED
                try:
                    self._known, self.unread = frozenset(self.managers()), ""
                except AutoscalerError as error:
                    self._known, self.unread = frozenset(), str(error)
            return name in self._known
        finally:
            self._guard.release()
