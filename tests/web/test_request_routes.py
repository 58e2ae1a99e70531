"""Requests for node arrays over HTTP: the library and the command reach the same service as on the socket."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler import jetpack
from autoscaler.answer_client import TOKEN_ENV, not_trusted
from autoscaler.api import tokens
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import LARGEST_BODY, Api
from autoscaler.api.logins import Logins
from autoscaler.api.passwords import Passwords
from autoscaler.api.principal import Role
from autoscaler.api.request_service import RequestService
from autoscaler.api.server import Address, Server
from autoscaler.api.tokens import Tokens
from autoscaler.commands.main import main
from autoscaler.core.model.request_sets import Target
from autoscaler.jetpack.autoscale import Rejected
from autoscaler.jetpack.service import CA_ENV, LOGIN_ENV, URL_ENV, Service, Unreachable
from autoscaler.store.store import Store
from tests.web.served import PASSWORD, USER, Client, Served, behind, password_file, until

BY = f"{USER} (REST)"
EXECUTE = json.dumps({"arrays": [{"Name": "execute", "TargetCount": 2}]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that takes requests."""
    folder = tmp_path_factory.mktemp("requests")
    with behind(folder / "store.sqlite") as (operations, calls):
        service = RequestService(operations.store, lambda: ("execute",), lambda: 1000.0)
        app = make_app(Api(operations, Logins(Passwords(password_file(folder / "passwords"))), calls, service))
        with Server(app, Address("127.0.0.1", 0)).beside() as listening:
            yield Served(Client(listening.url), operations, calls)


