"""A real Prometheus scrapes a service while workers come and go: every expression of the dashboard and every metric of
the alerts returns data, over the documented scrape configuration.
"""

from __future__ import annotations

import json
import math
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from autoscaler.api import tokens
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.passwords import Passwords
from autoscaler.api.principal import Role
from autoscaler.api.server import Address, Server
from autoscaler.api.tokens import Tokens
from autoscaler.engine.loop import Loop
from autoscaler.report.metrics import METRICS, PREFIX, MetricKind
from tests.deadlines import wait_for
from tests.simulated.autoscaler import World, settle, step
from tests.simulated.cluster import Clock
from tests.test_meter import measured
from tests.web.served import behind, password_file

CONF = Path(__file__).parents[2] / "conf"
DASHBOARD = json.loads((CONF / "grafana" / "sge-autoscaler.json").read_text(encoding="utf-8"))
ALERTS = CONF / "prometheus" / "alerts.yml"
SCRAPE = CONF / "prometheus" / "scrape.yml"
SELECTOR = re.compile(rf"(?:{PREFIX}\w+|\bup\b)(?:\{{[^}}]*\}})?")


@dataclass
class Prometheus:
    """A running Prometheus."""

    url: str
    log: Path

    def get(self, path: str, **query: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/{path}", params=query, timeout=120)
        assert answer.status_code == 200, (query, answer.text)
        return answer.json()["data"]

    def values(self, expression: str) -> list[float]:
        """The values of an expression, without those that are not numbers."""
        found = [float(each["value"][1]) for each in self.get("query", query=expression)["result"]]
        return [value for value in found if not math.isnan(value)]

    def ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=120).status_code == 200
        except requests.ConnectionError:
            return False


def configuration(folder: Path, target: str) -> Path:
    """The documented configuration, for this target and with the short intervals of a test."""
    text = SCRAPE.read_text(encoding="utf-8")
    for old, new in (
        ("127.0.0.1:8651", target),
        ("/etc/prometheus/sge-autoscaler.token", str(folder / "token")),
        ("scrape_interval: 30s", "scrape_interval: 1s"),
    ):
        assert old in text
        text = text.replace(old, new)
    file = folder / "prometheus.yml"
    jobs = "".join(f"  {line}\n" for line in text.splitlines())
    file.write_text(f"global:\n  evaluation_interval: 1s\nrule_files: [{ALERTS}]\nscrape_configs:\n{jobs}")
    return file


