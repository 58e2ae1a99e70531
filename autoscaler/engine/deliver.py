"""Sends one message to the services whose URLs stand in a file: `python -m autoscaler.engine.deliver`.

The autoscaler starts it for each message. So the libraries of dozens of services are in memory only while one is sent,
and a service that hangs ends with this process. It reads a `Message` as JSON from standard input and writes the list of
`Sent` to standard output. The URLs hold passwords and tokens: they are in no argument, variable or answer. All parts of
its URL are taken out of a service's answer.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_text
from autoscaler.plain_text import plain
from autoscaler.strict_modes import refuse_exposed

if TYPE_CHECKING:
    from apprise import Apprise
    from apprise.logger import NotifyLogEntry

WHAT = "the file of notification URLs"
PATIENCE = 40.0
"""Seconds for all services together; they are called at the same time."""
MOST_SERVICES = 50
HIDDEN = "(hidden)"
WORDS = 300
_SCHEMA = re.compile(r"([A-Za-z0-9]+)://")
_URL = re.compile(r"\w+://\S*")
_PARTS = re.compile(r"[/:@?&=,;#+ ]+")
_TELLING = re.compile(
    r"refused|timed out|unreachable|Name or service not known|name resolution|certificate verify failed|reset by peer|"
    r"\(\d{3}, |broken pipe|closed unexpectedly|not supported by server",
    re.IGNORECASE,
)
"""Only these words of an exception are passed on: the others may hold a URL."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, and its receivers."""

    file: str
    """One URL a line, as Apprise has them; `#` begins a comment."""
    title: str
    body: str
    group: str | None = None
    """The group whose members may write the file, besides us."""
    done: tuple[int, ...] = ()
    """Lines whose services have received it."""
    only: tuple[int, ...] = ()
    """Lines of the only services that are to receive it; (): all."""
    send: bool = True
    """False: only check what the file says."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of one line of the file."""

    line: int
    service: str
    """Its schema, such as `mailto`."""
    why: str = ""
    """Why it has not received the message; '': it has."""


class _Refusals(logging.Handler):
    """Why Apprise does not accept a URL, by thread: its functions only return that they do not."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: dict[int | None, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.words.setdefault(record.thread, []).append(record.getMessage())


def _safe_words(level: int, words: str) -> str:
    """All of a warning; of lower levels only words that cannot be part of a URL."""
    if level >= logging.WARNING:
        return words
    return ", ".join(dict.fromkeys(found.strip("(, ").lower() for found in _TELLING.findall(words)))


def urls(text: str) -> Iterator[tuple[int, str]]:
    """Number and URL of every line that has one."""
    for number, line in enumerate(text.splitlines(), 1):
        url = line.strip()
        if url and not url.startswith("#"):
            yield number, url


def schema(url: str) -> str:
    found = _SCHEMA.match(url)
    return found[1].lower() if found else "?"


def without_secrets(words: str, url: str) -> str:
    """The same words without any part of the URL, in whatever encoding."""
    place, _, query = url.partition("?")
    values = [value for _, value in parse_qsl(query)]
    parts = {part for text in (place, unquote(place), *values) for part in (text, *_PARTS.split(text))}
    words = _URL.sub(HIDDEN, words)
    for part in sorted((part for part in parts if len(part) >= 4 and part != schema(url)), key=len, reverse=True):
        words = re.sub(re.escape(part), HIDDEN, words, flags=re.IGNORECASE)
    return plain(words)[:WORDS]


def deliver(message: Message) -> list[Sent]:
    """Send it to each service that has not received it. Raises SettingsError if the file cannot be used."""
    found = list(urls(read(Path(message.file), message.group)))
    if not found:
        raise SettingsError(f"{WHAT} {message.file} has no URL: write one a line, as mailto://… or jsons://…")
    if len(found) > MOST_SERVICES:
        raise SettingsError(f"{WHAT} {message.file} has {len(found)} URLs; at most {MOST_SERVICES} are allowed")
    wanted = [
        (line, url) for line, url in found if line not in message.done and (not message.only or line in message.only)
    ]
    refusals = _Refusals()
    log = logging.getLogger("apprise")
    log.addHandler(refusals)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    calls = [_Call(line, url, message, refusals) for line, url in wanted]
    for call in calls:
        call.start()
    return [call.result() for call in _ended(calls)]


def read(path: Path, group: str | None) -> str:
    """The file, if nobody else could have changed or read it. Raises SettingsError."""
    refuse_exposed(WHAT, path, group=group, private=True)
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise SettingsError(f"{WHAT} {path} cannot be read: {why}") from error


class _Call(threading.Thread):
    """One service on a thread of its own: one that hangs keeps no other waiting."""

    def __init__(self, line: int, url: str, message: Message, refusals: _Refusals) -> None:
        super().__init__(daemon=True)
        self.line, self.url, self._message, self._refusals = line, url, message, refusals
        self._why: str | None = None

    def run(self) -> None:
        try:
            self._why = self._send()
        except Exception as error:  # noqa: BLE001 - any error of a service's code is that service's failure
            self._why = without_secrets(f"{type(error).__name__}: {error}", self.url)

    def _send(self) -> str:
        service = _service(self.url)
        if service is None:
            return self._words(self._refusals.words.get(self.ident, []), "it is no URL of a service that Apprise knows")
        if not self._message.send:
            return ""
        messages: list[str] = []

        def collect(entry: NotifyLogEntry, _: object) -> None:
            messages.append(_safe_words(getattr(logging, entry.level, logging.DEBUG), entry.message))

        done = service.notify(
            title=self._message.title,
            body=self._message.body,
            body_format="text",
            timeout=PATIENCE,
            log_callback=collect,
            log_level=logging.DEBUG,
        )
        return "" if done else self._words(messages, "it did not take the message, and did not say why")

    def _words(self, messages: Iterable[str], otherwise: str) -> str:
        return without_secrets("; ".join(dict.fromkeys(filter(None, messages))), self.url) or otherwise

    def result(self) -> Sent:
        why = f"no answer within {PATIENCE:g} s" if self._why is None else self._why
        return Sent(self.line, schema(self.url), why)


def _service(url: str) -> Apprise | None:
    import apprise

    asset = apprise.AppriseAsset(app_id="sge-autoscaler", app_desc="sge-autoscaler", app_url="", secure_logging=True)
    service = apprise.Apprise(asset=asset)
    return service if service.add(url) else None


def _ended(calls: Sequence[_Call]) -> Iterable[_Call]:
    from time import monotonic

    until = monotonic() + PATIENCE
    for call in calls:
        call.join(max(until - monotonic(), 0.0))
    return calls


def main() -> None:
    """Read, send, report. Input that cannot be used ends it with one line on standard error and exit code 2."""
    given: dict[str, Any] = json.load(sys.stdin)
    try:
        sent = deliver(Message(**{**given, **{name: tuple(given.get(name, ())) for name in ("done", "only")}}))
    except SettingsError as error:
        sys.stderr.write(f"{plain(str(error))}\n")
        sys.stderr.flush()
        os._exit(2)
    sys.stdout.write(json.dumps([asdict(each) for each in sent]))
    sys.stdout.flush()
    os._exit(0)  # does not wait for a thread that hangs in a library


if __name__ == "__main__":
    main()
