"""A check finds what would fail before anything is launched; the permissions are exactly those of conf/azure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.azure.checks import NEEDED
from autoscaler.providers.azure.errors import MachineExists, MachineUnknown, error_for, translated
from autoscaler.providers.azure.machine import body
from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import (
    NotAuthenticated,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.registry import oldest_price
from autoscaler.providers.settings import read_settings
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.store.store import Store
from tests.clouds.azure.plane import AzurePlane
from tests.clouds.azure.region import GROUP_PATH
from tests.clouds.played import Region
from tests.providers.azure.building import SMALL, an_order, the_worker, until

IMAGE = f"{GROUP_PATH}/providers/Microsoft.Compute/images/worker"


def role(name: str) -> list[str]:
    found = json.loads((resources.files("autoscaler.conf") / "azure" / f"{name}.json").read_text("utf-8"))
    actions: list[str] = found["Actions"]
    return actions


def fatal(provider: AzureProvider) -> list[str]:
    return [f"{problem.what} | {problem.remedy}" for problem in provider.check() if problem.fatal]


@pytest.mark.parametrize(
    ("missing", "settings", "words"),
    (
        ("subscription", {}, "the subscription cannot be read"),
        ("group", {}, "AZURE_RESOURCE_GROUP"),
        ("subnet", {}, "AZURE_SUBNET"),
        ("image", {}, "AZURE_IMAGE"),
        ("image", {"image": "IMAGE"}, "AZURE_IMAGE"),
        ("security group", {"security_group": "closed"}, "AZURE_SECURITY_GROUP"),
        ("set", {"availability_sets": "tight"}, "the availability set tight"),
        ("scale set", {"scale_set": "flexible"}, "the scale set"),
    ),
)
def test_a_missing_resource_is_a_problem_that_names_its_setting(
    region: Region, missing: str, settings: Mapping[str, str], words: str
) -> None:
    given = {name: value.replace("IMAGE", IMAGE) for name, value in settings.items()}
    plane = AzurePlane(region, **given)
    region.control("set", missing=[missing])
    (problem,) = fatal(plane.connect(CELL))
    assert words in problem


def test_existing_resources_are_not_a_problem(region: Region) -> None:
    plane = AzurePlane(
        region, image=IMAGE, security_group="closed", availability_sets="tight", scale_set="flexible", identity="system"
    )
    assert [problem.what for problem in plane.connect(CELL).check()] == [OLD]


OLD = "the prices, which a price cap uses, are of 2023-12-18, older than 30 days"


def test_current_prices_are_not_a_problem(region: Region, tmp_path: Path) -> None:
    lines = ['cloud = "azure"', 'region = "eastus"', f"as_of = {datetime.now(UTC).date()}", "[types]"]
    types = {name: f'"{name}" = {{ vcpus = 2, memory_gib = 8, on_demand = 0.1 }}' for name in eastus()}
    (tmp_path / "mine.toml").write_text("\n".join([*lines, *types.values(), ""]))
    provider = AzurePlane(region, catalog=str(tmp_path / "mine.toml")).connect(CELL)
    assert not [problem for problem in provider.check() if problem.what.startswith("the prices, which")]


def test_status_reports_old_prices_of_the_catalogue(region: Region, tmp_path: Path) -> None:
    oldest = oldest_price("azure", AzurePlane(region).values())
    assert str(oldest) == "2023-12-18"
    store = Store.open(tmp_path / "store.sqlite")
    for at, reported in ((1_800_000_000.0, True), (1_703_000_000.0, False)):
        now = Now(at, "default", "azure", serving=False, holder=None, oldest_price=oldest)
        assert ("prices" in dict(status_pairs(status(store, now)))) is reported
    store.close()


def test_prices_of_another_region_have_no_age(region: Region) -> None:
    settings = AzurePlane(region, location="westeurope").connect(CELL).settings
    assert AzureProvider.oldest_price(settings) is None


def eastus() -> list[str]:
    return [offer.type.name for offer in load_catalog().offers.values() if offer.region == "eastus"]


def test_an_image_with_unknown_data_disks_is_a_warning(region: Region) -> None:
    plane = AzurePlane(region, image="/sharedGalleries/theirs/images/nothing/versions/1.0.0")
    found = [problem for problem in plane.connect(CELL).check() if "data disks" in problem.what]
    assert [problem.fatal for problem in found] == [False]


def test_only_the_worker_role_can_be_granted_and_only_to_workers() -> None:
    """A role that could grant any role would own the resource group."""
    condition = (resources.files("autoscaler.conf") / "azure" / "granter-condition.txt").read_text("utf-8")
    assert role("granter-role") == ["Microsoft.Authorization/roleAssignments/write"]
    assert not [action for action in role("role") if action.startswith("Microsoft.Authorization/roleAssignments")]
    wanted = ("RoleDefinitionId] ForAnyOfAnyValues:GuidEquals {REPLACE", "PrincipalType]", "{'ServicePrincipal'}")
    assert [text for text in wanted if text not in condition] == []
    assert condition.count("(") == condition.count(")")


def test_workers_that_cannot_delete_themselves_are_a_warning(azure_plane: AzurePlane) -> None:
    problem, _ = azure_plane.connect(CELL).check()
    assert (problem.fatal, "AZURE_IDENTITY" in problem.remedy) == (False, True)


def test_a_missing_permission_is_named(region: Region) -> None:
    plane = AzurePlane(region)
    missing = "Microsoft.Network/virtualNetworks/subnets/join/action"
    region.control("set", allowed=[each for each in (*role("role"), *role("reader-role")) if each != missing])
    (problem,) = fatal(plane.connect(CELL))
    assert problem.startswith(f"these credentials may not do {missing} in workers | ")


def test_a_subscription_whose_machines_cannot_be_listed_is_a_problem(azure_plane: AzurePlane) -> None:
    azure_plane.region.fault({"kind": "error", "operation": "ListStates", "code": "AuthorizationFailed", "status": 403})
    (problem,) = fatal(azure_plane.connect(CELL))
    assert "conf/azure/reader-role.json" in problem


def test_a_check_needs_nothing_that_the_roles_do_not_give() -> None:
    assert set(NEEDED) <= set(role("role"))


def test_a_missing_key_is_named(region: Region) -> None:
    (problem,) = fatal(AzurePlane(region, key="").connect(CELL))
    assert "AZURE_KEY" in problem


def test_a_family_that_the_region_does_not_have_is_named(region: Region) -> None:
    (problem,) = fatal(AzurePlane(region, families="Xyzv9").connect(CELL))
    assert "no size of Xyzv9" in problem


def test_without_credentials_the_remedy_is_az_login(region: Region) -> None:
    plane = AzurePlane(region)

    class Nobody:
        def get_token(self, *_: str, **__: Any) -> Any:
            raise ClientAuthenticationError("no identity here")

    settings = read_settings(AzureProvider.Settings, plane.values())
    provider = AzureProvider(settings, cell=CELL, calls=Calls(settings, RateLimiter(rate=1000), Nobody()))
    (problem,) = fatal(provider)
    assert "az login" in problem


def test_credentials_may_come_from_the_managed_identity(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by the managed identity of a machine that plays App Service."""
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_TOKEN_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{region.address}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "played")
    plane = AzurePlane(region)
    ours = plane.connect(CELL)
    ours.launch(an_order(ours))
    settings = read_settings(AzureProvider.Settings, plane.values())
    assert len(AzureProvider(settings, cell=CELL, calls=Calls(settings, RateLimiter(rate=1000))).workers()) == 1


