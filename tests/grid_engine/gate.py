"""Jobs that end when the test opens their gate: they replace minutes of work, without a fixed time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoscaler.lab.cell import Cell

_WAIT = "#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.1; done\n"


@dataclass(frozen=True, slots=True)
class Gate:
    """Jobs submitted here run until `open`; each ends with exit status 0."""

    cell: Cell
    name: str = "gate"

    @property
    def _file(self) -> Path:
        return self.cell.home / f"{self.name}-open"

    @property
    def script(self) -> Path:
        """What such a job runs."""
        script = self.cell.home / self.name
        if not script.exists():
            script.write_text(_WAIT.format(gate=self._file))
            script.chmod(0o755)
        return script

    def submit(self, *options: str) -> str:
        """The number of a new job with these options of `qsub`."""
        return self.cell.submit("-b", "y", *options, str(self.script))

    def open(self) -> None:
        self._file.touch()
