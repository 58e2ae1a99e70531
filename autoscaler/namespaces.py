"""Machines made of namespaces: one tree that dies with its owner, hosts in it that look like machines on one network.

A tree is a PID, mount, network and UTS namespace with a bridge (10.1.0.0/24) and one hosts file that names every
address of it beforehand, as a cloud's DNS does: a new host resolves both ways at once and nothing is rewritten. The
tree's PID 1 (`first_process`) ends when its owner's pipe closes, however the owner ends, and the kernel ends everything
in it. Every host is the same again, nested, on a veth pair: killing its PID 1 is the sudden death of a machine. Hosts
may be started from outside the tree or by any process in it; either way they belong to the tree's PID 1, outlive the
process that started them and die with the tree. Files are shared between hosts, except `Tree.private`, a tmpfs of each
host's own (a spool, a queue's tmpdir). No Grid Engine here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler import first_process
from autoscaler.errors import AutoscalerError, CommandError, CommandNotFound, CommandTimedOut
from autoscaler.process import Completed, PythonProgram, Runner, Running, SystemRunner, start

NETWORK = "10.1.0"
"""The /24 of every tree: each has a network namespace of its own, so all may use the same."""
BRIDGE = "bridge"
LOCKS = Path("/run/sge-autoscaler/lock")
SETUP_TIMEOUT = 30.0
"""Seconds for one command that makes a part of a namespace; each takes milliseconds on an idle machine."""
_UNSHARE = ("unshare", "--pid", "--mount", "--net", "--uts", "--")
_FLOCK = "hhqqi4x"
"""`struct flock` of a 64-bit Linux: type, whence, start, length, pid."""


class NamespaceError(AutoscalerError):
    """A namespace could not be made or set up; the message carries the kernel's or the command's words."""


class HostEnded(CommandError):
    """The host or tree has ended in which a command was to run."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A namespace tree by its directory: while it lives, any process in the tree or outside can use it."""

    directory: Path

    @property
    def private(self) -> Path:
        """A directory that is every host's own, empty when the host starts."""
        return self.directory / "private"

    @property
    def hosts_file(self) -> Path:
        return self.directory / "hosts.txt"

    @property
    def runner(self) -> Runner:
        """Runs argv in the tree itself: for other hosts that is the first host."""
        return EnteringRunner(self.directory / "first")

    def place(self, name: str) -> Path:
        """Where a host's lock, console and hostname file live, on the shared side."""
        return self.directory / "hosts" / name

    def host_runner(self, name: str) -> Runner:
        """Runs argv on the host `name`. Raises HostEnded when called after its end."""
        return EnteringRunner(self.place(name) / "first")

    def console(self, name: str) -> Path:
        """The output of the host's boot program."""
        return self.place(name) / "console"

    def hosts(self) -> dict[str, int]:
        """The living hosts with the number of their PID 1 as the caller sees it."""
        places = sorted((self.directory / "hosts").glob("*"))
        pids = {place.name: holder(place / "first") for place in places}
        return {name: pid for name, pid in pids.items() if pid is not None}

    def address(self, name: str) -> str:
        """The address that the hosts file gives `name`. Raises NamespaceError for a name that is not in it."""
        for line in self.hosts_file.read_text().splitlines():
            address, *names = line.split()
            if name in names:
                return address
        raise NamespaceError(f"{name} has no address in {self.hosts_file}")

    def free_names(self) -> list[str]:
        """Names of addresses that no living host has, lowest address first; the tree's own and loopback left out."""
        taken = self.hosts()
        rows = [line.split() for line in self.hosts_file.read_text().splitlines()]
        own = f"{NETWORK}.1"
        return [row[1] for row in rows if row[0].startswith(NETWORK) and row[0] != own and row[1] not in taken]


@dataclass(frozen=True, slots=True)
class EnteringRunner:
    """A Runner that carries argv into the namespaces of the PID 1 that holds `lock`.

    The timeout is kept inside as well (`timeout`), so that a command that must be killed is reaped in its own
    namespace: a process whose parent outside was killed first would stay a zombie and hold up the end of the tree.
    `environment` is for calls without `env` (None: inherited).
    """

    lock: Path
    environment: Mapping[str, str] | None = None

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Completed:
        limited = ("timeout", "--kill-after=1", f"{timeout:.3f}", *argv)
        done = SystemRunner()(
            entering(self.lock, limited, cwd=cwd),
            timeout=timeout + 5,
            stdin=stdin,
            env=self.environment if env is None else env,
        )
        self._raise_for(argv, timeout, done)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr, done.seconds)

    def _raise_for(self, argv: Sequence[str], timeout: float, done: Completed) -> None:
        if done.returncode == 0:
            return
        output = done.stderr.decode("utf-8", "replace").strip()
        if done.seconds >= timeout and done.returncode in (124, 137, -signal.SIGKILL):
            raise CommandTimedOut(f"{' '.join(argv)} did not end within {timeout:g} s and was killed")
        if done.returncode in (126, 127) and "timeout: failed to run command" in output:
            raise CommandNotFound(f"cannot run {argv[0]} in the namespace: {output}")
        if output.startswith("nsenter:"):
            raise HostEnded(f"{self.lock.parent.name} ended while {argv[0]} was to start in it ({output})")


