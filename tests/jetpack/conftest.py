"""A service on its own socket, which the environment names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.api.request_service import RequestService
from autoscaler.store.store import Store
from tests.web.served import serve_requests


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of a service that knows the node array `execute`, at 1000 s."""
    monkeypatch.setenv("CP_CAP_AUTOSCALE_SOCKET", str(tmp_path / "a.sock"))
    store = Store.open(None)
    with serve_requests(RequestService(store, lambda: ("execute",), lambda: 1000.0), tmp_path / "a.sock"):
        yield store
    store.close()
