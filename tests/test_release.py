"""`make release`: which versions and changelogs it takes, and that the checksums are those of the files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from bench.sbom import problems
from installers.__main__ import build
from installers.folder import unmet_by
from installers.release import check_version, checksums, parts, with_names, with_section
from installers.sources import Failed

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- A new thing.\n\n## 0.1.0 (2026-01-01)\n\nThe first.\n"


@pytest.mark.parametrize(
    ("wanted", "what"),
    (("", "not a version"), ("1.2", "not a version"), ("0.9.0", "older"), ("1.0.0", "been released")),
)
def test_a_wrong_version_is_refused(wanted: str, what: str) -> None:
    with pytest.raises(Failed, match=what):
        check_version(wanted, "1.0.0", ["v1.0.0"])


def test_the_version_of_setup_cfg_can_be_released_once() -> None:
    check_version("1.0.0", "1.0.0", ["v0.9.0"])


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    text, section = with_section(CHANGELOG, "0.2.0", "2026-02-03")
    assert section == "## 0.2.0 (2026-02-03)\n\n- A new thing.\n"
    assert text.startswith("# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-02-03)\n\n- A new thing.\n\n## 0.1.0")


@pytest.mark.parametrize("changelog", ("# Changelog\n", "## Unreleased\n\n\n## 0.1.0\n\nThe first.\n"))
def test_a_release_without_a_word_about_it_is_refused(changelog: str) -> None:
    with pytest.raises(Failed, match="CHANGELOG"):
        with_section(changelog, "0.2.0", "2026-02-03")


def test_sha256sum_accepts_the_checksums(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b", "a")]
    for path in files:
        path.write_text(path.name)
    (tmp_path / "SHA256SUMS").write_text(checksums(files))
    done = subprocess.run(("sha256sum", "--check", "--strict", "SHA256SUMS"), cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0


def test_the_list_of_parts_names_what_the_interpreter_is_built_of() -> None:
    document = parts("9.9.9", "openssl 3.0.20-1\nzlib 1.2.13\n")
    assert {"openssl", "zlib", "click"} <= {each["name"] for each in document["components"]}
    assert (document["metadata"]["component"]["version"], problems(document)) == ("9.9.9", [])


SHOWN = """ 0x1 (NEEDED)             Shared library: [libcrypto.so.3]
 0x1 (NEEDED)             Shared library: [libc.so.6]
 0x1 (NEEDED)             Shared library: [libfoo.so.1]
  0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 4
  0x0020:   Name: GLIBC_{newest}  Flags: none  Version: 3
"""


def test_a_program_that_needs_a_newer_glibc_or_a_missing_library_is_no_part_of_the_folder() -> None:
    there = {"libcrypto.so.3"}
    assert unmet_by(SHOWN.format(newest="2.28"), there) == ["needs libfoo.so.1", "needs glibc 2.28"]
    assert unmet_by(SHOWN.format(newest="2.17"), there | {"libfoo.so.1"}) == []


def test_a_second_build_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """Each would take the other's tools away."""
    with FileLock(tmp_path / "lock"), pytest.raises(Failed, match="another `make dist`"):
        build(tmp_path / "to", tmp_path)


def test_a_release_freezes_the_public_names_and_refuses_to_lose_one() -> None:
    assert with_names("", ["setting: A", "setting: B"]) == "setting: A\nsetting: B\n"
    assert with_names("setting: A\n", ["setting: A", "setting: B"]) == "setting: A\nsetting: B\n"
    with pytest.raises(Failed, match="setting: C"):
        with_names("setting: C\n", ["setting: A"])
