"""Anything but a regular file of bounded length is refused: nothing hangs, and memory stays bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.answer_client import ServiceAddress, ask, remote
from autoscaler.api.passwords import Passwords
from autoscaler.api.tokens import Tokens
from autoscaler.commands.serving import refuse_unusable
from autoscaler.constraints.rules import load_rules
from autoscaler.constraints.vm_sizes import load_vm_sizes
from autoscaler.engine.deliver import Message, deliver
from autoscaler.engine.record import read_record
from autoscaler.errors import SettingsError
from autoscaler.jetpack.service import Service
from autoscaler.jetpack.service import Unreachable as Unreached
from autoscaler.outside_files import read_regular
from autoscaler.providers.aws.notices import notice_of
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.interface import Unreachable
from autoscaler.providers.rest import Answer
from autoscaler.providers.settings import read_settings
from autoscaler.settings import load_settings

WELL = {"instance_size": "m5.large", "CP_CAP_AUTOSCALE_PROVIDER": "fake"}
DEEP = "[" * 100_000
QSTAT = "<?xml version='1.0'?><job_info><queue_info/><job_info/></job_info>"


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


NO_FILES: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to(path.parent, target_is_directory=True),
    Path.mkdir,
    sparse,
)
NAMES = ("pipe", "device", "loop", "link to a directory", "directory", "sparse")


@pytest.fixture(params=NO_FILES, ids=NAMES)
def put(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    made: Callable[[Path], object] = request.param
    return made


def test_only_a_regular_file_within_the_limit_is_read(tmp_path: Path, put: Callable[[Path], object]) -> None:
    put(tmp_path / "it")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=r"regular|longer|symbolic|directory") as refused:
        read_regular(tmp_path / "it", 1000)
    assert Path(refused.value.filename) == tmp_path / "it"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_is_read_up_to_its_limit_and_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 1000) == b"x" * 1000
    with pytest.raises(OSError, match="longer than 999 bytes"):
        read_regular(tmp_path / "file", 999)


def test_a_file_without_a_known_length_is_read(tmp_path: Path) -> None:
    """As files below /proc are."""
    assert read_regular(Path("/proc/self/cmdline"), 1 << 20)


@pytest.mark.parametrize(
    "name",
    ("qstat.xml", "qhost.xml", "qstat-j.xml", "provider.json", "memory.json", "settings.toml", "rules.json", "now"),
)
def test_a_record_with_anything_but_regular_files_is_refused(
    tmp_path: Path, name: str, put: Callable[[Path], object]
) -> None:
    if name != "qstat.xml":
        (tmp_path / "qstat.xml").write_text(QSTAT)
        (tmp_path / "now").write_text("2026-11-21T09:04:23+00:00\n")
    (tmp_path / name).unlink(missing_ok=True)
    put(tmp_path / name)
    with pytest.raises(SettingsError, match=name):
        read_record(tmp_path)


@pytest.mark.parametrize("name", ("provider.json", "memory.json", "requests.json", "rules.json", "settings.toml"))
def test_a_record_with_endless_nesting_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "qstat.xml").write_text(QSTAT)
    (tmp_path / "now").write_text("2026-11-21T09:04:23+00:00\n")
    (tmp_path / name).write_text(f"a = {DEEP}" if name.endswith("toml") else DEEP)
    with pytest.raises(SettingsError, match=f"(?s){name}.*nested too deeply"):
        read_record(tmp_path)


READERS: tuple[Callable[[Path], object], ...] = (load_rules, load_vm_sizes, lambda path: load_settings({}, path))


@pytest.mark.parametrize("read", READERS, ids=("rules", "VM sizes", "settings"))
def test_rules_sizes_and_settings_that_are_not_files_are_refused(
    tmp_path: Path, read: Callable[[Path], object], put: Callable[[Path], object]
) -> None:
    put(tmp_path / "it")
    with pytest.raises(SettingsError, match="it"):
        read(tmp_path / "it")


def asked_with(**files: str) -> None:
    ask(replace(ServiceAddress(url="https://127.0.0.1:1"), **files), "status")  # type: ignore[arg-type]


OF_SETTINGS: tuple[Callable[[Path], object], ...] = (
    lambda path: asked_with(token_file=str(path)),
    lambda path: asked_with(login_file=str(path)),
    lambda path: asked_with(ca_file=str(path)),
    lambda path: remote({}, path),
    lambda path: Service(url="https://127.0.0.1:1", login=str(path)).call("GET", "/requests"),
    lambda path: Passwords(path),
    lambda path: Tokens(path),
    lambda path: deliver(Message(str(path), "", "")),
    lambda path: load_catalog(path),
    lambda path: refuse_unusable(load_settings({"CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP": str(path), **WELL})),
    lambda path: read_settings(CycleCloudSettings, {"CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD": f"file:{path}"}),
)
OF = ("token", "login", "CA", "client", "jetpack", "passwords", "tokens", "services", "catalogue", "script", "secret")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("read", OF_SETTINGS, ids=OF)
def test_a_path_in_a_setting_that_is_not_a_file_is_refused(
    tmp_path: Path, read: Callable[[Path], object], put: Callable[[Path], object]
) -> None:
    """Also an own pipe, at which a command would wait forever."""
    put(tmp_path / "it")
    if not (tmp_path / "it").is_symlink():
        (tmp_path / "it").chmod(0o700)
    with pytest.raises((SettingsError, Unreached), match="it"):
        read(tmp_path / "it")


def test_a_shared_resource_that_is_not_a_file_is_refused(tmp_path: Path, put: Callable[[Path], object]) -> None:
    """It is read at every observation."""
    put(tmp_path / "source")
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"shared_resources": [{"name": "a", "source": f"{tmp_path}/source", "type": "int"}]}))
    with pytest.raises(SettingsError, match="source"):
        load_rules(rules)


@pytest.mark.parametrize(
    "read", (load_rules, load_catalog, lambda path: load_settings({}, path)), ids=("rules", "catalogue", "settings")
)
def test_a_toml_file_with_endless_nesting_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "it.toml").write_text(f"constraints = {DEEP}")
    with pytest.raises(SettingsError, match="nested too deeply"):
        read(tmp_path / "it.toml")


def test_a_cloud_answer_with_endless_nesting_is_not_read() -> None:
    assert notice_of(DEEP) is None
    with pytest.raises(Unreachable, match="is not JSON"):
        Answer("GET /nodes", 200, DEEP).json()
