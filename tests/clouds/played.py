"""A played cloud as a process of its own; of clouds of one region a client of the control path, too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Region:
    """A region that is played; an empty one again after `forget`."""

    address: str

    def control(self, verb: str = "state", **values: Any) -> dict[str, Any]:
        """One request of the control path (see `control` of its server)."""
        request = Request(f"{self.address}/control/{verb}", json.dumps(values).encode(), method="POST")
        with urlopen(request, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def fault(self, *faults: dict[str, Any]) -> None:
        self.control("faults", faults=faults)


@contextmanager
def served(cloud: str, *options: str) -> Iterator[str]:
    """Start the server of `tests.clouds.CLOUD`, and end it after the block; the first line that it prints."""
    command = [sys.executable, "-m", f"tests.clouds.{cloud}.server", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def played(cloud: str) -> Iterator[Region]:
    """A cloud of one region, whose server ends with this process at the latest."""
    with served(cloud) as line:
        assert line.startswith("listening on "), f"the played {cloud} did not start: {line!r}"
        yield Region(line.split()[-1])
