"""No credentials go to a port that another person took while the service restarts."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler import port_owner
from autoscaler.answer_client import ServiceAddress, Unanswered, ask
from autoscaler.jetpack.service import Service, Unreachable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")
SQUATTER = """
import socket, sys
listening = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
listening.bind((sys.argv[1], 0)); listening.listen()
print(listening.getsockname()[1], flush=True)
made, _ = listening.accept()
made.settimeout(30)
print(made.recv(65536), flush=True)
"""


@contextlib.contextmanager
def squatting(uid: int, at: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process of this uid that listens, and prints what it receives."""
    argv = ["/usr/bin/python3", "-I", "-S", "-c", SQUATTER, at]
    with subprocess.Popen(argv, user=uid, group=uid, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text("sgea_secret\n")
    file.chmod(0o600)
    return str(file)


@as_root
@pytest.mark.parametrize("at", ("127.0.0.1", "0.0.0.0", "::1", "::"))
def test_no_token_goes_to_the_port_of_another_person(token: str, at: str) -> None:
    with squatting(61001, at) as (port, process):
        url = f"http://{'[::1]' if ':' in at else '127.0.0.1'}:{port}"
        with pytest.raises(Unanswered, match=f"uid 61001 listens at port {port}"):
            ask(ServiceAddress(url=url, token_file=token), "status")
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "b''"


@as_root
def test_no_login_of_a_script_goes_there_either(token: str) -> None:
    with squatting(61001, "127.0.0.1") as (port, _), pytest.raises(Unreachable, match="uid 61001 listens"):
        Service(url=f"http://127.0.0.1:{port}", token=token).call("GET", "/requests")


@as_root
@pytest.mark.parametrize("uid", (0, 999))
def test_root_and_system_accounts_get_it(token: str, uid: int) -> None:
    with squatting(uid, "127.0.0.1") as (port, process):
        with contextlib.suppress(Unanswered):
            made = socket.create_connection(("127.0.0.1", port))
            port_owner.refuse_stranger(made)
            made.close()
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "b''"


@as_root
def test_a_person_who_runs_the_service_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 61001, 61001)
    monkeypatch.setattr(port_owner, "OF_SERVICES", tmp_path)
    with squatting(61001, "127.0.0.1") as (port, _), socket.create_connection(("127.0.0.1", port)) as made:
        port_owner.refuse_stranger(made)
