"""Names of workers in a platform's list of hosts: ours come and go, every other line keeps its bytes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoscaler.engine import host_list
from autoscaler.engine.host_list import HostList
from autoscaler.errors import HostsFileUnusable
from autoscaler.store.lock import write_note

OTHERS = b"pipeline-1\n pipeline-7001\t\n# by hand"
AT = "10.0.0.9"


@pytest.fixture
def hostfile(tmp_path: Path) -> Path:
    path = tmp_path / "hostfile"
    path.write_bytes(OTHERS)
    path.chmod(0o664)
    return path


def listed(path: Path) -> HostList:
    return HostList(path, path.with_name("note"), path.with_name("lock"))


def names(path: Path) -> list[str]:
    return path.read_text().split()


def test_a_worker_is_listed_while_it_exists_and_lines_of_others_stay(hostfile: Path) -> None:
    inode = hostfile.stat().st_ino
    assert listed(hostfile).keep({"pipeline-12": AT, "pipeline-13": AT})
    assert hostfile.read_bytes() == OTHERS + b"\npipeline-12\npipeline-13\n"
    assert hostfile.stat().st_ino == inode, "a reader that follows the file sees what is added"
    assert not listed(hostfile).keep({"pipeline-12": AT, "pipeline-13": AT})
    assert listed(hostfile).keep({"pipeline-13": AT})
    assert hostfile.read_bytes() == OTHERS + b"\npipeline-13\n"
    assert hostfile.stat().st_mode & 0o777 == 0o664


def test_a_name_that_the_platform_listed_is_not_listed_twice_and_leaves_with_its_worker(hostfile: Path) -> None:
    """As a worker has it that was taken over."""
    listed(hostfile).keep({"pipeline-7001": AT})
    assert names(hostfile).count("pipeline-7001") == 1
    listed(hostfile).keep({})
    assert "pipeline-7001" not in names(hostfile)
    assert "pipeline-1" in names(hostfile)


def test_a_name_that_somebody_took_out_is_listed_again(hostfile: Path) -> None:
    listed(hostfile).keep({"pipeline-12": AT})
    hostfile.write_bytes(OTHERS)
    assert listed(hostfile).keep({"pipeline-12": AT})
    assert "pipeline-12" in names(hostfile)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("new", ({"pipeline-13": AT}, {}))
@pytest.mark.parametrize("steps", range(3))
def test_a_process_that_was_killed_between_two_steps_forgets_no_name(
    hostfile: Path, monkeypatch: pytest.MonkeyPatch, steps: int, new: dict[str, str]
) -> None:
    """Of note, file and note only so many are written."""
    listed(hostfile).keep({"pipeline-12": AT})
    left = iter(range(steps))

    def killed(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return call(*args, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr("autoscaler.engine.host_list.write_note", killed(write_note))
        patch.setattr(HostList, "_change", killed(HostList._change))
        with pytest.raises(Killed):
            listed(hostfile).keep(new)
    listed(hostfile).keep({})
    assert names(hostfile) == OTHERS.decode().split()


def test_a_missing_file_is_made(hostfile: Path) -> None:
    hostfile.unlink()
    listed(hostfile).keep({"pipeline-12": AT})
    assert names(hostfile) == ["pipeline-12"]


def test_nothing_but_a_host_name_is_written(hostfile: Path) -> None:
    listed(hostfile).keep({"a b": AT, "c\nd": AT, "-x": AT, "pipeline-12": AT})
    assert hostfile.read_bytes() == OTHERS + b"\npipeline-12\n"


def test_no_link_is_followed_and_no_pipe_is_opened(hostfile: Path) -> None:
    """The folder may be one in which people write."""
    target = hostfile.with_name("passwd")
    target.write_bytes(OTHERS)
    hostfile.unlink()
    hostfile.symlink_to(target)
    with pytest.raises(HostsFileUnusable):
        listed(hostfile).keep({"pipeline-12": AT})
    hostfile.unlink()
    os.mkfifo(hostfile)
    with pytest.raises(HostsFileUnusable, match="no regular file"):
        listed(hostfile).keep({"pipeline-12": AT})
    assert target.read_bytes() == OTHERS


def test_nothing_is_changed_while_the_platforms_scripts_hold_their_lock(
    hostfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_list, "PATIENCE", 0.1)
    with hostfile.with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(HostsFileUnusable, match="another program has locked"):
            listed(hostfile).keep({"pipeline-12": AT})
        assert hostfile.read_bytes() == OTHERS
    assert listed(hostfile).keep({"pipeline-12": AT})
