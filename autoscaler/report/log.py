"""The log: structlog over stdlib logging, to the console and, where a log directory is set, to a file in it.

A line is a sentence for people, or one JSON object on request. Secrets never get here by intent; what slips into an
error message of somebody else is taken out by name and by value before anything is written.
"""

from __future__ import annotations

import errno
import logging
import logging.handlers
import os
import stat
import sys
import textwrap
from collections.abc import Mapping, MutableMapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

# structlog imports rich where it is, for tracebacks that nobody here asks for: 4 MB of the service for all its life.
_seen = "rich" in sys.modules
if not _seen:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402
from structlog.typing import EventDict, Processor  # noqa: E402

if not _seen:
    del sys.modules["rich"]

from autoscaler.errors import SettingsError  # noqa: E402
from autoscaler.plain_text import plain, plain_lines  # noqa: E402
from autoscaler.settings import Process, is_secret  # noqa: E402

FILE_NAME = "sge-autoscaler.log"
HIDDEN = "(secret)"
FIELDS = frozenset({"pass", "code", "job", "owner", "host", "kind", "result"})
"""Fields of a line of JSON, as far as it is about one."""
_SHORTEST_SECRET = 6
"""A shorter value of a variable named like a secret (`1`, `none`) is none, and would blot out half a line."""


def configure_log(
    process: Process, environ: Mapping[str, str], *, console: TextIO | None = None, as_json: bool | None = None
) -> None:
    """Send all logging of this process where the settings say; may be called again (SIGHUP).

    `as_json` overrides `CP_CAP_AUTOSCALE_LOGGING_FORMAT`. Raises SettingsError where the log directory cannot be used.
    """
    json_lines = process.log_format == "json" if as_json is None else as_json
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=False, key="time"),
        Redaction(environ),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        # What a line of JSON says besides its sentence: the sentence has it for people.
        foreign_pre_chain=[*before, structlog.stdlib.ExtraAdder(allow=FIELDS)] if json_lines else before,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            Redaction(environ),  # once more: a traceback is text only now
            structlog.processors.JSONRenderer() if json_lines else plain_line,
        ],
    )
    handlers = [_levelled(logging.StreamHandler(console or sys.stderr), process.log_level_console)]
    if process.log_directory is not None:
        handlers.append(_levelled(_file_handler(process.log_directory), process.log_level_file))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(min(handler.level for handler in handlers))
    for chatty in ("urllib3", "botocore", "azure"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class Redaction:
    """A processor that hides values of names like secrets, and the values such variables have in the environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {value for name, value in environ.items() if is_secret(name) and len(value) >= _SHORTEST_SECRET}
        self._values = sorted(values, key=len, reverse=True)

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            event[name] = HIDDEN if is_secret(name.upper()) else self._clean(value)
        return event

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._values:
                value = value.replace(secret, HIDDEN)
            return value
        if isinstance(value, Mapping):
            return {key: HIDDEN if is_secret(str(key).upper()) else self._clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        return value


def plain_line(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    """`2026-11-21 09:04:23 pass 812: …`; levels above info are named, further fields follow as name=value.

    One line whatever it says, so that nobody forges another; a traceback follows, indented.
    """
    when = str(event.pop("time", ""))[:19].replace("T", " ")
    level = str(event.pop("level", "info"))
    trace = event.pop("exception", None)
    loud = "" if level in ("info", "debug") else f"{level.upper()}: "
    message = str(event.pop("event", ""))
    fields = "".join(f" {name}={value}" for name, value in event.items())
    line = plain(" | ".join(f"{message}{fields}".split("\n")))
    return f"{when} {loud}{line}" + (f"\n{textwrap.indent(plain_lines(str(trace)), '  ')}" if trace else "")


def _levelled(handler: logging.Handler, level: str) -> logging.Handler:
    handler.setLevel(level)
    return handler


class LogFile(logging.handlers.WatchedFileHandler):
    """A file that may not be written for a while, because its disk is full: that is said once, on the console."""

    _broken = False

    def _open(self) -> TextIOWrapper:
        """Never through a link that stands in its place: who may write there would have us write into any file."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no regular file")
        return os.fdopen(descriptor, "a", encoding=self.encoding)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # it was moved away, and no new one can be made
            self.handleError(record)

    def flush(self) -> None:
        super().flush()
        self._broken = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._broken:
            self._broken = True
            sys.stderr.write(f"the log {self.baseFilename} cannot be written: {error.strerror}; make room there\n")


def _file_handler(directory: Path) -> logging.Handler:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return LogFile(directory / FILE_NAME, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot write a log in {directory}: {error.strerror}; "
            "set CP_CAP_AUTOSCALE_LOGDIR to a directory of your own"
        ) from error