def entering(lock: Path, argv: Sequence[str], *, cwd: Path | None = None) -> list[str]:
    """argv that runs `argv` in the namespaces of the PID 1 that holds `lock`. Raises HostEnded if none holds it."""
    pid = holder(lock)
    if pid is None:
        raise HostEnded(f"{lock.parent.name} has ended: nobody holds {lock}")
    # --root: a mount namespace is entered at its own root, which for an owner in a chroot is outside of the chroot.
    kinds = ("--pid", "--mount", "--net", "--uts", "--root")
    return ["nsenter", f"--target={pid}", *kinds, f"--wdns={cwd or '/'}", "--", *argv]


def holder(lock: Path) -> int | None:
    """The PID 1 that holds `lock`, by its number in the caller's namespace; None once it has ended."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else int(pid)


def probe() -> str | None:
    """None if trees can be made here, else one line that says why not. Makes and drops one; about 20 ms."""
    if os.geteuid() != 0:
        return "namespaces need root: run as root or with sudo"
    nameless = [name for name in ("/etc/hosts", "/etc/hostname") if not Path(name).is_file()]
    if nameless:
        return f"namespaces cannot be made: this machine has no {' and no '.join(nameless)} (make setup writes them)"
    links = b"link add probe0 type veth peer name probe1\nlink add probe2 type bridge\n"
    whole = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--uts")
    try:
        for needed in ("nsenter", "timeout", "setsid", "hostname"):
            SystemRunner()((needed, "--version"), timeout=SETUP_TIMEOUT)
        made = SystemRunner()((*whole, "ip", "-batch", "-"), timeout=SETUP_TIMEOUT, stdin=links)
    except CommandError as error:
        return f"namespaces cannot be made: {error}"
    if made.returncode == 0:
        return None
    words = made.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {made.returncode}"]
    return f"namespaces cannot be made: {words[0]} (a container needs --privileged)"


def default_name(number: int) -> str:
    """The default name of address `number` (1–254): as a cloud's DNS would have it."""
    return f"ip-{NETWORK.replace('.', '-')}-{number}"


@contextlib.contextmanager
def own_tree(directory: Path, *, names: Mapping[int, str]) -> Iterator[Tree]:
    """A tree that lives until the block ends or this process does.

    `directory` is made if need be and left behind (it may hold what is worth reading afterwards). `names` gives
    addresses 1–254 names of their own; 1 is the tree itself. Raises NamespaceError.
    """
    tree = Tree(directory)
    for folder in (directory, directory / "hosts", tree.private):
        folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{NETWORK}.{number} {names.get(number, default_name(number))}\n" for number in range(1, 255)]
    tree.hosts_file.write_text("127.0.0.1 localhost\n" + "".join(rows))
    with start(_first_process(directory / "first", "held"), held=True) as running:
        answer = next(running.lines, "it printed nothing")
        if not answer.isdecimal():
            raise NamespaceError(f"the namespace tree did not start: {[answer, *running.lines][-1]}")
        _set_up_tree(tree, names.get(1, default_name(1)))
        yield tree
        running.close(SETUP_TIMEOUT)


def start_host(
    tree: Tree, name: str, *, boot: Sequence[str] = (), env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> int:
    """Start the host `name` of the hosts file and its program `boot`, and return its PID 1 as the caller sees it.

    Takes about 50 ms and does not wait for `boot`, whose output goes to `tree.console(name)`. May be called in the tree
    or outside. Raises NamespaceError if the host lives already or a part of it could not be made; then nothing of it is
    left.
    """
    address = tree.address(name)
    if name in tree.hosts():
        raise NamespaceError(f"host {name} already exists")
    place = tree.place(name)
    place.mkdir(parents=True, exist_ok=True)
    inner = _done(tree.runner, _first_process(place / "first")).stdout.decode().strip()
    try:
        _set_up_host(tree, name, address, inner)
        if boot:
            carried = entering(place / "first", ("setsid", "--fork", *boot), cwd=cwd)
            tree.console(name).write_bytes(b"")
            start(carried, env=env, output=tree.console(name), carrier=True).wait(SETUP_TIMEOUT)
    except AutoscalerError:
        end_host(tree, name)
        raise
    pid = holder(place / "first")
    if pid is None:
        raise HostEnded(f"host {name} ended while it was started; see {tree.console(name)}")
    return pid


def end_host(tree: Tree, name: str) -> None:
    """Kill all processes of a machine at once, as a power failure would. Returns when they have ended."""
    pid = holder(tree.place(name) / "first")
    if pid is not None:
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)
    deadline = time.monotonic() + SETUP_TIMEOUT
    while holder(tree.place(name) / "first") is not None:
        if time.monotonic() > deadline:
            raise NamespaceError(f"host {name} did not end within {SETUP_TIMEOUT:g} s of SIGKILL")
        time.sleep(0.002)
    _drop_link(tree, tree.address(name))


