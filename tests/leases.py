"""The lease of a cell in memory, and what it and Grid Engine's own have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autoscaler.engine.cell_lease import LeaseStore
from autoscaler.sge.leases import Lease

ANNA = Lease(0, "a1", "master", "root", 11)
BEN = Lease(0, "b2", "shadow", "sgeadmin", 22)


@dataclass
class MemoryLeases:
    """`before`: called before each operation, where another process may interfere."""

    kept: dict[int, Lease] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None

    def numbers(self) -> list[int]:
        self.before()
        return list(self.kept)

    def read(self, number: int) -> Lease | None:
        self.before()
        return self.kept.get(number)

    def add(self, lease: Lease) -> bool:
        self.before()
        return self.kept.setdefault(lease.number, lease) is lease

    def put(self, lease: Lease) -> bool:
        self.before()
        if lease.number not in self.kept:
            return False
        self.kept[lease.number] = lease
        return True

    def drop(self, number: int) -> None:
        self.before()
        self.kept.pop(number, None)

    def drop_before(self, number: int) -> None:
        for older in sorted(self.kept):
            if older < number:
                self.drop(older)


class LeaseStoreContract:
    """A subclass names where leases are stored; there are none at first."""

    def leases(self) -> LeaseStore:
        raise NotImplementedError

    def test_of_two_that_add_one_number_only_the_first_succeeds(self) -> None:
        leases = self.leases()
        added = [leases.add(replace(one, number=7)) for one in (ANNA, BEN)]
        assert (added, leases.numbers(), leases.read(7)) == ([True, False], [7], replace(ANNA, number=7))

    def test_a_missing_lease_is_not_overwritten(self) -> None:
        leases = self.leases()
        assert (leases.numbers(), leases.read(3), leases.put(replace(ANNA, number=3))) == ([], None, False)

    def test_an_overwritten_lease_reads_back(self) -> None:
        leases = self.leases()
        leases.add(replace(ANNA, number=1))
        written = leases.put(replace(ANNA, number=1, beat=41))
        assert (written, leases.read(1)) == (True, replace(ANNA, number=1, beat=41))

    def test_older_leases_are_dropped(self) -> None:
        leases = self.leases()
        for number in (1, 2, 10):
            leases.add(replace(ANNA, number=number))
        leases.drop_before(10)
        leases.drop(3)
        assert (leases.numbers(), leases.read(2), leases.read(10)) == ([10], None, replace(ANNA, number=10))
