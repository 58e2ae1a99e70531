"""`sge-autoscaler simulate` as a person uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands._simulated import MEMORY_COMPLEXES, Stopper
from autoscaler.commands.main import main
from autoscaler.sge.complex_table import read_complexes
from autoscaler.simulation.page import compared_section, page_text
from autoscaler.simulation.results import Document, document_of
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.tables import comparison_blocks
from tests.simulation.playing import a_policy, a_simulation, jobs_of
from tests.simulation.test_workloads import a_line

RECORDED = Path(__file__).parent.parent / "sge" / "recorded" / "empty"
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


def a_catalog(folder: Path, name: str, large: float, head: str = "") -> Path:
    """Of m5.large alone, at this price."""
    file = folder / name
    file.write_text(f'{head}\n[types]\n"m5.large" = {{ on_demand = {large} }}\n')
    return file


def test_prices_have_the_currency_of_their_catalogue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HYBRID", "false")
    file = a_catalog(tmp_path, "own.toml", 0.5, 'currency = "EUR"')
    document = simulated(capsys, "--catalog", str(file), "--compare", "today,static:1:m5.large")
    assert {each["currency"] for each in document["policies"]} == {"EUR"}
    assert main(["simulate", "generated:30:2", "--catalog", str(file), "--compare", "today,static:3"]) == 0
    out = capsys.readouterr().out
    assert "price in EUR" in out
    assert "USD" not in out
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "local")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_LOCAL_CATALOG", str(file))
    assert {each["currency"] for each in simulated(capsys)["policies"]} == {"EUR"}
    monkeypatch.setenv("CP_CAP_AUTOSCALE_CURRENCY", "CHF")
    assert {each["currency"] for each in simulated(capsys)["policies"]} == {"CHF"}


def test_a_price_in_another_currency_is_not_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of the family, the catalogue has one type in euros; dollars of the included one are no euros."""
    file = a_catalog(tmp_path, "own.toml", 0.5, 'currency = "EUR"')
    (policy,) = simulated(capsys, "--catalog", str(file), "--compare", "static:2:m5.4xlarge")["policies"]
    assert (policy["unpriced_workers"], policy["price"]) == (2, 0.0)


