"""What doctor finds of what other machines reach: whether somebody listens, and until when the certificate holds."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from autoscaler.commands._http import unserved
from autoscaler.commands.context import Invocation
from autoscaler.errors import AutoscalerError
from autoscaler.process import SystemRunner
from sge.checks import Finding, Level

SOON = 14 * 86_400.0
"""Seconds before its end from which a certificate is warned of."""
TIMEOUT = 10.0
_SHOW_END = ("openssl", "x509", "-noout", "-enddate", "-in")


def network_findings(invocation: Invocation) -> Iterator[Finding]:
    """Nothing where the settings have no address; what is wrong with the settings, others say."""
    try:
        process = invocation.settings.process
        unserved_addresses = tuple(unserved(invocation))
    except AutoscalerError:
        return
    for each in unserved_addresses:
        yield Finding("listeners", Level.WARN, each, "systemctl enable --now sge-autoscaler-serve")
    if not unserved_addresses and (process.http or process.auto_stop):
        yield Finding("listeners", Level.OK, "somebody listens at each address of the settings")
    if process.http_certificate is not None:
        yield certificate_finding(process.http_certificate, time.time())


def certificate_finding(path: Path, now: float) -> Finding:
    """How long this certificate (the first of the file) still holds."""
    remedy = "put a new certificate there: the server uses it within a minute"
    try:
        shown = SystemRunner()((*_SHOW_END, str(path)), timeout=TIMEOUT)
        until = ssl.cert_time_to_seconds(shown.stdout.decode("ascii", "replace").strip().partition("=")[2])
    except AutoscalerError as error:
        return Finding("certificate", Level.WARN, f"how long {path} holds is not known: {error}", "install openssl")
    except ValueError:
        said = shown.stderr.decode("utf-8", "replace").strip().splitlines()
        return Finding("certificate", Level.FAIL, f"{path} cannot be read: {(said or ['it is none'])[0]}", remedy)
    day = time.strftime("%Y-%m-%d", time.gmtime(until))
    if until <= now:
        return Finding("certificate", Level.FAIL, f"{path} has expired on {day}: every client refuses it", remedy)
    if until - now < SOON:
        return Finding("certificate", Level.WARN, f"{path} expires on {day}", remedy)
    return Finding("certificate", Level.OK, f"{path} holds until {day}")
