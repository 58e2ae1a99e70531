"""The contract of every Runner."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from autoscaler.errors import CommandNotFound, CommandNotStarted, CommandTimedOut, WriteRefused
from autoscaler.process import Completed, ReadOnlyRunner, SystemRunner, start
from tests.deadlines import stretched, wait_for

LARGE = 50_000_000
HUNG = 60.0
"""Seconds: nothing here takes so long, however busy the machine is."""


def gone(pid: int) -> bool:
    """Ended, or ends within seconds: on a busy machine a killed process is visible for a moment."""
    return wait_for(lambda: ended(pid), 5)


def ended(pid: int) -> bool:
    """No such process, or one that only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return True
    return state == "Z"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


class Remembering:
    """A Runner that starts nothing and records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        self.asked.append(tuple(argv))
        return Completed(tuple(argv), 0, b"", b"", 0.0)


def test_a_failing_command_raises_no_exception() -> None:
    ended = SystemRunner()(("sh", "-c", "echo out; echo err >&2; exit 3"), timeout=HUNG)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, b"out\n", b"err\n")


def test_a_command_gets_its_input_environment_and_directory(tmp_path: Path) -> None:
    argv = python("import os,sys; print(os.getcwd(), os.environ['COLOUR'], sys.stdin.read())")
    ended = SystemRunner()(argv, timeout=HUNG, stdin=b"words", env={"COLOUR": "blue"}, cwd=tmp_path)
    assert ended.stdout.decode().split() == [str(tmp_path), "blue", "words"]


def test_fifty_megabytes_pass_through_a_command() -> None:
    ended = SystemRunner()(("cat",), timeout=30, stdin=bytes(LARGE))
    assert len(ended.stdout) == LARGE


def test_both_outputs_may_be_large_at_once() -> None:
    ended = SystemRunner()(("sh", "-c", "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero"), timeout=HUNG)
    assert (len(ended.stdout), len(ended.stderr)) == (3_000_000, 3_000_000)


def test_a_missing_command_is_named() -> None:
    with pytest.raises(CommandNotFound, match="no-such-command"):
        SystemRunner()(("no-such-command",), timeout=HUNG)


def timed_out(program: str, begun: Path) -> tuple[float, str]:
    """The limit of a shell program that was ended after its start, which this file shows, and the message."""
    limits = (0.3, 3.0, 30.0, HUNG)
    for limit in limits:
        with pytest.raises(CommandTimedOut) as raised:
            SystemRunner()(("sh", "-c", program), timeout=limit)
        if begun.exists():
            return limit, str(raised.value)
    pytest.fail(f"the program did not begin within {limits[-1]:g} s")


def test_a_timeout_error_has_the_last_output_of_the_command(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    limit, result = timed_out(f"echo waiting for the moon >&2; : > {begun}; sleep 600", begun)
    assert re.search(f"{limit:g} s.*waiting for the moon", result)


def test_a_timeout_kills_all_processes_of_the_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    timed_out(f"trap '' TERM; sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait", pids)
    child, parent = pids.read_text().split()
    assert gone(int(child))
    assert gone(int(parent))


def test_a_timeout_applies_if_only_a_grandchild_holds_the_output() -> None:
    began = time.monotonic()
    with pytest.raises(CommandTimedOut):
        SystemRunner()(("sh", "-c", "sleep 600 & exit 0"), timeout=stretched(0.3))
    assert time.monotonic() - began < HUNG


@pytest.mark.parametrize(
    "argv",
    (
        "qstat -u * -s a -r -f -xml",
        "qhost -q -F -xml",
        "/usr/lib/gridengine/qstat -j 1,2 -xml",
        "qconf -sq main.q",
        "qconf -sq main.q -sp mpi",
        "qconf -sobjl exechost load_avg>1 hostname",
        "qconf -shgrp_resolved @allhosts",
        "qacct -j 7",
        "qselect -q main.q",
        "qalter -w v 12",
        "qalter -w p 12.1-3:1 13",
        "gethostname",
        "gethostbyname w1",
    ),
)
def test_a_read_only_runner_allows_reading(argv: str) -> None:
    inner = Remembering()
    ReadOnlyRunner(inner)(argv.split(), timeout=HUNG)
    assert inner.asked == [tuple(argv.split())]


@pytest.mark.parametrize(
    "argv",
    (
        "qdel 1",
        "qmod -d *@w1",
        "qsub job.sh",
        "qconf",
        "qconf -de w1",
        "qconf -sq main.q -dq main.q",
        "qconf main.q -dq",
        "qconf -Ae file",
        "qconf -aattr queue slots [w1=8] main.q",
        "qconf -ks",
        "qalter 12",
        "qalter -w v",
        "qalter -w v -h u 12",
        "qalter -w e 12",
        "qalter -w v 12 -p 5",
        "qalter -ac note=x 12",
        "sh -c qstat",
        "",
    ),
)
def test_a_read_only_runner_refuses_changes(argv: str) -> None:
    inner = Remembering()
    with pytest.raises(WriteRefused):
        ReadOnlyRunner(inner)(argv.split(), timeout=HUNG)
    assert inner.asked == []


def test_lines_arrive_while_the_child_runs() -> None:
    with start(("sh", "-c", "echo first; echo second >&2; sleep 60")) as child:
        lines = child.lines
        assert ([next(lines), next(lines)], child.poll()) == (["first", "second"], None)


def test_invalid_utf_8_still_gives_lines() -> None:
    with start(("printf", r"a\377b\n")) as child:
        assert list(child.lines) == ["a\ufffdb"]


def test_a_child_that_obeys_sigterm_ends_by_it() -> None:
    child = start(("sleep", "60"))
    assert child.terminate(HUNG) == -signal.SIGTERM


def test_a_child_that_ignores_sigterm_is_killed_with_its_children() -> None:
    child = start(("sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"))
    grandchild = int(next(child.lines))
    status = child.terminate(0.2)
    assert (status, gone(grandchild)) == (-signal.SIGKILL, True)


def test_terminating_a_child_twice_returns_its_status_twice() -> None:
    child = start(("sh", "-c", "exit 4"))
    child.wait(HUNG)
    assert (child.terminate(), child.terminate()) == (4, 4)


def test_waiting_for_a_child_times_out() -> None:
    with start(("sleep", "60")) as child, pytest.raises(CommandTimedOut):
        child.wait(0.05)


def test_a_held_child_sees_the_end_of_its_input_when_closed() -> None:
    child = start(("sh", "-c", "cat; exit 6"), held=True)
    status = child.close(HUNG)
    child.terminate()
    assert status == 6


def test_a_held_child_sees_the_end_of_its_input_when_its_owner_is_killed(tmp_path: Path) -> None:
    result = tmp_path / "told"
    program = (
        "import sys, time; from autoscaler.process import start;"
        f"child = start(('sh', '-c', 'cat; touch {result}'), held=True); print('up', flush=True); time.sleep(60)"
    )
    owner = start(python(program))
    next(owner.lines)
    os.kill(owner.pid, signal.SIGKILL)
    assert wait_for(result.exists, 5)
    owner.terminate()


def test_a_carrier_outlives_its_child_and_reaps_it() -> None:
    child = start(("sh", "-c", "sleep 600; exit 9"), carrier=True)
    carried = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    assert wait_for(carried.read_text, 5)
    assert child.terminate(HUNG) == 9


def test_output_is_appended_to_a_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        start(("echo", word), output=log).wait(HUNG)
    assert log.read_text() == "one\ntwo\n"


NO_PROGRAM = "\x01\x02 no program, and no script of any interpreter"


def test_a_file_that_the_kernel_cannot_execute_is_an_error_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(NO_PROGRAM)
    (tmp_path / "file").chmod(0o755)
    with pytest.raises(CommandNotStarted, match="Exec format error"):
        SystemRunner()((str(tmp_path / "file"),), timeout=HUNG)


def test_arguments_that_the_kernel_does_not_take_are_an_error_of_a_command() -> None:
    with pytest.raises(CommandNotStarted, match="too long"):
        SystemRunner()(("true", "x" * 3_000_000), timeout=HUNG)
    with pytest.raises(CommandNotStarted, match="null byte"):
        SystemRunner()(("true", "x\0y"), timeout=HUNG)


@pytest.mark.parametrize("number", (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ETXTBSY))
def test_a_system_that_starts_no_process_now_is_an_error_of_a_command(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(CommandNotStarted, match=os.strerror(number)):
        SystemRunner()(("true",), timeout=HUNG)
    with pytest.raises(CommandNotStarted, match=os.strerror(number)):
        start(("true",))


def test_a_missing_directory_is_not_taken_for_a_missing_command(tmp_path: Path) -> None:
    with pytest.raises(CommandNotStarted, match="cannot run true in"):
        SystemRunner()(("true",), timeout=HUNG, cwd=tmp_path / "gone")


def test_a_child_is_ended_also_if_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    running = start(("sh", "-c", "trap '' TERM; echo deaf; sleep 60"))
    assert next(running.lines) == "deaf"
    assert running.terminate(0.2) == -signal.SIGKILL


@pytest.mark.parametrize("program", ("qstat", "qconf", "qevent", "munge"))
def test_programs_of_grid_engine_get_no_secret_of_a_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    (tmp_path / program).write_text("#!/bin/sh\nexec env\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SGE_ROOT", "/opt/sge")
    for name in ("AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD", "API_TOKEN"):
        monkeypatch.setenv(name, "hunter22")
    with start((program,)) as running:
        printed = "\n".join(running.lines)
    for output in (SystemRunner()((program,), timeout=HUNG).stdout.decode(), printed):
        assert ("hunter22" in output, "SGE_ROOT=/opt/sge" in output) == (False, True)
    others = SystemRunner()(("env",), timeout=HUNG).stdout.decode()
    assert "hunter22" in others, "what an operator sets, as a health check, keeps its environment"
