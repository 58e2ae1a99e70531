"""The request for a new machine of Azure: disk, card and address are described inside it and end with it."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any

from autoscaler.core.model.fleet import ANY, BucketKey, PriceType
from autoscaler.providers.azure import tags
from autoscaler.providers.azure.settings import COMPUTE, NETWORK, AzureSettings
from autoscaler.providers.interface import LaunchOrder, Refused

NETWORK_VERSION = "2022-11-01"
"""Version of the network API for the card's description below."""
MOST_CUSTOM_DATA = 65535
"""Azure's limit in bytes, before base64."""

Body = dict[str, Any]


def body(
    order: LaunchOrder, name: str, key: BucketKey, settings: AzureSettings, data_disks: Sequence[int] = ()
) -> Body:
    """The machine `name` of an order, in the bucket `key`. Raises Refused for values that Azure never accepts.

    `data_disks`: numbers of the image's.
    """
    storage: Body = {"imageReference": image_reference(settings.image), "osDisk": _disk(settings)}
    if data_disks:
        storage["dataDisks"] = [
            {"lun": number, "createOption": "FromImage", "deleteOption": "Delete"} for number in data_disks
        ]
    properties: Body = {
        "hardwareProfile": {"vmSize": key.instance_type},
        "storageProfile": storage,
        "networkProfile": {
            "networkApiVersion": NETWORK_VERSION,
            "networkInterfaceConfigurations": [_card(name, order, settings)],
        },
        # Without boot diagnostics Azure keeps no serial console.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
    }
    # Azure refuses an osProfile, and so customData, for a specialized image; userData are allowed.
    if settings.specialized:
        properties["userData"] = custom_data(order.boot_script)
    else:
        properties["osProfile"] = _system(name, order, settings)
    if key.price_type is PriceType.SPOT:
        properties |= {"priority": "Spot", "evictionPolicy": "Delete"}
        # -1: Azure never evicts the machine for its price, which is at most the on-demand price.
        properties["billingProfile"] = {"maxPrice": settings.spot_max_price or -1}
    if key.placement_group != ANY:
        properties["availabilitySet"] = {"id": settings.id_of(COMPUTE, "availabilitySets", key.placement_group)}
    elif settings.scale_set:
        properties["virtualMachineScaleSet"] = {
            "id": settings.id_of(COMPUTE, "virtualMachineScaleSets", settings.scale_set)
        }
    return {
        "location": settings.location,
        "tags": tags.order_tags(order),
        **({"zones": [key.zone]} if key.zone != ANY else {}),
        **_plan(settings),
        **_identity(settings),
        "properties": properties | _security(settings),
    }


def image_reference(image: str) -> dict[str, str]:
    """An image of the settings as a machine refers to it."""
    if image.lower().startswith("/communitygalleries/"):
        return {"communityGalleryImageId": image}
    if image.lower().startswith("/sharedgalleries/"):
        return {"sharedGalleryImageId": image}
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def custom_data(boot_script: str) -> str:
    """The boot script in cloud-init's form, compressed if it is long. Raises Refused if that is not enough."""
    data = boot_script.encode()
    if len(data) > MOST_CUSTOM_DATA:
        data = gzip.compress(data, mtime=0)
    if len(data) > MOST_CUSTOM_DATA:
        raise Refused(
            f"the boot script has {len(boot_script)} characters: Azure takes at most {MOST_CUSTOM_DATA}, compressed"
        )
    return base64.b64encode(data).decode("ascii")


def _disk(settings: AzureSettings) -> Body:
    size = {"diskSizeGB": settings.disk} if settings.disk is not None else {}
    if settings.ephemeral_disk is not None:  # Azure takes it only with this caching, and with no storage
        return {
            "createOption": "FromImage",
            "deleteOption": "Delete",
            "caching": "ReadOnly",
            "diffDiskSettings": {"option": "Local", "placement": settings.ephemeral_disk},
            **size,
        }
    return {
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "managedDisk": {"storageAccountType": settings.disk_type},
        **size,
    }


def _security(settings: AzureSettings) -> Body:
    profile: Body = {}
    if settings.trusted_launch:
        uefi = {"secureBootEnabled": settings.secure_boot, "vTpmEnabled": True}
        profile |= {"securityType": "TrustedLaunch", "uefiSettings": uefi}
    if settings.encryption_at_host:
        profile["encryptionAtHost"] = True
    return {"securityProfile": profile} if profile else {}


def _card(name: str, order: LaunchOrder, settings: AzureSettings) -> Body:
    address: Body = {"primary": True, "subnet": {"id": settings.subnet_id}}
    if settings.public_address:
        address["publicIPAddressConfiguration"] = {
            "name": f"{name}-address",
            "sku": {"name": "Standard", "tier": "Regional"},
            # A Standard address must be static.
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    properties: Body = {
        "primary": True,
        "deleteOption": "Delete",
        "enableAcceleratedNetworking": settings.accelerated_networking,
        "ipConfigurations": [{"name": "worker", "properties": address}],
    }
    if settings.security_group:
        group = settings.id_of(NETWORK, "networkSecurityGroups", settings.security_group)
        properties["networkSecurityGroup"] = {"id": group}
    return {"name": f"{name}-card", "tags": tags.order_tags(order), "properties": properties}


def _system(name: str, order: LaunchOrder, settings: AzureSettings) -> Body:
    if not settings.key:
        raise Refused("Azure makes no Linux machine without a public key: set CP_CAP_AUTOSCALE_AZURE_KEY")
    authorized = f"/home/{settings.user}/.ssh/authorized_keys"
    return {
        "computerName": name,
        "adminUsername": settings.user,
        "customData": custom_data(order.boot_script),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [{"path": authorized, "keyData": settings.key}]},
        },
    }


def _plan(settings: AzureSettings) -> Body:
    if settings.plan is None:
        return {}
    publisher, product, name = settings.plan.split(":")
    return {"plan": {"publisher": publisher, "product": product, "name": name}}


def _identity(settings: AzureSettings) -> Body:
    match settings.identity:
        case None:
            return {}
        case "system":
            return {"identity": {"type": "SystemAssigned"}}
        case name:
            return {"identity": {"type": "UserAssigned", "userAssignedIdentities": {name: {}}}}
