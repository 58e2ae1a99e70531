"""The folder /opt/sge-autoscaler: a Python, the pinned packages and the program; it works wherever it is put.

Packages that a cloud's SDK needs besides are folders to be laid over it, one for each of EXTRAS.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
from _imp import source_hash
from collections.abc import Iterable
from pathlib import Path

from installers.sources import PLACE, PROGRAM, Failed, files_below, gzipped, run, settle

EXTRAS = ("aws", "azure", "celery", "dask")
GLIBC = (2, 17)
"""The oldest glibc with which every program and library of the folder must work."""
PYTHON = "python3.11"
SITE = Path("lib", PYTHON, "site-packages")
UNCHECKED_HASH = 1
"""The flags of compiled code that Python takes as it is (PEP 552)."""
OF_THE_SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt|util|resolv|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2")
"""What each Linux with glibc has; all else has to be in the folder."""
PLATFORMS = [
    word
    for name in ("manylinux2014", "manylinux_2_17", "manylinux2010", "manylinux_2_12", "manylinux1", "manylinux_2_5")
    for word in ("--platform", f"{name}_x86_64")
]
QUIET = ("--disable-pip-version-check", "--no-input", "--quiet", "--no-deps")


def fetch_packages(sources: Path, to: Path) -> None:
    """Download the pinned packages of all extras, by their hashes, as built for the oldest glibc."""
    to.mkdir(parents=True, exist_ok=True)
    for name in ("run", *EXTRAS):
        lock = sources / "requirements" / f"{name}.txt"
        options = (
            "--require-hashes",
            "--only-binary=:all:",
            "--python-version=3.11",
            "--implementation=cp",
            *PLATFORMS,
        )
        run(
            sys.executable, "-m", "pip", "download", *QUIET, *options, f"--find-links={to}", "-d", str(to),
            "-r", str(lock),
        )  # fmt: skip


def lay_out(interpreter: Path, wheel: Path, packages: Path, sources: Path, manual: Path, to: Path) -> None:
    """Make the folder, with an overlay beside it for each extra. `manual`: pages of section 7."""
    base = to / "base"
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(interpreter, base, symlinks=True)
    _install(packages, sources / "requirements" / "run.txt", base / SITE)
    common = set(files_below(base / SITE))
    program = to / "program"
    _pip_install(program, "--no-index", str(wheel))
    shutil.copyfile(program / "bin" / PROGRAM, base / "bin" / PROGRAM)
    (base / "bin" / PROGRAM).chmod(0o755)
    _tidy(program)
    shutil.copytree(program, base / SITE, dirs_exist_ok=True)
    shutil.rmtree(program)
    _share(sources, base, manual)
    for extra in EXTRAS:
        whole = to / "whole"
        _install(packages, sources / "requirements" / f"{extra}.txt", whole)
        for name in files_below(whole):
            if name not in common:
                target = to / extra / SITE / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(whole / name, target)
        shutil.rmtree(whole)
    for name in ("base", *EXTRAS):
        settle(to / name, "bin")
        _compile(base / "bin" / PYTHON, to / name)
        settle(to / name, "bin")


def _install(packages: Path, lock: Path, to: Path) -> None:
    _pip_install(to, "--no-index", "--require-hashes", f"--find-links={packages}", "-r", str(lock))
    _tidy(to)


def _pip_install(to: Path, *words: str) -> None:
    options = (
        "--only-binary=:all:",
        "--python-version=3.11",
        "--implementation=cp",
        *PLATFORMS,
        "--no-compile",
        "--root-user-action=ignore",
    )
    run(sys.executable, "-m", "pip", "install", *QUIET, *options, "--target", str(to), *words)


def _tidy(packages: Path) -> None:
    """Remove what depends on where and by whom packages were installed, and their own programs."""
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for info in packages.glob("*.dist-info"):
        for name in ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD"):
            (info / name).unlink(missing_ok=True)


def _compile(python: Path, folder: Path) -> None:
    """Compiled code that Python takes without a look at its source's time, which unpacking may change.

    Programs of the folder that ran before, and compileall itself, may have left code of another kind: none of it stays.
    """
    for left in sorted(folder.rglob("__pycache__")):
        shutil.rmtree(left)
    options = ("--invalidation-mode=unchecked-hash", "-f", "-s", str(folder), "-p", PLACE, "-q", "-j1")
    run(str(python), "-I", "-B", "-m", "compileall", *options, str(folder / "lib"), env={"PYTHONHASHSEED": "0"})


def units(sources: Path) -> list[Path]:
    """The units of systemd, all of which the folder has."""
    return sorted(path for path in (sources / "conf").iterdir() if path.suffix in {".service", ".socket"})


def _share(sources: Path, base: Path, manual: Path) -> None:
    """Units, settings, completion and manual pages, which the Debian package puts at their places."""
    share = base / "share" / PROGRAM
    share.mkdir(parents=True)
    for unit in units(sources):
        shutil.copyfile(unit, share / unit.name)
    for name in ("conf/sge-autoscaler.toml", "LICENSE", "README.md"):
        shutil.copyfile(sources / name, share / Path(name).name)
    program = base / "bin" / PROGRAM
    for shell in ("bash", "zsh", "fish"):
        (share / f"completion.{shell}").write_text(run(str(program), "completion", shell), encoding="utf-8")
    also = {path.name: path.read_text("utf-8") for path in sorted(manual.glob("*.7"))}
    script = Path(__file__).with_name("manual.py")
    pages: dict[str, str] = also | json.loads(run(str(base / "bin" / PYTHON), "-I", str(script), *also))
    for name, text in pages.items():
        (share / f"{name}.gz").write_bytes(gzipped(text))


# -- checks ------------------------------------------------------------------------------------------------------------


def check(folder: Path, work: Path) -> None:
    """Raises Failed if something needs a newer glibc, or a library that is not there, or if Python would compile
    something again. `work`: where it was built, which no compiled code names.
    """
    problems = [f"{name}: {what}" for name in _elf_files(folder) for what in unmet(folder, name)]
    if problems:
        raise Failed("\n".join(("not self-contained:", *problems)))
    if stale := sorted(badly_compiled(folder, work)):
        raise Failed("\n".join((f"badly compiled, {len(stale)} in all:", *stale[:20])))


def badly_compiled(folder: Path, work: Path) -> Iterable[str]:
    """Compiled code that Python would not take, or that names the folder of the build; and sources without any.

    The header of 16 bytes is that of PEP 552: magic number, flags, and here the hash of the source.
    """
    for source in (folder / "lib").rglob("*.py"):
        if not list((source.parent / "__pycache__").glob(f"{glob.escape(source.stem)}.*.pyc")):
            yield f"{source.relative_to(folder)}: not compiled"
    for path in folder.rglob("*.pyc"):
        code, name = path.read_bytes(), path.relative_to(folder)
        source = path.parent.parent / f"{path.name.split('.cpython-')[0]}.py"
        if path.parent.name != "__pycache__" or not source.is_file():
            yield f"{name}: has no source"
        elif int.from_bytes(code[4:8], "little") != UNCHECKED_HASH:
            yield f"{name}: depends on the time of its source"
        elif code[8:16] != source_hash(int.from_bytes(code[:4], "little"), source.read_bytes()):
            yield f"{name}: was compiled from another source"
        if os.fsencode(work) in code:
            yield f"{name}: names {work}"


def _elf_files(folder: Path) -> Iterable[str]:
    for name in files_below(folder):
        path = folder / name
        if not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield name


def unmet(folder: Path, name: str) -> list[str]:
    """What one program or library needs that cannot be counted on."""
    shown = run("readelf", "--wide", "--dynamic", "--version-info", str(folder / name))
    return unmet_by(shown, {Path(each).name for each in files_below(folder)})


def unmet_by(shown: str, there: set[str]) -> list[str]:
    """The same, by what readelf prints. `there`: names of files in the folder."""
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", shown))
    missing = sorted(name for name in needed if not OF_THE_SYSTEM.fullmatch(name) and name not in there)
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", shown)}
    newer = sorted(version for version in versions if version > GLIBC)
    return [f"needs {name}" for name in missing] + [f"needs glibc {'.'.join(map(str, each))}" for each in newer[-1:]]
