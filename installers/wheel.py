"""The wheel: the program as pip and pipx install it."""

from __future__ import annotations

import sys
from pathlib import Path

from installers.sources import run


def build_wheel(sources: Path, to: Path, epoch: int) -> Path:
    """Build it from exported sources, with the setuptools of this environment; nothing is downloaded."""
    to.mkdir(parents=True, exist_ok=True)
    for old in to.glob("*.whl"):
        old.unlink()
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--no-cache-dir")
    environment = {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", str(to), str(sources), env=environment)
    (built,) = to.glob("*.whl")
    return built
