"""Names of workers in the master's hosts file: ours are added and removed, every other line keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.engine.host_names import WorkerNames
from autoscaler.hosts_file import OF_WORKERS, PASSING, HostsFile

OTHERS = "127.0.0.1 localhost\n10.0.0.1 master # by hand"


@pytest.fixture
def etc_hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(OTHERS)
    return path


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def names(path: Path, clock: Clock | None = None) -> Callable[[Sequence[Worker]], None]:
    return WorkerNames(HostsFile(path, OF_WORKERS), clock or Clock(), grace=600.0).keep_names


def worker(name: str | None, address: str | None, state: MachineState = MachineState.RUNNING) -> Worker:
    return Worker(f"id-{name}", InstanceType("m5.large", "m5", 2, 8), "execute", state, 0.0, name=name, address=address)


def ours(path: Path) -> list[str]:
    return [line.split(" #")[0] for line in path.read_text().splitlines() if line.endswith(OF_WORKERS.decode())]


def test_existing_workers_resolve_and_terminated_ones_do_not(etc_hosts: Path) -> None:
    keep = names(etc_hosts)
    keep([worker("w1", "10.1.0.1"), worker("w2", "10.1.0.2"), worker("w3", None), worker(None, "10.1.0.4")])
    assert [line for line in ours(etc_hosts) if line.startswith("10.")] == ["10.1.0.1 w1", "10.1.0.2 w2"]
    keep([worker("w1", "10.1.0.1", MachineState.TERMINATED), worker("w2", "10.1.0.2")])
    assert [line for line in ours(etc_hosts) if line.startswith("10.")] == ["10.1.0.2 w2"]


def test_every_other_line_keeps_its_bytes(etc_hosts: Path) -> None:
    keep = names(etc_hosts)
    keep([worker("w1", "10.1.0.1")])
    keep([worker("w1", "10.1.0.1", MachineState.TERMINATED)])
    assert etc_hosts.read_text() == OTHERS


@pytest.mark.parametrize("restarted", (False, True))
def test_a_worker_missing_from_a_listing_resolves_during_the_grace_time(etc_hosts: Path, restarted: bool) -> None:
    clock = Clock(1000.0)
    keep = names(etc_hosts, clock)
    keep([worker("w1", "10.1.0.1"), worker("w2", "10.1.0.2")])
    keep = names(etc_hosts, clock) if restarted else keep
    found = []
    for clock.now in (1000.0, 1599.0, 1600.0):
        keep([worker("w2", "10.1.0.2")])
        found.append([line for line in ours(etc_hosts) if line.startswith("10.")])
    both = ["10.1.0.1 w1", "10.1.0.2 w2"]
    assert found == [both, both, ["10.1.0.2 w2"]]


def test_an_address_belongs_to_the_worker_that_is_listed_with_it(etc_hosts: Path) -> None:
    keep = names(etc_hosts)
    keep([worker("w1", "10.1.0.1")])
    keep([worker("w9", "10.1.0.1")])
    assert [line for line in ours(etc_hosts) if line.startswith("10.")] == ["10.1.0.1 w9"]


def test_the_file_is_not_written_if_nothing_changes(etc_hosts: Path) -> None:
    keep = names(etc_hosts)
    keep([worker("w1", "10.1.0.1")])
    etc_hosts.chmod(0o444)
    before = etc_hosts.stat().st_mtime_ns
    keep([worker("w1", "10.1.0.1")])
    assert etc_hosts.stat().st_mtime_ns == before


def test_invalid_names_and_addresses_are_not_written(etc_hosts: Path) -> None:
    names(etc_hosts)(
        [worker("w1\n6.6.6.6 master", "10.1.0.1"), worker("w2", "10.1.0.2 master"), worker("w3", "10.1.0.3")]
    )
    assert [line for line in ours(etc_hosts) if line.startswith("10.")] == ["10.1.0.3 w3"]


def test_clearing_temporary_lines_keeps_the_lines_of_workers(etc_hosts: Path) -> None:
    passing = HostsFile(etc_hosts, PASSING)
    keep = names(etc_hosts)
    passing.put({"probe": "127.1.0.1"})
    keep([worker("w1", "10.1.0.1")])
    passing.clear()
    assert "probe" not in etc_hosts.read_text()
    assert "10.1.0.1 w1" in ours(etc_hosts)


def test_an_unwritable_file_is_logged_once_until_it_is_writable_again(
    etc_hosts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep, warnings = names(etc_hosts), []
    etc_hosts.unlink()
    for restored in (False, False, True, False):
        if restored:
            etc_hosts.write_text(OTHERS)
        elif etc_hosts.exists():
            etc_hosts.unlink()
        keep([worker("w1", "10.1.0.1")])
        warnings.append(caplog.text.count("workers may be unable to join"))
    assert warnings == [1, 1, 1, 2]
