"""`jetpack` for scripts that cannot be changed: installed only where no other one is, and never in its way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.commands.jetpack import InstallDirectories
from autoscaler.commands.main import main
from autoscaler.errors import SettingsError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install_folders(tmp_path: Path) -> InstallDirectories:
    """An environment whose `sge-autoscaler` prints its arguments."""
    found = InstallDirectories(tmp_path / "site", tmp_path / "bin")
    found.modules.mkdir()
    found.commands.mkdir()
    program = tmp_path / "auto scaler"
    program.write_text('#!/bin/sh\necho "called:$*"\n', encoding="utf-8")
    program.chmod(0o755)
    found.install(f"'{program}'")
    return found


def python(place: InstallDirectories, script: str, *more: Path) -> str:
    """The output of a Python that starts with the environment's `.pth` files."""
    start = f"import site; site.addsitedir({str(place.modules)!r})\n{script}"
    environ = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *more)))}
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=120, env=environ)
    assert done.stderr == ""
    return done.stdout.strip()


def shell(place: InstallDirectories, *words: str, path: str = "/usr/bin:/bin") -> tuple[int, str]:
    environ = {"PATH": f"{place.commands}:{path}"}
    done = subprocess.run(["jetpack", *words], capture_output=True, text=True, timeout=120, env=environ)
    return done.returncode, done.stdout.strip() or done.stderr.strip()


def other(directory: Path) -> Path:
    directory.mkdir()
    (directory / "jetpack").write_text('#!/bin/sh\necho "the other:$*"\n', encoding="utf-8")
    (directory / "jetpack").chmod(0o755)
    return directory


@pytest.mark.parametrize(
    "script",
    (
        "import jetpack.autoscale; print(jetpack.autoscale.update.__module__)",
        "from jetpack import autoscale; print(autoscale.update.__module__)",
    ),
)
def test_a_script_imports_jetpack_under_its_own_name(install_folders: InstallDirectories, script: str) -> None:
    assert python(install_folders, script).endswith("jetpack.autoscale")


def test_errors_are_the_same_class_under_both_names(install_folders: InstallDirectories) -> None:
    script = (
        "import jetpack.autoscale as a; from autoscaler.jetpack import autoscale as b; print(a.Rejected is b.Rejected)"
    )
    assert python(install_folders, script) == "True"


def test_jetpack_config_can_be_imported_too(install_folders: InstallDirectories) -> None:
    assert python(install_folders, "import jetpack.config; print(jetpack.config.get('no.such', 'none'))") == "none"


def test_another_jetpack_module_takes_precedence(install_folders: InstallDirectories, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "jetpack.py").write_text("autoscale = 'the other'\n", encoding="utf-8")
    assert python(install_folders, "import jetpack; print(jetpack.autoscale)", tmp_path / "lib") == "the other"


def test_a_start_of_python_imports_nothing_of_jetpack(install_folders: InstallDirectories) -> None:
    script = "import sys; print('http' in sys.modules, 'autoscaler.jetpack' in sys.modules)"
    assert python(install_folders, script) == "False False"


def test_python_starts_without_an_error_when_the_autoscaler_is_missing(install_folders: InstallDirectories) -> None:
    start = f"import site; site.addsitedir({str(install_folders.modules)!r}); print('fine')"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", start], capture_output=True, text=True, timeout=120, cwd="/"
    )
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


@pytest.mark.parametrize(
    ("words", "called"),
    (
        (("autoscale", "--name=execute", "--corecount=128"), "called:autoscale --name=execute --corecount=128"),
        (("config", "cyclecloud.instance.id"), "called:worker config get cyclecloud.instance.id"),
        (("config",), "called:worker config list"),
    ),
)
def test_known_arguments_are_passed_on(
    install_folders: InstallDirectories, words: tuple[str, ...], called: str
) -> None:
    assert shell(install_folders, *words) == (0, called)


def test_unknown_arguments_are_a_usage_error(install_folders: InstallDirectories) -> None:
    assert shell(install_folders, "shutdown")[0] == 2


def test_another_jetpack_command_takes_precedence(install_folders: InstallDirectories, tmp_path: Path) -> None:
    behind = other(tmp_path / "other")
    assert shell(install_folders, "shutdown", "-x", path=f"{behind}:/usr/bin:/bin") == (0, "the other:shutdown -x")


def test_the_jetpack_of_a_worker_does_not_count_as_another(install_folders: InstallDirectories, tmp_path: Path) -> None:
    behind = other(tmp_path / "other")
    (behind / "jetpack").write_text("#!/bin/sh\nfile='/etc/sge-autoscaler/worker.conf'\n", encoding="utf-8")
    assert shell(install_folders, "config", "x", path=f"{behind}:/usr/bin:/bin") == (0, "called:worker config get x")


def test_a_second_install_replaces_the_first(install_folders: InstallDirectories) -> None:
    before = install_folders.command.read_text(encoding="utf-8")
    install_folders.install("'x'")
    assert (
        install_folders.command.read_text(encoding="utf-8") == before,
        len(list(install_folders.modules.iterdir())),
    ) == (False, 1)


def test_remove_leaves_nothing(install_folders: InstallDirectories) -> None:
    removed = install_folders.remove()
    assert (
        len(removed),
        list(install_folders.modules.iterdir()),
        list(install_folders.commands.iterdir()),
        install_folders.remove(),
    ) == (
        2,
        [],
        [],
        [],
    )


def test_a_jetpack_command_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    taken = InstallDirectories(tmp_path, other(tmp_path / "bin"))
    with pytest.raises(SettingsError, match="is another jetpack: left alone"):
        taken.install("'x'")
    with pytest.raises(SettingsError, match="is another jetpack: left alone"):
        taken.remove()
    assert ("the other" in taken.command.read_text(encoding="utf-8"), taken.start.exists()) == (True, False)


def test_the_command_names_what_it_wrote_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        InstallDirectories, "of_this_python", classmethod(lambda _: InstallDirectories(tmp_path, tmp_path))
    )
    codes = [main(["jetpack", *words]) for words in (["--install"], ["--remove"], ["--remove"], [])]
    assert (codes, capsys.readouterr().out.splitlines()) == (
        [0, 0, 0, 2],
        [
            f"wrote {tmp_path}/sge_autoscaler_jetpack.pth",
            f"wrote {tmp_path}/jetpack",
            f"removed {tmp_path}/sge_autoscaler_jetpack.pth",
            f"removed {tmp_path}/jetpack",
            "nothing was installed",
        ],
    )
