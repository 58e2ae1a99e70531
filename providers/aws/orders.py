"""One order as one idempotent request, and its answer by the contract.

An order with one place (a subnet) is RunInstances. One with several is an instant fleet: a row of single requests that
was cut short looks like one that never began, and a repetition might launch twice. Tightly coupled orders are met
whole, in one zone and placement group, or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, PriceType
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.errors import error_for
from autoscaler.providers.aws.launch_template import placement, refuse_unreadable, spot_price, tags_of
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.aws.terms import Terms, machine
from autoscaler.providers.aws.user_data import user_data
from autoscaler.providers.interface import (
    GROUP_ID,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A subnet in which an order may be met, and its bucket."""

    bucket: BucketKey
    subnet: str


PLACES = "places"
"""What an order has chosen: its places, each the number of its bucket and its subnet."""


def chosen(order: LaunchOrder, terms: Terms, *, fleets: bool) -> dict[str, str]:
    """The places of a new order. They are stored with it: with other ones the same token would be another request."""
    found = places(order, terms)
    # One place if there are no fleets: to try another after it, and be cut short, could launch twice when asked again.
    numbers = {bucket.key: number for number, bucket in enumerate(order.buckets)}
    told = [[numbers[place.bucket], place.subnet] for place in (found if fleets else found[:1])]
    return {PLACES: json.dumps(told)}


def places_of(order: LaunchOrder) -> tuple[Place, ...]:
    """The places that the order has chosen; none: an earlier version stored it without."""
    return tuple(
        Place(order.buckets[number].key, subnet) for number, subnet in json.loads(order.chosen.get(PLACES, "[]"))
    )


def places(order: LaunchOrder, terms: Terms) -> tuple[Place, ...]:
    """The places in which the order may be met, in its order of preference. Raises Refused if no subnet is in any of
    its zones.

    A placement group among the buckets means that the work is tightly coupled: then only such buckets serve.
    """
    grouped = tuple(bucket for bucket in order.buckets if bucket.key.placement_group != ANY)
    found = [Place(bucket.key, subnet) for bucket in grouped or order.buckets for subnet in _subnets(bucket, terms)]
    if not found:
        zones = ", ".join(sorted({bucket.key.zone for bucket in order.buckets}))
        raise Refused(f"the settings have no subnet in {zones}: name one for each zone in CP_CAP_AUTOSCALE_AWS_SUBNETS")
    return tuple(found)


def _subnets(bucket: Bucket, terms: Terms) -> Sequence[str]:
    if bucket.key.zone == ANY:
        return [subnet for zone in sorted(terms.subnets) for subnet in terms.subnets[zone]]
    return terms.subnets.get(bucket.key.zone, ())


def client_token(order: LaunchOrder, kind: str) -> str:
    """EC2's token: 64 characters, unique in the account's whole region, so cell and instance type are in it."""
    words = (order.cell, order.token, order.buckets[0].type.name, order.buckets[0].key.price_type, kind)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def run_request(order: LaunchOrder, place: Place, settings: AwsSettings, terms: Terms) -> dict[str, Any]:
    """RunInstances for one place."""
    key, template = place.bucket, terms.template
    with_tags = _reads_its_tags(order, template)
    request: dict[str, Any] = {
        **_networked(machine(settings, terms, with_tags=with_tags), place.subnet, settings, terms),
        "InstanceType": key.instance_type,
        "MinCount": order.count if _coupled(order, key) else 1,
        "MaxCount": order.count,
        "UserData": user_data(order.boot_script, template.get("UserData", "")),  # boto3 encodes this one
        "TagSpecifications": [
            *tags.specifications({**tags_of(template, "instance"), **tags.machine_tags(order)}, ["instance"]),
            *_tagged(template, tags.order_tags(order), ["volume", "network-interface"]),
        ],
        "ClientToken": client_token(order, f"run {place.subnet}"),
    }
    if terms.template_name:
        request["LaunchTemplate"] = dict(terms.template_name)
    if placed := placement(template, key.placement_group):
        request["Placement"] = placed
    if key.price_type is PriceType.SPOT:
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if (most := _spot_price(settings, template)) is not None:
            options["MaxPrice"] = most
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
        request["TagSpecifications"] += _tagged(template, tags.order_tags(order), ["spot-instances-request"])
    return request


