"""Debian's Prometheus, installed or unpacked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of prometheus and promtool."""
    done = subprocess.run(
        [ROOT / "bin" / "unpacked", "prometheus", "promtool"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
