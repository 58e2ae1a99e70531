"""A machine that systemd boots beside a private cell: the units of conf/, as an operator installs them.

It shares the cell's network and name, and has users, processes, mounts and cgroups of its own, on a layer over this
machine's files that goes with it. The cell lies below /var/lib: units make /tmp, /run and /home inaccessible.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.lab.cell import Cell
from autoscaler.process import Completed, SystemRunner
from bench.changed import LINKED
from tests.grid_engine.waiting import wait_until

HERE, CHECKOUT = Path(__file__).parent, Path(__file__).parents[2]
UNITS = CHECKOUT / "conf"
ACCOUNT = "sge-autoscaler"
PROGRAM = """\
#!/bin/sh
export LD_LIBRARY_PATH="/opt/python/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH=/opt/sge-autoscaler/lib:/opt/sge-autoscaler/packages PYTHONDONTWRITEBYTECODE=1
exec /opt/python/bin/python{version} -s -m autoscaler.commands.main "$@"
"""
BY_SYSTEMD = Path("/lib/systemd/systemd")


def cannot_boot() -> str | None:
    """Why no machine can be booted here; None: no obstacle is known."""
    if not BY_SYSTEMD.exists():
        return f"there is no {BY_SYSTEMD}"
    if not any(Path(tree, "cgroup.procs").exists() for tree in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")):
        return "there are no cgroups of version 2"
    return None


@dataclass(frozen=True, slots=True)
class Machine:
    """A booted one. `pid`: of its systemd, as the cell numbers it."""

    cell: Cell
    pid: int

    def run(self, *argv: str, stdin: str = "", timeout: float = 120.0) -> Completed:
        """A command of root's, successful or not."""
        kinds = ("--pid", "--mount", "--ipc", "--cgroup", "--root")
        return self.cell.runner(
            ("nsenter", f"--target={self.pid}", *kinds, "--wdns=/", "--", *argv),
            timeout=timeout,
            stdin=stdin.encode(),
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"},
        )

    def out(self, *argv: str, stdin: str = "") -> str:
        """What a command of root's printed that must succeed."""
        done = self.run(*argv, stdin=stdin)
        assert done.returncode == 0, (argv, done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode()

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """A file of root's."""
        self.out("install", "-D", "-m", mode, "/dev/stdin", path, stdin=text)

    def install(self, *units: str, environment: Mapping[str, str]) -> None:
        """Units of conf/, and the environment of an operator's shell."""
        for unit in units:
            self.write(f"/etc/systemd/system/{unit}", (UNITS / unit).read_text(encoding="utf-8"))
        self.write("/etc/default/sge-autoscaler", "".join(f"{name}={value}\n" for name, value in environment.items()))
        self.out("systemctl", "daemon-reload")

    def start(self, *units: str) -> None:
        done = self.run("systemctl", "start", *units)
        assert done.returncode == 0, (done.stderr.decode(), *map(self.log_text, units))

    def log_text(self, unit: str) -> str:
        """All that a unit has logged."""
        return self.run("journalctl", "--unit", unit, "--output=cat", "--no-pager").stdout.decode(errors="replace")

    def command(self, *words: str) -> Completed:
        """`sge-autoscaler WORDS` in root's shell, as docs/operate/install.md has it."""
        script = 'set -a; . /etc/default/sge-autoscaler; set +a; exec sge-autoscaler "$@"'
        return self.run("sh", "-c", script, "sh", *words)


@contextlib.contextmanager
def cell_and_machine(lower: Path = Path("/")) -> Iterator[Machine]:
    """An empty cell whose manager is our account too, and a booted machine beside its qmaster. `lower`: another root
    directory for it, in which our program is not installed.
    """
    directory = Path(tempfile.mkdtemp(prefix="sge-autoscaler-cell-", dir="/var/lib"))
    try:
        directory.chmod(0o755)
        with Cell.up(directory=directory / "cell", scheduler={"schedule_interval": "0:0:1"}) as cell:
            cell.out("qconf", "-am", ACCOUNT)
            with _booted(cell, directory / "machine", lower) as machine:
                yield machine
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _booted(cell: Cell, place: Path, lower: Path) -> Iterator[Machine]:
    (place / "layer").mkdir(parents=True)
    _program(place / "program")
    log = place / "console"
    log.touch()
    packages = sysconfig.get_path("purelib")
    mine = (str(cell.directory), sys.base_prefix, packages, place.parent.name, str(lower))
    argv = (str(HERE / "boot.sh"), str(place), *mine)
    running = cell.start(argv, output=log)
    try:
        wait_until(lambda: (place / "pid").exists() or running.poll() is not None, 30, "the machine does not boot")
        assert running.poll() is None, log.read_text()
        machine = Machine(cell, int((place / "pid").read_text()))
        try:
            # `degraded`: some unit of this machine's system does not start in namespaces
            wait_until(lambda: _state(machine) in ("running", "degraded"), 60, "its units do not start")
            if lower == Path("/"):
                machine.out("useradd", "--system", "--user-group", "--home-dir", "/var/lib/sge-autoscaler", ACCOUNT)
                machine.write("/usr/local/bin/sge-autoscaler", PROGRAM.format(version=_version()), "755")
            yield machine
        finally:
            cell.runner(("kill", "-KILL", str(machine.pid)), timeout=60.0)
    finally:
        running.terminate(5.0)
        _drop_cgroup(place / "cgroup")


def _state(machine: Machine) -> str:
    return machine.run("systemctl", "is-system-running").stdout.decode().strip()


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _program(place: Path) -> None:
    """What `pip install` would make, of this checkout."""
    program = place / "lib" / "autoscaler"
    shutil.copytree(CHECKOUT / "autoscaler", program, ignore=lambda _, names: [*{"__pycache__", *LINKED} & {*names}])
    for folder in ("conf", *LINKED):
        shutil.copytree(CHECKOUT / folder, program / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "packages").mkdir()


def _drop_cgroup(found: Path) -> None:
    """The kernel lets a cgroup go once its last process is reaped."""
    with contextlib.suppress(FileNotFoundError):
        drop = ("find", found.read_text().strip(), "-depth", "-type", "d", "-delete")
        wait_until(lambda: SystemRunner()(drop, timeout=60).returncode == 0, 30, "the cgroup stays")
