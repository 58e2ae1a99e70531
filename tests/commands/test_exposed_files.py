"""Files that others can write stop the start and a reload, and `doctor` lists all of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import mode_findings
from autoscaler.commands.main import main
from autoscaler.commands.serving import own_files, serving
from autoscaler.errors import SettingsError
from autoscaler.settings import guarded_files, load_settings
from autoscaler.settings.guarded_files import exposed_files
from autoscaler.sge.checks import Level
from autoscaler.store.identity import cell_secret
from tests.commands.test_commands import environ

__all__ = ["environ"]
Settle = Callable[[str], Invocation]
NAMES = {
    "CP_CAP_AUTOSCALE_CONFIG": ("settings.toml", 0o644),
    "CP_CAP_AUTOSCALE_RULES": ("rules.json", 0o644),
    "CP_CAP_AUTOSCALE_VM_SIZES": ("sizes.json", 0o644),
    "CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP": ("boot", 0o755),
    "CP_CAP_AUTOSCALE_HTTP_PASSWORDS": ("passwords", 0o600),
    "CP_CAP_AUTOSCALE_HTTP_CERT": ("cert.pem", 0o644),
    "CP_CAP_AUTOSCALE_HTTP_KEY": ("key.pem", 0o600),
    "CP_CAP_AUTOSCALE_NOTIFICATIONS": ("urls", 0o600),
    "CP_CAP_AUTOSCALE_HEALTH_CHECK": ("check", 0o755),
    "CP_CAP_AUTOSCALE_POLICIES": ("broker", 0o600),
}
TEXTS = {"settings.toml": "CP_CAP_AUTOSCALE_WORKERS = 7\n", "boot": "#!/bin/sh\n", "check": "#!/bin/sh\n"}
OWN = ("store", "secret", "state directory", "health checks", "passwords beside the store")


@pytest.fixture
def files(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment that names a file of every kind, each with safe modes."""
    (tmp_path / "etc").mkdir()
    for name, (file, mode) in NAMES.items():
        path = tmp_path / "etc" / file
        path.write_text(TEXTS.get(file, "{}"))
        path.chmod(mode)
        environ[name] = str(path)
    environ["CP_CAP_AUTOSCALE_POLICIES"] = "celery_queue"
    environ["CP_CAP_AUTOSCALE_POLICY_CELERY_QUEUE_BROKER"] = f"file:{tmp_path}/etc/broker"
    checks = tmp_path / "etc" / "checks"
    checks.mkdir()
    (checks / "disk").write_text("#!/bin/sh\n")
    (checks / "disk").chmod(0o755)
    environ["CP_CAP_AUTOSCALE_HEALTH_CHECKS"] = str(checks)
    return environ


def exposed(environ: dict[str, str], tmp_path: Path, kind: str) -> tuple[Path, str]:
    """Make one of them writable by others; returns it and the command that corrects it."""
    invocation = Invocation(environ)
    own = {
        "store": invocation.store_file,
        "secret": invocation.store_file.with_suffix(".secret"),
        "state directory": invocation.state_directory,
        "health checks": tmp_path / "etc" / "checks" / "disk",
        "passwords beside the store": invocation.state_directory / "http-passwords",
    }
    path = own.get(kind) or tmp_path / "etc" / NAMES[kind][0]
    if kind == "passwords beside the store":
        del environ["CP_CAP_AUTOSCALE_HTTP_PASSWORDS"]
        path.touch(mode=0o600)
    path.chmod(path.stat().st_mode | 0o002)
    return path, f"chmod o-w {path}"


def made(environ: dict[str, str]) -> Invocation:
    invocation = Invocation(dict(environ))
    with invocation.store():
        pass
    cell_secret(invocation.store_file.with_suffix(".secret"))
    return invocation


def test_files_with_safe_modes_are_accepted(files: dict[str, str]) -> None:
    invocation = made(files)
    assert [each.level for each in mode_findings(invocation)] == [Level.OK]


@pytest.mark.parametrize("kind", (*NAMES, *OWN))
def test_a_file_that_others_can_write_stops_the_start_and_doctor_names_the_remedy(
    kind: str, files: dict[str, str], tmp_path: Path
) -> None:
    made(files)
    path, remedy = exposed(files, tmp_path, kind)
    with pytest.raises(SettingsError) as refused, serving(Invocation(files)):
        pass
    assert (str(path) in str(refused.value), "chmod o" in str(refused.value)) == (True, True)
    found = mode_findings(Invocation(files))
    assert [each.level for each in found] == [Level.FAIL]
    assert remedy in f"{found[0].remedy} {found[0].found}" or f"chmod o= {path}" in found[0].remedy


