"""What the loop writes for the verifier of submissions: the file that it judges by, and the program as one archive.

The file is rewritten if something changed and touched at every observation, so its age shows whether the loop still
observes. If the cell has no verifier, nothing is written.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import marshal
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.admission import admission_of
from autoscaler.report.admission import SCHEMA
from autoscaler.store import encoding

MISSED_POLLS = 12
"""After this many polls without a successful observation the file is stale. While there is nothing to scale, only one
poll in six observes.
"""
FRESH_AT_LEAST = 60.0
"""Seconds; a slow pass does not make the file stale."""
_BEGUN = (1980, 1, 1, 0, 0, 0)
"""A time for the archive's members, so that equal programs are equal archives."""
_UNCHECKED = (0b01).to_bytes(4, "little")
"""In the header of compiled code: do not check the source."""

log = logging.getLogger("autoscaler.admission")


@dataclass(slots=True)
class AdmissionFile:
    """Kept by the loop for one cell's verifier."""

    file: Path
    cell: str
    installed: Callable[[], bool]
    """Whether the cell has the verifier."""
    _written: str = field(default="", init=False)
    _complaint: str = field(default="", init=False)

    def keep(self, snapshot: Snapshot, poll: float) -> None:
        """Write what this observation shows, for a loop that observes every `poll` seconds. A file that cannot be
        written is logged once; it then becomes stale, and every job is accepted.
        """
        if not self.installed():
            return
        text = self._document(snapshot, poll)
        try:
            if text == self._written and self.file.exists():
                os.utime(self.file)
            else:
                write_atomically(self.file, text.encode())
        except OSError as error:
            complaint = f"{self.file} cannot be written, so no job is refused at submission: {error.strerror}"
            if complaint != self._complaint:
                log.warning(complaint)
            self._written, self._complaint = "", complaint
            return
        self._written, self._complaint = text, ""

    def _document(self, snapshot: Snapshot, poll: float) -> str:
        admission = admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy)
        return json.dumps(
            {
                "schema": SCHEMA,
                "cell": self.cell,
                "code": code(),
                "fresh_for": fresh_for(poll),
                "admission": encoding.plain(admission),
            }
        )


def fresh_for(poll: float) -> float:
    """Age in seconds at which the file is stale, for a loop that observes every `poll` seconds."""
    return max(FRESH_AT_LEAST, MISSED_POLLS * poll)


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Put a whole file in the place of another, for everybody to read. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)  # what somebody put there, a pipe or a link, is not opened
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            # The umask takes bits from open's own mode.
            os.fchmod(file.fileno(), mode)
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


# -- the program ---------------------------------------------------------------------------------------------------


def archive() -> bytes:
    """The verifier as one file for `python3 -I -S`: all of core, the sentences, the conversation.

    Compiled code is for this Python; any other takes the source.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, source in (*_sources(), ("__main__.py", _main())):
            _add(archive, name, source)
            compiled = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0))
            _add(archive, f"{name}c", MAGIC_NUMBER + _UNCHECKED + bytes(8) + compiled)
    return packed.getvalue()


@cache
def code() -> str:
    """A digest of the program: file and program must be of the same version."""
    digest = hashlib.sha256()
    for name, source in _sources():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def _sources() -> Iterator[tuple[str, bytes]]:
    autoscaler, sge = files("autoscaler"), files("autoscaler.sge")
    for name in ("__init__.py", "plain_text.py"):
        yield f"autoscaler/{name}", autoscaler.joinpath(name).read_bytes()
    yield from _modules(autoscaler.joinpath("core"), "autoscaler/core")
    for name in ("__init__.py", "admission.py", "wording.py"):
        yield f"autoscaler/report/{name}", autoscaler.joinpath("report", name).read_bytes()
    yield from _modules(autoscaler.joinpath("report", "reasons"), "autoscaler/report/reasons")
    for name in ("__init__.py", "jsv.py"):
        yield f"autoscaler/sge/{name}", sge.joinpath(name).read_bytes()


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _modules(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()


def _main() -> bytes:
    """`archive FILE CELL`."""
    lines = (
        "import sys",
        "from autoscaler.report.admission import main",
        f"sys.exit(main(sys.argv[1], sys.argv[2], {code()!r}))",
    )
    return "\n".join(lines).encode() + b"\n"


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _BEGUN), content)
