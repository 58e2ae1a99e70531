"""What `run` listens at: the listeners that the settings name, with one application, until it ends."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import requests
from requests.auth import HTTPBasicAuth

from autoscaler.commands._http import listening, place
from autoscaler.commands._socket_path import socket_path
from autoscaler.commands.context import Invocation
from autoscaler.engine.loop import Loop
from autoscaler.errors import SettingsError
from providers.interface import Provider
from tests.commands.test_commands import environ
from tests.simulated.autoscaler import World, start
from tests.web.served import PASSWORD, USER, password_file
from tests.web.test_local_socket import call

__all__ = ["environ"]


def free_port() -> int:
    """One below those that the kernel gives to whoever asks for any, so that nobody gets it in the meantime."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@pytest.fixture
def loop_of() -> Callable[[Invocation], Loop]:
    """A loop over the store of an invocation that has passed once."""

    def made(invocation: Invocation) -> Loop:
        invocation.store_file.parent.mkdir(parents=True, exist_ok=True)
        loop = start(World(invocation.store_file))
        loop.pass_once()
        return loop

    return made


def listens(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def asked(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_with_nothing_set_it_listens_at_the_socket_alone(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop]
) -> None:
    invocation = Invocation(environ)
    loop = loop_of(invocation)
    with listening(invocation, loop):
        status, document = call(socket_path(invocation), "GET", "/clusters/default/status")
    assert (status, "nodearrays" in document, loop.answered) == (200, True, None)


def test_all_three_are_up_until_it_ends(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop], tmp_path: Path
) -> None:
    rest, door = free_port(), free_port()
    more = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{rest}", "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{door}"}
    invocation = Invocation({**environ, **more})
    loop = loop_of(invocation)
    password_file(tmp_path / "state" / "http-passwords")
    with listening(invocation, loop):
        url, login = f"http://127.0.0.1:{rest}/clusters/default/status", HTTPBasicAuth(USER, PASSWORD)
        loop.pass_once()  # it tells whoever answers workers which workers there are
        told = (
            requests.get(url, auth=login, timeout=120).status_code,
            call(socket_path(invocation), "GET", "/requests")[0],
            asked(door, f"/autostop/0abc/{'0' * 64}?instance=i-1"),
            asked(door, "/requests"),
        )
    assert told == (200, 200, 403, 404)
    assert [listens(rest), listens(door), socket_path(invocation).exists()] == [False, False, False]


def test_a_dry_run_listens_nowhere(environ: dict[str, str], loop_of: Callable[[Invocation], Loop]) -> None:
    invocation = Invocation({**environ, "CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{free_port()}"})
    loop = loop_of(invocation)
    loop.dry_run = True
    with listening(invocation, loop):
        assert not socket_path(invocation).exists()


def test_where_one_cannot_be_had_none_stays(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop], tmp_path: Path
) -> None:
    door = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        more = {
            "CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{taken.getsockname()[1]}",
            "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{door}",
        }
        invocation = Invocation({**environ, **more})
        loop = loop_of(invocation)
        password_file(tmp_path / "state" / "http-passwords")
        with pytest.raises(SettingsError, match="cannot listen at"), listening(invocation, loop):
            pass
    assert [listens(door), socket_path(invocation).exists()] == [False, False]


@pytest.mark.parametrize(
    ("settings", "subnet"),
    (
        ({"subnet": "network/subnet"}, "network/subnet"),
        ({"subnets": ("subnet-0a", "subnet-0b")}, "subnet-0a"),
        ({"subnets": ()}, "fake"),
        ({}, "fake"),
    ),
)
def test_callers_are_told_a_subnet_of_the_settings_or_the_providers_name(
    environ: dict[str, str], settings: dict[str, object], subnet: str
) -> None:
    environ["CP_CAP_AUTOSCALE_PROVIDER"] = "fake"
    provider = cast("Provider", SimpleNamespace(settings=SimpleNamespace(**settings)))
    assert place(Invocation(environ), provider).subnet == subnet
