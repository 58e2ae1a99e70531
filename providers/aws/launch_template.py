"""Checks an operator's launch template: which of its values are merged with our own terms, and which are refused by
name because a worker could then not be joined, or never be ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from autoscaler.providers.aws import tags
from autoscaler.providers.interface import Refused

NO_ON_DEMAND = "the launch template requests spot machines (InstanceMarketOptions), so it cannot launch on-demand ones"
PROTECTIONS = ("DisableApiTermination", "DisableApiStop")
"""Either setting keeps TerminateInstances from ending a machine."""
METADATA = {"HttpTokens": "required", "HttpEndpoint": "enabled"}


def refuse_unfit(template: Mapping[str, Any], name: str) -> None:
    """Raise Refused that names the value with which no worker can be launched."""
    problem = _problem(template)
    if problem:
        raise Refused(f"the launch template {name} cannot be used: {problem}")


def _problem(template: Mapping[str, Any]) -> str | None:
    for protection in PROTECTIONS:
        if template.get(protection):
            return f"with {protection} the autoscaler could not terminate workers"
    if template.get("InstanceRequirements"):
        return "InstanceRequirements choose a type, but the autoscaler chooses it"
    if template.get("MetadataOptions", {}).get("HttpEndpoint") == "disabled":
        return "without metadata (MetadataOptions.HttpEndpoint) a worker cannot read its name"
    market = template.get("InstanceMarketOptions", {})
    if market.get("MarketType", "spot") != "spot":
        return f"InstanceMarketOptions.MarketType is {market['MarketType']}, but the autoscaler supports only spot"
    options = market.get("SpotOptions", {})
    if options.get("SpotInstanceType", "one-time") != "one-time":
        return "a persistent spot request (SpotOptions.SpotInstanceType) would launch terminated machines again"
    if options.get("InstanceInterruptionBehavior", "terminate") != "terminate":
        return "a stopped spot machine (SpotOptions.InstanceInterruptionBehavior) keeps its disks for ever"
    return None


def spot_only(template: Mapping[str, Any]) -> bool:
    return bool(template.get("InstanceMarketOptions"))


def spot_price(template: Mapping[str, Any]) -> str | None:
    """The template's price limit for a spot machine an hour."""
    price = template.get("InstanceMarketOptions", {}).get("SpotOptions", {}).get("MaxPrice")
    return None if price is None else str(price)


def zone_of(template: Mapping[str, Any]) -> str | None:
    """The only zone that its machines may be in."""
    zone = template.get("Placement", {}).get("AvailabilityZone")
    return None if zone is None else str(zone)


def placement(template: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """The template's placement; the zone is the subnet's, and `group` wins over its own placement group."""
    found = {key: value for key, value in template.get("Placement", {}).items() if key != "AvailabilityZone"}
    if group:
        # EC2 takes a GroupName or a GroupId, not both, and a PartitionNumber only with a group of partitions.
        found = {key: value for key, value in found.items() if key not in ("GroupName", "GroupId", "PartitionNumber")}
        found["GroupName"] = group
    return found


def metadata_options(template: Mapping[str, Any], *, with_tags: bool) -> dict[str, Any]:
    """The template's (its hop limit), by session only. `with_tags`: a machine may read its own tags there."""
    # `State` stands in answers only; a request must not contain it.
    own = {key: value for key, value in template.get("MetadataOptions", {}).items() if key != "State"}
    return {**own, **METADATA, **({"InstanceMetadataTags": "enabled"} if with_tags else {})}


def tags_of(template: Mapping[str, Any], kind: str) -> dict[str, str]:
    """The operator's own tags for resources of this kind; ours override them."""
    return {
        key: value
        for each in template.get("TagSpecifications", ())
        if each.get("ResourceType") == kind
        for key, value in tags.as_mapping(each.get("Tags", ())).items()
    }


def refuse_unreadable(keys: Collection[str]) -> None:
    """Raise Refused for a tag that is not valid in a machine's metadata: EC2 then shows none of its tags there."""
    unfit = sorted(key for key in keys if not tags.READABLE.fullmatch(key))
    if unfit:
        raise Refused(
            f"the tag {unfit[0]!r} of the launch template is not valid in a machine's metadata, from which a worker "
            "reads the key and the group of its order: use only letters, digits and + - = . , _ : @"
        )
