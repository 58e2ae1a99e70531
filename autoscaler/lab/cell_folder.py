"""The folder of private cells by name, so that `cell exec` finds one, and cells whose owner was killed are removed.

/run/sge-autoscaler/cells, or the temporary folder if /run cannot be written. Not XDG_RUNTIME_DIR: only its user may
enter it, and Grid Engine's daemons run as a user of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autoscaler.errors import NotFound
from autoscaler.lab import cell_remover
from autoscaler.lab.private_root import CellError
from autoscaler.namespaces import holder
from autoscaler.process import PythonProgram

YOUNG = 30.0
"""Seconds in which a place without an owner counts as one that is just being made."""


def folder() -> Path:
    """The folder of all cells, made if need be."""
    for base in (Path("/run/sge-autoscaler"), Path(tempfile.gettempdir()) / "sge-autoscaler"):
        with contextlib.suppress(OSError):
            cells = base / "cells"
            cells.mkdir(parents=True, exist_ok=True)
            if os.access(cells, os.W_OK):
                return cells
    raise CellError("there is no folder for cells: neither /run nor the temporary folder is writable")


def living() -> list[str]:
    """The names of the cells that can be entered now."""
    return sorted(place.name for place in folder().iterdir() if _tree(place) is not None)


def find(name: str | None) -> Path:
    """The place of a living cell; without a name, of the only one. Raises NotFound."""
    names = living()
    if name is None and len(names) == 1:
        return folder() / names[0]
    if name in names:
        return folder() / str(name)
    there = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}" if names else "there is none"
    raise NotFound(f"no cell {name}: {there}" if name else f"name the cell: {there}")


@contextlib.contextmanager
def claim(name: str | None = None) -> Iterator[Path]:
    """A place for a new cell, ours until the block ends or this process does, and removed then.

    Raises CellError if `name` is taken.
    """
    sweep()
    names = [name] if name else (f"cell-{number}" for number in itertools.count(1))
    for chosen in names:
        place = folder() / chosen
        with contextlib.suppress(FileExistsError):
            place.mkdir(parents=True)
            break
    else:
        raise CellError(f"there is a cell {name} already: choose another name, or end it with `cell down {name}`")
    descriptor = _own(place)
    try:
        with PythonProgram.isolated(cell_remover.__file__, str(place)).start(held=True) as removing:
            next(removing.lines, None)  # from here on the place is removed whatever becomes of us
            try:
                yield place
            finally:
                removing.close(cell_remover.PATIENCE + 5)
    finally:
        os.close(descriptor)


def _own(place: Path) -> int:
    """Make and lock the owner's file; locked before it gets its name, so that no sweep removes it."""
    unseen = place / "owner.new"
    descriptor = os.open(unseen, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unseen.rename(place / "owner")
    return descriptor


def sweep() -> list[str]:
    """Remove the places whose owner is gone; returns their names."""
    return [place.name for place in sorted(folder().iterdir()) if _left_behind(place) and _drop(place)]


def _left_behind(place: Path) -> bool:
    try:
        descriptor = os.open(place / "owner", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return place.stat().st_mtime < time.time() - YOUNG
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return _tree(place) is None
    finally:
        os.close(descriptor)


def _drop(place: Path) -> bool:
    shutil.rmtree(place, ignore_errors=True)
    return not place.exists()


def _tree(place: Path) -> int | None:
    return holder(place / "tree" / "first")
