"""What the platform's own autoscaler notes of its workers: a file a queue, of lines `HOST|TIME OF ITS LAST JOB`
(workflows/pipe-common/pipeline/hpc/host.py). They are only read, and tell only what a person should look at: a worker
is recognised by the parameters of its run, which nobody can change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoscaler.outside_files import read_regular
from autoscaler.providers.cloud_pipeline.in_use import run_of_host

_PATTERN, _STATIC = ".autoscaler.*.storage", ".static.storage"
_MOST = 1 << 20
"""Bytes of such a file that are read: everybody may write into /tmp."""


def stored_runs(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Each run in these files, and the file. They are where the platform's script has them: CP_CAP_AUTOSCALE_WORKDIR,
    else TMP_DIR, else /tmp.
    """
    folder = Path(environment.get("CP_CAP_AUTOSCALE_WORKDIR") or environment.get("TMP_DIR") or "/tmp")
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob(_PATTERN)):
            if not file.name.endswith(_STATIC):
                for run in _runs(file):
                    yield run, file


def _runs(file: Path) -> list[str]:
    try:
        lines = read_regular(file, _MOST).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [run for line in lines if (run := run_of_host(line.partition("|")[0].strip()))]
