"""The common terms of all workers of these settings, looked up once and cached: image, disks, subnets, launch template.

Terms that the settings leave open come from the launch template, and terms that it leaves open from the image and the
default VPC. Disks always end with their machine, whoever described them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.launch_template import metadata_options, refuse_unfit, zone_of
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.interface import Refused


@dataclass(frozen=True, slots=True)
class Terms:
    """The common part of all orders."""

    subnets: Mapping[str, tuple[str, ...]]
    """By zone, in the order of the settings."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """Block device mappings, each to be deleted with its machine."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Launch template data of the settings' template; empty without one."""
    template_name: Mapping[str, str] = field(default_factory=dict)
    """That template as a launch names it: its id and the version that was read, so that both agree."""
    arch: str | None = None
    """Of the image, in EC2's words; None: unknown."""
    missing: tuple[str, ...] = ()
    """Subnets of the settings that do not exist, if others do."""

    @property
    def zones(self) -> frozenset[str]:
        return frozenset(self.subnets)


def look_up(calls: Calls, settings: AwsSettings) -> Terms:
    """Ask EC2 for all of it. Raises Refused naming what does not exist, Unreachable, Throttled."""
    name, template = _template(calls, settings)
    refuse_unfit(template, settings.launch_template or "")
    image = _image(calls, settings.image or template.get("ImageId"))
    subnets, missing = _subnets(calls, settings, template)
    return Terms(
        subnets=subnets,
        missing=missing,
        devices=_devices(settings, template, image),
        template=template,
        template_name=name,
        arch=image.get("Architecture"),
    )


def template_reference(text: str) -> dict[str, str]:
    """`lt-0123:4`, `workers`, `workers:$Latest` as a launch names it."""
    name, _, version = text.partition(":")
    kind = "LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName"
    return {kind: name, "Version": version or "$Default"}


def machine(settings: AwsSettings, terms: Terms, *, with_tags: bool) -> dict[str, Any]:
    """The part of a launch that is the same for all orders, in the words of RunInstances and of launch templates.

    `with_tags`: a machine has to read its own tags.
    """
    described: dict[str, Any] = {
        # By default a machine that shuts itself down is only stopped, and its disks still cost money.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": metadata_options(terms.template, with_tags=with_tags),
    }
    if terms.devices:
        described["BlockDeviceMappings"] = [dict(device) for device in terms.devices]
    if settings.image:
        described["ImageId"] = settings.image
    if settings.key:
        described["KeyName"] = settings.key
    if settings.instance_profile:
        kind = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        described["IamInstanceProfile"] = {kind: settings.instance_profile}
    if settings.security_groups:
        described["SecurityGroupIds"] = list(settings.security_groups)
    return described


def _template(calls: Calls, settings: AwsSettings) -> tuple[dict[str, str], Mapping[str, Any]]:
    if settings.launch_template is None:
        return {}, {}
    reference = template_reference(settings.launch_template)
    request: dict[str, Any] = {**reference, "Versions": [reference["Version"]]}
    del request["Version"]
    (found,) = calls.ask("describe_launch_template_versions", **request)["LaunchTemplateVersions"] or (None,)
    if found is None:
        raise Refused(f"the launch template {settings.launch_template} has no such version")
    if found["LaunchTemplateData"].get("ImageId", "").startswith("resolve:"):  # the name of a parameter that holds it
        (found,) = calls.ask("describe_launch_template_versions", **request, ResolveAlias=True)[
            "LaunchTemplateVersions"
        ]
    name = {"LaunchTemplateId": found["LaunchTemplateId"], "Version": str(found["VersionNumber"])}
    return name, found["LaunchTemplateData"]


def _image(calls: Calls, image: str | None) -> Mapping[str, Any]:
    if not image:
        raise Refused("neither the settings nor a launch template name an image")
    found: Sequence[Mapping[str, Any]] = calls.ask("describe_images", ImageIds=[image])["Images"]
    if not found:
        raise Refused(f"the image {image} does not exist here or is not shared with this account")
    state = found[0].get("State", "available")
    if state != "available":
        raise Refused(f"the image {image} is not usable: its state is {state}")
    return found[0]


def _subnets(
    calls: Calls, settings: AwsSettings, template: Mapping[str, Any]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Existing subnets by zone, and missing ones: a wrong one does not keep the others from serving."""
    named = settings.subnets or tuple(
        card["SubnetId"] for card in template.get("NetworkInterfaces", ()) if card.get("SubnetId")
    )
    # An unknown id in a filter is left out of the answer; in SubnetIds it is an error for all of them.
    chosen = {"Name": "subnet-id", "Values": list(named)} if named else _DEFAULT
    found = {
        subnet["SubnetId"]: subnet["AvailabilityZone"]
        for subnet in calls.pages("describe_subnets", "Subnets", Filters=[chosen])
    }
    if named and not found:
        raise Refused(f"no such subnet exists here: {', '.join(named)}")
    if not found:
        raise Refused("the settings name no subnet, and the default VPC has none")
    only = zone_of(template)
    if only is not None and only not in found.values():
        raise Refused(f"no subnet is in {only}, the zone of the launch template (Placement.AvailabilityZone)")
    by_zone: dict[str, tuple[str, ...]] = {}
    for subnet in named or sorted(found):
        if subnet in found and only in (None, found[subnet]):
            by_zone[found[subnet]] = (*by_zone.get(found[subnet], ()), subnet)
    return by_zone, tuple(subnet for subnet in named if subnet not in found)


_DEFAULT = {"Name": "default-for-az", "Values": ["true"]}


def _devices(
    settings: AwsSettings, template: Mapping[str, Any], image: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Every disk of image and template, ended with its machine; the root disk of the size that is set."""
    disks: dict[str, dict[str, Any]] = {}
    for source in (image, template):
        for device in source.get("BlockDeviceMappings", ()):
            if "Ebs" in device:
                disks[device["DeviceName"]] = {**disks.get(device["DeviceName"], {}), **device["Ebs"]}
    root = image.get("RootDeviceName")
    if settings.disk is not None and root:
        size = {"VolumeSize": settings.disk, "VolumeType": settings.disk_type}
        kept = {name: value for name, value in disks.get(root, {}).items() if name in ("SnapshotId", "KmsKeyId")}
        disks[root] = {**kept, **size}
    return tuple(
        {"DeviceName": name, "Ebs": {**_asked_of(disk), "DeleteOnTermination": True}} for name, disk in disks.items()
    )


def _asked_of(disk: Mapping[str, Any]) -> dict[str, Any]:
    """A disk as a request describes it: an image's own encryption follows its snapshot and may not be given again."""
    plain = {name: value for name, value in disk.items() if name not in ("OutpostArn", "AvailabilityZone")}
    if not plain.get("Encrypted"):
        plain.pop("Encrypted", None)
    return plain
