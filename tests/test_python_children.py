"""No Python of ours imports from the current directory, which may belong to another user; one place starts them all."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import pytest

from autoscaler.answer_client import ServiceAddress
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import drop_exposed_temporary_directory
from autoscaler.commands.top import acting
from autoscaler.engine.deliver import Message
from autoscaler.engine.notifications import call
from autoscaler.errors import SettingsError
from autoscaler.process import Completed, Options, PythonProgram, SystemRunner, python_environment
from autoscaler.store.lock import hold, lock_directory
from tests.commands.test_commands import environ, worker_store

__all__ = ("environ", "worker_store")
ROOT = Path(__file__).parents[1]
STARTER = ROOT / "autoscaler" / "process.py"
SCRIPT = ROOT / "bin" / "sge-autoscaler"
NO_CHILDREN = {
    "autoscaler/lab/private_root.py": "folders of Python that a private root shows",
    "autoscaler/commands/_account.py": "a file whose mode is checked",
    "autoscaler/commands/jetpack.py": "the folder of a shell script",
    "autoscaler/lab/played_launcher.py": "a launcher that a person plays; it starts its scripts in a private cell",
    "sge/jsv_setup.py": "a Python that Grid Engine starts, with -I -S",
}
"""Modules that name Python and start none."""
STDLIB = ("json", "re", "dataclasses", "typing", "threading", "logging", "ast", "urllib")


class Remembering:
    """A Runner that starts nothing."""

    argv: tuple[str, ...] = ()
    env: object = None
    cwd: object = None

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        self.argv, self.env, self.cwd = tuple(argv), options.get("env"), options.get("cwd")
        return Completed(self.argv, 0, b"", b"", 0.0)


def children(source: str) -> Iterator[str]:
    """Every expression that names a Python or starts a process by itself, as `line: what`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="executable" | "orig_argv" | "_base_executable" as name):
                yield f"{node.lineno}: sys.{name}"
            case ast.Constant(value=str(text)) if re.fullmatch(r"(/\S*/)?python[0-9.]*", text):
                yield f"{node.lineno}: {text}"
            case ast.Import(names=names):
                found = {alias.name.partition(".")[0] for alias in names} & {"subprocess", "multiprocessing", "pty"}
                yield from (f"{node.lineno}: import {name}" for name in found)
            case ast.ImportFrom(module="subprocess" | "multiprocessing" | "concurrent.futures.process" as name):
                yield f"{node.lineno}: from {name}"
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if re.match(
                r"exec|spawn|posix_spawn|popen|system$", name
            ):
                yield f"{node.lineno}: os.{name}"


def test_one_module_starts_children_and_pythons() -> None:
    files = (file for top in ("autoscaler", "providers", "sge") for file in (ROOT / top).rglob("*.py"))
    found = {str(file.relative_to(ROOT)): list(children(file.read_text("utf-8"))) for file in files if file != STARTER}
    assert {file: what for file, what in found.items() if what and file not in NO_CHILDREN} == {}
    assert {file for file in NO_CHILDREN if not found[file]} == set(), "no longer needed in the list"


@pytest.mark.parametrize(
    "line",
    (
        "run((sys.executable, '-m', 'x'))",
        "run(['python3', 'x.py'])",
        "import subprocess",
        "os.execv(path, words)",
        "from multiprocessing import Pool",
    ),
)
def test_another_start_is_found(line: str) -> None:
    assert list(children(line))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory is another user's, with modules named as the standard library's; each leaves a file."""
    theirs, ran = tmp_path / "theirs", tmp_path / "ran"
    theirs.mkdir()
    for name in STDLIB:
        (theirs / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(theirs)
    return ran


@pytest.mark.parametrize("path", (None, "", ".", f"{os.pathsep}/opt/x", f"/opt/x{os.pathsep}"))
def test_the_program_of_notifications_imports_nothing_from_the_current_directory(
    planted: Path, path: str | None
) -> None:
    environ = {"PATH": os.defpath} | ({} if path is None else {"PYTHONPATH": path})
    with pytest.raises(SettingsError, match="cannot be read"):
        call(SystemRunner(), Message("/nonexistent/urls", "", ""), environ)
    assert not planted.exists()


@pytest.mark.usefixtures("worker_store")
def test_a_command_of_top_imports_nothing_from_the_current_directory(
    environ: dict[str, str], planted: Path, tmp_path: Path
) -> None:
    socket, state = str(tmp_path / "a.sock"), str(Invocation(environ).state_directory)
    with hold(Invocation(environ).cell, lock_directory(), state=state, socket_path=socket):
        act = acting(Invocation(environ), ServiceAddress(socket))
        assert act is not None
        assert act(["drain", "fake-1"]) == "fake-1 will be drained"
    assert not planted.exists()


@pytest.mark.parametrize(
    "program", (PythonProgram.module("json.tool"), PythonProgram.isolated(ROOT / "autoscaler/first_process.py"))
)
def test_a_child_starts_in_the_root_directory(program: PythonProgram, planted: Path) -> None:
    runner = Remembering()
    program.run(runner, timeout=5.0, env={"PYTHONPATH": ":/opt/x:rel", "LANG": "C"})
    assert (runner.cwd, runner.env) == (Path("/"), {"PYTHONPATH": "/opt/x", "LANG": "C"})
    assert runner.argv[1] in ("-P", "-I")
    assert not planted.exists()


@pytest.mark.parametrize("path", (None, "", f"{os.pathsep}/opt/x", "."))
def test_the_console_script_imports_nothing_from_the_current_directory(planted: Path, path: str | None) -> None:
    installed = Path(sys.executable).with_name("sge-autoscaler")
    link = planted.parent / "sge-autoscaler"
    link.symlink_to(installed)
    environ = {"PATH": os.defpath} | ({} if path is None else {"PYTHONPATH": path})
    done = subprocess.run((str(link), "--version"), env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("sge-autoscaler")
    assert not planted.exists()


def test_the_console_script_is_the_one_of_the_work_tree() -> None:
    assert Path(sys.executable).with_name("sge-autoscaler").read_bytes() == SCRIPT.read_bytes(), "run `make setup`"


def test_absolute_parts_of_pythonpath_are_kept() -> None:
    assert python_environment({"PYTHONPATH": "/a:/b"}) == {"PYTHONPATH": "/a:/b"}
    assert python_environment({"PYTHONPATH": ":"}) == {}


@pytest.fixture
def home_of_another(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's directory")
    made = tmp_path / "home"
    made.mkdir()
    os.chown(made, 1, -1)
    return made


def test_the_console_script_imports_no_packages_below_the_home_of_another_user(
    home_of_another: Path, tmp_path: Path
) -> None:
    """`sudo -E` keeps HOME, and Python runs every .pth file below it that is among a user's own packages."""
    (tmp_path / "sge-autoscaler").write_bytes(SCRIPT.read_bytes())
    (tmp_path / "python3").write_text("#!/bin/sh\necho ${PYTHONNOUSERSITE-}\n")
    for file in ("sge-autoscaler", "python3"):
        (tmp_path / file).chmod(0o755)

    def started(home: Path) -> str:
        environ = {"PATH": os.defpath, "HOME": str(home)}
        return subprocess.run([tmp_path / "sge-autoscaler"], env=environ, capture_output=True, text=True).stdout

    assert [started(home).strip() for home in (home_of_another, tmp_path)] == ["1", ""]


