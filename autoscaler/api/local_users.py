"""Which person a local process belongs to: a user may run processes under uids of their own (`/etc/subuid`), with which
each would otherwise have the places of tens of thousands of users.
"""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from pathlib import Path

SUBORDINATE = Path("/etc/subuid")


@dataclass(frozen=True, slots=True)
class _Range:
    owner: int
    first: int
    count: int


class People:
    """Owners of subordinate uids, as the file has them now. Ranges that only a name service knows are not seen."""

    def __init__(self, file: Path = SUBORDINATE) -> None:
        self._file = file
        self._read: tuple[int, int] | None = None
        self._ranges: tuple[_Range, ...] = ()

    def person_of(self, uid: int) -> int:
        """The uid of the user whose subordinate uid this is; else the uid itself."""
        try:
            found = self._file.stat()
            seen = found.st_mtime_ns, found.st_size
            if seen != self._read:
                lines = self._file.read_text(errors="replace").splitlines()
                self._ranges, self._read = tuple(each for line in lines if (each := _range(line))), seen
        except OSError:
            self._ranges, self._read = (), None
        return next((each.owner for each in self._ranges if each.first <= uid < each.first + each.count), uid)


def _range(line: str) -> _Range | None:
    """`ann:100000:65536`, or with a uid in place of the name."""
    owner, _, numbers = line.partition(":")
    first, _, count = numbers.partition(":")
    if not (first.isdecimal() and count.isdecimal()):
        return None
    try:
        return _Range(int(owner) if owner.isdecimal() else pwd.getpwnam(owner).pw_uid, int(first), int(count))
    except KeyError:
        return None


_PEOPLE = People()


def person_of(uid: int) -> int:
    return _PEOPLE.person_of(uid)
