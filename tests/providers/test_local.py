"""The local control plane keeps the contract; its hosts are in memory here, real ones in tests/grid_engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from autoscaler.core.model.fleet import Ending, FailureKind, Interruption, MachineState, Worker
from autoscaler.namespaces import NamespaceError
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import CELL, OTHER_CELL, ControlPlane, Fault, LostAnswer, ProviderContract
from autoscaler.providers.interface import LaunchOrder, OutOfCapacity, Provider, QuotaReached, Refused, Unreachable
from autoscaler.providers.local.failures import Notices
from autoscaler.providers.local.machines import Records
from autoscaler.providers.local.provider import LocalProvider
from autoscaler.providers.local.settings import LocalSettings
from autoscaler.providers.settings import read_settings


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class MemoryHosts:
    """Hosts without namespaces: a name, and the number of its start."""

    def __init__(self, names: int = 8) -> None:
        self.names = [f"ip-10-1-0-{number}" for number in range(2, 2 + names)]
        self.living: dict[str, int] = {}
        self.boots: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {}
        self.births = 0
        self.broken: str | None = None
        self.failures = 0
        self.crash: BaseException | None = None
        self.dying = False

    def start(self, name: str, boot: Sequence[str], env: Mapping[str, str]) -> int:
        if self.broken or self.failures:
            self.failures = max(0, self.failures - 1)
            raise NamespaceError(self.broken or "out of memory")
        assert name not in self.living
        self.births += 1
        self.living[name] = self.births
        self.boots[name] = (tuple(boot), dict(env))
        Path(boot[2], "console.log").write_text("booted\n")
        if self.dying:
            Path(boot[2], "console.log").write_text("no space left on device\n")
            del self.living[name]
        if self.crash:
            raise self.crash
        return self.births

    def end(self, name: str) -> None:
        self.living.pop(name, None)

    def born(self, name: str) -> int | None:
        return self.living.get(name)

    def address(self, name: str) -> str:
        return name.removeprefix("ip-").replace("-", ".")

    def free_names(self) -> Sequence[str]:
        return [name for name in self.names if name not in self.living]

    def problem(self) -> str | None:
        return self.broken


class LocalPlane(ControlPlane):
    many = 3
    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {
            Fault.STOPPED: "a host of namespaces exists or does not",
            Fault.ENDED_OUTSIDE: "the cause of a killed host is not recorded: it counts as one that died",
            Fault.IMAGE_DISKS: "a host of namespaces has no disks",
            Fault.THROTTLED: "calls on this host are not counted",
            Fault.LOST_THEN_THROTTLED: "calls on this host are not counted",
            Fault.ADVICE: "nobody is asked but this host",
            Fault.LONG_PAUSE: "calls on this host are not counted",
            Fault.CREDENTIALS: "whoever may start hosts needs none",
            Fault.BROKEN_TLS: "there is no network between provider and machines",
            Fault.HIDE_NEW: "its listing lags as a whole",
            Fault.NO_IDS: "an id is made of the order before its machine is",
        },
    )

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hosts, self.clock = MemoryHosts(), Clock()
        self.chosen: dict[str, Any] = {}

    def connect(self, cell: str, **chosen: Any) -> LocalProvider:
        settings = LocalSettings(network=self.directory, **{"boot_delay": 20, **self.chosen, **chosen})
        return LocalProvider(settings, cell=cell, hosts=self.hosts, clock=self.clock)

    def billable(self) -> Collection[str]:
        return list(self.hosts.living)

    def inject(self, fault: Fault) -> None:
        match fault:
            case Fault.OUT_OF_CAPACITY:
                self.chosen = {"out_of_capacity": tuple(load_catalog().types)}
            case Fault.PARTIAL:
                self.chosen = {"max_machines": 2}
            case Fault.QUOTA:
                self.chosen = {"max_machines": 0}
            case Fault.CHANGED_SETTINGS:
                self.chosen = {"boot_delay": 7}
            case Fault.LAG:
                self.chosen = {"listing_lag": 60}
            case Fault.REFUSED:
                self.hosts.broken = "namespaces need root"
            case Fault.LOST_ANSWER:
                self.hosts.crash = LostAnswer()
            case Fault.ACCEPTED_THEN_DEAD:
                self.hosts.dying = True
            case Fault.MALFORMED:
                for record in self.directory.glob("machines/*/machine.json"):
                    record.write_text('{"id": ')
            case Fault.CUT_LISTING:
                sorted(self.directory.glob("machines/*/machine.json"))[-1].write_text('{"id": ')
            case Fault.UNREACHABLE:
                (self.directory / "file").touch()
                self.chosen = {"state": self.directory / "file"}
            case _:
                raise AssertionError(fault)

    def forget(self, worker_id: str) -> None:
        self.connect(CELL).terminate([worker_id])
        shutil.rmtree(self.directory / "machines" / worker_id)

    def heal(self) -> None:
        self.chosen, self.hosts.broken, self.hosts.crash, self.hosts.dying = {}, None, None, False

    def settle(self) -> None:
        self.clock.now += 5


class TestLocal(ProviderContract):
    @pytest.fixture
    def plane(self, tmp_path: Path) -> ControlPlane:
        return LocalPlane(tmp_path)


@pytest.fixture
def local_plane(tmp_path: Path) -> LocalPlane:
    return LocalPlane(tmp_path)


def order(token: str = "order-0", *, count: int = 1, name: str = "m5.large") -> LaunchOrder:
    bucket = next(bucket for bucket in load_catalog().buckets() if bucket.type.name == name)
    return LaunchOrder(token, token.removesuffix("-0"), CELL, "execute", (bucket,), count, "#!/bin/sh\nstart-execd\n")


def only(provider: Provider) -> Worker:
    (worker,) = provider.workers()
    return worker


def state(provider: Provider) -> MachineState:
    return only(provider).state


def test_a_machine_runs_once_its_boot_delay_has_passed(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    provider.launch(order())
    local_plane.clock.now += 19
    before = state(provider)
    local_plane.clock.now += 1

    assert (before, state(provider)) == (MachineState.PENDING, MachineState.RUNNING)


def test_a_machine_has_size_and_price_of_its_type_in_the_catalogue(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    provider.launch(order(name="r5.2xlarge"))

    worker = only(provider)

    assert (worker.type.vcpus, worker.type.memory, worker.price_per_hour) == (8, 64 * 1024**3, 0.504)


def test_the_boot_script_is_that_of_the_order(local_plane: LocalPlane) -> None:
    (worker_id,) = local_plane.connect(CELL).launch(order()).ids

    assert (local_plane.directory / "machines" / worker_id / "boot.sh").read_text() == "#!/bin/sh\nstart-execd\n"


def test_no_variable_of_our_environment_is_passed_to_a_machine(
    local_plane: LocalPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    local_plane.connect(CELL).launch(order())

    ((_, env),) = local_plane.hosts.boots.values()

    assert set(env) == {"PATH", "HOME", "LANG", "WORKER_ID", "WORKER_TYPE"}


def test_a_machine_that_died_is_listed_as_terminated(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    provider.launch(order())
    local_plane.hosts.living.clear()

    worker = only(provider)

    assert (worker.state, worker.message) == (MachineState.TERMINATED, "ended by itself; it printed last: booted")


def test_a_machine_that_shut_itself_down_is_released(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    worker = only(provider)
    provider.notices.release(worker_id)
    local_plane.hosts.end(worker.name or "")
    worker = only(provider)
    assert (worker.state, worker.ending, worker.message) == (
        MachineState.TERMINATED,
        Ending.RELEASED,
        "ended by itself",
    )


def test_a_later_host_of_the_same_name_is_another_machine(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    provider.launch(order())
    name = only(provider).name or ""
    local_plane.hosts.living[name] += 1

    assert state(provider) is MachineState.TERMINATED


def test_terminating_a_machine_never_ends_a_later_host_of_its_name(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    name = only(provider).name or ""
    local_plane.hosts.living[name] += 1

    provider.terminate([worker_id])

    assert name in local_plane.hosts.living


def test_a_name_is_reused_only_when_no_other_is_free(tmp_path: Path) -> None:
    plane = LocalPlane(tmp_path)
    plane.hosts.names = plane.hosts.names[:2]
    provider, names = plane.connect(CELL), []
    for number in range(3):
        launched = provider.launch(order(f"{number}-0"))
        names.append(provider.records()[-1].name)
        provider.terminate(launched.ids)

    assert names == ["ip-10-1-0-2", "ip-10-1-0-3", "ip-10-1-0-2"]


def test_without_a_free_address_it_is_out_of_capacity(local_plane: LocalPlane) -> None:
    launched = local_plane.connect(CELL).launch(order(count=9))

    assert len(launched.ids) == 8
    assert [type(error) for _, error in launched.shortfalls] == [OutOfCapacity]


def test_the_quota_counts_living_machines_only(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL, max_machines=1)
    first = provider.launch(order("1-0"))
    full = provider.launch(order("2-0"))
    provider.terminate(first.ids)

    assert [type(error) for _, error in full.shortfalls] == [QuotaReached]
    assert len(provider.launch(order("3-0")).ids) == 1


def test_a_type_out_of_capacity_leaves_the_others(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL, out_of_capacity=("m5.large",))

    assert provider.launch(order("1-0")).ids == ()
    assert len(provider.launch(order("2-0", name="m5.xlarge")).ids) == 1


@pytest.mark.parametrize(("failing", "broken"), ((("m5.large",), [1, 2, 3]), (("2",), [2]), (("c5.large",), [])))
def test_the_boots_named_by_the_setting_fail(
    local_plane: LocalPlane, failing: tuple[str, ...], broken: list[int]
) -> None:
    provider = local_plane.connect(CELL, failing_boots=failing)
    ids = provider.launch(order(count=3)).ids

    scripts = [(local_plane.directory / "machines" / worker_id / "boot.sh").read_text() for worker_id in ids]

    assert [number for number, script in enumerate(scripts, 1) if "boot failed" in script] == broken


def test_a_machine_dies_after_the_set_time(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL, sudden_death=100)
    provider.launch(order())
    local_plane.clock.now += 119
    before = state(provider)
    local_plane.clock.now += 1

    assert (before, state(provider), local_plane.billable()) == (MachineState.RUNNING, MachineState.TERMINATED, [])
    assert only(provider).failure is FailureKind.BOOT


def test_the_folders_of_the_records_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    with Records(folder).lock():
        assert folder.is_dir()


def test_a_lagging_listing_shows_an_end_late(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL, listing_lag=60)
    (worker_id,) = provider.launch(order()).ids
    local_plane.clock.now += 100
    provider.terminate([worker_id])

    before, local_plane.clock.now = state(provider), local_plane.clock.now + 60

    assert (before, state(provider)) == (MachineState.RUNNING, MachineState.TERMINATED)


def test_a_launch_killed_before_the_host_started_is_completed_by_the_same_token(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    forget_birth(local_plane, worker_id)
    local_plane.hosts.living.clear()

    assert provider.launch(order()).ids == (worker_id,)
    assert len(local_plane.hosts.living) == 1


def test_a_launch_killed_while_the_host_started_is_completed_by_the_same_token(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    forget_birth(local_plane, worker_id)
    (local_plane.directory / "machines" / worker_id / "console.log").unlink()
    before = list(provider.workers())

    assert (before, provider.launch(order()).ids) == ([], (worker_id,))
    assert list(local_plane.hosts.living.values()) == [2]


def test_a_launch_killed_while_the_host_started_leaves_none_if_not_repeated(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    forget_birth(local_plane, worker_id)
    (local_plane.directory / "machines" / worker_id / "console.log").unlink()
    local_plane.clock.now += 60

    assert (state(provider), local_plane.billable()) == (MachineState.TERMINATED, [])


def test_a_launch_killed_before_the_host_started_is_terminated_if_not_repeated(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL)
    (worker_id,) = provider.launch(order()).ids
    forget_birth(local_plane, worker_id)
    local_plane.hosts.living.clear()
    (local_plane.directory / "machines" / worker_id / "console.log").unlink()
    before, local_plane.clock.now = list(provider.workers()), local_plane.clock.now + 60

    assert (before, state(provider)) == ([], MachineState.TERMINATED)


def forget_birth(plane: LocalPlane, worker_id: str) -> None:
    record = plane.directory / "machines" / worker_id / "machine.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "born": None}))


def test_a_host_that_does_not_start_is_a_shortfall_and_costs_nothing(local_plane: LocalPlane) -> None:
    local_plane.hosts.failures = 1
    provider = local_plane.connect(CELL)

    launched = provider.launch(order())

    assert (launched.ids, [type(error) for _, error in launched.shortfalls]) == ((), [OutOfCapacity])
    assert local_plane.billable() == []


def test_a_host_that_did_not_start_is_retried_by_the_same_token(local_plane: LocalPlane) -> None:
    local_plane.hosts.failures = 1
    provider = local_plane.connect(CELL)
    provider.launch(order())

    (worker_id,) = provider.launch(order()).ids

    assert [worker.id for worker in provider.workers() if worker.exists] == [worker_id]


def test_a_type_that_is_not_in_the_catalogue_is_refused(local_plane: LocalPlane, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[types]\nbigmem = { vcpus = 2, memory_gib = 64 }\n")
    bucket = load_catalog(own).buckets()[-1]

    with pytest.raises(Refused, match="no instance type bigmem"):
        local_plane.connect(CELL).launch(LaunchOrder("1-0", "1", CELL, "execute", (bucket,), 1, ""))


def test_records_of_terminated_machines_are_removed_after_a_while(local_plane: LocalPlane) -> None:
    provider = local_plane.connect(CELL, keep_records=3600)
    first = provider.launch(order("1-0"))
    provider.terminate(first.ids)
    local_plane.clock.now += 3601

    second = provider.launch(order("2-0"))

    assert [path.name for path in (local_plane.directory / "machines").glob("i-*")] == list(second.ids)


def test_a_console_is_shown_to_its_own_cell_only(local_plane: LocalPlane) -> None:
    (worker_id,) = local_plane.connect(CELL).launch(order()).ids

    assert local_plane.connect(CELL).console(worker_id) == "booted\n"
    assert local_plane.connect(OTHER_CELL).console(worker_id) == ""


@pytest.mark.parametrize("worker_id", ("../other", "", ".lock", "..", "a/b"))
def test_a_worker_id_is_never_used_as_a_path(local_plane: LocalPlane, worker_id: str) -> None:
    provider = local_plane.connect(CELL)
    provider.launch(order())

    provider.terminate([worker_id])

    assert only(provider).exists


def test_a_host_that_cannot_be_ended_raises_unreachable_and_stays_listed(
    local_plane: LocalPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = local_plane.connect(CELL)
    launched = provider.launch(order())

    def stays(_: str) -> None:
        raise NamespaceError("did not end")

    monkeypatch.setattr(local_plane.hosts, "end", stays)
    with pytest.raises(Unreachable, match="did not end"):
        provider.terminate(launched.ids)

    assert only(provider).exists


def test_a_machine_that_cannot_be_inspected_fails_the_listing(
    local_plane: LocalPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = local_plane.connect(CELL, sudden_death=0)
    provider.launch(order())
    local_plane.clock.now += 30

    def stays(_: str) -> None:
        raise NamespaceError("did not end")

    monkeypatch.setattr(local_plane.hosts, "end", stays)
    with pytest.raises(Unreachable, match="did not end"):
        provider.workers()


def test_a_check_reports_that_no_host_can_be_started(local_plane: LocalPlane) -> None:
    local_plane.hosts.broken = "namespaces need root"

    (problem,) = local_plane.connect(CELL).check()

    assert (problem.what, problem.fatal) == ("namespaces need root", True)


def test_the_settings_are_read_from_their_names(tmp_path: Path) -> None:
    settings = read_settings(
        LocalSettings,
        {
            "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(tmp_path),
            "CP_CAP_AUTOSCALE_LOCAL_OUT_OF_CAPACITY": "m5.large,m5.xlarge",
            "CP_CAP_AUTOSCALE_LOCAL_SUDDEN_DEATH": "9",
        },
    )

    assert (settings.network, settings.out_of_capacity) == (tmp_path, ("m5.large", "m5.xlarge"))
    assert settings.sudden_death == 9


@pytest.mark.parametrize("moment", ("before", "after"))
@pytest.mark.parametrize("step", ("create", "start", "save"))
@pytest.mark.parametrize("number", (1, 2))
def test_a_launch_killed_at_any_step_and_repeated_never_gives_more_machines_than_ordered(
    local_plane: LocalPlane, monkeypatch: pytest.MonkeyPatch, step: str, moment: str, number: int
) -> None:
    provider = local_plane.connect(CELL)
    owner: Any = local_plane.hosts if step == "start" else Records
    real, calls = getattr(owner, step), []

    def killed(*arguments: Any) -> Any:
        calls.append(step)
        if moment == "before" and len(calls) == number:
            raise LostAnswer
        answer = real(*arguments)
        if len(calls) == number:
            raise LostAnswer
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, killed)
        with pytest.raises(LostAnswer):
            provider.launch(order(count=2))
    restarted = local_plane.connect(CELL)

    launched = restarted.launch(order(count=2))

    assert 1 <= len(launched.ids) <= 2
    assert {worker.id for worker in restarted.workers() if worker.exists} == set(launched.ids)
    assert len(local_plane.billable()) == len(launched.ids)


def test_an_interruption_notice_is_reported_until_it_is_withdrawn(tmp_path: Path) -> None:
    notices, folder = Notices(Records(tmp_path)), tmp_path / "i-1"
    folder.mkdir()
    assert notices.of("i-1") is None
    notices.give("i-1", 1234.5, "rebalance")
    assert notices.of("i-1") == Interruption("i-1", 1234.5, "rebalance")
    notices.withdraw("i-1")
    assert notices.of("i-1") is None


@pytest.mark.parametrize("written", ("", "{}", '{"at": "soon", "kind": "terminate"}', "[]"))
def test_an_unreadable_interruption_notice_raises_unreachable(written: str, tmp_path: Path) -> None:
    (tmp_path / "i-1").mkdir()
    (tmp_path / "i-1" / "notice.json").write_text(written)
    with pytest.raises(Unreachable, match=r"notice\.json cannot be read"):
        Notices(Records(tmp_path)).of("i-1")


def test_a_machine_that_shut_itself_down_is_recorded_as_released(tmp_path: Path) -> None:
    notices = Notices(Records(tmp_path))
    (tmp_path / "i-1").mkdir()
    before = notices.released("i-1")
    notices.release("i-1")
    assert (before, notices.released("i-1")) == (False, True)


def test_a_machine_that_cannot_be_ended_keeps_no_other(
    local_plane: LocalPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, end = local_plane.connect(CELL), local_plane.hosts.end
    ids = provider.launch(order(count=3)).ids
    first = next(iter(local_plane.hosts.living))

    def refusing(name: str) -> None:
        if name == first:
            raise NamespaceError("busy")
        end(name)

    monkeypatch.setattr(local_plane.hosts, "end", refusing)
    with pytest.raises(Unreachable) as caught:
        provider.terminate(ids)
    assert (len(caught.value.ids), list(local_plane.hosts.living)) == (1, [first])