def _tagged(template: Mapping[str, Any], ours: tags.Tags, kinds: Sequence[str]) -> list[dict[str, object]]:
    """Tags of resources of these kinds: the operator's own, and ours."""
    return [each for kind in kinds for each in tags.specifications({**tags_of(template, kind), **ours}, [kind])]


def _reads_its_tags(order: LaunchOrder, template: Mapping[str, Any]) -> bool:
    """Whether the order's machines need their tags. Raises Refused if they cannot read them."""
    if not order.key and GROUP_ID not in order.tags:
        return False
    refuse_unreadable({**tags_of(template, "instance"), **tags.machine_tags(order)})
    return True


def _spot_price(settings: AwsSettings, template: Mapping[str, Any]) -> str | None:
    """The highest price of a spot machine an hour: the settings', else the launch template's."""
    return spot_price(template) if settings.spot_max_price is None else f"{settings.spot_max_price:g}"


def run_answer(order: LaunchOrder, place: Place, answer: Mapping[str, Any]) -> Launched:
    """RunInstances gives as many as there are, from MinCount up, and does not say why it was not more."""
    ids = _ids(answer.get("Instances") or (), lambda instance: (instance["InstanceId"],))
    if not ids:
        raise Unreachable("RunInstances was accepted, and its answer names no machine: they may exist")
    if len(ids) >= order.count:
        return Launched(ids)
    short = OutOfCapacity(f"{place.bucket.zone} had only {len(ids)} of {order.count} {place.bucket.instance_type}")
    return Launched(ids, ((place.bucket, short),))


def fleet_template(order: LaunchOrder, settings: AwsSettings, terms: Terms) -> dict[str, Any]:
    """CreateLaunchTemplate for a fleet: everything that a fleet's own request cannot contain, named by its content.

    Nothing in it is of one order alone: an account holds a limited number of templates.
    """
    ours = {**tags.cell_tags(order.cell), tags.NODE_ARRAY: order.node_array}
    unsaid = ("TagSpecifications", "InstanceMarketOptions", "Placement", "InstanceType", "InstanceRequirements")
    data = {name: value for name, value in terms.template.items() if name not in unsaid}
    data |= machine(settings, terms, with_tags=_reads_its_tags(order, terms.template))
    own = str(terms.template.get("UserData", ""))
    # boto3 encodes the user data of RunInstances, but not those of a launch template.
    data["UserData"] = base64.b64encode(user_data(order.boot_script, own)).decode()
    data["TagSpecifications"] = _tagged(terms.template, ours, ["volume", "network-interface"])
    if placed := placement(terms.template):
        data["Placement"] = placed
    if "NetworkInterfaces" in data:
        data["NetworkInterfaces"] = _cards(data["NetworkInterfaces"], settings, subnet=None)
        data.pop("SecurityGroupIds", None)
    name = f"sge-autoscaler-{_digest(order.cell)[:12]}-{_digest(json.dumps(data, sort_keys=True, default=str))[:32]}"
    return {
        "LaunchTemplateName": name,
        "LaunchTemplateData": data,
        "TagSpecifications": tags.specifications(tags.cell_tags(order.cell), ["launch-template"]),
        "ClientToken": _digest(f"{order.cell} {name}"),
    }


def fleet_request(
    order: LaunchOrder, found: Sequence[Place], settings: AwsSettings, terms: Terms, name: str
) -> dict[str, Any]:
    """CreateFleet for several places; `name` is that of `fleet_template`'s."""
    key = found[0].bucket
    spot = key.price_type is PriceType.SPOT
    options: dict[str, Any] = {"AllocationStrategy": "capacity-optimized-prioritized" if spot else "prioritized"}
    if spot:
        options["InstanceInterruptionBehavior"] = "terminate"
    if _coupled(order, key):
        options |= {"MinTargetCapacity": order.count, "SingleAvailabilityZone": True, "SingleInstanceType": True}
    ours = {**tags_of(terms.template, "instance"), **tags.machine_tags(order)}
    return {
        "Type": "instant",
        "ClientToken": client_token(order, "fleet"),
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": order.count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "SpotOptions" if spot else "OnDemandOptions": options,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Default"},
                "Overrides": [_override(place, float(n), settings, terms.template) for n, place in enumerate(found)],
            }
        ],
        "TagSpecifications": [
            *tags.specifications(ours, ["instance"]),
            *tags.specifications(tags.cell_tags(order.cell), ["fleet"]),
        ],
    }


