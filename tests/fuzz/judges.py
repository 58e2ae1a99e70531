"""What no input may do: end in an error that is no refusal, hang, take memory without bound, leave a traceback in the
log, or make a plan that goes beyond a limit. Each judge returns what is wrong as text, or an empty text.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from autoscaler.core.actions import Launch, Remove, Reschedule, Terminate, WorkerAction
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.reasons import Code
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.errors import AutoscalerError
from tests.deadlines import THIS

SECONDS = 10.0
"""That one input may take on an idle machine."""
MEMORY = 192 << 20
"""Bytes that one input may take at its height."""
KEPT = 256 << 20
"""Bytes that all inputs together may leave held."""
ADDRESSES = 6 << 30
"""Bytes of addresses that the process gets at all: what asks for more is a finding, and no end of the machine."""

FENCES = (Code.FENCED, Code.TERMINATED_BEFORE_INTERRUPTION)
"""Why a host may end with its machine (rule 1)."""


class Hung(BaseException):
    """An input took too long. No `except Exception` on the way swallows it."""


def outcome_of(run: Callable[[], str | None]) -> tuple[str, str]:
    """The outcome of one input in a word, and what was wrong: '' if it ended in a result or in a refusal."""
    try:
        with _limited(SECONDS):
            return run() or "", ""
    except AutoscalerError:
        return "refused", ""
    except AssertionError as error:
        return "failed", str(error) or "an assertion failed"
    except Hung as error:
        return "failed", f"hangs: {error}"
    except Exception as error:  # noqa: BLE001  # what is looked for
        return "failed", f"{type(error).__name__}: {str(error)[:300]}\n{_where(error)}"


def _where(error: Exception) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/lib/python3" not in each.filename]
    ours = [f"    {frame.filename}:{frame.lineno} {frame.name}" for frame in frames if "/tests/" not in frame.filename]
    return "\n".join(ours[-6:])


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise Hung in here when the time of an idle machine is over."""

    def late(_: int, frame: FrameType | None) -> None:
        where = "".join(traceback.format_stack(frame)[-2:]).strip() if frame else ""
        raise Hung(f"no end after {allowed:.0f} s in {where}")

    allowed = seconds * THIS.slower()
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, allowed)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- memory ------------------------------------------------------------------------------------------------------------


class Memory:
    """How much the process holds, and the most that it held since the last call."""

    def __init__(self) -> None:
        gc.collect()
        self.began = self._before = held()
        _forget_peak()

    def peak(self) -> str:
        """How much the last input took at its peak, beyond what was held before it."""
        grown = held("VmHWM") - self._before
        self._before = held()
        _forget_peak()
        return f"took {grown >> 20} MB" if grown > MEMORY else ""

    def kept(self) -> str:
        """What all inputs together left."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        grown = held() - self.began
        return f"{grown >> 20} MB more are held than at the beginning" if grown > KEPT else ""


def held(what: str = "VmRSS") -> int:
    """Bytes of memory that are held; `VmHWM`: the most since `_forget_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{what}:")[2].split()[0]) << 10


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def bound_addresses() -> None:
    """From now on: an allocation beyond is refused by the kernel."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, hard))


# -- tracebacks -------------------------------------------------------------------------------------


class Tracebacks(logging.Handler):
    """Collects errors that are logged with a traceback, end a thread, or cannot be caught."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._collected: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            error = record.exc_info[1]
            where = _where(error) if isinstance(error, Exception) else ""
            self._collected.append(
                f"traceback in the log of {record.name}: {record.exc_info[0].__name__}: {error}\n{where}"
            )

    def collected(self) -> str:
        collected_now, self._collected = self._collected, []
        return "; ".join(collected_now[:3])

    @contextmanager
    def listening(self) -> Iterator[Tracebacks]:
        root, thread, uncaught = logging.getLogger(), threading.excepthook, sys.unraisablehook
        root.addHandler(self)
        threading.excepthook = lambda given: self._collected.append(f"a thread ended: {given.exc_value!r}")
        sys.unraisablehook = lambda given: self._collected.append(f"nobody caught {given.exc_value!r}")
        try:
            yield self
        finally:
            root.removeHandler(self)
            threading.excepthook, sys.unraisablehook = thread, uncaught


# -- actions -----------------------------------------------------------------------------------------------------------


def beyond_limits(seen: Snapshot, made: Plan) -> str:
    """An action of a plan that no limit allows; written independently of the code that decides."""
    arrays = {array.name: array for array in seen.policy.node_arrays}
    ours, hosts = {worker.id for worker in seen.fleet.workers}, {host.name for host in seen.cluster.hosts}
    for action in made.actions:
        if isinstance(action, WorkerAction | Reschedule) and action.worker_id not in ours:
            return f"{action} is for a worker that is not ours"
        if isinstance(action, Remove) and any(host.name == action.host and host.busy for host in seen.cluster.hosts):
            return f"{action} is for a busy host"
        if isinstance(action, Terminate) and action.reason.code not in FENCES and action.host in hosts:
            return f"{action} is for an execution host"
    launches = [action for action in made.actions if isinstance(action, Launch)]
    if launches and (seen.overrides.paused or seen.overrides.stop):
        return "launches although a person said no"
    wrong = (_array_beyond(seen, arrays[root], launches) for root in arrays if not arrays[root].extends)
    return next((text for text in wrong if text), "") or _cell_beyond(seen, launches)


Sums = tuple[int, int, float]


def _sums(seen: Snapshot, launches: list[Launch]) -> Sums:
    """Workers, cores and price that there would be, whichever of its sets each launch gives."""
    live = [each for each in seen.fleet.workers if each.state is not MachineState.TERMINATED and not each.failure]
    workers, cores, price = (
        len(live),
        sum(each.type.vcpus for each in live),
        sum(each.price_per_hour or 0 for each in live),
    )
    for launch in launches:
        sets = [candidate.offers for candidate in launch.candidates]
        workers += max(sum(offer.count for offer in each) for each in sets)
        cores += max(sum(offer.count * offer.type.vcpus for offer in each) for each in sets)
        price += max(sum(offer.count * (offer.buckets[0].price_per_hour or 0) for offer in each) for each in sets)
    return workers, cores, price


def _over(sums: Sums, most: tuple[int | None, int | None, float | None]) -> str:
    for what, has, may in zip(("workers", "cores", "price an hour"), sums, most, strict=True):
        if may is not None and has > may + 1e-9:
            return f"{has} {what} where {may} are allowed"
    return ""


def _array_beyond(seen: Snapshot, array: NodeArrayPolicy, launches: list[Launch]) -> str:
    """Its limits hold for it and all that stem from it together."""
    extends = {each.name: each.extends for each in seen.policy.node_arrays}

    def stems(name: str) -> bool:
        plain = name.rpartition(GROUPS)[0] or name
        return array.name in (name, plain, extends.get(name), extends.get(plain))

    own = [launch for launch in launches if stems(launch.node_array)]
    if not own:
        return ""
    workers = tuple(each for each in seen.fleet.workers if stems(each.node_array))
    limits = array.limits
    over = _over(
        _sums(replace(seen, fleet=replace(seen.fleet, workers=workers)), own),
        (limits.max_workers, limits.max_cores, limits.max_price_per_hour),
    )
    return f"launches for {array.name}: {over}" if over else ""


def _cell_beyond(seen: Snapshot, launches: list[Launch]) -> str:
    if not launches:
        return ""
    limits = seen.policy.node_arrays[0].limits
    over = _over(_sums(seen, launches), (limits.total_workers, limits.total_cores, limits.total_price_per_hour))
    return f"launches: {over}" if over else ""