def test_the_roles_allow_exactly_the_actions_that_are_used(region: Region) -> None:
    allowed = [*role("role"), *role("reader-role"), *role("granter-role")]
    user = "/subscriptions/x/userAssignedIdentities/worker"
    lives = (
        {"public_address": "true", "security_group": "closed", "identity": user, "scale_set": "flexible"},
        {"identity": "system", "worker_role": "/r", "availability_sets": "tight", "image": IMAGE},
        {"image": f"{GROUP_PATH}/providers/Microsoft.Compute/galleries/mine/images/worker"},
    )
    used = {action for given in lives for action in _everything(AzurePlane(region, **given), allowed)}
    assert used == set(allowed)


def _everything(plane: AzurePlane, allowed: list[str]) -> set[str]:
    """Does everything that the provider ever does, with these permissions; returns those that it used."""
    plane.region.control("set", allowed=allowed)
    provider = plane.connect(CELL)
    provider.check()
    provider.workers()
    plane.region.control("set", fails={SMALL: "AllocationFailed"})
    provider.launch(an_order(provider))
    plane.region.control("set", fails={})
    provider.launch(an_order(provider, token="u-0"))
    until(lambda: all(worker.failure or worker.address for worker in provider.workers()))
    for worker in provider.workers():
        provider.console(worker.id)
    provider.terminate([worker.id for worker in provider.workers()])
    until(lambda: not plane.billable())
    state = plane.region.control()
    assert state["refused"] == []
    return set(state["actions"])


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    (
        (409, "SkuNotAvailable", "", OutOfCapacity),
        (200, "AllocationFailed", "", OutOfCapacity),
        (200, "ZonalAllocationFailed", "", OutOfCapacity),
        (200, "OverconstrainedZonalAllocationRequest", "", OutOfCapacity),
        (409, "OperationNotAllowed", "exceeding approved Cores quota", QuotaReached),
        (409, "OperationNotAllowed", "the machine is being deleted", Refused),
        (409, "QuotaExceeded", "", QuotaReached),
        (429, "TooManyRequests", "", Throttled),
        (429, "", "", Throttled),
        (400, "VMSizeNotAvailableInZone", "", OutOfCapacity),
        (409, "Conflict", "", Unreachable),
        (400, "PrincipalNotFound", "", Unreachable),
        (503, "ServerBusy", "", Unreachable),
        (500, "", "", Unreachable),
        (401, "ExpiredAuthenticationToken", "", NotAuthenticated),
        (401, "InvalidAuthenticationToken", "", NotAuthenticated),
        (401, "", "", NotAuthenticated),
        (403, "AuthorizationFailed", "", Refused),
        (400, "InvalidParameter", "", Refused),
        (404, "ImageNotFound", "", Refused),
        (404, "ResourceNotFound", "", MachineUnknown),
        (404, "", "", MachineUnknown),
        (412, "ConditionNotMet", "", MachineExists),
        (407, "OfAnotherYear", "", Refused),
        (408, "OfAnotherYear", "", Unreachable),
        (499, "OfAnotherYear", "", Refused),
        (500, "OfAnotherYear", "", Unreachable),
        (200, "OfAnotherYear", "", Refused),
        (200, "", "", Unreachable),
        (400, "OfAnotherYearQuotaExceeded", "", QuotaReached),
    ),
)
def test_an_error_code_has_its_kind_of_error(status: int, code: str, message: str, kind: type[ProviderError]) -> None:
    assert type(error_for(code, message, "creating w-0", status=status)) is kind


