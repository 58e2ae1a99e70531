"""Starts every process of the project: argv lists, never a shell, always with a timeout.

All code that talks to Grid Engine, the kernel or a demo child takes a `Runner`, so that a test, a dry run or a cell
puts its own in place. A non-zero exit is a value (`Completed.returncode`) that the caller interprets; only a missing
answer (not found, no end in time) is raised.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn, Protocol

from autoscaler.errors import CommandNotFound, CommandNotStarted, CommandTimedOut, WriteRefused
from autoscaler.strict_modes import owner

TERM_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for a process group that ran into its timeout."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A process that ended by itself. `stdout` and `stderr` are the bytes as written; `seconds` is wall time."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float


class Runner(Protocol):
    """Runs one argv to its end.

    `timeout` in seconds; `env` is the whole environment of the process (None: inherited). Raises CommandNotFound if
    argv[0] cannot be executed, CommandNotStarted if the system cannot start it now, CommandTimedOut if it did not
    end in time.
    """

    def __call__(self, argv: Sequence[str], **options: typing.Unpack[Options]) -> Completed: ...


class Options(typing.TypedDict, total=False):
    """Options of a call; all but the time limit may be left out."""

    timeout: typing.Required[float]
    stdin: bytes
    env: Mapping[str, str] | None
    cwd: Path | None


class SystemRunner:
    """Runs for real, each argv in a session of its own so that a timeout ends all that it started, too."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Completed:
        began = time.monotonic()
        child = _spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd)
        with child:
            try:
                stdout, stderr = child.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired as expired:
                _end_group(child, TERM_GRACE)
                raise CommandTimedOut(_no_end(argv, timeout, expired.stderr)) from None
            except BaseException:
                _end_group(child, TERM_GRACE)
                raise
        return Completed(tuple(argv), child.returncode, stdout, stderr, time.monotonic() - began)


_READS = frozenset({"qstat", "qhost", "qacct", "qselect", "gethostname", "gethostbyname"})
_QCONF_SHOW = re.compile(r"-s[a-z_]*")
"""Every `qconf` switch that only shows starts with -s; those that change start with a, A, m, M, d, r, p, c, k or t."""
_JOBS = re.compile(r"[0-9][0-9.,:-]*")


@dataclass(frozen=True, slots=True)
class ReadOnlyRunner:
    """A Runner that refuses every change: `plan` runs on it and shows exactly what `run` would do.

    Allowed are qstat, qhost, qacct, qselect, gethostname, gethostbyname, `qconf` with switches that show, and `qalter
    -w p|v JOB` with nothing else. Everything else raises WriteRefused before any process starts.
    """

    inner: Runner

    def __call__(self, argv: Sequence[str], **options: typing.Unpack[Options]) -> Completed:
        if not only_reads(argv):
            raise WriteRefused(f"refused in a read-only run: {shlex.join(argv)}")
        return self.inner(argv, **options)


WITHOUT_USERS = ("-s",) if sys.flags.no_user_site else ()
"""What keeps a child, as ourselves, from packages that a user installed."""


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A Python program of ours as a child: every one is started here.

    The current directory may belong to somebody whose `json.py` a Python would import, root's too. So it is started
    with -P in `/`, and PYTHONPATH is passed on without the parts that name the current directory (empty or relative
    ones). `isolated` programs, which import the standard library alone, read neither PYTHONPATH nor installed packages.
    """

    argv: tuple[str, ...]

    @classmethod
    def module(cls, name: str, *words: str) -> PythonProgram:
        return cls((sys.executable, "-P", *WITHOUT_USERS, "-m", name, *words))

    @classmethod
    def isolated(cls, file: str | Path, *words: str) -> PythonProgram:
        return cls((sys.executable, "-I", "-S", str(file), *words))

    def run(
        self, runner: Runner, *, timeout: float, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Completed:
        """Run it to its end. `env` as in Runner; raises as that does."""
        environ = python_environment(os.environ if env is None else env)
        return runner(self.argv, timeout=timeout, stdin=stdin, env=environ, cwd=ROOT_DIRECTORY)

    def start(self, *, held: bool = False) -> Running:
        """Start it as a long-lived child, as `start` does."""
        return start(self.argv, env=python_environment(os.environ), cwd=ROOT_DIRECTORY, held=held)


ROOT_DIRECTORY = Path("/")


def python_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a Python child, in which PYTHONPATH names no current directory. Of a home that is not ours
    (`sudo -E`) it imports no packages.
    """
    parts = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if Path(part).is_absolute()]
    others = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    if (home := environ.get("HOME")) and owner(Path(home)) != os.geteuid():
        others["PYTHONNOUSERSITE"] = "1"
    return others | ({"PYTHONPATH": os.pathsep.join(parts)} if parts else {})


