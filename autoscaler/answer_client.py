"""Asks a running autoscaler over HTTP, on its Unix socket or at an address. Imports next to nothing: a command that
only shows an answer must not start slowly.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.caller_address import LOGIN_ENV as LOGIN_ENV
from autoscaler.caller_address import PLAIN_ENV, TRUE, Address, caller_address, first_line, refuse_exposed_file
from autoscaler.caller_address import URL_ENV as URL_ENV
from autoscaler.errors import AutoscalerError, NotFound, SettingsError
from autoscaler.outside_files import LARGEST_TEXT, read_regular, read_text
from autoscaler.unix_connection import connect

if TYPE_CHECKING:
    import http.client

SOCKET_ENV = "CP_CAP_AUTOSCALE_SOCKET"
TOKEN_ENV = "CP_CAP_AUTOSCALE_TOKEN_FILE"
CA_ENV = "CP_CAP_AUTOSCALE_CA_FILE"
OF_ROOT = Path("/run/sge-autoscaler")
"""Where root's services listen, one socket a cell."""
CLIENT_FILE = Path("/etc/sge-autoscaler/client")
"""Settings for the users of a submit host: lines NAME=VALUE of the names below."""
MUNGE_ENV = "CP_CAP_AUTOSCALE_MUNGE"
_OF_CALLERS = (URL_ENV, TOKEN_ENV, LOGIN_ENV, MUNGE_ENV, CA_ENV, PLAIN_ENV)
VERSION = 1
"""Version of the answers' documents."""
PREFIX = f"/answers/v{VERSION}"
OVERRIDES_VERSION = 1
OVERRIDES = f"/overrides/v{OVERRIDES_VERSION}"
"""Where operators send commands to the autoscaler."""
ROLE = "X-Asked-Role"
"""The role of the user for whom a server passes a question on. It never gives more rights than the server has."""
OF_CELL = "user"
"""A user of the cell: the service that answers knows whether they are a manager."""
SOURCE = "X-Asked-From"
"""The address that the user called from."""
UNKNOWN_NAME = "the query has no "
"""Begins the refusal of a query with a name that the question does not have."""
TIMEOUT = 30.0
LONG_TIMEOUT = 300.0
"""For `cost`: a million jobs take many seconds, and more on a busy machine."""
PATIENCE = 2.0
"""Seconds without an answer after which a service on this machine counts as hung if it used no processor time."""
_MOST_HEAD = 1 << 16
TRIES = 6
"""How often a call is made at most."""
_COME_AGAIN = 503, "1"
"""Status and `Retry-After` of a service that has no place for a call."""
_PAUSE = 0.5
"""Seconds between two tries, a little more or less."""


class Unanswered(AutoscalerError):
    """Nobody answered; the message says which service was asked, and what to do."""

    exit_code = 4


class Refused(AutoscalerError):
    """The caller is not known, or may not know the answer."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where to ask: a socket, else an address."""

    path: str = ""
    url: str = ""
    token_file: str = ""
    login_file: str = ""
    munge: str = ""
    """The socket of MUNGE's daemon, which proves who the caller is."""
    ca_file: str = ""
    plain: bool = False
    """Whether an address that other machines reach may be called without TLS."""

    @property
    def name(self) -> str:
        return f"the autoscaler at {self.path or self.url}"


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """The service's answer, unchanged."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def remote(environ: Mapping[str, str], file: Path = CLIENT_FILE) -> ServiceAddress | None:
    """The address that the environment or the site's file names; None: none does. Raises SettingsError."""
    named = {name: value for name in _OF_CALLERS if (value := environ.get(name))}
    given = {**_read_file(file), **named}
    url = given.get(URL_ENV, "")
    if not url:
        return None
    plain = given.get(PLAIN_ENV, "").lower() in TRUE
    token, login, munge = (given.get(name, "") for name in (TOKEN_ENV, LOGIN_ENV, MUNGE_ENV))
    return ServiceAddress("", url, token, login, munge, given.get(CA_ENV, ""), plain)


