"""A program that replaces another one in the autoscaler's PATH, and behaves from call to call as a test sets it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from autoscaler.lab.cell import Cell

_SCRIPT = """\
#!/bin/sh
real={real}
echo "$*" >>{calls}
if [ -r {rule} ]; then . {rule}; fi
exec "$real" "$@"
"""
_KILL_TWICE = """\
pattern='{pattern}'
case "$*" in
$pattern)
    if mkdir {folder}/before 2>/dev/null; then kill -KILL $PPID; exit 1; fi
    if mkdir {folder}/after 2>/dev/null; then "$real" "$@"; kill -KILL $PPID; exit 1; fi
esac
"""
_THEN_ONCE = """\
case "$*" in
{pattern})
    if mkdir {folder}/then 2>/dev/null; then "$real" "$@"; status=$?; {command} >/dev/null 2>&1; exit $status; fi
esac
"""


class StandIn:
    """Records every call and runs the real program, unless set otherwise. Processes whose PATH is `path` use it."""

    def __init__(self, cell: Cell, program: str) -> None:
        real = shutil.which(program, path=cell.environment["PATH"])
        assert real is not None, f"{program} is not installed"
        self._folder = cell.home / f"stand-in-{program}"
        self._folder.mkdir()
        self._rule, self._calls = self._folder / "rule", self._folder / "calls"
        self.path = f"{self._folder}:{cell.environment['PATH']}"
        script = self._folder / program
        script.write_text(_SCRIPT.format(real=real, calls=self._calls, rule=self._rule))
        script.chmod(0o755)

    def calls(self) -> list[str]:
        """The arguments of every call so far, oldest first."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def answer(self, output: bytes) -> None:
        """From now on it only prints this, and ends well."""
        file = self._folder / "answer"
        file.write_bytes(output)
        self._behave(f"exec cat {file}\n")

    def hang(self) -> None:
        """From now on it hangs."""
        self._behave("exec sleep 600\n")

    def run_real_program(self) -> None:
        self._behave("")  # not taken away: a call may be about to read it

    def kill_caller_around(self, pattern: str) -> None:
        """SIGKILL the caller once before a call whose arguments match the shell `pattern`, and once after one."""
        self._behave(_KILL_TWICE.format(pattern=pattern, folder=self._folder))

    def run_once_after(self, pattern: str, command: str) -> None:
        """Run a shell command once, after a call whose arguments match the shell `pattern`."""
        self._behave(_THEN_ONCE.format(pattern=pattern, folder=self._folder, command=command))

    def killed(self) -> set[str]:
        """Which of both happened: `before`, `after`."""
        return {path.name for path in self._folder.iterdir() if path.is_dir()}

    def _behave(self, rule: str) -> None:
        """A call reads the whole old rule or the whole new one."""
        draft = Path(f"{self._rule}.{os.getpid()}")
        draft.write_text(rule)
        draft.replace(self._rule)