def begin_anew(environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the same command, as a new program with this environment and no other."""
    words = sys.orig_argv[1:] if sys.flags.safe_path else ["-P", *sys.orig_argv[1:]]
    os.execve(sys.executable, [sys.orig_argv[0], *words], python_environment(environ))


def only_reads(argv: Sequence[str]) -> bool:
    """Whether, by Grid Engine's manual pages, this argv changes nothing.

    Unknown counts as no. `qstat`, `qacct` and the others of the list have no switch that writes; `qconf` may be given
    several switches in one call, so every word that looks like a switch must be one that shows.
    """
    if not argv:
        return False
    program, words = Path(argv[0]).name, list(argv[1:])
    if program in _READS:
        return True
    if program == "qconf":
        switches = [word for word in words if word.startswith("-")]
        return words[:1] == switches[:1] != [] and all(_QCONF_SHOW.fullmatch(switch) for switch in switches)
    if program == "qalter":
        return (
            words[:1] == ["-w"]
            and words[1:2] in (["p"], ["v"])
            and len(words) > 2
            and all(_JOBS.fullmatch(word) for word in words[2:])
        )
    return False


@dataclass(slots=True)
class Running:
    """A child that outlives the call that started it: `qevent`, a demo's autoscaler, a namespace tree.

    It leads a session of its own (unless it shares our terminal); `terminate` ends the whole group. Its standard output
    and error arrive as `lines` unless they were sent elsewhere. As a context it ends with the block.
    """

    argv: tuple[str, ...]
    child: subprocess.Popen[bytes] = field(repr=False)
    carrier: bool = False
    """The leader only carries its child (nsenter): it is never signalled itself, so that it lives to reap the child."""

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def lines(self) -> Iterator[str]:
        """Lines of standard output and error as they come, without line ends; ends with the stream.

        Blocks while the child is silent: read it on a thread of its own. Bytes that are no UTF-8 are replaced.
        """
        stream: IO[bytes] | None = self.child.stdout
        if stream is None:
            return
        for line in stream:
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def poll(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        return self.child.poll()

    def wait(self, timeout: float) -> int:
        """The exit status once it has ended. Raises CommandTimedOut if it has not within `timeout` seconds."""
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise CommandTimedOut(_no_end(self.argv, timeout)) from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; if it has ended, do nothing."""
        if self.child.poll() is None:
            _signal_group(self.child.pid, number, carrier=self.carrier)

    def close(self, timeout: float) -> int:
        """Close the pipe of `start(held=True)`, at which the child ends by itself, and wait for that."""
        if self.child.stdin is not None:
            self.child.stdin.close()
        return self.wait(timeout)

    def terminate(self, grace: float = 5.0) -> int:
        """End the group: SIGTERM, then SIGKILL if it has not ended after `grace` seconds. Returns the exit status."""
        _end_group(self.child, grace, carrier=self.carrier)
        for stream in (self.child.stdin, self.child.stdout):
            if stream is not None:
                stream.close()
        return self.child.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: Path | None = None,
    terminal: bool = False,
    held: bool = False,
    carrier: bool = False,
) -> Running:
    """Start a long-lived child. Raises CommandNotFound, CommandNotStarted.

    `output` appends what it prints to a file instead of `lines`. `terminal` leaves it our own terminal and session
    (an interactive shell). `held` gives it a pipe as standard input that closes when we end, however we end: a child
    that watches it dies with its owner. `carrier` as in Running.
    """
    if terminal:
        return Running(tuple(argv), _spawn(argv, env=env, cwd=cwd, session=False), carrier)
    with contextlib.ExitStack() as files:
        sink: IO[bytes] | int = subprocess.PIPE if output is None else files.enter_context(output.open("ab"))
        source = subprocess.PIPE if held else subprocess.DEVNULL
        child = _spawn(argv, stdin=source, stdout=sink, stderr=subprocess.STDOUT, env=env, cwd=cwd)
    return Running(tuple(argv), child, carrier)


