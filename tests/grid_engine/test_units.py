"""The units of conf/ on a machine that systemd boots: with all restrictions workers are rented, serve and leave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler.hosts_helper import SOCKET
from autoscaler.lab.played_cloud import played_cloud
from autoscaler.process import Completed
from tests.grid_engine.booted import ACCOUNT, UNITS, Machine, cannot_boot, cell_and_machine
from tests.grid_engine.waiting import Shown, Until
from tests.page_blocks import elsewhere

pytestmark = pytest.mark.skipif(cannot_boot() is not None, reason=cannot_boot() or "")
SERVICE, SERVE = "sge-autoscaler.service", "sge-autoscaler-serve.service"
PORTS = "sge-autoscaler-serve.socket"
HELPER = ("sge-autoscaler-hosts.socket", "sge-autoscaler-hosts@.service")
SETTINGS = {
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.large",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "0.5",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "0.3",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
}
URL = "http://127.0.0.1:8651"
SERVED = 'CP_CAP_AUTOSCALE_INSTANCE_TYPE = "m5.large"\nCP_CAP_AUTOSCALE_HTTP = "127.0.0.1:8651"\n'
INSTALL = Path("docs/operate/install.md")
OF_A_SHELL = ("HOME", "TMPDIR", "USER", "LOGNAME", "PATH")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with cell_and_machine() as made:
        yield made


def install(machine: Machine, *units: str, environment: Mapping[str, str]) -> None:
    """Units, with the cell's variables and these settings; credentials are where only the service has them."""
    cell = machine.cell
    given = {**cell.environment, **SETTINGS, **environment}
    secret = {name: given.pop(name) for name in tuple(given) if name.startswith("AWS_")}
    given = {name: value for name, value in given.items() if name not in OF_A_SHELL}
    given["PATH"] = f"{cell.root}/bin:/usr/lib/gridengine:/usr/local/bin:/usr/bin:/bin"
    credentials = "".join(f"{name}={value}\n" for name, value in secret.items())
    machine.write("/etc/default/sge-autoscaler.credentials", credentials, "600")
    machine.install(*units, environment=given)


def main_pid(machine: Machine, unit: str) -> str:
    return machine.out("systemctl", "show", "--property=MainPID", "--value", unit).strip()


def environment(machine: Machine, unit: str) -> bytes:
    """What the service's process was started with."""
    return machine.run("cat", f"/proc/{main_pid(machine, unit)}/environ").stdout


def seen_by(machine: Machine, unit: str, path: str) -> Completed:
    """A file as the service's account reads it where the service is."""
    there = ("nsenter", f"--target={main_pid(machine, unit)}", "--mount", "--")
    return machine.run(*there, "setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups", "cat", path)


def restrictions(machine: Machine, unit: str) -> dict[str, str]:
    """What the kernel says of the service's process."""
    status = machine.out("cat", f"/proc/{main_pid(machine, unit)}/status")
    lines = (line.split(":", 1) for line in status.splitlines())
    return {name: value.strip() for name, value in lines}


