"""What `make dist` makes is installed in fresh roots of Debian, without a network, and used on a private cell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler.lab.played_cloud import played_cloud
from installers.__main__ import build
from installers.sources import ROOT, export
from tests.dist.conftest import NEWER, WORK, Built, MakeRoot
from tests.grid_engine.booted import ACCOUNT, Machine, cannot_boot, cell_and_machine
from tests.grid_engine.waiting import Shown, Until
from tests.page_blocks import elsewhere

SERVICE = "sge-autoscaler.service"
PATIENT = 240
APT = ("apt-get", "install", "--yes", "--quiet")
PAGE = Path("docs/operate/install.md")
OF_A_SHELL = ("HOME", "TMPDIR", "USER", "LOGNAME", "PATH")


def inside(root: Path, *argv: str, proc: bool = False) -> subprocess.CompletedProcess[str]:
    """A command in a root directory, where there is no network. `proc`: with /proc, whose processes end with it."""
    own = ("--pid", "--fork", f"--mount-proc={root}/proc") if proc else ()
    given = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *argv)
    words = ("unshare", "--net", *own, "chroot", str(root), *given)
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


def online(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A shell in a root directory, with this machine's way to a package index, and the certificates that it trusts."""
    for name in ("resolv.conf", "hosts", "pip.conf", "ssl/certs/ca-certificates.crt"):
        if (file := Path("/etc", name)).exists():
            shutil.copyfile(file, root / "etc" / name)
    ours = [f"{name}={value}" for name, value in os.environ.items() if re.match(r"(?i)(ssl|requests|https?)_", name)]
    given = ("PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", *ours)
    words = ("chroot", str(root), "/usr/bin/env", "-i", *given, "bash", "-ec", f"cd /root\n{script}")
    return subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)


def unpack(archive: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(("tar", "--zstd", "-xf", str(archive), "-C", str(to)), check=True, timeout=600)


def test_the_wheel_has_one_top_level_package(built: Built) -> None:
    names = zipfile.ZipFile(built.named(r".*\.whl")).namelist()
    assert {name.split("/")[0] for name in names if ".d" not in name.split("/")[0]} == {"autoscaler"}


@pytest.mark.parametrize("place", ("opt", "srv/some where"))
@pytest.mark.parametrize("suite", ("bookworm", "bullseye"))
def test_the_folder_works_where_it_is_put_on_a_machine_without_python(
    built: Built, make_root: MakeRoot, version: str, suite: str, place: str
) -> None:
    root = make_root(suite)
    for extra in ("", "aws-", "azure-", "celery-", "dask-"):
        unpack(built.named(rf"sge-autoscaler-{extra}[0-9].*\.tar\.zst"), root / place)
    program = f"/{place}/sge-autoscaler/bin/sge-autoscaler"
    shown = inside(root, program, "config", "show")
    assert (shown.returncode, "CP_CAP_AUTOSCALE_WORKERS" in shown.stdout) == (0, True), shown.stderr
    modules = "boto3, azure.identity, azure.mgmt.compute, celery, dask_jobqueue, ssl, sqlite3, sys"
    imported = f"import {modules}; print(sys.prefix)"
    done = inside(root, f"/{place}/sge-autoscaler/bin/python3", "-c", imported, proc=True)
    assert (done.returncode, done.stdout.strip()) == (0, f"/{place}/sge-autoscaler"), done.stderr
    assert inside(root, "python3", "--version").returncode == 127, "there is none"


def test_the_page_unpacks_the_folder(built: Built, make_root: MakeRoot, version: str) -> None:
    root = make_root("bookworm", "zstd")
    for path in built.files:
        if path.name.endswith(".tar.zst"):
            shutil.copyfile(path, root / "root" / path.name)
    _, block, *_ = elsewhere("packages", PAGE)
    done = inside(root, "bash", "-ec", f"cd /root\n{block.text}PATH=/usr/local/bin:$PATH\nsge-autoscaler --version")
    assert (done.returncode, done.stdout) == (0, f"sge-autoscaler, version {version}\n"), done.stderr


def test_the_page_installs_the_wheel_and_a_checkout(built: Built, make_root: MakeRoot, version: str) -> None:
    """From a package index."""
    root = make_root("bookworm", "python3-venv", "pipx", "ca-certificates")
    wheel = built.named(r".*\.whl")
    shutil.copyfile(wheel, root / "root" / wheel.name)
    export(ROOT, root / "root" / "checkout")
    *_, of_wheel, of_checkout = elsewhere("packages", PAGE)
    shown = "sge-autoscaler --version\n"
    done = online(root, f"python3 -m venv own; . own/bin/activate\n{of_wheel.text}{shown}python -c 'import boto3'\n")
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"sge-autoscaler, version {version}"]), done.stderr
    assert (root / "root/.local/bin/sge-autoscaler").is_symlink(), "by pipx"
    done = online(root, f"cd checkout\n{of_checkout.text}{shown}")
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"sge-autoscaler, version {version}"]), done.stderr