def test_settings_that_are_tried_are_priced_by_their_own_catalogue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HYBRID", "false")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "local")
    dear = a_catalog(tmp_path, "dear.toml", 9.6)
    file = tmp_path / "dear-settings.toml"
    file.write_text(f'CP_CAP_AUTOSCALE_LOCAL_CATALOG = "{dear}"\n')
    changed = f"CP_CAP_AUTOSCALE_LOCAL_CATALOG={dear}"
    document = simulated(capsys, "--compare", f"today,{file},{changed}")
    today, *others = document["policies"]
    for other in others:
        assert other["price"] == pytest.approx(100 * today["price"])
    said = f"are those of {dear} (CP_CAP_AUTOSCALE_LOCAL_CATALOG)."
    assert {f"Prices of dear-settings {said}", f"Prices of {changed} {said}"} <= {*document["assumptions"]}
    # A catalogue that --catalog names holds for all.
    both = simulated(capsys, "--compare", f"today,{file}", "--catalog", str(dear))
    assert len({each["price"] for each in both["policies"]}) == 1
    dear.write_text('currency = "EUR"\n' + dear.read_text())
    assert main(["simulate", "generated:30:2", "--compare", f"today,{file}"]) == 2
    assert "its prices are in EUR (CP_CAP_AUTOSCALE_LOCAL_CATALOG), those of the included" in capsys.readouterr().err


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
        (["generated:5:1:2:3"], "generated:JOBS:SEED:DAYS"),
        (["generated:5:1:0"], "0 days have no room for jobs"),
        (["nosuch.swf"], "cannot read the workload"),
        (["generated:5", "--compare", "nosuch"], "no such rule"),
        (["generated:5", "--compare", ","], "names nothing to try"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5"], "CP_CAP_AUTOSCALE_IDLE_TIMEOUT"),
        (
            ["generated:5", "--compare", "CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5"],
            "--compare CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5: CP_CAP_AUTOSCALE_IDEL_TIMEOUT is not a setting; did you mean",
        ),
        (["generated:5", "--compare", "CP_CAP_NOPE=3"], "CP_CAP_NOPE is not a setting"),
        (
            ["generated:5", "--compare", "idle_timeout=9"],
            "is not a setting; did you mean CP_CAP_AUTOSCALE_IDLE_TIMEOUT",
        ),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_WORKERS=3,nosuch"], "CP_CAP_AUTOSCALE_WORKERS"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_PROVIDER_1=aws"], "applies to all queues and takes no suffix"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_PROVIDER=azur"], "'azur': did you mean azure?"),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_WORKERS=three"], "CP_CAP_AUTOSCALE_WORKERS"),
        (["generated:5", "--schedule-interval", "0"], "more than 0 s"),
        (
            ["generated:5", "--memory", "h_vmen"],
            "--memory h_vmen: no complex of this name can be counted; did you mean h_v",
        ),
        (["generated:5", "--compare", "CP_CAP_AUTOSCALE_INSTANCE_TYPE=z9.large"], "nothing can be rented"),
    ),
)
def test_bad_input_is_one_clear_error(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    (
        ("simulate", "generated:30", "--page"),
        ("sweep", "nosuch.toml", "--page"),
        ("sweep", "nosuch.toml", "--settings"),
    ),
)
def test_a_file_that_cannot_be_written_at_the_end_is_refused_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: Sequence[str]
) -> None:
    monkeypatch.setattr(Simulation, "run", lambda _: pytest.fail("it was simulated"))
    assert main([*arguments, str(tmp_path / "none" / "file")]) == 2
    assert f"cannot write {tmp_path}/none/file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    (
        "CP_CAP_SGE_QUEUE_NAME_1=second.q+CP_CAP_AUTOSCALE_WORKERS_1=3+CP_CAP_AUTOSCALE_1=true",
        "CP_CAP_AUTOSCALE_PROVIDER=local",
        "CP_CAP_AUTOSCALE_HYBRID_FAMILY=m5,c5+CP_CAP_AUTOSCALE_SCALE_UP_STRATEGY=cost",
    ),
)
def test_settings_of_all_kinds_can_be_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_OF_ANOTHER_VERSION", "1")  # refuses neither these settings nor others
    names = ["today", changed, "static:1"]
    assert main(["simulate", "generated:5", "--json", "--compare", ",".join(names)]) == 0, capsys.readouterr().err
    assert [each["policy"] for each in json.loads(capsys.readouterr().out)["policies"]] == names


def test_the_queue_may_have_any_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a simulated cell that had main.q alone, no worker ever served another queue."""
    (as_usual,) = simulated(capsys)["policies"]
    monkeypatch.setenv("CP_CAP_SGE_QUEUE_NAME", "short.q")
    monkeypatch.setenv("CP_CAP_SGE_HOSTLIST_NAME", "@short")
    monkeypatch.setenv("CP_CAP_SGE_QUEUE_DEFAULT", "false")  # jobs of a workload name no queue
    (renamed,) = simulated(capsys)["policies"]
    assert renamed["tasks"] == {"submitted": 30, "finished": 30, "waiting": 0}
    assert renamed["price"] == as_usual["price"]


def test_passes_are_as_far_apart_as_the_settings_that_are_tried_have_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seldom = "CP_CAP_AUTOSCALE_POLLING_DELAY=120"
    runs: list[Simulation] = []
    monkeypatch.setattr(Stopper, "watch", lambda _, run: runs.append(run))
    document = simulated(capsys, "--compare", f"today,{seldom},static:1")
    assert [run.durations.polling_delay for run in runs] == [10.0, 120.0, 10.0]
    assert "without events the next one comes after 10 or 120 s" in " ".join(document["assumptions"])
    assert not [each for each in document["assumptions"] if "is simulated as" in each]
    monkeypatch.setenv("CP_CAP_AUTOSCALE_POLLING_DELAY", "30")
    document = simulated(capsys)
    assert runs[-1].durations.polling_delay == 30.0
    assert "the next one comes after 30 s" in " ".join(document["assumptions"])


def test_the_weights_of_the_scheduler_can_be_set_and_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of one wide and many narrow jobs that wait for one worker, urgency by slots lets the wide one start first."""
    file = tmp_path / "accounting"
    narrow = [a_line(job, 1000, 1300, 1900) for job in range(1, 9)]
    file.write_text("\n".join([*narrow, a_line(9, 1001, 1300, 1900, slots=2, pe="smp"), ""]))
    options = ["--compare", "static:1:m5.large"]
    shipped, first_come = (
        policies_of(capsys, file, *options, *more) for more in ([], ["--weight-urgency", "0", "--weight-priority=1"])
    )
    waits = [policies[0]["wait_s"]["by_slots"]["2"]["mean"] for policies in (shipped, first_come)]
    assert waits[0] < 600 < 2400 < waits[1]
    assert main(["simulate", str(file), "--weight-priority=0", "--weight-urgency=0.5"]) == 0
    assert "Its weights: priority 0, urgency 0.5, waiting time 0." in " ".join(capsys.readouterr().out.split())


