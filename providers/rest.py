"""A REST client for providers: every call has an end, verifies certificates, decodes JSON, raises our errors.

It retries calls that may be repeated, with jitter, within one time limit for all tries; if a server asks to slow down,
`autoscaler.providers.rate_limiter` waits, for all threads together. It does not know whose API it is: paths, bodies and
the meaning of a refusal are the provider's.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import requests
import tenacity
from requests.auth import AuthBase

from autoscaler.background import on_thread
from autoscaler.errors import SettingsError
from autoscaler.providers.interface import NotAuthenticated, ProviderError, Refused, Throttled, Unreachable
from autoscaler.providers.rate_limiter import RateLimiter, rate_limiter_of
from autoscaler.providers.sending import NotingAdapter, nothing_sent, was_sent

LARGEST_ANSWER = 256 * 1024 * 1024
"""Limit of an answer in bytes: a listing of 100,000 nodes has about a tenth of that."""
_PIECE = 65536
_NUMBER = re.compile(r"(?<![^/])\d+(?![^/])")
"""A number as a segment of a path: the same call of another thing."""
_WORDS = 400
"""Characters of a server's own words that a message contains."""
_TOO_MANY, _SERVER_ERROR = 429, 500
_NOT_AUTHENTICATED = (401, 407)
"""By the server, and by a proxy on the way."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds, and the number of tries."""

    connect: float = 5.0
    read: float = 20.0
    """Between two pieces of an answer."""
    total: float = 20.0
    """From the first try to the last answer, name look-up and pauses included; with the patience of `RateLimiter`
    when throttled it stays below the 30 s that an order may take."""
    tries: int = 4
    pause: float = 0.5
    """Longest pause before the second try; it doubles from try to try."""


class Deadline:
    """One time limit for several calls that belong together."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds

    @property
    def left(self) -> float:
        """Seconds; 0 if it has passed."""
        return max(0.0, self._end - self._clock())


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer that was read to its end."""

    what: str
    """Method and path, for messages."""
    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The decoded body. Raises Unreachable for a body that is no JSON: the call may have had its effect or not."""
        try:
            return json.loads(self.text)
        # JSON that is nested too deeply ends in RecursionError, which is no ValueError.
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"the answer to {self.what} is not JSON ({error}): {self.words or 'nothing'}") from error

    def record(self) -> dict[str, Any]:
        """The decoded body, which must be a JSON object."""
        body = self.json()
        if not isinstance(body, dict):
            raise Unreachable(f"{self.what} answered a JSON {type(body).__name__} instead of an object")
        return body

    @property
    def words(self) -> str:
        """The server's words, on one line and cut short, without the markup of an error page."""
        plain = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", self.text, flags=re.DOTALL | re.IGNORECASE)
        return " ".join(plain.split())[:_WORDS]