def test_the_packages_are_the_same_in_another_folder(built: Built, tmp_path: Path) -> None:
    """Of the same interpreter: to build that twice takes an hour."""
    work = tmp_path / "another" / "folder"
    for kept in (*WORK.glob("interpreter-*"), WORK / "packages", WORK / "tools", WORK / "sphinx", WORK / "debian"):
        shutil.copytree(kept, work / kept.name, symlinks=True)
    umask = os.umask(0o77)
    try:
        again = build(tmp_path / "dist", work)
    finally:
        os.umask(umask)
    different = [path.name for path in again if path.read_bytes() != built.named(re.escape(path.name)).read_bytes()]
    assert (different, len(again)) == ([], 11)


def test_the_packages_are_clean_by_lintian(built: Built) -> None:
    debs = [str(path) for path in built.files if path.suffix == ".deb"]
    argv = ("lintian", "--fail-on", "error,warning", *debs)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# -- on a private cell -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=("bookworm", "bullseye"))
def machine(make_root: MakeRoot, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A fresh Debian 12 or 11 with Grid Engine's commands, booted by systemd beside an empty cell."""
    if found := cannot_boot():
        pytest.skip(found)
    with cell_and_machine(make_root(request.param, "systemd", "gridengine-client", "procps", "iproute2")) as made:
        yield made


def install(machine: Machine, built: Built, *extras: str) -> str:
    """By dpkg, as root; returns what it said."""
    place = machine.cell.directory / "packages"
    place.mkdir(exist_ok=True)
    names = []
    for pattern in (r"sge-autoscaler_.*\.deb", *(rf"sge-autoscaler-{extra}_.*\.deb" for extra in extras)):
        file = built.named(pattern)
        (place / file.name).write_bytes(file.read_bytes())
        names.append(str(place / file.name))
    done = machine.run("dpkg", "--install", *names, timeout=900.0)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


@pytest.mark.skipif(cannot_boot() is not None, reason=cannot_boot() or "")
def test_a_package_is_installed_used_upgraded_under_load_and_purged(
    machine: Machine, built: Built, newer: Built, version: str, until: Until, show_on_failure: Shown
) -> None:
    cell = machine.cell
    show_on_failure["the service"] = lambda: machine.log_text(SERVICE)
    before = set(machine.out("find", "/", "-xdev", "-not", "-path", "/proc/*").splitlines())
    with played_cloud(cell, "aws") as cloud:
        assert "nothing of it runs yet" in install_as_the_page_says(machine, built, cloud.environment)
        jobs = [cell.submit("-b", "y", "-j", "y", "sleep", "40") for _ in range(4)]
        until(lambda: running(machine) >= 2, PATIENT, "jobs run on workers")
        workers = instances(machine)
        install(machine, newer, "aws")
        until(lambda: f"sge-autoscaler {NEWER}" in machine.log_text(SERVICE) or restarted(machine), PATIENT)
        assert machine.out("systemctl", "is-active", SERVICE).strip() == "active"
        assert instances(machine) >= workers, "workers stay over the upgrade"
        until(lambda: all(ended_well(machine, job) for job in jobs), PATIENT, "every job ends well, once")
        assert machine.log_text(SERVICE).count("launching") <= len(jobs), "no worker is launched twice for a job"
        older = machine.run(*APT, "--allow-downgrades", *in_machine(machine, built, "", "-aws"), timeout=900.0)
        assert (older.returncode != 0, "is older" in (older.stdout + older.stderr).decode()) == (True, True)
        assert states(machine) == f"sge-autoscaler {NEWER} installed\nsge-autoscaler-aws {NEWER} installed\n"
        an_upgrade_without_the_add_on_ends_and_names_it(machine, newer)
        stopped = machine.command("stop", "--now")
        assert stopped.returncode == 0, stopped.stderr
    purged = machine.run("dpkg", "--purge", "sge-autoscaler-aws", "sge-autoscaler", timeout=900.0)
    assert purged.returncode == 0, purged.stderr
    assert "what the cell itself has stays" in purged.stdout.decode()
    left = set(machine.out("find", "/", "-xdev", "-not", "-path", "/proc/*").splitlines()) - before
    assert [path for path in sorted(left) if "sge-autoscaler" in path and str(cell.directory) not in path] == []
    assert machine.run("test", "-d", "/opt").returncode == 0, "it was there before"
    assert machine.run("getent", "passwd", ACCOUNT).returncode != 0


def in_machine(machine: Machine, built: Built, *extras: str) -> list[str]:
    names = (built.named(rf"sge-autoscaler{extra}_[0-9].*\.deb").name for extra in extras)
    return [str(machine.cell.directory / "packages" / name) for name in names]


def states(machine: Machine) -> str:
    form = "--showformat=${Package} ${Version} ${db:Status-Status}\n"
    return machine.out("dpkg-query", "--show", form, "sge-autoscaler", "sge-autoscaler-aws")


def an_upgrade_without_the_add_on_ends_and_names_it(machine: Machine, newer: Built) -> None:
    """Apt takes the add-on away then, since it is of another version; the service cannot start until it is back."""
    machine.out("dpkg", "--remove", "sge-autoscaler-aws")
    done = machine.run("dpkg", "--install", *in_machine(machine, newer, ""), timeout=900.0)
    assert (done.returncode, "does not start" in done.stderr.decode()) == (0, True), done.stderr.decode()
    assert "perhaps the package sge-autoscaler-aws" in machine.log_text(SERVICE)
    machine.out("dpkg", "--install", *in_machine(machine, newer, "-aws"))
    machine.out("systemctl", "start", SERVICE)


def install_as_the_page_says(machine: Machine, built: Built, of_cloud: Mapping[str, str]) -> str:
    """By the block of docs/operate/install.md; what a person does in the editor is done beforehand, which a
    conf file takes as a person's change. Returns what apt-get said.
    """
    block, *_ = elsewhere("packages", PAGE)
    place = machine.cell.directory / "packages"
    place.mkdir()
    for name in ("sge-autoscaler", "sge-autoscaler-aws"):
        file = built.named(rf"{name}_[0-9].*\.deb")
        shutil.copyfile(file, place / file.name)
    first, *rest = block.text.splitlines(keepends=True)
    got = machine.run("bash", "-ec", f"cd {place}\n{first}", timeout=900.0)
    assert got.returncode == 0, got.stderr.decode()
    configure(machine, of_cloud)
    machine.cell.out("qconf", "-dm", ACCOUNT)
    typed = "editor() { [ $# = 3 ]; }; export DEBIAN_FRONTEND=noninteractive\n"
    block_after = "".join(rest).replace("init\n", "init --yes\n")
    done = machine.run("bash", "-c", f"{typed}{block_after}")  # doctor fails until init is through
    said = done.stdout.decode() + done.stderr.decode()
    assert (done.returncode, "added" in said, "fail  provider" in said) == (0, True, False), said
    return (got.stdout + got.stderr).decode()


def configure(machine: Machine, of_cloud: Mapping[str, str]) -> None:
    settings = {
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.large",
        "CP_CAP_AUTOSCALE_WORKERS": "4",
        "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "4",
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600",
        "CP_CAP_AUTOSCALE_POLLING_DELAY": "0.5",
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
    }
    given = {**machine.cell.environment, **settings, **of_cloud}
    secret = "".join(f"{name}={given.pop(name)}\n" for name in tuple(given) if name.startswith("AWS_"))
    own = {name: value for name, value in given.items() if name not in OF_A_SHELL}
    own["PATH"] = f"{machine.cell.root}/bin:/usr/lib/gridengine:/usr/local/bin:/usr/bin:/bin"
    machine.write("/etc/default/sge-autoscaler.credentials", secret, "600")
    machine.write("/etc/default/sge-autoscaler", "".join(f"{name}={value}\n" for name, value in own.items()))


def running(machine: Machine) -> int:
    return machine.cell.out("qstat", "-s", "r").count(" r ")


def instances(machine: Machine) -> set[str]:
    return set(machine.cell.out("qconf", "-sel").split())


def restarted(machine: Machine) -> bool:
    return machine.log_text(SERVICE).count("serving cell") >= 2


def ended_well(machine: Machine, job: str) -> bool:
    shown = machine.cell.runner(("qacct", "-j", job), timeout=60.0).stdout.decode()
    return shown.count("exit_status  0") == 1
