"""Machines of namespaces, without any Grid Engine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler import namespaces
from autoscaler.errors import CommandNotFound, CommandTimedOut
from autoscaler.namespaces import HostEnded, NamespaceError, Tree
from autoscaler.process import Runner
from tests.deadlines import wait_for

pytestmark = pytest.mark.cell
W1, W2 = namespaces.default_name(5), namespaces.default_name(6)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    with namespaces.own_tree(tmp_path / "tree", names={1: "master"}) as made:
        yield made


def output(runner: Runner, *argv: str) -> str:
    return runner(argv, timeout=120).stdout.decode().strip()


def reaches(tree: Tree, host: str, other: str) -> bool:
    """Whether a program on `host` gets an answer from one that listens on `other`."""
    listen = "import socket; s = socket.create_server(('0.0.0.0', 7000)); s.accept()[0].sendall(b'hello')"
    ask = f"import socket; print(socket.create_connection(({other!r}, 7000), timeout=120).recv(9).decode())"
    with namespaces.start_in(tree, other, (sys.executable, "-c", listen)):
        wait_for(lambda: "7000" in output(tree.host_runner(other), "ss", "-Hltn"), 5)
        return output(tree.host_runner(host), sys.executable, "-c", ask) == "hello"


def test_a_host_has_its_own_name_address_and_processes(tree: Tree) -> None:
    namespaces.start_host(tree, W1)
    on_host = tree.host_runner(W1)
    seen = (
        output(on_host, "hostname"),
        output(on_host, "cat", "/etc/hostname"),
        output(on_host, "hostname", "-i"),
        "first_process" in output(on_host, "cat", "/proc/1/cmdline"),
    )
    assert seen == (W1, W1, "10.1.0.5", True)


IN_A_CHROOT = """
mount --rbind / "$1/root" && mount -t tmpfs tmpfs "$1/root/mnt" && exec chroot "$1/root" "$2" -c '
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from autoscaler import namespaces
from tests.deadlines import wait_for
with namespaces.own_tree(Path("/mnt/tree"), names={1: "master"}) as tree:
    namespaces.start_host(tree, namespaces.default_name(5))
    listing = tree.host_runner(namespaces.default_name(5))(("ls", "/mnt"), timeout=120)
