"""What a worker runs at its first boot, on machines that are a directory: every program it calls is a fake."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.engine.boot_script import WorkerBoot
from autoscaler.errors import SettingsError
from autoscaler.sge.notices import COMPLEX

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
PROVIDERS = ("aws", "azure", "cyclecloud", "local", "of.somebody:Else")
USER_DATA_LIMIT = 16384
"""That of EC2, the smallest of all clouds."""
HOSTILE = "it's $(exit 7) `exit 7` \"; exit 7 #"
BOOT = WorkerBoot(
    sge_root="/opt/sge",
    cell="default",
    master="master",
    master_address="10.0.0.1",
    qmaster_port=6444,
    execd_port=6445,
    bootstrap="admin_user none",
    provider="aws",
    join_within=900,
    lease=7200,
    longest_lease=86400,
)

SYSTEM = (
    "/etc/hostname",
    "/etc/hosts",
    "/etc/sge-autoscaler",
    "/etc/systemd/system/sge-worker.service",
    "/opt/cycle/jetpack/bin/jetpack",
    "/run/sge-worker-boot.pid",
    "/usr/local/bin",
    "/usr/local/sbin/sge-worker-notice",
    "/usr/local/sbin/sge-worker-watch",
    "/usr/sbin/policy-rc.d",
)
"""Paths of the system that the script reads and writes."""


class Machine:
    """Runs scripts with fakes before everything else on the PATH; `calls` has their calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.programs, self.hosts = root, root / "programs", root / "hosts"
        self.programs.mkdir()
        self.hosts.write_text("127.0.0.1 localhost\n127.0.1.1 w1\n")
        for folder in ("1", "self/ns", "net"):
            (root / "proc" / folder).mkdir(parents=True)
        (root / "proc/net/tcp").touch()
        self.is_started_by("sh")
        self.fake("hostname", f'[ -z "$1" ] || echo "$1" >{root}/name; cat {root}/name')
        (root / "name").write_text("w1\n")
        self.fake(
            "getent", f'sed -n "s/^\\([0-9.]*\\) \\(.* \\)\\?$2\\( .*\\)\\?\\$/\\1 STREAM/p" {self.hosts} | grep .'
        )
        self.fake("ip", "echo '10.0.0.1 via 10.0.0.254 dev eth0 src 10.0.0.7 uid 0'")
        self.fake("curl", "exit 7")
        self.fake("setsid", f'printf "%s" "$4" >{root}/watch')
        for name in ("sge_execd", "systemctl", "apt-get", "useradd", "shutdown", "poweroff", "mount"):
            self.fake(name)

    def fake(self, name: str, does: str = "true") -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.root}/calls\n{does}\n')
        path.chmod(0o755)

    def boot(self, boot: WorkerBoot, shell: str = "sh") -> subprocess.CompletedProcess[str]:
        """Run the script to its end; files of the system are this machine's own."""
        return self.run(self.of_this_machine(boot.script()), shell)

    def watch(self, boot: WorkerBoot, rounds: int, *, real: bool = True) -> subprocess.CompletedProcess[str]:
        """Boot, and run the watch for so many rounds, on a machine (not `real`: in a container). No time passes."""
        self.boot(boot)
        self.is_started_by("systemd", real=real)
        counted = f"echo >>{self.root}/rounds; [ $(wc -l <{self.root}/rounds) -lt {rounds} ] || kill $PPID"
        self.fake("sleep", counted)
        return self.run((self.root / "watch").read_text(), "sh")

    def is_started_by(self, first: str, *, real: bool = True) -> None:
        """What its first process is; not `real`: a container."""
        (self.root / "proc/1/comm").write_text(f"{first}\n")
        link = self.root / "proc/self/ns/pid"
        link.unlink(missing_ok=True)
        link.symlink_to("pid:[4026531836]" if real else "pid:[4026532001]")

    def of_this_machine(self, script: str) -> str:
        script = script.replace("/proc/", f"{self.root}/proc/")
        script = script.replace("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", str(self.programs))
        for path in SYSTEM:
            script = script.replace(path, f"{self.root}/{Path(path).name}")
        return script

    def run(self, script: str, shell: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.programs}:/usr/bin:/bin"
        return subprocess.run(
            [shell, "-c", script], env={"PATH": path}, capture_output=True, text=True, timeout=120, check=False
        )

    def calls(self, name: str) -> list[str]:
        log = self.root / "calls"
        return [line for line in log.read_text().splitlines() if line.startswith(f"{name} ")] if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def boot(tmp_path: Path) -> WorkerBoot:
    """A worker whose image has the cell's files."""
    common = tmp_path / "it's sge" / "default" / "common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text("master\n")
    return replace(BOOT, sge_root=str(tmp_path / "it's sge"))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_shell_accepts_the_syntax_of_the_script_of_every_provider(shell: str, provider: str) -> None:
    script = replace(BOOT, provider=provider, sge_root=HOSTILE).script()
    argv = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
    checked = subprocess.run(argv, input=script, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_script_fits_into_a_clouds_user_data(provider: str) -> None:
    assert len(replace(BOOT, provider=provider, bootstrap="x" * 600).script().encode()) < USER_DATA_LIMIT


def test_no_value_is_executed_by_the_shell(machine: Machine) -> None:
    root = f"{machine.root}/{HOSTILE}"
    machine.boot(replace(BOOT, sge_root=root, cell=HOSTILE, master=HOSTILE, bootstrap=f"{HOSTILE}\nEND"))
    common = Path(root) / HOSTILE / "common"
    written = ((common / "act_qmaster").read_text(), (common / "bootstrap").read_text())
    assert written == (f"{HOSTILE}\n", f"{HOSTILE}\nEND\n")


@pytest.mark.parametrize("value", ("two\nlines", "END OF WATCH\nreboot", "a\0b", "a\rb"))
def test_a_value_that_could_break_a_line_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="master"):
        replace(BOOT, master=value).script()


