"""The memory of an idle service: no unneeded module, and freed memory is returned."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from autoscaler.garbage import EVERY, LEFT, FreedMemory, collect_after_pass, share_one_arena


def printed_by(program: str) -> str:
    """The output of a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_a_service_at_startup_imports_neither_templates_nor_http_libraries() -> None:
    program = (
        "import sys; import autoscaler.commands.serving; from sge import objects;"
        "objects.userset('cell-1', 'sge-autoscaler');"
        "costly = {'jinja2', 'http.client', 'fastapi', 'uvicorn', 'asyncio', 'ssl', 'argparse'};"
        "print(sorted(costly & set(sys.modules)))"
    )
    assert printed_by(program) == "[]"


def test_freed_memory_is_returned_to_the_system() -> None:
    program = """
from pathlib import Path
from autoscaler.garbage import FreedMemory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

blocks = [bytes(2_000) for _ in range(50_000)]
last = blocks.pop()
del blocks
held = resident()
FreedMemory().give_back(0.0)
print(resident() < held / 2)
"""
    assert printed_by(program) == "True"


def test_all_threads_share_one_malloc_arena() -> None:
    program = """
import threading
from pathlib import Path
from autoscaler.garbage import share_one_arena

share_one_arena()

def reserved():  # an arena reserves 64 MB of addresses
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096

started = threading.Barrier(9)
before = reserved()

def work():
    block = bytes(2_000)
    started.wait()

threading.stack_size(1 << 20)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
after = reserved()
started.wait()
print(after - before < 64e6)
"""
    assert printed_by(program) == "True"


def test_memory_is_returned_at_most_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []

    class Library:
        def __init__(self, _: None) -> None: ...
        def malloc_trim(self, left: int) -> None:
            trimmed.append(left)

    monkeypatch.setattr("ctypes.CDLL", Library)
    freed = FreedMemory()
    for now in (5.0, 6.0, EVERY, EVERY + 5.0, EVERY + 6.0):
        freed.give_back(now)
    assert trimmed == [0, 0]


def test_what_callers_left_is_dropped_after_a_pass() -> None:
    program = """
import gc
from autoscaler.garbage import LEFT, collect_after_pass, collect_rarely

class Connection:
    def __init__(self):
        self.itself = self

def kept():
    return sum(type(each) is Connection for each in gc.get_objects())

collect_rarely()
gc.collect()
for _ in range(LEFT):
    Connection()
before = kept()
collect_after_pass()
print(before, kept())
"""
    assert printed_by(program) == f"{LEFT} 0"


def test_after_a_pass_that_left_little_nothing_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr("gc.collect", looked.append)
    for left in (LEFT - 1, LEFT):
        monkeypatch.setattr("gc.get_count", lambda left=left: (left, 0, 0))
        collect_after_pass()
    assert looked == [0]


def test_a_c_library_without_malloc_trim_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(_: None) -> Any:
        return object()

    monkeypatch.setattr("ctypes.CDLL", without)
    FreedMemory().give_back(0.0)
    share_one_arena()


LOGINS = """
import psutil
from concurrent.futures import ThreadPoolExecutor
from autoscaler.api.passwords import hashed, proves
from autoscaler.garbage import return_large_blocks
return_large_blocks()
entry, process = hashed("right"), psutil.Process()
before = process.memory_info().rss
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(lambda _: proves("right", entry), range(24)))
print((process.memory_info().rss - before) / 2**20)
"""


def test_checked_passwords_leave_no_memory_behind() -> None:
    """Else each of four threads keeps the 16 MiB of scrypt and more."""
    done = subprocess.run((sys.executable, "-c", LOGINS), capture_output=True, text=True, timeout=120, check=True)
    assert float(done.stdout) < 8