def test_generated_jobs_may_come_over_a_year(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "generated:5:1:365", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any("over 365 days" in each for each in document["assumptions"])
    assert document["policies"][0]["makespan_s"] > 100 * 86_400


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


def test_memory_counts_by_what_jobs_request_or_by_what_grid_engine_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shipped = (RECORDED / "qconf" / "sc.txt").read_text()
    of_memory = {entry.name for entry in read_complexes(shipped).values() if entry.type == "MEMORY"}
    assert of_memory == {*MEMORY_COMPLEXES}
    file = tmp_path / "accounting"
    file.write_text(a_line(1, 1000, 1010, 1900, category="-l ram=4G") + "\n")
    assert main(["simulate", str(file), "--memory", "ram"]) == 0
    assert "decides nothing" not in capsys.readouterr().out
    assert main(["simulate", str(file), "--memory", "h_vmem"]) == 0
    assert "No job requests h_vmem, so it decides nothing." in " ".join(capsys.readouterr().out.split())
    assert main(["simulate", str(file), "--memory", "rom"]) == 0
    assert "No job requests rom, so it decides nothing." in " ".join(capsys.readouterr().out.split())


def test_requests_that_decide_nothing_are_named_with_their_jobs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "accounting"
    lines = [a_line(job, 1000, 1010, 1900, category="-l gpus=1") for job in range(1, 9)]
    file.write_text("\n".join([*lines, a_line(9, 1000, 1010, 1900, category="-l gpus=2,ram=4G")]) + "\n")
    for options, said in (((), "gpus (9), ram (1)"), (("--memory", "gpus"), "ram (1)")):
        assert main(["simulate", str(file), "--json", *options]) == 0
        assert f"Ignored, although jobs request them: {said}." in json.loads(capsys.readouterr().out)["assumptions"]
    assert main(["simulate", str(file), "--json", "--memory", "ram", "--consumable", "gpus"]) == 0
    assumptions = json.loads(capsys.readouterr().out)["assumptions"]
    assert "Requests of these complexes count: ram, gpus." in assumptions
    assert not [each for each in assumptions if each.startswith("Ignored")]


def test_several_consumables_count_for_plan_and_rules_alike(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of four GPUs and little memory, and one of much memory: only together do they need a g4dn.12xlarge."""
    monkeypatch.setenv("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "g4dn.xlarge")
    file = tmp_path / "accounting"
    asks = ("gpus=1,ram=10G", "gpus=1,ram=100G", "gpus=4,ram=1G")
    rules = ("today", "one-per-job", "karpenter", "cloud-pipeline", "oracle")
    seen: list[tuple[tuple[str, int], ...]] = []
    for ask in asks:
        file.write_text(a_line(1, 1000, 1010, 4600, category=f"-l {ask}") + "\n")
        policies = policies_of(capsys, file, "--memory", "ram", "--memory", "gpus", "--compare", ",".join(rules))
        assert {each["tasks"]["finished"] for each in policies} == {1}
        launched = {tuple(each["launched"].items()) for each in policies}
        assert len(launched) == 1, launched
        seen.append(*launched)
    assert seen == [(("g4dn.xlarge", 1),), (("g4dn.8xlarge", 1),), (("g4dn.12xlarge", 1),)]


def test_a_consumable_that_no_worker_has_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "accounting"
    file.write_text(a_line(1, 1000, 1010, 1900, category="-l gpus=1") + "\n")
    assert main(["simulate", str(file), "--json", "--memory", "gpus", "--compare", "today,one-per-job"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["tasks"]["waiting"] for each in document["policies"]] == [1, 1]
    said = "With these settings no worker has gpus: jobs that request it wait (today, one-per-job)."
    assert said in document["assumptions"]


def a_document(name: str, seconds: float = 600.0, *, counts: bool = True) -> Document:
    run = a_simulation(jobs_of(4, seconds=seconds, is_counted=counts), a_policy())
    run.run()
    return document_of(name, run, 0.05, "USD")


def test_where_no_wait_counts_none_is_shown_and_nothing_is_the_best() -> None:
    for counts in (True, False):
        documents = [a_document(name, counts=counts) for name in ("one", "another")]
        table, *_ = comparison_blocks(documents, ())
        waits = table.columns.index("mean wait")
        assert [bool(row[waits]) for row in table.rows] == [counts, counts]
        assert [row[0].endswith("*") for row in table.rows] == [counts, counts]
        assert any(line.startswith("*") for line in table.lines) is counts
        assert ("*</td>" in page_text([compared_section(documents, ())], ())) is counts


def test_few_core_hours_have_decimals() -> None:
    for seconds, few in ((600.0, True), (360_000.0, False)):
        document = a_document("one", seconds)
        table, *_ = comparison_blocks([document], ())
        busy = table.rows[0][table.columns.index("busy")]
        assert ("." in busy) is few
        assert float(busy.replace(",", "")) == pytest.approx(document["rented_core_hours"]["busy"], rel=0.01)


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

    Tags().feed(page_text([compared_section(document["policies"], [hostile])], [hostile]))
    assert "script" not in found
    assert "i" not in found


CATALOG = '[types]\n"m5.large" = { on_demand = 96.0 }\n'
"""In which it costs a thousand times as much."""


@pytest.mark.parametrize("provider", ("local", "aws"))
def test_prices_are_those_of_the_catalogue_that_the_settings_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str
) -> None:
    own, other = tmp_path / "own.toml", tmp_path / "other.toml"
    own.write_text(CATALOG)
    other.write_text(CATALOG.replace("96.0", "9.6"))
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HYBRID", "false")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", provider)
    included = simulated(capsys)
    setting = f"CP_CAP_AUTOSCALE_{provider.upper()}_CATALOG"
    monkeypatch.setenv(setting, str(own))
    of_settings, of_option = simulated(capsys), simulated(capsys, "--catalog", str(other))
    price = included["policies"][0]["price"]
    assert of_settings["policies"][0]["price"] == pytest.approx(1000 * price)
    assert of_option["policies"][0]["price"] == pytest.approx(100 * price)
    for document, named in (
        (included, "the included catalogue"),
        (of_settings, f"{own} ({setting})"),
        (of_option, f"--catalog {other}"),
    ):
        assert any(each.startswith(f"Prices are those of {named}") for each in document["assumptions"])


def test_machines_are_billed_as_the_settings_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_second = simulated(capsys)
    assert "Machines are billed in steps of 1 s, at least 60 s." in by_second["assumptions"]
    hourly = "CP_CAP_AUTOSCALE_BILLING_STEP=3600"
    tried = simulated(capsys, "--compare", f"today,{hourly}")
    assert f"Other billing is what the settings have by which these decide: {hourly}." in tried["assumptions"]
    monkeypatch.setenv("CP_CAP_AUTOSCALE_BILLING_STEP", "3600")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_BILLING_MINIMUM", "7200")
    of_settings = simulated(capsys)
    assert "Machines are billed in steps of 3600 s, at least 7200 s." in of_settings["assumptions"]
    assert of_settings["policies"][0]["price"] > by_second["policies"][0]["price"]
    of_options = simulated(capsys, "--billing-step", "1s", "--billing-minimum", "60s")
    assert "Machines are billed in steps of 1 s, at least 60 s." in of_options["assumptions"]
    assert of_options["policies"][0]["price"] < of_settings["policies"][0]["price"]


def a_swf(file: Path, *submitted: int) -> Path:
    """Jobs of one slot and ten minutes."""
    rows = (f"{n} {at} -1 600 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1" for n, at in enumerate(submitted, start=1))
    file.write_text("".join(f"{row}\n" for row in rows))
    return file


def policies_of(capsys: pytest.CaptureFixture[str], workload: Path, *options: str) -> list[dict[str, Any]]:
    assert main(["simulate", str(workload), "--json", *options]) == 0
    policies: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["policies"]
    return [{name: value for name, value in each.items() if name != "cpu_s"} for each in policies]


@pytest.mark.parametrize("later", (864_000, 8_640_000))
def test_time_counts_from_the_first_job_that_is_played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, later: int
) -> None:
    market = tmp_path / "market.toml"
    market.write_text("[[shortage]]\ntype = 'm5.large'\nfrom = '0d'\nto = '1h'\n")
    tried = "today,CP_CAP_AUTOSCALE_MIN_WORKERS=1,static:1:m5.large"
    options = ["--compare", tried, "--market", str(market)]
    submitted = (0, 100, 7200)
    first = policies_of(capsys, a_swf(tmp_path / "a.swf", *submitted), *options)
    moved = policies_of(capsys, a_swf(tmp_path / "b.swf", *(at + later for at in submitted)), *options)
    skipping = policies_of(
        capsys, a_swf(tmp_path / "c.swf", 0, *(at + later for at in submitted)), "--skip", "1", *options
    )
    assert first == moved == skipping
    assert first[0]["not_to_be_had"] > 0
    paid = (7200 + 600 - 3600) / 3600 * 0.096  # from the end of the shortage to that of the last job
    assert first[2]["price"] == pytest.approx(paid, rel=0.01)


@pytest.mark.parametrize(
    ("submitted", "skip", "message"),
    (((), 0, "has no job to play"), ((0, 60), 2, "has no job to play after the first 2"), ((0, 60), 9, "the first 2")),
)
def test_nothing_to_play_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, submitted: tuple[int, ...], skip: int, message: str
) -> None:
    assert main(["simulate", str(a_swf(tmp_path / "a.swf", *submitted)), "--skip", str(skip)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert not said.out


@pytest.mark.parametrize("options", (["--json", "--csv"], ["--csv", "--json"]))
@pytest.mark.parametrize("command", ("simulate", "sweep", "history", "cost"))
def test_json_and_csv_exclude_each_other(capsys: pytest.CaptureFixture[str], command: str, options: list[str]) -> None:
    assert main([command, *options]) == 2
    assert "give --csv or --json, not both" in capsys.readouterr().err


def test_all_records_of_accounting_are_played_or_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "accounting"
    lines = [a_line(job, 1000 + job, 1010 + job, 1100, category="-l h_rt=1:30:00") for job in range(1, 9)]
    file.write_text("\n".join([*(line.replace(":0.000000:", ":0:") for line in lines), "main.q:w1:users", ""]))
    assert main(["simulate", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["policies"][0]["tasks"]["submitted"] == 8
    assert "Left out: lines that are no whole record (1)." in document["assumptions"]


def test_what_cannot_be_compared_is_told_before_anything_is_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Simulation] = []
    monkeypatch.setattr(Stopper, "watch", lambda _, run: runs.append(run))
    assert main(["simulate", "generated:5", "--compare", "today,static:2:m9.huge"]) == 2
    assert "no offer of type m9.huge" in capsys.readouterr().err
    assert runs == []