def test_a_socket_in_a_directory_that_others_can_write_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    """Others could answer in its place, and make root change the mode of any file."""
    made(files)
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    files["CP_CAP_AUTOSCALE_SOCKET"] = str(place / "a.sock")
    with (
        pytest.raises(SettingsError, match=f"the directory of the socket: .*chmod o-w {place}"),
        serving(Invocation(files)),
    ):
        pass
    assert [each.level for each in mode_findings(Invocation(files))] == [Level.FAIL]
    place.chmod(0o1777)  # as in /tmp: others cannot replace our files there
    assert [each.level for each in mode_findings(Invocation(files))] == [Level.OK]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_to_root_the_runtime_directory_of_the_account_is_safe(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config check` runs as root."""
    place = tmp_path / "run"
    place.mkdir()
    os.chown(place, 1, -1)
    files["CP_CAP_AUTOSCALE_SOCKET"] = str(place / "a.sock")
    assert "the directory of the socket" in str(exposed_files(Invocation(files).settings, files))
    monkeypatch.setattr(guarded_files, "OF_ROOT", place)
    assert exposed_files(Invocation(files).settings, files) == []


def test_doctor_lists_all_exposed_files_at_once(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(files)
    kinds = [each for each in NAMES if each != "CP_CAP_AUTOSCALE_CONFIG"]
    for kind in kinds:
        exposed(files, tmp_path, kind)
    assert len(mode_findings(Invocation(files))) == len(kinds)


def test_no_command_reads_a_settings_file_that_everybody_can_write(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_CONFIG", files["CP_CAP_AUTOSCALE_CONFIG"])
    (tmp_path / "etc" / "settings.toml").chmod(0o666)
    code, printed = main(["config", "show"]), capsys.readouterr().err
    assert (code, f"chmod o-w {tmp_path}/etc/settings.toml" in printed) == (2, True)


def test_a_trusted_group_of_the_environment_may_write_settings_and_rules(files: dict[str, str], tmp_path: Path) -> None:
    import grp

    group = grp.getgrgid((tmp_path / "etc").stat().st_gid).gr_name
    for file in ("settings.toml", "rules.json"):
        (tmp_path / "etc" / file).chmod(0o664)
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_TRUSTED_GROUP"):
        load_settings(files)
    files["CP_CAP_AUTOSCALE_TRUSTED_GROUP"] = group
    assert load_settings(files).queues[""].workers == 7
    assert [each.level for each in mode_findings(made(files))] == [Level.OK]


def test_a_settings_file_cannot_trust_its_own_group(files: dict[str, str], tmp_path: Path) -> None:
    import grp

    group = grp.getgrgid((tmp_path / "etc").stat().st_gid).gr_name
    (tmp_path / "etc" / "settings.toml").write_text(f'CP_CAP_AUTOSCALE_TRUSTED_GROUP = "{group}"\n')
    (tmp_path / "etc" / "settings.toml").chmod(0o664)
    with pytest.raises(SettingsError, match="chmod g-w"):
        load_settings(files)


@pytest.mark.parametrize("which", ("settings.toml", "rules.json"))
def test_at_a_reload_an_exposed_file_is_not_read_and_the_old_settings_stay(
    environ: dict[str, str], tmp_path: Path, which: str
) -> None:
    (tmp_path / "settings.toml").write_text("CP_CAP_AUTOSCALE_WORKERS = 7\n")
    (tmp_path / "rules.json").write_text('{"idle_timeout": 60}')
    environ["CP_CAP_AUTOSCALE_CONFIG"] = str(tmp_path / "settings.toml")
    environ["CP_CAP_AUTOSCALE_RULES"] = str(tmp_path / "rules.json")
    with serving(Invocation(environ)) as loop:
        assert loop.reload is not None
        assert loop.observer.rule_files is not None
        before, rules = loop.observer.policy, loop.observer.rule_files.rules()
        (tmp_path / "settings.toml").write_text("CP_CAP_AUTOSCALE_WORKERS = 99\n")
        (tmp_path / "rules.json").write_text('{"idle_timeout": 99}')
        (tmp_path / which).chmod(0o666)
        loop._reload()
        stays = loop.observer.policy == before
        again = loop.observer.rule_files.rules()
    assert (stays, again == rules) == (True, which == "rules.json")


def test_the_checked_own_files_are_those_of_the_state_directory(environ: dict[str, str]) -> None:
    invocation = made(environ)
    names = [path.name.rpartition(".")[2] for _, path in own_files(invocation)]
    assert names == ["sqlite", "secret", "http-passwords", "http-tokens"]


def test_doctor_reports_file_modes_as_json(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["level"] for each in found if each["what"] == "file modes"] == ["ok"]
