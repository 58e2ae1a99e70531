"""The platform's REST API: an envelope around every answer, a token that is renewed, dates in UTC.

Every error is a provider's error: an answer that cannot be understood is Unreachable, since the call may have happened
or not. The platform refuses by HTTP 200 with `status: ERROR` and a sentence, seldom a code. Some sentences are
recognised by their words: what may pass is tried again; any other refusal would be repeated.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from autoscaler.providers.cloud_pipeline.credential import Credential
from autoscaler.providers.interface import (
    NotAuthenticated,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.rest import Answer, Deadline, Rest, segment

DATE = "%Y-%m-%d %H:%M:%S.%f"
"""The platform's dates, in UTC; it prints milliseconds and reads them."""
_GOOD = frozenset({"OK", "INFO", "WARN"})
_UNAUTHORIZED = 401
_MOST_PAGES = 1000

log = logging.getLogger(__name__)
RATE, BURST = 100.0, 1000
"""Limits of calls to a platform: an order is a call for each worker, so the burst is a large order's."""


class Api:
    """Calls to one platform. Safe to be used by several threads."""

    def __init__(self, rest: Rest, credential: Credential, token_duration: float) -> None:
        self.rest, self.credential, self._duration = rest, credential, token_duration

    def get(self, path: str, params: Mapping[str, str | int] | None = None, *, deadline: Deadline | None = None) -> Any:
        """The payload of a GET; None if the answer has none."""
        return self._call("GET", path, params=params, deadline=deadline)

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: bool,
        params: Mapping[str, str | int] | None = None,
        deadline: Deadline | None = None,
    ) -> Any:
        """The payload of a POST. `repeat`: whether the call may be made twice."""
        return self._call("POST", path, params=params, body=body, repeat=repeat, deadline=deadline)

    def pages(self, path: str, wanted: Mapping[str, Any], size: int, deadline: Deadline) -> Iterator[dict[str, Any]]:
        """Every element of a filtered listing, page after page; an element may come twice if the listing grows
        meanwhile.
        """
        seen, total = 0, -1
        for page in range(1, _MOST_PAGES + 1):
            if 0 <= total <= seen:
                return
            body = {**wanted, "page": page, "pageSize": size}
            payload = as_record(self.post(path, body, repeat=True, deadline=deadline), path)
            elements = as_records(payload.get("elements") or [], path)
            total = _count(payload.get("totalCount"), path)
            if not elements and seen < total:
                raise Unreachable(f"POST {path}: the listing ended after {seen} of {total} elements")
            seen += len(elements)
            yield from elements
        raise Unreachable(f"POST {path} has more than {_MOST_PAGES} pages")

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        repeat: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Any:
        self.renew_early()
        token = self.credential.token
        what = f"{method} {path}"

        def ask() -> Answer:
            return self.rest.ask(
                method,
                path,
                params=params,
                body=body,
                accept=(200, _UNAUTHORIZED),
                repeat=repeat,
                deadline=deadline,
            )

        answer = ask()
        if answer.status == _UNAUTHORIZED and self.credential.renew(self._new_token, refused=token):
            answer = ask()
        if answer.status == _UNAUTHORIZED:
            raise _not_taken(what)
        return opened(answer, what)

    def renew_early(self) -> None:
        """Renew the token while the old one is still good; if that fails, the old one stays in use."""
        if not self.credential.due:
            return
        try:
            self.credential.renew(self._new_token)
        except ProviderError as error:
            log.warning("the token of the platform could not be renewed yet: %s", error)

    def _new_token(self) -> str:
        """A new token, requested with the old one."""
        what = "GET user/token"
        answer = self.rest.ask(
            "GET", "user/token", params={"expiration": round(self._duration)}, accept=(200, _UNAUTHORIZED)
        )
        if answer.status == _UNAUTHORIZED:
            raise _not_taken(what)
        payload = opened(answer, what)
        token = payload.get("token") if isinstance(payload, dict) else payload
        if not isinstance(token, str) or not token:
            raise Unreachable(f"{what} gave no token")
        return token


def run_path(run_id: str | int, *rest: str) -> str:
    """`run/12/task`, of one run, with any characters in the id."""
    return "/".join(("run", segment(str(run_id)), *rest))


def opened(answer: Answer, what: str) -> Any:
    """The payload of the envelope `{payload, message, status}`. Raises the error for `status: ERROR`."""
    envelope = answer.record()
    status = envelope.get("status")
    if status in _GOOD:
        return envelope.get("payload")
    message = envelope.get("message")
    if status != "ERROR":
        raise Unreachable(f"{what} answered with an unknown status {json.dumps(status)}: {answer.words}")
    raise refusal(what, " ".join(str(message or "no reason is given").split()))


