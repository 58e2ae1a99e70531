"""Reports at the end of a campaign how many steps it had and which events."""

from __future__ import annotations

import time
from collections import Counter

import pytest

MET: Counter[str] = Counter()
"""Steps, histories, and what happened by kind."""
BEGAN = time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    steps, histories, findings = (MET.pop(name, 0) for name in ("steps", "histories", "findings"))
    if not steps:
        return
    seconds = time.monotonic() - BEGAN
    terminalreporter.section("events of the campaign")
    terminalreporter.write_line(
        f"{histories} histories, {steps} steps in {seconds:.0f} s: {steps / seconds:.0f} steps a second; "
        f"{findings} broke a rule"
    )
    for name, count in MET.most_common():
        terminalreporter.write_line(f"  {count:7} {name}")
