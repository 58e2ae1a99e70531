"""MUNGE (munge(7)): which user of which machine makes a call, as a daemon says that shares a key with this machine's.

A credential is made for one call: a reader on the way can make no other call with it, and the daemon decodes it once.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import AutoscalerError, CommandError, SettingsError
from autoscaler.process import Completed, Runner, SystemRunner

SETTING = "CP_CAP_AUTOSCALE_MUNGE"
MOST_AGE = 60
"""Seconds for which a credential holds. The clocks of both machines must agree as well."""
TIMEOUT = 5.0
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]{1,4096}:")
_OF_CREDENTIALS = 8
"""Exit status of `unmunge` from which on the credential is wrong, not the daemon (munge(3))."""
_WHY = {15: "has expired", 16: "is of the future", 17: "was used before", 18: "is for somebody else"}
_FIELDS = "ENCODE_TIME,DECODE_TIME,UID"


class Unproven(AutoscalerError):
    """The credential proves nothing; the message says why."""


class Undecided(AutoscalerError):
    """The daemon cannot be asked now."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call that a credential is made for."""

    method: str
    target: str
    """Path and query, as sent."""
    host: str
    """As in `Host`."""

    @property
    def digest(self) -> bytes:
        """The payload of the credential."""
        output = "\n".join(("sge-autoscaler 1", self.method, self.target, self.host.lower()))
        return hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest().encode()

    def meant_for(self, address: str) -> bool:
        """Whether the caller meant the machine of this address. Every machine is localhost to itself, and an address
        may be somebody else's: a server there could pass the call on to us as its own. A name is judged elsewhere.
        """
        name = self.host.rpartition("]")[0].removeprefix("[") or self.host.partition(":")[0]
        try:
            here = ipaddress.ip_address(address)
            here = getattr(here, "ipv4_mapped", None) or here
            return here.is_loopback if name.lower() == "localhost" else ipaddress.ip_address(name) == here
        except ValueError:
            return True


def credential(socket: str, call: Call, runner: Runner | None = None) -> str:
    """A credential of this process's user for this call. Raises SettingsError if MUNGE gives none."""
    try:
        argv = ("munge", f"--socket={socket}", f"--ttl={MOST_AGE}")
        done = (runner or SystemRunner())(argv, stdin=call.digest, timeout=TIMEOUT)
    except CommandError as error:
        raise SettingsError(f"{SETTING}: {error}") from error
    output = done.stdout.decode("ascii", "replace").strip()
    if done.returncode != 0 or not _CREDENTIAL.fullmatch(output):
        raise SettingsError(f"{SETTING}: MUNGE gives no credential: {_last_line(done)}")
    return output


def uid_of(runner: Runner, socket: Path, given: str, call: Call) -> int:
    """The user that made this credential, for this call and just now. Raises Unproven, Undecided."""
    if not _CREDENTIAL.fullmatch(given):
        raise Unproven("this is no credential of MUNGE")
    try:
        argv = ("unmunge", f"--socket={socket}", "--numeric", f"--keys={_FIELDS}")
        done = runner(argv, stdin=given.encode("ascii"), timeout=TIMEOUT)
    except CommandError as error:
        raise Undecided(str(error)) from error
    if done.returncode >= _OF_CREDENTIALS:
        raise Unproven(f"this credential {_WHY.get(done.returncode, 'is none of this site')}")
    if done.returncode != 0:
        raise Undecided(_last_line(done))
    head, _, payload = done.stdout.partition(b"\n\n")
    made, now, uid = _numbers(head.decode("ascii", "replace").splitlines())
    if abs(now - made) > MOST_AGE:  # its maker chooses for how long it holds
        raise Unproven("this credential has expired: do the clocks of both machines agree?")
    if not hmac.compare_digest(payload, call.digest):
        raise Unproven("this credential is for another call")
    return uid


def refuse_missing() -> None:
    """Raise SettingsError if no program can decode credentials."""
    if shutil.which("unmunge") is None:
        raise SettingsError(f"{SETTING} is set, and MUNGE is not installed here: install it (munge), or unset it")


def _numbers(lines: Sequence[str]) -> tuple[int, int, int]:
    fields = dict(line.partition(":")[::2] for line in lines)
    try:
        made, now, uid = (int(fields[name].strip()) for name in _FIELDS.split(","))
    except (KeyError, ValueError) as error:
        raise Undecided("unmunge printed unexpected output") from error
    return made, now, uid


def _last_line(done: Completed) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"{done.argv[0]} ended with status {done.returncode}"
