"""The log: to the console, and to a file if a log directory is set.

A line is a sentence for people, or one JSON object on request. Nothing logs secrets on purpose; values of secrets that
appear in an error message of another program are removed before a line is written.
"""

from __future__ import annotations

import errno
import json
import logging
import logging.handlers
import os
import stat
import sys
import textwrap
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from autoscaler.errors import SettingsError
from autoscaler.plain_text import plain, plain_lines
from autoscaler.settings import Process, is_secret

FILE_NAME = "sge-autoscaler.log"
HIDDEN = "(secret)"
FIELDS = ("pass", "code", "job", "owner", "host", "kind", "result")
"""Fields of a line of JSON, if it is about one of these."""
OF_PLATFORM = "%(asctime)s [%(threadName)s] [%(levelname)s] %(message)s"
"""The format of Cloud Pipeline's log of a queue."""
OWN_FOLDER = "set CP_CAP_AUTOSCALE_LOGDIR to a directory of your own"
PRINTED = "printed"
"""Name of the handler that prints."""
_SHORTEST_SECRET = 6
"""A shorter value of a variable named like a secret (`1`, `none`) is no secret; hiding it would damage lines."""


def configure_log(
    process: Process, environ: Mapping[str, str], *, console: TextIO | None = None, as_json: bool | None = None
) -> None:
    """Send all logging of this process where the settings say; may be called again (SIGHUP).

    `as_json` overrides `CP_CAP_AUTOSCALE_LOGGING_FORMAT`. Raises SettingsError if the log directory cannot be used.
    """
    json_lines = process.log_format == "json" if as_json is None else as_json
    formatter = (JsonFormatter if json_lines else PlainFormatter)(Redaction(environ))
    file = None if process.log_directory is None else process.log_directory / FILE_NAME
    _log_to(_handlers(process, console or sys.stderr, file), formatter)


def configure_queue_log(process: Process, environ: Mapping[str, str], queue: str) -> list[logging.Handler]:
    """As Cloud Pipeline has it: printed, and in a file for each queue, in the format of its variables. Returns the
    handlers. Raises SettingsError if the file or the format cannot be used.
    """
    formatter = _queue_formatter(process.log_format, Redaction(environ))
    handlers = _handlers(process, sys.stdout, _queue_file(process, environ, queue))
    if process.verbose and process.log_level_console == "INFO":  # what was launched and tagged is a detail as well
        handlers[0].setLevel(logging.DEBUG)
    for handler in handlers:
        handler.addFilter(lambda record: getattr(record, "queue", None) in (None, queue))
    _log_to(handlers, formatter)
    return handlers


def queue_log_problems(process: Process, environ: Mapping[str, str], queue: str) -> Iterator[str]:
    """Why the log of a queue could not be written; nothing is made or opened."""
    try:
        _queue_formatter(process.log_format, Redaction(environ))
    except SettingsError as error:
        yield str(error)
    file = _queue_file(process, environ, queue)
    if file.is_symlink():
        wrong = f"{file} is a link, which is not followed"
    elif os.path.lexists(file):
        wrong = "" if file.is_file() and os.access(file, os.W_OK) else f"{file} is no file that can be written"
    else:
        folder = next(each for each in file.parents if os.path.lexists(each))
        usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
        wrong = "" if usable else f"{folder} is no directory that can be written"
    if wrong:
        yield f"cannot write a log in {file.parent}: {wrong}; {OWN_FOLDER}"


def _queue_file(process: Process, environ: Mapping[str, str], queue: str) -> Path:
    folder = process.log_directory or Path(environ.get("LOG_DIR") or "/var/log")
    return folder / f"autoscaler.sge.{queue}.log"


def _queue_formatter(written: str, redaction: Redaction) -> logging.Formatter:
    """Raises SettingsError for a format with which no line can be made."""
    if written == "json":
        return JsonFormatter(redaction)
    try:
        formatter = QueueFormatter(redaction, OF_PLATFORM if written == "plain" else written)
        formatter.format(logging.LogRecord("autoscaler", logging.INFO, "", 0, "a line", (), None))
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"CP_CAP_AUTOSCALE_LOGGING_FORMAT = {written!r}: {error}; write one of Python's logging, such as "
            f"{OF_PLATFORM!r}"
        ) from error
    return formatter


