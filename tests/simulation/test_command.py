"""`sge-autoscaler simulate` as a person uses it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands.main import main
from autoscaler.simulation.page import page_text

SETTINGS = {
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "20",
}
SMALLER = "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE=4"


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["simulate", "generated:30:2", "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_comparison_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulated(capsys, "--compare", f"today,{SMALLER},static:2:m5.4xlarge")
    today, smaller, static = document["policies"]
    assert [each["policy"] for each in document["policies"]] == ["today", SMALLER, "static:2:m5.4xlarge"]
    assert today["tasks"] == smaller["tasks"] == {"submitted": 30, "finished": 30, "waiting": 0}
    assert set(smaller["launched"]) <= {"m5.large", "m5.xlarge"}
    assert static["launches"] == 2
    assert any("seed 2" in each for each in document["assumptions"])


def test_a_settings_file_is_a_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "four.toml"
    file.write_text("CP_CAP_AUTOSCALE_IDLE_TIMEOUT = 900\n")
    today, four = simulated(capsys, "--compare", f"today,{file}")["policies"]
    assert four["policy"] == "four"
    assert four["rented_core_hours"]["idle"] > today["rented_core_hours"]["idle"]


def test_the_table_says_in_words_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "generated:30:2", "--compare", f"today,{SMALLER}"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"On these 30 tasks, \S+ would have cost \d+\.\d% (less|more) than today", out)
    assert "This rests on" in out


def test_csv_has_a_line_for_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "generated:30:2", "--compare", "today,karpenter", "--csv"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("policy,complete,price")
    assert [row.split(",")[0] for row in rows] == ["today", "karpenter"]


def test_what_has_no_known_price_is_not_called_cheap(capsys: pytest.CaptureFixture[str]) -> None:
    unpriced = "CP_CAP_AUTOSCALE_PRICE_TYPE=spot"
    assert main(["simulate", "generated:30:2", "--compare", f"today,{unpriced}"]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"{unpriced} +0\.00\?", out)
    assert f"{unpriced}: " in out
    assert "workers have no known price" in out
    assert "would have cost" not in out


def test_a_market_is_played_and_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    market, page = tmp_path / "market.toml", tmp_path / "page.html"
    market.write_text("[[shortage]]\ntype = 'm5.large'\n[[shortage]]\ntype = 'm5.xlarge'\n")
    assert main(["simulate", "generated:30:2", "--market", str(market), "--page", str(page)]) == 0
    out = capsys.readouterr().out
    assert "machines were ordered that the cloud did not have" in out
    assert "machines were ordered that the cloud did not have" in page.read_text()
    assert "2 shortages and quotas of --market hold" in out
    market.write_text("[[quota]]\nfamily = 'm5'\n")
    assert main(["simulate", "generated:30:2", "--market", str(market)]) == 2
    assert f"{market}, quota 1: it needs machines or vcpus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (["generated:x"], "write generated:JOBS"),
        (["generated:0"], "write generated:JOBS"),
        (["nosuch.swf"], "cannot read the workload"),
        (["generated:5", "--compare", "nosuch"], "no such rule"),
        (["generated:5", "--compare", ","], "names nothing to try"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5"], "CP_CAP_AUTOSCALE_IDLE_TIMEOUT"),
        (
            ["generated:5", "--compare", "CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5"],
            "--compare CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5: CP_CAP_AUTOSCALE_IDEL_TIMEOUT is not a setting; did you mean",
        ),
        (["generated:5", "--compare", "CP_CAP_NOPE=3"], "CP_CAP_NOPE is not a setting"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_PROVIDER_1=aws"], "applies to all queues and takes no suffix"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_PROVIDER=azur"], "'azur': did you mean azure?"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_WORKERS=three"], "CP_CAP_AUTOSCALE_WORKERS"),
        (["generated:5", "--schedule-interval", "0"], "more than 0 s"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_INSTANCE_TYPE=z9.large"], "nothing can be rented"),
    ),
)
def test_bad_input_is_one_clear_error(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    (
        "CP_CAP_SGE_QUEUE_NAME_1=second.q+CP_CAP_AUTOSCALE_WORKERS_1=3+CP_CAP_AUTOSCALE_1=true",
        "CP_CAP_AUTOSCALE_PROVIDER=local",
    ),
)
def test_settings_of_all_kinds_can_be_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_OF_ANOTHER_VERSION", "1")  # refuses neither these settings nor others
    assert main(["simulate", "generated:5", "--compare", f"today,{changed}"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("hybrid", ("true", "false"))
def test_settings_without_a_type_say_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, hybrid: str
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HYBRID", hybrid)
    assert main(["simulate", "generated:5"]) == 2
    said = capsys.readouterr().err
    assert "set CP_CAP_AUTOSCALE_INSTANCE_TYPE" in said
    assert "--config" in said


def test_a_page_stands_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["simulate", "generated:30:2", "--compare", f"today,{SMALLER}", "--page", str(page)]) == 0
    text = page.read_text()
    assert not re.search(r"<script|<link|src=|href=|url\(", text)
    assert text.count("<svg") == 4
    assert not list(tmp_path.glob(".*"))


def test_names_in_a_page_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulated(capsys, "--compare", "today,karpenter")
    hostile = "\"><script>alert(1)</script><i x='&"
    for each in document["policies"]:
        each["policy"] = f"{hostile}{each['policy']}"
    found: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append(tag)

    Tags().feed(page_text(document["policies"], [hostile]))
    assert "script" not in found
    assert "i" not in found
