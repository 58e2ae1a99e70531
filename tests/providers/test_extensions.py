"""Extensions of any kind are found the same way: by installed name or import path."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.extensions import Extensions

KIND = Extensions("sample.group", "sample", "install sample[{name}]")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with two extensions; the module of one is missing."""
    metadata = tmp_path / "sample_of_others-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-of-others\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[sample.group]\nwhole = json:JSONDecoder\nbroken = no.such.module:X\n")
    (tmp_path / "needing.py").write_text("import not_here\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_installed_extensions_are_known_by_name() -> None:
    assert KIND.known() == ("broken", "whole")


def test_extensions_of_another_kind_are_not_known() -> None:
    assert Extensions("sample.other", "sample").known() == ()


@pytest.mark.parametrize("name", ("whole", "json:JSONDecoder.decode"))
def test_an_extension_is_found_by_name_or_import_path(name: str) -> None:
    assert KIND.find(name).__module__ == "json.decoder"


@pytest.mark.parametrize(
    ("name", "words"),
    (
        ("hole", r"there is no sample 'hole': did you mean whole\? Known are broken, whole; write package"),
        ("broken", r"the sample broken \(no\.such\.module:X\) cannot be imported: .*; install sample\[broken\]"),
        (
            "no.such:X",
            r"the sample no\.such:X cannot be imported: .*; put the whole path of its directory on PYTHONPATH",
        ),
        ("needing:X", r"the sample needing:X cannot be imported: No module named 'not_here'; install what it needs"),
        ("json:Nothing", r"the sample json:Nothing cannot be imported: module 'json' has no attribute 'Nothing'$"),
        ("json:", "'json:' is not an import path"),
    ),
)
def test_an_extension_that_is_not_found_is_an_error_with_a_remedy(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        KIND.find(name)
