"""Whether a job or its host is at fault for a failed start, by Grid Engine's number for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Fault(StrEnum):
    """What is at fault for a failed start."""

    HOST = "host"
    EITHER = "host or job"
    AGAIN = "host, where a job fails so again"


FAULTS: Mapping[int, Fault] = MappingProxyType(
    {
        # Before the shepherd ran the job's own part: no request of a job can cause these.
        3: Fault.HOST,  # before writing config: the execd's spool directory
        4: Fault.HOST,  # before writing PID: the execd's spool directory
        6: Fault.HOST,  # setting processor set
        7: Fault.HOST,  # before prolog
        11: Fault.HOST,  # before job
        18: Fault.HOST,  # the shepherd returned an error
        19: Fault.HOST,  # before writing exit_status: the shepherd died
        21: Fault.HOST,  # in recognizing job: the execd lost it
        29: Fault.HOST,  # AFS setup
        31: Fault.HOST,  # accessing sgepasswd file
        34: Fault.HOST,  # helper service
        35: Fault.HOST,  # helper service
        36: Fault.HOST,  # configured remote startup daemon
        38: Fault.HOST,  # adding supplementary group: gid_range
        # Either the shepherd cannot be started, and the job goes back to the queue; or the host does not know the user,
        # and the job is set in error. Only the former fails again.
        1: Fault.AGAIN,  # assumedly before job
        # The administrator's script; but unless root runs it, it has the job's environment, and the job's LD_PRELOAD or
        # BASH_ENV may end it. The job goes back to the queue.
        8: Fault.AGAIN,  # in prolog
        # Something that the job asked for is missing: it may be misspelt, or a mount may be missing on this host.
        9: Fault.EITHER,  # before pestart
        10: Fault.EITHER,  # in pestart: the parallel environment's script, which sees the job's environment
        20: Fault.EITHER,  # an unexpected error file
        26: Fault.EITHER,  # opening output file
        27: Fault.EITHER,  # searching requested shell
        28: Fault.EITHER,  # changing to working directory
        32: Fault.EITHER,  # entry is missing in password file
        33: Fault.EITHER,  # wrong password
    }
)
"""By Grid Engine's number (`failed`). All other numbers show nothing about the host: the job ran and was ended by a
signal or its owner (17, 100), by a limit (37) or to be started again (24, 25, 30), or something after it failed (12 to
16).
"""


def fault_of(failed: str) -> Fault | None:
    """The fault by the number at the beginning of the text (`28 : changing to working directory`)."""
    number = failed.partition(":")[0].strip()
    return FAULTS.get(int(number)) if number.isdecimal() else None