@contextmanager
def running(programs: Path, folder: Path, target: str) -> Iterator[Prometheus]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = (
        programs / "prometheus",
        f"--config.file={configuration(folder, target)}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    log = folder / "prometheus.log"
    with log.open("wb") as output, subprocess.Popen(argv, stdout=output, stderr=output, cwd=folder) as process:
        try:
            made = Prometheus(f"http://127.0.0.1:{port}", log)
            wait_for(made.ready, 30.0)
            yield made
        finally:
            process.kill()


@pytest.fixture(scope="module")
def lived(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """After failed launches, and a whole life of workers that Prometheus has scraped."""
    folder = tmp_path_factory.mktemp("prometheus")
    world = World(folder / "store.sqlite", Clock(time.time()))
    loop = measured(world)
    loop.pass_once()
    (folder / "token").write_text(tokens.create(folder / "tokens", "prometheus", Role.READER, time.time() + 3600))
    with behind(folder / "store.sqlite") as (operations, calls):
        app = make_app(
            Api(operations, Logins(Passwords(password_file(folder / "passwords")), Tokens(folder / "tokens")), calls)
        )
        with (
            Server(app, Address("127.0.0.1", 0)).beside() as server,
            running(programs, folder, server.url.removeprefix("http://")) as prometheus,
        ):
            live(world, loop, prometheus)
            yield prometheus
    loop.store.close()


def live(world: World, loop: Loop, prometheus: Prometheus) -> None:
    """Each stage is scraped before the next begins."""
    scraped(prometheus, loop)
    world.cloud.faults.out_of_capacity = {offer.type.name for offer in world.cloud.catalog.offers.values()}
    world.cluster.submit(3, seconds=40)
    for _ in range(4):
        step(world, loop)
    scraped(prometheus, loop)
    world.cloud.faults.out_of_capacity = set()
    world.cluster.advance(4000.0)
    settle(world, loop)
    scraped(prometheus, loop)
    world.cluster.submit(3, seconds=400)
    for _ in range(12):
        step(world, loop)
    world.cluster.submit(5, seconds=400)
    step(world, loop)
    scraped(prometheus, loop)


def scraped(prometheus: Prometheus, loop: Loop) -> None:
    """Wait until Prometheus has scraped the measures of the last pass."""
    passes = loop.store.measures.load().values["passes_total"]["whole",]

    def has() -> bool:
        return prometheus.values(f'{PREFIX}passes_total{{result="whole"}}') == [passes]

    try:
        wait_for(has, 30.0)
    except AssertionError:
        print(prometheus.log.read_text(encoding="utf-8"), prometheus.get("targets"))
        raise


def panels() -> list[tuple[str, str]]:
    """Title and expression of every line of every panel, for all instances."""
    return [
        (panel["title"], target["expr"].replace("$instance", ".*"))
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]


def selectors_of_alerts() -> list[str]:
    expressions = re.findall(r"expr: (.+(?:\n {10}.+)*)", ALERTS.read_text(encoding="utf-8"))
    assert len(expressions) == ALERTS.read_text(encoding="utf-8").count("- alert:")
    return sorted({found for expression in expressions for found in SELECTOR.findall(expression)})


@pytest.mark.slow
class TestPrometheus:
    """One service, and one Prometheus that scraped it."""

    @pytest.mark.parametrize(("title", "expression"), panels())
    def test_every_panel_shows_data(self, lived: Prometheus, title: str, expression: str) -> None:
        assert lived.values(expression), title

    @pytest.mark.parametrize("selector", selectors_of_alerts())
    def test_every_alert_selector_returns_data(self, lived: Prometheus, selector: str) -> None:
        assert lived.values(selector)

    def test_every_metric_is_stored_with_its_type_and_help(self, lived: Prometheus) -> None:
        result = lived.get("metadata")
        for metric in METRICS:
            (found,) = result[PREFIX + metric.name]
            assert (found["type"], found["help"]) == (metric.kind.value, metric.help)

    def test_prometheus_evaluates_every_alert_without_an_error(self, lived: Prometheus) -> None:
        def judged() -> list[str]:
            return [rule["health"] for group in lived.get("rules")["groups"] for rule in group["rules"]]

        wait_for(lambda: "unknown" not in judged(), 30.0)
        assert set(judged()) == {"ok"}

    def test_the_dashboard_lists_the_instances(self, lived: Prometheus) -> None:
        (variable,) = (each for each in DASHBOARD["templating"]["list"] if each["name"] == "instance")
        metric = variable["query"]["query"].removeprefix("label_values(").partition(",")[0]
        assert lived.get("label/instance/values", **{"match[]": metric})


def test_every_metric_is_shown_or_used_in_an_alert() -> None:
    """Otherwise nobody would notice if it were wrong."""
    used = "".join(expression for _, expression in panels()) + ALERTS.read_text(encoding="utf-8")
    suffixed = {metric.name: metric.name for metric in METRICS if metric.kind is not MetricKind.HISTOGRAM}
    unused = {name for name in suffixed if PREFIX + name not in used}
    assert unused == {
        *("polling_delay_seconds", "grid_engine_command_failures_total", "started_tasks_total", "persistent_hosts"),
        *("worker_cores", "workers_of_unknown_price", "offers_in_backoff", "paused"),
    }


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
