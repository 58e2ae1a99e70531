"""The folder's compiled code is such that Python takes it wherever it is unpacked, and whoever built it."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from installers import folder as made
from installers.sources import Failed

MODULES = ("used", "unused")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two modules, of which a program imported one during the build, with the environment of an ordinary shell."""
    library = tmp_path / "folder" / "base" / "lib"
    library.mkdir(parents=True)
    for name in MODULES:
        (library / f"{name}.py").write_text("def place():\n    return __file__\n", encoding="utf-8")
    subprocess.run((sys.executable, "-c", "import used"), cwd=library, env={"PATH": os.defpath}, check=True, timeout=60)
    assert list(library.glob("__pycache__/used.*.pyc")), "Python wrote it"
    return library.parent


def test_what_a_program_left_during_the_build_is_compiled_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    made._compile(Path(sys.executable), folder)
    assert list(made.badly_compiled(folder, tmp_path)) == []
    for source in (folder / "lib").glob("*.py"):
        os.utime(source, (1, 1))  # as unpacking does
    before = {path: path.read_bytes() for path in folder.rglob("*.pyc")}
    imported = f"import {', '.join(MODULES)}"
    subprocess.run(
        (sys.executable, "-c", imported), cwd=folder / "lib", env={"PATH": os.defpath}, check=True, timeout=60
    )
    assert {path: path.read_bytes() for path in folder.rglob("*.pyc")} == before


def test_the_build_refuses_code_that_python_would_compile_again(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="badly compiled, 3 in all") as caught:
        made.check(folder, tmp_path)
    assert "used.cpython" in str(caught.value)
    assert "depends on the time of its source" in str(caught.value)
    assert "lib/unused.py: not compiled" in str(caught.value)


@pytest.mark.parametrize("changed", ("names", "another source", "no source"))
def test_the_build_refuses_code_with_its_own_folder_in_it_or_of_another_source(
    folder: Path, tmp_path: Path, changed: str
) -> None:
    made._compile(Path(sys.executable), folder)
    source = folder / "lib" / "used.py"
    if changed == "names":
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        (compiled,) = (folder / "lib").glob("__pycache__/used.*.pyc")
        py_compile.compile(str(source), str(compiled), doraise=True, invalidation_mode=mode)
    elif changed == "another source":
        source.write_text("", encoding="utf-8")
    else:
        source.unlink()
    with pytest.raises(Failed, match=changed):
        made.check(folder, tmp_path)