def test_the_service_launches_enrols_and_removes_workers_without_root(
    machine: Machine, until: Until, show_on_failure: Shown
) -> None:
    cell = machine.cell
    show_on_failure["the service"] = lambda: machine.log_text(SERVICE)
    with played_cloud(cell, "aws") as cloud:
        at = {"CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651"}
        install(machine, SERVICE, SERVE, PORTS, *HELPER, environment={**cloud.environment, **at})
        machine.start(HELPER[0])
        machine.start(PORTS)
        job = cell.submit("-b", "y", "-j", "y", "hostname")
        machine.start(SERVICE)
        until(lambda: "exit_status  0" in cell.runner(("qacct", "-j", job), timeout=60.0).stdout.decode(), 60)
        until(lambda: "terminating" in machine.log_text(SERVICE), 60)
        token = machine.command("serve", "token", "create", "ci", "--role", "reader").stdout.decode().strip()
        machine.start(SERVE)
        reached = ("curl", "-sS", "--header", f"Authorization: Bearer {token}", f"{URL}/clusters/default/status")
        until(lambda: b"maxCount" in machine.run(*reached).stdout, 30, "the REST API does not answer")
        statuses = [restrictions(machine, unit) for unit in (SERVICE, SERVE)]
        stolen = seen_by(machine, SERVE, f"/proc/{main_pid(machine, SERVICE)}/environ")
        secrets = [b"AWS_SECRET" in environment(machine, unit) for unit in (SERVICE, SERVE)]
        shown = json.loads(machine.command("status", "--json").stdout)
        paused = machine.command("pause")
        until(lambda: "paused" in machine.log_text(SERVICE), 30)
        owners = machine.out("find", "/var/lib/sge-autoscaler", "/run/sge-autoscaler", "-printf", "%u\n").split()
        sockets = machine.out("find", "/run/sge-autoscaler", "-name", "*.sock").split()
        machine.out("systemctl", "kill", "--signal=SIGKILL", "--kill-whom=main", SERVE)
        held = machine.out("cat", "/proc/net/tcp")
        machine.out("systemctl", "stop", SERVICE, SERVE, PORTS)
    assert "0100007F:21CB 00000000:0000 0A" in held, "nobody else can listen at 8651 while the service restarts"
    output = machine.log_text(SERVICE)
    assert [
        word in output for word in ("launching 1 c5.large", "enrolling ip-", "removing ip-", "terminating ip-")
    ] == [True] * 4, output
    assert "cannot be changed" not in output, "the helper keeps names of probe hosts"
    for status in statuses:
        assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"], int(status["Uid"].split()[0]) > 0) == ("1", "2", True)
    assert (stolen.returncode == 0, stolen.stdout) == (False, b""), "the account reads the credentials of its sibling"
    assert (secrets, shown["lock"]["pid"] > 0, paused.returncode) == ([True, False], True, 0)
    assert (set(owners), len(sockets)) == ({ACCOUNT}, 1)


def test_the_hosts_helper_writes_only_allowed_names_and_keeps_other_lines(machine: Machine) -> None:
    install(machine, *HELPER, environment={})
    machine.start(HELPER[0])
    before = machine.out("cat", "/etc/hosts")
    names = {"worker-1": "10.1.0.7", "master": "10.6.6.6", "worker-2": "8.8.8.8", "www.example.org": "10.6.6.6"}
    asked = "\n".join(json.dumps({"do": do, "kind": "workers", "addresses": names}) for do in ("keep", "kept"))
    words = ("python3", "-c", ASK, str(SOCKET))
    answers = machine.out("runuser", "-u", ACCOUNT, "--", *words, stdin=asked).splitlines()
    stranger = machine.run("runuser", "-u", "nobody", "--", *words, stdin=asked)
    assert json.loads(answers[1]) == {"is": {"worker-1": "10.1.0.7"}}
    assert [name in answers[0] for name in names] == [False, True, True, True]
    assert machine.out("cat", "/etc/hosts") == before + "10.1.0.7 worker-1 # worker of sge-autoscaler\n"
    assert b"PermissionError" in stranger.stderr


@pytest.mark.parametrize(
    ("unit", "address", "reached"),
    (
        (SERVE, "169.254.169.254", False),
        (SERVE, "127.0.0.1", True),
        (HELPER[1], "127.0.0.1", False),
        (SERVICE, "169.254.169.254", True),
    ),
)
def test_the_kernel_blocks_the_addresses_that_a_unit_denies(
    machine: Machine, unit: str, address: str, reached: bool
) -> None:
    lines = (UNITS / unit).read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if line.startswith("IPAddressDeny=") for word in line.partition("=")[2].split()]
    denied = [f"--property=IPAddressDeny={word}" for word in words]
    send = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{address}', 9))"
    machine.run("ip", "route", "add", "169.254.169.254/32", "dev", "lo")
    try:
        done = machine.run("systemd-run", "--wait", "--pipe", "--quiet", *denied, "/usr/bin/python3", "-c", send)
    finally:
        machine.run("ip", "route", "del", "169.254.169.254/32", "dev", "lo")
    assert (done.returncode == 0, b"Operation not permitted" in done.stderr) == (reached, not reached), done.stderr


