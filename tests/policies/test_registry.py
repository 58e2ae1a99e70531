"""Autoscale policies are found by name or import path, and an invalid one is refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.policies.registry import known, load, unclaimed

GOOD = """
from autoscaler.providers.settings import ExtensionSettings

class Options(ExtensionSettings):
    env_prefix = "CP_CAP_AUTOSCALE_POLICY_{name}_"
    count: int = 1

class Policy:
    name = "mine"
    Settings = Options
    def __init__(self, settings): self.settings = settings
    def requests(self, snapshot, past): return [{{"Name": "execute", "TargetCount": self.settings.count}}]

class NoRequests:
    name = "mine"
    Settings = Options

class BadName(Policy):
    name = "Not a name"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """An external module on PYTHONPATH."""
    name = f"policy_of_{abs(hash(request.node.name))}"
    prefix = getattr(request, "param", "MINE")
    (tmp_path / f"{name}.py").write_text(GOOD.format(name=prefix))
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_built_in_policies_are_found_by_name() -> None:
    assert {"warm_buffer", "celery_queue"} <= set(known())


def test_an_external_policy_is_loaded_by_import_path_with_its_options(module: str) -> None:
    policy = load((f"{module}:Policy",), {"CP_CAP_AUTOSCALE_POLICY_MINE_COUNT": "4"})["mine"]
    assert policy.requests(None, None) == [{"Name": "execute", "TargetCount": 4}]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    (
        ("warm_bufer", r"did you mean warm_buffer\?"),
        ("no.such.module:Policy", "cannot be imported"),
        ("{module}:Missing", "cannot be imported"),
        ("{module}:NoRequests", "is not an autoscale policy: it has no requests"),
        ("{module}:BadName", "lower-case letters"),
        ("{module}:GOOD_NOT", "cannot be imported"),
        (":x", "is not an import path"),
    ),
)
def test_an_invalid_policy_is_refused(module: str, name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load((name.format(module=module),), {})


@pytest.mark.parametrize("module", ("OTHER",), indirect=True)
def test_options_need_the_prefix_of_the_policy(module: str) -> None:
    with pytest.raises(SettingsError, match="needs the env_prefix CP_CAP_AUTOSCALE_POLICY_MINE_"):
        load((f"{module}:Policy",), {})


def test_a_policy_chosen_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="warm_buffer is chosen twice"):
        load(("warm_buffer", "warm_buffer"), {})


def test_all_errors_are_reported_at_once(module: str) -> None:
    prefix = "CP_CAP_AUTOSCALE_POLICY_"
    values = {f"{prefix}MINE_COUNT": "few", f"{prefix}WARM_BUFFER_DAYS": "x", f"{prefix}WARM_BUFFER_COUMT": "1"}
    with pytest.raises(SettingsError) as raised:
        load((f"{module}:Policy", "warm_buffer", "warm_bufer", "celery_queue", "warm_buffer"), values)
    messages = (
        "MINE_COUNT = 'few'",
        "DAYS = 'x'",
        "COUMT is not",
        "autoscale policy 'warm_bufer'",
        "BROKER: Field",
        "chosen twice",
    )
    assert [words for words in messages if words not in str(raised.value)] == []


def test_invalid_json_is_reported_with_all_other_errors() -> None:
    prefix = "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_"
    with pytest.raises(SettingsError) as raised:
        load(("celery_queue",), {f"{prefix}TRANSPORT_OPTIONS": "{half", f"{prefix}CORES_PER_TASK": "0"})
    messages = ("TRANSPORT_OPTIONS = '{half': Value error, ", "CORES_PER_TASK = '0'", "BROKER: Field")
    assert [words for words in messages if words not in str(raised.value)] == []


def test_options_of_a_policy_that_is_not_chosen_are_reported() -> None:
    values = {"CP_CAP_AUTOSCALE_POLICY_WARM_BUFER_COUNT": "2", "CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_COUNT": "2"}
    assert unclaimed(load(("warm_buffer",), values), values) == (
        "CP_CAP_AUTOSCALE_POLICY_WARM_BUFER_COUNT: no autoscale policy in CP_CAP_AUTOSCALE_POLICIES "
        "(warm_buffer) has this setting"
    )
