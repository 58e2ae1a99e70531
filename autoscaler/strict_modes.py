"""Whether others could change a file that the autoscaler relies on, as sshd's StrictModes has it.

A file is exposed if somebody else than root and our own user owns it, may write it, or may put another in its place:
through any directory on the way to it, or to the target of a link on the way. In a directory with the sticky bit (/tmp)
nobody can remove another user's file, so such a directory exposes nothing of ours.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import SettingsError

GROUP_ENV = "CP_CAP_AUTOSCALE_TRUSTED_GROUP"
_MOST_LINKS = 40
"""As many as the kernel follows."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The wrong mode or owner of one file or directory, and the command that corrects it."""

    path: Path
    how: str
    remedy: str
    of_group: bool = False
    """Whether a group may write that a setting could allow."""

    def __str__(self) -> str:
        besides = f" (or name the group in {GROUP_ENV})" if self.of_group else ""
        return f"{self.path} {self.how}: {self.remedy}{besides}"


def exposure(
    path: Path, *, group: str | None = None, private: bool = False, user: str | None = None
) -> Exposure | None:
    """The first thing on the way to this file, the file included, that others could use; None: nothing. Files that are
    missing, or cannot be read, are not reported.

    `group`: its members may write, too. `private`: others must not be able to read the file either. `user`: may own it,
    too, if that user exists. Raises SettingsError if the group does not exist.
    """
    allowed, owners = gid_of(group, GROUP_ENV), {0, os.geteuid(), *_uid(user)}
    *directories, last = _chain(path.absolute())
    for directory in directories:
        if (found := _judged(directory, allowed, owners)) is not None:
            return found
    return _judged(last, allowed, owners, private=private)


def refuse_exposed(what: str, path: Path, *, group: str | None = None, private: bool = False) -> None:
    """Raise SettingsError, which names the command that corrects it, if others could change (or read) this file."""
    if (found := exposure(path, group=group, private=private)) is not None:
        raise SettingsError(f"{what} {path} is not used, since others could change or read it: {found}")


def ours(path: Path) -> bool:
    """Whether it exists and belongs to our own user."""
    return owner(path) == os.geteuid()


def owner(path: Path) -> int | None:
    """Its owner; None if it does not exist, or may not be read."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def owner_name(path: Path) -> str | None:
    """The owner's name."""
    uid = owner(path)
    return None if uid is None else user_name(uid)


def gid_of(group: str | None, setting: str) -> int | None:
    """The id of the group that this setting names. Raises SettingsError."""
    try:
        return None if group is None else grp.getgrnam(group).gr_gid
    except KeyError:
        raise SettingsError(f"{setting}: there is no group {group!r}: name one that `getent group` knows") from None


def _uid(user: str | None) -> Iterator[int]:
    with contextlib.suppress(KeyError):
        if user is not None:
            yield pwd.getpwnam(user).pw_uid


def _chain(path: Path) -> list[Path]:
    """Every directory on the way, of links as well, from the root; the file itself, without links, is the last."""
    found: dict[Path, None] = {}
    left = _MOST_LINKS

    def walk(here: Path) -> Path:
        nonlocal left
        place = Path(here.anchor)
        found.setdefault(place)
        for part in here.parts[1:]:
            place = place.parent if part == ".." else place / part
            while place.is_symlink() and left > 0:
                left -= 1
                found.setdefault(place)  # a link's owner can lead it elsewhere
                place = walk(place.parent / place.readlink())
            found.setdefault(place)
        return place

    last = walk(path)
    found.pop(last, None)
    return [*found, last]


def _judged(path: Path, allowed: int | None, owners: Collection[int], *, private: bool = False) -> Exposure | None:
    try:
        seen = path.lstat()
    except OSError:
        return None
    quoted, mode = shlex.quote(str(path)), seen.st_mode
    if seen.st_uid not in owners:
        chown = "chown -h" if stat.S_ISLNK(mode) else "chown"
        return Exposure(path, f"belongs to {user_name(seen.st_uid)}", f"{chown} {user_name(os.geteuid())} {quoted}")
    # A link's mode is always 0777 and means nothing.
    if stat.S_ISLNK(mode) or stat.S_ISSOCK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None  # writing to a socket means asking its server
    if private and mode & (stat.S_IRWXO & ~stat.S_IXOTH):
        return Exposure(path, "may be read by everybody", f"chmod o= {quoted}")
    if mode & stat.S_IWOTH:
        return Exposure(path, "may be written by everybody", f"chmod o-w {quoted}")
    if mode & stat.S_IWGRP and seen.st_gid != allowed:
        return Exposure(path, f"may be written by group {_group(seen.st_gid)}", f"chmod g-w {quoted}", of_group=True)
    return None


def user_name(uid: int) -> str:
    """A user's name; of an unknown user the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
