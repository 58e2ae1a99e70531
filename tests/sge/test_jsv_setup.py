"""Installing the verifier is shown first, changes only what it must, keeps a foreign one, and can be undone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from autoscaler.errors import GridEngineRefused
from autoscaler.process import Completed
from autoscaler.sge.admin import Administrator
from autoscaler.sge.jsv_setup import (
    ALL_MODIFICATIONS,
    SHIPPED_MODIFICATIONS,
    JsvFiles,
    difference,
    install,
    state,
    withdraw,
)
from autoscaler.sge.qconf import read_attributes

SHIPPED = f"""#global:
execd_spool_dir              /var/spool/gridengine/execd
jsv_url                      none
jsv_allowed_mod              {SHIPPED_MODIFICATIONS}
max_unheard                  00:05:00
"""
PROGRAM = b"program"


class GlobalConfiguration:
    """`qconf -sconf` and `-Mconf`, which takes the file's name for the host's."""

    def __init__(self, text: str = SHIPPED) -> None:
        self.text = text

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        output = self.text
        if argv[1] == "-Mconf":
            file = Path(argv[2])
            assert file.name == "global"
            self.text, output = file.read_text(), 'root@master modified "global" in configuration list\n'
        else:
            assert argv[1:] == ("-sconf",)
        return Completed(tuple(argv), 0, output.encode(), b"", 0.0)

    @property
    def values(self) -> dict[str, str]:
        return read_attributes(self.text)


@pytest.fixture
def jsv_files(tmp_path: Path) -> JsvFiles:
    return JsvFiles(tmp_path, "cell")


def installed(place: JsvFiles, text: str = SHIPPED) -> GlobalConfiguration:
    configuration = GlobalConfiguration(text)
    install(Administrator(configuration), place, PROGRAM, place.common / "saved")
    return configuration


def foreign() -> str:
    return SHIPPED.replace("jsv_url                      none", "jsv_url script:/opt/own.sh")


def test_a_missing_verifier_is_shown_as_a_difference(jsv_files: JsvFiles) -> None:
    found = difference(Administrator(GlobalConfiguration()), jsv_files, PROGRAM)
    assert found is not None
    assert found.missing
    assert f"+jsv_url script:{jsv_files.script}" in found.shown


def test_a_verifier_of_the_administrator_is_a_difference_but_not_missing(jsv_files: JsvFiles) -> None:
    found = difference(Administrator(GlobalConfiguration(foreign())), jsv_files, PROGRAM)
    assert found is not None
    assert not found.missing
    assert "-jsv_url script:/opt/own.sh" in found.shown


def test_an_installed_verifier_is_not_a_difference(jsv_files: JsvFiles) -> None:
    assert difference(Administrator(installed(jsv_files)), jsv_files, PROGRAM) is None


def test_a_long_list_printed_over_several_lines_is_the_same_list(jsv_files: JsvFiles) -> None:
    configuration = installed(jsv_files)
    configuration.text = configuration.text.replace("cwd,dl", "cwd, \\\n                             dl")
    assert difference(Administrator(configuration), jsv_files, PROGRAM) is None


def test_another_version_of_the_program_is_a_difference(jsv_files: JsvFiles) -> None:
    assert difference(Administrator(installed(jsv_files)), jsv_files, b"newer") is not None


def test_only_what_the_verifier_needs_is_changed(jsv_files: JsvFiles) -> None:
    values = installed(jsv_files).values
    expected = read_attributes(SHIPPED) | {"jsv_url": jsv_files.url, "jsv_allowed_mod": ALL_MODIFICATIONS}
    assert values == expected


def test_a_chosen_list_of_modifications_stays(jsv_files: JsvFiles) -> None:
    text = SHIPPED.replace(SHIPPED_MODIFICATIONS, "ac,h,l_hard")
    assert installed(jsv_files, text).values["jsv_allowed_mod"] == "ac,h,l_hard"


def test_the_configuration_is_saved_before_installation(jsv_files: JsvFiles) -> None:
    installed(jsv_files)
    assert (jsv_files.common / "saved" / "configuration-global.txt").read_text() == SHIPPED


@pytest.mark.parametrize("text", (SHIPPED, foreign()))
def test_withdrawing_restores_the_configuration(jsv_files: JsvFiles, text: str) -> None:
    configuration = installed(jsv_files, text)
    install(Administrator(configuration), jsv_files, b"newer", jsv_files.common / "saved")
    assert withdraw(Administrator(configuration), jsv_files, jsv_files.common / "saved")
    assert configuration.values == read_attributes(text)
    assert not jsv_files.folder.exists()


def test_withdrawing_without_the_saved_url_leaves_no_verifier(jsv_files: JsvFiles) -> None:
    configuration = installed(jsv_files, foreign())
    jsv_files.before.unlink()
    withdraw(Administrator(configuration), jsv_files, jsv_files.common / "saved")
    assert configuration.values["jsv_url"] == ""


def test_a_verifier_that_is_not_ours_is_not_withdrawn(jsv_files: JsvFiles) -> None:
    configuration = GlobalConfiguration(foreign())
    assert not withdraw(Administrator(configuration), jsv_files, jsv_files.common / "saved")
    assert configuration.text == foreign()


def test_a_cell_whose_files_cannot_be_written_is_not_changed(tmp_path: Path) -> None:
    configuration = GlobalConfiguration()
    with pytest.raises(GridEngineRefused):
        install(Administrator(configuration), JsvFiles(tmp_path / "nowhere", "cell"), PROGRAM, tmp_path / "saved")
    assert configuration.text == SHIPPED


def test_everybody_may_run_the_script_and_read_the_program(jsv_files: JsvFiles) -> None:
    installed(jsv_files)
    modes = [oct(path.stat().st_mode)[-3:] for path in (jsv_files.folder, jsv_files.script, jsv_files.program)]
    assert modes == ["755", "755", "644"]


def test_names_are_quoted_in_the_script(tmp_path: Path) -> None:
    assert f"'{tmp_path}/a b/sge-autoscaler/verifier.pyz'" in JsvFiles(tmp_path / "a b", "cell").script_text()


def state_of(
    place: JsvFiles, url: str, *, program: bytes = PROGRAM, now: float = 1000.0
) -> tuple[bool, bool, bool, bool]:
    found = state(url, place, program, oldest=60.0, now=now)
    assert found is not None
    return found.runs, found.ours, found.current, found.fresh


def test_the_state_of_our_verifier(jsv_files: JsvFiles) -> None:
    installed(jsv_files)
    assert state_of(jsv_files, jsv_files.url) == (True, True, True, False)
    jsv_files.file.touch()
    os.utime(jsv_files.file, (990, 990))
    assert state_of(jsv_files, jsv_files.url) == (True, True, True, True)
    assert state_of(jsv_files, jsv_files.url, now=1051.0) == (True, True, True, False)
    assert state_of(jsv_files, jsv_files.url, program=b"newer") == (True, True, False, True)
    jsv_files.script.unlink()
    assert state_of(jsv_files, jsv_files.url)[0] is False


def test_the_state_of_another_verifier(jsv_files: JsvFiles) -> None:
    assert state_of(jsv_files, "script:sgeadmin@/bin/sh") == (True, False, False, False)
    assert state_of(jsv_files, "/nowhere") == (False, False, False, False)


@pytest.mark.parametrize("url", ("", "none"))
def test_a_cell_without_a_url_has_no_verifier_state(jsv_files: JsvFiles, url: str) -> None:
    assert state(url, jsv_files, PROGRAM, oldest=60.0, now=1000.0) is None
