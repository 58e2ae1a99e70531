"""Tasks of a Celery app whose broker is a folder, named by the environment: no server is needed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery  # type: ignore[import-untyped]

BROKER = "filesystem://localhost"
FOLDER = Path(os.environ.get("CELERY_FOLDER", "/nonexistent"))


def options(folder: Path) -> dict[str, Any]:
    """`broker_transport_options` for a broker in this folder."""
    queue = str(folder / "queue")
    control = str(folder / "control")
    return {"data_folder_in": queue, "data_folder_out": queue, "control_folder": control, "polling_interval": 0.1}


app = Celery("tasks", broker=BROKER, set_as_current=False)
app.conf.broker_transport_options = options(FOLDER)
app.conf.worker_prefetch_multiplier = 1


@app.task(name="wait")  # type: ignore[untyped-decorator] # Celery has no types
def wait(end: str) -> None:
    """Waits until this file exists."""
    deadline = time.monotonic() + 600
    while not Path(end).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
