"""Options of autoscale policies on the command line: checked before a start, shown with where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.commands.main import main

PREFIX = "CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def checked(config: Path, capsys: pytest.CaptureFixture[str], **given: str) -> tuple[int, str]:
    """Exit code of `config check` with these policy settings, and its errors."""
    own = {"PROVIDER": "fake", "INSTANCE_TYPE": "m5.large", **given}
    config.write_text("".join(f'CP_CAP_AUTOSCALE_{name} = "{text}"\n' for name, text in own.items()))
    try:
        code = main(["config", "check", "--file", str(config)])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().err.strip()


def test_valid_options_pass(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(config, capsys, POLICIES="warm_buffer", POLICY_WARM_BUFFER_COUNT="3") == (0, "")


@pytest.mark.parametrize(
    ("given", "words"),
    (
        ({"POLICIES": "warm_bufer"}, "there is no autoscale policy 'warm_bufer': did you mean warm_buffer?"),
        ({"POLICIES": "warm_buffer", "POLICY_WARM_BUFFER_COUNT": "few"}, f"{PREFIX}COUNT = 'few'"),
        ({"POLICIES": "warm_buffer", "POLICY_WARM_BUFFER_COUMT": "3"}, f"did you mean {PREFIX}COUNT?"),
        ({"POLICY_WARM_BUFFER_COUNT": "3"}, "no autoscale policy in CP_CAP_AUTOSCALE_POLICIES (none) has"),
        (
            {"POLICIES": "warm_buffer", "POLICY_WARM_BUFFER_COUNT": "few", "POLICY_OTHER_COUNT": "3"},
            "CP_CAP_AUTOSCALE_POLICY_OTHER_COUNT: no autoscale policy",
        ),
        ({"POLICIES": "celery_queue"}, "CELERY_QUEUE_BROKER: Field required"),
    ),
)
def test_invalid_options_are_errors_before_a_start(
    config: Path, capsys: pytest.CaptureFixture[str], given: dict[str, str], words: str
) -> None:
    code, result = checked(config, capsys, **given)
    assert (code, words in result) == (2, True), result


def test_options_are_shown_and_passwords_are_not(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(
        'CP_CAP_AUTOSCALE_POLICIES = "warm_buffer,celery_queue"\n'
        f'{PREFIX}COUNT = "3"\nCP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_BROKER = "redis://:hunter22@broker/0"\n'
    )
    main(["config", "show", "--file", str(config)])
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("CP_")}
    assert rows[f"{PREFIX}COUNT"][:2] == ["3", "file"]
    assert rows[f"{PREFIX}END"] == ["10:00:00", "default"]
    assert "hunter22" not in shown
