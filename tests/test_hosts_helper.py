"""The helper that writes the hosts file as root: it writes the names that it was started for, and no other line."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import HostsFileUnusable
from autoscaler.hosts_file import OF_WORKERS, PASSING, HostsFile
from autoscaler.hosts_helper import Allowed, Helper, HostsHelper, names_at
from tests.deadlines import wait_for

OTHERS = "127.0.0.1 localhost\n10.0.0.1\tmaster master.example  # kept\n10.0.0.9 ip-10-0-0-9\n"
PROBES = {"sge-autoscaler-probe-1": "127.1.0.1", "sge-autoscaler-probe-2": "127.1.0.2"}
WORKERS = {"ip-10-0-0-5": "10.0.0.5"}
ALLOWED = Allowed(re.compile("ip-[0-9-]+"), (ip_network("10.0.0.0/8"), ip_network("fd00::/8")))


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(OTHERS)
    return path


@contextmanager
def listening(hosts: Path, place: Path) -> Iterator[Path]:
    """The helper as systemd starts it: a process (here a thread) for each connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def serve(made: socket.socket) -> None:
            with made, made.makefile("rb") as lines, made.makefile("wb") as answers:
                Helper(hosts, ALLOWED).serve(lines, answers)

        def accept() -> None:
            while True:
                try:
                    made, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(made,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield place
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def helper_socket(hosts: Path, tmp_path: Path) -> Iterator[Path]:
    with listening(hosts, tmp_path / "s") as made:
        yield made


def test_probe_host_names_exist_for_the_length_of_a_question(hosts: Path, helper_socket: Path) -> None:
    names = HostsHelper(helper_socket, PASSING)
    with names.locked(2.0):
        names.put(PROBES)
        there = HostsFile(hosts, PASSING).kept()
        with pytest.raises(HostsFileUnusable, match="another process has locked"), HostsFile(hosts).locked(0.0):
            pass
        names.clear()
        gone = hosts.read_text()
    assert (there, gone) == (PROBES, OTHERS)


def test_a_client_that_dies_leaves_no_probe_host(hosts: Path, helper_socket: Path) -> None:
    names = HostsHelper(helper_socket, PASSING)
    with names.locked(2.0):
        names.put(PROBES)
    assert wait_for(lambda: hosts.read_text() == OTHERS, 30)


def test_worker_names_stay_until_others_replace_them(hosts: Path, helper_socket: Path) -> None:
    names = HostsHelper(helper_socket, OF_WORKERS)
    first, second = names.keep(WORKERS), names.keep(WORKERS)
    kept = names.kept()
    assert (first, second, kept, hosts.read_text().startswith(OTHERS)) == (True, False, WORKERS, True)
    names.keep({})
    assert hosts.read_text() == OTHERS


@pytest.mark.parametrize(
    ("name", "address", "why"),
    (
        ("master", "10.0.0.5", "no name that this helper writes"),
        ("ip-10-0-0-9", "10.0.0.5", "another line"),
        ("IP-10-0-0-9", "10.0.0.5", "no name that this helper writes"),
        ("ip-10-0-0-5", "192.0.2.1", "in no network"),
        ("ip-10-0-0-5", "10.0.0.5 localhost", "is no address"),
        ("ip-10-0-0-5", "fd00::1%x\n6.6.6.6 login.example.org\n#", "is no address"),
        ("ip-10-0-0-5", "fd00::1%eth0", "is no address"),
        ("ip-10-0-0-5\n127.0.0.1 evil", "10.0.0.5", "no name that this helper writes"),
        ("sge-autoscaler-probe-1", "127.0.0.1", "no name that this helper writes"),
    ),
)
def test_a_name_outside_the_allowed_ones_is_refused_and_the_rest_is_kept(
    hosts: Path, helper_socket: Path, name: str, address: str, why: str
) -> None:
    names = HostsHelper(helper_socket, OF_WORKERS)
    with pytest.raises(HostsFileUnusable, match=why):
        names.keep({**WORKERS, "ip-10-0-0-6": "10.0.0.6", name: address})
    others, ours = hosts.read_text()[: len(OTHERS)], hosts.read_text()[len(OTHERS) :]
    expected = {**WORKERS, "ip-10-0-0-6": "10.0.0.6"}
    expected.pop(name, None)
    assert (others, HostsFile(hosts, OF_WORKERS).kept(), ours.count("\n")) == (OTHERS, expected, len(expected))


@pytest.mark.parametrize("do", ("keep", "put"))
@pytest.mark.parametrize(
    "name", ("ip-1\n10.6.6.6 login.example.org #", "ip-1 login", "ip-1\tlogin", "ip-1#", "", "ip-\ud800")
)
def test_a_name_adds_no_second_line_whatever_the_pattern_allows(tmp_path: Path, do: str, name: str) -> None:
    """`[^.]` matches line breaks, too."""
    hosts = tmp_path / "hosts"
    hosts.write_text(OTHERS)
    helper = Helper(hosts, Allowed(re.compile("(ip-[^.]*.*)?", re.DOTALL), ALLOWED.networks))
    asked, answers = {"do": do, "kind": "workers", "addresses": {name: "10.0.0.5"}}, BytesIO()
    helper.serve(BytesIO(json.dumps(asked).encode() + b"\n"), answers)
    assert ("no name that this helper writes" in answers.getvalue().decode(), hosts.read_text()) == (True, OTHERS)


def test_a_probe_host_may_only_have_a_loopback_address(hosts: Path, helper_socket: Path) -> None:
    names = HostsHelper(helper_socket, PASSING)
    with names.locked(2.0), pytest.raises(HostsFileUnusable, match="in no network"):
        names.put({"sge-autoscaler-probe-1": "10.0.0.1"})
    assert hosts.read_text() == OTHERS


@pytest.mark.parametrize(
    "line",
    (b"", b"{}", b"[]", b"null", b"nonsense", b"[" * 5000, b"\xff\xfe", b'{"do": "rm", "kind": "workers"}',
     b'{"do": "keep", "kind": "workers"}', b'{"do": "keep", "kind": "workers", "addresses": {"ip-1": ["10.0.0.1"]}}',
     b'{"do": "put", "kind": [], "addresses": {}}'),
)  # fmt: skip
def test_a_malformed_request_is_answered_and_changes_nothing(hosts: Path, helper_socket: Path, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(helper_socket))
        connection.sendall(line + b"\n")
        connection.shutdown(socket.SHUT_WR)
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
    assert (list(answer), hosts.read_text()) == (["error"], OTHERS)


@pytest.mark.parametrize("patience", ("-1", "NaN", "1" + "0" * 400, "1e999", '"x"'))
def test_a_lock_request_with_any_patience_is_answered(hosts: Path, helper_socket: Path, patience: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(helper_socket))
        connection.sendall(b'{"do": "alone", "kind": "workers", "patience": %s}\n' % patience.encode())
        connection.shutdown(socket.SHUT_WR)
        assert json.loads(connection.makefile().readline()) == {"is": None}


@pytest.mark.parametrize("change", ({"do": "put", "addresses": WORKERS}, {"do": "clear"}))
def test_nothing_is_changed_while_another_connection_has_the_lock(
    hosts: Path, helper_socket: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.hosts_helper.WAIT", 0.1)
    with HostsHelper(helper_socket, PASSING).locked(2.0), socket.socket(socket.AF_UNIX) as other:
        other.connect(str(helper_socket))
        other.sendall(json.dumps({"kind": "workers", **change}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(other.makefile().readline())
    assert ("has locked" in answer.get("error", ""), hosts.read_text()) == (True, OTHERS)


def test_without_a_helper_the_file_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(HostsFileUnusable, match="does not answer"):
        HostsHelper(tmp_path / "nobody", OF_WORKERS).keep(WORKERS)


def test_a_socket_at_the_path_of_the_file_means_the_helper(hosts: Path, helper_socket: Path) -> None:
    assert (type(names_at(helper_socket, PASSING)), type(names_at(hosts, PASSING))) == (HostsHelper, HostsFile)
