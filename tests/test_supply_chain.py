"""Installed packages are pinned by hashes, without the name of any index; they are audited, and listed as valid
CycloneDX.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.audit import audit
from bench.sbom import PROGRAM, REQUIREMENTS, problems, sbom
from tests.samples import sample

FILES = sorted(REQUIREMENTS.parent.glob("*.txt"))
PINNED = re.compile(r"(?m)^([a-z0-9.-]+)(?:\[[a-z,]+\])?==([^ \\;]+)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_requirements_are_pinned_by_hashes_and_name_no_index(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"(?m)\n(?=\S)", text) if not entry.startswith("#")]
    assert entries
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert re.findall(r"https?:|file:|--\S*(?:index|links|host)\S*", text) == []


def test_the_documented_installation_downloads_nothing_without_a_hash() -> None:
    page = (REQUIREMENTS.parents[1] / "docs" / "operate" / "install.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^/opt/sge-autoscaler/bin/pip install (.*)$", page)
    assert len(lines) == 2
    # A build of its own would download what builds the program.
    assert all(
        "--require-hashes" in line or {"--no-build-isolation", "--no-index"} <= {*line.split()} for line in lines
    )
    installed = {
        name for each in re.findall(r"-r (\S+)", " ".join(lines)) for name in _pins(REQUIREMENTS.parents[1] / each)
    }
    built_with = tomllib.loads((REQUIREMENTS.parents[1] / "pyproject.toml").read_text("utf-8"))["build-system"]
    assert {re.match(r"[a-z0-9-]+", each)[0] for each in built_with["requires"]} <= installed  # type: ignore[index]


def test_what_builds_the_program_is_the_same_everywhere() -> None:
    assert _pins(REQUIREMENTS.parent / "build.txt").items() <= _pins(REQUIREMENTS.parent / "dev.txt").items()


def _pins(file: Path) -> dict[str, str]:
    return dict(PINNED.findall(file.read_text(encoding="utf-8")))


# -- audit -------------------------------------------------------------------------------------------------------------

SOUND = {"name": "click", "version": "8.1", "vulns": []}
VULNERABLE = {"name": "jinja2", "version": "3.0", "vulns": [{"id": "CVE-2099-1", "fix_versions": ["3.1"]}]}
UNKNOWN = {"name": "odd", "skip_reason": "Dependency not found on PyPI"}


def audited(stdout: str | Exception, stderr: str = "") -> tuple[bool, str]:
    def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert str(REQUIREMENTS) in argv
        if isinstance(stdout, Exception):
            raise stdout
        return subprocess.CompletedProcess(argv, 1, stdout, stderr)

    results: list[str] = []
    return audit(REQUIREMENTS, results.append, run), "\n".join(results)


def found(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_a_known_vulnerability_fails_the_audit_and_is_reported_with_its_fix() -> None:
    passed, result = audited(found(SOUND, VULNERABLE))
    assert (passed, "jinja2 3.0 has CVE-2099-1; fixed in 3.1" in result) == (False, True)


def test_versions_without_vulnerabilities_pass() -> None:
    assert audited(found(SOUND)) == (True, "run.txt: 1 of 1 versions audited, 0 vulnerable")


@pytest.mark.parametrize(
    ("stdout", "stderr", "message"),
    (
        ("", "Traceback …\nrequests.exceptions.ConnectionError: no route", "not audited: requests.exceptions"),
        ("", "", "not audited: no answer"),
        ("[]", "", "not audited: no answer"),
        (
            subprocess.TimeoutExpired("pip-audit", 90),
            "",
            "no answer of pypi within 90 s; no answer of osv",
        ),
        (found(UNKNOWN), "", "0 of 1 versions audited"),
        (found(UNKNOWN), "", "not audited, since the database does not know the version: odd"),
    ),
)
def test_what_could_not_be_audited_is_reported_and_fails_nothing(
    stdout: str | Exception, stderr: str, message: str
) -> None:
    passed, output = audited(stdout, stderr)
    assert (passed, message in output) == (True, True)


def test_versions_unknown_to_pypi_are_looked_up_in_osv() -> None:
    asked, results = [], list[str]()

    def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(argv[argv.index("--vulnerability-service") + 1])
        answer = found(UNKNOWN) if asked[-1] == "pypi" else found(SOUND, VULNERABLE)
        return subprocess.CompletedProcess(argv, 0, answer, "")

    assert not audit(REQUIREMENTS, results.append, run)
    assert (asked, "jinja2 3.0 has CVE-2099-1" in "".join(results)) == (["pypi", "osv"], True)


# -- SBOM --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Made beside the finder of `importlib_metadata`, whose fields raise where they are missing."""
    importlib.import_module("importlib_metadata")
    return sbom()


@pytest.mark.thorough
def test_the_document_is_valid_cyclonedx(document: dict[str, Any]) -> None:
    assert (document["specVersion"], problems(document)) == ("1.6", [])


@pytest.mark.parametrize("broken", sample(("component", "hash", "dependency"), "hash"))
def test_an_invalid_document_is_refused(document: dict[str, Any], broken: str) -> None:
    changed = copy.deepcopy(document)
    if broken == "component":
        changed["components"][0]["type"] = "thing"
    elif broken == "hash":
        changed["components"][0]["externalReferences"][0]["hashes"][0]["content"] = "abc"
    else:
        changed["dependencies"].append({"ref": 5})
    assert problems(changed)


def test_it_has_every_pinned_version_with_hashes_and_licence(document: dict[str, Any]) -> None:
    pinned = set(PINNED.findall(REQUIREMENTS.read_text(encoding="utf-8")))
    assert {(each["name"], each["version"]) for each in document["components"]} == pinned
    assert len(pinned) > 20
    for each in document["components"]:
        assert each["externalReferences"][0]["hashes"], each["name"]
        assert each["licenses"], each["name"]


def test_it_lists_the_dependencies_of_each_package(document: dict[str, Any]) -> None:
    needs = {each["ref"]: set(each["dependsOn"]) for each in document["dependencies"]}
    names = {each["bom-ref"]: each["name"] for each in document["components"]}
    reached, new = set[str](), {PROGRAM}
    while new:
        reached |= new
        new = {below for each in new for below in needs[each]} - reached
    assert {"fastapi", "pydantic"} <= {names[ref] for ref in needs[PROGRAM]}
    installed_elsewhere = {"colorama", "tzdata"}  # on Windows only
    assert {name for ref, name in names.items() if ref not in reached} <= installed_elsewhere


def test_the_same_sources_make_the_same_document(document: dict[str, Any]) -> None:
    assert sbom() == document
