"""The sources that packages are made of: the files that git knows, with the same modes and times on every machine."""

from __future__ import annotations

import configparser
import gzip
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = "sge-autoscaler"
PLACE = f"/opt/{PROGRAM}"
"""Where the folder is unpacked, and where the Debian packages have it. It works elsewhere, too."""


def version_of(tree: Path) -> str:
    """The version that setup.cfg names."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(tree / "setup.cfg", encoding="utf-8")
    return config["metadata"]["version"]


def epoch_of(tree: Path) -> int:
    """The time that every file of a package has: SOURCE_DATE_EPOCH, else that of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(run("git", "log", "-1", "--format=%ct", cwd=tree))


def export(tree: Path, to: Path) -> Path:
    """Copy what git knows or would add (also what is not committed yet)."""
    shutil.rmtree(to, ignore_errors=True)
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=tree).split("\0"):
        source, target = tree / name, to / name
        if not name or not os.path.lexists(source):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target, follow_symlinks=False)
    _add_vendored(tree, to)
    settle(to)
    return to


def _add_vendored(tree: Path, to: Path) -> None:
    """Copy what the page loads: from npm, not in git, and each file with the hash that git knows."""
    run("bin/vendored", cwd=tree)
    for line in (tree / "requirements" / "page.sha256").read_text(encoding="utf-8").splitlines():
        name = line.split()[1]
        if name.startswith("autoscaler/"):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / name, to / name)


def settle(folder: Path, programs: str = "") -> None:
    """Give the folder and all in it modes that do not depend on the umask of who made them. `programs`: the folder of
    what can be started; empty: what can be started now.
    """
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            starts = path.parent == folder / programs if programs else _starts(path)
            path.chmod(0o755 if path.is_dir() or starts else 0o644)


def stamp(folder: Path, epoch: int) -> None:
    """Give all files the time that every file of a package has."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def _starts(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100) or path.read_bytes()[:2] == b"#!"


def packed(folder: Path, name: str, epoch: int) -> bytes:
    """A tar archive of a folder, under this name: the same bytes for the same files."""
    output = BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in (folder, *sorted(folder.rglob("*"))):
            info = archive.gettarinfo(str(path), arcname=str(Path(name) / path.relative_to(folder)))
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = epoch
            if info.isreg():
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return output.getvalue()


def gzipped(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def files_below(folder: Path) -> Iterator[str]:
    """Names of files and links, relative to it, sorted."""
    yield from (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if _is_file(path))


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


class Failed(Exception):
    """A step of a build: which, and what it printed."""


def run(*argv: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 600.0) -> str:
    """What a program printed. Raises Failed with what it said."""
    environ = None if env is None else {**os.environ, **env}
    try:
        done = subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout, umask=0o22)
    except FileNotFoundError as error:
        raise Failed(f"{argv[0]} is not installed: {NEEDED}") from error
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


NEEDED = "apt-get install binutils dpkg-dev make perl tcl zstd"


def say(text: str) -> None:
    print(f"dist: {text}", flush=True)
