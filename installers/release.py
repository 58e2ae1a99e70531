"""`make release VERSION=1.2.0`: version, section of the changelog, frozen public names, packages, checksums, SBOM and
tag, all made here.

It publishes nothing. Commit and tag are local, and the packages lie in dist/VERSION: a person looks at them, and
pushes. If a step fails, the checkout is as before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.sbom import sbom
from installers.__main__ import build
from installers.sources import PROGRAM, ROOT, Failed, run, say, version_of

UNRELEASED = "## Unreleased"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def check_version(wanted: str, present: str, tags: Sequence[str]) -> None:
    """Raises Failed for a version that is none, has been released, or is older than what setup.cfg has."""
    if not _VERSION.fullmatch(wanted):
        raise Failed(f"{wanted!r} is not a version: make release VERSION=1.2.0")
    if f"v{wanted}" in tags:
        raise Failed(f"{wanted} has been released: the tag v{wanted} exists")
    if _parts(wanted) < _parts(present):
        raise Failed(f"{wanted} is older than {present}, which setup.cfg has")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def with_section(changelog: str, version: str, day: str) -> tuple[str, str]:
    """The changelog in which what is unreleased is this version's, and that section. Raises Failed if there is none."""
    before, found, rest = changelog.partition(f"{UNRELEASED}\n")
    section = rest.partition("\n## ")[0].strip()
    if not found or not section:
        raise Failed(f"CHANGELOG.md has nothing under {UNRELEASED!r}: say there what an operator notices")
    heading = f"## {version} ({day})"
    return f"{before}{UNRELEASED}\n\n{heading}\n{rest}", f"{heading}\n\n{section}\n"


def with_names(frozen: str, now: Sequence[str]) -> str:
    """The list of public names with those of now. Raises Failed if one that was frozen is gone."""
    before = frozen.splitlines()
    if gone := sorted(set(before) - set(now)):
        raise Failed(f"public names are gone, on which others rely: {', '.join(gone)}")
    return "".join(f"{name}\n" for name in now)


def checksums(files: Sequence[Path]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files))


def parts(version: str, versions: str) -> dict[str, Any]:
    """The SBOM of the folder: the pinned packages, and what the interpreter is built of (its VERSIONS)."""
    document = sbom()
    document["metadata"]["component"]["version"] = version
    for line in versions.splitlines():
        name, number = line.split()
        reference = f"pkg:deb/debian/{name}@{number}?arch=source"
        document["components"].append(
            {"type": "library", "bom-ref": reference, "name": name, "version": number, "purl": reference}
        )
    return document


def release(version: str) -> Path:
    """Returns the folder of the release."""
    if run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT):
        raise Failed("there are changes that are not committed: a release is made of a commit")
    check_version(version, version_of(ROOT), run("git", "tag", cwd=ROOT).split())
    from tests.test_public_names import FROZEN, listed

    setup, changelog = ROOT / "setup.cfg", ROOT / "CHANGELOG.md"
    changed = (setup, changelog, FROZEN)
    before = {path: path.read_text(encoding="utf-8") if path.exists() else None for path in changed}
    names = with_names(before[FROZEN] or "", listed())
    now = int(time.time())
    day = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    text, section = with_section(before[changelog] or "", version, day)
    try:
        changelog.write_text(text, encoding="utf-8")
        setup.write_text(
            re.sub(r"(?m)^version = .*$", f"version = {version}", before[setup] or "", count=1), encoding="utf-8"
        )
        FROZEN.write_text(names, encoding="utf-8")
        os.environ["SOURCE_DATE_EPOCH"] = str(now)
        to, work = ROOT / "dist" / version, ROOT / "build" / "dist"
        files = build(to, work)
        bill = to / f"{PROGRAM}-{version}.cdx.json"
        versions = (work / "folder/base/VERSIONS").read_text(encoding="utf-8")
        bill.write_text(json.dumps(parts(version, versions), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        notes = to / "CHANGES.md"
        notes.write_text(section, encoding="utf-8")
        (to / "SHA256SUMS").write_text(checksums([*files, bill, notes]), encoding="utf-8")
        dates = {"GIT_AUTHOR_DATE": f"{now} +0000", "GIT_COMMITTER_DATE": f"{now} +0000"}
        run("git", "add", "--", *map(str, changed), cwd=ROOT)
        run("git", "commit", "--quiet", "-m", f"Release {version}", "--", *map(str, changed), cwd=ROOT, env=dates)
        run("git", "tag", "-a", f"v{version}", "-m", f"{PROGRAM} {version}", cwd=ROOT, env=dates)
    except (Failed, OSError, subprocess.SubprocessError, KeyboardInterrupt):
        run("git", "reset", "--quiet", "--", *map(str, changed), cwd=ROOT)
        for path, content in before.items():
            path.unlink() if content is None else path.write_text(content, encoding="utf-8")
        raise
    return to


def main(arguments: Sequence[str]) -> int:
    try:
        to = release(arguments[0] if arguments else "")
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    say(f"{to} is complete, and the commit is tagged. Nothing was published: `git push --follow-tags` is yours.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
