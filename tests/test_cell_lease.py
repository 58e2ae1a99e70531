"""One autoscaler a cell, on whichever machine it runs."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.engine.cell_lease import EXPIRES, RENEW, VALID, CellLease, own_lease
from autoscaler.errors import AutoscalerError, CommandNotStarted, GridEngineRefused, LockHeld, NotObservable
from autoscaler.sge.leases import Lease
from autoscaler.supervised import troubles
from tests.deadlines import wait_for
from tests.leases import ANNA, BEN, LeaseStoreContract, MemoryLeases


class TestMemoryLeases(LeaseStoreContract):
    def leases(self) -> MemoryLeases:
        return MemoryLeases()


@dataclass
class Machines:
    """Two machines of one cell, each with an independent clock."""

    leases: MemoryLeases = field(default_factory=MemoryLeases)
    now: float = 0.0

    def autoscaler(self, own: Lease, ahead: float = 0.0, minute: int = 1) -> CellLease:
        return CellLease(self.leases, own, clock=lambda: self.now + ahead, minute=lambda: minute)


def acts(lease: CellLease) -> bool:
    """Whether a pass would act now."""
    try:
        lease.check()
    except (LockHeld, NotObservable):
        return False
    return True


@pytest.fixture
def machines() -> Machines:
    return Machines()


def test_the_first_autoscaler_acts_and_the_second_is_refused_once_the_first_is_seen(machines: Machines) -> None:
    first, second = machines.autoscaler(ANNA), machines.autoscaler(BEN, ahead=-86_400)
    both = acts(first), acts(second)
    machines.now += RENEW
    first.step()
    with pytest.raises(LockHeld, match="process 11 of root on master"):
        second.check()
    assert both == (True, False)


@pytest.mark.parametrize(("first_pid", "taken"), ((os.getpid(), False), (2**22 + 1, True)), ids=("alive", "dead"))
def test_on_one_machine_too_only_one_acts_while_the_other_is_alive(
    machines: Machines, first_pid: int, taken: bool
) -> None:
    """The lock excludes a second one, until its file is deleted."""
    first, second = machines.autoscaler(replace(ANNA, pid=first_pid)), machines.autoscaler(replace(ANNA, pid=12))
    assert (acts(first), acts(second)) == (True, taken)


def test_a_lease_that_is_renewed_never_expires(machines: Machines) -> None:
    first, second = machines.autoscaler(ANNA), machines.autoscaler(BEN)
    first.check()
    acts(second)
    for _ in range(20):
        machines.now += RENEW
        first.step()
        assert (acts(first), acts(second)) == (True, False)


def test_an_expired_lease_is_taken_by_the_clock_of_the_watcher(machines: Machines) -> None:
    first, second = machines.autoscaler(ANNA, ahead=1e9), machines.autoscaler(BEN)
    first.check()
    results = [acts(second)]
    machines.now += EXPIRES - 1
    results.append(acts(second))
    machines.now += 1
    results.append(acts(second))
    assert results == [False, False, True]


def test_a_suspended_holder_does_not_act_after_another_took_the_lease(machines: Machines) -> None:
    first, second = machines.autoscaler(ANNA), machines.autoscaler(BEN)
    first.check()
    acts(second)
    machines.now += EXPIRES
    assert acts(second)
    with pytest.raises(LockHeld, match="process 22 of sgeadmin on shadow"):
        first.check()


def test_without_grid_engine_a_lease_ends_for_its_holder_before_it_does_for_others(
    machines: Machines,
) -> None:
    lease = machines.autoscaler(ANNA)
    lease.check()

    def away() -> None:
        raise NotObservable("no answer")

    machines.leases.before = away
    machines.now += VALID - 1
    before = acts(lease)
    machines.now += 1
    after = acts(lease)
    machines.leases.before = lambda: None
    assert (before, after, acts(lease), VALID < EXPIRES) == (True, False, True, True)


def test_the_next_process_on_the_same_machine_does_not_wait(machines: Machines) -> None:
    machines.autoscaler(ANNA).check()
    assert acts(machines.autoscaler(replace(ANNA, pid=12)))


def test_an_ending_holder_leaves_no_lease_behind(machines: Machines) -> None:
    with machines.autoscaler(ANNA).kept() as lease:
        lease.check()
    left = dict(machines.leases.kept)
    assert (left, acts(machines.autoscaler(BEN))) == ({}, True)


def test_a_holder_that_returns_late_never_renews_the_lease_of_a_later_one(machines: Machines) -> None:
    """Between the two nobody had the lease, so that its numbers began anew."""
    late, between, later = (machines.autoscaler(own, minute=at) for own, at in ((ANNA, 7), (BEN, 8), (BEN, 9)))
    late.check()
    acts(between)
    machines.now += EXPIRES
    between.check()
    between._give_back()
    later.check()
    assert (acts(late), acts(later)) == (False, True)


def test_a_lease_of_a_lower_number_that_stayed_does_not_keep_the_next_one_away(machines: Machines) -> None:
    """A process that is killed while it takes the lease leaves the one before."""
    machines.autoscaler(ANNA, minute=5).check()
    machines.leases.kept[3] = replace(BEN, number=3, holder="c3")
    other = machines.autoscaler(BEN)
    before = acts(other)
    machines.now += EXPIRES
    assert (before, acts(other), sorted(machines.leases.kept)) == (False, True, [6])


def test_a_deleted_lease_is_taken_again(machines: Machines) -> None:
    lease = machines.autoscaler(ANNA)
    lease.check()
    machines.leases.kept.clear()
    lease.step()
    assert (acts(lease), len(machines.leases.kept)) == (True, 1)


def test_without_permission_to_keep_a_lease_passes_continue_with_one_warning(
    machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(MemoryLeases):
        def add(self, lease: Lease) -> bool:
            raise GridEngineRefused('denied: "anna" must be manager for this operation')

    lease = CellLease(Refusing(), ANNA)
    for _ in range(3):
        lease.check()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "must be manager" in caplog.text


@pytest.mark.parametrize("minutes", ((1, 1), (1, 2), (2, 1)))
@pytest.mark.parametrize("died", (False, True), ids=("free", "expired"))
@pytest.mark.parametrize("moment", range(12))
def test_at_most_one_of_two_acts_whenever_the_other_interferes(
    machines: Machines, moment: int, died: bool, minutes: tuple[int, int]
) -> None:
    """Before each call of the one the other makes a whole step; the first holder may return then, too."""
    old = machines.autoscaler(replace(ANNA, holder="c3", pid=33))
    old.check()
    one, other = machines.autoscaler(ANNA, minute=minutes[0]), machines.autoscaler(BEN, minute=minutes[1])
    if died:
        acts(one), acts(other)
        machines.now += EXPIRES
    else:
        old._give_back()
    calls = 0

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        if calls == moment + 1:
            machines.leases.before = lambda: None
            for each in (other, old) if died else (other,):
                _step(each)

    machines.leases.before = meanwhile
    _step(one)
    machines.leases.before = lambda: None
    assert sum(acts(each) for each in (one, other, old)) <= 1


@pytest.mark.parametrize("moment", range(8))
def test_a_returning_holder_never_acts_beside_the_one_that_takes_its_lease(machines: Machines, moment: int) -> None:
    old, taker = machines.autoscaler(ANNA), machines.autoscaler(BEN)
    old.check()
    acts(taker)
    machines.now += EXPIRES
    calls, acted = 0, []

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        if calls == moment + 1:
            machines.leases.before = lambda: None
            acted.append(acts(old))

    machines.leases.before = meanwhile
    takes = acts(taker)
    machines.leases.before = lambda: None
    assert not (takes and any(acted))


def _step(lease: CellLease) -> None:
    with contextlib.suppress(AutoscalerError):
        lease.step()


def test_two_lock_directories_are_two_holders(tmp_path_factory: pytest.TempPathFactory) -> None:
    places = [tmp_path_factory.mktemp("locks") for _ in range(2)]
    holders = [own_lease(place).holder for place in (*places, places[0])]
    assert (holders[0] == holders[2], holders[0] == holders[1]) == (True, False)


@pytest.mark.parametrize(
    "error", (OSError(errno.EAGAIN, "Resource temporarily unavailable"), RuntimeError("can't start new thread"))
)
def test_an_error_of_the_system_does_not_end_the_renewal(
    machines: Machines, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a standby takes over from a holder that lives."""
    monkeypatch.setattr("autoscaler.engine.cell_lease.RENEW", 0.01)
    monkeypatch.setattr("autoscaler.supervised.FIRST_WAIT", 0.01)
    monkeypatch.setattr("autoscaler.supervised._failures", {})
    failed = threading.Event()

    def fails_once() -> None:
        if not failed.is_set():
            failed.set()
            raise error

    lease = machines.autoscaler(ANNA)
    lease.check()
    machines.leases.before = fails_once
    with lease.kept():
        assert failed.wait(60)
        assert wait_for(lambda: machines.leases.kept[1].beat >= 3, 60)
    assert troubles()


def test_a_command_that_cannot_be_started_is_no_defect_of_a_pass(machines: Machines) -> None:
    def cannot() -> None:
        raise CommandNotStarted("cannot run qconf now: Resource temporarily unavailable")

    lease = machines.autoscaler(ANNA)
    machines.leases.before = cannot
    with pytest.raises(NotObservable, match="cannot run qconf now"):
        lease.check()
