"""The lease of a cell as Grid Engine keeps it: an access list that no queue names, `sge-autoscaler-lease.NUMBER`.

qmaster is the one place that every machine of a cell can write to, even where root may not write on its NFS, and it
decides for all: of two who add the same access list, the second gets the error that it exists. So a process takes the
lease by adding the next number. Its entries are words that name its holder, and a number that grows while its holder
lives.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from autoscaler.errors import GridEngineNotObservable, GridEngineRefused
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.qconf import read_attributes, read_names

PREFIX = "sge-autoscaler-lease"
_NAME = re.compile(rf"{PREFIX}\.([1-9]\d{{0,8}})")
_ENTRY = re.compile(r"(\w+)=(.*)")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Lease:
    """One number of the lease."""

    number: int
    holder: str
    """Identifies the holder."""
    host: str = ""
    user: str = ""
    pid: int = 0
    beat: int = 0
    """Grows as long as its holder lives."""

    @property
    def who(self) -> str:
        return f"process {self.pid} of {self.user or '?'} on {self.host or '?'}"


class Leases:
    """Reads and writes the lease. Every method may raise GridEngineNotObservable, CommandError."""

    def __init__(self, administrator: Administrator) -> None:
        self._administrator = administrator

    def numbers(self) -> list[int]:
        """Those that exist; none: nobody has the lease."""
        names = read_names(self._administrator.show("-sul"))
        return [int(found[1]) for name in names if (found := _NAME.fullmatch(name))]

    def read(self, number: int) -> Lease | None:
        """One lease by its number; None: it does not exist (any more)."""
        try:
            text = self._administrator.show("-su", _name(number))
        except GridEngineNotObservable:
            if number in self.numbers():
                raise
            return None
        entries = read_attributes(text).get("entries", "").replace(",", " ").split()
        values = {found[1]: found[2] for entry in entries if (found := _ENTRY.fullmatch(entry))}
        return Lease(
            number,
            values.get("holder", ""),
            values.get("host", ""),
            values.get("user", ""),
            _whole(values.get("pid", "")),
            _whole(values.get("beat", "")),
        )

    def add(self, lease: Lease) -> bool:
        """Add it; False if somebody else was faster. Raises GridEngineRefused if we may not."""
        with objects.as_file(_text(lease)) as file:
            return self._administrator.configure("-Au", str(file)).changed

    def put(self, lease: Lease) -> bool:
        """Replace it; False if it does not exist."""
        try:
            with objects.as_file(_text(lease)) as file:
                return self._administrator.configure("-Mu", str(file)).changed
        except GridEngineRefused:
            return False

    def drop(self, number: int) -> None:
        with contextlib.suppress(GridEngineRefused):  # it does not exist
            self._administrator.configure("-dul", _name(number))

    def drop_before(self, number: int) -> None:
        """Delete older ones than this."""
        for older in self.numbers():
            if older < number:
                self.drop(older)


def _name(number: int) -> str:
    return f"{PREFIX}.{number}"


def _text(lease: Lease) -> str:
    words = {"holder": lease.holder, "host": lease.host, "user": lease.user, "pid": lease.pid, "beat": lease.beat}
    entries = ",".join(f"{name}={_ODD.sub('_', str(value))}" for name, value in words.items())
    return objects.userset(_name(lease.number), entries)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
