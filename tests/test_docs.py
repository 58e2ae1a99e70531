"""The documentation matches the code: it has every command and option, and names no command, setting, function or page
that does not exist.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from autoscaler.commands.main import cli
from autoscaler.core.model.reasons import Code
from autoscaler.policies import registry as policies
from autoscaler.providers import registry
from autoscaler.providers.settings import main_names
from autoscaler.settings import load_settings
from autoscaler.settings.pages import generated

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_TEXT = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "conf").rglob("*.toml"))]
REFERENCE = ROOT / "docs" / "commands.md"
OPERATE = tuple(ROOT / "docs" / "operate" / f"{name}.md" for name in ("install", "by-day", "at-night", "submission"))
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
_CODE = re.compile(r"^(?: *```.*?^ *```|(?: {4}[^\n]*\n)+)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_OUR_WORDS = re.compile(r"^[A-Z]+(?:_[A-Z]+)+$")
_OF_OTHERS = ("CP_CAP_", "SGE_", "JOB_", "LD_LIBRARY_PATH", "RUN_ID", "QUEUE_")


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every executable command, by its full name."""
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


def listed() -> dict[str, set[str]]:
    """The list of all commands in commands.md: command → options."""
    rows = re.findall(r"^- `([a-z -]+)`((?: `--[a-z-]+`)*): ", REFERENCE.read_text("utf-8"), re.MULTILINE)
    return {name: set(re.findall(r"--[a-z-]+", cell)) for name, cell in rows}


def code(page: Path) -> list[str]:
    """Fenced blocks, indented blocks and code spans."""
    return [found.group() for found in _CODE.finditer(page.read_text("utf-8"))]


def called(page: Path) -> list[tuple[str, set[str]]]:
    """Calls of our commands in a page's code: what follows `sge-autoscaler`, and the options given."""
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
    """The command that a call starts with; None if there is none."""
    result = words.split()
    return next((name for long in (3, 2, 1) if (name := " ".join(result[:long])) in COMMANDS), None)


def test_the_list_of_commands_has_every_command_and_every_option() -> None:
    assert listed() == {name: options(command) for name, command in COMMANDS.items()}


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("pip install sge-autoscaler", ["sge-autoscaler"]),
        ("`/opt/x/bin/pip3 install --upgrade 'sge_autoscaler[aws]'`", ["'sge_autoscaler[aws]'"]),
        ("pipx install sge-autoscaler==1.0", ["sge-autoscaler==1.0"]),
        ("pip install \\\n  sge-autoscaler", ["sge-autoscaler"]),
        ("pip install './sge_autoscaler-1.0-py3-none-any.whl[aws]'", []),
        ("pip install /tmp/sge_autoscaler-1.0-py3-none-any.whl && sge-autoscaler doctor", []),
        ("pip install --require-hashes -r requirements/run.txt\nsge-autoscaler doctor", []),
    ),
)
def test_the_name_of_the_program_after_pip_install_is_recognized(text: str, found: list[str]) -> None:
    assert names_of_an_index(text) == found


@pytest.mark.parametrize("page", EVERY_TEXT, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_installs_the_program_by_a_name_that_anybody_can_register(page: Path) -> None:
    assert names_of_an_index(page.read_text(encoding="utf-8")) == []


def names_of_an_index(text: str) -> list[str]:
    """Words after `pip install` by which pip would ask a package index for the program."""
    commands = re.findall(r"\bpip(?:x|[0-9.]+)? install\b((?:\\\n|[^\n&;|`])*)", text)
    words = (word for command in commands for word in command.replace("\\\n", " ").split())
    return [word for word in words if re.fullmatch(r"[\"']?sge[-_.]autoscaler([\[=<>~!@].*)?[\"']?", word)]


@PAGE
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    everywhere = {"--help", *options(cli)}
    wrong = [
        words
        for words, given in called(page)
        if not words.startswith("--")
        and ((name := named(words)) is None or not given <= options(COMMANDS[name]) | everywhere)
    ]
    assert wrong == []


@PAGE
def test_every_link_inside_the_project_resolves(page: Path) -> None:
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


def _sh(text: str) -> None:
    subprocess.run(("bash", "-n"), input=text, text=True, check=True, capture_output=True, timeout=60)


PARSED: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "python": ast.parse,
    "sh": _sh,
    "xml": ET.fromstring,
}


