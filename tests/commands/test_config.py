"""`config show` and `config check` cover the chosen provider's own settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoscaler.commands.config import command
from autoscaler.settings.pages import table_rows
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings

WELL = {
    "instance_size": "m5.large",
    "CP_CAP_AUTOSCALE_PROVIDER": "local",
    "CP_CAP_AUTOSCALE_LOCAL_NETWORK": "/somewhere",
}


def rows(**environ: str) -> dict[str, dict[str, str]]:
    done = CliRunner().invoke(command, ["show", "--json"], env={**WELL, **environ})
    return {row["env"]: row for row in json.loads(done.stdout)["settings"]}


def test_show_prints_the_own_settings_of_the_chosen_provider_with_their_origin() -> None:
    shown = rows(CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY="3")
    own = [shown[f"CP_CAP_AUTOSCALE_LOCAL_{name}"] for name in ("BOOT_DELAY", "LISTING_LAG")]
    assert [(row["value"], row["origin"]) for row in own] == [("3", "environment"), ("0", "default")]


def test_show_says_which_timeouts_the_rules_replace(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"idle_timeout": {"default": 15, "execute_1": 60}}')
    done = CliRunner().invoke(command, ["show"], env={**WELL, "CP_CAP_AUTOSCALE_RULES": str(rules)})
    warned = [line for line in done.stderr.splitlines() if "does not hold" in line]
    assert warned == [f"warning: CP_CAP_AUTOSCALE_IDLE_TIMEOUT does not hold: {rules} sets 15 s, execute_1: 60 s"]


@pytest.mark.parametrize(
    ("environ", "message"),
    (
        ({"CP_CAP_AUTOSCALE_LOCAL_BOOT_DELY": "3"}, "did you mean CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY"),
        ({"CP_CAP_AUTOSCALE_LOCAL_NETWORK": ""}, "CP_CAP_AUTOSCALE_LOCAL_NETWORK: Field required"),
        ({"CP_CAP_AUTOSCALE_PROVIDER": "locl"}, "did you mean local?"),
    ),
)
def test_check_finds_errors_of_the_chosen_provider(environ: dict[str, str], message: str) -> None:
    done = CliRunner().invoke(command, ["check"], env={**WELL, **environ})
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_where_no_provider_is_chosen_each_one_of_a_cloud_is_named() -> None:
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_PROVIDER": None})
    assert (done.exit_code, "one of aws, azure, cloud_pipeline, cyclecloud, local," in done.output) == (2, True), (
        done.output
    )


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("CP_CAP_AUTOSCALE_AUTOSTOP", "8650"),
        ("CP_CAP_AUTOSCALE_AUTOSTOP", "master:8650"),
        ("CP_CAP_AUTOSCALE_HTTP", "localhost"),
    ),
)
def test_check_finds_addresses_that_cannot_be_listened_at(name: str, value: str) -> None:
    done = CliRunner().invoke(command, ["check"], env={**WELL, name: value})
    assert (done.exit_code, name in done.output, value in done.output) == (2, True, True), done.output


def test_check_notes_a_missing_health_check_program(tmp_path: Path) -> None:
    (tmp_path / "check").write_text("#!/bin/sh\n")
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_HEALTH_CHECK": f"{tmp_path}/check -x"})
    message = (
        f"note: CP_CAP_AUTOSCALE_HEALTH_CHECK = {tmp_path}/check: this host has no executable program at this path"
    )
    assert (done.exit_code, message in done.output) == (0, True), done.output
    (tmp_path / "check").chmod(0o755)
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_HEALTH_CHECK": f"{tmp_path}/check -x"})
    assert "note" not in done.output


def test_check_finds_nothing_in_complete_settings() -> None:
    done = CliRunner().invoke(command, ["check"], env=WELL)
    assert done.exit_code == 0, done.output


def test_the_help_of_check_says_that_it_logs_in_to_the_provider() -> None:
    assert "It logs in to the provider" in " ".join(CliRunner().invoke(command, ["check", "--help"]).output.split())


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    (
        (None, 0, "cannot be read: No such file"),
        ("", 0o600, "has no URL"),
        ("json://h/x\n", 0o644, "chmod"),
        ("nonsense://secret\njson://h/x\n", 0o600, "line 1 of"),
    ),
    ids=("none", "empty", "others may read it", "no service"),
)
def test_check_finds_errors_in_the_notification_file(tmp_path: Path, text: str | None, mode: int, message: str) -> None:
    urls = tmp_path / "urls"
    if text is not None:
        urls.write_text(text)
        urls.chmod(mode)
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_NOTIFICATIONS": str(urls)})
    assert (done.exit_code, message in done.output, "secret" in done.output) == (2, True, False), done.output
    urls.write_text("json://h/x\n")
    urls.chmod(0o600)
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_NOTIFICATIONS": str(urls)})
    assert done.exit_code == 0, done.output


def test_check_finds_munge_set_but_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    values = {"CP_CAP_AUTOSCALE_MUNGE": str(tmp_path / "socket"), "CP_CAP_AUTOSCALE_HTTP": "8651"}
    done = CliRunner().invoke(command, ["check"], env={**WELL, **values})
    assert (done.exit_code, "MUNGE is not installed here" in done.output) == (2, True), done.output


def test_check_finds_errors_in_the_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[apply]]\nqueue = 'main.q'\nconstraints = { exclusive = 2 }\n")
    done = CliRunner().invoke(command, ["check"], env={**WELL, "CP_CAP_AUTOSCALE_RULES": str(rules)})
    message = f"error: {rules}: apply[0].constraints.exclusive: true or false is expected, not 2"
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_settings_without_effect_keep_their_key_in_json() -> None:
    without_effect = {row.env for section in (Process, QueueSettings) for row in table_rows(section) if row.no_effect}
    assert {env for env, row in rows().items() if row["unheeded"]} == without_effect != set()
