"""Commands find the autoscaler that serves their cell, whatever state and settings this shell names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.commands._observation import as_running
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.commands.overriding import warn_unless_running
from autoscaler.settings.sharing import differing, given, with_settings
from autoscaler.store import lock
from autoscaler.store.lock import hold, lock_directory, running
from autoscaler.store.store import MIGRATIONS, Store
from tests.cell_files import cell_files


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This shell: the files of a cell, and a state of its own that no autoscaler reads."""
    values = cell_files(tmp_path / "sge") | {
        "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "mine"),
        "CP_CAP_AUTOSCALE_PROVIDER": "fake",
        "CP_CAP_AUTOSCALE_WORKERS": "10",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def theirs(environ: dict[str, str], tmp_path: Path) -> Iterator[Store]:
    """The state of an autoscaler that serves the cell with settings of its own."""
    state = tmp_path / "theirs"
    cell = Invocation(environ).cell
    store = Store.open(state / f"{cell.slug}.sqlite")
    settings = {"CP_CAP_AUTOSCALE_WORKERS": "3", "CP_CAP_AUTOSCALE_PROVIDER": "fake"}
    store.service_settings.keep(settings | {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"}, 1.0)
    with hold(cell, lock_directory(), state=str(state)):
        yield store
    store.close()


def test_a_pause_reaches_the_running_autoscaler_whatever_the_work_directory(theirs: Store, tmp_path: Path) -> None:
    assert (main(["pause"]), theirs.overrides.load().paused, (tmp_path / "mine").exists()) == (0, True, False)


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize("words", (["pause"], ["resume"], ["retry"], ["stop", "--now", "--no-wait"]))
def test_without_an_autoscaler_a_command_says_that_nothing_applies_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    printed = capsys.readouterr().err
    assert "no autoscaler serves cell default of master:6444 on this machine" in printed
    assert str(tmp_path / "mine") in printed


@pytest.mark.usefixtures("theirs")
def test_with_an_autoscaler_there_is_no_such_warning(capsys: pytest.CaptureFixture[str]) -> None:
    main(["pause"])
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("theirs")
def test_unwritable_state_of_a_running_autoscaler_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = str(tmp_path / "theirs")
    monkeypatch.setattr(os, "access", lambda path, mode, real=os.access: str(path) != refused and real(path, mode))
    code, printed = main(["pause"]), capsys.readouterr().err
    assert (code, refused in printed, "run this command as the user" in printed, "WORKDIR" in printed) == (
        1,
        True,
        True,
        False,
    )


@pytest.mark.usefixtures("theirs")
def test_readers_use_the_settings_of_the_running_autoscaler_and_name_differences(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    judged = as_running(Invocation(environ))
    printed = capsys.readouterr().err
    assert [array.limits.max_workers for array in judged.policy.node_arrays] == [3]
    assert [array.instance_type for array in judged.policy.node_arrays] == ["m5.large"]
    assert "CP_CAP_AUTOSCALE_WORKERS (10 here, 3 there)" in printed
    assert "CP_CAP_AUTOSCALE_PROVIDER" not in printed


def test_without_a_running_autoscaler_a_reader_uses_its_own_settings_and_says_so(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    invocation = Invocation(environ)
    assert as_running(invocation) is invocation
    assert "this command uses the settings of this shell" in capsys.readouterr().err


def test_a_warning_about_settings_is_printed_once_per_command(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    invocation = Invocation(environ)
    for _ in range(2):
        as_running(invocation)
    judged = capsys.readouterr().err
    for _ in range(2):
        warn_unless_running(invocation)
    kept = capsys.readouterr().err
    assert [result.count("no autoscaler serves cell") for result in (judged, kept)] == [1, 1]


def test_secrets_are_not_shared_and_a_reader_keeps_its_own(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('CP_CAP_AUTOSCALE_WORKERS = 7\nCP_CAP_AUTOSCALE_PROVIDER = "local"\n')
    service = {"CP_CAP_AUTOSCALE_CONFIG": str(file), "CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD": "hush", "HOME": "/root"}
    shared = given(service | {"CP_CAP_AUTOSCALE_PROVIDER": "fake"})
    assert shared == {"CP_CAP_AUTOSCALE_WORKERS": "7", "CP_CAP_AUTOSCALE_PROVIDER": "fake"}
    reader = {"CP_CAP_AUTOSCALE_MAX_CORES": "4", "CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD": "mine", "PATH": "/bin"}
    assert with_settings(reader, shared) == {"CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD": "mine", "PATH": "/bin", **shared}
    assert differing(reader, shared) == {"CP_CAP_AUTOSCALE_MAX_CORES": ("4", None)}


def test_a_lock_note_of_an_untrusted_user_is_ignored(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Invocation(environ).cell
    with hold(cell, lock_directory(), state=str(tmp_path / "trap")):
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        monkeypatch.setattr(lock, "_owners", lambda: (4711,))
        found = running(cell)
    assert found is not None
    assert found.state == ""


def test_a_lock_left_behind_is_not_a_running_autoscaler(environ: dict[str, str]) -> None:
    cell = Invocation(environ).cell
    with hold(cell, lock_directory()):
        pass
    assert running(cell) is None


def test_a_command_leaves_the_store_of_a_running_autoscaler_of_an_earlier_version_as_it_is(
    theirs: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.store.store.MIGRATIONS", (*MIGRATIONS, ("DROP TABLE memory",)))
    assert main(["status"]) == 2
    assert "is of an earlier version, and the autoscaler that writes it still runs" in capsys.readouterr().err
    row = theirs.database.row("PRAGMA user_version")
    assert row is not None
    assert row[0] == 1
