"""Who makes a call: at the TCP address whoever proves it by a password, at the Unix socket whom the kernel names."""

from __future__ import annotations

import base64
import binascii
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.api.passwords import Passwords

ON_BEHALF = "X-Asked-By"
"""Root, and whoever runs the service, may say for whom they ask, as `sudo` does."""


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller, for the length of a call."""

    name: str
    by: str
    """The name as it stands in the store and the log."""


def by_password(header: str, passwords: Passwords) -> Principal | None:
    """The user of a Basic `Authorization` header; None: nothing is proven."""
    name, password = _credentials(header)
    return Principal(name, f"{name} (REST)") if name and passwords.right(name, password) else None


def of_process(uid: int, headers: Mapping[str, str]) -> Principal:
    """The user that a local process runs as; what root or our own user says in its place, marked so."""
    try:
        own = pwd.getpwuid(uid).pw_name
    except KeyError:
        own = f"uid {uid}"
    other = headers.get(ON_BEHALF, "")
    may = uid in (0, os.geteuid()) and other.isprintable() and len(other) <= 64
    by = f"{other} (as {own})" if other and other != own and may else own
    return Principal(own, by)


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    return name, password
