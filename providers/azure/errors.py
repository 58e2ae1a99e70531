"""The meaning of Azure's error codes for the loop.

They come in three ways, all of them read here: as an HTTP answer, as the end of a long-running operation (then the HTTP
status is 200), and as a status of a machine that failed later (`ProvisioningState/failed/AllocationFailed`). An unknown
code is a refusal if Azure calls it the client's fault, and no answer if it is the server's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from autoscaler.providers.interface import (
    NotAuthenticated,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)

CAPACITY = frozenset(
    {
        "AllocationFailed",
        "AllocationTimeout",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "SkuNotAvailable",
        "SpotEvicted",
        "SubnetIsFull",
        "VMSizeNotAvailableInZone",
        "ZonalAllocationFailed",
    }
)
"""None of this bucket now; another zone, size or price type may have some."""
QUOTA = frozenset({"PublicIPCountLimitReached", "QuotaExceeded", "ResourceQuotaExceeded"})
THROTTLED = frozenset({"RequestsThrottled", "SubscriptionRequestsThrottled", "TooManyRequests"})
PASSING = frozenset(
    {
        "AnotherOperationInProgress",
        "Conflict",
        "InternalExecutionError",
        "InternalOperationError",
        "NetworkingInternalOperationError",
        "PrincipalNotFound",
        "RetryableError",
        "RetryableErrorDueToAnotherOperation",
        "ServerTimeout",
    }
)
"""Passes by itself: nothing is decided meanwhile. It includes a call that met another one on the same resource
(`Conflict`), and an identity so new that not all of Azure knows it (`PrincipalNotFound`).
"""
NOT_AUTHENTICATED = frozenset({"AuthenticationFailed", "ExpiredAuthenticationToken", "InvalidAuthenticationToken"})
WRAPPING = frozenset({"DeploymentFailed", "ResourceDeploymentFailure", "ResourceOperationFailure"})
"""The real error is in their details."""
GRANTED = "RoleAssignmentExists"
UNAUTHORIZED = "AuthorizationFailed"


class MachineUnknown(ProviderError):
    """There is no such resource."""


class AlreadyGranted(ProviderError):
    """The identity has that role there already."""


class MachineExists(ProviderError):
    """A machine of this name is there already."""


def kind_of(code: str, message: str) -> type[ProviderError] | None:
    """The kind of error that a code alone determines, whatever the HTTP status; None: undetermined."""
    if code in CAPACITY:
        return OutOfCapacity
    if (
        code in QUOTA
        or code.endswith("QuotaExceeded")
        # Azure has this code for a full quota of vCPUs and for much else: only the message names the quota.
        or (code == "OperationNotAllowed" and "quota" in message.lower())
    ):
        return QuotaReached
    if code in THROTTLED:
        return Throttled
    return Unreachable if code in PASSING else None


def translated(error: AzureError, what: str) -> ProviderError:
    """The SDK's error as one of the contract. `what` names the call."""
    if isinstance(error, HttpResponseError) and error.response is not None:
        code, message = words_of(error)
        return error_for(code, message, what, status=int(error.status_code or 0), retry_after=_retry_after(error))
    if isinstance(error, ClientAuthenticationError):
        return NotAuthenticated(f"{what}: Azure gave no token: {_brief(str(error))}")
    return Unreachable(f"{what}: {_brief(str(error))}")


def error_for(
    code: str, message: str, what: str, *, status: int = 200, retry_after: float | None = None
) -> ProviderError:
    """The typed error for an error code of Azure. A failed operation has status 200: then only the code counts."""
    words = f"{what}: {code or f'HTTP {status}'}" + (f": {_brief(message)}" if message else "")
    if status == 429:
        kind: type[ProviderError] = Throttled
    elif status == 401 or code in NOT_AUTHENTICATED:
        kind = NotAuthenticated
    # A missing resource group or subscription is a 404 as well, with a code of its own.
    elif status == 404 and code in ("ResourceNotFound", "NotFound", ""):
        kind = MachineUnknown
    # The answer to a create with `If-None-Match: *` if the name is taken.
    elif status == 412:
        kind = MachineExists
    elif code == GRANTED:
        kind = AlreadyGranted
    else:
        passing = status >= 500 or status == 408 or not code
        kind = kind_of(code, message) or (Unreachable if passing else Refused)
    made = kind(words)
    if isinstance(made, Throttled):
        made.retry_after = retry_after
    return made


def words_of(error: HttpResponseError) -> tuple[str, str]:
    """The code and message of the innermost error: the others only wrap it."""
    found = error.error
    if found is None:
        return "", _brief(str(error.message))
    for each in _innermost(found):
        return str(each.code or ""), str(each.message or "")
    return str(found.code or ""), str(found.message or "")


def _innermost(found: Any) -> Iterator[Any]:
    if found.code in WRAPPING:
        for detail in found.details or ():
            yield from _innermost(detail)
    else:
        yield found


def _retry_after(error: HttpResponseError) -> float | None:
    headers: Mapping[str, str] = getattr(error.response, "headers", {})
    given = headers.get("Retry-After", "")
    return float(given) if given.isdecimal() else None


def _brief(text: str) -> str:
    """One line of readable length."""
    line = " ".join(text.split())
    return line if len(line) <= 500 else f"{line[:497]}..."