def as_record(value: Any, what: str) -> dict[str, Any]:
    """`value` as a JSON object, or Unreachable: another answer does not count."""
    if not isinstance(value, dict):
        raise Unreachable(f"{what} answered {type(value).__name__} instead of an object")
    return value


def as_records(value: Any, what: str) -> list[dict[str, Any]]:
    """`value` as a list of JSON objects, or Unreachable."""
    if not isinstance(value, list):
        raise Unreachable(f"{what} answered {type(value).__name__} instead of a list")
    return [as_record(item, what) for item in value]


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreachable(f"POST {what} did not give the total count")
    return value


def unix_time(text: Any, what: str) -> float:
    """Unix seconds of one of the platform's dates, with or without a fraction. Raises Unreachable."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise Unreachable(f"{what} has the invalid date {json.dumps(text)}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def date_text(seconds: float) -> str:
    """Unix seconds in the platform's form."""
    return datetime.fromtimestamp(seconds, UTC).strftime(DATE)[:-3]


def _not_taken(what: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"{what}: the platform refuses the token in API_TOKEN: it has expired or was withdrawn, or its user may "
        "not do this; start the master run anew, or set a valid token"
    )


PREFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "ge.autoscaling.scale.up.timeout",
        "CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT": "ge.autoscaling.scale.down.timeout",
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "ge.autoscaling.scale.up.polling.timeout",
    }
)
"""Setting → the preference with its default; both in seconds."""
PATIENCE = 8.0


def defaults(api: Api) -> dict[str, str]:
    """The platform's defaults, by setting, as far as it has any. Raises Unreachable."""
    deadline = Deadline(PATIENCE)
    said = {setting: preference(api, name, deadline) for setting, name in PREFERENCES.items()}
    return {setting: str(value) for setting, value in said.items() if value not in (None, "")}


def preference(api: Api, name: str, deadline: Deadline) -> Any:
    """The value of one preference; None if the platform has none, or shows it to nobody. Raises Unreachable."""
    try:
        payload = api.get(f"preferences/{segment(name)}", deadline=deadline)
    except Unreachable:
        raise
    except Refused:
        return None
    return payload.get("value") if isinstance(payload, dict) else None


_CAPACITY = re.compile(r"insufficient .*capacity|no capacity", re.IGNORECASE)
_QUOTA = re.compile(
    r"\bquota|exceed\w* .*limit|limit .*exceed|maximum number of running|exceed\w* .*number of", re.IGNORECASE
)
_THROTTLED = re.compile(r"too many requests|rate limit|throttl|number of scheduled at once runs", re.IGNORECASE)
"""The last one holds for all types alike, until runs that were just launched have begun: tried again soon."""
_PASSING = re.compile(
    r"time[d ]*out|connection|unavailable|internal (server )?error|try again|temporar|deadlock|\bjdbc\b|\bsql\b"
    r"|transaction|could not (open|acquire|obtain)|optimistic",
    re.IGNORECASE,
)
_MISSING = re.compile(r"\b(not|wasn't|was not|cannot be|can't be) found|does ?n[o']t exist|no such", re.IGNORECASE)
_TAKEN = re.compile(r"spot|preempt|interrupt|reclaim", re.IGNORECASE)

_QUOTED = re.compile(r"'[^']*'|\[[^\]]*\]")
"""Names in a sentence do not decide its meaning: a preference may be called a timeout."""


class NotKnown(Refused):
    """The platform does not know this name or id."""


def refusal(what: str, message: str) -> ProviderError:
    """The error for an answer `status: ERROR` to the call `what`."""
    said, words = f"{what}: the platform says: {message}", _QUOTED.sub(" ", message)
    if _CAPACITY.search(words):
        return OutOfCapacity(said)
    if _THROTTLED.search(words):
        return Throttled(said)
    if _QUOTA.search(words):
        return QuotaReached(said)
    if _MISSING.search(words):
        return NotKnown(said)
    return Unreachable(said) if _PASSING.search(words) else Refused(said)


def is_capacity(message: str) -> bool:
    """Whether a run's reason means that there was no machine for it."""
    return bool(_CAPACITY.search(message))


def is_interruption(message: str) -> bool:
    """Whether a run's reason means that its cloud took the machine back."""
    return bool(_TAKEN.search(message)) and not is_capacity(message)
