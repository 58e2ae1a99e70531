"""`log-level`: the level that a person sets holds for the running service, across reloads and restarts, until they
reset it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.engine.log_level import LogLevelOverride
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.report.log import configure_log
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.settings.process_settings import Process
from autoscaler.store.overrides import LogLevel
from autoscaler.store.store import Store
from tests.cell_files import cell_files


@pytest.fixture
def printed() -> Iterator[io.StringIO]:
    """What the service logs; the logging of this process is restored."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    text = io.StringIO()
    configure_log(Process(), {}, console=text)
    yield text
    root.handlers = before
    root.setLevel(level)


def a_service(store: Store) -> LogLevelOverride:
    return LogLevelOverride(store.overrides, PassReporter(), Process())


def set_level(store: Store, level: LogLevel) -> None:
    store.overrides.set_log_level(level, who="ann", at=1.0)


def seen(printed: io.StringIO) -> list[str]:
    """Which of three levels are logged now."""
    printed.truncate(0)
    for name in ("debug", "info", "warning"):
        getattr(logging.getLogger("autoscaler.test"), name)("it is %s", name)
    return [line.rpartition(" ")[2] for line in printed.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("level", "shown", "verbose"),
    (
        (LogLevel.VERBOSE, ["info", "warning"], True),
        (LogLevel.DEBUG, ["debug", "info", "warning"], True),
        (LogLevel.INFO, ["info", "warning"], False),
        (LogLevel.WARNING, ["warning"], False),
        (LogLevel.ERROR, [], False),
    ),
)
def test_a_level_takes_effect_at_the_next_pass_and_survives_reload_and_restart(
    empty_store: Store, printed: io.StringIO, level: LogLevel, shown: list[str], verbose: bool
) -> None:
    service = a_service(empty_store)
    service.apply()
    assert seen(printed) == ["info", "warning"]
    set_level(empty_store, level)
    service.apply()
    assert (seen(printed), service.reporter.verbose) == (shown, verbose)
    configure_log(Process(), {}, console=printed)
    service.reloaded(Process())
    service.apply()
    assert (seen(printed), service.reporter.verbose) == (shown, verbose)
    configure_log(Process(), {}, console=printed)
    again = a_service(empty_store)
    again.apply()
    assert (seen(printed), again.reporter.verbose) == (shown, verbose)


def test_settings_decide_again_after_the_level_is_reset(empty_store: Store, printed: io.StringIO) -> None:
    service = a_service(empty_store)
    service.process = Process().model_copy(update={"verbose": True})
    set_level(empty_store, LogLevel.ERROR)
    service.apply()
    set_level(empty_store, LogLevel.SETTINGS)
    service.apply()
    assert (seen(printed), service.reporter.verbose) == (["info", "warning"], True)


def test_status_names_who_set_the_level(empty_store: Store) -> None:
    set_level(empty_store, LogLevel.VERBOSE)
    document = status(empty_store, Now(1.0, "cell", "local", True, None))
    assert document["log_level"] == {"level": "verbose", "by": "ann"}
    assert dict(status_pairs(document))["log level"].startswith("verbose, by ann; ")


def test_the_command_stores_the_level_without_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = cell_files(tmp_path / "sge")
    values |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert main(["log-level", "verbose"]) == 0
    assert "the log level is verbose from the next pass on" in capsys.readouterr().out
    with Invocation(values).store() as store:
        level = store.overrides.log_level()
    assert level is not None
    assert level.level is LogLevel.VERBOSE
    assert main(["log-level", "loud"]) == 2
    capsys.readouterr()
    assert main(["log-level", "settings"]) == 0
    assert "the log level is that of the settings from the next pass on\n" in capsys.readouterr().out
