"""`bin/setup` on machines that are a directory: what it may call is a link, or a fake that logs its call."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = "cat chmod cp cut date dirname flock grep mkfifo mv rm seq sh sha256sum sleep tail uname".split()  # noqa: SIM905
GRID_ENGINE = ("sge_qmaster", "sge_execd", "qconf", "qstat")
THE_REST = ("ip", "ps", "sendmail", "npm", "chromium")

# Makes an environment whose python is this same fake, so that pip's calls are logged too.
PYTHON = """
if [ "$1" = -m ] && [ "$2" = venv ]; then
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "VIRTUAL_ENV=$3" >"$3/bin/activate"
fi
"""
# What a Debian service script asks before it starts a daemon.
ASK_POLICY = """
case "$*" in *install*)
    "$MACHINE/usr/sbin/policy-rc.d" gridengine-master start
    echo "policy $?" >>"$CALLS"
    ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """A machine below `root`, with a checkout, and a log of the commands that were called on it."""

    root: Path
    checkout: Path

    def add(self, command: str, body: str = "") -> None:
        """Install a command that logs its name and arguments and then does `body`."""
        path = self.root / "bin" / command
        path.write_text(f'#!/bin/sh\necho "{command} $*" >>"$CALLS"\n{body}')
        path.chmod(0o755)

    def remove(self, *commands: str) -> None:
        for command in commands:
            (self.root / "bin" / command).unlink()

    def set_up(self, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(**env) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/sh", str(self.checkout / "bin" / "setup")],
            env={
                "PATH": str(self.root / "bin"),
                "CALLS": str(self.root / "log"),
                "MACHINE": str(self.root),
                "SETUP_SYSTEM_ROOT": str(self.root),
            }
            | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def calls(self, *commands: str) -> list[str]:
        """The calls of these commands (all but `id` where none is named), in their order."""
        log = self.root / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if (line.split()[0] in commands if commands else line.split()[0] != "id")]

    @property
    def policy(self) -> Path:
        return self.root / "usr/sbin/policy-rc.d"

    def policy_files(self) -> dict[str, tuple[int, str]]:
        """Name → mode and content (a link's: its target) of the files in the directory of policy-rc.d."""
        return {path.name: _mode_and_content(path) for path in sorted(self.policy.parent.iterdir())}


