"""`make audit`: known vulnerabilities of the pinned requirements, from pip-audit with PyPI, else with OSV.

Fails only if one is known. If neither service answers in time, or knows a version, it says so: a version of which
nothing is known is not proven to be sound.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
SECONDS = 90.0
"""Seconds for all of it: a network that swallows everything must not hold up a build."""
OF_ONE = "10"
"""Seconds that PyPI has for each answer."""
COMMAND = (
    *(sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", OF_ONE),
    *("--disable-pip", "--require-hashes"),
)
"""Without pip: everything is pinned, so nothing is resolved or installed."""
SERVICES = ("pypi", "osv")
"""In the order in which they are asked."""
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)


def audit(file: Path, report: Callable[[str], None], run: Run = run) -> bool:
    """Whether no vulnerability of a file's versions is known; missing knowledge is reported. OSV is asked if PyPI does
    not know all: a mirror of packages may have no advisories.
    """
    answers = []
    for service in SERVICES:
        answers.append(_asked(file, service, run))
        if isinstance(answers[-1], list) and not _unknown(answers[-1]):
            break
    learnt = [each for each in answers if isinstance(each, list)]
    if not learnt:
        report(f"{file.name}: not audited: {'; '.join(map(str, answers))}")
        return True
    found = min(learnt, key=lambda each: len(_unknown(each)))
    unknown = _unknown(found)
    vulnerable = list({each["name"]: each for answer in learnt for each in answer if each.get("vulns")}.values())
    for each in vulnerable:
        for known in each["vulns"]:
            mended = ", ".join(known.get("fix_versions", ())) or "no version yet"
            report(f"{file.name}: {each['name']} {each['version']} has {known['id']}; fixed in {mended}")
    report(f"{file.name}: {len(found) - len(unknown)} of {len(found)} versions audited, {len(vulnerable)} vulnerable")
    if unknown:
        names = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        report(f"{file.name}: not audited, since the database does not know the version: {names}")
    return not vulnerable


def _asked(file: Path, service: str, run: Run) -> list[dict[str, Any]] | str:
    """A service's findings for a file's versions, else why it gives none."""
    try:
        done = run((*COMMAND, "--vulnerability-service", service, "-r", str(file)))
    except subprocess.TimeoutExpired:
        return f"no answer of {service} within {SECONDS:.0f} s"
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]
    return found


def _unknown(found: Sequence[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in found if "skip_reason" in each]


def main() -> int:
    """Audits the requirements for operators, and those for developers."""
    sound = [
        audit(REQUIREMENTS / name, lambda line: print(f"audit: {line}", flush=True)) for name in ("run.txt", "dev.txt")
    ]
    return int(not all(sound))


if __name__ == "__main__":
    sys.exit(main())