print(listing.stdout.decode().strip())
' "$3"
"""


def test_a_tree_made_in_a_chroot_stays_in_it(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    words = (str(tmp_path), sys.executable, str(Path(namespaces.__file__).parents[1]))
    argv = ("unshare", "--mount", "sh", "-c", IN_A_CHROOT, "sh", *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("tree\n", "")


def test_every_name_resolves_before_its_host_is_started(tree: Tree) -> None:
    assert output(tree.runner, "getent", "hosts", "10.1.0.254") == "10.1.0.254      ip-10-1-0-254"


def test_the_tree_keeps_its_mac_address_when_hosts_come_and_go(tree: Tree) -> None:
    def address() -> str:
        return output(tree.runner, "ip", "-o", "link", "show", namespaces.BRIDGE).partition("link/ether ")[2].split()[0]

    seen = {address()}
    for name in (W1, W2):
        namespaces.start_host(tree, name)
        seen.add(address())
    namespaces.end_host(tree, W1)
    assert seen | {address()} == {"02:00:0a:01:00:01"}


def test_hosts_reach_each_other_and_the_tree(tree: Tree) -> None:
    for name in (W1, W2):
        namespaces.start_host(tree, name)
    assert reaches(tree, W1, W2)


def test_a_host_restarted_under_its_name_is_reached_at_once(tree: Tree) -> None:
    for name in (W1, W2):
        namespaces.start_host(tree, name)
    assert reaches(tree, W1, W2)
    namespaces.end_host(tree, W2)
    namespaces.start_host(tree, W2)
    assert reaches(tree, W1, W2)


def test_files_in_the_private_folder_of_a_host_are_seen_by_no_other(tree: Tree) -> None:
    for name in (W1, W2):
        namespaces.start_host(tree, name)
    output(tree.host_runner(W1), "touch", str(tree.private / "mine"))
    seen = [output(tree.host_runner(name), "ls", str(tree.private)) for name in (W1, W2)]
    assert (seen, list(tree.private.iterdir())) == (["mine", ""], [])


def test_the_boot_program_runs_on_the_host_and_its_output_is_on_the_console(tree: Tree) -> None:
    namespaces.start_host(tree, W1, boot=("sh", "-c", "hostname; echo $COLOUR; sleep 60"), env={"COLOUR": "blue"})
    wait_for(lambda: "blue" in tree.console(W1).read_text(), 5)
    assert tree.console(W1).read_text().split() == [W1, "blue"]


def test_a_host_that_ends_takes_every_process_along(tree: Tree) -> None:
    pid = namespaces.start_host(tree, W1, boot=("sh", "-c", "sleep 876 & setsid sleep 876"))
    namespaces.end_host(tree, W1)
    assert (Path(f"/proc/{pid}").exists(), "876" in output(tree.runner, "ps", "ax"), tree.hosts()) == (False, False, {})


def test_ending_a_host_that_is_gone_succeeds(tree: Tree) -> None:
    namespaces.start_host(tree, W1)
    namespaces.end_host(tree, W1)
    namespaces.end_host(tree, W1)
    assert tree.hosts() == {}


def test_a_running_host_cannot_be_started_again(tree: Tree) -> None:
    namespaces.start_host(tree, W1)
    with pytest.raises(NamespaceError, match="already exists"):
        namespaces.start_host(tree, W1)


def test_a_name_without_an_address_cannot_be_a_host(tree: Tree) -> None:
    with pytest.raises(NamespaceError, match="nobody"):
        namespaces.start_host(tree, "nobody")


def test_names_of_running_hosts_are_not_free(tree: Tree) -> None:
    namespaces.start_host(tree, namespaces.default_name(2))
    assert tree.free_names()[:2] == [namespaces.default_name(3), namespaces.default_name(4)]


def test_a_command_for_an_ended_host_raises_host_ended(tree: Tree) -> None:
    namespaces.start_host(tree, W1)
    namespaces.end_host(tree, W1)
    with pytest.raises(HostEnded):
        tree.host_runner(W1)(("true",), timeout=120)


def test_a_command_in_the_tree_is_killed_at_its_timeout(tree: Tree) -> None:
    with pytest.raises(CommandTimedOut):
        tree.runner(("sh", "-c", "trap '' TERM; sleep 875; sleep 875"), timeout=0.3)
    assert "875" not in output(tree.runner, "ps", "ax")


def test_an_unknown_command_in_the_tree_is_named(tree: Tree) -> None:
    with pytest.raises(CommandNotFound, match="no-such-command"):
        tree.runner(("no-such-command",), timeout=120)


def test_exit_code_124_is_not_taken_for_a_timeout(tree: Tree) -> None:
    assert tree.runner(("sh", "-c", "exit 124"), timeout=120).returncode == 124


def test_orphaned_processes_are_reaped(tree: Tree) -> None:
    namespaces.start_host(tree, W1)
    for runner in (tree.runner, tree.host_runner(W1)):
        runner(("sh", "-c", "(sleep 0.05 &) ; (true &)"), timeout=120)

    def ended_or_unreaped() -> list[str]:
        """The processes left of those started there: none, once all were reaped."""
        listed = output(tree.runner, "ps", "ax", "-o", "stat=,comm=").splitlines()
        return [line for line in listed if line.startswith("Z") or line.endswith(("sleep", "sh"))]

    assert wait_for(lambda: not ended_or_unreaped(), 5), ended_or_unreaped()


def test_a_host_outlives_the_process_that_started_it(tree: Tree) -> None:
    program = (
        "import os, signal; from pathlib import Path; from autoscaler.namespaces import Tree, start_host;"
        f"start_host(Tree(Path({str(tree.directory)!r})), {W1!r}, boot=('sleep', '60'));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = tree.runner((sys.executable, "-c", program), timeout=120)
    assert (ended.returncode != 0, list(tree.hosts())) == (True, [W1])


def test_trees_are_independent(tree: Tree, tmp_path: Path) -> None:
    with namespaces.own_tree(tmp_path / "other", names={1: "elsewhere"}) as other:
        for one in (tree, other):
            namespaces.start_host(one, W1)
        namespaces.end_host(other, W1)
        assert (list(tree.hosts()), output(other.runner, "hostname")) == ([W1], "elsewhere")


def test_nothing_is_left_when_the_owner_is_killed(tmp_path: Path) -> None:
    directory = tmp_path / "tree"
    program = (
        "import time; from pathlib import Path; from autoscaler import namespaces\n"
        f"with namespaces.own_tree(Path({str(directory)!r}), names={{}}) as tree:\n"
        f"    print(*[namespaces.start_host(tree, {W1!r}, boot=('sleep', '60'))], flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    host = int(owner.stdout.readline())
    first = namespaces.holder(directory / "first")
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in (first, host)), 5)


def test_an_ended_tree_has_no_holder_and_no_hosts(tmp_path: Path) -> None:
    with namespaces.own_tree(tmp_path / "tree", names={}) as tree:
        namespaces.start_host(tree, W1)
    assert (namespaces.holder(tree.directory / "first"), tree.hosts()) == (None, {})


def test_the_probe_reports_what_is_missing_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert namespaces.probe() == "namespaces need root: run as root or with sudo"
