"""Calls to Azure: one client, one rate limit for all threads, every answer whole or a typed error.

The SDK's own retries are off: they would hide an empty zone or a full quota behind minutes of retries, and do not know
the other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.core.exceptions import ARMErrorFormat

from autoscaler.providers.azure.errors import MachineUnknown, translated
from autoscaler.providers.azure.settings import AzureSettings
from autoscaler.providers.interface import Refused, Unreachable
from autoscaler.providers.rate_limiter import RateLimiter, rate_limiter_of

CONNECT_TIMEOUT, READ_TIMEOUT = 5, 20
"""Seconds; a whole launch has 30."""
BURST = 200
"""Calls that Azure lets one caller begin at once: the size of Resource Manager's bucket for a subscription's writes."""
MOST_PAGES = 2000

Answer = TypeVar("Answer")
Record = Mapping[str, Any]


class Calls:
    """Azure with these credentials. The client is made when first needed; all threads share it."""

    def __init__(
        self,
        settings: AzureSettings,
        rate_limiter: RateLimiter | None = None,
        credential: TokenCredential | None = None,
    ) -> None:
        self.settings, self._credential = settings, credential
        self._guard = threading.Lock()
        self._client: ComputeManagementClient | None = None
        self.rate_limiter = rate_limiter or rate_limiter_of(
            f"azure {settings.endpoint} {settings.subscription}", settings.calls_per_second, BURST
        )

    @property
    def client(self) -> ComputeManagementClient:
        """The SDK's client."""
        with self._guard:
            if self._client is None:
                self._client = self._made()
            return self._client

    def ask(self, what: str, call: Callable[[ComputeManagementClient], Answer], kind: str = "") -> Answer:
        """One call's answer. `kind`: which calls Azure limits together; '' is `what`. Raises the errors of `interface`
        and of `azure.errors`.
        """
        client = self.client

        def ask() -> Answer:
            try:
                return call(client)
            except AzureError as error:
                raise translated(error, what) from error
            except (ValueError, TypeError, AttributeError) as error:
                raise Unreachable(f"{what}: the answer cannot be understood: {error}") from error

        return self.rate_limiter.call(ask, kind or what)

    def pages(self, what: str, listing: Callable[..., Any]) -> list[Record]:
        """Every record of all pages, as Azure wrote it; an error on any page is an error of the whole.

        `listing(client, **options)` is the SDK's. A page without `value` does not count: a proxy's page with status 200
        would otherwise be an empty listing.
        """
        pages: Iterator[Any] = self.ask(what, lambda client: listing(client, raw_response_hook=_whole(what)).by_page())
        found: list[Record] = []
        for _ in range(MOST_PAGES):
            page = self.ask(what, lambda _: next(pages, None))
            if page is None:
                return found
            found += page
        raise Refused(f"{what} has more than {MOST_PAGES} pages: Azure repeats itself")

    def machine(self, name: str) -> Record | None:
        """A machine of the resource group by its name, even one that is not ours; None: there is none."""
        group = self.settings.resource_group
        try:
            return self.ask(
                f"looking at {name}", lambda client: client.virtual_machines.get(group, name), "looking at machines"
            )
        except MachineUnknown:
            return None

    def get(self, path: str, version: str) -> Record:
        """Resource Manager's answer to a GET of any of its providers: the compute client does not know the others."""
        return self._sent("GET", f"{self.settings.endpoint}{path}?api-version={version}", path)

    def exists(self, path: str, version: str) -> None:
        """Check that a resource exists, of whatever kind. Raises MachineUnknown, Refused."""
        self._answer("GET", f"{self.settings.endpoint}{path}?api-version={version}", path)

    def listed(self, path: str, version: str) -> list[Record]:
        """Resource Manager's answer as a bare list."""
        answer = self._answer("GET", f"{self.settings.endpoint}{path}?api-version={version}", path)
        if not isinstance(answer, list):
            raise Unreachable(f"GET {path}: the answer is no list")
        return answer

    def put(self, path: str, version: str, body: Record) -> Record:
        return self._sent("PUT", f"{self.settings.endpoint}{path}?api-version={version}", path, body)

    def get_pages(self, path: str, version: str) -> list[Record]:
        """Every record of such a listing."""
        found: list[Record] = []
        address = f"{self.settings.endpoint}{path}?api-version={version}"
        for _ in range(MOST_PAGES):
            answer = self._sent("GET", address, path)
            if not isinstance(answer.get("value"), list):
                raise Unreachable(f"GET {path}: the answer holds no value")
            found += answer["value"]
            address = answer.get("nextLink") or ""
            if not address:
                return found
        raise Refused(f"GET {path} has more than {MOST_PAGES} pages: Azure repeats itself")

    def _sent(self, method: str, address: str, path: str, body: Record | None = None) -> Record:
        answer = self._answer(method, address, path, body)
        if not isinstance(answer, dict):
            raise Unreachable(f"{method} {path}: the answer is no object")
        return answer

    def _answer(self, method: str, address: str, path: str, body: Record | None = None) -> Any:
        request = HttpRequest(method, address, json=body)

        def send(client: ComputeManagementClient) -> Any:
            response = client.send_request(request)
            # send_request raises nothing for an HTTP error.
            if response.status_code >= 400:
                raise HttpResponseError(response=response, error_format=ARMErrorFormat)
            return response.json()

        return self.ask(f"{method} {path}", send, f"{method} {_resource_type(path)}")

    def _made(self) -> ComputeManagementClient:
        endpoint = self.settings.endpoint
        credential = self._credential or DefaultAzureCredential()
        scope = f"{endpoint}/.default"
        options: dict[str, Any] = {}
        if urlsplit(endpoint).scheme == "http":
            options["authentication_policy"] = _LoopbackToken(credential, scope)
        return ComputeManagementClient(
            credential,
            self.settings.subscription,
            endpoint,
            credential_scopes=[scope],
            retry_policy=RetryPolicy.no_retries(),
            connection_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            user_agent="sge-autoscaler",
            **options,
        )


def _resource_type(path: str) -> str:
    """`Microsoft.Network/networkInterfaces`: of all resources of a type, calls are limited together."""
    _, separator, rest = path.rpartition("/providers/")
    return "/".join(rest.split("/")[:2]) if separator else "resources"


class _LoopbackToken(SansIOHTTPPolicy[Any, Any]):
    """The token for a server on this machine: the SDK's own policy sends none without https."""

    def __init__(self, credential: TokenCredential, scope: str) -> None:
        self._credential, self._scope = credential, scope

    def on_request(self, request: PipelineRequest[Any]) -> None:
        token = self._credential.get_token(self._scope).token
        request.http_request.headers["Authorization"] = f"Bearer {token}"


def _whole(what: str) -> Callable[[PipelineResponse[Any, Any]], None]:
    def check(response: PipelineResponse[Any, Any]) -> None:
        if response.http_response.status_code != 200:
            return
        answer = response.http_response.json()
        if not isinstance(answer, dict) or not isinstance(answer.get("value"), list):
            raise Unreachable(f"{what}: the answer holds no value")

    return check
