"""Calls to AWS whose answers are odd end soon, with an error of the contract."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import MethodType
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials

from autoscaler.providers.aws import calls
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.orders import fleet_answer, places_of, run_answer
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import NotAuthenticated, Refused, Unreachable
from autoscaler.providers.settings import read_settings
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.test_orders import buckets, order
from tests.providers.test_rest import drip, drip_headers

Handler = Callable[[http.server.BaseHTTPRequestHandler], None]


@pytest.fixture
def serve(region: Region) -> Iterator[Callable[[Handler], Calls]]:
    """AWS's address, at which a server answers every call by a handler."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def made(handler: Handler) -> Calls:
        answering = type("Answering", (http.server.BaseHTTPRequestHandler,), {"do_POST": handler})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answering)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        values = AwsPlane(region).values()
        values["CP_CAP_AUTOSCALE_AWS_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        return Calls(read_settings(AwsProvider.Settings, values))

    yield made
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("slow", (drip, drip_headers))
def test_an_answer_that_drips_ends_with_the_time_for_one_call(
    serve: Callable[[Handler], Calls], slow: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "TOTAL", 0.3)
    asked, began = serve(slow), time.monotonic()
    with pytest.raises(Unreachable, match="not answered within"):
        asked.ask("describe_instances")
    assert time.monotonic() - began < 30, "each drips for a minute"
    monkeypatch.setattr(calls, "MOST_SLOW", 1)
    with pytest.raises(Unreachable, match="not asked"):
        asked.ask("describe_instances")


def test_a_page_that_names_itself_as_the_next_one_is_asked_for_twice_at_most(serve: Callable[[Handler], Calls]) -> None:
    asked: list[int] = []

    def repeats(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(1)
        handler.rfile.read(int(handler.headers["Content-Length"]))
        text = (
            b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
            b"<reservationSet/><nextToken>again</nextToken></DescribeInstancesResponse>"
        )
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    with pytest.raises(Refused, match="repeats itself"):
        list(serve(repeats).pages("describe_instances", "Reservations"))
    assert len(asked) == 2


def test_credentials_that_are_renewed_and_have_expired_are_not_taken(connect: Callable[..., AwsProvider]) -> None:
    provider = connect()
    past = datetime.now(UTC) - timedelta(hours=1)
    old = {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": past.isoformat()}
    expired = RefreshableCredentials.create_from_metadata(old, refresh_using=lambda: old, method="played")
    own = Calls(provider.settings)
    own._client("ec2")._request_signer._credentials = expired
    with pytest.raises(NotAuthenticated, match="expired"):
        own.ask("describe_instances")


@pytest.mark.parametrize("answer", ({}, {"Instances": []}, {"Instances": [{}]}, {"Instances": [None]}))
def test_a_launch_whose_answer_names_no_machine_may_have_happened(
    connect: Callable[..., AwsProvider], answer: dict[str, Any]
) -> None:
    provider = connect("ab")
    asked = order(buckets(provider))
    asked = type(asked)(
        **{**{name: getattr(asked, name) for name in asked.__slots__}, "chosen": provider.choose(asked)}
    )
    found = places_of(asked)
    with pytest.raises(Unreachable):
        run_answer(asked, found[0], answer)
    with pytest.raises(Unreachable):
        fleet_answer(asked, found, answer)


def test_such_a_launch_is_met_once_when_it_is_repeated(
    connect: Callable[..., AwsProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = connect()
    asked, ask = order(buckets(provider)), provider.calls.ask

    def without_instances(self: Calls, operation: str, **parameters: Any) -> Any:
        answer = ask(operation, **parameters)
        return {**answer, "Instances": []} if operation == "run_instances" else answer

    with monkeypatch.context() as broken:
        broken.setattr(provider.calls, "ask", MethodType(without_instances, provider.calls))
        with pytest.raises(Unreachable):
            provider.launch(asked)
    assert len(provider.launch(asked).ids) == 1
    assert provider.cell == CELL