def test_an_error_has_the_operation_the_code_and_azures_message() -> None:
    messages = [
        str(error_for(code, words, "creating w-0", status=400)) for code, words in (("X", "why"), ("X", ""), ("", ""))
    ]
    assert messages == ["creating w-0: X: why", "creating w-0: X", "creating w-0: HTTP 400"]


def test_the_retry_time_that_azure_asks_for_is_kept() -> None:
    assert [error_for("", "", "creating w-0", status=429, retry_after=after).retry_after for after in (None, 17.0)] == [  # type: ignore[attr-defined]
        None,
        17.0,
    ]


@pytest.mark.parametrize(("code", "kind"), (("AllocationFailed", OutOfCapacity), ("QuotaExceeded", QuotaReached)))
def test_an_operation_that_fails_with_status_200_is_judged_by_its_code(
    azure_plane: AzurePlane, code: str, kind: type[ProviderError]
) -> None:
    """As the SDK itself raises it at the end of a long-running operation."""
    provider = azure_plane.connect(CELL)
    order = an_order(provider)
    azure_plane.region.control("set", fails={SMALL: code})
    machines = provider.calls.client.virtual_machines
    wanted = body(order, "w-0", order.buckets[0].key, provider.settings)
    with pytest.raises(HttpResponseError) as caught:
        machines.begin_create_or_update("workers", "w-0", wanted, polling_interval=0).result()  # type: ignore[call-overload]
    assert (caught.value.status_code, type(translated(caught.value, "creating w-0"))) == (200, kind)
    provider.terminate([the_worker(provider).id])


PAGE = Path(__file__).parents[3] / "docs" / "operate" / "azure.md"
MEANINGS: dict[str, tuple[type[ProviderError], ...]] = {
    "backs off": (OutOfCapacity, QuotaReached),
    "stops the array": (Refused,),
    "asked again": (Unreachable,),
    "slows down": (Throttled,),
}


def written() -> list[tuple[str, str, str]]:
    """Code, words and meaning of each line of the page's table."""
    rows = re.findall(
        r"^\| (`[^|]+?)( with `quota`)? \| (backs off|stops the array|asked again|slows down) \|",
        PAGE.read_text(),
        re.M,
    )
    return [(code, words, meaning) for codes, words, meaning in rows for code in re.findall(r"`([^`]+)`", codes)]


def test_the_page_lists_the_codes_that_are_not_obvious() -> None:
    assert {"Conflict", "VMSizeNotAvailableInZone", "PrincipalNotFound"} <= {code for code, _, _ in written()}


@pytest.mark.parametrize(("code", "words", "meaning"), written())
def test_an_error_code_has_the_effect_that_the_page_lists(code: str, words: str, meaning: str) -> None:
    assert isinstance(error_for(code, words, "creating w", status=409), MEANINGS[meaning])
