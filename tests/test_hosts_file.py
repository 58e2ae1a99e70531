"""Names resolve while they are needed, and lines of others are never changed."""

from __future__ import annotations

import errno
import fcntl
import queue
import threading
from pathlib import Path

import pytest

from autoscaler import hosts_file
from autoscaler.errors import HostsFileUnusable
from autoscaler.hosts_file import OF_WORKERS, HostsFile

OTHERS = b"127.0.0.1 localhost\n# caf\xe9\r\n10.0.0.1\tmaster  # kept\n"
NAMES = {"probe-1": "127.1.0.1", "probe-2": "127.1.0.2"}


@pytest.fixture
def etc_hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_bytes(OTHERS)
    path.chmod(0o644)
    return path


@pytest.fixture
def hosts(etc_hosts: Path) -> HostsFile:
    return HostsFile(etc_hosts)


def resolved(path: Path) -> dict[str, str]:
    lines = (line.split(b"#")[0].split() for line in path.read_bytes().split(b"\n"))
    return {name.decode(): words[0].decode() for words in lines for name in words[1:] if name.startswith(b"probe")}


def test_names_resolve_until_they_are_cleared(hosts: HostsFile, etc_hosts: Path) -> None:
    hosts.put(NAMES)
    there = resolved(etc_hosts)
    hosts.clear()
    assert (there, etc_hosts.read_bytes()) == (NAMES, OTHERS)


def test_lines_of_others_keep_their_place(hosts: HostsFile, etc_hosts: Path) -> None:
    hosts.put(NAMES)
    assert etc_hosts.read_bytes().startswith(OTHERS)


def test_lines_of_a_dead_writer_are_replaced(hosts: HostsFile, etc_hosts: Path) -> None:
    hosts.put({"probe-9": "127.1.0.9"})
    hosts.put(NAMES)
    assert resolved(etc_hosts) == NAMES


def test_the_file_is_edited_in_place_where_possible(hosts: HostsFile, etc_hosts: Path) -> None:
    before = etc_hosts.stat().st_ino
    hosts.put(NAMES)
    hosts.clear()
    assert etc_hosts.stat().st_ino == before


@pytest.mark.parametrize("end", (b"", b"# no end", b"\n\n", b"\r\n"))
def test_a_file_without_a_final_line_break_is_restored_exactly(end: bytes, hosts: HostsFile, etc_hosts: Path) -> None:
    etc_hosts.write_bytes(OTHERS + end)
    hosts.put(NAMES)
    there = resolved(etc_hosts)
    hosts.clear()
    assert (there, etc_hosts.read_bytes()) == (NAMES, OTHERS + end)


def test_an_empty_file_becomes_empty_again(hosts: HostsFile, etc_hosts: Path) -> None:
    etc_hosts.write_bytes(b"")
    hosts.put(NAMES)
    hosts.clear()
    assert etc_hosts.read_bytes() == b""


def test_lines_that_others_append_are_kept(hosts: HostsFile, etc_hosts: Path) -> None:
    hosts.put(NAMES)
    with etc_hosts.open("ab") as file:
        file.write(b"10.0.0.2 new\n")
    hosts.clear()
    assert etc_hosts.read_bytes() == OTHERS + b"10.0.0.2 new\n"


def test_a_line_break_that_we_added_stays_if_others_append(hosts: HostsFile, etc_hosts: Path) -> None:
    etc_hosts.write_bytes(OTHERS + b"10.0.0.9 last")
    hosts.put(NAMES)
    with etc_hosts.open("ab") as file:
        file.write(b"10.0.0.2 new\n")
    hosts.clear()
    assert etc_hosts.read_bytes() == OTHERS + b"10.0.0.9 last\n10.0.0.2 new\n"