def ask(place: ServiceAddress, question: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An answer's document. Raises Unanswered, Refused, NotFound, SettingsError."""
    return _document(place, send(place, f"{PREFIX}/{question}", headers or {}), "answers", VERSION)


def standing(place: ServiceAddress) -> dict[str, Any]:
    """Whether the caller may give this autoscaler commands, and why some cannot be carried out at once. Raises as
    `ask`.
    """
    return _document(place, send(place, OVERRIDES, {}), "overrides", OVERRIDES_VERSION)


def override(place: ServiceAddress, verb: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Give a command, and return its result. Raises as `ask`."""
    reply = send(place, target(f"{OVERRIDES}/{verb}", query), {}, method="POST")
    return _document(place, reply, "overrides", OVERRIDES_VERSION)


def _document(place: ServiceAddress, reply: ServiceReply, kind: str, version: int) -> dict[str, Any]:
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        document = None
    if reply.status == 200 and isinstance(document, dict) and document.get(kind) == version:
        return document
    error = document.get("error") if isinstance(document, dict) else reply.body.decode("utf-8", "replace").strip()
    text = f"{error}" if error else f"status {reply.status}"
    match reply.status:
        case 404 if kind in reply.headers.get("x-answers", ""):
            raise NotFound(text)
        case 404:
            raise Unanswered(f"{place.name} does not answer such calls: is it an older version?")
        case 401:
            raise Refused(f"{place.name} refuses {_proof(place)}: {text}")
        case 400:
            raise SettingsError(text)
        case 403:
            raise Refused(text)
        case _:
            raise Unanswered(f"{place.name} cannot answer now: {text}")


def target(question: str, query: Mapping[str, str]) -> str:
    """A question with its query."""
    from urllib.parse import urlencode

    return f"{question}?{urlencode(query)}" if query else question


def send(place: ServiceAddress, target: str, headers: Mapping[str, str], method: str = "GET") -> ServiceReply:
    """One call without a body. If the service has no place for it now, and so asks to come again soon, it is made again
    a few times: it was not carried out then. Raises Unanswered, SettingsError.
    """
    once = _at_socket if place.path else _at_address
    reply = once(place, target, headers, method)
    for _ in range(TRIES - 1):
        if (reply.status, reply.headers.get("retry-after")) != _COME_AGAIN:
            break
        time.sleep(_PAUSE * (0.5 + random.random()))
        reply = once(place, target, headers, method)
    return reply


def _at_socket(place: ServiceAddress, target: str, headers: Mapping[str, str], method: str) -> ServiceReply:
    # To HTTP/1.0 a server answers without chunks, and closes the connection at the end.
    lines = [f"{method} {target} HTTP/1.0", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    with closing(socket.socket(socket.AF_UNIX)) as made:
        try:
            connect(made, place.path, PATIENCE)
            made.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
            await_answer(made, _timeout(target))
            received = bytearray()
            while part := made.recv(1 << 16):
                received += part
        except PermissionError as error:
            raise Unanswered(f"{place.path} is closed to you: ask root, or the user who runs the autoscaler") from error
        except TimeoutError as error:
            raise Unanswered(f"{place.name} does not answer: it hangs, or was stopped") from error
        except OSError as error:
            raise Unanswered(f"{place.name} does not answer: {error.strerror or error}") from error
    return _read(place, bytes(received))


def _timeout(target: str) -> float:
    """Seconds that the caller waits for an answer to begin; `target` is a path with its query."""
    return LONG_TIMEOUT if target.startswith(f"{PREFIX}/cost") else TIMEOUT


def await_answer(made: socket.socket, timeout: float = TIMEOUT) -> None:
    """Wait until the answer on a Unix socket begins. Raises TimeoutError after `timeout` seconds, and sooner if the
    service does nothing at all: the kernel accepts connections even for a stopped process (SIGSTOP). On a busy machine
    a service that works may take long.
    """
    made.settimeout(PATIENCE)
    # `struct ucred` begins with the process: of a listener, the one that called listen(2).
    pid = int.from_bytes(made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)
    worked = _worked(pid)
    for _ in range(int(timeout / PATIENCE)):
        try:
            made.recv(1, socket.MSG_PEEK)
            made.settimeout(TIMEOUT)
            return
        except TimeoutError:
            before, worked = worked, _worked(pid)
            if worked == before:
                raise
    raise TimeoutError


def _worked(pid: int) -> tuple[str, ...]:
    """The processor time that a process has used; () if it cannot be read."""
    try:
        # utime and stime, counted behind the name in brackets, which may contain spaces (proc(5)).
        return tuple(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[11:13])
    except OSError:
        return ()


def _read(place: ServiceAddress, received: bytes) -> ServiceReply:
    head, end, body = received.partition(b"\r\n\r\n")
    first, *lines = head[:_MOST_HEAD].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not end or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise Unanswered(f"{place.name} ended before it had answered")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("content-length", str(len(body))) != str(len(body)):
        raise Unanswered(f"{place.name} ended in the middle of its answer")
    return ServiceReply(int(words[1]), body, headers)


def _at_address(place: ServiceAddress, target: str, headers: Mapping[str, str], method: str) -> ServiceReply:
    import http.client
    import ssl

    address = caller_address(place.url, plain=place.plain)
    timeout, target = _timeout(target), address.path + target
    sent = {**headers, "Host": address.named, **_authorization(place, method, target, address.named)}
    with closing(connection_to(address, place.ca_file, timeout)) as connection:
        try:
            connection.request(method, target, headers=sent)
            answer = connection.getresponse()
            return ServiceReply(
                answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
            )
        except ssl.SSLCertVerificationError as error:
            raise Unanswered(not_trusted(place.url, error.verify_message)) from error
        except ConnectionRefusedError as error:
            raise Unanswered(f"{place.url} refuses the connection: nobody listens there") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(f"{place.url} cannot be reached: {error}") from error


def connection_to(address: Address, ca_file: str, timeout: float = TIMEOUT) -> http.client.HTTPConnection:
    """Not connected yet. `ca_file`: certificate of the authority that signed the server's; '': the authorities that
    this machine trusts. Raises SettingsError.
    """
    import http.client
    import ssl

    if ca_file:
        refuse_exposed_file(CA_ENV, ca_file)
    if address.scheme == "http":
        from autoscaler.port_owner import JudgedConnection

        return JudgedConnection(address.host, address.port, timeout=timeout)
    try:
        if ca_file:
            read_regular(Path(ca_file), LARGEST_TEXT)  # OpenSSL would wait for a writer if it is a pipe
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise SettingsError(f"{CA_ENV}: {ca_file} cannot be used: {error}") from error
    return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=context)


def not_trusted(url: str, why: str) -> str:
    """The message for a caller of an address whose certificate is not trusted."""
    if "mismatch" in why:  # OpenSSL: it trusts the authority that signed it
        return (
            f"the certificate of {url} is for another name ({why.rstrip('.')}): write a name that it has into {URL_ENV}"
        )
    return (
        f"the certificate of {url} is not trusted ({why}): set {CA_ENV} to a file with the certificate of the "
        f"authority that signed it"
    )


def token_of(file: str) -> str:
    """The token that a file holds. Raises SettingsError."""
    from autoscaler.strict_modes import ours

    own = ours(Path(file)) and os.geteuid() != 0  # root's file is the site's, for all who may look
    line = first_line(TOKEN_ENV, file, private=own)
    if not line.isascii():
        raise SettingsError(f"{TOKEN_ENV}: the first line of {file} is not a token")
    return line


def _authorization(place: ServiceAddress, method: str, target: str, host: str) -> dict[str, str]:
    """Read from files, or made for this call only: other users see a command's arguments and environment."""
    if place.token_file:
        return {"Authorization": f"Bearer {token_of(place.token_file)}"}
    if place.login_file:
        from base64 import b64encode

        line = first_line(LOGIN_ENV, place.login_file, private=True)
        return {"Authorization": f"Basic {b64encode(line.encode()).decode()}"}
    if place.munge:
        from autoscaler.munge import Call, credential

        return {"Authorization": f"MUNGE {credential(place.munge, Call(method, target, host))}"}
    return {}


def _proof(place: ServiceAddress) -> str:
    if place.token_file:
        return f"the token in {place.token_file}"
    if place.login_file:
        return f"the user and password in {place.login_file}"
    if place.munge:
        return "the user that MUNGE reports"
    return f"a caller without credentials ({TOKEN_ENV} names the file of a token)"


def _read_file(file: Path) -> dict[str, str]:
    try:
        lines = read_text(file).splitlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    refuse_exposed_file("the site's address", str(file))
    given = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or name.strip() not in _OF_CALLERS:
            shown = repr(name) if equals and name.startswith("CP_CAP_") else "the name there"
            raise SettingsError(f"{file}, line {number}: {shown} is none of {', '.join(_OF_CALLERS)}")
        given[name.strip()] = value.strip().strip("\"'")
    return given


def named_by(environ: Mapping[str, str]) -> bool:
    """Whether the environment itself names the service to ask, so that no other one is asked."""
    return bool(environ.get(URL_ENV))
