"""Puts our shim at the place where Cloud Pipeline starts its autoscaler, keeps what stood there, and puts it back.

Every step is one rename in the same folder, so the platform always finds one of both, whole. Two masters that share a
folder may do it at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autoscaler.errors import MAKE_ROOM, WRITABLE, NotFound, SettingsError
from autoscaler.new_folder import write_file

SCRIPT, KEPT = "autoscale_grid_engine.py", "autoscale_grid_engine_platform.py"
MARK = b"# sge-autoscaler shim:"
"""A line of each version of the shim: the first one, unless a person has written something above it."""
LONGEST = 1 << 16
"""Bytes of a script in which this line is looked for."""
LEFT_BEHIND = 60.0
"""Seconds after which a file that a step needs for a moment is one that an interrupted step left."""
_FOR_A_MOMENT = re.compile(rf"\.(?:{re.escape(SCRIPT)}|{re.escape(KEPT)})\.[0-9a-f]{{16}}")
_ADVICE = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.EROFS: WRITABLE,
    errno.ENOSPC: MAKE_ROOM,
    errno.EDQUOT: MAKE_ROOM,
}
USUAL = Path("/usr/local/CommonRepo")
"""Where the platform links the folder of a run."""


@dataclass(frozen=True, slots=True)
class Repo:
    """The platform's folder of a run, COMMON_REPO_DIR."""

    folder: Path

    @classmethod
    def of(cls, given: Path | None, environ: Mapping[str, str]) -> Repo:
        """The folder that is given, that of the environment, or the usual one. Raises NotFound if it is none."""
        run = environ.get("RUN_DIR")
        places = [Path(environ["COMMON_REPO_DIR"])] if environ.get("COMMON_REPO_DIR") else []
        places += [Path(run) / "CommonRepo"] if run else []
        for place in [given] if given is not None else [*places, USUAL]:
            if (place / "scripts").is_dir():
                return cls(place)
        tried = given or (places[0] if places else USUAL)
        raise NotFound(
            f"{tried} has no folder `scripts`, so it is no CommonRepo of Cloud Pipeline: give it by --repo, or set "
            "COMMON_REPO_DIR as in the run"
        )

    @property
    def script(self) -> Path:
        return self.folder / "scripts" / SCRIPT

    @property
    def kept(self) -> Path:
        """The platform's own script, while ours stands in its place."""
        return self.folder / "scripts" / KEPT

    @property
    def installed(self) -> bool:
        return _is_ours(self.script)

    @property
    def up_to_date(self) -> bool:
        return self.installed and self.script.read_bytes() == shim()

    @property
    def lost(self) -> str:
        """Why the platform's own script, kept beside the shim, cannot be started or put back; '' if it can."""
        wrong = _no_script(self.kept) or (f"{self.kept} is our shim, too" if _is_ours(self.kept) else "")
        end = "so the platform's own script is lost: copy it there from another run or image"
        return f"{wrong}, {end}" if wrong else ""

    @property
    def place(self) -> str:
        """What stands where the platform starts its autoscaler."""
        if self.installed:
            what = "the shim is" if self.up_to_date else "a shim of another version is"
            advice = "" if self.up_to_date else ": `sge-autoscaler platform install`"
            return f"{what} in place, but {self.lost}" if self.lost else f"{what} in place{advice}"
        wrong = _no_script(self.script)
        return f"{wrong}: no autoscaler is started" if wrong else "the platform's own script is in place"

    def install(self) -> str:
        """Returns what was done. Raises NotFound where no script stands, and SettingsError if it cannot be done or the
        platform's own script is lost.
        """
        with _errors(self.script):
            self._sweep()
            if wrong := _no_script(self.script):
                raise NotFound(f"{wrong}: this CommonRepo has no autoscaler to replace")
            done = "the shim was there already"
            if not self.installed:
                self._keep()
                done = f"the shim is in place; the platform's own script is kept as {self.kept}"
            elif not self.up_to_date:
                done = "the shim is of this version now"
            if not self.up_to_date:
                self._put(shim())
        if self.lost:
            raise SettingsError(f"{self.script}: {self.place}")
        return done

    def uninstall(self) -> str:
        """Returns what was done. Raises SettingsError if the platform's own script is lost."""
        with _errors(self.script):
            self._sweep()
            gone = not os.path.lexists(self.script) and not self.lost
            if not self.installed and not gone:
                return "the shim is not in place: nothing to do"
            if self.lost:
                raise SettingsError(f"nothing is put back: {self.lost}")
            self.kept.replace(self.script)
        return f"the platform's own script is at {self.script} again"

    def _keep(self) -> None:
        """Give the platform's own script a second name; the very file, with its times and rights."""
        aside = self.kept.with_name(f".{KEPT}.{secrets.token_hex(8)}")  # where nobody can have planted a link
        try:
            try:
                os.link(self.script, aside, follow_symlinks=False)
            except OSError:  # a file system without hard links
                shutil.copy2(self.script, aside, follow_symlinks=False)
            if not _is_ours(aside):  # else another master was faster
                aside.replace(self.kept)
        finally:
            aside.unlink(missing_ok=True)  # a rename to another name of the same file leaves both

    def _sweep(self) -> None:
        """Remove what a killed step left. A file of another master, at work now, is younger."""
        for path in self.script.parent.iterdir():
            if _FOR_A_MOMENT.fullmatch(path.name):
                with contextlib.suppress(FileNotFoundError):
                    if abs(time.time() - path.lstat().st_ctime) > LEFT_BEHIND:
                        path.unlink()

    def _put(self, text: bytes) -> None:
        there = self.script.stat()
        owner = (there.st_uid, there.st_gid) if os.geteuid() == 0 else (-1, -1)
        write_file(self.script, text, mode=there.st_mode & 0o777 | 0o444, owner=owner)


SET_UP = "sge_setup_master"


def prepare_image(folder: Path) -> str:
    """Put our `sge_setup_master` into a folder of an image that is on PATH before the platform's. Returns what was
    done. Raises SettingsError where another one stands.
    """
    text = files("autoscaler.conf").joinpath("cloud_pipeline", SET_UP).read_bytes()
    path = folder / SET_UP
    with _errors(path):
        if path.exists() and (_no_script(path) or b"sge-autoscaler" not in path.read_bytes()):
            raise SettingsError(f"{path} is not ours, and stays: let it call `sge-autoscaler platform install` first")
        write_file(path, text, mode=0o755)
    return f"{path} is in place: runs of this image start sge-autoscaler"


def shim() -> bytes:
    """The text of the shim of this version."""
    return files("autoscaler.conf").joinpath("cloud_pipeline", SCRIPT).read_bytes()


def _no_script(path: Path) -> str:
    """Why a path cannot be a script; '' if it can. A link counts as what it leads to. Nothing is opened."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return f"{path} is a link that leads nowhere" if path.is_symlink() else f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if stat.S_ISREG(mode):
        return ""
    return f"{path} is {'a directory' if stat.S_ISDIR(mode) else 'no regular file'}"


def _is_ours(path: Path) -> bool:
    if _no_script(path):
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a FIFO must not stop it
            return any(line.startswith(MARK) for line in file.read(LONGEST).splitlines())
    except OSError:
        return False


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = f"; {_ADVICE[error.errno]}" if error.errno in _ADVICE else ""
        raise SettingsError(f"cannot change {error.filename or path}: {error.strerror}{advice}") from error
