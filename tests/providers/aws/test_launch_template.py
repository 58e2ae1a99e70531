"""The options of an operator's launch template are merged with our own, or refused by name."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from email import message_from_bytes
from typing import Any

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.orders import fleet_template, places_of, run_request
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.aws.terms import Terms, machine
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import GROUP_ID, Refused
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import problems_but_prices
from tests.providers.aws.test_orders import BOTH_WAYS, buckets, launched, order

ARN = "arn:aws:iam::123456789012:instance-profile/workers"
OURS = "#!/bin/sh\necho up\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def connect(region: Region, zones: str = "a", settings: dict[str, str] | None = None, **data: Any) -> AwsProvider:
    """A provider in an empty region, whose operator has a launch template of these data."""
    plane = AwsPlane(region, zones)
    name = region.control("make_template", data=data)["name"]
    return plane.like(zones, launch_template=name, **(settings or {})).connect(CELL)


@pytest.mark.parametrize(
    ("data", "named"),
    (
        ({"DisableApiTermination": True}, "DisableApiTermination"),
        ({"DisableApiStop": True}, "DisableApiStop"),
        ({"MetadataOptions": {"HttpEndpoint": "disabled"}}, "HttpEndpoint"),
        ({"InstanceMarketOptions": {"MarketType": "capacity-block"}}, "capacity-block"),
        ({"InstanceMarketOptions": {"SpotOptions": {"SpotInstanceType": "persistent"}}}, "SpotInstanceType"),
        (
            {"InstanceMarketOptions": {"SpotOptions": {"InstanceInterruptionBehavior": "stop"}}},
            "InstanceInterruptionBehavior",
        ),
        ({"Placement": {"AvailabilityZone": "us-east-1c"}}, "us-east-1c"),
    ),
)
def test_an_unusable_option_of_the_template_is_a_fatal_problem_with_its_name(
    region: Region, data: dict[str, Any], named: str
) -> None:
    provider = connect(region, **data)
    (problem,) = problems_but_prices(provider)
    assert (problem.fatal, named in problem.what) == (True, True)
    problems = [str(bucket.problem) for bucket in provider.buckets()]
    assert problems
    assert all(named in each for each in problems)


@BOTH_WAYS
def test_a_spot_template_offers_no_on_demand_machines(region: Region, zones: str) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.07"}}
    provider = connect(region, zones, InstanceMarketOptions=options)
    assert [problem for problem in provider.check() if problem.fatal] == []
    problems = {bucket.key.price_type: bucket.problem for bucket in buckets(provider)}
    assert "InstanceMarketOptions" in str(problems[PriceType.ON_DEMAND])
    provider.launch(order(buckets(provider, PriceType.SPOT)))
    assert [worker.price_type for worker in provider.workers()] == [PriceType.SPOT]


def test_the_spot_price_limit_of_the_template_applies_if_none_is_set(region: Region) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.07"}}
    provider = connect(region, InstanceMarketOptions=options)
    machine = launched(region, provider, buckets(provider, PriceType.SPOT))
    assert machine["launch"]["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"] == "0.07"


@BOTH_WAYS
def test_tenancy_of_the_template_stays_and_our_placement_group_replaces_its_group(region: Region, zones: str) -> None:
    settings = {"placement_groups": "execute=close"}
    provider = connect(region, zones, settings, Placement={"Tenancy": "dedicated", "GroupName": "theirs"})
    region.control("stock", groups={"close": "cluster", "theirs": "cluster"})
    machine = launched(region, provider, buckets(provider, group="close"))
    assert machine["launch"]["Placement"] == {"Tenancy": "dedicated", "GroupName": "close"}


@BOTH_WAYS
def test_the_placement_group_of_the_template_applies_if_we_set_none(region: Region, zones: str) -> None:
    provider = connect(region, zones, Placement={"GroupName": "theirs", "AvailabilityZone": "us-east-1a"})
    region.control("stock", groups={"theirs": "cluster"})
    machine = launched(region, provider, buckets(provider))
    assert (machine["launch"]["Placement"], machine["zone"]) == ({"GroupName": "theirs"}, "us-east-1a")


@BOTH_WAYS
def test_other_options_of_the_template_stay(region: Region, zones: str) -> None:
    provider = connect(region, zones, Monitoring={"Enabled": True})
    assert launched(region, provider, buckets(provider))["launch"]["Monitoring"] == {"Enabled": True}


@BOTH_WAYS
def test_the_hop_limit_stays_and_metadata_tokens_are_required(region: Region, zones: str) -> None:
    provider = connect(region, zones, MetadataOptions={"HttpPutResponseHopLimit": 2, "HttpTokens": "optional"})
    options = launched(region, provider, buckets(provider))["launch"]["MetadataOptions"]
    assert (options["HttpPutResponseHopLimit"], options["HttpTokens"]) == (2, "required")


@BOTH_WAYS
def test_tags_of_the_template_go_to_their_resource_type_and_never_override_ours(region: Region, zones: str) -> None:
    of = [("instance", "Cost Center"), ("volume", "backup"), ("instance", tags.CELL)]
    given = [{"ResourceType": kind, "Tags": [{"Key": key, "Value": "x"}]} for kind, key in of]
    provider = connect(region, zones, TagSpecifications=given)
    machine = launched(region, provider, buckets(provider))
    (disk,) = machine["disks"]
    assert (machine["tags"].get("Cost Center"), machine["tags"].get("backup")) == ("x", None)
    assert (disk["tags"].get("Cost Center"), disk["tags"].get("backup")) == (None, "x")
    assert (machine["tags"][tags.CELL], disk["tags"][tags.CELL]) == (CELL, CELL)


def parts(machine: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Kind, file name and text of each part of a machine's user data."""
    data = base64.b64decode(machine["launch"]["UserData"])
    message = message_from_bytes(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return [
        (part.get_content_type(), str(part.get_filename()), bytes(part.get_payload(decode=True) or b"").decode())
        for part in message.walk()
        if not part.is_multipart()
    ]


@BOTH_WAYS
@pytest.mark.parametrize(
    ("own", "kind"), (("#!/bin/sh\nmount home\n", "x-shellscript"), ("#cloud-config\nruncmd: [x]\n", "cloud-config"))
)
def test_the_operators_bootstrap_runs_before_ours(region: Region, zones: str, own: str, kind: str) -> None:
    provider = connect(region, zones, UserData=encoded(own))
    first, second = parts(launched(region, provider, buckets(provider)))
    assert (first[0], first[2]) == (f"text/{kind}", own)
    assert (second[0], second[2]) == ("text/x-shellscript", OURS)
    assert sorted([second[1], first[1], "runcmd"])[-1] == second[1]  # the order in which cloud-init runs scripts


def test_parts_of_the_operators_user_data_keep_their_order(region: Region) -> None:
    message = (
        'Content-Type: multipart/mixed; boundary="b"\nMIME-Version: 1.0\n\n'
        "--b\nContent-Type: text/cloud-config\n\npackages: [nfs-common]\n"
        "--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nfirst\n--b--\n"
    )
    packed = base64.b64encode(gzip.compress(message.encode())).decode()
    found = parts(launched(region, provider := connect(region, UserData=packed), buckets(provider)))
    assert [kind for kind, _, _ in found] == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript"]
    assert found[-1][2] == OURS


def test_user_data_in_an_unknown_format_is_refused_with_the_name_of_the_option(region: Region) -> None:
    provider = connect(region, UserData=encoded("just words"))
    with pytest.raises(Refused, match="UserData"):
        provider.launch(order(buckets(provider)))


class TestTagsOfOneOrder:
    """They are tags of the machine, which it may read, so that few templates are needed."""

    def test_orders_with_keys_and_groups_share_a_launch_template(self, region: Region) -> None:
        provider = AwsPlane(region, "ab").connect(CELL)
        found = buckets(provider)
        for number in range(4):
            group = {GROUP_ID: f"execute:2-{number}"}
            provider.launch(replace(order(found, token=f"order-{number}"), key=f"secret-{number}", tags=group))
        assert len(region.control("templates")["names"]) == 1

    @BOTH_WAYS
    def test_a_machine_may_read_the_key_of_its_own_order(self, region: Region, zones: str) -> None:
        provider = AwsPlane(region, zones).connect(CELL)
        (worker_id,) = provider.launch(replace(order(buckets(provider)), key="secret")).ids
        machine = region.control("machines")[worker_id]
        assert machine["tags"][tags.KEY] == "secret"
        assert machine["launch"]["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
        assert [disk["tags"].get(tags.KEY) for disk in machine["disks"]] == [None]

    @BOTH_WAYS
    def test_a_tag_that_metadata_cannot_show_is_refused_with_its_name(self, region: Region, zones: str) -> None:
        given = [{"ResourceType": "instance", "Tags": [{"Key": "Cost Center", "Value": "x"}]}]
        provider = connect(region, zones, TagSpecifications=given)
        with pytest.raises(Refused, match="Cost Center"):
            provider.launch(replace(order(buckets(provider)), key="secret"))

    def test_old_launch_templates_are_deleted_a_few_at_a_time_when_a_new_one_is_made(
        self, region: Region, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("autoscaler.providers.aws.provider.MOST_SWEPT", 2)
        provider = AwsPlane(region, "ab").connect(CELL)

        def templates_after(disk: int) -> list[str]:
            found = AwsProvider(provider.settings.model_copy(update={"disk": disk}), cell=CELL, calls=provider.calls)
            found.launch(order(buckets(found), token=f"disk-{disk}"))
            return list(region.control("templates")["names"])

        old = [templates_after(disk) for disk in (91, 92, 93)][-1]
        region.control("age_templates", days=30)
        left = [len(set(old) & set(templates_after(disk))) for disk in (94, 95)]
        assert (len(old), left) == (3, [1, 0])


@pytest.mark.parametrize(("profile", "named"), ((ARN, {"Arn": ARN}), ("workers", {"Name": "workers"})))
def test_an_instance_profile_is_named_by_its_arn_or_its_name(
    region: Region, profile: str, named: dict[str, str]
) -> None:
    settings = AwsPlane(region, instance_profile=profile).connect(CELL).settings
    assert machine(settings, Terms({}), with_tags=False)["IamInstanceProfile"] == named


def test_security_groups_stand_in_network_cards_and_not_beside_them(region: Region) -> None:
    """EC2 refuses both."""
    cards = [{"DeviceIndex": 0, "Groups": ["sg-1"]}]
    provider = connect(region, "ab", {"security_groups": "sg-2"}, NetworkInterfaces=cards)
    asked = order(buckets(provider))
    asked = replace(asked, chosen=provider.choose(asked))
    terms = provider.market.terms(provider.settings)
    alone = run_request(asked, places_of(asked)[0], provider.settings, terms)
    fleet = fleet_template(asked, provider.settings, terms)["LaunchTemplateData"]
    for request in (alone, fleet):
        assert "SecurityGroupIds" not in request
        assert [card["Groups"] for card in request["NetworkInterfaces"]] == [["sg-2"]]