@pytest.fixture
def served(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The same without any request yet, with its address and a login in the environment."""
    server.store.requests.clear()
    (tmp_path / "login").write_text(f"{USER}:{PASSWORD}\n", encoding="utf-8")
    (tmp_path / "login").chmod(0o600)
    monkeypatch.setenv(URL_ENV, server.client.url)
    monkeypatch.setenv(LOGIN_ENV, str(tmp_path / "login"))
    return server


@pytest.fixture
def over_tls(
    served: Served, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The same over TLS, with a certificate that the machine does not trust."""
    service = RequestService(served.store, lambda: ("execute",), lambda: 1000.0)
    logins = Logins(Passwords(password_file(tmp_path / "passwords")))
    app = make_app(Api(served.operations, logins, served.calls, service))
    with Server(app, Address("127.0.0.1", 0, *certificate)).beside() as listening:
        monkeypatch.setenv(URL_ENV, listening.url)
        yield certificate[0]


def sets(served: Served) -> list[tuple[str, str, tuple[Target, ...]]]:
    return [(one.name, one.by, one.targets) for one in served.store.requests.load(1001.0).sets]


def test_the_library_requests_over_http_and_the_login_names_the_requester(served: Served) -> None:
    jetpack.autoscale.set(name="execute", corecount=128)
    assert sets(served) == [("standard", BY, (Target("execute", cores=128),))]


def test_the_library_and_the_command_trust_the_configured_certificate(
    served: Served, over_tls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CA_ENV, str(over_tls))
    jetpack.autoscale.set(name="execute", corecount=128)
    assert main(["autoscale", "--name=execute", "--count=2"]) == 0
    assert sets(served) == [("standard", BY, (Target("execute", count=2),))]


@pytest.mark.usefixtures("over_tls")
@pytest.mark.parametrize(
    ("ca_file", "message"),
    (("", f"is not trusted .*: set {CA_ENV}"), ("none.pem", f"{CA_ENV}: .*none.pem cannot be used")),
)
def test_an_untrusted_certificate_is_refused_with_the_setting_to_use(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ca_file: str, message: str
) -> None:
    monkeypatch.setenv(CA_ENV, str(tmp_path / ca_file) if ca_file else "")
    with pytest.raises(Unreachable, match=message):
        jetpack.autoscale.set(name="execute", corecount=128)
    assert sets(served) == []


def test_without_a_login_a_token_proves_the_requester(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text(tokens.create(tmp_path / "tokens", "site", Role.READER, time.time() + 60), encoding="utf-8")
    token.chmod(0o600)
    monkeypatch.delenv(LOGIN_ENV)
    monkeypatch.setenv(TOKEN_ENV, str(token))
    service = RequestService(served.store, lambda: ("execute",), lambda: 1000.0)
    app = make_app(Api(served.operations, Logins(None, Tokens(tmp_path / "tokens")), served.calls, service))
    with Server(app, Address("127.0.0.1", 0)).beside() as listening:
        monkeypatch.setenv(URL_ENV, listening.url)
        assert main(["requests"]) == 0
        assert "there are no live requests" in capsys.readouterr().out
        token.write_text("sgea_nonsense", encoding="utf-8")
        with pytest.raises(Rejected, match=f"or this token; .*{TOKEN_ENV}"):
            jetpack.autoscale.set(name="execute", corecount=128)


def test_a_certificate_for_another_name_is_reported_as_such() -> None:
    why = "Hostname mismatch, certificate is not valid for 'localhost'."
    assert not_trusted("https://localhost:1", why).endswith(f"write a name that it has into {URL_ENV}")


def test_the_commands_request_show_and_end_over_http(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [
        main(["autoscale", "--name=execute", "--count=2"]),
        main(["requests"]),
        main(["requests", "--end", "standard"]),
    ]
    printed = capsys.readouterr().out
    assert (codes, f"standard: requested by {BY}" in printed, "standard has ended" in printed, sets(served)) == (
        [0, 0, 0],
        True,
        True,
        [],
    )


def test_a_wrong_update_is_refused_with_its_place(served: Served) -> None:
    with pytest.raises(Rejected, match=r"^\[0\]\.TargetCount: a whole number"):
        jetpack.autoscale.update([{"Name": "execute", "TargetCount": -1}])


def test_a_wrong_password_is_refused(served: Served, tmp_path: Path) -> None:
    (tmp_path / "login").write_text(f"{USER}:wrong\n", encoding="utf-8")
    with pytest.raises(Rejected, match="refuses this user and password"):
        jetpack.autoscale.set(name="execute", corecount=128)
    assert sets(served) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    (
        ("POST", "/autoscale", EXECUTE, 200),
        ("POST", "/autoscale", "{", 400),
        ("POST", "/autoscale", b"\xff", 400),
        ("POST", "/autoscale", b" " * (LARGEST_BODY + 1), 413),
        ("GET", "/requests", None, 200),
        ("DELETE", "/requests/none", None, 200),
        ("GET", "/autoscale", None, 405),
    ),
)
def test_each_answer_has_its_status(served: Served, method: str, path: str, body: Any, status: int) -> None:
    assert served.client.ask(method, path, data=body).status_code == status


def test_a_body_is_read_as_json_whatever_its_content_type(served: Served) -> None:
    answer = served.client.ask("POST", "/autoscale", data=EXECUTE, headers={"Content-Type": "text/plain"})
    assert (answer.status_code, len(sets(served))) == (200, 1)


def test_a_set_of_any_name_can_be_ended(served: Served) -> None:
    jetpack.autoscale.update([], request_set="a/b c")
    assert Service.find().call("DELETE", "/requests/a%2Fb%20c")["ended"] is True


def test_every_call_is_journalled(served: Served) -> None:
    served.client.ask("DELETE", "/requests/nobody")

    def recorded() -> bool:
        calls = served.calls.newest(1)
        return [(call.who, call.method, call.target, call.status) for call in calls] == [
            (USER, "DELETE", "/requests/nobody", 200)
        ]

    assert until(recorded)


def test_the_openapi_document_lists_the_request_routes(served: Served) -> None:
    document = served.client.ask("GET", "/openapi.json").json()
    assert {"/autoscale", "/requests", "/requests/{request_set}"} <= document["paths"].keys()


def test_the_log_names_a_few_of_many_node_arrays(caplog: pytest.LogCaptureFixture) -> None:
    service = RequestService(Store.open(None), lambda: ("execute",), lambda: 1000.0)
    arrays = [{"Name": f"a{n}", "Extends": "execute", "Dynamic": True, "TargetCount": 1} for n in range(400)]
    with caplog.at_level(logging.INFO, logger="autoscaler.requests"):
        service.update(json.dumps({"arrays": arrays}), "ann")
    assert caplog.messages == ["ann requests as request set standard: a0, a1, a2 and 397 more"]


def test_bounds_of_numbers_are_described_in_json_schema(served: Served) -> None:
    document = served.client.ask("GET", "/openapi.json").json()
    count = document["components"]["schemas"]["NodeSet"]["properties"]["count"]
    assert (count["minimum"], count["maximum"], {"ge", "le"} & count.keys()) == (1, 100_000, set())
