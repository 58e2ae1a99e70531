"""The tag that marks a cell's machines at the provider: unique, and found again if the store is lost (rule 4).

It is made once and kept beside the cell's own files, because it must live exactly as long as the cell does: two cells
with the same names must never end each other's machines, and a cell moved to another master must still find its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import uuid
from pathlib import Path

from autoscaler.errors import NO_ROOM, SettingsError, StateNotKept
from autoscaler.store.lock import CellKey
from autoscaler.store.state_place import remedy_of

FILE = "sge-autoscaler-tag"
_LEAST_SECRET = 32
"""Bytes."""
_TAG = re.compile(r"[A-Za-z0-9-]{6,64}")


def cell_tag(key: CellKey, common: Path, *, make: bool) -> str:
    """This cell's tag. `common` is its SGE_ROOT/CELL/common; `make` writes a new one if there is none.

    If none can be written, the tag follows from the cell's names and the machine's id. Raises SettingsError if the file
    is there but cannot be read: guessing another tag would lose every worker.
    """
    path = common / FILE
    if make:
        with contextlib.suppress(OSError):
            _write_once(path, f"{key.slug[:48].strip('-')}-{uuid.uuid4().hex[:12]}")
    try:
        tag = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return f"{key.slug}-{_machine_digest()}"
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read this cell's tag in {path}: {error}; or set CP_CAP_AUTOSCALE_TAG") from error
    if not _TAG.fullmatch(tag):
        raise SettingsError(
            f"{path} contains no tag (6 to 64 letters, digits and hyphens): correct it, or set CP_CAP_AUTOSCALE_TAG"
        )
    return tag


def cell_secret(path: Path) -> bytes:
    """The secret from which the keys of this cell's orders are made: made once, and readable by nobody else.

    If it is lost, a new one is made, and the tokens of earlier workers are void: they still leave when they are idle.
    Raises SettingsError if it can be neither read nor made, StateNotKept if the disk is full or read-only.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_once(path, secrets.token_hex(32), mode=0o600)
        secret = path.read_bytes().strip()
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StateNotKept(
                f"cannot keep this cell's secret in {path}: {error}; {remedy_of(path, error)}"
            ) from error
        raise SettingsError(f"cannot keep this cell's secret in {path}: {error}") from error
    if len(secret) < _LEAST_SECRET:
        raise SettingsError(f"{path} contains no secret: remove it, and the autoscaler makes a new one")
    return secret


def _write_once(path: Path, words: str, mode: int = 0o644) -> None:
    """Write the whole file or none of it, and never over another: the name appears only when the content is there."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(words + "\n")
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            # link(2), unlike rename(2), never replaces a file.
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _machine_digest() -> str:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    except OSError:
        machine = ""
    return hashlib.sha256(machine.encode()).hexdigest()[:8]
