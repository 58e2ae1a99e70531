"""Logins: guessing locks nobody out; roles and tokens."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from autoscaler.answer_client import OVERRIDES
from autoscaler.api import passwords as module
from autoscaler.api import tokens
from autoscaler.api.dependencies import USER as USER_KEY
from autoscaler.api.journal import Journalled
from autoscaler.api.listeners import LISTENER, TCP
from autoscaler.api.logins import AT_ONCE, BURST, EVERY, LoginRefused, Logins
from autoscaler.api.passwords import Passwords, hashed, set_password
from autoscaler.api.principal import Principal, Role
from autoscaler.api.request_service import RequestService
from autoscaler.api.routes import VERBS
from autoscaler.api.tokens import Tokens
from autoscaler.errors import SettingsError
from autoscaler.store.overrides import Verb
from tests.samples import thorough
from tests.web.served import PASSWORD, USER, Served, password_file, worker
from tests.web.test_listeners import places


def basic(user: str, password: str) -> str:
    import base64

    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


RIGHT = basic(USER, PASSWORD)


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins(Passwords(password_file(tmp_path / "passwords")), Tokens(tmp_path / "tokens"), stopwatch=lambda: 0.0)


def status(logins: Logins, header: str, peer: str = "10.0.0.1") -> int:
    try:
        logins.caller(header, peer)
    except LoginRefused as error:
        return error.status
    return 200


# -- guessing ------------------------------------------------------------------------------------------------------


def test_a_proven_caller_never_waits_for_callers_that_guess(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a guess takes: here none ends before the proven caller was answered."""
    assert status(logins, RIGHT) == 200
    answered, began = threading.Event(), threading.Semaphore(0)

    def guess(password: str, entry: str) -> bool:
        began.release()
        assert answered.wait(300)
        return False

    monkeypatch.setattr(module, "proves", guess)
    with ThreadPoolExecutor(60) as threads:
        guesses = [threads.submit(status, logins, basic(USER, f"no{n}"), f"10.0.1.{n}") for n in range(60)]
        for _ in range(AT_ONCE):
            assert began.acquire(timeout=300)
        proven = [status(logins, RIGHT, f"10.0.1.{n}") for n in range(60)]
        answered.set()
        results = [guess.result(300) for guess in guesses]
    assert (set(proven), set(results) <= {401, 503}, results.count(401) >= AT_ONCE) == ({200}, True, True)


@pytest.mark.thorough
def test_sixty_guessing_callers_over_http_do_not_delay_a_proven_one(api: Served, tmp_path: Path) -> None:
    """As a load test does it: real scrypt, one address, 60 callers that repeat their guesses."""
    assert api.client.get("status").status_code == 200
    ended, tries = threading.Event(), 20 if thorough() else 7

    def guess(number: int) -> None:
        while not ended.is_set():
            requests.get(f"{api.client.url}/operations/", auth=(USER, f"wrong{number}"), timeout=120)

    with ThreadPoolExecutor(60) as threads:
        for number in range(60):
            threads.submit(guess, number)
        try:
            answers = [api.client.get("status").status_code for _ in range(tries)]
        finally:
            ended.set()
    assert answers == [200] * tries


def test_guesses_from_one_address_are_limited_and_others_still_log_in(logins: Logins) -> None:
    answers = [status(logins, basic(USER, f"no{number}")) for number in range(BURST + 3)]
    assert answers == [401] * BURST + [429] * 3
    assert (status(logins, RIGHT), status(logins, RIGHT, "10.0.0.2"), status(logins, RIGHT)) == (429, 200, 200)


def test_an_address_may_try_again_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    logins = Logins(Passwords(password_file(tmp_path / "passwords")), stopwatch=lambda: now[0])
    for number in range(BURST + 1):
        status(logins, basic(USER, f"no{number}"))
    with pytest.raises(LoginRefused) as refused:
        logins.caller(RIGHT, "10.0.0.1")
    now[0] += float(refused.value.headers["Retry-After"])
    assert (status(logins, RIGHT), now[0] <= EVERY + 1) == (200, True)
    assert [status(logins, basic(USER, f"again{number}")) for number in range(3)] == [401, 429, 429]