def fleet_answer(order: LaunchOrder, found: Sequence[Place], answer: Mapping[str, Any]) -> Launched:
    """A fleet's answer. Raises Refused if it gave nothing and every place was refused for good, and Throttled if every
    error passes: then nothing was made, and a later plan orders anew.
    """
    ids = _ids(answer.get("Instances") or (), lambda part: part["InstanceIds"])
    if not ids and not answer.get("Errors"):
        raise Unreachable("CreateFleet was accepted, and its answer names no machine and no error: they may exist")
    if len(ids) >= order.count:
        return Launched(ids)
    # CreateFleet succeeds (HTTP 200) even if it launches nothing; its answer then lists the errors.
    errors: dict[Place, ProviderError] = {}
    for said in answer.get("Errors", ()):
        error = error_for(said.get("ErrorCode", ""), said.get("ErrorMessage", ""))
        subnet = said.get("LaunchTemplateAndOverrides", {}).get("Overrides", {}).get("SubnetId")
        for place in found:
            if subnet in (None, place.subnet):
                errors.setdefault(place, error)
    if not ids and len(errors) == len(found) and all(isinstance(error, Refused) for error in errors.values()):
        raise next(iter(errors.values()))
    if not ids and len(errors) == len(found) and all(isinstance(e, Throttled | Unreachable) for e in errors.values()):
        raise Throttled("; ".join(dict.fromkeys(str(error) for error in errors.values())))
    if not errors:
        short = OutOfCapacity(f"{len(ids)} of {order.count} {found[0].bucket.instance_type} were left")
        errors = dict.fromkeys(found, short)
    shortfalls: dict[BucketKey, ProviderError] = {}
    for place, error in errors.items():
        shortfalls.setdefault(place.bucket, _of_one_place(error, place))
    return Launched(ids, tuple(shortfalls.items()))


def _ids(parts: Iterable[Mapping[str, Any]], named: Callable[[Mapping[str, Any]], Iterable[str]]) -> tuple[str, ...]:
    """The ids in the parts of an answer. Raises Unreachable if one has none: its machine exists all the same."""
    try:
        return tuple(worker_id for part in parts for worker_id in named(part))
    except (KeyError, TypeError) as error:
        raise Unreachable(f"the launch was accepted, and its answer lacks the ids of machines: {error!r}") from error


def _of_one_place(error: ProviderError, place: Place) -> ProviderError:
    """The answer of one place of several: a wrong subnet gets a backoff, and does not stop the good ones."""
    if isinstance(error, OutOfCapacity | QuotaReached):
        return error
    return OutOfCapacity(f"AWS refused {place.subnet}, but not the others: {error}")


def _coupled(order: LaunchOrder, key: BucketKey) -> bool:
    """Whether its machines are of use only together: as one group, or in one placement group."""
    return GROUP_ID in order.tags or key.placement_group != ANY


def _override(place: Place, priority: float, settings: AwsSettings, template: Mapping[str, Any]) -> dict[str, Any]:
    override: dict[str, Any] = {
        "InstanceType": place.bucket.instance_type,
        "SubnetId": place.subnet,
        "Priority": priority,
    }
    if place.bucket.placement_group:
        override["Placement"] = placement(template, place.bucket.placement_group)
    most = _spot_price(settings, template)
    if place.bucket.price_type is PriceType.SPOT and most is not None:
        override["MaxPrice"] = most
    return override


def _networked(request: dict[str, Any], subnet: str, settings: AwsSettings, terms: Terms) -> dict[str, Any]:
    """The request with its subnet. If a template has network cards of its own, these carry subnet and groups."""
    cards = terms.template.get("NetworkInterfaces")
    if not cards:
        return {**request, "SubnetId": subnet}
    # EC2 refuses security groups or a subnet of the machine beside network cards.
    request.pop("SecurityGroupIds", None)
    return {**request, "NetworkInterfaces": _cards(cards, settings, subnet)}


def _cards(cards: Sequence[Mapping[str, Any]], settings: AwsSettings, subnet: str | None) -> list[dict[str, Any]]:
    own: dict[str, Any] = {"DeleteOnTermination": True, **({"SubnetId": subnet} if subnet else {})}
    if settings.security_groups:
        own["Groups"] = list(settings.security_groups)
    return [{**{name: value for name, value in card.items() if name != "SubnetId"}, **own} for card in cards]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
