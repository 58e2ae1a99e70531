"""Events of machines that nobody requested: interruption notices, sudden death, freezing, a machine's own shutdown.

For the demo and for tests, which play them on machines of this control plane. A notice is a file in the machine's
folder, and takes effect when its time has come.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from autoscaler import namespaces
from autoscaler.core.model.fleet import Interruption
from autoscaler.namespaces import Tree
from autoscaler.providers.interface import Unreachable
from autoscaler.providers.local.machines import Machine, Records

_NOTICE, _RELEASED = "notice.json", "released"


@dataclass(frozen=True, slots=True)
class Notices:
    """Interruption notices in the folders of machines."""

    records: Records

    def give(self, worker_id: str, at: float, kind: str = "terminate") -> None:
        """Give notice that the machine ends at `at` (`rebalance`: advise to leave it)."""
        path = self.records.folder(worker_id) / _NOTICE
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps({"at": at, "kind": kind}), encoding="utf-8")
        draft.replace(path)

    def withdraw(self, worker_id: str) -> None:
        (self.records.folder(worker_id) / _NOTICE).unlink(missing_ok=True)

    def of(self, worker_id: str) -> Interruption | None:
        """Raises Unreachable if a notice exists and cannot be read."""
        path = self.records.folder(worker_id) / _NOTICE
        try:
            notice = json.loads(path.read_bytes())
            return Interruption(worker_id, float(notice["at"]), str(notice["kind"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"the notice {path} cannot be read: {error}") from error

    def released(self, worker_id: str) -> bool:
        """Whether the machine shut itself down, rather than died."""
        return (self.records.folder(worker_id) / _RELEASED).exists()

    def release(self, worker_id: str) -> None:
        (self.records.folder(worker_id) / _RELEASED).touch()


def release(machine: Machine, records: Records, tree: Tree) -> None:
    """The machine shuts itself down, as an idle worker of its own accord may."""
    Notices(records).release(machine.id)
    kill(machine, tree)


def kill(machine: Machine, tree: Tree) -> None:
    """The machine dies at once."""
    namespaces.end_host(tree, machine.name)


def freeze(machine: Machine, tree: Tree, *, thaw: bool = False) -> None:
    """Stop every process of the machine: it answers nothing and still exists. `thaw`: all go on from there."""
    first = namespaces.holder(tree.place(machine.name) / "first")
    if first is None:
        return
    own = Path(f"/proc/{first}/ns/pid").readlink()
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        with contextlib.suppress(OSError):  # it ended while we looked
            if pid != first and Path(f"/proc/{pid}/ns/pid").readlink() == own:
                os.kill(pid, signal.SIGCONT if thaw else signal.SIGSTOP)
