"""Requests for node arrays over the REST API: by the library, by the client of the commands, and by plain calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI

from autoscaler import jetpack
from autoscaler.api.dependencies import Api
from autoscaler.api.request_service import RequestService
from autoscaler.core.model.request_sets import Target
from autoscaler.jetpack.service import AutoscaleError, Rejected, Service
from tests.web.served import PASSWORD, USER, Served

SERVING = ("fastapi", "starlette", "uvicorn")


@pytest.fixture
def api(api: Served, served_app: tuple[FastAPI, str]) -> Served:
    """A server that takes requests for node arrays, too."""
    app, _ = served_app
    service = RequestService(api.store, lambda: ["execute"])
    app.state.api = Api(api.operations, app.state.api.logins, api.calls, service)
    return api


@pytest.fixture
def login(tmp_path: Path) -> Path:
    path = tmp_path / "login"
    path.touch(mode=0o600)
    path.write_text(f"{USER}:{PASSWORD}\n")
    return path


def test_the_library_requests_over_http_with_url_and_login(
    api: Served, login: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_URL", api.client.url)
    monkeypatch.setenv("CP_CAP_AUTOSCALE_LOGIN", str(login))
    jetpack.autoscale.set(name="execute", corecount=128)
    (asked,) = api.store.requests.load(0.0).sets
    assert (asked.name, asked.by, asked.targets) == ("standard", "anna (REST)", (Target("execute", cores=128),))


def test_requests_are_shown_and_ended_over_rest(api: Served, login: Path) -> None:
    service = Service(url=api.client.url, login=str(login))
    service.call("POST", "/autoscale", {"arrays": [{"Name": "execute", "TargetCount": 2}], "request_set": "a/b"})
    shown = [each["name"] for each in service.call("GET", "/requests")["request_sets"]]
    ended = service.call("DELETE", "/requests/a%2Fb")
    assert (shown, ended) == (["a/b"], {"request_set": "a/b", "ended": True})
    assert api.store.requests.load(0.0).sets == ()


def test_an_error_in_an_update_is_reported_to_its_caller(api: Served, login: Path) -> None:
    with pytest.raises(Rejected, match="TargetCount"):
        Service(url=api.client.url, login=str(login)).call(
            "POST", "/autoscale", {"arrays": [{"Name": "execute", "TargetCount": "many"}]}
        )


def test_requests_without_a_login_are_refused(api: Served) -> None:
    with pytest.raises(AutoscaleError, match="refuses this user and password"):
        Service(url=api.client.url).call("GET", "/requests")


def test_no_server_library_is_imported_before_serving() -> None:
    modules = "autoscaler.commands.main, autoscaler.commands.run, autoscaler.commands.serve, autoscaler.commands._http"
    code = f"import sys, {modules}; print([name for name in {SERVING} if name in sys.modules])"
    output = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, timeout=120, check=True)
    assert output.stdout.strip() == "[]"
