"""The autoscaler in a real cell as an operator uses it: settings in the environment, commands, and their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.lab.cell import Cell
from autoscaler.lab.demo import TaskEnd, read_task_ends
from autoscaler.process import Completed, Running
from autoscaler.sge.qstat import COMMAND, read_qstat
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store
from tests import samples
from tests.deadlines import wait_for
from tests.grid_engine import forked

QUICK = {
    "CP_CAP_AUTOSCALE_PROVIDER": "local",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "0.5",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "0.3",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
}
"""An operator in a hurry: nothing waits longer than it must."""


_SERVED = re.compile(r"(?m)^(?:workers ask|REST API) at ")


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """`settings` under their environment names lie over QUICK."""

    cell: Cell
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.cell.home / "state"

    @property
    def log(self) -> Path:
        return self.cell.home / "autoscaler.log"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "CP_CAP_AUTOSCALE_WORKDIR": str(self.state),
            "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(self.cell.tree.directory),
            "CP_CAP_AUTOSCALE_LOCAL_STATE": str(self.cell.home / "machines"),
        }
        return {**self.cell.environment, **QUICK, **own, **self.settings}

    def command(self, *words: str, timeout: float = 180.0) -> Completed:
        """`sge-autoscaler WORDS` on the master, until it ends."""
        if samples.thorough():
            return self.cell.runner(("sge-autoscaler", *words), timeout=timeout, env=self.environment)
        return forked.run(self.cell, words, timeout=timeout, env=self.environment)

    def plan(self, *words: str) -> dict[str, Any]:
        """The document of `sge-autoscaler plan --json`."""
        done = self.command("plan", "--json", *words)
        assert done.returncode == 0, done.stderr.decode()
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @contextmanager
    def running(self, **env: str) -> Iterator[Running]:
        """`sge-autoscaler run` beside the test; ended with SIGTERM when the block ends, if it still lives. Where the
        settings have an address, `serve` beside it.
        """
        with self.serving(**env), self._beside("run", env) as running:
            yield running

    @contextmanager
    def serving(self, **env: str) -> Iterator[None]:
        """`sge-autoscaler serve` beside the test, where the settings have an address."""
        addresses = {"CP_CAP_AUTOSCALE_HTTP", "CP_CAP_AUTOSCALE_AUTOSTOP"} & {*self.environment, *env}
        if not addresses:
            yield
            return
        before = len(_SERVED.findall(self.log_text()))
        with self._beside("serve", env):
            wait_for(lambda: len(_SERVED.findall(self.log_text())) == before + len(addresses), 30, step=0.05)
            yield

    @contextmanager
    def _beside(self, command: str, env: Mapping[str, str]) -> Iterator[Running]:
        self.log.touch()
        environment = {**self.environment, **env}
        if samples.thorough():
            running = self.cell.start(("sge-autoscaler", command), env=environment, output=self.log)
        else:
            running = forked.start(self.cell, (command,), env=environment, output=self.log)
        try:
            yield running
        finally:
            running.terminate(120.0)

    def log_text(self) -> str:
        """All that the running autoscaler has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Every worker that was ever observed, as the store has it."""
        files = sorted(self.state.glob("*.sqlite"))
        if not files:
            return ()
        store = Store.open(files[0])
        try:
            return store.history.lifetimes()
        finally:
            store.close()

    def living(self) -> dict[str, str]:
        """Host name → instance type of workers that exist."""
        return {one.name or one.worker_id: one.instance_type for one in self.lifetimes() if one.ended_at is None}

    def execution_hosts(self) -> set[str]:
        """The hosts that `qconf -sel` lists; without any it fails with a message."""
        listed = self.cell.runner(("qconf", "-sel"), timeout=60.0)
        if listed.returncode != 0:
            assert b"no execution host defined" in listed.stderr, listed.stderr.decode()
        return set(listed.stdout.decode().split())

    def instances(self) -> dict[str, QueueInstance]:
        """Every queue instance with its jobs, under its name (`main.q@w1`)."""
        listing = read_qstat(self.cell.out(*COMMAND).encode(), UTC)
        return {f"{instance.queue}@{instance.host}": instance for instance in listing.instances}

    def running_on(self, job: str) -> dict[str, int]:
        """Host → how many slots this job occupies there now, all its tasks together, in whatever state."""
        slots: dict[str, int] = {}
        for instance in self.instances().values():
            for one in instance.jobs:
                if one.number == int(job):
                    slots[instance.host] = slots.get(instance.host, 0) + one.slots
        return slots

    def ends(self, job: str) -> tuple[TaskEnd, ...]:
        """Each ended task of a job in Grid Engine's accounting."""
        found = self.cell.runner(("qacct", "-j", job), timeout=60.0)
        return read_task_ends(found.stdout.decode("utf-8", "replace")) if found.returncode == 0 else ()

    def ended_well(self, job: str, tasks: int = 1) -> bool:
        """Whether this many tasks of a job have ended, each without failure and with exit status 0."""
        ends = self.ends(job)
        return len(ends) == tasks and all(end.well for end in ends)

    def rented(self) -> set[str]:
        """Machines that the provider runs now."""
        return set(self.cell.tree.hosts()) - {host.name for host in self.cell.declared}

    def all_gone(self) -> bool:
        """Whether there were workers, and none is left: not in the store, nor at the provider, nor in Grid Engine."""
        lifetimes = self.lifetimes()
        if not lifetimes or self.rented() or any(one.ended_at is None for one in lifetimes):
            return False
        shown = {*self.execution_hosts(), *self.cell.out("qhost").split()}
        return shown.isdisjoint(one.name for one in lifetimes)

    def explained(self, subject: str) -> dict[str, Any]:
        """The answer of `sge-autoscaler explain SUBJECT --json`, of a pass that began after the call."""
        asked, answers = datetime.now(UTC), [dict[str, Any]()]

        def fresh() -> bool:
            done = self.command("explain", subject, "--json")
            assert done.returncode == 0, done.stderr.decode()
            answers[0] = json.loads(done.stdout)
            return answers[0].get("state") == "ended" or datetime.fromisoformat(answers[0]["now"]) >= asked

        assert wait_for(fresh, 30.0)
        return answers[0]


def most_at_once(lifetimes: Iterable[Lifetime]) -> int:
    """How many of these workers existed at the same time, at most."""
    lives = list(lifetimes)
    begun = [one.created_at for one in lives]
    return max((sum(one.created_at <= at and (one.ended_at or at) >= at for one in lives) for at in begun), default=0)