class Rest:
    """One server, with a connection pool. Safe to be called from several threads.

    `verify`: True for the system's certificates, a path for others, False for none. `hidden` are values (passwords,
    tokens) that no message contains, whatever a server echoes; it is called each time, for tokens that change.
    """

    def __init__(
        self,
        base: str,
        *,
        auth: AuthBase | None = None,
        verify: bool | Path = True,
        limits: Limits | None = None,
        hidden: Callable[[], Sequence[str]] = tuple,
        rate_limiter: RateLimiter | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.base, self.limits = checked_url(base), limits or Limits()
        self._auth, self._verify, self._hidden, self._sleep = auth, verify, hidden, sleep
        self.rate_limiter = rate_limiter or rate_limiter_of(self.base)
        self._session: requests.Session | None = None
        self._guard = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        accept: Collection[int] = (200,),
        repeat: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Answer:
        """One call; `path` is made of quoted segments (`segment`), `body` is sent as JSON.

        `repeat`: whether the call may be made twice, so that a lost answer or a server error may be tried again; None:
        for GET only. A status outside `accept` raises: 429 Throttled, 401 and 407 NotAuthenticated, other 4xx Refused,
        all else Unreachable. After a try of a change that may have arrived, no later one's refusal shows that nothing
        happened: then all of these are Unreachable.
        """
        patience = deadline or Deadline(self.limits.total)
        may_repeat = method == "GET" if repeat is None else repeat
        what = f"{method} {self.base}/{path.lstrip('/')}"
        may_have_arrived = False

        def attempt() -> Answer:
            nonlocal may_have_arrived
            try:
                answer = self._once(method, what, params, body, patience)
            except _Lost as lost:
                may_have_arrived = may_have_arrived or lost.arrived
                raise
            may_have_arrived = may_have_arrived or answer.status >= _SERVER_ERROR
            if answer.status in accept:
                return answer
            if answer.status == _TOO_MANY:
                raise self._throttled(answer)
            raise _Failed(answer.status, self._said(answer), answer.headers)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: _worth_repeating(error, may_repeat=may_repeat)),
            stop=tenacity.stop_any(tenacity.stop_after_attempt(self.limits.tries), _StopBefore(patience)),
            wait=_pause(self.limits.pause),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(lambda: self.rate_limiter.call(attempt, f"{method} {_NUMBER.sub('*', path)}"))
        except _Lost as lost:
            raise Unreachable(str(lost)) from None
        except (_Failed, Throttled) as failure:
            error = failure.error() if isinstance(failure, _Failed) else failure
            if may_have_arrived and method != "GET" and not isinstance(error, Unreachable):
                raise Unreachable(f"an earlier try of this call may have arrived: {error}") from None
            raise error from None

    def _once(
        self,
        method: str,
        what: str,
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        patience: Deadline,
    ) -> Answer:
        """One try, on a thread of its own: neither a name server nor a server that answers byte by byte may block its
        caller.
        """
        if patience.left <= 0:
            raise _Lost(f"{what} was given up: there is no time left for it", arrived=False)
        call = on_thread(lambda: self._noted(method, what, params, body, patience), "rest")
        try:
            return call.result(patience.left)
        except TimeoutError:
            raise _Lost(f"{what} was not answered in time", arrived=True) from None

    def _noted(
        self,
        method: str,
        what: str,
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        patience: Deadline,
    ) -> Answer:
        nothing_sent()
        try:
            return self._exchange(method, what, params, body, patience)
        except requests.exceptions.RequestException as error:
            sent = was_sent()
            raise _Lost(self._hide(f"{what} got no answer: {_cause(error, sent=sent)}"), arrived=sent) from None

    def _exchange(
        self,
        method: str,
        what: str,
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        patience: Deadline,
    ) -> Answer:
        response = self._connected().request(
            method,
            what.partition(" ")[2],
            params=params,
            json=body,
            auth=self._auth,
            timeout=(min(self.limits.connect, patience.left), min(self.limits.read, patience.left)),
            # After a redirect (301, 302), requests repeats a POST as a GET.
            allow_redirects=False,
            # Without it, requests reads the whole body before it returns, however long or slow that is.
            stream=True,
        )
        with response:
            return Answer(what, response.status_code, _read(response, patience), dict(response.headers))

    def _connected(self) -> requests.Session:
        """The session, which reads the environment's proxies and certificates once: that takes as long as a call."""
        with self._guard:
            if self._session is None:
                session = requests.Session()
                verify = str(self._verify) if isinstance(self._verify, Path) else self._verify
                around = session.merge_environment_settings(self.base, {}, None, verify, None)
                session.proxies, session.verify, session.trust_env = dict(around["proxies"]), around["verify"], False
                session.headers.update({"Accept": "application/json", "User-Agent": "sge-autoscaler"})
                for scheme in ("http://", "https://"):
                    session.mount(scheme, NotingAdapter())
                self._session = session
            return self._session

    def _said(self, answer: Answer) -> str:
        words = f": {answer.words}" if answer.words else ""
        return self._hide(f"{answer.what} answered {answer.status}{words}")

    def _throttled(self, answer: Answer) -> Throttled:
        error = Throttled(self._said(answer))
        error.retry_after = _retry_after(answer.headers)
        return error

    def _hide(self, text: str) -> str:
        for value in self._hidden():
            text = text.replace(value, "(secret)") if value else text
        return text


