"""Launches as EC2 answers them, where moto answers otherwise: idempotent tokens, capacity, quota, launch templates,
placement groups, instant fleets, spot requests. What is granted is made by moto's backend.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import StateReason
from moto.ec2.utils import parse_user_data

from tests.clouds.aws import wire
from tests.clouds.aws.listing import REGION, instance
from tests.clouds.aws.stock import Stock
from tests.clouds.aws.wire import Invalid, Parameters

Ask = Callable[[str, Parameters], tuple[int, bytes]]
"""Operation and parameters → status and body of moto's answer."""
MOST_USER_DATA = 16384 * 4 // 3 + 4


@dataclass(slots=True)
class Token:
    """What a client token was used for first."""

    parameters: Parameters
    ids: tuple[str, ...]
    body: bytes


@dataclass(slots=True)
class Launching:
    """One region's launches. `backend` is moto's, and so is each of the `machines` by id."""

    ask: Ask
    backend: Callable[[], Any]
    machines: Callable[[], Mapping[str, Any]]
    gone_subnets: Collection[str] = ()
    stock: Stock = field(default_factory=Stock)
    tokens: dict[str, Token] = field(default_factory=dict)
    spot_requests: dict[str, Parameters] = field(default_factory=dict)
    """By machine."""
    launches: dict[str, Parameters] = field(default_factory=dict)
    """What each machine was launched with, its launch template's part included."""
    on_launched: Callable[[Any, Parameters], None] = lambda _machine, _launch: None
    """Told of every new machine, with what it was launched with."""
    dies_of: tuple[str, str] | None = None
    """Code and words of the state reason for which every new machine ends at once."""
    image_disk: str | None = None
    """Device name of the data disk that every image has."""
    guard: threading.RLock = field(default_factory=threading.RLock)

    def run_instances(self, parameters: Parameters) -> bytes:
        """RunInstances. Raises Invalid with EC2's code."""
        with self.guard:
            if (known := self._known(parameters)) is not None:
                return known
            merged = self._with_template(parameters)
            count = self._granted(merged, parameters["MinCount"], parameters["MaxCount"])
            if parameters.get("DryRun"):
                raise Invalid("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
            body, ids = self._make(merged, count)
            self._remember(parameters, ids, body)
            return body

    def create_fleet(self, parameters: Parameters) -> bytes:
        """CreateFleet of type instant. Raises Invalid with EC2's code."""
        if parameters.get("Type") != "instant":
            raise Invalid("InvalidParameterValue", "only instant fleets are played here")
        with self.guard:
            if (known := self._known(parameters)) is not None:
                return known
            target = parameters["TargetCapacitySpecification"]
            spot = target.get("DefaultTargetCapacityType") == "spot"
            offers = self._offers(parameters, spot=spot)
            if parameters.get("DryRun"):
                raise Invalid("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
            options = parameters.get("SpotOptions" if spot else "OnDemandOptions", {})
            instances, errors = self._filled(offers, target["TotalTargetCapacity"], options)
            ids = tuple(worker_id for part in instances for worker_id in part["InstanceIds"])
            values = {"FleetId": f"fleet-{len(self.tokens):08x}", "Errors": errors, "Instances": instances}
            body = wire.answer("CreateFleet", values)
            self._remember(parameters, ids, body)
            return body

    def _known(self, parameters: Parameters) -> bytes | None:
        """The answer that this token got before."""
        token = self.tokens.get(parameters.get("ClientToken", ""))
        if token is None:
            return None
        if token.parameters != _plain(parameters):
            raise Invalid("IdempotentParameterMismatch", "The token was used before with other parameters")
        machines = self.machines()
        if "MinCount" in parameters and all(machines[worker_id].state == "terminated" for worker_id in token.ids):
            raise Invalid("IdempotentInstanceTerminated", f"The instances {', '.join(token.ids)} were terminated")
        return token.body

    def _remember(self, parameters: Parameters, ids: Sequence[str], body: bytes) -> None:
        if token := parameters.get("ClientToken"):
            self.tokens[token] = Token(_plain(parameters), tuple(ids), body)

    def _offers(self, parameters: Parameters, *, spot: bool) -> list[tuple[Parameters, Parameters]]:
        """Each override with the launch that it means, by priority."""
        offers = []
        given = parameters.get("TagSpecifications", ())
        wrong = sorted({each["ResourceType"] for each in given} - {"fleet", "instance"})
        if wrong:
            raise Invalid("InvalidTagKey.Malformed", f"an instant fleet gives no tags to a {wrong[0]}")
        tags = [each for each in parameters.get("TagSpecifications", ()) if each["ResourceType"] == "instance"]
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        if not spot and any(self._of_spot(config) for config in parameters["LaunchTemplateConfigs"]):
            raise Invalid("InvalidFleetConfig", "the launch template asks for spot machines, the fleet does not")
        for config in parameters["LaunchTemplateConfigs"]:
            for override in config.get("Overrides", ({},)):
                launch = {name: value for name, value in override.items() if name not in ("Priority", "MaxPrice")}
                template = config["LaunchTemplateSpecification"]
                merged = self._with_template({**launch, **market, "LaunchTemplate": template})
                merged["TagSpecifications"] = [*merged.get("TagSpecifications", ()), *tags]
                if "MaxPrice" in override:
                    most = {"MaxPrice": override["MaxPrice"]}
                    merged["InstanceMarketOptions"] = {**merged.get("InstanceMarketOptions", {}), "SpotOptions": most}
                offers.append(({"LaunchTemplateSpecification": template, "Overrides": override}, merged))
        return sorted(offers, key=lambda offer: offer[0]["Overrides"].get("Priority", 0.0))

    def _of_spot(self, config: Parameters) -> bool:
        merged = self._with_template({"LaunchTemplate": config["LaunchTemplateSpecification"]})
        return "InstanceMarketOptions" in merged

    def _filled(
        self, offers: Sequence[tuple[Parameters, Parameters]], target: int, options: Parameters
    ) -> tuple[list[Parameters], list[Parameters]]:
        """Instances and errors of a fleet."""
        instances: list[Parameters] = []
        errors: list[Parameters] = []
        least = options.get("MinTargetCapacity")
        missing = target
        for described, launch in offers:
            if not missing:
                break
            try:
                count = self._granted(launch, least or 1, missing)
            except Invalid as error:
                errors.append(
                    {"LaunchTemplateAndOverrides": described, "ErrorCode": error.code, "ErrorMessage": str(error)}
                )
                continue
            _, ids = self._make(launch, count)
            instances.append(
                {"LaunchTemplateAndOverrides": described, "InstanceIds": ids, "InstanceType": launch["InstanceType"]}
            )
            missing = 0 if options.get("SingleAvailabilityZone") else missing - count
        return instances, errors

    def _with_template(self, parameters: Parameters) -> Parameters:
        """A launch with the options of its launch template as defaults."""
        named = parameters.get("LaunchTemplate")
        if named is None:
            return dict(parameters)
        asked = {name: value for name, value in named.items() if name != "Version"}
        asked["Versions"] = [named.get("Version", "$Default")]
        status, body = self.ask("DescribeLaunchTemplateVersions", asked)
        if status != 200:
            given = wire.answer_of("DescribeLaunchTemplateVersions", status, body)["Error"]
            raise Invalid(given["Code"], given["Message"])
        (version,) = wire.answer_of("DescribeLaunchTemplateVersions", status, body)["LaunchTemplateVersions"]
        data = dict(version["LaunchTemplateData"])
        merged = {**data, **{name: value for name, value in parameters.items() if name != "LaunchTemplate"}}
        if "SubnetId" in merged and "NetworkInterfaces" in merged:
            cards = merged["NetworkInterfaces"]
            merged["NetworkInterfaces"] = [{**card, "SubnetId": merged["SubnetId"]} for card in cards]
            del merged["SubnetId"]
        return merged

    def _granted(self, launch: Parameters, least: int, most: int) -> int:
        """How many are given. Raises Invalid where that is fewer than `least`, or the launch cannot be at all."""
        if least > most or least < 1:
            raise Invalid("InvalidParameterValue", f"MinCount {least} and MaxCount {most} do not fit")
        if len(launch.get("UserData", "")) > MOST_USER_DATA:
            raise Invalid("InvalidParameterValue", "User data is limited to 16384 bytes")
        kind, lifecycle = launch["InstanceType"], _lifecycle(launch)
        zone = self._zone(launch)
        self._named_things(launch)
        if launch.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled":
            self._readable(launch)
        self._offered(kind, zone)
        self._in_group(launch.get("Placement", {}).get("GroupName"), zone)
        self._within_quota(kind, most)
        limit = launch.get("InstanceMarketOptions", {}).get("SpotOptions", {}).get("MaxPrice")
        if limit is not None and float(limit) < self.stock.spot_prices.get(kind, 0.0):
            raise Invalid(
                "SpotMaxPriceTooLow", f"Your Spot request price of {limit} is lower than the minimum required"
            )
        left = self.stock.most(kind, zone, lifecycle)
        granted = most if left is None else min(left, most)
        if granted < least:
            raise Invalid(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}).",
            )
        return granted

    def _make(self, launch: Parameters, count: int) -> tuple[bytes, list[str]]:
        """Let moto make `count` machines. Raises Invalid with what it finds wrong.

        By its backend, not by its wire: that takes seconds for a hundred machines.
        """
        launch = self._with_image_disk(launch)
        try:
            reservation = self.backend().run_instances(
                launch.get("ImageId"),
                count,
                parse_user_data(launch.get("UserData")),
                [],
                region_name=REGION,
                **_as_moto_has_it(launch),
            )
        except ServiceException as error:
            raise Invalid(error.code, str(error.message)) from error
        except StopIteration:
            raise Invalid("InsufficientFreeAddressesInSubnet", "There are not enough free addresses") from None
        made = reservation.instances
        ids = [machine.id for machine in made]
        self.stock.take(count, launch["InstanceType"], self._zone(launch), _lifecycle(launch))
        for machine in made:
            self.launches[machine.id] = launch
            machine.placement.group_name = launch.get("Placement", {}).get("GroupName", "")
            self.on_launched(machine, launch)
            if self.dies_of is not None:
                machine.terminate()
                machine.state_reason = StateReason(self.dies_of[1], self.dies_of[0])
        if _lifecycle(launch) == "spot":
            self._note_spot(launch, ids)
        values = {"ReservationId": reservation.id, "Instances": [instance(machine) for machine in made]}
        return wire.answer("RunInstances", values), ids

    def _with_image_disk(self, launch: Parameters) -> Parameters:
        """The launch with the image's own disk, if it does not set one."""
        given = launch.get("BlockDeviceMappings", [])
        if self.image_disk is None or any(each["DeviceName"] == self.image_disk for each in given):
            return launch
        own = {"DeviceName": self.image_disk, "Ebs": {"VolumeSize": 8, "DeleteOnTermination": False}}
        return {**launch, "BlockDeviceMappings": [*given, own]}

    def _note_spot(self, launch: Parameters, ids: Sequence[str]) -> None:
        """A request carries tags that were given to requests; those of its machine are not copied, as EC2 does not."""
        specifications = launch.get("TagSpecifications", ())
        tags = [
            tag for each in specifications if each["ResourceType"] == "spot-instances-request" for tag in each["Tags"]
        ]
        for worker_id in ids:
            self.spot_requests[worker_id] = {
                "SpotInstanceRequestId": f"sir-{worker_id[2:10]}",
                "InstanceId": worker_id,
                "State": "active",
                "Type": "one-time",
                "Status": {"Code": "fulfilled", "UpdateTime": datetime.now(UTC)},
                "Tags": list({tag["Key"]: tag for tag in tags}.values()),
            }

    def _zone(self, launch: Parameters) -> str:
        subnet = launch.get("SubnetId") or next(
            (card["SubnetId"] for card in launch.get("NetworkInterfaces", ()) if "SubnetId" in card), None
        )
        if subnet is None:
            raise Invalid("MissingInput", "No subnet is named")
        if subnet in self.gone_subnets:
            raise Invalid("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")
        status, body = self.ask("DescribeSubnets", {"SubnetIds": [subnet]})
        answer = wire.answer_of("DescribeSubnets", status, body)
        if status != 200:
            raise Invalid(answer["Error"]["Code"], answer["Error"]["Message"])
        return str(answer["Subnets"][0]["AvailabilityZone"])

    def _named_things(self, launch: Parameters) -> None:
        """What a dry run finds, too."""
        for group in launch.get("SecurityGroupIds", ()):
            if self.backend().get_security_group_from_id(group) is None:
                raise Invalid("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
        key = launch.get("KeyName")
        if key is not None and key not in self.backend().key_pairs:
            raise Invalid("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")

    def _readable(self, launch: Parameters) -> None:
        """EC2 shows a machine its tags only where every key of them can stand in an address."""
        for each in launch.get("TagSpecifications", ()):
            for tag in each["Tags"] if each["ResourceType"] == "instance" else ():
                if not re.fullmatch(r"[A-Za-z0-9+=.,_:@-]+", tag["Key"]):
                    raise Invalid("InvalidParameterValue", f"'{tag['Key']}' is not a valid tag key for metadata")

    def _offered(self, kind: str, zone: str) -> None:
        if kind not in INSTANCE_TYPES:
            raise Invalid("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        offered = INSTANCE_TYPE_OFFERINGS["availability-zone"][zone[:-1]]
        if not any(each["InstanceType"] == kind and each["Location"] == zone for each in offered):
            raise Invalid("Unsupported", f"Your requested instance type ({kind}) is not supported in {zone}.")

    def _in_group(self, group: str | None, zone: str) -> None:
        if group is None:
            return
        if group not in self.stock.groups:
            raise Invalid("InvalidPlacementGroup.Unknown", f"The Placement Group '{group}' is unknown.")
        used = [machine for machine in self.machines().values() if machine.placement.group_name == group]
        if any(machine.state != "terminated" and machine.placement.zone != zone for machine in used):
            raise Invalid("InsufficientInstanceCapacity", f"The Placement Group '{group}' is in another zone.")

    def _within_quota(self, kind: str, count: int) -> None:
        if self.stock.vcpus is None:
            return
        living = [machine for machine in self.machines().values() if machine.state != "terminated"]
        used = sum(_vcpus(machine.instance_type) for machine in living)
        if used + count * _vcpus(kind) > self.stock.vcpus:
            raise Invalid(
                "VcpuLimitExceeded",
                f"You have requested more vCPU capacity than your current vCPU limit of {self.stock.vcpus} allows for "
                "the instance bucket that the specified instance type belongs to.",
            )


def _as_moto_has_it(launch: Parameters) -> dict[str, Any]:
    """The names that moto's own reading of a request gives to what it keeps."""
    tags = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        for each in launch.get("TagSpecifications", ())
    }
    devices = {"block_device_mappings": launch["BlockDeviceMappings"]} if launch.get("BlockDeviceMappings") else {}
    return {
        "instance_type": launch["InstanceType"],
        "is_instance_type_default": False,
        "subnet_id": launch.get("SubnetId"),
        "key_name": launch.get("KeyName"),
        "security_group_ids": launch.get("SecurityGroupIds", []),
        "nics": launch.get("NetworkInterfaces", []),
        "tags": tags,
        "instance_market_options": launch.get("InstanceMarketOptions", {}),
        "instance_initiated_shutdown_behavior": launch.get("InstanceInitiatedShutdownBehavior"),
        "metadata_options": launch.get("MetadataOptions", {}),
        **devices,
    }


def _vcpus(kind: str) -> int:
    return int(INSTANCE_TYPES[kind]["VCpuInfo"]["DefaultVCpus"])


def _lifecycle(launch: Parameters) -> str:
    return "spot" if launch.get("InstanceMarketOptions", {}).get("MarketType") == "spot" else "on-demand"


def _plain(parameters: Parameters) -> Parameters:
    return {name: value for name, value in parameters.items() if name not in ("ClientToken", "DryRun")}
