"""Limits apply to each of several queues; a warning gives their sum, and floors are checked against the limits of the
cell.
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from autoscaler.commands.config import command
from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import settings_findings
from autoscaler.errors import SettingsError
from autoscaler.settings import load_settings
from autoscaler.sge.checks import Level

TWO = {"instance_size": "m5.large", "CP_CAP_SGE_QUEUE_NAME_1": "gpu.q", "CP_CAP_AUTOSCALE_WORKERS": "2"}
PRICED = {"CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR": "0.1", "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR_1": "0.1"}


def warnings(**environ: str) -> list[str]:
    return [warning for warning in load_settings({**TWO, **environ}).warnings if "to each queue" in warning]


def test_a_limit_of_two_queues_is_reported_with_its_sum() -> None:
    assert warnings(**PRICED) == [
        "CP_CAP_AUTOSCALE_WORKERS applies to each queue separately: main.q 2, gpu.q 3; together 5 workers. "
        "CP_CAP_AUTOSCALE_TOTAL_WORKERS limits the whole cell",
        "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR applies to each queue separately: main.q 0.1, gpu.q 0.1; together 0.2 an "
        "hour in the currency of your prices. CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR limits the whole cell",
    ]


def test_the_sum_of_price_limits_has_its_currency() -> None:
    assert any("together 0.2 EUR an hour. " in each for each in warnings(**PRICED, CP_CAP_AUTOSCALE_CURRENCY="EUR"))


def test_a_queue_without_that_limit_is_named() -> None:
    (_, price) = warnings(CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR="0.1")
    assert "main.q 0.1; gpu.q without a limit" in price


def test_with_a_limit_of_the_whole_cell_there_is_no_warning() -> None:
    total = {"CP_CAP_AUTOSCALE_TOTAL_WORKERS": "3", "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR": "0.1"}
    assert warnings(**PRICED, **total) == []


def test_with_one_queue_there_is_no_warning() -> None:
    assert load_settings({"instance_size": "m5.large", "CP_CAP_AUTOSCALE_MAX_CORES": "8"}).warnings == ()


def test_limits_of_the_whole_cell_apply_to_every_node_array() -> None:
    total = {"CP_CAP_AUTOSCALE_TOTAL_WORKERS": "3", "CP_CAP_AUTOSCALE_TOTAL_CORES": "9"}
    policy = load_settings({**TWO, **total, "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR": "0.5"}).policy(master="master")
    found = [(each.limits.total_workers, each.limits.total_cores) for each in policy.node_arrays]
    assert found == [(3, 9), (3, 9)]
    assert [each.limits.total_price_per_hour for each in policy.node_arrays] == [0.5, 0.5]


def test_floors_above_the_limit_of_the_whole_cell_are_an_error() -> None:
    floors = {"CP_CAP_AUTOSCALE_MIN_WORKERS": "2", "CP_CAP_AUTOSCALE_MIN_WORKERS_1": "2"}
    with pytest.raises(SettingsError, match=r"together \(4\) is above CP_CAP_AUTOSCALE_TOTAL_WORKERS \(3\)"):
        load_settings({**TWO, **floors, "CP_CAP_AUTOSCALE_TOTAL_WORKERS": "3"})


def test_config_check_and_doctor_report_summed_limits() -> None:
    provider = {"CP_CAP_AUTOSCALE_PROVIDER": "local", "CP_CAP_AUTOSCALE_LOCAL_NETWORK": "/somewhere"}
    done = CliRunner().invoke(command, ["check"], env={**TWO, **PRICED, **provider})
    assert (done.exit_code, "note: CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR applies to each" in done.output) == (0, True)
    findings = settings_findings(Invocation({**TWO, **PRICED, **provider}))
    assert any("together 0.2 an hour" in each.found and each.level is Level.WARN for each in findings)
