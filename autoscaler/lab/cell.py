"""A private Grid Engine cell with several hosts on one machine: for tests, the demo and curiosity.

One namespace tree is one cell: the qmaster runs in the tree itself (host `master`, 10.1.0.1), every execution host is a
host of the tree with its own `sge_execd`, and all of it ends with the process that holds the cell. A process in the
cell (the autoscaler, its `local` provider) finds it again with `Cell.at`. Grid Engine's configuration is in
`conf/cell/`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler import namespaces
from autoscaler.lab import cell_folder, private_root
from autoscaler.lab.private_root import LIVELY_SCHEDULER, MASTER, CellError, done, render
from autoscaler.namespaces import EnteringRunner, Tree
from autoscaler.process import Running, SystemRunner
from autoscaler.sge.qconf import replaced

FIRST_HOST = 200
"""Declared hosts have the addresses from here on; lower ones are for workers that come and go."""
STEP = 0.05
"""Seconds between two checks whether something has come up."""


@dataclass(frozen=True, slots=True)
class ExecHost:
    """A planned execution host: `slots` is free, a machine of two cores may serve 64. `complexes` besides slots."""

    name: str
    slots: int = 2
    complexes: Mapping[str, str] = field(default_factory=dict)

    @property
    def complex_values(self) -> str:
        return ",".join(f"{name}={value}" for name, value in {"slots": str(self.slots), **self.complexes}.items())


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell by its directory, from inside or outside. `reset` restores `declared` and `prepared`."""

    directory: Path
    declared: tuple[ExecHost, ...] = ()
    prepared: bool = True
    scheduler: Mapping[str, str] = field(default_factory=lambda: dict(LIVELY_SCHEDULER))

    @classmethod
    @contextlib.contextmanager
    def up(
        cls,
        *,
        hosts: int | Sequence[ExecHost] = 0,
        directory: Path | None = None,
        prepared: bool = True,
        scheduler: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> Iterator[Cell]:
        """A cell that lives until the block ends or this process does; under a second with two hosts.

        `hosts` are its persistent execution hosts (a number: that many with 2 slots each; one named `master` runs its
        execd beside the qmaster). `directory` must be new, and every user must be able to reach and read it, because
        Grid Engine's daemons give up root; it is left behind (None: one in `cell_folder`, removed at the end).
        `scheduler` and `configuration` are laid over the lively defaults. Without `prepared` it is a bare master as
        just installed: no queue, host group, PE or submit host. Raises CellError or NamespaceError.
        """
        if isinstance(hosts, int):
            hosts = [ExecHost(namespaces.default_name(FIRST_HOST + number)) for number in range(hosts)]
        with contextlib.ExitStack() as stack:
            place = directory or stack.enter_context(cell_folder.claim())
            cell = cls(place, tuple(hosts), prepared, {**LIVELY_SCHEDULER, **(scheduler or {})})
            cell._lay_out()
            stack.enter_context(namespaces.own_tree(cell.tree.directory, names=cell._names()))
            private_root.hide(cell.tree.runner, cell.directory / "aside")
            private_root.make_root(
                cell.root,
                cell.runner,
                spool=cell.tree.private,
                host=MASTER if prepared else None,
                changes=configuration or {},
            )
            request = cell.root / "default" / "common" / "sge_request"
            request.write_text(f"-o {cell.output}\n-e {cell.output}\n")
            cell._copy(cell.root / "default", cell.root / "pristine")
            cell._begin()
            yield cell

    @classmethod
    def at(cls, directory: Path) -> Cell:
        """The living cell of `directory`, started elsewhere; it can do all but reset. Raises CellError if none lives
        there.
        """
        cell = cls(directory)
        if namespaces.holder(cell.tree.directory / "first") is None:
            raise CellError(f"no cell lives in {directory}")
        return cell

    @property
    def tree(self) -> Tree:
        return Tree(self.directory / "tree")

    @property
    def root(self) -> Path:
        """SGE_ROOT."""
        return self.directory / "sge"

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def output(self) -> Path:
        """Jobs write their output here unless they say -o and -e; emptied by `reset`."""
        return self.directory / "output"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a process in the cell."""
        return private_root.environment(self.root, self.home)

    @property
    def runner(self) -> EnteringRunner:
        """Runs argv on the master, with the cell's environment unless it gets another."""
        return EnteringRunner(self.tree.directory / "first", self.environment)

    def host_runner(self, name: str) -> EnteringRunner:
        """Runs argv on an execution host, with the cell's environment unless it gets another."""
        if name == MASTER:
            return self.runner
        return EnteringRunner(self.tree.place(name) / "first", self.environment)

    def out(self, *argv: str, stdin: str = "") -> str:
        """The output of a command on the master. Raises CellError if it failed."""
        return done(self.runner, *argv, stdin=stdin.encode())

    def submit(self, *argv: str) -> str:
        """The number of the new job that `qsub` makes of `argv`, without the tasks of an array.

        While no queue has an instance, `qsub` submits and yet fails ("job is not allowed to run in any queue"). Raises
        CellError if no job was made.
        """
        ended = self.runner(("qsub", *argv), timeout=private_root.TIMEOUT)
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace")
        made = re.search(r"Your job(?:-array)? (\d+)\b.* has been submitted", output)
        if made is None:
            raise CellError(f"qsub {' '.join(argv)}: {output.strip()}")
        return made[1]

    def start(
        self,
        argv: Sequence[str],
        *,
        host: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        output: Path | None = None,
        terminal: bool = False,
    ) -> Running:
        """Start a long-lived child in the cell (on the master, or on `host`); `env` is laid over the environment."""
        return namespaces.start_in(
            self.tree,
            host,
            argv,
            env={**self.environment, **(env or {})},
            cwd=cwd or self.home,
            output=output,
            terminal=terminal,
        )

    def add_host(self, host: ExecHost, *, wait: bool = True) -> None:
        """Add a persistent execution host: machine, enrolment, execd; in main.q if the cell is prepared."""
        if host.name != MASTER:
            namespaces.start_host(self.tree, host.name)
        self.enrol(host)
        self.start_execd(host.name)
        if wait:
            self.wait_for_report(host.name)

    def enrol(self, host: ExecHost) -> None:
        """Make it an execution host, as an administrator would."""
        self._define("-Ae", "exechost", name=host.name, complex_values=host.complex_values)
        if self.prepared:
            self.out("qconf", "-aattr", "queue", "slots", f"[{host.name}={host.slots}]", "main.q")
            self.out("qconf", "-aattr", "hostgroup", "hostlist", host.name, "@allhosts")

    def start_execd(self, name: str) -> None:
        """Start the execd of a living machine; `wait_for_report` waits until it has reported.

        With SGE_ND it does not make itself a daemon, which takes 2 s for sleeps; so its first report comes after 0.1 s.
        """
        host = None if name == MASTER else name
        output = self.directory / "execd-output"
        argv = ("setsid", "--fork", "sge_execd")
        self.start(argv, host=host, env={"SGE_ND": "1"}, output=output).wait(private_root.TIMEOUT)

    def wait_for_report(self, name: str) -> None:
        """Until the qmaster has load values of the host."""
        self._until(lambda: "load_avg=" in self.out("qconf", "-se", name), f"{name} did not report")

    def end_host(self, name: str) -> None:
        """Sudden death of the machine; Grid Engine is not notified."""
        namespaces.end_host(self.tree, name)

    def reset(self) -> None:
        """Back to the state after `up`: every process and machine of the cell is killed, its spool restored, all
        started anew.

        Job numbers start at 1 again; accounting, output and hosts of others are gone. Raises CellError.
        """
        lock = self.tree.directory / "first"
        machines = list(self.tree.hosts())
        # kill(-1) in the tree reaches all of it except PID 1, whatever a test has left behind.
        SystemRunner()(namespaces.entering(lock, ("kill", "-KILL", "--", "-1")), timeout=private_root.TIMEOUT)
        for name in machines:
            namespaces.end_host(self.tree, name)
        private = [str(path) for path in (self.root / "default", *self.output.iterdir(), *self.home.iterdir())]
        done(self.runner, "rm", "-rf", "--", *private)
        done(self.runner, "find", str(self.tree.private), "-mindepth", "1", "-delete")
        self._begin(restarted=True)

    def configure(self, **values: str) -> None:
        """Change the global configuration: `configure(max_unheard="00:00:05")`."""
        file = self.directory / "global"  # qconf takes the file's name for the host's
        file.write_text(replaced(self.out("qconf", "-sconf"), values))
        self.out("qconf", "-Mconf", str(file))

    def schedule(self, **values: str) -> None:
        """Change the scheduler's configuration: `schedule(schedule_interval="0:0:1")`."""
        file = self.directory / "scheduler"
        file.write_text(replaced(self.out("qconf", "-ssconf"), values))
        self.out("qconf", "-Msconf", str(file))

    def stop_qmaster(self) -> None:
        """Kill the qmaster at once; `qconf -km` takes 5 s."""
        pid = (self.root / "default/spool/qmaster/qmaster.pid").read_text().strip()
        self.out("kill", "-KILL", pid)

    def start_qmaster(self) -> None:
        """Start the qmaster, also after `stop_qmaster`, and wait until it answers."""
        self.out("sge_qmaster")
        # For a moment after sge_qmaster has returned, qconf fails with an error of commlib.
        self._until(self._answers, "the qmaster does not answer")

    def _lay_out(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for folder, mode in ((self.directory, 0o755), (self.output, 0o1777), (self.home, 0o755)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)

    def _names(self) -> dict[int, str]:
        named = [host.name for host in self.declared if host.name != MASTER]
        return {1: MASTER} | {FIRST_HOST + number: name for number, name in enumerate(named)}

    def _begin(self, *, restarted: bool = False) -> None:
        """From a pristine spool to the declared cell. The first spool is kept for the next start (`restarted`),
        since the dozen commands that configure it take longer than a start.
        """
        kept = self.root / f"kept-{self.prepared}-{'-'.join(host.name for host in self.declared)}"
        declared = kept.exists()
        if restarted:
            self._copy(kept if declared else self.root / "pristine", self.root / "default")
        with ThreadPoolExecutor(max_workers=4) as threads:
            machines = [
                threads.submit(namespaces.start_host, self.tree, host.name)
                for host in self.declared
                if host.name != MASTER
            ]
            self.start_qmaster()
            if not declared:
                self._declare()
                if restarted:
                    self.stop_qmaster()
                    self._copy(self.root / "default", kept)
                    self.start_qmaster()
            for machine in machines:
                machine.result()
        for host in self.declared:
            self.start_execd(host.name)
        for host in self.declared:
            self.wait_for_report(host.name)

    def _declare(self) -> None:
        """Configure the qmaster with everything that the cell consists of."""
        self.schedule(**self.scheduler)
        if self.prepared:
            self._prepare()
        for host in self.declared:
            self.enrol(host)

    def _copy(self, source: Path, target: Path) -> None:
        done(self.runner, "cp", "-a", str(source), str(target))

    def _prepare(self) -> None:
        self._define("-Ahgrp", "hostgroup")
        self._define("-Ap", "pe", name="local", allocation_rule="$pe_slots", control_slaves="FALSE")
        self._define("-Ap", "pe", name="mpi", allocation_rule="$fill_up", control_slaves="TRUE")
        self._define("-Aq", "queue", private=self.tree.private)

    def _define(self, switch: str, template: str, **values: object) -> None:
        file = self.directory / template
        file.write_text(render(template, **values))
        self.out("qconf", switch, str(file))

    def _answers(self) -> bool:
        return self.runner(("qconf", "-sh"), timeout=private_root.TIMEOUT).returncode == 0

    def _until(self, reached: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + private_root.TIMEOUT
        while not reached():
            if time.monotonic() > deadline:
                raise CellError(f"{otherwise} within {private_root.TIMEOUT:g} s; see {self.root}/default/spool")
            time.sleep(STEP)
