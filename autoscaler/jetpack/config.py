"""A worker's own configuration, by CycleCloud's keys: `jetpack.config.get("cyclecloud.instance.id")`."""

from __future__ import annotations

from typing import Any

from autoscaler.worker_configuration import FILE, FOLDERS, answer, read


def get(key: str, default: Any = None) -> Any:
    """The value of a key as text (JSON if other keys stand below it), else the default; on machines that are no
    workers, too.
    """
    for folder in FOLDERS:
        try:
            text = (folder / FILE).read_text(encoding="utf-8")
        except OSError:
            continue
        found = answer(read(text), key)
        return default if found is None else found
    return default
