"""A secret may be given by reference, and is shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.providers.settings import ExtensionSettings, Secret, read_settings


class Model(ExtensionSettings):
    env_prefix = "CP_CAP_AUTOSCALE_MINE_"

    password: Secret


def password(given: str) -> str:
    return read_settings(Model, {"CP_CAP_AUTOSCALE_MINE_PASSWORD": given}).password.get_secret_value()


def test_a_plain_value_is_the_secret() -> None:
    assert password("hush") == "hush"


def test_a_secret_may_refer_to_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELSEWHERE", "hush")
    assert password("env:ELSEWHERE") == "hush"


def test_a_secret_may_refer_to_a_file_and_loses_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    assert password(f"file:{tmp_path / 'secret'}") == "hush"


@pytest.mark.parametrize(
    ("given", "message"),
    (
        ("env:NOT_THERE", "the environment variable NOT_THERE is not set"),
        ("file:/not/there", "/not/there cannot be read: No such file"),
        ("file:/dev/null", "/dev/null cannot be read: it is no regular file"),
    ),
)
def test_a_reference_that_cannot_be_resolved_is_an_error(given: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        password(given)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(SettingsError, match="secret is empty"):
        password(f"file:{tmp_path}/secret")


def test_the_value_of_a_secret_is_not_in_the_repr() -> None:
    shown = repr(read_settings(Model, {"CP_CAP_AUTOSCALE_MINE_PASSWORD": "hush"}))
    assert "hush" not in shown
