"""The autoscaler in a real cell as an operator has it: settings in the environment, commands, and what they leave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoscaler.process import Completed, Running
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store
from sge.cell import Cell

QUICK = {
    "CP_CAP_AUTOSCALE_PROVIDER": "local",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "1",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "1",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
}
"""An operator in a hurry: nothing waits longer than it must."""


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

    def command(self, *words: str, timeout: float = 60.0) -> Completed:
        """`sge-autoscaler WORDS` on the master, to its end."""
        return self.cell.runner(("sge-autoscaler", *words), timeout=timeout, env=self.environment)

    def plan(self, *words: str) -> dict[str, Any]:
        """The document of `sge-autoscaler plan --json`."""
        done = self.command("plan", "--json", *words)
        assert done.returncode == 0, done.stderr.decode()
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @contextmanager
    def running(self, **env: str) -> Iterator[Running]:
        """`sge-autoscaler run` beside the test; ended with SIGTERM when the block ends, if it still lives."""
        self.log.touch()
        running = self.cell.start(("sge-autoscaler", "run"), env={**self.environment, **env}, output=self.log)
        try:
            yield running
        finally:
            running.terminate(10.0)

    def said(self) -> str:
        """All that the running autoscaler has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Every worker that was ever seen, as the store tells it."""
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
        return set(self.cell.out("qconf", "-sel").split())
