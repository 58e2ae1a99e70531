"""An installation has everything of the work tree, and is the same on every machine."""

from __future__ import annotations

import configparser
import gzip
import io
import os
import re
import tarfile
import zipfile
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import pytest

from bench.changed import module_of
from installers import folder
from installers.debian import CONTROL
from installers.sources import export, packed, settle
from installers.wheel import build_wheel

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def setup_cfg() -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_package_of_the_work_tree_is_installed() -> None:
    found = {
        module_of(init.relative_to(ROOT).as_posix())
        for top in ("autoscaler", "providers", "sge")
        for init in (ROOT / top).rglob("__init__.py")
    }
    assert sorted(setup_cfg()["options"]["packages"].split()) == sorted(found | {"autoscaler.conf"})


def test_the_conf_folder_is_a_package() -> None:
    assert files("autoscaler.conf").joinpath("__init__.py").is_file()


def test_every_file_in_conf_is_package_data() -> None:
    patterns = re.split(r",\s*", setup_cfg()["options.package_data"]["autoscaler.conf"])
    conf = ROOT / "conf"
    carried = {path for pattern in patterns for path in conf.glob(pattern)}
    present = {path for path in conf.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert present - carried == set()


def test_the_folder_and_the_scripts_of_the_debian_package_know_every_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "run", lambda *_: "{}")
    (tmp_path / "sge-autoscaler-at-night.7").write_text(".TH\n", encoding="utf-8")
    folder._share(ROOT, tmp_path, tmp_path)
    there = {path.name for path in (ROOT / "conf").iterdir() if path.suffix in {".service", ".socket", ".timer"}}
    share = tmp_path / "share" / "sge-autoscaler"
    assert {path.name for path in share.iterdir() if path.name in there} == there
    assert gzip.decompress((share / "sge-autoscaler-at-night.7.gz").read_bytes()) == b".TH\n"
    for script in ("postinstall", "preremove"):
        known = re.findall(r"[\w@-]+\.(?:service|socket)\b", (CONTROL / script).read_text(encoding="utf-8"))
        assert {name for name in there if "@" not in name} - set(known) == set(), script


def test_an_archive_is_the_same_whatever_the_umask_of_who_made_its_folder(tmp_path: Path) -> None:
    """The folder itself, too: an add-on that is laid over /opt/sge-autoscaler must not close that to others."""
    made = []
    for umask in (0o077, 0o022):
        before = os.umask(umask)
        try:
            (place := tmp_path / str(umask) / "aws" / "lib").mkdir(parents=True)
            (place / "a.py").write_text("")
        finally:
            os.umask(before)
        settle(place.parent, "bin")
        made.append(packed(place.parent, "sge-autoscaler", 1_700_000_000))
    assert made[0] == made[1]
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        modes = {each.name: each.mode for each in archive}
    assert modes == {"sge-autoscaler": 0o755, "sge-autoscaler/lib": 0o755, "sge-autoscaler/lib/a.py": 0o644}


@pytest.mark.thorough
def test_the_wheel_is_the_same_wherever_it_is_built_and_has_one_top_level_package(tmp_path: Path) -> None:
    built = []
    for place, umask in (("a", 0o22), ("another/folder", 0o77)):
        before = os.umask(umask)
        try:
            sources = export(ROOT, tmp_path / place / "sources")
            built.append(build_wheel(sources, tmp_path / place / "wheels", epoch=1_700_000_000))
        finally:
            os.umask(before)
    assert built[0].read_bytes() == built[1].read_bytes()
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(built[0]).namelist()}
    assert {name for name in packages if not name.endswith((".data", ".dist-info"))} == {"autoscaler"}


def test_providers_are_found_by_name() -> None:
    assert {"local", "fake"} <= entry_points(group="sge_autoscaler.providers").names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_file_names_no_index(lock: Path) -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links", lock.read_text(encoding="utf-8"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_has_hashes(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize(("small", "large"), (("run", "test"), ("test", "dev")))
def test_a_larger_lock_file_pins_the_same_versions(small: str, large: str) -> None:
    requirements = ROOT / "requirements"
    assert pins(requirements / f"{small}.txt").items() <= pins(requirements / f"{large}.txt").items()


@pytest.mark.parametrize("name", ("run", "test", "dev"))
def test_every_requirement_is_pinned(name: str) -> None:
    wanted = re.findall(r"^([a-z0-9-]+)", (ROOT / "requirements" / f"{name}.in").read_text("utf-8"), re.MULTILINE)
    assert set(wanted) - set(pins(ROOT / "requirements" / f"{name}.txt")) == set()
