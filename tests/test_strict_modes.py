"""Paths that others can write are not used: files, directories on the way to them, and links."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.strict_modes import exposure, refuse_exposed

NOBODY = 65534


@pytest.fixture
def readable_file(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "sge" / "a.toml"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    path.chmod(0o644)
    return path


def test_a_file_that_only_we_may_write_is_accepted(readable_file: Path) -> None:
    assert exposure(readable_file) is None


@pytest.mark.parametrize(("mode", "remedy"), ((0o646, "chmod o-w"), (0o664, "chmod g-w")), ids=("everybody", "a group"))
@pytest.mark.parametrize("which", ("a.toml", "sge", "etc"))
def test_a_path_that_others_may_write_is_named_with_the_remedy(
    readable_file: Path, which: str, mode: int, remedy: str
) -> None:
    exposed = next(each for each in (readable_file, *readable_file.parents) if each.name == which)
    exposed.chmod(mode | (0o111 if exposed.is_dir() else 0))
    found = exposure(readable_file)
    assert found is not None
    assert (found.path, found.remedy) == (exposed, f"{remedy} {exposed}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("which", ("a.toml", "sge"))
def test_a_path_of_another_user_is_exposed(readable_file: Path, which: str) -> None:
    exposed = next(each for each in (readable_file, *readable_file.parents) if each.name == which)
    os.chown(exposed, NOBODY, -1)
    found = exposure(readable_file)
    assert found is not None
    assert found.remedy == f"chown root {exposed}"


def test_both_ends_of_a_link_are_checked(readable_file: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "here").symlink_to("../etc/sge")
    path = tmp_path / "links" / "here" / "a.toml"
    whole = exposure(path)
    readable_file.parent.chmod(0o757)
    led = exposure(path)
    readable_file.parent.chmod(0o755)
    (tmp_path / "links").chmod(0o757)
    stood = exposure(path)
    assert led is not None
    assert stood is not None
    assert (whole, led.path, stood.path) == (None, readable_file.parent, tmp_path / "links")


def test_a_link_of_another_user_is_exposed(readable_file: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives a link away")
    (tmp_path / "sticky").mkdir(mode=0o1777)
    (tmp_path / "sticky").chmod(0o1777)
    link = tmp_path / "sticky" / "a.toml"
    link.symlink_to(readable_file)
    whole = exposure(link)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    found = exposure(link)
    assert found is not None
    assert (whole, found.path, found.remedy.startswith("chown -h root ")) == (None, link, True)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert exposure(tmp_path / "a") is None


def test_a_directory_with_the_sticky_bit_exposes_nothing_of_ours(readable_file: Path) -> None:
    readable_file.parent.chmod(0o1777)
    assert exposure(readable_file) is None


def test_a_trusted_group_may_write(readable_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    own = grp.getgrgid(readable_file.stat().st_gid).gr_name
    readable_file.chmod(0o664)
    refused, allowed = exposure(readable_file), exposure(readable_file, group=own)
    assert (refused is not None and refused.of_group, allowed) == (True, None)


def test_an_unknown_group_is_reported(readable_file: Path) -> None:
    with pytest.raises(SettingsError, match="no group 'nosuchgroup'"):
        exposure(readable_file, group="nosuchgroup")


@pytest.mark.parametrize(("mode", "expected"), ((0o644, True), (0o640, False), (0o600, False)))
def test_a_secret_may_not_be_read_by_everybody(readable_file: Path, mode: int, expected: bool) -> None:
    readable_file.chmod(mode)
    assert (exposure(readable_file, private=True) is not None) is expected


def test_a_missing_file_is_not_exposed(tmp_path: Path) -> None:
    assert exposure(tmp_path / "no" / "such" / "readable_file") is None


def _exposed_parent(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    return tmp_path / "open" / "not-there-yet"


@pytest.mark.parametrize("made", (_exposed_parent,))
def test_a_file_in_a_directory_that_others_may_write_is_refused(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    with pytest.raises(SettingsError, match=r"the store .* chmod o-w .*/open$"):
        refuse_exposed("the store", made(tmp_path))
