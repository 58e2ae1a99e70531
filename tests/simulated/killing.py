"""Kills the process at any chosen instant: around every outside call that changes something, and every commit.

Between two such instants nothing outside the process changes, so these are all the instants there are. A
read-only call (`qstat`, a listing) leaves nothing behind, and is the same instant as the change before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, Unpack

from autoscaler.core.model.fleet import Bucket, Worker
from autoscaler.process import Completed, Options, Runner, only_reads
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.providers.interface import Launched, LaunchOrder, Problem
from autoscaler.store.database import Database
from autoscaler.store.store import MIGRATIONS, Store
from tests.sge.grid_engine_model import Killed
from tests.simulated.asking import NamesInMemory


@dataclass
class Instants:
    """Counts instants, and kills at those chosen (1 is the first)."""

    killing: frozenset[int] = frozenset()
    names: list[str] = field(default_factory=list)
    dead: bool = False
    """Whatever a dead process would still do on its way out (`finally`) does not happen."""

    def pass_by(self, name: str) -> None:
        if self.dead:
            raise Killed(f"dead already: {name}")
        self.names.append(name)
        if len(self.names) in self.killing:
            self.dead = True
            raise Killed(f"instant {len(self.names)}: {name}")


ONE_OF = 48
"""Of this many instants of which others like them are in a sample, one is in it too."""


def sampled(names: Sequence[str], *, chance: Random, left: Collection[str] = ()) -> list[int]:
    """Instants to be killed at, of those that a life passed by: for each call or commit of a kind one, before it or
    after it, but for kinds that are left to other lives; and some of the others.
    """
    of_kind: dict[str, list[int]] = {}
    for instant, name in enumerate(names, start=1):
        of_kind.setdefault(name.partition(" ")[2], []).append(instant)
    first = {chance.choice(instants) for kind, instants in of_kind.items() if kind not in left}
    others = [instant for instant in range(1, len(names) + 1) if instant not in first]
    return sorted(first.union(chance.sample(others, len(others) // ONE_OF)))


@dataclass(frozen=True)
class MortalRunner:
    """Grid Engine's commands, with an instant on either side of those that change something."""

    inner: Runner
    instants: Instants

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        if only_reads(argv):
            return self.inner(argv, **options)
        self.instants.pass_by(f"before {' '.join(argv[:2])}")
        completed = self.inner(argv, **options)
        self.instants.pass_by(f"after {' '.join(argv[:2])}")
        return completed


@dataclass(frozen=True)
class MortalProvider:
    """A provider with an instant on either side of launching and terminating."""

    inner: FakeProvider
    instants: Instants
    name: ClassVar[str] = "fake"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[FakeSettings]] = FakeSettings

    def buckets(self) -> Sequence[Bucket]:
        return self.inner.buckets()

    def workers(self) -> Sequence[Worker]:
        return self.inner.workers()

    def launch(self, order: LaunchOrder) -> Launched:
        self.instants.pass_by("before launch")
        launched = self.inner.launch(order)
        self.instants.pass_by("after launch")
        return launched

    def terminate(self, ids: Sequence[str]) -> None:
        self.instants.pass_by("before terminate")
        self.inner.terminate(ids)
        self.instants.pass_by("after terminate")

    def check(self) -> Sequence[Problem]:
        return self.inner.check()

    def console(self, worker_id: str) -> str:
        return self.inner.console(worker_id)


@dataclass(frozen=True)
class MortalNames:
    """A hosts file with an instant on either side of every change."""

    inner: NamesInMemory
    instants: Instants

    def locked(self, patience: float) -> AbstractContextManager[None]:
        return self.inner.locked(patience)

    def put(self, addresses: Mapping[str, str]) -> None:
        self.instants.pass_by("before names are put")
        self.inner.put(addresses)
        self.instants.pass_by("after names are put")

    def clear(self) -> None:
        if not self.inner.there:
            return
        self.instants.pass_by("before names are cleared")
        self.inner.clear()
        self.instants.pass_by("after names are cleared")


class MortalDatabase(Database):
    """A database with an instant on either side of every commit that makes anything durable."""

    instants: Instants
    durable = 0

    def _commit(self) -> None:
        changes = self._connection.total_changes
        if changes == self.durable:
            return super()._commit()
        self.durable = changes
        self.instants.pass_by("before commit")
        super()._commit()
        self.instants.pass_by("after commit")
        return None


def mortal_store(path: Path, instants: Instants) -> Store:
    """Opened without harm by a new process; its commits can kill from then on."""
    instants.dead = False
    MortalDatabase.instants = Instants()
    database = MortalDatabase.open(path, MIGRATIONS)
    assert isinstance(database, MortalDatabase)
    database.instants = instants
    return Store(database)
