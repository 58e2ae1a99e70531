"""Cloud Pipeline's side of a master run, played on a real cell: the profiles of queues, the loop that starts a process
for each, and the tool that finds, ends, verifies and starts them.

What each does, and where that stands in the platform's sources (workflows/pipe-common), is said beside it. The platform
itself is played by a server of the tests (`lab.played_cloud`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autoscaler.engine.queue_register import QueueRegister
from autoscaler.lab.cell import Cell
from autoscaler.lab.private_root import MASTER
from autoscaler.process import Completed
from autoscaler.store.history import Lifetime
from autoscaler.store.lock import LOCKS as REGISTERS
from autoscaler.store.lock import CellKey
from autoscaler.store.store import Store

STEP = 0.1
SET_UP = "sge_setup_master"
LOCKS = Path("/run/sge-autoscaler")
"""Where the shim keeps locks, of each cell by its SGE_ROOT."""
NAME, GROUP = "CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME"
COMMON = {
    NAME: "main.q",
    GROUP: "@allhosts",
    "CP_CAP_SGE_QUEUE_STATIC": "true",
    "CP_CAP_SGE_QUEUE_DEFAULT": "true",
    "CP_CAP_AUTOSCALE_TASK": "SGEAutoscaling",
    "CP_CAP_SLURM": "false",
}
"""What the launcher adds to the profile of the first queue (scripts/generate_sge_profiles.py); a name and a host group
that the run gives it stay.
"""
_SUFFIXED = re.compile(r"(CP_CAP_(?:SGE|AUTOSCALE)(?:_\D+)*)_(\d+)")
_ORIGINAL = """import os, time
print("the platform's own autoscaler of %s" % os.environ.get("CP_CAP_SGE_QUEUE_NAME"))
import sys
sys.stdout.flush()
time.sleep(3600)
"""


@dataclass(frozen=True, slots=True)
class Launcher:
    """One master run. `run`: its variables, as a person sets them on the launch page, with those of the container."""

    cell: Cell
    run: Mapping[str, str]
    python: str = "python3"
    shared: Path | None = None
    """A CommonRepo that several masters share."""

    @property
    def repo(self) -> Path:
        return self.shared or self.cell.home / "CommonRepo"

    @property
    def script(self) -> Path:
        return self.repo / "scripts" / "autoscale_grid_engine.py"

    @property
    def profiles(self) -> Path:
        return self.cell.home / "cap_scripts"

    @property
    def logs(self) -> Path:
        return self.cell.home / "logs"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a shell in the master's container."""
        own = {
            "COMMON_REPO_DIR": str(self.repo),
            "CP_CAP_SCRIPTS_DIR": str(self.profiles),
            "CP_PYTHON2_PATH": self.python,
            "LOG_DIR": str(self.logs),
            "CP_CAP_AUTOSCALE_WORKDIR": str(self.cell.home / "state"),
        }
        return {**self.cell.environment, **own, **self.run}

    def lay_out(self) -> None:
        """The folders of a run, the CommonRepo with the platform's own script."""
        for folder in (self.script.parent, self.profiles, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.script.write_text(_ORIGINAL)

    def generate(self) -> dict[str, str]:
        """Write the profiles: two files a queue (scripts/generate_sge_profiles.py). Returns the queues, each with its
        host group.
        """
        ours = {name: value for name, value in self.run.items() if name.startswith(("CP_CAP_SGE", "CP_CAP_AUTOSCALE"))}
        common = {name: value for name, value in ours.items() if not _SUFFIXED.fullmatch(name)}
        further: dict[str, dict[str, str]] = {}
        for name, value in ours.items():
            if match := _SUFFIXED.fullmatch(name):
                further.setdefault(match[2], {})[match[1]] = value
        first = {name: common[name] for name in (NAME, GROUP) if common.get(name)}
        chosen = [] if common.get("CP_CAP_SGE_DISABLE_DEFAULT_QUEUE") == "true" else [{**common, **COMMON, **first}]
        for own in further.values():
            queue = own.get(NAME) or f"{own['CP_CAP_AUTOSCALE_INSTANCE_TYPE']}.q"
            named = {NAME: queue, GROUP: f"@{queue}", "CP_CAP_SLURM": "false"}
            chosen.append({**common, "CP_CAP_AUTOSCALE": "false", **own, **named})
        for profile in chosen:
            self.write(profile)
        return {profile[NAME]: profile[GROUP] for profile in chosen}

    def write(self, profile: Mapping[str, str]) -> None:
        """Exports of the queue, which then source those that a person edits. Existing files are left alone."""
        queue = profile["CP_CAP_SGE_QUEUE_NAME"]
        edited = {name: text for name, text in profile.items() if _edited(name)}
        if not self.edited(queue).exists():
            self.edited(queue).write_text(_exports(edited))
            rest = {name: text for name, text in profile.items() if name not in edited}
            self.sourced(queue).write_text(_exports(rest) + f"\n. {self.edited(queue)}\n")

    def sourced(self, queue: str) -> Path:
        return self.profiles / f"sge_profile_{queue}_queue.sh"

    def edited(self, queue: str) -> Path:
        return self.profiles / f"sge_profile_{queue}_autoscaling.sh"

    def console(self, queue: str) -> Path:
        return self.logs / f".nohup.autoscaler.sge.{queue}.log"

    def log_text(self, queue: str) -> str:
        file = self.logs / f"autoscaler.sge.{queue}.log"
        return file.read_text() if file.exists() else ""

    def shown(self) -> str:
        """All logs and outputs, for a failure's report."""
        files = (*sorted(self.logs.glob("*autoscaler*.log")), *sorted(self.logs.glob(".nohup*.log")))
        return "\n".join(f"-- {file.name}\n{file.read_text(errors='replace')}" for file in files)

    # -- what the platform does ----------------------------------------------------------------------------------

    def start_all(self) -> None:
        """The end of shell/sge_setup_master: each profile is sourced in a subshell, which starts the script."""
        self.shell(
            'for profile in "$CP_CAP_SCRIPTS_DIR"/sge_profile_*_queue.sh; do ( source "$profile"; '
            'nohup "$CP_PYTHON2_PATH" "$COMMON_REPO_DIR/scripts/autoscale_grid_engine.py" '
            '>"$LOG_DIR/.nohup.autoscaler.sge.$CP_CAP_SGE_QUEUE_NAME.log" 2>&1 & ) done'
        )

    def start(self, queue: str) -> None:
        """`_launch_autoscaler` of scripts/manage_sge_profiles.py."""
        self.shell(
            f'source "{self.sourced(queue)}"\nnohup "$CP_PYTHON2_PATH" "{self.script}" '
            '>"$LOG_DIR/.nohup.autoscaler.sge.$CP_CAP_SGE_QUEUE_NAME.log" 2>&1 &'
        )

    def verify(self, sourced: Path) -> Completed:
        """`_verify_profile` there."""
        return self.shell(
            'export CP_CAP_AUTOSCALE_LOGGING_LEVEL_RUN="ERROR"\nexport CP_CAP_AUTOSCALE_LOGGING_LEVEL_FILE="ERROR"\n'
            'export CP_CAP_AUTOSCALE_LOGGING_LEVEL_CONSOLE="INFO"\n'
            'export CP_CAP_AUTOSCALE_LOGGING_FORMAT="%(message)s"\n'
            f'export CP_CAP_AUTOSCALE_DRY_INIT="true"\nsource "{sourced}"\n"$CP_PYTHON2_PATH" "{self.script}"\n'
        )

    def pids(self, queue: str) -> list[int]:
        """`_get_processes` there: by the script's path among the arguments, and the queue in the environment. It sees
        no process of another master, which a shared script would not tell apart.
        """
        found = []
        wanted = (str(self.script).encode(), f"CP_CAP_SGE_QUEUE_NAME={queue}".encode())
        own = f"SGE_ROOT={self.cell.root}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                arguments, environment = ((process / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
            except OSError:
                continue
            if wanted[0] in arguments and wanted[1] in environment and own in environment:
                found.append(int(process.name))
        return found

    def terminate(self, queue: str) -> None:
        """`_stop_autoscaler` there: it does not wait."""
        for pid in self.pids(queue):
            os.kill(pid, signal.SIGTERM)

    def restart(self, queue: str) -> None:
        """`sge restart`."""
        self.terminate(queue)
        self.start(queue)

    def configure(self, queue: str, **changes: str) -> Completed:
        """`sge configure`: end, verify, keep or take back, start. Returns the verification."""
        edited = self.edited(queue)
        copy, queue_copy = self.cell.home / "edited.sh", self.cell.home / "queue.sh"
        copy.write_text(_with(edited.read_text(), changes))
        queue_copy.write_text(self.sourced(queue).read_text().replace(str(edited), str(copy)))
        self.terminate(queue)
        verified = self.verify(queue_copy)
        if verified.returncode == 0:
            shutil.move(copy, edited)
        self.start(queue)
        return verified

    def edit(self, queue: str, **changes: str) -> None:
        """A person edits a profile before its process is started."""
        self.edited(queue).write_text(_with(self.edited(queue).read_text(), changes))

    def resume(self) -> Completed:
        """What the platform does in a container that was paused: an image's own `sge_setup_master`, here ours, and
        through it the platform's, which starts Grid Engine's daemons again and no autoscaler (shell/sge_setup_master).
        """
        platform = self.repo / "shell" / SET_UP
        platform.parent.mkdir(exist_ok=True)
        platform.write_text("#!/bin/sh\nexit 0\n")
        platform.chmod(0o755)
        ours = files("autoscaler.conf").joinpath("cloud_pipeline", SET_UP)
        given = {**self.environment, "RESUMED_RUN": "true"}
        return self.cell.runner(("bash", str(ours)), timeout=120.0, env=given)

    def shell(self, text: str) -> Completed:
        return self.cell.runner(("bash", "-c", text), timeout=120.0, env=self.environment)

    # -- what a person sees --------------------------------------------------------------------------------------

    def command(self, *words: str) -> Completed:
        """`sge-autoscaler WORDS` in a shell of the master."""
        return self.cell.runner(("sge-autoscaler", *words), timeout=120.0, env=self.environment)

    def lifetimes(self) -> tuple[Lifetime, ...]:
        files = sorted((self.cell.home / "state").glob("*.sqlite"))
        if not files:
            return ()
        store = Store.open(files[0])
        try:
            return store.history.lifetimes()
        finally:
            store.close()

    @contextmanager
    def launched(self, only: Sequence[str] = ()) -> Iterator[None]:
        """All processes, or those of these queues, until the end of the block."""
        for queue in only:
            self.start(queue)
        if not only:
            self.start_all()
        try:
            yield
        finally:
            queues = [file.name.removeprefix("sge_profile_").removesuffix("_queue.sh") for file in self._all()]
            for number in (signal.SIGTERM, signal.SIGKILL):
                for queue in queues:
                    for pid in self.pids(queue):
                        os.kill(pid, number)
                if _soon(lambda: not any(map(self.pids, queues)), 60.0):
                    break
            self._forget()

    def _forget(self) -> None:
        """The shim's locks, and the numbers and former settings of queues: the next run of this cell is another one."""
        port, root = int(self.cell.environment["SGE_QMASTER_PORT"]), str(Path(self.cell.root).resolve())
        locks = [LOCKS / f"{lock}{root}-default".replace("/", "-") for lock in ("choosing", "ours", "platform")]
        register = QueueRegister.of(CellKey(MASTER, port, "default", root), REGISTERS).directory
        self.cell.runner(("rm", "-rf", *map(str, (*locks, register))), timeout=60.0)

    def _all(self) -> list[Path]:
        return sorted(self.profiles.glob("sge_profile_*_queue.sh"))


def _soon(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(STEP)
    return True


def _edited(name: str) -> bool:
    """Parameters of the file that a person edits; all others are the queue's."""
    return name.startswith("CP_CAP_AUTOSCALE") and not name.endswith("TASK")


def _exports(values: Mapping[str, str]) -> str:
    return "".join(f'export {name}="{text}"\n' for name, text in sorted(values.items()))


def _with(text: str, changes: Mapping[str, str]) -> str:
    """The text of a profile with other exports."""
    return "".join(line for line in text.splitlines(keepends=True) if not _sets(line, changes)) + _exports(changes)


def _sets(line: str, names: Mapping[str, str]) -> bool:
    return any(line.startswith(f"export {name}=") for name in names)


def kill(pid: int) -> None:
    """SIGKILL, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    _soon(lambda: not Path(f"/proc/{pid}").exists(), 10.0)
