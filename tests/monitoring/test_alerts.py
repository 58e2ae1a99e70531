"""The alerts of `conf/prometheus/alerts.yml`, judged by promtool: each fires in its scenario, and none in a healthy
hour or in another's scenario.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "conf" / "prometheus" / "alerts.yml"
OURS = 'job="sge-autoscaler",instance="master:8651"'
SAMPLES = 200
"""Every 30 s: 100 minutes."""
HEALTHY: Mapping[str, str] = {
    "up": f"1x{SAMPLES}",
    "sge_autoscaler_last_pass_timestamp_seconds": f"0+30x{SAMPLES}",
    "sge_autoscaler_failed_passes_in_a_row": f"0x19 1 0x{SAMPLES - 20}",
    'sge_autoscaler_launch_failures_total|kind="capacity"': f"7x60 8x{SAMPLES - 60}",
    'sge_autoscaler_launch_failures_total|kind="quota"': f"0x{SAMPLES}",
    "sge_autoscaler_circuit_breaker_open": f"0x{SAMPLES}",
    'sge_autoscaler_node_array_stopped|node_array="execute",cause="protected_mode"': f"0x{SAMPLES}",
    'sge_autoscaler_node_array_stopped|node_array="execute",cause="refused"': f"0x{SAMPLES}",
    "sge_autoscaler_longest_wait_seconds": f"0+30x40 0x{SAMPLES - 40}",
    "sge_autoscaler_launches_allowed": f"1x{SAMPLES}",
    "sge_autoscaler_lost_workers_total": f"3x{SAMPLES}",
    "sge_autoscaler_oldest_price_timestamp_seconds": f"0x{SAMPLES}",
    "sge_autoscaler_notification_failures_in_a_row": f"0x19 1 2 0x{SAMPLES - 21}",
    "sge_autoscaler_dropped_notifications_total": f"4x{SAMPLES}",
}
"""An ordinary hour: one pass failed, one launch too, a worker was lost on another day, a job waited 20 minutes."""
ABSENT = ""
GONE: Mapping[str, str] = {name: ABSENT for name in HEALTHY if name != "up"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """The differences from a healthy hour, and which alerts fire at these minutes."""

    series: Mapping[str, str]
    firing: Mapping[int, Sequence[str]]


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": Scenario({}, dict.fromkeys((1, 10, 30, 45, 60, 75, 90), ())),
    "nothing answers": Scenario({**GONE, "up": f"0x{SAMPLES}"}, {4: (), 60: ("NotScraped",)}),
    "the job is not configured": Scenario({**GONE, "up": ABSENT}, {4: (), 60: ("NotScraped",)}),
    "the loop has died and serve goes on": Scenario(
        {"sge_autoscaler_last_pass_timestamp_seconds": f"0+30x20 600x{SAMPLES - 20}"},
        {15: (), 19: (), 30: ("NoPass",), 90: ("NoPass",)},
    ),
    "no pass was ever made": Scenario({"sge_autoscaler_last_pass_timestamp_seconds": ABSENT}, {0: (), 10: ("NoPass",)}),
    "qmaster is down": Scenario(
        {
            "sge_autoscaler_failed_passes_in_a_row": f"0x19 0+1x{SAMPLES - 20}",
            "sge_autoscaler_last_pass_timestamp_seconds": f"0+30x20 600x{SAMPLES - 20}",
        },
        {11: (), 15: ("NotObserving",), 30: ("NoPass", "NotObserving")},
    ),
    "no capacity": Scenario(
        {'sge_autoscaler_launch_failures_total|kind="capacity"': f"7x60 7+1x{SAMPLES - 60}"},
        {29: (), 40: ("LaunchesFail",)},
    ),
    "the circuit breaker opens": Scenario(
        {"sge_autoscaler_circuit_breaker_open": f"0x20 1x{SAMPLES - 20}", "sge_autoscaler_launches_allowed": "0x200"},
        {9: (), 12: ("CircuitBreakerOpen",)},
    ),
    "protected mode": Scenario(
        {'sge_autoscaler_node_array_stopped|node_array="execute",cause="protected_mode"': f"0x20 1x{SAMPLES - 20}"},
        {9: (), 12: ("NodeArrayStopped",)},
    ),
    "the provider refuses a node array": Scenario(
        {'sge_autoscaler_node_array_stopped|node_array="execute",cause="refused"': f"0x20 1x{SAMPLES - 20}"},
        {9: (), 12: ("NodeArrayStopped",)},
    ),
    "jobs wait for hours": Scenario(
        {"sge_autoscaler_longest_wait_seconds": f"0+30x{SAMPLES}"}, {60: (), 65: (), 75: ("JobsWait",)}
    ),
    "jobs wait because a person paused it": Scenario(
        {"sge_autoscaler_longest_wait_seconds": f"0+30x{SAMPLES}", "sge_autoscaler_launches_allowed": f"0x{SAMPLES}"},
        {75: (), 90: ()},
    ),
    "a worker is lost": Scenario(
        {"sge_autoscaler_lost_workers_total": f"3x19 4x{SAMPLES - 20}"}, {9: (), 12: ("WorkerLost",), 40: ()}
    ),
    "a service takes no notifications": Scenario(
        {"sge_autoscaler_notification_failures_in_a_row": f"0x19 1 2 3x{SAMPLES - 21}"},
        {9: (), 10: (), 12: ("NotificationsFail",), 90: ("NotificationsFail",)},
    ),
    "notifications were given up after a day": Scenario(
        {"sge_autoscaler_dropped_notifications_total": f"4x19 9x{SAMPLES - 20}"},
        {9: (), 12: ("NotificationsFail",), 75: ()},
    ),
    "prices are old": Scenario(
        {"sge_autoscaler_oldest_price_timestamp_seconds": f"-2600000x{SAMPLES}"}, {50: (), 70: ("OldPrices",)}
    ),
}
PREFIX = "SgeAutoscaler"


def alerts() -> list[str]:
    return re.findall(rf"- alert: {PREFIX}(\w+)", ALERTS.read_text(encoding="utf-8"))


def as_test(scenario: Scenario) -> dict[str, object]:
    """As JSON, which promtool reads as YAML."""
    series = []
    for name, values in {**HEALTHY, **scenario.series}.items():
        metric, _, labels = name.partition("|")
        if values != ABSENT:
            series.append({"series": f"{metric}{{{OURS}{',' if labels else ''}{labels}}}", "values": values})
    return {
        "interval": "30s",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": 'sum by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{PREFIX}{name}"}}', "value": 1} for name in firing],
            }
            for minute, firing in scenario.firing.items()
        ],
    }


def judged(programs: Path, folder: Path, scenario: Scenario, rules: Path = ALERTS) -> subprocess.CompletedProcess[str]:
    file = folder / "test.yml"
    document = {"rule_files": [str(rules)], "evaluation_interval": "30s", "tests": [as_test(scenario)]}
    file.write_text(json.dumps(document), encoding="utf-8")
    argv = (programs / "promtool", "test", "rules", file)
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def test_promtool_accepts_the_rules(programs: Path) -> None:
    argv = (programs / "promtool", "check", "rules", ALERTS)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert (done.returncode, f"{len(alerts())} rules found" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("name", SCENARIOS)
def test_alerts_fire_in_their_scenario_and_no_other(programs: Path, tmp_path: Path, name: str) -> None:
    done = judged(programs, tmp_path, SCENARIOS[name])
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_scenario() -> None:
    fired = {alert for scenario in SCENARIOS.values() for firing in scenario.firing.values() for alert in firing}
    assert fired == set(alerts())


def test_an_alert_that_does_not_fire_is_detected(programs: Path, tmp_path: Path) -> None:
    deaf = tmp_path / "alerts.yml"
    deaf.write_text(
        ALERTS.read_text(encoding="utf-8").replace("circuit_breaker_open == 1", "circuit_breaker_open == 2")
    )
    done = judged(programs, tmp_path, SCENARIOS["the circuit breaker opens"], deaf)
    assert (done.returncode, "SgeAutoscalerCircuitBreakerOpen" in done.stdout + done.stderr) == (1, True)
