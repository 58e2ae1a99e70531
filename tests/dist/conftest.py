"""Packages as `make dist` makes them, and fresh roots of Debian to try them in. Run by `make dist-test`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from installers.__main__ import build
from installers.interpreter import SYSTEM_SOURCES
from installers.sources import ROOT, version_of
from tests.grid_engine.conftest import show_on_failure, until
from tests.grid_engine.waiting import wait_until

__all__ = ["show_on_failure", "until", "wait_until"]
WORK = ROOT / "build" / "dist"
NEWER = "99.0.0"


@dataclass(frozen=True)
class Built:
    """Files by what they are."""

    files: tuple[Path, ...]

    def named(self, pattern: str) -> Path:
        (found,) = (path for path in self.files if re.fullmatch(pattern, path.name))
        return found


@pytest.fixture(scope="session")
def built() -> Built:
    """What `make dist` makes now; DIST_BUILT=yes: what it made before."""
    if os.environ.get("DIST_BUILT"):
        return Built(tuple(sorted((ROOT / "dist").glob("*.*"))))
    return Built(tuple(build(ROOT / "dist", WORK)))


@pytest.fixture(scope="session")
def newer(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The Debian packages of a later version."""
    return Built(tuple(build(tmp_path_factory.mktemp("newer"), WORK, only="deb", version=NEWER)))


@pytest.fixture(scope="session")
def version() -> str:
    return version_of(ROOT)


MakeRoot = Callable[..., Path]


@pytest.fixture(scope="session")
def make_root() -> Iterator[MakeRoot]:
    """Makes a root directory of a Debian release, from where this machine has its packages. DIST_ROOTS=FOLDER: copies
    FOLDER/SUITE instead, which takes seconds.
    """
    before = os.environ.get("DIST_ROOTS")
    if not before and shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    made: list[Path] = []

    def make(suite: str, *packages: str) -> Path:
        # Below /var: units make /tmp and /home inaccessible.
        place = Path(tempfile.mkdtemp(prefix=f"sge-autoscaler-{suite}-", dir="/var/tmp"))
        made.append(place)
        place.chmod(0o755)
        if before:
            subprocess.run(("cp", "-a", f"{before}/{suite}", str(place / "root")), check=True, timeout=600)
            return place / "root"
        found = next(path for path in SYSTEM_SOURCES if path.is_file() and path.stat().st_size)
        text = found.read_text(encoding="utf-8")
        if suite not in text:
            text = re.sub(r"\bbookworm-updates\b", "", text).replace("bookworm", suite)
        words = [f"--include={','.join(packages)}"] if packages else []
        argv = ("mmdebstrap", "--quiet", "--variant=minbase", *words, suite, str(place / "root"), "-")
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stderr
        return place / "root"

    yield make
    for place in made:
        subprocess.run(("rm", "-rf", "--one-file-system", str(place)), check=False, timeout=300)
