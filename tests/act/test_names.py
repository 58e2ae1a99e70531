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
def path(tmp_path: Path) -> Path:
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


def test_existing_workers_resolve_and_terminated_ones_do_not(path: Path) -> None:
    keep = names(path)
    keep([worker("w1", "10.1.0.1"), worker("w2", "10.1.0.2"), worker("w3", None), worker(None, "10.1.0.4")])
    assert [line for line in ours(path) if line.startswith("10.")] == ["10.1.0.1 w1", "10.1.0.2 w2"]
    keep([worker("w1", "10.1.0.1", MachineState.TERMINATED), worker("w2", "10.1.0.2")])
    assert [line for line in ours(path) if line.startswith("10.")] == ["10.1.0.2 w2"]


def test_every_other_line_keeps_its_bytes(path: Path) -> None:
    keep = names(path)
    keep([worker("w1", "10.1.0.1")])
    keep([worker("w1", "10.1.0.1", MachineState.TERMINATED)])
    assert path.read_text() == OTHERS


@pytest.mark.parametrize("restarted", (False, True))
def test_a_worker_missing_from_a_listing_resolves_during_the_grace_time(path: Path, restarted: bool) -> None:
    clock = Clock(1000.0)
    keep = names(path, clock)
    keep([worker("w1", "10.1.0.1"), worker("w2", "10.1.0.2")])
    keep = names(path, clock) if restarted else keep
    found = []
    for clock.now in (1000.0, 1599.0, 1600.0):
        keep([worker("w2", "10.1.0.2")])
        found.append([line for line in ours(path) if line.startswith("10.")])
    both = ["10.1.0.1 w1", "10.1.0.2 w2"]
    assert found == [both, both, ["10.1.0.2 w2"]]


def test_an_address_belongs_to_the_worker_that_is_listed_with_it(path: Path) -> None:
    keep = names(path)
    keep([worker("w1", "10.1.0.1")])
    keep([worker("w9", "10.1.0.1")])
    assert [line for line in ours(path) if line.startswith("10.")] == ["10.1.0.1 w9"]


def test_the_file_is_not_written_if_nothing_changes(path: Path) -> None:
    keep = names(path)
    keep([worker("w1", "10.1.0.1")])
    path.chmod(0o444)
    before = path.stat().st_mtime_ns
    keep([worker("w1", "10.1.0.1")])
    assert path.stat().st_mtime_ns == before


def test_invalid_names_and_addresses_are_not_written(path: Path) -> None:
    names(path)([worker("w1\n6.6.6.6 master", "10.1.0.1"), worker("w2", "10.1.0.2 master"), worker("w3", "10.1.0.3")])
    assert [line for line in ours(path) if line.startswith("10.")] == ["10.1.0.3 w3"]


def test_clearing_temporary_lines_keeps_the_lines_of_workers(path: Path) -> None:
    passing = HostsFile(path, PASSING)
    keep = names(path)
    passing.put({"probe": "127.1.0.1"})
    keep([worker("w1", "10.1.0.1")])
    passing.clear()
    assert "probe" not in path.read_text()
    assert "10.1.0.1 w1" in ours(path)


def test_an_unwritable_file_is_logged_once_until_it_is_writable_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep, warnings = names(path), []
    path.unlink()
    for restored in (False, False, True, False):
        if restored:
            path.write_text(OTHERS)
        elif path.exists():
            path.unlink()
        keep([worker("w1", "10.1.0.1")])
        warnings.append(caplog.text.count("workers may be unable to join"))
    assert warnings == [1, 1, 1, 2]
