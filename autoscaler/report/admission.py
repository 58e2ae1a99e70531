"""The verifier of submissions that qmaster runs: reads the loop's file, judges a job by it, and refuses it with a
reason. It changes the request of a job that must stay inside one group of workers.

It runs as Grid Engine's administrative user, from an archive of its own, with the standard library only. If it fails in
any way, or the file is stale, the job is accepted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from autoscaler.core.unsatisfiable.admission import Admission, Judge
from autoscaler.report.wording import text
from autoscaler.sge.jsv import Conversation, OutOfStep, read_request

SCHEMA = 1
PATIENCE = 0.05
"""Seconds of processor time for a judgement; a job that would take longer is accepted."""
HELD_UP = 1.0
"""Seconds for a judgement in all, waiting for the processor included."""
FUTURE = 60.0
"""Seconds that a file may be newer than the clock."""


class TooLong(Exception):
    """The judgement exceeded `PATIENCE` or `HELD_UP`."""


@dataclass(slots=True)
class Verifier:
    """Judges by the file of one cell, which it reads again when it changes."""

    file: Path
    cell: str
    code: str
    """Digest of the program: a file of another version is ignored."""
    _seen: tuple[int, int, int] | None = field(default=None, init=False)
    _text: bytes = field(default=b"", init=False)
    _judge: Judge | None = field(default=None, init=False)
    _fresh_for: float = field(default=0.0, init=False)

    def refusal(self, parameters: Mapping[str, str]) -> str | None:
        """The sentence that refuses this job, or None. At any error the job is accepted."""
        try:
            judge = self._current()
            return None if judge is None else self._within_patience(judge, parameters)
        except Exception:  # noqa: BLE001 - fails open: our defect must not refuse a job
            return None

    def correction(self, parameters: Mapping[str, str]) -> Mapping[str, str]:
        """The parameters to change in this job. At any error it is left as it is."""
        try:
            judge = self._current()
            wildcard = None if judge is None else judge.wildcard(parameters.get("pe_name"))
        except Exception:  # noqa: BLE001 - fails open: our defect must not change a job
            return {}
        return {} if wildcard is None else {"pe_name": wildcard}

    def _within_patience(self, judge: Judge, parameters: Mapping[str, str]) -> str | None:
        # ITIMER_PROF counts processor time and sends SIGPROF, ITIMER_REAL that of the clock and sends SIGALRM.
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, _give_up)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.setitimer(signal.ITIMER_REAL, HELD_UP)
        try:
            ask = read_request(parameters)
            reason = None if ask is None else judge.refusal(ask)
            return None if reason is None else text(reason)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _current(self) -> Judge | None:
        """The judge by the current file; None if there is none, or it is stale or of another cell or version."""
        found = self.file.stat()
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            # The loop touches the file at every observation, and rewrites it if something changed.
            written = self.file.read_bytes()
            if written != self._text:
                self._judge, self._text = None, written
                self._judge = self._read(written)
            self._seen = seen
        age = time.time() - found.st_mtime
        return self._judge if -FUTURE <= age <= self._fresh_for else None

    def _read(self, written: bytes) -> Judge | None:
        document = json.loads(written)
        if (document["schema"], document["cell"], document["code"]) != (SCHEMA, self.cell, self.code):
            return None
        self._fresh_for = float(document["fresh_for"])
        return Judge(build(Admission, document["admission"]))


def _give_up(_: int, __: types.FrameType | None) -> None:
    raise TooLong


def build(kind: Any, value: Any) -> Any:
    """A value of type `kind` from what the store's notation made of it: dataclasses, enums, tuples, mappings, plain
    values. Raises TypeError, ValueError or KeyError if it is not one.
    """
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else build(_some(kind), value)
    if origin is tuple:
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(build(inner[0], one) for one in value)
        return tuple(build(each, one) for each, one in zip(inner, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: build(typing.get_args(kind)[1], one) for key, one in value.items()}
    if origin is frozenset:
        return frozenset(value)
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: build(hint, value[name]) for name, hint in _hints(kind).items() if name in value})
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


@cache
def _some(kind: Any) -> Any:
    """The type of an optional value that is not None; object if there are several."""
    given = [each for each in typing.get_args(kind) if each is not type(None)]
    return given[0] if len(given) == 1 else object


def main(file: str, cell: str, code: str) -> int:
    """Answer qmaster until it closes the connection. Returns 0, also after a protocol error."""
    verifier = Verifier(Path(file), cell, code)
    # Load everything now, so that the first job does not wait for it.
    verifier.refusal({})
    try:
        Conversation(sys.stdin.fileno(), sys.stdout.fileno(), verifier.refusal, verifier.correction).hold()
    except (OutOfStep, OSError):
        os.close(sys.stdin.fileno())
    return 0
