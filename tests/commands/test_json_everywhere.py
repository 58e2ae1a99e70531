"""Every command prints JSON for programs, and its help in the same form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from autoscaler.commands import jetpack, worker
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import cli, main
from autoscaler.lab import cell_folder
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from autoscaler.worker_configuration import FILE, write
from tests.commands.test_catalog import SKUS
from tests.commands.test_commands import environ, worker_store
from tests.commands.test_config import WELL
from tests.deadlines import replace_sleep

__all__ = ("environ", "worker_store")
WITHOUT = {
    "cell exec": "prints what the program in the cell prints",
    "completion": "prints a script for a shell",
    "platform serve": "is the process of a queue, which Cloud Pipeline starts",
    "hosts": "answers systemd's socket in its own words",
}


def walked(command: click.Command, context: click.Context, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that can be called."""
    if not isinstance(command, click.Group):
        yield words
        return
    if command.invoke_without_command:
        yield words
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from walked(below, context, (*words, name))


def found(words: tuple[str, ...]) -> click.Command:
    command: click.Command = cli
    context = click.Context(cli)
    for word in words:
        assert isinstance(command, click.Group)
        below = command.get_command(context, word)
        assert below is not None
        command = below
    return command


EVERY = tuple(walked(cli, click.Context(cli)))


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_json_or_a_stated_reason_why_not(words: tuple[str, ...]) -> None:
    options = {option for parameter in found(words).params for option in parameter.opts}
    assert ("--json" in options) != (" ".join(words) in WITHOUT)


def test_no_exemption_is_left_of_a_removed_command() -> None:
    assert set(WITHOUT) <= {" ".join(words) for words in EVERY}


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_and_option_has_help_shown_alike(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        found(words), "_help_option", None
    )  # Click keeps the option of a test which calls the command alone
    assert main([*words, "-h"]) == 0
    short = capsys.readouterr().out
    assert main([*words, "--help"]) == 0
    assert capsys.readouterr().out == short
    assert short.startswith(f"Usage: sge-autoscaler {' '.join(words)} ")
    assert "-h, --help" in short
    result = next((line for line in short.splitlines() if line.lstrip().startswith("--json")), None)
    assert result is None or "JSON" in result.partition("--json")[2], result
    assert not short.partition("\n\n")[2].lstrip().startswith(("Options:", "Commands:"))
    assert [one.name for one in found(words).params if isinstance(one, click.Option) and not one.help] == []


# -- those that print their own ----------------------------------------------------------------------------------------


def printed_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, object]:
    try:
        ended = main([*words, "--json"])
    except SystemExit as end:
        ended = end.code  # type: ignore[assignment]
    assert ended == code
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    return document


def test_jetpack_names_its_files_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = jetpack.InstallDirectories(tmp_path, tmp_path)
    monkeypatch.setattr(jetpack.InstallDirectories, "of_this_python", classmethod(lambda cls: place))
    files = [str(place.start), str(place.command)]
    assert printed_json(capsys, "jetpack", "--install")["files"] == files
    removed = printed_json(capsys, "jetpack", "--remove")
    assert (removed["files"], removed["done"]) == (files, True)
    assert printed_json(capsys, "jetpack", "--remove")["done"] is False


@pytest.mark.parametrize(
    ("words", "value", "default"),
    ((["a.b"], "1", False), (["a"], {"b": "1", "c": "x"}, False), (["d", "else"], "else", True)),
)
def test_a_worker_configuration_key_is_a_value_or_an_object_in_json(
    words: list[str],
    value: object,
    default: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / FILE).write_text(write({"a.b": "1", "a.c": "x"}))
    monkeypatch.setattr(worker._values, "__defaults__", ((tmp_path,),))
    document = printed_json(capsys, "worker", "config", "get", *words)
    assert (document["value"], document["default"]) == (value, default)


def test_cells_are_listed_in_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cell_folder, "living", lambda: ["one", "two"])
    assert printed_json(capsys, "cell", "list")["cells"] == ["one", "two"]


def test_config_check_has_errors_and_notes_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**WELL, "CP_CAP_AUTOSCALE_HEALTH_CHECK": "/no/such/program"}.items():
        monkeypatch.setenv(name, value)
    document = printed_json(capsys, "config", "check")
    assert (document["valid"], document["errors"]) == (True, [])
    assert any("no executable program" in note for note in document["notes"])  # type: ignore[attr-defined]
    for name, value in (("CP_CAP_AUTOSCALE_HTTP", "localhost"), ("CP_CAP_AUTOSCALE_POLING_DELAY", "1")):
        monkeypatch.setenv(name, value)
        document = printed_json(capsys, "config", "check", code=2)
        assert (document["valid"], len(document["errors"])) == (False, 1)  # type: ignore[arg-type]
        assert name in str(document["errors"])


def test_a_check_of_stale_pages_names_them_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "conf").mkdir()
    stale = printed_json(capsys, "config", "docs", "--check", "--root", str(tmp_path), code=1)
    assert (stale["done"], not any(tmp_path.glob("*/*"))) == (False, True)
    pages = {str(tmp_path / "docs" / "configure.md"), str(tmp_path / "conf" / "sge-autoscaler.toml")}
    assert pages <= set(stale["stale"])  # type: ignore[call-overload]


def test_an_import_names_its_files_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "autoscale.json"
    document.write_text('{"cluster_name": "c", "url": "https://127.0.0.1"}')
    dry = printed_json(capsys, "config", "import", str(document))
    assert (dry["done"], [Path(each).name for each in dry["files"]]) == (False, ["settings.toml"])  # type: ignore[attr-defined]
    done = printed_json(capsys, "config", "import", str(document), "--to", str(tmp_path / "to"))
    assert (done["done"], (tmp_path / "to" / "settings.toml").exists()) == (True, True)


def test_sizes_are_printed_or_written_to_the_named_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skus = tmp_path / "skus.json"
    skus.write_text(json.dumps(SKUS))
    file = tmp_path / "sizes.json"
    assert printed_json(capsys, "catalog", "sizes", str(skus))["done"] is False
    assert printed_json(capsys, "catalog", "sizes", str(skus), "--output", str(file))["file"] == str(file)
    assert file.exists()


def test_a_waiting_stop_prints_an_object_a_line(
    environ: dict[str, str], worker_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def carried_out(_: float) -> None:
        worker_store.history.add_pass(5, 1.0, "pass 5: terminating fake-1", {})
        worker_store.overrides.end(Verb.STOP_NOW, who="autoscaler", at=1.0)

    replace_sleep(monkeypatch, "autoscaler.commands.stop", carried_out)
    with hold(Invocation(environ).cell, lock_directory(), state=str(Invocation(environ).state_directory)):
        assert main(["stop", "--now", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["message"], line.get("pass")) for line in lines[1:-1]] == [("pass 5: terminating fake-1", 5)]
    assert (lines[-1]["done"], lines[-1]["stop"]) == (True, "stop-now")
