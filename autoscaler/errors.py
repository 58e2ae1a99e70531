"""Every error this project raises on purpose, drawn as one tree.

A message says what happened, to what, and what to do. `exit_code` is what the command line returns for it.

    AutoscalerError                     1
    ├── SettingsError                   2  a setting, option or document is wrong
    ├── NotFound                        3  a job, host, worker or record does not exist
    ├── NotObservable                   4  the world could not be read: nothing is decided on it
    │   ├── GridEngineNotObservable     4
    │   └── ProviderNotObservable       4
    ├── LockHeld                        5  another autoscaler serves this cell
    ├── StateNotKept                    7  our own state cannot be read or written
    │   └── StateReplaced               7  another file is in its place
    ├── WriteRefused                    1  a read-only runner or provider was asked to change something
    ├── GridEngineRefused               1  Grid Engine said no to a change
    ├── HostsFileUnusable               1  names of hosts to be cannot be made to resolve
    └── CommandError                    1
        ├── CommandTimedOut             1
        ├── CommandNotFound             1
        └── CommandNotStarted           1

Errors of providers (`OutOfCapacity`, …) stand in `autoscaler.providers.interface`: they are part of that contract.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a message about an unknown name: the known one that is close to it, else all. `prefix`: of each."""
    names = tuple(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else f"known are {', '.join(prefix + each for each in names)}"


MAKE_ROOM = "make room there"
WRITABLE = "its file system is read-only: examine the disk (`dmesg`), and mount it for writing again"
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Numbers of an OSError that is no defect: the place cannot be written to now."""


class AutoscalerError(Exception):
    """Base of all; never raised itself."""

    exit_code = 1


class SettingsError(AutoscalerError):
    """A setting, command-line option or document is wrong; the message names it and says what to write instead."""

    exit_code = 2


class NotFound(AutoscalerError):
    """What a caller asked for does not exist."""

    exit_code = 3


class NotObservable(AutoscalerError):
    """A reading failed, was empty although it cannot be, or hung. The pass does nothing and says so (rule 2)."""

    exit_code = 4


class GridEngineNotObservable(NotObservable):
    """qstat, qhost or qconf gave no usable answer."""


class ProviderNotObservable(NotObservable):
    """The provider gave no complete list of workers or buckets."""


class LockHeld(AutoscalerError):
    """Another autoscaler holds this cell's lock; the message says which process on which host."""

    exit_code = 5


class StateNotKept(AutoscalerError):
    """Our own state cannot be read or written (a full disk): no action begins that cannot be journalled. It may be a
    matter of time: the unit starts the service again.
    """

    exit_code = 7


class StateReplaced(StateNotKept):
    """Another file is in the place of our state: a process that begins anew uses that one."""


class WriteRefused(AutoscalerError):
    """A dry run tried to change something: a defect of ours, never of the user's."""


class GridEngineRefused(AutoscalerError):
    """Grid Engine refused a change; the message carries its own words."""


class HostsFileUnusable(AutoscalerError):
    """The hosts file cannot be locked or changed, so Grid Engine cannot be asked with probe hosts: the job stays
    unproven.
    """


class CommandError(AutoscalerError):
    """An external command could not be run to its end."""


class CommandTimedOut(CommandError):
    """The command did not end within its timeout and was killed with its process group."""


class CommandNotFound(CommandError):
    """The command is not installed or not on PATH."""


class CommandNotStarted(CommandError):
    """The system could not start the command now (no process, memory or descriptor is left), or not with these
    arguments. Later it may.
    """
