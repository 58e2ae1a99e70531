"""The policy and the settings in docs/policies.md work as described."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.outcome.sample import ArraySample, Sample
from autoscaler.policies.policy_requests import Recorded
from autoscaler.policies.registry import load, unclaimed
from autoscaler.store.store import Store
from tests.core.building import NOW, a_snapshot

DOCUMENT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
DAY = 86_400.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (code,) = blocks("python")
    (tmp_path / "as_yesterday.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("as_yesterday", None)


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("today", "wanted"), ((1.0, [{"Name": "execute", "TargetCount": 4}]), (9.0, [])))
def test_the_documented_policy_requests_as_many_as_were_busy_a_day_ago(today: float, wanted: object) -> None:
    table, busy = Store.open(None).samples, Sample(NOW - DAY + 600, arrays={"execute": ArraySample(busy=5.0)})
    table.add(busy, busy.at + 60)
    table.add(replace(busy, at=NOW - DAY + 3000, arrays={"execute": ArraySample(busy=50.0)}), NOW - DAY + 3060)
    table.add(replace(busy, at=NOW - 30, arrays={"execute": ArraySample(busy=today)}), NOW)
    policy = load(("as_yesterday:AsYesterday",), {})["as_yesterday"]
    assert policy.requests(a_snapshot(), Recorded(table, NOW)) == wanted


@pytest.mark.parametrize("block", blocks("sh")[1:])
def test_the_documented_settings_are_valid(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://")
    values = {name: text.strip('"') for name, _, text in (line.partition("=") for line in block.splitlines())}
    chosen = values["CP_CAP_AUTOSCALE_POLICIES"].split(",")
    assert unclaimed(load(chosen, values), values) is None
