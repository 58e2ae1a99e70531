"""DescribeInstances as EC2 answers it where moto does not: launches show late, ended machines lose their names, a page
may hold less than was asked for. It is also some ten times faster, which long listings need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.clouds.aws import wire
from tests.clouds.aws.wire import Invalid, Parameters

REGION = "us-east-1"
MOST_A_PAGE = 400
"""Machines, whatever was asked for."""


def described(machines: Sequence[Any], parameters: Parameters, *, lag: float, page: int) -> bytes:
    """The answer for these machines, which are all that the filters let through."""
    named = parameters.get("InstanceIds")
    if named is not None and "MaxResults" in parameters:
        raise Invalid("InvalidParameterCombination", "The parameter instancesSet cannot be used with maxResults")
    now = datetime.now(UTC)
    shown = [each for each in machines if (now - aware(each.launch_time)).total_seconds() >= lag]
    if named is not None:
        missing = sorted(set(named) - {each.id for each in shown})
        if missing:
            raise Invalid("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(missing)}' do not exist")
        shown = [each for each in shown if each.id in named]
    begin = int(parameters.get("NextToken") or 0)
    end = begin + min(parameters.get("MaxResults", page), page)
    reservations = [{"ReservationId": f"r-{each.id[2:]}", "Instances": [instance(each)]} for each in shown[begin:end]]
    more = {"NextToken": str(end)} if end < len(shown) else {}
    return wire.answer("DescribeInstances", {"Reservations": reservations, **more})


def fits(known: Mapping[str, str], filters: Iterable[Mapping[str, Any]]) -> bool:
    """Whether what is known by filter name passes all filters. Raises Invalid for a filter that EC2 does not know."""
    for each in filters:
        name = each["Name"]
        if name not in known and not name.startswith("tag:"):
            raise Invalid("InvalidParameterValue", f"The filter '{name}' is invalid")
        if known.get(name) in each["Values"]:
            continue
        wild = [value for value in each["Values"] if re.search(r"[\\*?]", value)]
        if name not in known or not any(_pattern(value).fullmatch(known[name]) for value in wild):
            return False
    return True


def known_of(machine: Any) -> dict[str, str]:
    """A machine by filter names."""
    tags = {f"tag:{key}": value for key, value in tags_of(machine).items()}
    return {**tags, "instance-id": machine.id, "instance-state-name": machine.state}


def _pattern(value: str) -> re.Pattern[str]:
    """EC2's wildcards, which a backslash takes their meaning."""
    parts = re.findall(r"\\.|.", value, re.DOTALL)
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL)


def tags_of(resource: Any) -> dict[str, str]:
    """moto keeps all tags in one place, and looks through all of them when it is asked for one machine's."""
    return dict(resource.ec2_backend.tags.get(resource.id, {}))


def instance(machine: Any) -> Parameters:
    """A machine in EC2's words, as far as anybody here reads them."""
    living = machine.state != "terminated"
    placement = {"AvailabilityZone": machine.placement.zone, "GroupName": machine.placement.group_name}
    found: Parameters = {
        "InstanceId": machine.id,
        "ImageId": machine.image_id,
        "InstanceType": machine.instance_type,
        "State": {"Code": machine.state_code, "Name": machine.state},
        "LaunchTime": aware(machine.launch_time),
        "Placement": placement,
        "PrivateDnsName": machine.private_dns_name if living else "",
        "StateTransitionReason": machine.state_transition_reason or "",
        "Tags": [{"Key": key, "Value": value} for key, value in tags_of(machine).items()],
    }
    if living:
        found |= {"PrivateIpAddress": machine.private_ip_address, "SubnetId": machine.subnet_id}
    if machine.lifecycle:
        found["InstanceLifecycle"] = machine.lifecycle
    if machine.state_reason.code:
        found["StateReason"] = {"Code": machine.state_reason.code, "Message": machine.state_reason.message}
    return found


def aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
