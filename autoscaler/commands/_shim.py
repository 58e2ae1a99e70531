"""Puts our shim at the place where Cloud Pipeline starts its autoscaler, keeps what stood there, and puts it back.

Every step is one rename in the same folder, so the platform always finds one of both, whole. Two masters that share a
folder may do it at the same time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autoscaler.errors import NotFound, SettingsError
from autoscaler.new_folder import write_file

SCRIPT, KEPT = "autoscale_grid_engine.py", "autoscale_grid_engine_platform.py"
MARK = b"# sge-autoscaler shim:"
"""How each version of the shim begins."""
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

    def install(self) -> str:
        """Returns what was done."""
        if not self.script.exists():
            raise NotFound(f"{self.script} does not exist: this CommonRepo has no autoscaler to replace")
        with _errors(self.script):
            done = "the shim was there already"
            if not self.installed:
                self._keep()
                done = f"the shim is in place; the platform's own script is kept as {self.kept}"
            elif not self.up_to_date:
                done = "the shim is of this version now"
            if not self.up_to_date:
                self._put(shim())
        return done

    def uninstall(self) -> str:
        """Returns what was done. Raises SettingsError if the platform's own script is lost."""
        if not self.installed:
            return "the shim is not in place: nothing to do"
        if not self.kept.exists() and not self.kept.is_symlink():
            raise SettingsError(f"{self.kept} is gone, so the platform's own script cannot be put back: copy it there")
        with _errors(self.script):
            self.kept.replace(self.script)
        return f"the platform's own script is at {self.script} again"

    def _keep(self) -> None:
        """Give the platform's own script a second name; the very file, with its times and rights."""
        aside = self.kept.with_name(f".{KEPT}.{secrets.token_hex(8)}")  # where nobody can have planted a link
        try:
            os.link(self.script, aside, follow_symlinks=False)
        except OSError:  # a file system without hard links
            shutil.copy2(self.script, aside, follow_symlinks=False)
        if _is_ours(aside):  # another master was faster
            aside.unlink()
        else:
            aside.replace(self.kept)

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
    if path.exists() and b"sge-autoscaler" not in path.read_bytes():
        raise SettingsError(f"{path} is not ours, and stays: let it call `sge-autoscaler platform install` first")
    with _errors(path):
        write_file(path, text, mode=0o755)
    return f"{path} is in place: runs of this image start sge-autoscaler"


def shim() -> bytes:
    """The text of the shim of this version."""
    return files("autoscaler.conf").joinpath("cloud_pipeline", SCRIPT).read_bytes()


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"cannot change {error.filename or path}: {error.strerror}; run as root") from error
