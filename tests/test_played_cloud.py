"""A missing requirement of the demo of a cloud is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.lab import played_cloud as module
from autoscaler.lab.cell import Cell
from autoscaler.lab.demo import PROVIDERS
from autoscaler.lab.played_cloud import CHECKOUT, NoControlPlane, played_cloud


def test_without_the_tests_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    with (
        pytest.raises(NoControlPlane, match="run `make demo PROVIDER=aws` in a checkout"),
        played_cloud(Cell(tmp_path), "aws"),
    ):
        pass


def test_every_provider_of_the_demo_has_a_server_in_a_checkout() -> None:
    servers = {name for name in PROVIDERS if (CHECKOUT / "tests" / "clouds" / name / "server.py").exists()}
    assert servers == PROVIDERS.keys() - {"local"}