def test_right_passwords_do_not_use_up_the_budget_of_an_address(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.touch(mode=0o600)
    path.write_text("".join(f"u{number}:{hashed('p', cost=2)}\n" for number in range(3 * BURST)))
    logins = Logins(Passwords(path), stopwatch=lambda: 0.0)
    assert {status(logins, basic(f"u{number}", "p")) for number in range(3 * BURST)} == {200}


def test_an_ipv6_host_has_one_budget_for_all_its_addresses(logins: Logins) -> None:
    answers = [status(logins, basic(USER, "no"), f"2001:db8::{number:x}") for number in range(BURST + 1)]
    assert (answers[-1], status(logins, basic(USER, "no"), "2001:db8:0:1::1")) == (429, 401)


def test_wrong_logins_are_counted_and_logged_once_a_minute(logins: Logins, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            status(logins, basic(f"x\x1b]0;{number}", "no"))
    assert (logins.failures, len(caplog.records)) == (5, 1)
    assert "wrong login from 10.0.0.1 as x\\x1b]0;0" in caplog.text


def test_a_user_stays_proven_when_the_line_of_another_user_changes(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    for user in ("anna", "ben"):
        set_password(path, user, "one")
    known = Passwords(path)
    assert (known.right("anna", "one"), known.right("ben", "one")) == (True, True)
    set_password(path, "ben", "two")
    assert (known.proven("anna", "one"), known.proven("ben", "one")) == (Role.ADMIN, None)


# -- tokens --------------------------------------------------------------------------------------------------------


def test_a_token_grants_its_role_and_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = tokens.create(path, "ci", Role.READER, time.time() + 60)
    result = Logins(None, Tokens(path)).caller(f"Bearer {token}", "10.0.0.1")
    assert result == Principal("token:ci", "token:ci (REST)", Role.READER)
    kept = path.read_text()
    assert (token in kept, "sha256$" in kept) == (False, True)
    assert (path.stat().st_mode & 0o777, token.startswith("sgea_")) == (0o600, True)


def test_a_token_is_invalid_once_it_expires_or_is_revoked(tmp_path: Path) -> None:
    path, now = tmp_path / "tokens", [1000.0]
    first, second = (tokens.create(path, name, Role.ADMIN, 2000.0) for name in ("a", "b"))
    known = Tokens(path, clock=lambda: now[0])
    before = [known.owner(token) is not None for token in (first, second, first + "x", "")]
    tokens.revoke(path, "a")
    revoked = known.owner(first)
    now[0] = 2000.0
    assert (before, revoked, known.owner(second)) == ([True, True, False, False], None, None)


def test_a_token_with_a_taken_or_invalid_name_is_not_created(tmp_path: Path) -> None:
    tokens.create(tmp_path / "tokens", "ci", Role.ADMIN, 2000.0)
    for name in ("ci", "", "a b", "a\nb ADMIN 2999-01-01T00:00:00Z x", "token:x"):
        with pytest.raises(SettingsError):
            tokens.create(tmp_path / "tokens", name, Role.ADMIN, 2000.0)


def test_a_token_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = tokens.create(path, "ci", Role.ADMIN, time.time() + 60)
    known = Tokens(path)
    path.chmod(0o666)
    assert known.owner(token) is None
    with pytest.raises(SettingsError, match="chmod o="):
        Tokens(path)


def test_wrong_tokens_shut_nobody_out_at_the_same_address(logins: Logins) -> None:
    """A token cannot be guessed."""
    assert {status(logins, f"Bearer sgea_{number}") for number in range(2 * BURST)} == {401}
    assert logins.failures == 2 * BURST
    assert status(logins, RIGHT) == 200


# -- roles ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def callers(api: Served, served_app: tuple[FastAPI, str], tmp_path: Path) -> dict[str, dict[str, str]]:
    """Request headers for a caller of each role, and for a second caller."""
    from autoscaler.api.dependencies import Api

    path, app = tmp_path / "tokens", served_app[0]
    names = {"reader": Role.READER, "caller": Role.CALLER, "other": Role.CALLER, "admin": Role.ADMIN}
    made = {name: tokens.create(path, name, role, time.time() + 600) for name, role in names.items()}
    service = RequestService(api.store, lambda: ("execute",), lambda: 1000.0)
    app.state.api = Api(api.operations, Logins(app.state.api.logins.passwords, Tokens(path)), api.calls, service)
    return {name: {"Authorization": f"Bearer {token}"} for name, token in made.items()}


def ask(api: Served, head: dict[str, str], method: str, path: str, **more: object) -> requests.Response:
    return requests.request(method, api.client.url + path, headers=head, timeout=120, **more)  # type: ignore[arg-type]


READING = ("/clusters/demo/status", "/clusters/demo/nodes", "/clusters/demo/usage", "/operations/", "/requests",
           "/openapi.json")  # fmt: skip
CHANGING = (
    ("POST", "/clusters/demo/nodes/create"),
    ("POST", "/clusters/demo/nodes/terminate"),
    ("POST", "/clusters/demo/nodes/restart"),
    ("POST", "/clusters/demo/scale/execute?totalNodeCount=1"),
    ("POST", "/cloud/actions/retry/demo"),
    ("POST", "/autoscale"),
    ("DELETE", "/requests/standard"),
    ("POST", "/overrides/v1/pause"),
)


def test_a_reader_may_read_everything_and_change_nothing(api: Served, callers: dict[str, dict[str, str]]) -> None:
    read = {ask(api, callers["reader"], "GET", path).status_code for path in READING}
    changed = {ask(api, callers["reader"], method, path).status_code for method, path in CHANGING}
    assert (read, changed, api.store.nodes.live()) == ({200}, {403}, ())


def test_a_reader_is_refused_every_operation_that_is_not_a_get(api: Served, callers: dict[str, dict[str, str]]) -> None:
    """This holds for operations added later, too: a reader is refused every method that is not GET."""
    document = ask(api, callers["reader"], "GET", "/openapi.json").json()
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {(method, path.replace(":path}", "}")) for method, path in places() if method != "GET"} <= listed
    for operation in (each for path in document["paths"].values() for each in path.values()):
        with_body = "requestBody" in operation
        assert ({"MUNGE": []} in operation["security"], "415" in operation["responses"]) == (not with_body, with_body)
        assert {"401", "421", "429"} <= operation["responses"].keys()
    for path, methods in document["paths"].items():
        for method in set(methods) - {"get", "head"}:
            filled = path.replace("{cluster}", "demo").replace("{nodearray}", "execute").replace("{request_set}", "x")
            assert ask(api, callers["reader"], method.upper(), filled, data="{}").status_code == 403, (method, path)


def test_operator_overrides_need_an_admin_from_the_same_site_and_are_journalled(
    api: Served, callers: dict[str, dict[str, str]]
) -> None:
    path = f"{OVERRIDES}/pause"
    result = {name: ask(api, head, "POST", path).status_code for name, head in callers.items()}
    assert result == {"reader": 403, "caller": 403, "other": 403, "admin": 200}
    assert [(one.verb, one.who) for one in api.store.overrides.in_force()] == [(Verb.PAUSE, "token:admin (REST)")]
    page = {**callers["admin"], "Origin": "https://elsewhere.example.org"}
    assert ask(api, page, "POST", f"{OVERRIDES}/resume").status_code == 403
    assert api.store.overrides.load().paused
    written = {call.who: call.status for call in api.calls.newest() if call.target == path}
    assert written == {f"token:{name}": status for name, status in result.items()}
    standing = [ask(api, callers[name], "GET", OVERRIDES).json() for name in ("caller", "admin")]
    assert [(one["overrides"], one["may"]) for one in standing] == [(1, False), (1, True)]


def test_a_caller_terminates_only_the_nodes_that_it_created(api: Served, callers: dict[str, dict[str, str]]) -> None:
    api.observe(worker("i-1"))
    body = '{"sets": [{"count": 1, "nodearray": "execute"}]}'
    for name in ("caller", "other"):
        assert ask(api, callers[name], "POST", "/clusters/demo/nodes/create", data=body).status_code == 202
    filter_ = '{"filter": "CoreCount >= 0 || CoreCount < 0"}'
    ended = ask(api, callers["caller"], "POST", "/clusters/demo/nodes/terminate", data=filter_).json()["nodes"]
    results = sorted((each["status"], each.get("error") or "") for each in ended)
    assert results == [
        ("Error", "this node was created by token:other: only an admin may do that"),
        ("Error", "this node was not created by a caller: only an admin may do that"),
        ("OK", ""),
    ]
    assert len(api.store.nodes.live()) == 1
    all_ended = ask(api, callers["admin"], "POST", "/clusters/demo/nodes/terminate", data=filter_).json()["nodes"]
    assert {each["status"] for each in all_ended} == {"OK"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_caller_may_do_nothing_to_a_node_of_another(
    api: Served, callers: dict[str, dict[str, str]], verb: str
) -> None:
    body = '{"sets": [{"count": 1, "nodearray": "execute"}]}'
    ask(api, callers["other"], "POST", "/clusters/demo/nodes/create", data=body)
    path = f"/clusters/demo/nodes/{verb}"
    (node,) = ask(api, callers["caller"], "POST", path, data='{"names": ["execute-1"]}').json()["nodes"]
    assert (node["error"].startswith("this node was created by token:other"), len(api.store.nodes.live())) == (True, 1)


def test_a_caller_does_not_change_the_request_set_of_another(api: Served, callers: dict[str, dict[str, str]]) -> None:
    body = '{"arrays": [{"Name": "execute", "TargetCount": 2}], "request_set": "mine"}'
    results = [
        ask(api, callers["caller"], "POST", "/autoscale", data=body).status_code,
        ask(api, callers["other"], "POST", "/autoscale", data=body.replace("2", "0")).status_code,
        ask(api, callers["other"], "DELETE", "/requests/mine").status_code,
        ask(api, callers["caller"], "POST", "/autoscale", data=body).status_code,
        ask(api, callers["admin"], "DELETE", "/requests/mine").status_code,
    ]
    assert results == [200, 403, 403, 200, 200]


@pytest.mark.parametrize("given", ('"MaxCount": 0', '"MachineType": "p3.2xlarge"', '"KeepAlive": true'))
def test_a_caller_may_not_define_a_node_array_of_the_settings_or_of_another(
    api: Served, callers: dict[str, dict[str, str]], given: str
) -> None:
    """A definition would hold for everybody, and outlive the request set of the caller."""

    def update(who: str, name: str, more: str = "") -> int:
        array = f'{{"Name": "{name}", "TargetCount": 1{more}}}'
        body = f'{{"arrays": [{array}], "request_set": "of-{who}-{name}"}}'
        return ask(api, callers[who], "POST", "/autoscale", data=body).status_code

    made = update("other", "burst", ', "Dynamic": true, "MachineType": "m5.large"')
    refused = [update("caller", name, f", {given}") for name in ("execute", "burst")]
    taken = [update("caller", "execute"), update("caller", "burst"), update("admin", "execute", f", {given}")]
    assert (made, refused, taken) == (200, [403, 403], [200, 200, 200])


def test_a_call_is_in_the_journal_before_it_is_answered(api: Served, callers: dict[str, dict[str, str]]) -> None:
    """Otherwise calls would pile up behind the journal until those of others are refused."""
    for number in range(30):
        path = f"/clusters/demo/nodes/{number}"
        ask(api, callers["reader"], "GET", path)
        assert api.calls.newest()[0].target == path


def test_a_call_that_cannot_be_recorded_is_answered(api: Served, callers: dict[str, dict[str, str]]) -> None:
    api.calls.close()
    assert ask(api, callers["reader"], "GET", "/clusters/demo/status").status_code == 200


def test_the_journal_of_calls_names_the_token(api: Served, callers: dict[str, dict[str, str]]) -> None:
    from tests.web.served import until

    ask(api, callers["reader"], "GET", "/operations/")
    assert until(lambda: [call.who for call in api.calls.newest()] == ["token:reader"])


@pytest.mark.parametrize(("method", "status", "recorded"), (("GET", 429, 0), ("GET", 200, 1), ("POST", 429, 1)))
def test_reads_that_are_refused_are_not_recorded(api: Served, method: str, status: int, recorded: int) -> None:
    async def app(scope: Scope, _: Receive, send: Send) -> None:
        scope[USER_KEY] = "reader"
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(_: Message) -> None:
        return None

    parts = SimpleNamespace(operations=api.operations, calls=api.calls)
    inner = SimpleNamespace(state=SimpleNamespace(api=parts))
    scope = {"type": "http", "app": inner, "method": method, "path": "/x", "state": {LISTENER: TCP}}
    asyncio.run(Journalled(app)(scope, None, send))  # type: ignore[arg-type]
    assert len(api.calls.newest()) == recorded


def test_a_token_in_a_url_is_masked_in_the_journal(api: Served, callers: dict[str, dict[str, str]]) -> None:
    """A token in a URL proves nothing there, but it is valid."""
    token = callers["reader"]["Authorization"].removeprefix("Bearer ")
    for path in (f"/operations/?token={token}", f"/clusters/demo/nodes/{token}"):
        ask(api, {}, "GET", path)
        result = api.calls.newest()[0].target
        assert (token.removeprefix("sgea_") in result, "sgea_..." in result) == (False, True)


def test_the_role_in_the_password_file_survives_a_new_password(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    set_password(path, "anna", "one", Role.READER)
    set_password(path, "anna", "two")
    set_password(path, "ben", "two")
    known = Passwords(path)
    assert [known.role(user, "two") for user in ("anna", "ben")] == [Role.READER, Role.ADMIN]


def test_a_line_without_a_role_means_admin_and_an_unknown_role_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.touch(mode=0o600)
    path.write_text(f"anna:{hashed('x', cost=2)}\n")
    assert Passwords(path).role("anna", "x") is Role.ADMIN
    path.write_text(f"anna:{hashed('x', cost=2)}:king\n")
    with pytest.raises(SettingsError, match="line 1"):
        Passwords(path)


@pytest.mark.parametrize("acts", (False, True))
def test_without_munge_nobody_is_a_manager_of_grid_engine(logins: Logins, acts: bool) -> None:
    assert not logins.manages("root", "10.0.0.1", acts=acts)
