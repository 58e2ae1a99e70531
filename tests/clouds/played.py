"""A played cloud as a process of its own, and a client of its control path. For clouds of one region."""

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

    def tell(self, verb: str = "state", **values: Any) -> dict[str, Any]:
        """One request of the control path (see `control` of its server)."""
        request = Request(f"{self.address}/control/{verb}", json.dumps(values).encode(), method="POST")
        with urlopen(request, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def fault(self, *faults: dict[str, Any]) -> None:
        self.tell("faults", faults=faults)


@contextmanager
def played(cloud: str) -> Iterator[Region]:
    """Start the server of `tests.clouds.CLOUD`, and end it after the block, or with this process."""
    command = [sys.executable, "-m", f"tests.clouds.{cloud}.server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on "), f"the played {cloud} did not start: {line!r}"
            yield Region(line.split()[-1])
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
