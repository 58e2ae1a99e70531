"""How a caller reaches an autoscaler elsewhere: the address, and files that prove who the caller is. Imports next to
nothing.

Messages about wrong values do not show what may be secret: a token may stand where a path or an address is expected.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_text

URL_ENV = "CP_CAP_AUTOSCALE_URL"
LOGIN_ENV = "CP_CAP_AUTOSCALE_LOGIN"
"""A file whose first line is `USER:PASSWORD`."""
PLAIN_ENV = "CP_CAP_AUTOSCALE_HTTP_PLAIN"
TRUE = ("true", "yes", "on", "1")
_NOT_SHOWN = "(not shown: it may be a secret)"


class Address(NamedTuple):
    """An address in its parts. `port`: None for the scheme's own."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def named(self) -> str:
        """As it is written in `Host`."""
        name = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode("ascii")
        return name if self.port is None else f"{name}:{self.port}"


def caller_address(url: str, *, plain: bool) -> Address:
    """The parts of an address. Raises SettingsError for text that is no address, and for an address to which the
    caller's proof would go through a network unencrypted, unless `plain` allows that.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        named = parts.username is not None or bool(parts.query or parts.fragment)
        (host or "").encode("idna")  # raises for a name that no DNS can have
    except ValueError:  # a port that is no number, half an IPv6 address
        raise SettingsError(f"{URL_ENV} {_NOT_SHOWN} is not an address: write https://HOST:PORT") from None
    if named:
        raise SettingsError(
            f"{URL_ENV} must not contain a name and password, nor a query: put USER:PASSWORD into a file, and set "
            f"{LOGIN_ENV}"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError(f"{URL_ENV} {_NOT_SHOWN} is not an address: write https://HOST:PORT")
    if parts.scheme == "http" and not plain and not on_loopback(host):
        raise SettingsError(
            f"{URL_ENV}: credentials would go to {host} in the clear: write https://, or set {PLAIN_ENV}=true"
        )
    return Address(parts.scheme, host, port, parts.path.rstrip("/"))


def on_loopback(host: str) -> bool:
    """Whether only this machine can reach it, as far as the address shows."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_exposed_file(name: str, file: str, *, private: bool = False) -> None:
    """The same check as for every file that a decision depends on. Raises SettingsError with the command that corrects
    it.
    """
    from autoscaler.strict_modes import exposure

    if (found := exposure(Path(file), private=private)) is not None:
        raise SettingsError(f"{name}: {file} is not used, since others could change or read it: {found}")


def first_line(name: str, file: str, *, private: bool = False) -> str:
    """The first line of the file that a setting names. `private`: nobody else must be able to read it. Raises
    SettingsError.
    """
    try:
        line = read_text(Path(file)).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise SettingsError(f"{name}: cannot read {_shown(file)}: {why}") from error
    refuse_exposed_file(name, file, private=private)
    if not line or not line.isprintable():
        raise SettingsError(f"{name}: the first line of {file} contains no credentials")
    return line


def _shown(file: str) -> str:
    """The path, unless the text may be a secret written in place of a path."""
    try:
        known = file.startswith("/") and Path(file).parent.is_dir()
    except (OSError, ValueError):
        known = False
    return file if known else f"the file that it names {_NOT_SHOWN}; give the path of a file that holds it"
