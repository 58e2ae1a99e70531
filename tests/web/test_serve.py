"""`sge-autoscaler serve` as a process: passwords, TLS, its warning without a loop, and what survives its death."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
import requests

from autoscaler.api.passwords import Passwords, set_password
from autoscaler.commands.serve import without_credentials
from autoscaler.garbage import OF_CALLS
from autoscaler.store.store import Store
from tests.cell_files import cell_files
from tests.samples import sample, thorough
from tests.web.served import PASSWORD, USER, Client, free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A cell's files without any Grid Engine, and one user who may call."""
    set_password(tmp_path / "state" / "http-passwords", USER, PASSWORD)
    return {
        **os.environ,
        **cell_files(tmp_path / "root", "localhost"),
        "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"),
        "CP_CAP_AUTOSCALE_PROVIDER": "fake",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        "CP_CAP_AUTOSCALE_WORKERS": "50",
        "CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:0",
    }


def run(environment: Mapping[str, str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "autoscaler.commands.main", *words)
    return subprocess.run(argv, env=environment, input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=120)


HOLDING = """
import os, sys
fd = int(sys.argv[1])
os.dup2(fd, 3) if fd != 3 else os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "autoscaler.commands.main", "serve"])
"""


def test_a_port_that_a_socket_unit_holds_is_never_free(environment: dict[str, str]) -> None:
    """Also after the death of the service, which is started as systemd does."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=False) as held:
        port = held.getsockname()[1]
        argv = (sys.executable, "-c", HOLDING, str(held.fileno()))
        at = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{port}"}
        for _ in range(2):
            with subprocess.Popen(
                argv,
                env={**environment, **at},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
                pass_fds=(held.fileno(),),
            ) as process:
                assert process.stdout is not None
                try:
                    assert process.stdout.readline().startswith(f"REST API at http://127.0.0.1:{port}/")
                    answer = requests.get(
                        f"http://127.0.0.1:{port}/clusters/x/status", auth=(USER, PASSWORD), timeout=60
                    )
                    assert answer.status_code == 404
                finally:
                    process.kill()
            with socket.socket() as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    stranger.bind(("127.0.0.1", port))


@contextmanager
def serving(
    environment: Mapping[str, str], more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """`serve` in a process beside the test, and a client of it; killed at the end."""
    argv = (sys.executable, "-m", "autoscaler.commands.main", "serve")
    with subprocess.Popen(
        argv, env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            output = process.stdout.readline()
            assert output.startswith("REST API at "), output
            url, _, cluster = output.removeprefix("REST API at ").strip().partition("/clusters/")
            yield process, Client(url, cluster)
        finally:
            process.kill()


def nodes_of(environment: Mapping[str, str]) -> list[str]:
    (file,) = Path(environment["CP_CAP_AUTOSCALE_WORKDIR"]).glob("*.sqlite")
    store = Store.open(file)
    try:
        return [node.name for node in store.nodes.live()]
    finally:
        store.close()


@pytest.mark.thorough
def test_serve_alone_stores_and_warns_that_no_loop_runs(environment: dict[str, str]) -> None:
    with serving(environment) as (process, client):
        answer = client.create(2)
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    assert (answer.json()["sets"], "only stored" in answer.headers["Warning"]) == ([{"added": 2}], True)
    assert (client.cluster, nodes_of(environment)) == ("default", ["execute-1", "execute-2"])


def test_serve_passwd_adds_a_user_and_stores_no_password(environment: dict[str, str]) -> None:
    done = run(environment, "serve", "passwd", "ben", stdin="s3cret\n")
    file = Path(environment["CP_CAP_AUTOSCALE_WORKDIR"]) / "http-passwords"
    assert (done.stdout, Passwords(file).right("ben", "s3cret"), "s3cret" in file.read_text()) == (
        f"ben may call: {file}\n",
        True,
        False,
    )


def test_serve_starts_without_a_user_and_one_who_is_made_later_logs_in_at_once(environment: dict[str, str]) -> None:
    """The unit is enabled before anybody has a password, and would not start again by itself."""
    (Path(environment["CP_CAP_AUTOSCALE_WORKDIR"]) / "http-passwords").unlink()
    with serving(environment) as (_, client):
        refused = client.get("status").status_code
        assert run(environment, "serve", "passwd", USER, stdin=f"{PASSWORD}\n").returncode == 0
        assert (refused, client.get("status").status_code) == (401, 200)


@pytest.mark.thorough
def test_serve_calls_shows_the_journal(environment: dict[str, str]) -> None:
    with serving(environment) as (process, client):
        client.get("status")
        client.get("nothing")
        process.terminate()
        process.wait(120)
    lines = run(environment, "serve", "calls").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == [
        "404  -  GET /clusters/default/nothing",
        f"200  {USER}  GET /clusters/default/status",
    ]


OF_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def make_certificate(certificate: Path, key: Path, *kind: str) -> None:
    subprocess.run(
        ("openssl", "req", "-x509", *(kind or OF_EC), "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def test_with_a_certificate_only_tls_is_served(environment: dict[str, str], tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    more = {"CP_CAP_AUTOSCALE_HTTP_CERT": str(certificate), "CP_CAP_AUTOSCALE_HTTP_KEY": str(key)}
    with serving(environment, more) as (_, client):
        status = f"{client.url}/clusters/default/status"
        answer = requests.get(status, auth=(USER, PASSWORD), verify=str(certificate), timeout=120)
        with pytest.raises(requests.ConnectionError):
            requests.get(status.replace("https", "http"), timeout=120)
    assert (status.startswith("https://"), answer.status_code) == (True, 200)


@pytest.mark.thorough
def test_only_tls_1_2_or_newer_is_accepted(environment: dict[str, str], tmp_path: Path) -> None:
    certificate, key, lax = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "openssl.cnf"
    make_certificate(certificate, key)
    # A machine whose OpenSSL allows everything: refusals are our own.
    lax.write_text(
        "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n"
        "MinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n"
    )
    more = {"CP_CAP_AUTOSCALE_HTTP_CERT": str(certificate), "CP_CAP_AUTOSCALE_HTTP_KEY": str(key)}
    with serving({**environment, "OPENSSL_CONF": str(lax)}, more) as (_, client):
        at = client.url.removeprefix("https://")
        result = {
            version: subprocess.run(
                ("openssl", "s_client", version, "-cipher", "ALL:@SECLEVEL=0", "-connect", at, "-CAfile", certificate),
                input="", capture_output=True, text=True, timeout=120,
            )
            for version in ("-tls1", "-tls1_1", "-tls1_2", "-tls1_3")
        }  # fmt: skip
    spoken = [
        version
        for version, done in result.items()
        if done.returncode == 0 and "Verify return code: 0 (ok)" in done.stdout
    ]
    assert spoken == ["-tls1_2", "-tls1_3"], result


@pytest.mark.thorough
def test_an_answered_request_is_not_repeated_by_the_next_process(environment: dict[str, str]) -> None:
    results = []
    for _ in range(2):
        with serving(environment) as (process, client):
            results.append(client.create(2, request_id="r").status_code)
            process.kill()
            process.wait(120)
    assert (results, nodes_of(environment)) == ([202, 409], ["execute-1", "execute-2"])


def test_a_repeated_request_makes_no_double_whenever_the_process_is_killed(environment: dict[str, str]) -> None:
    """Callers repeat an unanswered request until it is answered: 202, or 409 if it was carried out before."""
    wanted, answered, killed = [f"r-{number}" for number in range(20 if thorough() else 8)], 0, 0
    while answered < len(wanted):
        with serving(environment) as (process, client):
            try:
                for number, request in enumerate(wanted[answered:]):
                    if number == 6:
                        process.kill()
                        killed += 1
                    assert client.create(1, request_id=request).status_code in (202, 409)
                    answered += 1
            except requests.ConnectionError:
                continue
    assert (len(nodes_of(environment)), killed > 0) == (len(wanted), True)


def test_a_token_is_shown_once_and_valid_until_it_is_revoked(environment: dict[str, str]) -> None:
    made = run(environment, "serve", "token", "create", "ci", "--role", "reader", "--expires", "1h").stdout.strip()
    listed = run(environment, "serve", "token", "list").stdout
    with serving(environment) as (_, client):
        status = f"{client.url}/clusters/default/status"
        head = {"Authorization": f"Bearer {made}"}
        before = requests.get(status, headers=head, timeout=120).status_code
        changes = requests.post(f"{client.url}/cloud/actions/retry/default", headers=head, timeout=120).status_code
        revoked = run(environment, "serve", "token", "revoke", "ci").stdout
        after = requests.get(status, headers=head, timeout=120).status_code
    assert (before, changes, revoked, after) == (200, 403, "token ci is revoked\n", 401)
    assert (listed.startswith("ci  reader  until "), made in listed, made.startswith("sgea_")) == (True, False, True)
    assert run(environment, "serve", "token", "revoke", "ci").returncode == 3


@pytest.mark.parametrize(("expires", "refused"), (("3650d", False), ("3651d", True), ("365000000d", True)))
def test_a_token_is_valid_for_ten_years_at_most(environment: dict[str, str], expires: str, *, refused: bool) -> None:
    made = run(environment, "serve", "token", "create", "ci", "--role", "reader", "--expires", expires)
    assert (made.returncode == 2, "3650 days at most" in made.stderr) == (refused, refused)
    assert made.stdout.startswith("sgea_") != refused


@pytest.mark.thorough
def test_serve_starts_with_a_token_alone(environment: dict[str, str]) -> None:
    (Path(environment["CP_CAP_AUTOSCALE_WORKDIR"]) / "http-passwords").unlink()
    made = run(environment, "serve", "token", "create", "ci", "--role", "admin").stdout.strip()
    with serving(environment) as (_, client):
        head = {"Authorization": f"Bearer {made}"}
        assert requests.get(f"{client.url}/operations/", headers=head, timeout=120).status_code == 200


def test_an_address_beyond_loopback_is_served_in_plain_http_only_if_set(
    environment: dict[str, str],
) -> None:
    refused = run({**environment, "CP_CAP_AUTOSCALE_HTTP": "0.0.0.0:0"}, "serve")
    assert (refused.returncode, "CP_CAP_AUTOSCALE_HTTP_PLAIN" in refused.stderr) == (2, True)
    more = {"CP_CAP_AUTOSCALE_HTTP": "0.0.0.0:0", "CP_CAP_AUTOSCALE_HTTP_PLAIN": "true"}
    with serving(environment, more) as (_, client):
        port = client.url.rpartition(":")[2]
        assert requests.get(f"http://127.0.0.1:{port}/operations/", timeout=120).status_code == 401


IMPORTED = """
import sys
from autoscaler.commands import _http, serve
from autoscaler.commands.context import Invocation
import os
with _http.network(Invocation(os.environ, imports_provider=False)) as (server, places):
    print(*sorted(sys.modules), sep="\\n")
"""


@pytest.mark.parametrize("provider", sample(("aws", "cyclecloud", "tests.nowhere:Provider"), "aws"))
def test_serve_imports_no_provider_and_no_cloud_library(environment: dict[str, str], provider: str) -> None:
    environment |= {"CP_CAP_AUTOSCALE_PROVIDER": provider, "CP_CAP_AUTOSCALE_AUTOSTOP": f"127.0.0.1:{free_port()}"}
    argv = (sys.executable, "-c", IMPORTED)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120)
    names = done.stdout.split()
    modules = ("advice", "catalog", "interface", "registry", "settings")
    shared = {f"autoscaler.providers.{name}" for name in modules}
    theirs = {
        name
        for name in names
        if name.startswith("autoscaler.providers.") or name.partition(".")[0] in ("boto3", "botocore", "azure", "msal")
    }
    assert ("autoscaler.api.app" in names, theirs - shared) == (True, set()), done.stderr


@pytest.mark.thorough
def test_variables_that_serve_does_not_use_are_removed_from_its_environment(environment: dict[str, str]) -> None:
    secret = {
        "AWS_SECRET_ACCESS_KEY": "s3cret-1",
        "AZURE_CLIENT_SECRET": "s3cret-2",
        "API_TOKEN": "s3cret-3",
        "CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD": "s3cret-4",
        "CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_BROKER": "s3cret-5",
        "POOL_PASSWORD": "s3cret-6",
    }
    with serving(environment, secret) as (process, client):
        shown = Path(f"/proc/{process.pid}/environ").read_text()
        answered = client.get("status").status_code
    assert ("s3cret-" in shown, "CP_CAP_AUTOSCALE_HTTP=" in shown, answered) == (False, True, 200)


def test_in_a_container_of_cloud_pipeline_it_reads_the_queues_as_run_does(environment: dict[str, str]) -> None:
    """It drops the platform's variables, and the names of further queues depend on the platform."""
    environment.pop("CP_CAP_AUTOSCALE_PROVIDER", None)
    run = {
        "API": "http://127.0.0.1:1/",
        "API_TOKEN": "s3cret",
        "RUN_ID": "1001",
        "instance_size": "m5.large",
        "CP_CAP_AUTOSCALE_1": "true",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large",
        "CP_CAP_AUTOSCALE_2": "true",
        "CP_CAP_AUTOSCALE_WORKERS_2": "1",
    }
    with serving(environment, run) as (process, client):
        shown = Path(f"/proc/{process.pid}/environ").read_text()
        answered = client.get("status").status_code
    assert (answered, "s3cret" in shown) == (200, False)


COLLECTING = """
import gc
from autoscaler.api.server import Server
from autoscaler.commands.main import main
Server.serve = lambda self: print("thresholds", gc.get_threshold(), gc.get_freeze_count() > 0)
raise SystemExit(main(["serve"]))
"""


def test_it_looks_often_for_what_callers_left(environment: dict[str, str]) -> None:
    argv = (sys.executable, "-c", COLLECTING)
    # No variable that it would drop: it does not begin anew, then.
    done = subprocess.run(
        argv, env=without_credentials(environment), capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    assert f"thresholds {OF_CALLS} True" in done.stdout
