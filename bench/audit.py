"""`make audit`: known vulnerabilities of the pinned requirements, as pip-audit finds them on PyPI.

Fails only where one is known. Where PyPI cannot be reached in time, or does not know a version, it says so: a version
of which nothing is known is not shown to be sound.
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
"""For all of it: a network that swallows everything must not hold a build."""
OF_ONE = "10"
"""Seconds that PyPI has for each answer."""
COMMAND = (
    *(sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", OF_ONE),
    *("--disable-pip", "--require-hashes", "-r"),
)
"""Without pip: everything is pinned, so nothing is resolved or installed."""
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)


def audit(file: Path, tell: Callable[[str], None], run: Run = run) -> bool:
    """Whether no vulnerability of a file's versions is known; where nothing could be learnt, that is told."""
    try:
        done = run((*COMMAND, str(file)))
    except subprocess.TimeoutExpired:
        tell(f"{file.name}: not audited: no answer within {SECONDS:.0f} s")
        return True
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        tell(f"{file.name}: not audited: {last[:300]}")
        return True
    unknown = [each["name"] for each in found if "skip_reason" in each]
    vulnerable = [each for each in found if each.get("vulns")]
    for each in vulnerable:
        for known in each["vulns"]:
            mended = ", ".join(known.get("fix_versions", ())) or "no version yet"
            tell(f"{file.name}: {each['name']} {each['version']} has {known['id']}; mended in {mended}")
    tell(f"{file.name}: {len(found) - len(unknown)} of {len(found)} versions audited, {len(vulnerable)} vulnerable")
    if unknown:
        names = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        tell(f"{file.name}: not audited, since the database does not know the version: {names}")
    return not vulnerable


def main() -> int:
    """What is installed for operators, and what developers run."""
    sound = [
        audit(REQUIREMENTS / name, lambda line: print(f"audit: {line}", flush=True)) for name in ("run.txt", "dev.txt")
    ]
    return int(not all(sound))


if __name__ == "__main__":
    sys.exit(main())
