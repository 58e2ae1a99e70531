"""PID 1 of a namespace tree or of a host in it: reaps orphans there; when it ends, everything in it ends.

Run as a file of its own by the interpreter alone (`python -I -S first_process.py LOCK [held]`), straight from
`unshare`: it forks once, because only the first child of a process that unshared its PIDs is PID 1, prints that child's
number as its parent sees it and ends; with `held` the parent stays, so that waiting for it is waiting for the end. The
child holds a lock on LOCK as long as it lives: one check gives both its number and whether it lives, and cannot go
stale. With `held`, it ends when its standard input does. It starts nothing.
"""

import fcntl
import os
import select
import signal
import sys


def main(lock: str, held: bool) -> int:
    ready, started = os.pipe()
    child = os.fork()  # noqa: TID251  a fork without a program: how an unshared process becomes PID 1
    if child:
        os.close(started)
        # The pipe ends without a byte if the child died before it was ready.
        if not os.read(ready, 1):
            return 1
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if held else 0
    os.close(ready)
    os.setsid()
    # A child does not inherit locks of lockf: PID 1 takes its own.
    _keep(lock)
    _detach(held)
    os.write(started, b".")
    os.close(started)
    _reap(held)
    return 0


def _keep(lock: str) -> None:
    """Take the lock for life: the descriptor is never closed."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _detach(held: bool) -> None:
    """Close the starter's output, which it reads to its end, and ignore the keyboard's signals."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2) if held else (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not held:
        # A host may end itself: a signal without a handler does not reach PID 1 from inside.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def _reap(held: bool) -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    # Python writes to the descriptor only for signals that have a handler.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        _reap_ended()
        ready, _, _ = select.select([readable, 0] if held else [readable], [], [])
        if readable in ready:
            os.read(readable, 4096)
        if 0 in ready and not os.read(0, 4096):
            return


def _reap_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "held" in sys.argv[2:]))
