"""What the page loads from others: pinned by hashes, with licences, fetched by npm and in every package of ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from installers.sources import export
from installers.wheel import build_wheel

ROOT = Path(__file__).parents[2]
LIST = [line.split() for line in (ROOT / "requirements/page.in").read_text().splitlines() if not line.startswith("#")]
HASHES = dict(line.split()[::-1] for line in (ROOT / "requirements/page.sha256").read_text().splitlines())


def test_every_file_has_a_hash_a_version_and_a_licence_beside_it() -> None:
    assert list(HASHES) == [target for _, _, target in LIST]
    assert all(package.rpartition("@")[2][0].isdigit() for package, _, _ in LIST)
    served = [(package, file) for package, file, target in LIST if target.startswith("autoscaler/")]
    assert {package for package, _ in served} == {package for package, file in served if file == "LICENSE"}


def test_they_are_here_and_small() -> None:
    sizes = 0
    for target, digest in HASHES.items():
        body = (ROOT / target).read_bytes()
        assert hashlib.sha256(body).hexdigest() == digest, target
        sizes += len(body) if target.startswith("autoscaler/") else 0
    assert sizes < 120_000


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without them, and an npm that packs what lies in `packed`."""
    for name in ("bin/vendored", "requirements/page.in", "requirements/page.sha256"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    npm = tmp_path / "npm"
    npm.write_text(
        f"""#!/bin/sh
        echo "$@" >>{tmp_path}/calls
        for last; do :; done
        mkdir -p package && cp -r "{tmp_path}/packed/$last/." package && tar -czf it.tgz package && rm -r package\n"""
    )
    npm.chmod(0o755)
    for package, file, target in LIST:
        place = tmp_path / "packed" / package / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / target, place)
    return tmp_path


def vendored(checkout: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{checkout}:{os.environ['PATH']}"}
    return subprocess.run([checkout / "bin/vendored"], env=env, capture_output=True, text=True, timeout=60)


def test_they_are_fetched_once_and_no_script_of_a_package_is_run(checkout: Path) -> None:
    first = vendored(checkout)
    assert (first.returncode, first.stderr) == (0, "")
    assert all((checkout / target).is_file() for target in HASHES)
    calls = (checkout / "calls").read_text().splitlines()
    assert len(calls) == 3
    assert all("--ignore-scripts" in call for call in calls)
    vendored(checkout)
    assert (checkout / "calls").read_text().splitlines() == calls


def test_a_package_with_other_bytes_is_refused(checkout: Path) -> None:
    place = checkout / "packed/htmx.org@4.0.1/dist/htmx.min.js"
    place.write_bytes(place.read_bytes() + b"\nfetch('//evil.example')")
    done = vendored(checkout)
    assert (done.returncode, "another hash" in done.stderr) == (1, True)


@pytest.mark.thorough
def test_a_wheel_contains_them_with_templates_and_licences(tmp_path: Path) -> None:
    wheel = build_wheel(export(ROOT, tmp_path / "sources"), tmp_path / "wheels", epoch=1_700_000_000)
    names = set(zipfile.ZipFile(wheel).namelist())
    page = ROOT / "autoscaler" / "page"
    own = {
        path.relative_to(ROOT).as_posix()
        for folder in ("static", "templates")
        for path in (page / folder).iterdir()
        if path.is_file()
    }
    assert own | {target for target in HASHES if target.startswith("autoscaler/")} <= names
