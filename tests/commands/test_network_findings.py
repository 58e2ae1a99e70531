"""The findings of doctor about the certificate and about addresses at which nobody listens."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from autoscaler.commands._network_findings import certificate_finding, network_findings
from autoscaler.commands.context import Invocation
from autoscaler.sge.checks import Level
from tests.commands.test_commands import environ
from tests.web.test_serve import make_certificate

__all__ = ["environ"]
DAY = 86_400.0


@pytest.mark.parametrize(
    ("days", "level", "message"),
    ((-30, Level.OK, "holds until"), (0, Level.WARN, "expires on"), (2, Level.FAIL, "has expired on")),
)
def test_a_certificate_is_reported_before_and_after_it_expires(
    tmp_path: Path, days: int, level: Level, message: str
) -> None:
    make_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    found = certificate_finding(tmp_path / "cert.pem", time.time() + days * DAY)
    assert (found.level, message in found.found) == (level, True), found


def test_a_file_that_is_not_a_certificate_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    found = certificate_finding(tmp_path / "cert.pem", 0.0)
    assert (found.level, "cannot be read" in found.found) == (Level.FAIL, True)


def test_a_certificate_with_the_wrong_key_is_reported(environ: dict[str, str], tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    files = {"CP_CAP_AUTOSCALE_HTTP_CERT": str(certificate), "CP_CAP_AUTOSCALE_HTTP_KEY": str(key)}
    well = [each.level for each in network_findings(Invocation({**environ, **files}))]
    make_certificate(tmp_path / "other.pem", key, "-newkey", "rsa:2048")
    found = list(network_findings(Invocation({**environ, **files})))
    assert (well, [each.level for each in found]) == ([Level.WARN], [Level.WARN, Level.FAIL])
    assert f"{key} is not the key of that certificate" in found[1].found


def test_a_user_who_may_not_read_the_key_gets_no_finding_about_it(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("autoscaler.commands._network_findings.load_pair", closed)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    files = {"CP_CAP_AUTOSCALE_HTTP_CERT": str(certificate), "CP_CAP_AUTOSCALE_HTTP_KEY": str(key)}
    assert [each.level for each in network_findings(Invocation({**environ, **files}))] == [Level.WARN]


@pytest.mark.parametrize(
    ("booted", "remedy"),
    ((True, "systemctl enable --now sge-autoscaler-serve"), (False, "nohup sge-autoscaler serve >/")),
)
def test_the_remedy_is_one_that_works_here(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, booted: bool, remedy: str
) -> None:
    """A container has no systemd."""
    monkeypatch.setattr("autoscaler.commands._network_findings.BOOTED", tmp_path / ("" if booted else "none"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{other.getsockname()[1]}"}
    (finding,) = network_findings(Invocation({**environ, **at}))
    assert finding.remedy.startswith(remedy)


def test_an_address_at_which_nobody_listens_is_reported_with_its_unit(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{other.getsockname()[1]}"}
        up = list(network_findings(Invocation({**environ, **at})))
    down = list(network_findings(Invocation({**environ, **at})))
    assert [each.level for each in (*up, *down)] == [Level.OK, Level.WARN]
    assert "sge-autoscaler-serve" in down[0].remedy