@PAGE
def test_every_code_block_can_be_read(page: Path) -> None:
    blocks = re.findall(r"^( *)```(\w+)\n(.*?)^\1```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for indent, language, text in blocks:
        if language in PARSED:
            PARSED[language](re.sub(f"^{indent}", "", text, flags=re.MULTILINE))


@PAGE
def test_every_setting_named_exists(page: Path) -> None:
    known = set(re.findall(r"CP_CAP_[A-Z0-9_]*[A-Z0-9]", "".join(generated(ROOT).values())))
    known |= {name for provider in registry.known() for name in main_names(registry.settings_of(provider))}
    known |= {name for policy in policies.known() for name in main_names(policies.settings_of(policy))}
    names = set(re.findall(r"CP_CAP_[A-Z0-9_]*[A-Z0-9]\b(?!_)", page.read_text("utf-8")))
    invented = {name for name in names if name.startswith("CP_CAP_AUTOSCALE_POOL_")}  # the example of extend.md
    assert {name for name in names - invented if re.sub(r"_\d+$", "", name) not in known} == set()


def test_every_reason_code_named_for_operators_exists() -> None:
    spans = {part.strip("`") for page in OPERATE for part in code(page)}
    words = {word for word in spans if _OUR_WORDS.match(word) and not word.startswith(_OF_OTHERS)}
    assert words - {code.value for code in Code} == set()


@PAGE
def test_every_make_target_shown_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {name for part in code(page) for name in re.findall(r"(?:^|`| )make ([a-z-]+)", part, re.MULTILINE)}
    assert shown - targets == set()


def test_the_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_every_make_target_works_without_variables() -> None:
    """`--jobs $(JOBS)` without a value for JOBS would take the next word, or none."""
    text = (ROOT / "Makefile").read_text("utf-8")
    defined = set(re.findall(r"^([A-Z_]+) *[?:]=", text, re.MULTILINE)) | {"CURDIR", "MAKEFILE_LIST"}
    bare = set(re.findall(r"--[a-z-]+ \$\(([A-Z_]+)\)", re.sub(r"\$\(if [^,]*,[^)]*\)\)", "", text)))
    assert bare - defined == set()


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}


def test_the_exit_codes_of_the_manual_are_those_of_the_help() -> None:
    assert cli.epilog is not None
    of_help = set(re.findall(r"\b(\d+) ", cli.epilog))
    section = REFERENCE.read_text("utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (\d+) \|", section, re.MULTILINE)) == of_help


# -- safety.md -------------------------------------------------------------------------------------------------------

SAFETY = ROOT / "docs" / "safety.md"
_CITED = re.compile(r"\brules?\s+\d+(?:(?:,\s+|\s+and\s+)\d+)*", re.IGNORECASE)


def rules_cited(text: str) -> set[int]:
    """`(rule 4)`, `rules 1 and 4`, `Rules 6, 7 and 8`."""
    return {int(number) for found in _CITED.finditer(text) for number in re.findall(r"\d+", found.group())}


