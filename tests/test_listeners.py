"""Pass listeners of others: those that the setting names are made, hear of passes, and cannot stop one."""

from __future__ import annotations

import socket
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import ClassVar

import pytest

from autoscaler import extensions
from autoscaler.commands.main import main
from autoscaler.engine import listeners
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.errors import SettingsError
from tests.providers.test_extend import blocks
from tests.simulated.autoscaler import World, start


class Counts(PassListener):
    title: ClassVar[str] = "counting"

    def __init__(self) -> None:
        self.passes, self.failures = 0, 0

    def failed(self, failure: FailedPass) -> None:
        self.failures += 1

    def passed(self, done: Pass) -> None:
        self.passes += 1


class NeedsAnAddress(PassListener):
    def __init__(self) -> None:
        raise KeyError("ADDRESS")


def test_a_listener_is_found_by_its_import_path_and_hears_of_each_pass(tmp_path: Path) -> None:
    (counts,) = listeners.load([f"{__name__}:Counts"])
    loop = start(World(tmp_path / "store.sqlite"))
    loop.attach(counts)
    loop.pass_once()
    loop.pass_once()
    assert isinstance(counts, Counts)
    assert counts.passes == 2


def test_an_installed_listener_is_made_only_if_the_setting_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoints([EntryPoint("counts", f"{__name__}:Counts", listeners.GROUP)])
    monkeypatch.setattr(extensions, "entry_points", lambda group: installed.select(group=group))
    assert listeners.load([]) == ()
    assert [type(each) for each in listeners.load(["counts", "counts"])] == [Counts]
    with pytest.raises(SettingsError, match="no pass listener 'count': did you mean counts"):
        listeners.load(["count"])


@pytest.mark.parametrize(
    ("name", "words"),
    (
        (f"{__name__}:NoSuch", "cannot be imported"),
        ("no_such_module:Listener", "PYTHONPATH"),
        ("pathlib:Path", "subclass of PassListener"),
        (f"{__name__}:NeedsAnAddress", "cannot be made: KeyError: 'ADDRESS'"),
    ),
)
def test_a_listener_that_cannot_be_made_is_an_error_of_the_settings(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingsError, match=words):
        listeners.load([name, f"{__name__}:Counts"])
    file = tmp_path / "settings.toml"
    given = {"PROVIDER": "fake", "INSTANCE_TYPE": "m5.large", "LISTENERS": name}
    file.write_text("".join(f'CP_CAP_AUTOSCALE_{key} = "{text}"\n' for key, text in given.items()))
    with pytest.raises(SystemExit) as end:
        main(["config", "check", "--file", str(file)])
    assert (end.value.code, words in capsys.readouterr().err) == (2, True)


def test_the_documents_listener_sends_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (block for block in blocks("python") if "StatsD" in block)
    (tmp_path / "statsd.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "statsd", raising=False)
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        (listener,) = listeners.load(["statsd:ToStatsd"])
        monkeypatch.setattr(listener, "to", server.getsockname())
        world = World(tmp_path / "store.sqlite")
        world.cluster.submit(3)
        loop = start(world)
        loop.attach(listener)
        loop.pass_once()
        assert server.recv(100) == b"sge.waiting:3|g"
        listener.socket.close()  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "statsd")
