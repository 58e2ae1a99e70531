"""Where the autoscaler meets the world: its Runner and its Provider, with troubles on the way.

The rules are notified of every call that reads or changes something, and every change may be the last one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from autoscaler.core.model.fleet import Bucket, Interruption, Worker
from autoscaler.errors import CommandTimedOut
from autoscaler.process import Completed, only_reads
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.providers.interface import Launched, LaunchOrder, Problem
from tests.sge.grid_engine_model import each_switch

if TYPE_CHECKING:
    from tests.soak.world import World

UNSEEN = ("slow", "flip", "stale")
"""Troubles that do not make an observation a failed one: they cannot be noticed, or change nothing."""
SOME = "qstat -u"
"""The part of an observation that lists what jobs of some owners request."""
UNREACHABLE = b"error: commlib error: got select error (Connection refused)"


@dataclass
class Troubles:
    """What the next calls meet, first come first served."""

    reading: list[tuple[str, str]] = field(default_factory=list)
    """Which command (`qstat`, `qhost`, `qconf`), and `fail`, `empty`, `cut`, `hang`, `slow`, `flip` or `stale`."""
    changing: list[str] = field(default_factory=list)
    """`deny`, `fail`, `hang` (nothing happened) or `lost` (it happened)."""
    hidden: dict[str, float] = field(default_factory=dict)
    """Worker ids that listings leave out, until when."""
    cut_at: float = 0.5
    flips: int = 0
    """Chooses which characters of an answer are changed."""
    last: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What was answered to each question before."""
    met: bool = False
    """Whether anything was met since that was last asked."""

    def of_reading(self, program: str) -> str:
        for number, (at, how) in enumerate(self.reading):
            if at == program:
                del self.reading[number]
                return how
        return ""

    def clear(self) -> None:
        self.reading.clear()
        self.changing.clear()
        self.hidden.clear()


@dataclass(frozen=True)
class FaultyRunner:
    """Grid Engine's commands."""

    world: World

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        self.world.call()
        if only_reads(argv):
            return self._read(tuple(argv), timeout)
        return self._change(tuple(argv), timeout)

    def _read(self, argv: tuple[str, ...], timeout: float) -> Completed:
        world = self.world
        part = part_of(argv)
        trouble = world.troubles.of_reading("qstat" if part == SOME else part)
        if trouble:
            world.injected[f"{part}: {trouble}"] += 1
            world.troubles.met = True
        if trouble == "slow":
            world.rest(timeout - 1)
        if trouble != "hang" or not _may_take_too_long(argv):
            world.rules.reads(part, damaged="" if trouble in UNSEEN else trouble)
        if trouble == "hang":
            world.rest(timeout)
            raise CommandTimedOut(f"{argv[0]} did not end within {timeout:g} s")
        if trouble == "fail":
            return Completed(argv, 1, b"", UNREACHABLE, 0.01)
        code, text = each_switch(world.cell.answer, argv)
        if trouble in ("flip", "stale"):
            world.rules.observation.guessed = True
            text = flipped(text, world.troubles.flips) if trouble == "flip" else world.troubles.last.get(argv, text)
        elif part in ("qstat", SOME, "qhost"):
            world.troubles.last[argv] = text
        if argv[:3] == ("qalter", "-w", "v") and not trouble:
            world.rules.jobs.reads_answer(argv, text)
        if trouble == "empty":
            text = ""
        if trouble == "cut":
            text = text[: int((len(text) - 30) * world.troubles.cut_at)]
        return _completed(argv, code, text)

    def _change(self, argv: tuple[str, ...], timeout: float) -> Completed:
        world = self.world
        trouble = world.troubles.changing.pop(0) if world.troubles.changing else ""
        if trouble:
            world.injected[f"change: {trouble}"] += 1
            world.troubles.met = True
        world.instants.pass_by(f"before {' '.join(argv[:2])}")
        for one in of_each_host(argv):
            world.rules.changes_host(one)
        if trouble == "fail":
            return Completed(argv, 1, b"", UNREACHABLE, 0.01)
        if trouble == "deny":
            return Completed(argv, 1, b"", b"denied: the administrator said no", 0.01)
        if trouble == "hang":
            world.rest(timeout)
            raise CommandTimedOut(f"{argv[0]} did not end within {timeout:g} s")
        code, text = world.cell.change(argv)
        world.pass_by()
        if trouble == "lost":
            world.rest(timeout)
            raise CommandTimedOut(f"{argv[0]} did not end within {timeout:g} s")
        world.instants.pass_by(f"after {' '.join(argv[:2])}")
        return _completed(argv, code, text)


