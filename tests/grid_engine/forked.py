"""`sge-autoscaler` in a cell without the start of another Python: a fork of a process that has imported our modules.

A start computes for half a second before `main` is called, and a third of what tests on a real cell computed was that.
From `main` on it is the same: a process of its own in the cell's namespaces, with the arguments, environment, files and
signals of a started one. With `--thorough`, as in continuous integration, each command is started as an operator does.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import autoscaler
from autoscaler import namespaces
from autoscaler.errors import CommandTimedOut
from autoscaler.lab.cell import Cell
from autoscaler.process import Completed, Running

PROGRAM = str(Path(sys.executable).with_name("sge-autoscaler"))
ROOT = Path(__file__).parents[2]
NAMESPACES = ("uts", "net", "pid", "mnt")
LEFT_OUT = (".lab", ".policies.", ".providers.", ".__main__")
"""Modules that next to no command imports."""
MOST = 1 << 16
"""Bytes of a request."""


class ForkedChild:
    """As much of a Popen as Running uses. It is the process that entered the cell and waits for the command's end."""

    stdin = stdout = None

    def __init__(self, pid: int, answers: socket.socket) -> None:
        self.pid, self._answers = pid, answers
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = int(self._answers.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(PROGRAM, timeout or 0.0) from None
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None


def start(cell: Cell, words: Sequence[str], *, env: Mapping[str, str], output: Path) -> Running:
    """As `cell.start(("sge-autoscaler", *words), …)`."""
    with Path(os.devnull).open("rb") as nothing, output.open("ab") as out:
        child = _forked(cell, words, env, cell.home, (nothing.fileno(), out.fileno(), out.fileno()))
    return Running((PROGRAM, *words), cast("subprocess.Popen[bytes]", child), carrier=True)


def run(cell: Cell, words: Sequence[str], *, env: Mapping[str, str], timeout: float) -> Completed:
    """As `cell.runner(("sge-autoscaler", *words), …)`."""
    began = time.monotonic()
    with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = _forked(cell, words, env, Path("/"), (nothing.fileno(), out.fileno(), err.fileno()))
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            Running((PROGRAM, *words), cast("subprocess.Popen[bytes]", child), carrier=True).terminate(1.0)
            raise CommandTimedOut(f"{PROGRAM} {' '.join(words)} did not end within {timeout:g} s") from None
        printed = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (out, err)]
    return Completed((PROGRAM, *words), code, printed[0], printed[1], time.monotonic() - began)


def _forked(cell: Cell, words: Sequence[str], env: Mapping[str, str], cwd: Path, files: Sequence[int]) -> ForkedChild:
    first = namespaces.holder(cell.tree.directory / "first")
    request = {"first": first, "words": list(words), "env": dict(env), "cwd": str(cwd)}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        given = array.array("i", (*files, theirs.fileno()))
        _server().sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
    return ForkedChild(int(ours.recv(16)), ours)


@functools.cache
def _server() -> socket.socket:
    """The process that forks, started where the first command is. It ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clean = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    argv = (sys.executable, "-m", "tests.grid_engine.forked", str(theirs.fileno()))
    with theirs:
        server = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), env=clean, cwd=ROOT, start_new_session=True)

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


# -- in the process that forks -----------------------------------------------------------------------------------------


def _import_ours() -> None:
    for module in pkgutil.walk_packages(autoscaler.__path__, "autoscaler."):
        if not any(part in module.name for part in LEFT_OUT):
            importlib.import_module(module.name)
    importlib.import_module("autoscaler.providers.local.provider")


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Forks for each request, and reports the end of each child. Returns the request in the forked
    process, and None at the end of requests.
    """
    running: dict[int, tuple[int, int]] = {}
    ended: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests.fileno(), *running, *ended], [], [])
        for answers in ended.keys() & set(readable):  # the requester knows its end by now
            os.waitpid(ended.pop(answers), 0)
            os.close(answers)
        for handle in running.keys() & set(readable):
            pid, answers = running.pop(handle)
            os.write(answers, str(_status(pid)).encode())
            os.close(handle)
            ended[answers] = pid
        if requests.fileno() not in readable:
            continue
        found, files, _, _ = socket.recv_fds(requests, MOST, 4)
        if not found:
            return None
        carrier = os.fork()
        if carrier == 0:
            requests.detach()
            return _carry(json.loads(found), files)
        for file in files[:3]:
            os.close(file)
        running[os.pidfd_open(carrier)] = carrier, files[3]
        os.write(files[3], str(carrier).encode())


def _status(pid: int) -> int:
    """As Popen has it, of a child that has ended and keeps its number."""
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _carry(request: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """As nsenter does: enters, forks, and ends as its child does. Returns in that child."""
    os.setsid()
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, 1024)
    _enter(request["first"])
    os.chdir(request["cwd"])
    child = os.fork()
    if child == 0:
        return request
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _enter(first: int) -> None:
    """The namespaces of a process, and its root."""
    libc = ctypes.CDLL(None, use_errno=True)
    handles = [os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY) for kind in NAMESPACES]
    root = os.open(f"/proc/{first}/root", os.O_RDONLY)
    for handle in handles:
        if libc.setns(handle, 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the namespaces of {first}")
        os.close(handle)
    os.fchdir(root)
    os.chroot(".")
    os.close(root)


def main(descriptor: int) -> int:
    _import_ours()
    gc.collect()
    gc.freeze()  # pages that are not touched are not copied
    with socket.socket(fileno=descriptor) as requests:
        request = _serve(requests)
    if request is None:
        return 0
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    random.seed()
    sys.argv = [PROGRAM, *request["words"]]
    sys.orig_argv = [sys.executable, "-P", "-m", "autoscaler.commands.main", *request["words"]]
    from autoscaler.commands.main import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
