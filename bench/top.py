"""Measures the cost of `sge-autoscaler top` and of its service while it is shown: a private cell with waiting jobs, all
settings as shipped, `top` on a terminal of 200 × 50.

Needs root and Debian's Grid Engine packages (`make setup`). Exits 1 if the bar is passed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping

from autoscaler.lab.cell import Cell
from bench.answers import wait_for_pass
from bench.idle import HOSTS, environment, resident, service_below, spent

BAR = 2.0
"""Percent of a core."""
JOBS = 20
SETTLING = 15.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.top", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is measured (default 60)")
    options = parser.parse_args(arguments)
    with Cell.up(hosts=HOSTS) as cell:
        env = environment(cell) | {"CP_CAP_AUTOSCALE_SOCKET": str(cell.home / "s")}
        for _ in range(JOBS):
            cell.submit("-h", "-b", "y", "sleep", "1")
        service = cell.start(("sge-autoscaler", "run"), env=env, output=cell.home / "log")
        try:
            wait_for_pass(cell, env)
            shares = measure(service_below(service.pid), env, options.seconds)
        finally:
            service.terminate(10.0)
    top, alone, watched, size = shares
    print(f"{options.seconds:g} s shown: {HOSTS} persistent hosts, {JOBS} held jobs, a pass every 10 s")
    print(f"  top      {top:6.3f} % of a core, {size:.1f} MB resident")
    print(f"  service  {watched:6.3f} % of a core, {alone:.3f} % while nobody watches")
    kept = top <= BAR
    print(f"  bar: {BAR:g} %: {'kept' if kept else 'PASSED OVER'}")
    return 0 if kept else 1


def measure(service: int, env: Mapping[str, str], seconds: float) -> tuple[float, float, float, float]:
    """Percent of a core of `top`, of its service without it, and with it; megabytes of `top`."""
    time.sleep(SETTLING)
    before = spent(service).all
    time.sleep(seconds)
    alone = spent(service).all - before
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    argv = (sys.executable, "-m", "autoscaler.commands.main", "top")
    terminal = {**os.environ, **env, "TERM": "xterm-256color"}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=terminal) as top:
        os.close(theirs)
        drawn = bytearray()
        threading.Thread(target=_read, args=(ours, drawn), daemon=True).start()
        try:
            time.sleep(SETTLING)
            if top.poll() is not None or b"demand" not in drawn:
                raise RuntimeError(f"top does not run: {drawn.decode(errors='replace')[-2000:]}")
            begun = spent(top.pid).all, spent(service).all
            time.sleep(seconds)
            used = [now - then for now, then in zip((spent(top.pid).all, spent(service).all), begun, strict=True)]
            size = resident(top.pid)
        finally:
            top.terminate()
    return 100 * used[0] / seconds, 100 * alone / seconds, 100 * used[1] / seconds, size


def _read(terminal: int, drawn: bytearray) -> None:
    try:
        while part := os.read(terminal, 1 << 16):
            drawn += part
    except OSError:  # it has ended
        return


if __name__ == "__main__":
    sys.exit(main())