def segment(text: str) -> str:
    """`text` as one segment of a path, with any characters in it."""
    return quote(text, safe="")


def checked_url(url: str) -> str:
    """The address of a server without its last slash. Raises SettingsError for any other text, never showing it whole:
    it may contain a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("the provider's address is not a URL: write https://HOST or https://HOST/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            f"the address of {parts.hostname} has more than scheme, host and path: give credentials by their settings"
        )
    return url.rstrip("/")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns a provider's errors into Unreachable: whatever goes wrong with a listing, it was not read."""
    try:
        yield
    except Unreachable:
        raise
    except ProviderError as error:
        raise Unreachable(f"{what} could not be read: {error}") from error


class _Failed(Exception):
    """An answer that was not accepted."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers

    def error(self) -> ProviderError:
        if self.status in _NOT_AUTHENTICATED:
            return NotAuthenticated(str(self))
        if 400 <= self.status < 500:
            return Refused(str(self))
        return Unreachable(str(self))


class _Lost(Exception):
    """No answer. `arrived`: the server may have received the call."""

    def __init__(self, message: str, *, arrived: bool) -> None:
        super().__init__(message)
        self.arrived = arrived


def _worth_repeating(error: BaseException, *, may_repeat: bool) -> bool:
    match error:
        case _Failed(status=status):
            return may_repeat and status >= 500
        case _Lost(arrived=arrived):
            return may_repeat or not arrived
        case _:
            return False


def _pause(longest_first: float) -> Callable[[tenacity.RetryCallState], float]:
    """The pause that an unavailable server asks for, else a random time that grows."""
    jitter = tenacity.wait_random_exponential(multiplier=longest_first, max=8.0)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = _retry_after(error.headers) if isinstance(error, _Failed) else None
        return jitter(state) if asked is None else asked

    return wait


class _StopBefore(tenacity.stop.stop_base):
    """Stops before a pause that would end after the deadline."""

    def __init__(self, patience: Deadline) -> None:
        self._patience = patience

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        return retry_state.upcoming_sleep >= self._patience.left


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Retry-After is a number of seconds, or a date by the server's clock, which `Date` gives too (RFC 9110)."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    text = given.get("retry-after", "")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    moment = _moment(text)
    return None if moment is None else max(0.0, (moment - _now_there(given)).total_seconds())


def _now_there(headers: Mapping[str, str]) -> datetime:
    return _moment(headers.get("date", "")) or datetime.now(UTC)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # Python reads a date with the zone -0000 as one without a zone.
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _read(response: requests.Response, patience: Deadline) -> str:
    """The body to its end. Raises requests' own errors if it breaks off, takes too long or is endless."""
    pieces, size = list[bytes](), 0
    for piece in response.iter_content(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise requests.exceptions.ContentDecodingError(f"the answer is larger than {LARGEST_ANSWER} bytes")
        if patience.left <= 0:
            raise requests.exceptions.ReadTimeout("the answer was not complete in time")
    return b"".join(pieces).decode("utf-8", errors="replace")


def _cause(error: requests.exceptions.RequestException, *, sent: bool) -> str:
    """The innermost reason in a few words: requests wraps urllib3's wrapping of the system's."""
    match error:
        case requests.exceptions.SSLError() if not sent:
            return f"its certificate is not trusted, or the TLS handshake failed: {_innermost(error)}"
        case requests.exceptions.ConnectTimeout():
            return "no connection within the time limit"
        case requests.exceptions.SSLError():
            return f"the TLS connection broke after the request was sent: {_innermost(error)}"
        case requests.exceptions.ReadTimeout():
            return "silence longer than the time limit"
        case _:
            return _innermost(error)


def _innermost(error: BaseException) -> str:
    seen = error
    for _ in range(8):
        inner = getattr(seen, "reason", None) or next(
            (arg for arg in seen.args if isinstance(arg, BaseException)), None
        )
        if not isinstance(inner, BaseException):
            break
        seen = inner
    return " ".join(str(seen).split())[:_WORDS] or type(seen).__name__
