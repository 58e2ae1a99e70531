"""The meaning of EC2's error codes for the loop. They are those of AWS's reference, "Error codes for the Amazon EC2
API".

An unknown code is a refusal if EC2 calls it the client's fault, and no answer if it is the server's: a permanent fault
must not be retried for ever, and a passing one must not stop a node array.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

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
        "InsufficientCapacity",
        "InsufficientCapacityOnOutpost",
        "InsufficientHostCapacity",
        "InsufficientAddressCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientReservedInstanceCapacity",
        "InsufficientVolumeCapacity",
        "InvalidAMIID.Unavailable",
        "InvalidFleetConfiguration",
        "MaxIOPSLimitExceeded",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "UnsupportedInstanceAttribute",
        "VolumeTypeNotAvailableInZone",
    }
)
"""None of this bucket now; another zone, type or price type may have some. EC2 also says so of a type that a zone of a
fleet does not have (`InvalidFleetConfiguration`), and of an image that is not copied yet (`InvalidAMIID.Unavailable`).
"""
QUOTA = frozenset(
    {
        "AddressLimitExceeded",
        "DiskLimitExceeded",
        "InstanceLimitExceeded",
        "MaxSpotFleetRequestCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "NetworkInterfaceLimitExceeded",
        "PendingVerification",
        "PrivateIpAddressLimitExceeded",
        "ReservedInstancesLimitExceeded",
        "VcpuLimitExceeded",
        "VolumeLimitExceeded",
    }
)
"""The account may have no more of it now. EC2 also says so of an account that it still verifies, which takes some
hours.
"""
THROTTLED = frozenset(
    {
        "ClientRequestLimitExceeded",
        "EC2ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
PASSING = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerInternal",
        "ServiceUnavailable",
        "Unavailable",
    }
)
"""Passes by itself: nothing is decided meanwhile."""
NOT_AUTHENTICATED = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "MissingAuthenticationToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""EC2 does not take the credentials, or the time of this machine. Their source may have a hiccup, or somebody renews
them: that passes.
"""
_NOT_ALLOWED = re.compile(r"not authorized", re.IGNORECASE)
"""EC2 also says `AuthFailure` of an image of somebody else (`Not authorized for images`)."""
MISMATCH = "IdempotentParameterMismatch"
TERMINATED = "IdempotentInstanceTerminated"
DRY_RUN = "DryRunOperation"
_LONGEST = 300
"""Characters of a client's own message that are kept."""
UNKNOWN = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
MISSING_TEMPLATE = frozenset({"InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateName.NotFoundException"})
EXISTING_TEMPLATE = "InvalidLaunchTemplateName.AlreadyExistsException"
MISSING_SUBNET = "InvalidSubnetID.NotFound"
UNAUTHORIZED = "UnauthorizedOperation"
_SETTINGS = (NoRegionError, ParamValidationError, ProfileNotFound)
_CREDENTIALS = (
    CredentialRetrievalError,
    NoCredentialsError,  # also if the metadata service of this machine does not answer
    PartialCredentialsError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)


class WouldSucceed(ProviderError):
    """A dry run's answer: the call has all permissions it needs."""


class MachineUnknown(ProviderError):
    """No such machine is visible: it is gone, or too new."""


class TemplateMissing(Refused):
    """There is no such launch template. A fleet's template can be made again."""


class SubnetMissing(Refused):
    """There is no such subnet (any more)."""


class TemplateExists(ProviderError):
    """A launch template of this name is there already."""


class TokenMismatch(ProviderError):
    """The token was used before with other parameters: the earlier order stands, and only a listing can show its
    machines.
    """


class TokenEnded(ProviderError):
    """The machine of this token has ended already."""


_MEANINGS: Mapping[str, type[ProviderError]] = MappingProxyType(
    {
        DRY_RUN: WouldSucceed,
        MISMATCH: TokenMismatch,
        TERMINATED: TokenEnded,
        EXISTING_TEMPLATE: TemplateExists,
        MISSING_SUBNET: SubnetMissing,
        **dict.fromkeys(UNKNOWN, MachineUnknown),
        **dict.fromkeys(MISSING_TEMPLATE, TemplateMissing),
    }
)


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def error_for(code: str, message: str, *, status: int = 400) -> ProviderError:
    """The typed error for an error code of EC2; `status` is the HTTP status, if there is one."""
    words = f"{code}: {message}" if message else code
    if code in _MEANINGS:
        return _MEANINGS[code](words)
    if code in NOT_AUTHENTICATED and not _NOT_ALLOWED.search(message):
        return NotAuthenticated(words)
    # EC2 sends InsufficientInstanceCapacity with HTTP 500 and RequestLimitExceeded with 503: the code decides first.
    if code in CAPACITY:
        return OutOfCapacity(words)
    # Codes of quotas end alike, and so do those of rate limits (`RequestLimitExceeded`).
    if code in QUOTA or (code.endswith("LimitExceeded") and code not in THROTTLED):
        return QuotaReached(words)
    if code in THROTTLED or status == 429:
        return Throttled(words)
    if code in PASSING or status >= 500 or not code:
        return Unreachable(words or f"HTTP {status} without a message")
    return Refused(words)


def translated(error: Exception, what: str) -> ProviderError:
    """botocore's error as one of the contract. `what` names the call."""
    match error:
        case ClientError():
            details = error.response.get("Error", {})
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
            return error_for(code_of(error), str(details.get("Message", "")), status=status)
        case BotoCoreError() if isinstance(error, _CREDENTIALS):
            return NotAuthenticated(f"{what}: {error}")
        case RuntimeError():  # of botocore's refreshed credentials, which have no error class for it
            return NotAuthenticated(f"{what}: {str(error)[:_LONGEST]}")
        case BotoCoreError() if isinstance(error, _SETTINGS):
            return Refused(f"{what}: {error}")
        case _:
            words = str(error).partition("\n")[0]  # botocore quotes all of an answer that it cannot parse
            return Unreachable(f"{what}: {words[:_LONGEST]}")
