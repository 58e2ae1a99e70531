"""The documentation says what is there: every command and option, and no command, setting, code or page that is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from autoscaler.commands.main import cli
from autoscaler.core.reasons import Code
from autoscaler.policies import registry as policies
from autoscaler.settings.pages import generated
from providers import registry
from providers.settings import main_names

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPERATE = ROOT / "docs" / "operate.md"
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
_CODE = re.compile(r"^(?: *```.*?^ *```|(?: {4}[^\n]*\n)+)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_OUR_WORDS = re.compile(r"^[A-Z]+(?:_[A-Z]+)+$")
_OF_OTHERS = ("CP_CAP_", "SGE_", "JOB_", "LD_LIBRARY_PATH", "RUN_ID", "QUEUE_")


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its full name."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        if command is not None and (not isinstance(command, click.Group) or command.invoke_without_command):
            yield above + name, command


COMMANDS = dict(commands(cli))


def options(command: click.Command) -> set[str]:
    """Its long options."""
    found = (name for one in command.params if isinstance(one, click.Option) for name in one.opts)
    return {name for name in found if name.startswith("--") and name != "--help"}


def table() -> dict[str, set[str]]:
    """The table of all commands in operate.md: command → options."""
    rows = re.findall(r"^\| `([a-z ]+)` \| ((?:`--[a-z-]+` ?)*)\|", OPERATE.read_text("utf-8"), re.MULTILINE)
    return {name: set(re.findall(r"--[a-z-]+", cell)) for name, cell in rows}


def code(page: Path) -> list[str]:
    """Fenced blocks, indented blocks and code spans."""
    return [found.group() for found in _CODE.finditer(page.read_text("utf-8"))]


def called(page: Path) -> list[tuple[str, set[str]]]:
    """Calls of ours in a page's code: what follows `sge-autoscaler`, and the options given."""
    found = []
    for part in code(page):
        for line in part.strip("`").splitlines():
            for words in re.findall(
                r"\bsge-autoscaler ((?:--config \S+ )?[a-z-][\w |./@:=-]*)", line.partition("  #")[0]
            ):
                words = re.sub(r"^--config \S+ ", "", words)
                found.append((words, set(re.findall(r"--[a-z-]+", words))))
    return found


def named(words: str) -> str | None:
    """The command that a call begins with; None where there is none."""
    said = words.split()
    return next((name for long in (3, 2, 1) if (name := " ".join(said[:long])) in COMMANDS), None)


def test_the_table_of_commands_has_every_command_and_every_option() -> None:
    assert table() == {name: options(command) for name, command in COMMANDS.items()}


@PAGE
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    everywhere = {"--help", *options(cli)}
    wrong = [
        words
        for words, given in called(page)
        if not words.startswith("--")
        and ((name := named(words)) is None or not given <= options(COMMANDS[name]) | everywhere)
    ]
    assert wrong == []


@PAGE
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]
    assert [link for link in links if not leads(page, link)] == []


def leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@PAGE
def test_every_setting_that_is_named_is_one(page: Path) -> None:
    known = set(re.findall(r"CP_CAP_[A-Z0-9_]*[A-Z0-9]", "".join(generated(ROOT).values())))
    known |= {name for provider in registry.known() for name in main_names(registry.settings_of(provider))}
    known |= {name for policy in policies.known() for name in main_names(policies.settings_of(policy))}
    names = set(re.findall(r"CP_CAP_[A-Z0-9_]*[A-Z0-9]\b(?!_)", page.read_text("utf-8")))
    invented = {name for name in names if name.startswith("CP_CAP_AUTOSCALE_POOL_")}  # the example of extend.md
    assert {name for name in names - invented if re.sub(r"_\d+$", "", name) not in known} == set()


def test_every_reason_that_operators_read_of_exists() -> None:
    spans = {part.strip("`") for part in code(OPERATE)}
    words = {word for word in spans if _OUR_WORDS.match(word) and not word.startswith(_OF_OTHERS)}
    assert words - {code.value for code in Code} == set()


@PAGE
def test_every_make_target_that_is_shown_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {name for part in code(page) for name in re.findall(r"(?:^|`| )make ([a-z-]+)", part, re.MULTILINE)}
    assert shown - targets == set()


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}


def test_the_exit_codes_of_the_manual_are_those_of_the_help() -> None:
    assert cli.epilog is not None
    of_help = set(re.findall(r"\b(\d+) ", cli.epilog))
    section = OPERATE.read_text("utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (\d+) \|", section, re.MULTILINE)) == of_help