def rules_of_safety() -> dict[int, str]:
    """Number → the text of the rule."""
    parts = re.split(r"^## (?=\d)", SAFETY.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {int(part.partition(".")[0]): part.partition("\n## ")[0] for part in parts}


def named_tests(text: str) -> list[str]:
    """`path.py::name` and `path.py::Class::name`, in backticks."""
    return re.findall(r"`([\w/]+\.py(?:::\w+)+)`", text)


def is_defined(path: str, *names: str) -> bool:
    """Whether the file defines that class, function or name, nested as given."""
    body: list[ast.stmt] = ast.parse((ROOT / path).read_text("utf-8")).body if (ROOT / path).exists() else []
    for name in names:
        inner = [node for node in body if name in names_of(node)]
        if not inner:
            return False
        body = getattr(inner[0], "body", [])
    return True


def names_of(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()


def test_every_cited_rule_is_a_rule_of_safety() -> None:
    files = [
        path for folder in ("autoscaler", "sge", "providers", "tests", "docs") for path in (ROOT / folder).rglob("*")
    ]
    texts = [path.read_text("utf-8") for path in files if path.suffix in (".py", ".md", ".sql")]
    cited = {number for text in texts for number in rules_cited(text)}
    assert {1, 8} <= cited <= rules_of_safety().keys()


def test_rules_of_safety_are_numbered_without_gaps() -> None:
    assert list(rules_of_safety()) == list(range(1, len(rules_of_safety()) + 1))


@pytest.mark.parametrize("number", sorted(rules_of_safety()))
def test_every_rule_names_a_property_test(number: int) -> None:
    named = named_tests(rules_of_safety()[number])
    assert [name for name in named if name.startswith(("tests/properties/", "tests/soak/"))] != []


def test_every_test_named_in_safety_exists() -> None:
    named = named_tests(SAFETY.read_text("utf-8"))
    assert [name for name in named if not is_defined(*name.split("::"))] == []


def test_an_unknown_rule_and_a_missing_test_are_detected() -> None:
    assert rules_cited(f"(rule 4), rules 1 and\n{14}; a rule of 3, Rules 6, 7 and 8.") == {4, 1, 14, 6, 7, 8}
    assert not is_defined("tests/properties/test_rules.py", "TestRulesThatNobodyWrote")
    assert not is_defined("tests/properties/test_rules.py", "Rules", "nobody_wrote_this")
    assert not is_defined("tests/properties/nowhere.py", "TestRules")


# -- understand.md ---------------------------------------------------------------------------------------------------

TOUR = ROOT / "docs" / "understand.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_NAME = re.compile(r"`(\w+(?:\.\w+)*)`\s+\(`([\w/]+\.py)`")
_FUNCTION = re.compile(r"`((?:\w+\.)*\w+)\(\)`(?:\s+in\s+`([\w/]+\.py)`)?")


def functions_named(text: str) -> list[tuple[str, str]]:
    """`name()` and `Class.name()` in backticks, each with the file after "in"; '' without one."""
    return _FUNCTION.findall(text)


def names_named(text: str) -> list[tuple[str, str]]:
    """Classes, fields and tables in backticks, each with the file in brackets after it."""
    return _NAME.findall(text)


def files_named(text: str) -> set[str]:
    """Files, and folders (with a slash at the end), in backticks; names in capitals are placeholders."""
    named = re.findall(r"`([\w/.-]+/(?:[\w.-]+\.(?:py|md|cfg|toml))?)(?:::\w+)*`", text)
    return {path for path in named if not re.search(r"[A-Z]{4}", path)} - {"build/", "dist/"}


@pytest.mark.parametrize("page", (TOUR, CONTRIBUTING), ids=lambda page: page.name)
def test_every_file_named_in_the_tour_exists(page: Path) -> None:
    named = files_named(page.read_text("utf-8"))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", (TOUR, CONTRIBUTING), ids=lambda page: page.name)
def test_every_function_named_in_the_tour_is_in_its_file(page: Path) -> None:
    text = page.read_text("utf-8")
    named = functions_named(text)
    assert len(named) > 5
    wrong = [(name, path) for name, path in named if path and not is_defined(path, *name.split("."))]
    places = {path for _, path in named if path}
    wrong += [
        (name, "")
        for name, path in named
        if not path and not any(is_defined(place, *name.split(".")) for place in places)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", (TOUR, CONTRIBUTING), ids=lambda page: page.name)
def test_every_class_and_table_named_in_the_tour_is_in_its_file(page: Path) -> None:
    named = names_named(page.read_text("utf-8"))
    assert len(named) > 1
    assert [(name, path) for name, path in named if not is_defined(path, *name.split("."))] == []


def test_every_package_of_the_core_is_drawn_in_the_tour() -> None:
    drawing = TOUR.read_text("utf-8").partition("A package imports from the packages below it only:")[2].split("```")[1]
    packages = {path.name for path in (ROOT / "autoscaler" / "core").iterdir() if (path / "__init__.py").exists()}
    assert packages - set(re.findall(r"[\w.]+", drawing)) == set()


def test_the_tour_draws_the_layers_of_the_core_in_their_order() -> None:
    drawing = TOUR.read_text("utf-8").partition("A package imports from the packages below it only:")[2].split("```")[1]
    drawn = [re.findall(r"(\w+)(?:\.py)?(?=\s|$)", line.partition("    ")[0] + " ") for line in drawing.splitlines()]
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    layers = [re.findall(r"\w+", line) for line in setup["importlinter:contract:core_layers"]["layers"].split("\n")]
    places = {package: at for at, layer in enumerate(layers) for package in layer}
    found = [places[package] for line in drawn for package in line if package in places]
    assert found == sorted(found)


def test_a_missing_function_or_file_is_detected() -> None:
    assert functions_named("`plan()` in\n`autoscaler/core/plan.py`, `wait()`") == [
        ("plan", "autoscaler/core/plan.py"),
        ("wait", ""),
    ]
    assert is_defined("autoscaler/engine/loop.py", "Loop", "pass_once")
    assert not is_defined("autoscaler/engine/loop.py", "Loop", "pass_twice")
    assert files_named("`autoscaler/core/plan.py`, `sge/qstat.py::read_qstat` and `providers/`; `providers/NAME/`") == {
        "autoscaler/core/plan.py",
        "sge/qstat.py",
        "providers/",
    }
    assert names_named("the `Loop`\n(`autoscaler/engine/loop.py`)") == [("Loop", "autoscaler/engine/loop.py")]
    assert not is_defined("autoscaler/engine/loop.py", "Ring")


def test_the_first_settings_of_the_guide_can_be_used_as_they_are(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "install.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(# /etc/sge-autoscaler\.toml\n.*?)```", page, re.DOTALL)
    (tmp_path / "settings.toml").write_text(block)
    settings = load_settings({}, tmp_path / "settings.toml", known_prefixes=registry.known_prefixes)
    assert (
        registry.load(settings.process.provider or "", settings.for_provider({}), "cell").name
        == settings.process.provider
    )