def start_in(
    tree: Tree,
    name: str | None,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: Path | None = None,
    terminal: bool = False,
) -> Running:
    """Start a long-lived child in the tree (`name` None) or on a host of it; see `process.start`."""
    lock = tree.directory / "first" if name is None else tree.place(name) / "first"
    if terminal:
        # Ctrl-C reaches nsenter as well, which would end before the shell it carries.
        ignored, restored = ("--ignore-signal=INT,QUIT",), ("env", "--default-signal=INT,QUIT")
        return start(
            ("env", *ignored, *entering(lock, (*restored, *argv), cwd=cwd)), env=env, terminal=True, carrier=True
        )
    return start(entering(lock, argv, cwd=cwd), env=env, output=output, carrier=True)


def _first_process(lock: Path, *words: str) -> list[str]:
    return [*_UNSHARE, *PythonProgram.isolated(first_process.__file__, str(lock), *words).argv]


def _set_up_tree(tree: Tree, name: str) -> None:
    (tree.directory / "hostname").write_text(f"{name}\n")
    _done(tree.runner, ("mount", "-t", "proc", "proc", "/proc"))
    _done(tree.runner, ("mount", "-t", "tmpfs", "-o", "mode=1777", "private", str(tree.private)))
    with contextlib.suppress(OSError):
        LOCKS.mkdir(parents=True, exist_ok=True)
    if LOCKS.is_dir():  # locks of programs in the tree are the tree's own, and are removed with it
        _done(tree.runner, ("mount", "-t", "tmpfs", "-o", "mode=755", "locks", str(LOCKS)))
    _done(tree.runner, ("mount", "--bind", str(tree.hosts_file), "/etc/hosts"))
    _done(tree.runner, ("mount", "--bind", str(tree.directory / "hostname"), "/etc/hostname"))
    _done(tree.runner, ("hostname", name))
    _done(
        tree.runner,
        ("ip", "-batch", "-"),
        "link set lo up",
        # Of itself a bridge takes its lowest port's address; when that host ends, the others lose it for 30 s.
        f"link add {BRIDGE} address 02:00:0a:01:00:01 type bridge",
        f"addr add {NETWORK}.1/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    )


def _set_up_host(tree: Tree, name: str, address: str, inner: str) -> None:
    """`inner` is the host's PID 1 as the tree numbers it. The MAC follows from the address: a name that returns on a
    new machine is reached at once, whatever the other hosts' neighbour tables hold.
    """
    number = int(address.rpartition(".")[2])
    host = tree.host_runner(name)
    _drop_link(tree, address)
    _done(
        tree.runner,
        ("ip", "-batch", "-"),
        f"link add {_link(address)} type veth peer name eth0 address 02:00:0a:01:00:{number:02x} netns {inner}",
        f"link set {_link(address)} master {BRIDGE} up",
    )
    (tree.place(name) / "hostname").write_text(f"{name}\n")
    _done(host, ("mount", "-t", "proc", "proc", "/proc"))
    _done(host, ("mount", "-t", "tmpfs", "-o", "mode=1777", "private", str(tree.private)))
    if LOCKS.is_dir():  # another machine has other locks
        _done(host, ("mount", "-t", "tmpfs", "-o", "mode=755", "locks", str(LOCKS)))
    _done(host, ("mount", "--bind", str(tree.place(name) / "hostname"), "/etc/hostname"))
    _done(host, ("hostname", name))
    _done(
        host,
        ("ip", "-batch", "-"),
        "link set lo up",
        f"addr add {address}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {NETWORK}.1",
    )


def _link(address: str) -> str:
    return f"host{address.rpartition('.')[2]}"


def _drop_link(tree: Tree, address: str) -> None:
    """The kernel drops a dead host's link a moment after its end; a host of the same name must not find it."""
    tree.runner(("ip", "link", "delete", _link(address)), timeout=SETUP_TIMEOUT)


def _done(runner: Runner, argv: Sequence[str], *lines: str) -> Completed:
    stdin = "".join(f"{line}\n" for line in lines).encode()
    done = runner(argv, timeout=SETUP_TIMEOUT, stdin=stdin)
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise NamespaceError(f"{' '.join(argv)}: {words}")
    return done
