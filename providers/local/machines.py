"""The local control plane's records of its machines: a folder for each, which holds the state across restarts.

`<state>/<id>/` holds `machine.json`, the boot script as ordered, `init.sh` and `console.log`. A folder appears whole or
not at all, and `machine.json` is only ever replaced whole, so that a reader needs no lock and a crash leaves no half.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from autoscaler.core.model.fleet import Ending, FailureKind, InstanceType, PriceType
from autoscaler.providers.interface import Unreachable

LOCK_TIMEOUT = 20.0
"""Seconds to wait for another launch or end under way."""
_RECORD = "machine.json"


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, living or ended. Times are Unix seconds, the price is an hour's."""

    id: str
    cell: str
    token: str
    index: int
    """Its number in its order: with cell and token it makes the id."""
    number: int
    """Its number among all machines of this control plane: the fault `every nth` counts by it."""
    name: str
    order_id: str
    node_array: str
    type: InstanceType
    price_type: PriceType
    price_per_hour: float | None
    created_at: float
    zone: str = ""
    placement_group: str = ""
    group_id: str | None = None
    address: str | None = None
    born: int | None = None
    """Distinguishes this machine from a later one of its name; None until its host was started."""
    ended_at: float | None = None
    message: str | None = None
    ending: Ending = Ending.UNKNOWN
    failure: FailureKind | None = None
    """The kind of LaunchFailure if it ends before it was up."""

    @property
    def never_started(self) -> bool:
        """Whether it ended before there was a host: no listing ever had it."""
        return self.born is None and self.ended_at is not None


def machine_id(cell: str, token: str, index: int) -> str:
    """The same for every repetition of an order: this makes a launch idempotent."""
    return "i-" + hashlib.sha256(f"{cell}\n{token}\n{index}".encode()).hexdigest()[:17]


@dataclass(frozen=True, slots=True)
class Records:
    """The state directory."""

    directory: Path

    def lock(self) -> FileLock:
        """Held while machines are made or ended; `acquire` it with `LOCK_TIMEOUT`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return FileLock(self.directory / ".lock", timeout=LOCK_TIMEOUT)

    def folder(self, worker_id: str) -> Path:
        return self.directory / worker_id

    def booted(self, worker_id: str) -> bool:
        """Whether it has begun to boot: its first act is to open its console."""
        return (self.folder(worker_id) / "console.log").exists()

    def all(self) -> list[Machine]:
        """Every machine of the directory, oldest first. Raises Unreachable if one cannot be read: never a part."""
        try:
            names = [path.name for path in self.directory.iterdir() if not path.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unreachable(f"the state directory {self.directory} cannot be read: {error}") from error
        found = map(self.find, names)
        return sorted((machine for machine in found if machine is not None), key=lambda each: each.number)

    def find(self, worker_id: str) -> Machine | None:
        """One machine; None if there is no record (any more). Raises Unreachable for an invalid record."""
        if worker_id in ("", "..") or Path(worker_id).name != worker_id:
            return None
        path = self.folder(worker_id) / _RECORD
        try:
            return _machine(json.loads(path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Unreachable(f"the record {path} cannot be read: {error}; correct it or remove its folder") from error

    def create(self, machine: Machine, files: Mapping[str, str]) -> None:
        """Make the folder of a machine whose id has none yet; `files` are programs that only root may read."""
        self.directory.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=self.directory))
        try:
            for name, text in files.items():
                (draft / name).write_text(text, encoding="utf-8")
                (draft / name).chmod(0o700)
            (draft / _RECORD).write_text(_text(machine), encoding="utf-8")
            # rename(2) fails if there is such a folder with files in it: only one launch can make it.
            draft.rename(self.folder(machine.id))
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def save(self, machine: Machine) -> None:
        """Replace the record of a machine."""
        draft = self.folder(machine.id) / f".{_RECORD}-{os.getpid()}-{threading.get_ident()}"
        draft.write_text(_text(machine), encoding="utf-8")
        draft.replace(self.folder(machine.id) / _RECORD)

    def forget_ended_before(self, time: float) -> None:
        """Remove the folders of machines that ended before `time`."""
        for machine in self.all():
            if machine.ended_at is not None and machine.ended_at < time:
                shutil.rmtree(self.folder(machine.id), ignore_errors=True)


def _text(machine: Machine) -> str:
    return json.dumps(asdict(machine), indent=2) + "\n"


def _machine(record: dict[str, Any]) -> Machine:
    kind, price_type = InstanceType(**record.pop("type")), PriceType(record.pop("price_type"))
    ending, failure = Ending(record.pop("ending", "")), record.pop("failure", None)
    failure = None if failure is None else FailureKind(failure)
    return Machine(type=kind, price_type=price_type, ending=ending, failure=failure, **record)


__all__ = ["LOCK_TIMEOUT", "Machine", "Records", "Timeout", "machine_id"]
