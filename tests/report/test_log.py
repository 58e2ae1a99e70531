"""Log lines are sentences, or JSON on request, at the configured levels, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import SettingsError
from autoscaler.report.log import FILE_NAME, configure_log
from autoscaler.settings import Process


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level


def logged(environ: dict[str, str] | None = None, as_json: bool | None = None, **settings: Any) -> io.StringIO:
    """Configure the log to write here."""
    console = io.StringIO()
    configure_log(Process(**settings), environ or {}, console=console, as_json=as_json)
    return console


def test_a_line_has_its_time_and_sentence() -> None:
    console = logged()
    logging.getLogger("autoscaler.pass").info("pass 1: no job waits; nothing to do")
    assert console.getvalue()[19:] == " pass 1: no job waits; nothing to do\n"


def test_levels_above_info_are_printed() -> None:
    console = logged()
    logging.getLogger("autoscaler.engine.loop").warning("enable %s: failed", "w1")
    assert console.getvalue()[19:] == " WARNING: enable w1: failed\n"


@pytest.mark.parametrize("how", ({"as_json": True}, {"log_format": "json"}))
def test_log_lines_can_be_json(how: dict[str, Any]) -> None:
    console = logged(**how)
    logging.getLogger("autoscaler").info("pass %d", 1)
    result = json.loads(console.getvalue())
    assert (set(result), result["event"], result["level"]) == ({"event", "level", "time"}, "pass 1", "info")


def test_a_json_line_has_fields_that_a_plain_line_does_not_have() -> None:
    fields = {"pass": 7, "code": "HELD", "job": "5", "owner": "ann", "host": "w1"}
    as_json = logged(as_json=True)
    logging.getLogger("autoscaler.pass").info("job 5 is held", extra={**fields, "secret": "x"})
    result = json.loads(as_json.getvalue())
    assert ({name: result[name] for name in fields}, "secret" in result) == (fields, False)
    plain = logged()
    logging.getLogger("autoscaler.pass").info("job 5 is held", extra=fields)
    assert plain.getvalue()[19:] == " job 5 is held\n"


def test_an_unknown_format_string_means_plain() -> None:
    console = logged(log_format="%(asctime)s [%(levelname)s] %(message)s")
    logging.getLogger("autoscaler").info("hello")
    assert console.getvalue()[19:] == " hello\n"


def test_each_log_destination_has_its_level(tmp_path: Path) -> None:
    console = logged(log_directory=tmp_path / "log", log_level_console="WARNING", log_level_file="DEBUG")
    logging.getLogger("autoscaler").debug("fine detail")
    written = (tmp_path / "log" / FILE_NAME).read_text()
    assert (console.getvalue(), written[19:]) == ("", " fine detail\n")


def test_a_second_configuration_does_not_double_lines() -> None:
    logged()
    console = logged()
    logging.getLogger("autoscaler").info("once")
    assert console.getvalue().count("once") == 1


@pytest.mark.parametrize("as_json", (False, True))
def test_a_secret_is_masked_wherever_it_occurs(as_json: bool) -> None:
    console = logged({"API_TOKEN": "hunter22", "OTHER": "plainly"}, as_json=as_json)
    log = logging.getLogger("autoscaler")
    log.info("calling with %s, plainly", "hunter22")
    try:
        raise RuntimeError("hunter22 was refused")
    except RuntimeError:
        log.exception("failed")
    log.info("refused", extra={"host": "hunter22"})
    result = console.getvalue()
    shown, hidden = result.count("hunter22"), result.count("(secret)")  # hidden: argument, source line, message, field
    assert (shown, hidden, "plainly" in result) == (0, 3 + as_json, True)


def linked(place: Path) -> None:
    place.symlink_to(place.parents[1] / "other")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("put", (linked, os.mkfifo, Path.mkdir))
def test_a_log_path_that_is_not_a_regular_file_is_refused(tmp_path: Path, put: Callable[[Path], None]) -> None:
    other, place = tmp_path / "other", tmp_path / "logs" / FILE_NAME
    other.write_text("kept\n")
    place.parent.mkdir()
    put(place)
    with pytest.raises(SettingsError, match="cannot write a log in"):
        configure_log(Process(log_directory=place.parent), {}, console=io.StringIO())
    assert other.read_text() == "kept\n"


def test_the_log_does_not_follow_a_link_created_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, place = tmp_path / "other", tmp_path / "logs" / FILE_NAME
    other.write_text("kept\n")
    configure_log(Process(log_directory=place.parent), {}, console=io.StringIO())
    logging.getLogger("autoscaler").warning("first")
    place.unlink()
    place.symlink_to(other)
    logging.getLogger("autoscaler").warning("second")
    assert (other.read_text(), "cannot be written" in capsys.readouterr().err) == ("kept\n", True)


def test_an_unusable_log_directory_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_LOGDIR"):
        logged(log_directory=tmp_path / "file" / "log")
