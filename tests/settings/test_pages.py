"""The pages made from the table of settings are up to date, and the sample file reads back."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoscaler.commands.config import command
from autoscaler.settings import Process, QueueSettings, load_settings
from autoscaler.settings.pages import MATTERING, RULED, sample_file, shown_rows, table_rows

ROOT = Path(__file__).parents[2]


def test_pages_in_the_repository_are_up_to_date() -> None:
    done = CliRunner().invoke(command, ["docs", "--check", "--root", str(ROOT)])
    assert done.exit_code == 0, done.output


def test_the_sample_file_reads_back_as_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    lines = (line.removeprefix("# ") for line in sample_file().splitlines())
    file.write_text("\n".join(line for line in lines if line.startswith("CP_") and not line.endswith('""')))

    settings = load_settings({}, file)

    assert (settings.process, settings.queues[""]) == (Process(), QueueSettings())


def test_every_setting_is_explained_or_says_why_it_has_no_effect() -> None:
    assert [
        row.env
        for section in (Process, QueueSettings)
        for row in table_rows(section)
        if not (row.help or row.no_effect)
    ] == []


@pytest.mark.parametrize("env", ("CP_CAP_AUTOSCALE_WORKERS", "CP_CAP_SGE_QUEUE_NAME"))
def test_shown_rows_have_value_and_origin(env: str) -> None:
    rows = {row.env: row for row in shown_rows(load_settings({env: "7"}))}

    assert (rows[env].value, rows[env].origin) == ("7", "environment")


@pytest.mark.parametrize("env", ("CP_CAP_AUTOSCALE_HTTP_PASSWORDS", "CP_CAP_AUTOSCALE_HTTP_KEY"))
def test_the_path_of_a_secret_is_shown_and_may_be_in_the_file(env: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'{env} = "/etc/kept"\n')
    rows = {row.env: row.value for row in shown_rows(load_settings({}, file))}

    assert rows[env] == "/etc/kept"


def test_the_settings_that_matter_and_those_that_rules_override_exist() -> None:
    page = (ROOT / "docs" / "configure.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(CP_CAP_\w+)`: ", page, re.MULTILINE)) == MATTERING.keys()
    marked = set(re.findall(r"^- `(CP_CAP_\w+)` .*\[Rules\]\(rules.md\) override it", page, re.MULTILINE))
    assert marked == RULED.keys()