def of_each_host(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The same change as several commands about one host each."""
    match argv:
        case ("qmod", "-d" | "-e" as switch, *targets):
            return [("qmod", switch, target) for target in targets]
        case ("qconf", "-Ae", *words):
            return [("qconf", "-Ae", file) for file in words if file != "-Ae"]
        case ("qconf", "-aattr" | "-dattr" as switch, "hostgroup", "hostlist", names, group):
            return [("qconf", switch, "hostgroup", "hostlist", name, group) for name in names.split()]
        case ("qconf", "-de" | "-ds" | "-dh" | "-dconf" as switch, names):
            return [("qconf", switch, name) for name in names.split(",")]
        case ("qconf", "-rattr", "exechost", "complex_values", values, *names):
            return [("qconf", "-rattr", "exechost", "complex_values", values, name) for name in names]
        case ("qconf", "-rattr", "queue", "slots", entries, queue) if entries.startswith("["):
            given = (entry.strip("[]").split("=") for entry in entries.split(","))
            return [("qconf", "-rattr", "queue", "slots", slots, f"{queue}@{name}") for name, slots in given]
        case _:
            return [argv]


def flipped(text: str, seed: int) -> str:
    """With a few bits of it the other way round."""
    chance, data = random.Random(seed), bytearray(text.encode())
    for _ in range(chance.choice((1, 1, 3, 20))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(7)
    return data.decode("utf-8", "replace")


def _completed(argv: tuple[str, ...], code: int, text: str) -> Completed:
    output, error = (b"", text.encode()) if code and argv[0] == "qconf" else (text.encode(), b"")
    return Completed(argv, code, output, error, 0.01)


def part_of(argv: tuple[str, ...]) -> str:
    """The part of an observation that this command reads."""
    match argv:
        case ("qstat", "-j", *_):
            return "qstat -j"
        case ("qstat", "-u", owners, *_) if owners != "*":
            return SOME
        case _:
            return argv[0]


def _may_take_too_long(argv: tuple[str, ...]) -> bool:
    """Whether its owners decide how long it takes: then an observation is whole without an answer (decision 81). All
    jobs must be listed all the same, at least without what they request.
    """
    return argv[0] == "qstat" and (argv[1] == "-j" or "-r" in argv)


class FaultyProvider:
    """A provider whose cloud has troubles of its own, and whose listings may leave workers out for a while."""

    name: ClassVar[str] = "fake"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[FakeSettings]] = FakeSettings

    def __init__(self, world: World) -> None:
        self.world = world
        self.inner = FakeProvider(FakeSettings(), cell=world.tag, cloud=world.cloud)

    def buckets(self) -> Sequence[Bucket]:
        self._notify_read("buckets")
        return self.world.offered(self.inner.buckets())

    def workers(self) -> Sequence[Worker]:
        self._notify_read("workers")
        hidden, now = self.world.troubles.hidden, self.world.clock.now
        workers = [worker for worker in self.inner.workers() if now >= hidden.get(worker.id, 0.0)]
        self.world.rules.lists(workers)
        return workers

    def launch(self, order: LaunchOrder) -> Launched:
        world = self.world
        world.call()
        world.instants.pass_by("before launch")
        world.rules.orders_machines(order)
        before = {machine.id for machine in world.living}
        types = [bucket.type.name for bucket in order.buckets]
        try:
            launched = self.inner.launch(order)
        except Exception:
            world.rules.retries.fails(types)
            raise
        finally:
            world.rules.launched(order, [machine for machine in world.living if machine.id not in before], before)
        if launched.shortfalls:
            world.rules.retries.fails(types)
        world.instants.pass_by("after launch")
        return launched

    def terminate(self, ids: Sequence[str]) -> None:
        world = self.world
        world.call()
        world.instants.pass_by("before terminate")
        world.rules.terminates(ids)
        self.inner.terminate(ids)
        world.instants.pass_by("after terminate")

    def check(self) -> Sequence[Problem]:
        return self.inner.check()

    def console(self, worker_id: str) -> str:
        return self.inner.console(worker_id)

    def interruptions(self) -> Sequence[Interruption]:
        return self.inner.interruptions()

    def _notify_read(self, part: str) -> None:
        faults = self.world.cloud.faults
        broken = bool(faults.unreachable or faults.throttled or (part == "workers" and faults.malformed))
        self.world.rules.reads(part, damaged="unreachable" if broken else "")