def _spawn(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    session: bool = True,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=_environment(argv, env),
            cwd=cwd,
            start_new_session=session,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        if cwd is not None and str(error.filename) == str(cwd):
            raise CommandNotStarted(f"cannot run {argv[0]} in {cwd}: {error.strerror}") from error
        raise CommandNotFound(f"cannot run {argv[0]}: {error.strerror}; install it or put it on PATH") from error
    except OSError as error:  # EAGAIN, ENOMEM, EMFILE, ENOEXEC, E2BIG, ETXTBSY …
        raise CommandNotStarted(f"cannot run {argv[0]} now: {error.strerror}") from error
    except ValueError as error:  # a null byte in an argument
        raise CommandNotStarted(f"cannot run {argv[0]}: {error}") from error


_GRID_ENGINE = re.compile(
    r"q(?:stat|host|conf|mod|sub|alter|del|acct|select|event|rls|hold|ping)|gethostname|gethostbyname|(?:un)?munge"
)
"""Programs that need nothing of a cloud. `qevent` lives as long as we do, and its environment shows in /proc."""
_NEEDED = re.compile(
    r"(SGE_|LC_|KRB5|MUNGE_)\w*|PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|HOSTNAME|LD_LIBRARY_PATH"
)


def _environment(argv: Sequence[str], env: Mapping[str, str] | None) -> dict[str, str] | None:
    """The environment of a child; None: ours. Grid Engine's programs get what they read, and no secret of a cloud."""
    if env is not None:
        return dict(env)
    if not argv or not _GRID_ENGINE.fullmatch(Path(argv[0]).name):
        return None
    return {name: value for name, value in os.environ.items() if _NEEDED.fullmatch(name)}


def _end_group(child: subprocess.Popen[bytes], grace: float, *, carrier: bool = False) -> None:
    """Send TERM, then KILL, to the group that `child` leads; `child` is reaped last, so that its number stays its own.

    A child that was reaped before (it ended by itself and was polled) is left alone for the same reason.
    """
    if child.returncode is not None:
        return
    _signal_group(child.pid, signal.SIGTERM, carrier=carrier)
    exited = _exits_within(child.pid, grace)
    if carrier and not exited:
        _signal_group(child.pid, signal.SIGKILL, carrier=True)
        _exits_within(child.pid, TERM_GRACE)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(leader: int, number: signal.Signals, *, carrier: bool = False) -> None:
    """Signal `leader` and its group, or only `leader` if it leads none. Of a carrier: the rest of its group, or the
    process that it carries.
    """
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(leader) != leader:
            for each in _children(leader) if carrier else [leader]:
                os.kill(each, number)
        elif not carrier:
            os.killpg(leader, number)
        else:
            for member in _group_members(leader):
                if member != leader:
                    os.kill(member, number)


def _children(parent: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return []


def _group_members(group: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # A process's name may contain spaces and brackets: the fields are counted behind it (proc(5)).
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                yield int(stat.parent.name)


def _exits_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a child without reaping it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no descriptor is left
        return _exits_by(pid, time.monotonic() + seconds)
    try:
        readable, _, _ = select.select([handle], [], [], seconds)
        return bool(readable)
    finally:
        os.close(handle)


def _exits_by(pid: int, deadline: float) -> bool:
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def _no_end(argv: Sequence[str], timeout: float, stderr: bytes | None = None) -> str:
    """One line, with the last one that the command wrote before it was killed: often the only trace of the cause."""
    last_words = (stderr or b"").decode("utf-8", "replace").strip().splitlines()[-1:]
    words = f"; it last said: {last_words[0]}" if last_words else ""
    return f"{shlex.join(argv)} did not end within {timeout:g} s and was killed{words}"
