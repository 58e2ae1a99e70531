"""A MUNGE daemon with a key of its own, and its programs: Debian's, installed or unpacked."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoscaler.process import SystemRunner, start
from tests.deadlines import wait_for

ROOT = Path(__file__).parents[1]


def programs() -> dict[str, str]:
    """The environment in which munge, unmunge and munged are found."""
    asked = [str(ROOT / "bin" / "unpacked"), "munge", "unmunge", "libmunge2"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    libraries = ":".join(str(each) for each in folder.parent.glob("lib/*-linux-gnu"))
    path = f"{folder}:{folder.parent / 'sbin'}:{os.environ['PATH']}"
    return {"PATH": path} | ({"LD_LIBRARY_PATH": libraries} if ROOT in folder.parents else {})


@contextmanager
def munged(environ: dict[str, str]) -> Iterator[Path]:
    """Its socket, which every user of the machine can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))
        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
        words = [f"--{name}={folder / file}" for name, file in names.items()]
        with start(["munged", "--foreground", *words], env={**os.environ, **environ}, output=folder / "log"):
            assert wait_for((folder / "socket").exists, 30), (folder / "log").read_text()
            yield folder / "socket"


def made_by(user: str) -> SystemRunner:
    """Runs `munge` for this user, as the daemon allows root to; other commands run unchanged."""

    class Runner(SystemRunner):
        def __call__(self, argv, **options):  # type: ignore[no-untyped-def]
            return super().__call__([*argv, f"--uid={user}"] if argv[0] == "munge" else argv, **options)

    return Runner()
