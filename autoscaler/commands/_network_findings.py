"""Findings of doctor about network listeners: whether a process listens, and until when the certificate is valid."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from autoscaler.api.certificate import load_pair
from autoscaler.commands._http import unserved
from autoscaler.commands.context import Invocation
from autoscaler.errors import AutoscalerError
from autoscaler.process import SystemRunner
from autoscaler.sge.checks import Finding, Level

SOON = 14 * 86_400.0
"""Seconds before the end of a certificate from which doctor warns."""
TIMEOUT = 10.0
BOOTED = Path("/run/systemd/system")
"""There where systemd runs (sd_booted(3)), and not in a container."""
START = "systemctl enable --now sge-autoscaler-serve"
START_WITHOUT_SYSTEMD = "nohup sge-autoscaler serve >/var/log/sge-autoscaler-serve.log 2>&1 &"
_RENEW = "put a new certificate and its key there: the server uses them within a minute"
_SHOW_END = ("openssl", "x509", "-noout", "-enddate", "-in")


def network_findings(invocation: Invocation) -> Iterator[Finding]:
    """None without an address in the settings. Other findings report errors in the settings."""
    try:
        process = invocation.settings.process
        unserved_addresses = tuple(unserved(invocation))
    except AutoscalerError:
        return
    for each in unserved_addresses:
        yield Finding("listeners", Level.WARN, each, START if BOOTED.is_dir() else START_WITHOUT_SYSTEMD)
    if not unserved_addresses and (process.http or process.auto_stop):
        yield Finding("listeners", Level.OK, "somebody listens at each address of the settings")
    if process.http_certificate is not None:
        yield certificate_finding(process.http_certificate, time.time())
        if process.http_key is not None:
            yield from _pair_finding(process.http_certificate, process.http_key)


def _pair_finding(certificate: Path, key: Path) -> Iterator[Finding]:
    """Whether both files belong together: after a half-finished renewal, the next start of the server would fail."""
    try:
        load_pair(certificate, key)
    except PermissionError:
        return  # this user may not read the key
    except OSError as error:
        yield Finding("certificate", Level.FAIL, f"{certificate} and {key} cannot be used: {error}", _RENEW)


def certificate_finding(path: Path, now: float) -> Finding:
    """Until when this certificate (the first of the file) is valid."""
    remedy = _RENEW
    try:
        shown = SystemRunner()((*_SHOW_END, str(path)), timeout=TIMEOUT)
        until = ssl.cert_time_to_seconds(shown.stdout.decode("ascii", "replace").strip().partition("=")[2])
    except AutoscalerError as error:
        return Finding("certificate", Level.WARN, f"how long {path} holds is not known: {error}", "install openssl")
    except ValueError:
        error_lines = shown.stderr.decode("utf-8", "replace").strip().splitlines()
        return Finding(
            "certificate", Level.FAIL, f"{path} cannot be read: {(error_lines or ['it is none'])[0]}", remedy
        )
    day = time.strftime("%Y-%m-%d", time.gmtime(until))
    if until <= now:
        return Finding("certificate", Level.FAIL, f"{path} has expired on {day}: every client refuses it", remedy)
    if until - now < SOON:
        return Finding("certificate", Level.WARN, f"{path} expires on {day}", remedy)
    return Finding("certificate", Level.OK, f"{path} holds until {day}")
