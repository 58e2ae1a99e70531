"""Calls to AWS: one client a service, one rate limit for all, every answer whole or a typed error.

botocore's own retries are off. They would hide an empty zone behind minutes of retries, and do not know the other
threads; `rate_limiter` waits for all of them, and an order with another candidate tries that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from autoscaler.background import on_thread
from autoscaler.providers.aws.errors import translated
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.interface import Refused, Unreachable
from autoscaler.providers.rate_limiter import RateLimiter, rate_limiter_of

CONNECT_TIMEOUT, READ_TIMEOUT = 5, 20
"""Seconds; a whole launch has 30."""
PRICE_LIST_REGION = "us-east-1"
"""The region that answers for the prices of every region."""
TOTAL = 25.0
"""Seconds for one call: botocore limits only the silence between two bytes of an answer."""
MOST_SLOW = 16
"""Calls that took longer and are not answered yet; with so many, no other is made."""
MOST_PAGES = 1000
_FAILURES = (BotoCoreError, ClientError, ResponseParserError, ValueError, RuntimeError)
"""All errors of a client: a value that is no date or number makes the answer invalid. A RuntimeError says that renewed
credentials have expired, too.
"""

Answer = dict[str, Any]


class Calls:
    """AWS with this cell's credentials. Clients are made when first needed; all threads share them."""

    def __init__(self, settings: AwsSettings, rate_limiter: RateLimiter | None = None) -> None:
        self.settings = settings
        self._clients: dict[str, Any] = {}
        self._guard = threading.Lock()
        self._session: boto3.session.Session | None = None
        self._slow: list[Future[Answer]] = []
        self.rate_limiter = rate_limiter or rate_limiter_of(
            f"aws {settings.endpoint or ''} {settings.profile or ''} {settings.region or ''}", settings.calls_per_second
        )

    def ask(self, operation: str, *, service: str = "ec2", **parameters: Any) -> Answer:
        """One call's answer. Raises the errors of `interface` and of `aws.errors`.

        An answer that is not EC2's does not count, whatever its status: a proxy's page would look as if nothing had
        been launched.
        """
        method = getattr(self._client(service), operation)

        def ask() -> Answer:
            try:
                answer = self._in_time(lambda: method(**parameters), operation)
            except _FAILURES as error:
                raise translated(error, operation) from error
            if service == "ec2" and "RequestId" not in answer["ResponseMetadata"]:
                raise Unreachable(f"{operation}: the answer is not from EC2; perhaps a proxy answered")
            return answer

        return self.rate_limiter.call(ask, operation)

    def _in_time(self, call: Callable[[], Answer], operation: str) -> Answer:
        """The answer to a call. Raises what it raises, and Unreachable if it is not complete in time: it may have had
        its effect.
        """
        with self._guard:
            self._slow = [each for each in self._slow if not each.done()]
            if len(self._slow) >= MOST_SLOW:
                raise Unreachable(f"{operation}: not asked, as {len(self._slow)} earlier calls are not answered yet")
        asked = on_thread(call, f"aws {operation}")
        if not wait([asked], TOTAL).done:
            with self._guard:
                self._slow.append(asked)
            raise Unreachable(f"{operation}: not answered within {TOTAL:g} s")
        return asked.result()

    def pages(self, operation: str, key: str, *, service: str = "ec2", **parameters: Any) -> Iterator[Any]:
        """Every entry under `key` of all pages; an error on any page is an error of the whole.

        An answer without `key` does not count: a proxy's page with status 200 would otherwise be an empty listing.
        """
        token: str | None = None
        before: set[str] = set()
        for _ in range(MOST_PAGES):
            more = {} if token is None else {"NextToken": token}
            answer = self.ask(operation, service=service, **parameters, **more)
            if key not in answer:
                raise Unreachable(f"{operation}: the answer has no {key}")
            yield from answer[key]
            # The last page has no NextToken; that of DescribeSpotPriceHistory may have an empty one.
            token = answer.get("NextToken") or None
            if token is None:
                return
            if token in before:
                raise Refused(f"{operation} returned one NextToken twice: the service repeats itself")
            before.add(token)
        raise Refused(f"{operation} returned more than {MOST_PAGES} pages: the service repeats itself")

    @property
    def region(self) -> str:
        """The region of all calls. Raises Refused if neither settings nor profile name one."""
        return str(self._client("ec2").meta.region_name)

    def _client(self, service: str) -> Any:
        # boto3's clients may be shared by threads, but a session may not make two of them at once.
        with self._guard:
            if service not in self._clients:
                try:
                    self._clients[service] = self._made(service)
                except _FAILURES as error:
                    raise Refused(f"cannot make a client for {service}: {error}") from error
            return self._clients[service]

    def _made(self, service: str) -> Any:
        settings = self.settings
        if self._session is None:
            self._session = boto3.session.Session(profile_name=settings.profile, region_name=settings.region)
        region = self._session.region_name
        options = Config(
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            retries={"total_max_attempts": 1},
            max_pool_connections=16,
            user_agent_extra="sge-autoscaler",
        )
        return self._session.client(
            service,  # type: ignore[call-overload]
            region_name=PRICE_LIST_REGION if service == "pricing" else region,
            endpoint_url=settings.endpoint if service == "ec2" else None,
            config=options,
        )
