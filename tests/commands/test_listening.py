"""The addresses at which `run` and `serve` listen, with one application, until they end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import requests
from requests.auth import HTTPBasicAuth

from autoscaler.api.auto_stop import AutoStops
from autoscaler.commands._http import following_passes, listening, network, operations_of, unserved
from autoscaler.commands._service import socket_path
from autoscaler.commands.context import Invocation
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Memory
from autoscaler.engine.loop import Loop
from autoscaler.engine.place import place_of
from autoscaler.errors import SettingsError
from autoscaler.providers.interface import Provider
from autoscaler.store.observations import LastObservation
from tests.commands.test_commands import environ
from tests.deadlines import wait_for
from tests.simulated.autoscaler import World, start
from tests.web.served import PASSWORD, USER, free_port, password_file
from tests.web.test_local_socket import call

__all__ = ["environ"]


@pytest.fixture
def loop_of() -> Callable[[Invocation], Loop]:
    """A loop over the store of an invocation, after one pass."""

    def made(invocation: Invocation) -> Loop:
        invocation.store_file.parent.mkdir(parents=True, exist_ok=True)
        loop = start(World(invocation.store_file))
        loop.pass_once()
        return loop

    return made


def listens(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_loop_serves_its_socket(environ: dict[str, str], loop_of: Callable[[Invocation], Loop]) -> None:
    invocation = Invocation(environ)
    loop = loop_of(invocation)
    with listening(invocation, loop):
        status, document = call(socket_path(invocation), "GET", "/clusters/default/status")
    assert (status, "nodearrays" in document) == (200, True)


def test_a_loop_serves_no_address_and_names_the_command_that_does(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop], caplog: pytest.LogCaptureFixture
) -> None:
    http, auto_stop = free_port(), free_port()
    more = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{http}", "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{auto_stop}"}
    invocation = Invocation({**environ, **more})
    loop = loop_of(invocation)
    with listening(invocation, loop):
        found = (listens(http), listens(auto_stop), call(socket_path(invocation), "GET", "/requests")[0])
    logged = [record.message for record in caplog.records if record.message.startswith("no process listens at ")]
    assert found == (False, False, 200)
    assert ["`sge-autoscaler serve` does" in each for each in logged] == [True, True]


def test_an_address_at_which_somebody_listens_is_not_reported(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        http = other.getsockname()[1]
        assert list(unserved(Invocation({**environ, "CP_CAP_AUTOSCALE_HTTP": f":{http}"}))) == []


def test_the_addresses_of_serve_are_open_until_it_ends(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop], tmp_path: Path
) -> None:
    http, auto_stop = free_port(), free_port()
    more = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{http}", "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{auto_stop}"}
    invocation = Invocation({**environ, **more}, imports_provider=False)
    loop_of(Invocation(environ))
    password_file(tmp_path / "state" / "http-passwords")
    with network(invocation) as (server, _), server.beside():
        url, login = f"http://127.0.0.1:{http}/clusters/default/status", HTTPBasicAuth(USER, PASSWORD)
        result = (
            requests.get(url, auth=login, timeout=120).status_code,
            status_of(auto_stop, f"/autostop/0abc/{'0' * 64}?instance=i-1"),
            status_of(auto_stop, "/requests"),
            status_of(http, f"/autostop/0abc/{'0' * 64}?instance=i-1"),
        )
    assert result == (200, 403, 404, 404)
    assert [listens(http), listens(auto_stop)] == [False, False]


def test_auto_stop_follows_each_pass_of_another_process(
    environ: dict[str, str], loop_of: Callable[[Invocation], Loop]
) -> None:
    invocation = Invocation(environ)
    loop = loop_of(invocation)
    observed: list[int] = []

    class Follower:
        def passed(self, workers: Sequence[Worker], memory: Memory) -> None:
            observed.append(memory.passes)

    with invocation.store() as store, following_passes(cast("AutoStops", Follower()), store):
        assert wait_for(lambda: observed == [1], 30)
        loop.pass_once()
        assert wait_for(lambda: observed[-1] == 2, 30)


def test_a_dry_run_opens_no_socket(environ: dict[str, str], loop_of: Callable[[Invocation], Loop]) -> None:
    invocation = Invocation({**environ, "CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{free_port()}"})
    loop = loop_of(invocation)
    loop.dry_run = True
    with listening(invocation, loop):
        assert not socket_path(invocation).exists()


def test_if_one_address_cannot_be_opened_none_stays_open(environ: dict[str, str], tmp_path: Path) -> None:
    auto_stop = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        more = {
            "CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{taken.getsockname()[1]}",
            "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{auto_stop}",
        }
        invocation = Invocation({**environ, **more})
        (tmp_path / "state").mkdir()
        password_file(tmp_path / "state" / "http-passwords")
        with pytest.raises(SettingsError, match="cannot listen at"), network(invocation):
            pass
    assert not listens(auto_stop)


@pytest.mark.parametrize(
    ("settings", "place"),
    (
        ({"location": "westeurope", "subnet": "network/subnet"}, ("westeurope", "network/subnet")),
        ({"region": "eu-west-1", "subnets": ("subnet-0a", "subnet-0b")}, ("eu-west-1", "subnet-0a")),
        ({"subnets": ()}, ("fake", "fake")),
        ({}, ("fake", "fake")),
    ),
)
def test_region_and_subnet_are_those_of_the_loop_or_the_name_of_the_provider(
    environ: dict[str, str], settings: dict[str, object], place: tuple[str, str]
) -> None:
    environ["CP_CAP_AUTOSCALE_PROVIDER"] = "fake"
    where = place_of(cast("Provider", SimpleNamespace(settings=SimpleNamespace(**settings))))
    invocation = Invocation(environ, imports_provider=False)
    with invocation.store() as store:
        store.observations.keep(LastObservation("fake", **where), 1.0)
        seen = operations_of(invocation, store, (), lambda: None).view().place
    assert (seen.region, seen.subnet) == place