def _mode_and_content(path: Path) -> tuple[int, str]:
    return stat.S_IMODE(path.lstat().st_mode), str(path.readlink()) if path.is_symlink() else path.read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine where nothing but the environment is missing; its package manager fails."""
    made = Machine(tmp_path / "machine", tmp_path / "checkout")
    for directory in ("bin", "usr/sbin", "run/lock", "proc/1", "etc/init.d", "var/lib"):
        (made.root / directory).mkdir(parents=True)
    (made.root / "proc/1/comm").write_text("systemd\n")
    (made.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (made.root / "etc/hostname").write_text("machine\n")
    for tool in (*TOOLS, "mkdir", "kill"):
        if found := shutil.which(tool):
            (made.root / "bin" / tool).symlink_to(found)
    for command in (*GRID_ENGINE, *THE_REST, "update-rc.d", "debconf-set-selections"):
        made.add(command)
    made.add("apt-get", "exit 100\n")
    made.add("id", "echo 0\n")
    made.add("python3.11", PYTHON)
    copied = ("bin/setup", "bin/sge-autoscaler", "setup.cfg", "pyproject.toml", "requirements/run.txt")
    for name in (*copied, "requirements/dev.txt"):
        (made.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made.checkout / name)
    (made.checkout / "bin/vendored").write_text('#!/bin/sh\necho vendored >>"$CALLS"\n')
    (made.checkout / "bin/vendored").chmod(0o755)
    return made


def installed(machine: Machine) -> set[str]:
    """The packages that apt-get was called to install."""
    words = [call.split() for call in machine.calls("apt-get") if " install " in call]
    return {word for call in words for word in call[call.index("install") + 1 :] if not word.startswith("-")}


# ── packages ──


def test_the_package_manager_is_not_called_if_nothing_is_missing(machine: Machine) -> None:
    machine.set_up()
    assert machine.calls("apt-get") == []


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("apt-get")
    machine.set_up()
    assert installed(machine) == {"iproute2"}


def test_grid_engine_is_installed_with_the_mailer_dma(machine: Machine) -> None:
    machine.remove(*GRID_ENGINE, "sendmail")
    machine.add("apt-get")
    machine.set_up()
    assert installed(machine) == {"gridengine-master", "gridengine-exec", "gridengine-client", "dma"}


def test_an_existing_mailer_is_kept(machine: Machine) -> None:
    machine.remove("sge_execd")
    machine.add("apt-get")
    machine.set_up()
    assert installed(machine) == {"gridengine-exec"}


def test_the_list_of_packages_is_refreshed_before_an_installation(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("apt-get")
    machine.set_up()
    assert [call.split()[-1] for call in machine.calls("apt-get")] == ["update", "iproute2"]


def test_no_cell_is_configured_by_the_packages(machine: Machine) -> None:
    machine.remove(*GRID_ENGINE)
    machine.add("debconf-set-selections", "cat >>$CALLS\n")
    machine.add("apt-get")
    machine.set_up()
    assert "gridengine-common shared/gridengineconfig boolean false" in machine.calls()


def test_grid_engines_daemons_do_not_start_at_boot(machine: Machine) -> None:
    machine.remove(*GRID_ENGINE)
    machine.add("apt-get")
    for service in ("gridengine-master", "gridengine-exec"):
        (machine.root / "etc/init.d" / service).touch(0o755)
    machine.set_up()
    assert machine.calls("update-rc.d") == [
        "update-rc.d gridengine-master disable",
        "update-rc.d gridengine-exec disable",
    ]


def test_a_failed_installation_shows_the_output_of_the_package_manager(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("apt-get", "echo 'E: Unable to locate package'\nexit 100\n")
    done = machine.set_up()
    assert (done.returncode, "E: Unable to locate package" in done.stderr) == (1, True)


def test_without_root_and_sudo_setup_warns_of_missing_packages_and_continues(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("id", "echo 1000\n")
    done = machine.set_up()
    assert (done.returncode, "without iproute2" in done.stderr) == (0, True)


def test_packages_are_installed_through_sudo_if_it_exists(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("id", "echo 1000\n")
    machine.add("sudo")
    machine.set_up()
    assert machine.calls("sudo") == [f"sudo sh {machine.checkout}/bin/setup --packages iproute2"]


def test_the_browser_of_the_tests_and_the_scripts_of_the_page_are_brought(machine: Machine) -> None:
    machine.remove("npm", "chromium")
    machine.add("apt-get")
    machine.set_up()
    assert installed(machine) == {"npm", "chromium", "fonts-dejavu-core"}
    assert machine.calls("vendored") == ["vendored"]


def test_a_machine_that_cannot_fetch_the_scripts_of_the_page_is_set_up_without_them(machine: Machine) -> None:
    (machine.checkout / "bin/vendored").write_text("#!/bin/sh\nexit 1\n")
    done = machine.set_up()
    assert (done.returncode, "the page is without scripts" in done.stderr) == (0, True)


@pytest.mark.parametrize("file", ("etc/hosts", "etc/hostname"))
def test_a_machine_without_names_gets_them(machine: Machine, file: str) -> None:
    (machine.root / file).unlink()
    machine.set_up()
    assert ((machine.root / file).read_text() != "", machine.calls("apt-get")) == (True, [])


@pytest.mark.parametrize("file", ("etc/hosts", "etc/hostname"))
def test_existing_hosts_and_hostname_files_are_not_changed(machine: Machine, file: str) -> None:
    (machine.root / file).write_text("# mine\n")
    machine.remove("ip")
    machine.add("apt-get")
    machine.set_up()
    assert (machine.root / file).read_text() == "# mine\n"


def test_an_installation_shows_each_package_while_it_lasts(machine: Machine) -> None:
    machine.remove("ip")
    until_shown = f"for _ in $(seq 200); do grep -qs 'Setting up' {machine.root}/shown && break; sleep 0.05; done"
    machine.add("apt-get", f'case "$*" in *install*) echo "Setting up iproute2 (6.1.0-3) ..."; {until_shown};; esac\n')
    with machine.start() as process:
        lines = []
        for line in process.stderr or ():
            lines.append(line)
            (machine.root / "shown").write_text("".join(lines))
    assert (process.returncode, "setup:   Setting up iproute2\n" in lines) == (0, True)


# ── a Grid Engine that is already there ──


Existing = Callable[[Machine], dict[str, str]]
"""Puts a Grid Engine on a machine; returns the environment that shows it."""


def found_by_its_variable(machine: Machine) -> dict[str, str]:
    return {"SGE_ROOT": "/opt/sge"}


def found_by_its_cell(machine: Machine) -> dict[str, str]:
    common = machine.root / "var/lib/gridengine/default/common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text("master\n")
    return {}


def found_by_its_daemon(machine: Machine) -> dict[str, str]:
    (machine.root / "proc/77").mkdir()
    (machine.root / "proc/77/comm").write_text("sge_qmaster\n")
    return {}


def a_daemon(machine: Machine, numbers: str) -> None:
    """A running qmaster, with its numbers from here inwards as Linux shows them (proc(5), NSpid)."""
    (machine.root / "proc/77").mkdir()
    (machine.root / "proc/77/comm").write_text("sge_qmaster\n")
    (machine.root / "proc/77/status").write_text(f"Name:\tsge_qmaster\nNSpid:\t{numbers}\nNSsid:\t{numbers}\n")


@pytest.mark.parametrize(("numbers", "here"), (("77", True), ("77\t5", False)), ids=("here", "in a container"))
def test_the_daemon_of_a_container_is_not_this_machines(machine: Machine, numbers: str, here: bool) -> None:
    machine.remove(*GRID_ENGINE)
    a_daemon(machine, numbers)
    machine.add("apt-get")
    assert ("found a Grid Engine here" in machine.set_up().stderr) is here
    assert bool(machine.calls("apt-get")) is not here


EXISTING = pytest.mark.parametrize("existing", (found_by_its_variable, found_by_its_cell, found_by_its_daemon))


@EXISTING
def test_nothing_is_installed_besides_an_existing_grid_engine(machine: Machine, existing: Existing) -> None:
    machine.remove(*GRID_ENGINE)
    machine.add("apt-get")
    machine.set_up(**existing(machine))
    assert machine.calls("apt-get") == []


@EXISTING
def test_an_existing_grid_engine_is_reported(machine: Machine, existing: Existing) -> None:
    machine.remove(*GRID_ENGINE)
    assert "found a Grid Engine here" in machine.set_up(**existing(machine)).stderr


# ── policy-rc.d ──


Before = Callable[[Path], None]
"""Puts a policy for services at this path."""


def no_policy(policy: Path) -> None:
    pass


def own_policy(policy: Path) -> None:
    policy.write_text("#!/bin/sh\nexit 0\n")
    policy.chmod(0o750)


def linked_policy(policy: Path) -> None:
    policy.symlink_to("/etc/alternatives/policy-rc.d")


POLICIES = pytest.mark.parametrize("before", (no_policy, own_policy, linked_policy))
ENDS = pytest.mark.parametrize(
    "end",
    ("exit 0", "exit 100", "kill -INT $PPID", "kill -TERM $PPID", "kill -HUP $PPID"),
    ids=lambda end: end.split(" $")[0],
)


@POLICIES
def test_no_service_may_start_while_packages_are_installed(machine: Machine, before: Before) -> None:
    machine.remove("ip")
    before(machine.policy)
    machine.add("apt-get", ASK_POLICY)
    machine.set_up()
    assert machine.calls("policy") == ["policy 101"]


@ENDS
@POLICIES
def test_the_policy_for_services_is_restored(machine: Machine, before: Before, end: str) -> None:
    machine.remove("ip")
    before(machine.policy)
    as_it_was = machine.policy_files()
    machine.add("apt-get", f'case "$*" in *install*) {end};; esac\n')
    machine.set_up()
    assert machine.policy_files() == as_it_was


@POLICIES
def test_after_sigkill_the_next_run_restores_the_policy_for_services(machine: Machine, before: Before) -> None:
    machine.remove("ip")
    before(machine.policy)
    as_it_was = machine.policy_files()
    machine.add("apt-get", 'case "$*" in *install*) kill -KILL $PPID;; esac\n')
    machine.set_up()
    machine.add("ip")
    machine.set_up()
    assert machine.policy_files() == as_it_was


@ENDS
def test_an_installation_leaves_only_its_lock_file(machine: Machine, end: str) -> None:
    machine.remove("ip")
    machine.add("apt-get", f"{end}\n")
    machine.set_up()
    assert [path.name for path in (machine.root / "run").rglob("*") if path.is_file()] == ["sge-autoscaler-setup"]


def test_ctrl_c_gives_the_exit_code_130(machine: Machine) -> None:
    machine.remove("ip")
    machine.add("apt-get", "kill -INT $PPID\n")
    assert machine.set_up().returncode == 130


# ── environment ──


def test_a_second_run_starts_no_python(machine: Machine) -> None:
    machine.set_up()
    first = machine.calls("python3.11", "python")
    machine.set_up()
    assert machine.calls("python3.11", "python") == first


def test_requirements_are_installed_with_hashes(machine: Machine) -> None:
    machine.set_up()
    calls = [call for call in machine.calls("python3.11") if "requirements/dev.txt" in call]
    assert ["--require-hashes" in call for call in calls] == [True]


def test_a_changed_console_script_is_installed(machine: Machine) -> None:
    machine.set_up()
    before = len(machine.calls("python3.11"))
    with (machine.checkout / "bin/sge-autoscaler").open("a") as script:
        script.write("# changed\n")
    machine.set_up()
    assert len(machine.calls("python3.11")) > before


def test_a_changed_requirement_is_installed(machine: Machine) -> None:
    machine.set_up()
    before = len(machine.calls("python3.11"))
    with (machine.checkout / "requirements/dev.txt").open("a") as lock:
        lock.write("# changed\n")
    machine.set_up()
    assert any("requirements/dev.txt" in call for call in machine.calls("python3.11")[before:])


def test_two_runs_at_once_install_once(machine: Machine) -> None:
    machine.add("python3.11", PYTHON + "sleep 0.1\n")
    with machine.start() as first, machine.start() as second:
        first.communicate(timeout=120)
        second.communicate(timeout=120)
    assert len([call for call in machine.calls("python3.11") if "requirements/dev.txt" in call]) == 1


def test_a_failed_installation_is_retried_by_the_next_run(machine: Machine) -> None:
    machine.add("python3.11", PYTHON + '[ "$2" != pip ]\n')
    first = machine.set_up().returncode
    machine.add("python3.11", PYTHON)
    shutil.copy(machine.root / "bin/python3.11", machine.checkout / ".venv/bin/python")
    assert (first, machine.set_up().returncode) == (1, 0)


def test_a_python_shim_that_does_not_work_is_skipped(machine: Machine) -> None:
    machine.add("python3.11", "exit 127\n")
    machine.add("python3", PYTHON)
    machine.set_up()
    assert [call for call in machine.calls("python3", "python3.11") if " venv " in f"{call} " and "-m" in call] == [
        f"python3 -m venv {machine.checkout}/.venv"
    ]


def test_an_environment_that_is_a_link_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    stamp = tmp_path / "other" / ".ready"
    stamp.parent.mkdir()
    stamp.touch()
    (machine.checkout / ".venv").symlink_to(stamp.parent)
    done = machine.set_up()
    assert (done.returncode, "remove the link first" in done.stderr, stamp.exists()) == (1, True, True)


def test_a_moved_checkout_creates_its_environment_again(machine: Machine) -> None:
    machine.set_up()
    moved = Machine(machine.root, machine.checkout.with_name("moved"))
    machine.checkout.rename(moved.checkout)
    moved.set_up()
    assert f"python3.11 -m venv {moved.checkout}/.venv" in machine.calls("python3.11")


def test_without_a_usable_python_that_of_debian_is_installed(machine: Machine) -> None:
    machine.add("python3.11", "exit 1\n")
    machine.add("apt-get", 'case "$*" in *install*) cp "$MACHINE/bin/spare" "$MACHINE/bin/python3";; esac\n')
    machine.add("spare", PYTHON)
    assert (machine.set_up().returncode, installed(machine)) == (0, {"python3", "python3-venv"})


def test_the_packages_are_counted_while_pip_installs_them(machine: Machine) -> None:
    machine.add(
        "python3.11",
        f"{PYTHON}\necho 'Looking in indexes: https://index.example'\necho 'Collecting click==8.1 (from x)'\n",
    )
    err = machine.set_up().stderr
    assert re.search(r"setup:   1 of \d+: click==8\.1\n", err)
    assert "index.example" not in err


def test_what_pip_printed_is_shown_if_it_fails(machine: Machine) -> None:
    machine.add(
        "python3.11", f'{PYTHON}\ncase "$*" in *"pip install"*) echo "ERROR: hashes do not match"; exit 1;; esac\n'
    )
    done = machine.set_up()
    assert (done.returncode, "ERROR: hashes do not match" in done.stderr) == (1, True)


def test_the_setup_of_this_checkout_is_executable() -> None:
    assert os.access(ROOT / "bin/setup", os.X_OK)