def _handlers(process: Process, console: TextIO, file: Path | None) -> list[logging.Handler]:
    printed = _levelled(logging.StreamHandler(console), process.log_level_console)
    printed.set_name(PRINTED)
    return [printed] if file is None else [printed, _levelled(_file_handler(file), process.log_level_file)]


def _log_to(handlers: list[logging.Handler], formatter: logging.Formatter) -> None:
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


def print_from(level: str) -> None:
    """Print lines of this level or above. The levels of log file and run log stay."""
    root = logging.getLogger()
    for handler in root.handlers:
        if handler.get_name() == PRINTED:
            handler.setLevel(level)
    root.setLevel(min(handler.level for handler in root.handlers))


class Redaction:
    """Hides the values that variables named like secrets have in the environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {value for name, value in environ.items() if is_secret(name) and len(value) >= _SHORTEST_SECRET}
        self._values = sorted(values, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._values:
            text = text.replace(secret, HIDDEN)
        return text


class PlainFormatter(logging.Formatter):
    """`2026-11-21 09:04:23 pass 812: …`; levels above info are named.

    A message is always one line, so that its text cannot forge another; a traceback follows, indented.
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self.redact = redaction

    def format(self, record: logging.LogRecord) -> str:
        when = _local_time(record).isoformat(" ", "seconds")
        loud = f"{record.levelname}: " if record.levelno > logging.INFO else ""
        line = plain(" | ".join(self.redact(record.getMessage()).split("\n")))
        trace = self.redact(self.formatException(record.exc_info)) if record.exc_info else ""
        return f"{when} {loud}{line}" + (f"\n{textwrap.indent(plain_lines(trace), '  ')}" if trace else "")


class QueueFormatter(logging.Formatter):
    """Cloud Pipeline's own format, or one of Python's logging: `%(asctime)s [%(threadName)s] [%(levelname)s] …`.

    Here too a message is always one line; a traceback follows, indented.
    """

    def __init__(self, redaction: Redaction, style: str) -> None:
        super().__init__(style)
        self.redact = redaction

    def format(self, record: logging.LogRecord) -> str:
        line = logging.makeLogRecord(
            vars(record) | {"exc_info": None, "exc_text": None, "stack_info": None, "args": None}
        )
        line.msg = plain(" | ".join(self.redact(record.getMessage()).split("\n")))
        trace = self.redact(self.formatException(record.exc_info)) if record.exc_info else ""
        return super().format(line) + (f"\n{textwrap.indent(plain_lines(trace), '  ')}" if trace else "")


class JsonFormatter(logging.Formatter):
    """An object a line: the sentence, and as fields the one job, host, … that it is about."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self.redact = redaction

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "time": _local_time(record).isoformat(),
            **{name: vars(record)[name] for name in FIELDS if name in vars(record)},
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(
            {name: self.redact(value) if isinstance(value, str) else value for name, value in fields.items()},
            default=str,
        )


def _local_time(record: logging.LogRecord) -> datetime:
    """Local time of this machine, without zone."""
    return datetime.fromtimestamp(record.created).astimezone().replace(tzinfo=None)


def _levelled(handler: logging.Handler, level: str) -> logging.Handler:
    handler.setLevel(level)
    return handler


class LogFile(logging.handlers.WatchedFileHandler):
    """A log file. If it cannot be written, because its disk is full, that is reported once, on the console."""

    _broken = False

    def _open(self) -> TextIOWrapper:
        """Open the file without following a link: a user who may write there could redirect us to any file."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no regular file")
        return os.fdopen(descriptor, "a", encoding=self.encoding)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # the file was moved away, and no new one can be made
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


def _file_handler(file: Path) -> logging.Handler:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return LogFile(file, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write a log in {file.parent}: {error.strerror}; {OWN_FOLDER}") from error