@pytest.mark.parametrize(
    ("place", "base", "alone"),
    (
        ("opt/bin", None, True),
        ("home/.local/bin", None, False),
        ("base/bin", "base", False),
        ("home/.local/bin", "base", True),
    ),
)
def test_a_users_own_packages_hide_nothing_unless_the_program_is_one_of_them(
    tmp_path: Path, place: str, base: str | None, alone: bool
) -> None:
    """Python has them before installed packages, in every environment that is no venv."""
    folder = tmp_path / place
    for each in (folder, tmp_path / "home/.local", tmp_path / "base"):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "sge-autoscaler").write_bytes(SCRIPT.read_bytes())
    (folder / "python3").write_text('#!/bin/sh\necho "$@"\n')
    for file in ("sge-autoscaler", "python3"):
        (folder / file).chmod(0o755)
    environ = {"PATH": os.defpath, "HOME": str(tmp_path / "home")}
    environ |= {} if base is None else {"PYTHONUSERBASE": str(tmp_path / base)}
    done = subprocess.run(
        [folder / "sge-autoscaler", "status"], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["-P", *(["-s"] if alone else []), "-m", "autoscaler.commands.main", "status"]


def test_children_leave_out_what_their_parent_leaves_out() -> None:
    program = "import sys; from autoscaler.process import PythonProgram; print(*PythonProgram.module('x').argv[1:])"
    found = [
        subprocess.run((sys.executable, *flags, "-P", "-c", program), capture_output=True, text=True, check=True).stdout
        for flags in ((), ("-s",))
    ]
    assert [each.split() for each in found] == [["-P", "-m", "x"], ["-P", "-s", "-m", "x"]]


def started_with(path: Path, *, first: str = "") -> subprocess.CompletedProcess[str]:
    """The console script beside this Python, with `path` on PYTHONPATH."""
    environ = {"PATH": os.defpath, "PYTHONPATH": f"{first}{path}"}
    argv = (Path(sys.executable).parent / "sge-autoscaler", "--version")
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ("autoscaler/__init__.py", "autoscaler.py"))
def test_another_package_of_our_name_on_the_path_is_named_and_not_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("print('theirs')\n")
    done = started_with(tmp_path, first="/opt/x:")
    said = f"sge-autoscaler: PYTHONPATH has {tmp_path}, and {tmp_path / name} there hides this program: take it out\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_packages_called_as_the_folders_of_our_repository_hide_nothing(tmp_path: Path) -> None:
    for name in ("sge", "providers", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs')\n")
    assert (done := started_with(tmp_path)).stdout.startswith("sge-autoscaler, version"), done.stderr


def test_a_package_that_has_overwritten_ours_is_told(tmp_path: Path) -> None:
    """As pip installs another distribution with the import name `autoscaler` after ours."""
    for file in (ROOT / "autoscaler").rglob("*.py"):
        copy = tmp_path / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (tmp_path / "autoscaler" / "__init__.py").write_text("VERSION = '0.9'\n")
    done = started_with(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sge-autoscaler: {tmp_path}/autoscaler/__init__.py is not ours")
    assert len(done.stderr.splitlines()) == 1


def test_a_child_imports_no_packages_below_the_home_of_another_user(home_of_another: Path, tmp_path: Path) -> None:
    found = [python_environment({"HOME": str(home)}) for home in (home_of_another, tmp_path)]
    assert [each.get("PYTHONNOUSERSITE") for each in found] == ["1", None]


def test_no_temporary_file_is_made_where_another_user_could_exchange_it(home_of_another: Path, tmp_path: Path) -> None:
    """What `qconf` is given is written into such a file first."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    environ = {"TMPDIR": str(home_of_another), "TEMP": str(shared), "TMP": str(tmp_path), "HOME": "/"}
    drop_exposed_temporary_directory(environ)
    assert environ == {"TMP": str(tmp_path), "HOME": "/"}
    shared.chmod(0o1777)  # as /tmp
    environ = {"TMPDIR": str(shared)}
    drop_exposed_temporary_directory(environ)
    assert environ == {"TMPDIR": str(shared)}