def test_a_mount_point_is_edited_in_place(hosts: HostsFile, etc_hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(hosts_file, "_replace", busy)
    hosts.put(NAMES)
    with etc_hosts.open("ab") as file:
        file.write(b"10.0.0.2 new\n")
    before = etc_hosts.stat().st_ino
    hosts.clear()
    assert (etc_hosts.read_bytes(), etc_hosts.stat().st_ino) == (OTHERS + b"10.0.0.2 new\n", before)


def test_a_replaced_file_keeps_its_mode_and_leaves_no_temporary_file(hosts: HostsFile, etc_hosts: Path) -> None:
    etc_hosts.chmod(0o664)
    hosts.put(NAMES)
    with etc_hosts.open("ab") as file:
        file.write(b"10.0.0.2 new\n")
    hosts.clear()
    left = sorted(entry.name for entry in etc_hosts.parent.iterdir())
    assert (etc_hosts.stat().st_mode & 0o777, left) == (0o664, ["hosts"])


def test_a_link_to_the_file_stays_a_link(hosts: HostsFile, etc_hosts: Path) -> None:
    link = etc_hosts.with_name("link")
    link.symlink_to(etc_hosts)
    through = HostsFile(link)
    through.put(NAMES)
    with etc_hosts.open("ab") as file:
        file.write(b"10.0.0.2 new\n")
    through.clear()
    assert (link.is_symlink(), etc_hosts.read_bytes()) == (True, OTHERS + b"10.0.0.2 new\n")


def test_two_writers_exclude_each_other(hosts: HostsFile, etc_hosts: Path) -> None:
    other = HostsFile(etc_hosts)
    with hosts.locked(30), pytest.raises(HostsFileUnusable, match="another process"), other.locked(0.05):
        pass


def test_the_next_writer_waits_for_the_first(hosts: HostsFile, etc_hosts: Path) -> None:
    tries = queue.Queue[bool]()

    class Trying(HostsFile):
        def _lock(self) -> bool:
            got = super()._lock()
            tries.put(got)
            return got

    def wait() -> None:
        with Trying(etc_hosts).locked(120):
            pass

    thread = threading.Thread(target=wait)
    with hosts.locked(30):
        thread.start()
        found = [tries.get(timeout=120)]
    thread.join(120)
    found += [tries.get_nowait() for _ in range(tries.qsize())]
    assert (found[0], found[-1]) == (False, True)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HostsFileUnusable, match="cannot be changed"):
        HostsFile(tmp_path / "none").put(NAMES)


def test_a_missing_file_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(HostsFileUnusable, match="cannot be changed"), HostsFile(tmp_path / "none").locked(0.1):
        pass


def test_the_lock_holds_after_the_file_was_replaced(hosts: HostsFile, etc_hosts: Path) -> None:
    with hosts.locked(30):
        hosts.put(NAMES)
        with etc_hosts.open("ab") as file:
            file.write(b"10.0.0.2 new\n")
        before = etc_hosts.stat().st_ino
        hosts.clear()
        replaced = etc_hosts.stat().st_ino != before
        with pytest.raises(HostsFileUnusable), HostsFile(etc_hosts).locked(0.05):
            pass
    with HostsFile(etc_hosts).locked(0.05):
        assert replaced


def test_whoever_may_read_the_file_cannot_keep_names_out_of_it(hosts: HostsFile, etc_hosts: Path) -> None:
    with etc_hosts.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert hosts.keep(NAMES)
    (lock,) = [each for each in etc_hosts.parent.iterdir() if each.name.endswith(".lock")]
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_lock_file_is_in_no_folder_that_others_may_write(hosts: HostsFile, etc_hosts: Path) -> None:
    etc_hosts.parent.chmod(0o777)
    assert hosts.keep(NAMES)
    assert [each.name for each in etc_hosts.parent.iterdir()] == [etc_hosts.name]


def test_a_lock_on_a_file_replaced_by_others_does_not_hold_where_no_folder_is_ours(
    hosts: HostsFile, etc_hosts: Path
) -> None:
    etc_hosts.parent.chmod(0o777)
    with hosts.locked(30):
        other = etc_hosts.with_name("other")
        other.write_bytes(OTHERS)
        other.replace(etc_hosts)
        with HostsFile(etc_hosts).locked(0.05):
            pass


def test_text_after_an_address_makes_no_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n")
    hosts = HostsFile(path, OF_WORKERS)
    assert not hosts.keep({"w1": "fd00::1%x\n6.6.6.6 login.example.org\n#"})
    assert path.read_text() == "127.0.0.1 localhost\n"


def test_a_worker_gets_no_name_of_this_machine_or_of_another_line(
    etc_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "head.example.org")
    hosts = HostsFile(etc_hosts, OF_WORKERS)
    given = ("localhost", "LocalHost", "master", "head", "head.example.org", "ip6-localhost", "w1")
    hosts.keep({name: f"10.0.0.{number}" for number, name in enumerate(given)})
    assert hosts.kept() == {"w1": "10.0.0.6"}
    assert not hosts.keep({"w1": "10.0.0.6", "localhost": "10.0.0.9"})