def test_the_page_on_installation_makes_a_service(machine: Machine, until: Until) -> None:
    """Its block as it stands there. The cell lies elsewhere and its commands are on no usual PATH, so the file of the
    environment says so.
    """
    (block,) = elsewhere("systemd", INSTALL)
    cell, checkout = machine.cell, "/root/checkout"
    machine.run("systemctl", "stop", SERVICE, SERVE, PORTS, *HELPER[:1])
    machine.run("rm", "-f", "/etc/default/sge-autoscaler", "/etc/default/sge-autoscaler.credentials")
    machine.run("userdel", ACCOUNT)
    cell.out("qconf", "-dm", ACCOUNT)
    for path in UNITS.glob("sge-autoscaler*.*"):
        machine.write(f"{checkout}/conf/{path.name}", path.read_text(encoding="utf-8"))
    machine.write("/etc/sge-autoscaler.toml", 'CP_CAP_AUTOSCALE_PROVIDER = "fake"\n' + SERVED)
    own = {name: value for name, value in cell.environment.items() if name not in OF_A_SHELL}
    own["PATH"] = f"{cell.root}/bin:/usr/lib/gridengine:/usr/local/bin:/usr/sbin:/usr/bin:/bin"
    lines = "".join(f"{name}={value}\n" for name, value in own.items())
    text = block.text.replace("SGE_ROOT=/var/lib/gridengine\nSGE_CELL=default\n", lines)
    assert text != block.text
    shell = f"cd {checkout}; set -ea; {lines}set +a\n{text.replace('journalctl -fu', 'journalctl --no-pager -u')}"
    done = machine.run("bash", "-c", shell)
    assert (done.returncode, b"serving cell" in done.stdout) == (0, True), done.stdout.decode() + done.stderr.decode()
    until(
        lambda: machine.run("curl", "-sS", "--fail", f"{URL}/page/login").returncode == 0,
        30,
        "the page does not answer",
    )
    enabled = machine.out("systemctl", "is-enabled", SERVICE, SERVE, PORTS, HELPER[0]).split()
    owner = machine.out("ps", "-o", "user:32=", "-p", main_pid(machine, SERVICE)).strip()
    machine.out("systemctl", "disable", "--now", SERVICE, SERVE, PORTS, HELPER[0])
    assert (enabled, owner) == (["enabled"] * 4, ACCOUNT)


@pytest.mark.thorough
def test_the_service_starts_after_a_reboot_with_an_empty_run_directory(machine: Machine, until: Until) -> None:
    """A reboot empties /run, and whatever ran is gone without an end of its own."""
    with played_cloud(machine.cell, "aws") as cloud:
        install(machine, SERVICE, environment=cloud.environment)
        machine.start(SERVICE)
        machine.out("systemctl", "mask", "--runtime", SERVICE)
        machine.out("kill", "-KILL", main_pid(machine, SERVICE))
        until(lambda: main_pid(machine, SERVICE) == "0", 30)
        machine.out("rm", "-rf", "/run/sge-autoscaler")
        machine.out("systemctl", "unmask", "--runtime", SERVICE)
        machine.run("systemctl", "reset-failed", SERVICE)
        machine.start(SERVICE)
        found = machine.out("find", "/run/sge-autoscaler", "-printf", "%u %m %y\n").splitlines()
        answered = machine.command("status")
        machine.out("systemctl", "stop", SERVICE)
    assert {line.split()[0] for line in found} == {ACCOUNT}
    assert {line for line in found if line.endswith("d")} == {f"{ACCOUNT} 755 d"}
    assert answered.returncode == 0, answered.stderr


ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendall(sys.stdin.read().encode() + b"\\n")
    connection.shutdown(socket.SHUT_WR)
    print(connection.makefile().read(), end="")
"""
