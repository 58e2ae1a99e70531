"""Whose process answers at a port of this machine. While a service restarts, any user may listen at its port, and
would receive the credentials that the next caller sends.

The kernel says who listens, and who has accepted a connection (`/proc/net/tcp`). Only needed for plain HTTP: a
certificate proves more.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OF_SERVICES = Path("/run/sge-autoscaler")
"""The folder of the services' sockets, which belongs to whom they run as."""
FIRST_OF_PEOPLE = 1000
"""The first uid of a person's account; those below are root's to give."""
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED, _LISTEN = "01", "0A"
_At = tuple[bytes, int]


class _Entry(NamedTuple):
    own: _At
    other: _At
    state: str
    uid: int
    inode: int


class JudgedConnection(http.client.HTTPConnection):
    """Nothing is sent to another person's process on this machine."""

    def connect(self) -> None:
        super().connect()
        try:
            refuse_stranger(self.sock)
        except BaseException:
            self.close()
            raise


def refuse_stranger(connected: socket.socket) -> None:
    """Raise ConnectionAbortedError if a connection stays within this machine and the process at its other end is
    another person's. What cannot be read is not refused: then the machine shows nobody's ports.
    """
    here, there = _at(connected.getsockname()), _at(connected.getpeername())
    if here[0] != there[0] and not ipaddress.ip_address(there[0]).is_loopback:
        return
    entries = list(_entries())
    accepted = [each for each in entries if each.own == there and each.other == here and each.state == _ESTABLISHED]
    listening = [each for each in entries if each.state == _LISTEN and each.own[1] == there[1] and _covers(each, there)]
    for each in (*accepted, *listening):
        if each.inode and _is_stranger(each.uid):
            raise ConnectionAbortedError(
                f"a process of uid {each.uid} listens at port {there[1]} of this machine; credentials are sent only to "
                f"root, to you, to system accounts and to the owner of {OF_SERVICES}"
            )


def _is_stranger(uid: int) -> bool:
    if uid in (0, os.geteuid()) or uid < FIRST_OF_PEOPLE:
        return False
    try:
        return OF_SERVICES.lstat().st_uid != uid
    except OSError:
        return True


def _covers(entry: _Entry, at: _At) -> bool:
    """Whether a listener takes connections to this address: it is bound to it, or to all."""
    return entry.own[0] == at[0] or not any(entry.own[0])


def _at(name: tuple[str, int]) -> _At:
    return _plain(ipaddress.ip_address(name[0].partition("%")[0]).packed), name[1]


def _plain(packed: bytes) -> bytes:
    """An IPv4 address that is written as one of IPv6 (`::ffff:127.0.0.1`) is the IPv4 address."""
    mapped = packed.startswith(bytes(10) + b"\xff\xff") and len(packed) == 16
    return packed[12:] if mapped else packed


def _entries() -> Iterator[_Entry]:
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            try:
                yield _Entry(_read(words[1]), _read(words[2]), words[3], int(words[7]), int(words[9]))
            except (IndexError, ValueError):
                continue


def _read(text: str) -> _At:
    """`0100007F:1F90`: words of four bytes in the machine's order."""
    address, _, port = text.partition(":")
    packed = bytes.fromhex(address)
    if sys.byteorder == "little":
        packed = b"".join(packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
    return _plain(packed), int(port, 16)
