"""`config check`, `doctor` and `run` report a mistyped instance type or family, which could never launch anything."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from click.testing import CliRunner

from autoscaler.commands import _instance_types
from autoscaler.commands._instance_types import beyond_limits, offers_in_time, unknown_types
from autoscaler.commands.config import command
from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import type_findings
from autoscaler.commands.run import NotReady, _report_unknown_types
from autoscaler.errors import NotObservable
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.providers.interface import Unreachable
from autoscaler.settings import load_settings
from autoscaler.sge.checks import Level

FAKE = {"CP_CAP_AUTOSCALE_PROVIDER": "fake", "CP_CAP_AUTOSCALE_TAG": "cell"}
WRONG = {**FAKE, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.lrage"}


def a_fake() -> FakeProvider:
    return FakeProvider(FakeSettings(), cell="cell")


def problems(**environ: str) -> list[str]:
    return list(unknown_types(load_settings({**FAKE, **environ}), a_fake().buckets()))


@pytest.mark.parametrize(
    ("environ", "message"),
    (
        (
            {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.lrage"},
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE = m5.lrage: provider fake has no such instance type for execute; did you "
            "mean m5.large?",
        ),
        (
            {"instance_size": "m5.lrage"},
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE = m5.lrage (environment (instance_size)): provider fake has no such "
            "instance type for execute; did you mean m5.large?",
        ),
        (
            {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_HYBRID_FAMILY": "m5x"},
            "CP_CAP_AUTOSCALE_HYBRID_FAMILY = m5x: provider fake has no such instance family for execute; did you ",
        ),
        (
            {
                "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
                "CP_CAP_SGE_QUEUE_NAME_1": "g.q",
                "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.xlagre",
            },
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1 = c5.xlagre: provider fake has no such instance type for execute_1; did "
            "you mean c5.xlarge?",
        ),
    ),
)
def test_an_unknown_type_or_family_is_reported_with_similar_ones(environ: dict[str, str], message: str) -> None:
    (found,) = problems(**environ)
    assert found.startswith(message)


def test_a_known_type_or_family_is_not_reported() -> None:
    assert problems(CP_CAP_AUTOSCALE_INSTANCE_TYPE="m5.large") == []
    assert problems(CP_CAP_AUTOSCALE_HYBRID="true", CP_CAP_AUTOSCALE_HYBRID_FAMILY="m5") == []


def test_a_provider_without_a_list_of_types_proves_nothing() -> None:
    assert list(unknown_types(load_settings(WRONG), ())) == []


def test_config_check_refuses_an_unknown_type() -> None:
    done = CliRunner().invoke(command, ["check"], env=WRONG)
    assert (done.exit_code, "error: CP_CAP_AUTOSCALE_INSTANCE_TYPE = m5.lrage" in done.output) == (2, True), done.output


def test_doctor_fails_on_an_unknown_type() -> None:
    (found,) = type_findings(Invocation(WRONG))
    assert (found.level, "did you mean m5.large?" in found.found) == (Level.FAIL, True)


def test_doctor_fails_without_an_instance_type() -> None:
    found = type_findings(Invocation({name: text for name, text in WRONG.items() if "INSTANCE_TYPE" not in name}))
    assert [(each.level, "set CP_CAP_AUTOSCALE_INSTANCE_TYPE" in each.found) for each in found] == [(Level.FAIL, True)]


def test_run_reports_an_unknown_type_at_start(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        _report_unknown_types(Invocation(WRONG), a_fake())
    assert "m5.lrage" in caplog.text


NONE_FITS = {
    **{name: text for name, text in WRONG.items() if "INSTANCE_TYPE" not in name},
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "1",
}


def test_a_cap_below_the_smallest_type_of_its_family_is_an_error_at_the_start_and_in_every_check() -> None:
    said = "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE = 1: no type of family m5 has so few cores"
    with pytest.raises(NotReady, match=said):
        _report_unknown_types(Invocation(NONE_FITS), a_fake())
    assert said in CliRunner().invoke(command, ["check"], env=NONE_FITS).output
    assert [each.level for each in type_findings(Invocation(NONE_FITS))] == [Level.FAIL]
    fits = {**NONE_FITS, "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "2"}
    _report_unknown_types(Invocation(fits), a_fake())


def test_a_provider_that_does_not_answer_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(self: FakeProvider) -> None:
        raise Unreachable("the network is down")

    monkeypatch.setattr(FakeProvider, "buckets", no_answer)
    done = CliRunner().invoke(command, ["check"], env=WRONG)
    assert (done.exit_code, "cannot be asked for its instance types here: the network is down" in done.output) == (
        0,
        True,
    ), done.output


def test_where_the_cloud_refuses_everything_no_type_is_called_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider then lists the types that it knows by itself, and others exist."""
    refused = tuple(replace(bucket, problem="you are not authorized") for bucket in a_fake().buckets())
    monkeypatch.setattr(FakeProvider, "buckets", lambda self: refused)
    done = CliRunner().invoke(command, ["check"], env=WRONG)
    assert "gives no machines with these settings: you are not authorized" in done.output
    assert (done.exit_code, "no such instance type" in done.output) == (0, False), done.output


def test_a_defect_of_a_provider_is_raised_not_reported_as_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProvider, "buckets", lambda self: [][0])
    with pytest.raises(IndexError):
        offers_in_time(a_fake())


def test_a_provider_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    never = Event()
    monkeypatch.setattr(_instance_types, "PATIENCE", 0.05)
    monkeypatch.setattr(FakeProvider, "buckets", lambda self: () if never.wait(120) else None)
    with pytest.raises(NotObservable, match=r"no answer within 0\.05 s"):
        offers_in_time(a_fake())
    never.set()


@pytest.mark.parametrize(
    ("environ", "message"),
    (
        (
            {"INSTANCE_TYPE": "m5.4xlarge", "MAX_CORES": "8"},
            "execute can never launch anything: m5.4xlarge has 16 cores, and CP_CAP_AUTOSCALE_MAX_CORES allows 8",
        ),
        (
            {"INSTANCE_TYPE": "m5.4xlarge", "TOTAL_CORES": "8"},
            "execute can never launch anything: m5.4xlarge has 16 cores, and CP_CAP_AUTOSCALE_TOTAL_CORES allows 8",
        ),
        (
            {"INSTANCE_TYPE": "m5.4xlarge", "MAX_PRICE_PER_HOUR": "0.01"},
            " an hour, and CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR allows 0.01",
        ),
        (
            {"INSTANCE_TYPE": "m5.large", "HYBRID": "true", "HYBRID_FAMILY": "m5", "MAX_CORES": "1"},
            "other types are beyond a limit, too",
        ),
        ({"INSTANCE_TYPE": "m5.large", "HYBRID": "true", "HYBRID_FAMILY": "m5", "MAX_CORES": "4"}, ""),
        ({"INSTANCE_TYPE": "m5.4xlarge", "MAX_CORES": "16"}, ""),
    ),
    ids=("cores", "total cores", "price", "every type of a family", "some types of a family", "exactly"),
)
def test_types_of_which_not_one_worker_is_allowed_are_reported(environ: dict[str, str], message: str) -> None:
    settings = load_settings({**FAKE, **{f"CP_CAP_AUTOSCALE_{name}": value for name, value in environ.items()}})
    found = list(beyond_limits(settings, a_fake().buckets()))
    assert (len(found), message in "".join(found)) == (bool(message), True)