def test_a_longest_lease_is_never_shorter_than_the_lease() -> None:
    assert "LONGEST_LEASE=7200\n" in replace(BOOT, longest_lease=60).script()


def test_a_worker_cannot_start_its_own_autoscaler() -> None:
    script = BOOT.script()
    wanted = ("CP_CAP_AUTOSCALE=false\n", "systemctl disable --now sge-autoscaler.service")
    assert [text in script for text in (*wanted, "sge-autoscaler run")] == [True, True, False]


def test_the_machine_is_watched_before_anything_can_fail(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("getent", "exit 2")
    ran = machine.boot(replace(boot, master_address=""))
    assert (ran.returncode, len(machine.calls("setsid"))) == (1, 1)


def test_systemd_starts_the_watch_at_every_boot(machine: Machine, boot: WorkerBoot) -> None:
    machine.is_started_by("systemd")
    machine.boot(boot)
    unit = (machine.root / "sge-worker.service").read_text().splitlines()
    started = ("systemctl enable sge-worker.service" in machine.calls("systemctl"), machine.calls("setsid"))
    assert (f"ExecStart=/bin/sh {machine.root}/sge-worker-watch" in unit, *started) == (True, True, [])


def test_the_package_is_installed_where_there_is_no_execd(machine: Machine, boot: WorkerBoot) -> None:
    (machine.programs / "sge_execd").unlink()
    machine.fake("apt-get", f'case "$*" in *install*) cp {machine.programs}/ip {machine.programs}/sge_execd ;; esac')
    ran = machine.boot(boot)
    calls = [call.split()[-1] for call in machine.calls("apt-get") if "install" in call]
    assert (ran.returncode, calls, (machine.root / "policy-rc.d").exists()) == (0, ["gridengine-exec"], False)


def test_without_install_the_package_is_not_installed(machine: Machine, boot: WorkerBoot) -> None:
    (machine.programs / "sge_execd").unlink()
    ran = machine.boot(replace(boot, install=False))
    assert (ran.returncode, machine.calls("apt-get"), "sge_execd is not there" in ran.stdout) == (1, [], True)


def test_an_export_is_mounted_at_the_root(machine: Machine, boot: WorkerBoot) -> None:
    for name, does in (("mount.nfs", "true"), ("mountpoint", "exit 32")):
        machine.fake(name, does)
    machine.boot(replace(boot, mount="nfs:/sge"))
    assert machine.calls("mount") == [f"mount -t nfs nfs:/sge {boot.sge_root}"]


def test_a_master_that_does_not_resolve_gets_a_line_in_the_hosts_file(machine: Machine, boot: WorkerBoot) -> None:
    assert (machine.boot(boot).returncode, "10.0.0.1 master\n" in machine.hosts.read_text()) == (0, True)


def test_the_name_of_the_worker_does_not_resolve_to_a_loopback_address(machine: Machine, boot: WorkerBoot) -> None:
    machine.boot(boot)
    lines = machine.hosts.read_text().splitlines()
    assert [line for line in lines if "w1" in line] == ["10.0.0.7 w1 w1"]


def test_a_second_boot_changes_nothing(machine: Machine, boot: WorkerBoot) -> None:
    first = machine.boot(boot)
    before = machine.hosts.read_text()
    second = machine.boot(boot)
    assert (first.returncode, second.returncode, machine.hosts.read_text()) == (0, 0, before)


def test_a_worker_without_the_cells_files_gets_them(machine: Machine, tmp_path: Path) -> None:
    ran = machine.boot(replace(BOOT, sge_root=str(tmp_path / "new")))
    common = tmp_path / "new" / "default" / "common"
    found = {file.name: file.read_text() for file in common.iterdir()}
    assert (ran.returncode, found) == (0, {"act_qmaster": "master\n", "bootstrap": "admin_user none\n"})


def test_a_worker_without_the_cells_files_and_bootstrap_reports_that_it_cannot_join(
    machine: Machine, tmp_path: Path
) -> None:
    ran = machine.boot(replace(BOOT, sge_root=str(tmp_path / "new"), bootstrap=""))
    assert (ran.returncode, "this worker cannot join" in ran.stdout) == (1, True)


def test_a_machine_takes_the_host_name_of_its_cloud(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("curl", 'case "$*" in *local-hostname) echo ip-10-0-0-7.ec2.internal ;; *) echo token ;; esac')
    machine.boot(boot)
    assert (machine.root / "name").read_text() == "ip-10-0-0-7.ec2.internal\n"


def test_an_invalid_host_name_is_not_taken(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("curl", "echo '<html>$(touch x)</html>'")
    machine.boot(boot)
    assert (machine.root / "name").read_text() == "w1\n"


NEVER_JOINS = 3
"""Rounds, and seconds, after which the machines below are given back."""


@pytest.fixture
def never_joining(boot: WorkerBoot) -> WorkerBoot:
    """A worker that never joins."""
    return replace(boot, join_within=NEVER_JOINS)


def test_an_execd_that_ends_is_started_again(machine: Machine, boot: WorkerBoot) -> None:
    """As recorded in tests/sge/recorded/joins.json: it ends while its host is not known."""
    machine.watch(boot, 4)
    assert len(machine.calls("sge_execd")) == 4


def execds_started_without_reaping(machine: Machine, boot: WorkerBoot, *, runs: bool) -> list[str]:
    """What was started in three rounds where the boot script's process is 4242: it `runs`, or is a zombie."""
    machine.is_started_by("systemd")
    machine.boot(boot)
    (machine.root / "sge-worker-boot.pid").write_text("4242\n")
    (machine.root / "proc/4242").mkdir()
    (machine.root / "proc/4242/comm").write_text("sh\n")
    if runs:
        (machine.root / "proc/4242/exe").touch()
    machine.fake("sleep", f"echo >>{machine.root}/rounds; [ $(wc -l <{machine.root}/rounds) -lt 3 ] || kill $PPID")
    machine.run((machine.root / "sge-worker-watch").read_text(), "sh")
    return machine.calls("sge_execd")


def test_a_boot_script_that_is_a_zombie_is_not_waited_for(machine: Machine, boot: WorkerBoot) -> None:
    assert execds_started_without_reaping(machine, boot, runs=False)


def test_no_execd_is_started_while_the_boot_script_runs(machine: Machine, boot: WorkerBoot) -> None:
    assert not execds_started_without_reaping(machine, boot, runs=True)


HOOK = '#!/bin/sh\necho "it\'s $0"; getent mount-my-home || true'


def test_the_operators_bootstrap_runs_before_the_worker_joins(machine: Machine, boot: WorkerBoot) -> None:
    ran = machine.boot(replace(boot, hook=HOOK))
    output = [line for line in ran.stdout.splitlines() if "it's" in line or "joining" in line]
    assert (ran.returncode, output[0].startswith("it's "), "joining" in output[-1]) == (0, True, True)
    assert machine.calls("getent")[0] == "getent mount-my-home"


def test_a_worker_whose_bootstrap_failed_does_not_join_and_reports_it(machine: Machine, boot: WorkerBoot) -> None:
    ran = machine.boot(replace(boot, hook="#!/bin/sh\nexit 3"))
    assert (ran.returncode, "the operator's bootstrap ended with 3" in ran.stdout) == (1, True)
    assert len(machine.calls("setsid")) == 1


def test_a_machine_of_aws_shuts_itself_down(machine: Machine, never_joining: WorkerBoot) -> None:
    output = machine.watch(never_joining, NEVER_JOINS + 1).stdout
    assert (machine.calls("shutdown"), "this machine ends itself" in output) == (["shutdown -h now"], True)


def test_a_machine_does_not_shut_itself_down_before_its_time(machine: Machine, never_joining: WorkerBoot) -> None:
    machine.watch(never_joining, NEVER_JOINS)
    assert (machine.root / "rounds").read_text().count("\n") == NEVER_JOINS
    assert machine.calls("shutdown") == []


def test_a_container_never_shuts_down_the_machine(machine: Machine, never_joining: WorkerBoot) -> None:
    output = machine.watch(never_joining, NEVER_JOINS + 1, real=False).stdout
    assert (machine.calls("shutdown"), "cannot end itself" in output) == ([], True)


METADATA_OF_AZURE = """
case "$*" in
    *resourceId*) echo /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/w1 ;;
    *azEnvironment*) echo AzurePublicCloud ;;
    *oauth2/token*) echo '{"access_token":"SECRET","expires_in":"3600"}' ;;
    *DELETE*) cat >"$(dirname "$0")/../given" ;;
esac
"""


def test_a_machine_of_azure_deletes_itself_and_nothing_else(machine: Machine, never_joining: WorkerBoot) -> None:
    machine.fake("curl", METADATA_OF_AZURE)
    machine.watch(replace(never_joining, provider="azure"), NEVER_JOINS + 1)
    deleted = [call.split()[-1] for call in machine.calls("curl") if "DELETE" in call]
    own = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/w1"
    assert (deleted, machine.calls("shutdown")) == ([f"https://management.azure.com{own}?api-version=2024-07-01"], [])


def test_the_token_of_a_machine_is_in_no_argument(machine: Machine, never_joining: WorkerBoot) -> None:
    """Arguments are there for every job on the machine to read."""
    machine.fake("curl", METADATA_OF_AZURE)
    machine.watch(replace(never_joining, provider="azure"), NEVER_JOINS + 1)
    found = ((machine.root / "given").read_text(), "SECRET" in (machine.root / "calls").read_text())
    assert found == ('header = "Authorization: Bearer SECRET"\n', False)


def test_a_machine_of_azure_that_cannot_delete_itself_shuts_down_and_warns_of_its_cost(
    machine: Machine, never_joining: WorkerBoot
) -> None:
    output = machine.watch(replace(never_joining, provider="azure"), NEVER_JOINS + 1).stdout
    assert ("STAYS PAID FOR" in output, machine.calls("shutdown")) == (True, ["shutdown -h now"])


def test_a_node_of_cyclecloud_terminates_itself_by_jetpack(machine: Machine, never_joining: WorkerBoot) -> None:
    machine.fake("jetpack")
    (machine.programs / "jetpack").rename(machine.root / "jetpack")
    machine.watch(replace(never_joining, provider="cyclecloud"), NEVER_JOINS + 1)
    assert (machine.calls("jetpack"), machine.calls("shutdown")) == (["jetpack shutdown --idle"], [])


def reported(machine: Machine, boot: WorkerBoot, metadata: str) -> list[str]:
    """What the load sensor of a worker answers Grid Engine, once."""
    machine.is_started_by("systemd")
    machine.boot(boot)
    machine.fake("curl", metadata)
    sensor = subprocess.run(
        ["sh", str(machine.root / "sge-worker-notice")],
        env={"PATH": f"{machine.programs}:/usr/bin:/bin"},
        input="\nquit\n\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return sensor.stdout.splitlines()


def of_aws(path: str, answer: str) -> str:
    return f"""case "$*" in
        *api/token*) echo TOKEN ;;
        *TOKEN*{path}) echo '{answer}' ;;
        *) exit 22 ;;
    esac"""


def of_azure(*events: str) -> str:
    return f"""case "$*" in
        *compute/name*) echo w1 ;;
        *scheduledevents*) echo '{{"DocumentIncarnation":1,"Events":[{",".join(events)}]}}' ;;
    esac"""


def event(kind: str, machines: str, not_before: str) -> str:
    return f'{{"EventId":"e","EventType":"{kind}","Resources":[{machines}],"NotBefore":"{not_before}"}}'


SPOT_END = '{"action": "terminate", "time": "2025-11-21T15:46:40Z"}'
ADVICE = '{"noticeTime": "2025-11-21T15:46:40Z"}'
IN_TIME = "Fri, 21 Nov 2025 15:46:40 GMT"


@pytest.mark.parametrize(
    ("provider", "metadata", "notice"),
    (
        ("aws", of_aws("spot/instance-action", SPOT_END), "terminate@1763740000"),
        ("aws", of_aws("spot/instance-action", SPOT_END.replace("terminate", "hibernate")), "stop@1763740000"),
        ("aws", of_aws("recommendations/rebalance", ADVICE), "rebalance@1763740000"),
        ("aws", of_aws("none", ""), "none"),
        ("aws", "exit 7", "none"),
        ("aws", "echo '<html>'", "none"),
        (
            "azure",
            of_azure(event("Reboot", '"w1"', ""), event("Preempt", '"w0","w1"', IN_TIME)),
            "terminate@1763740000",
        ),
        ("azure", of_azure(event("Preempt", '"w10"', IN_TIME)), "none"),
        ("azure", of_azure(event("Terminate", '"w1"', IN_TIME)), "terminate@1763740000"),
        ("azure", of_azure(event("Redeploy", '"w1"', IN_TIME)), "reboot@1763740000"),
        ("azure", of_azure(event("Reboot", '"w1"', IN_TIME), event("Freeze", '"w1"', IN_TIME)), "reboot@1763740000"),
        ("azure", of_azure(event("Redeploy", '"w2"', IN_TIME)), "none"),
        ("azure", of_azure(event("Freeze", '"w1"', IN_TIME)), "none"),
        ("azure", of_azure(), "none"),
        ("azure", "exit 7", "none"),
    ),
)
def test_the_load_sensor_of_a_worker_reports_the_notice_in_its_metadata(
    machine: Machine, boot: WorkerBoot, provider: str, metadata: str, notice: str
) -> None:
    answer = reported(machine, replace(boot, provider=provider), metadata)
    assert answer == ["begin", f"w1:{COMPLEX}:{notice}", "end"]
