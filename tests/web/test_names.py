"""Names of the REST API, compared with what we know of the published reference from the other side: the server that our
client is tested with.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from autoscaler.api.models import NodeCreationRequest, NodeDefinition, NodeManagementRequest, NodeSet
from autoscaler.api.routes import VERBS
from tests.clouds.cyclecloud import reference
from tests.clouds.cyclecloud.cluster import Cluster
from tests.web.served import Served, worker


def names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_request_bodies_have_exactly_the_names_of_the_reference() -> None:
    ours = [names(model) for model in (NodeCreationRequest, NodeSet, NodeDefinition, NodeManagementRequest)]
    theirs = (reference.CREATION, reference.SET, reference.DEFINITION, reference.MANAGEMENT)
    assert ours == [set(each) for each in theirs]


def test_every_verb_of_the_reference_is_served() -> None:
    assert sorted(VERBS) == sorted(reference.VERBS)


def missing_names(theirs: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    return theirs.keys() - ours.keys()


def test_status_and_nodes_have_every_name_that_the_reference_server_returns(api: Served) -> None:
    other = Cluster("demo")
    other.create({"sets": [{"count": 1, "nodearray": "execute", "placementGroupId": "pg0"}]})
    theirs = other.status(with_nodes=True)
    theirs["nodes"][0] |= {"Hostname": "h", "PrivateIp": "10.0.0.1", "InstanceId": "i"}
    api.observe(worker("i-1"))
    api.client.create(1, placementGroupId="pg0", definition={"machineType": "c5.large"})
    ours = api.client.get("status", nodes="true").json()
    array, bucket = ours["nodearrays"][0], ours["nodearrays"][0]["buckets"][0]
    their_array, their_bucket = theirs["nodearrays"][0], theirs["nodearrays"][0]["buckets"][0]
    ready, created = sorted(ours["nodes"], key=lambda node: "PlacementGroupId" in node)
    assert (
        set().union(
            missing_names(theirs, ours),
            missing_names(their_array, array),
            missing_names(their_array["nodearray"], array["nodearray"]),
            missing_names(their_bucket, bucket),
            missing_names(their_bucket["virtualMachine"], bucket["virtualMachine"]),
            missing_names(their_bucket["placementGroups"][0], bucket["placementGroups"][0]),
            missing_names(theirs["nodes"][0], ready | created),
        )
        == set()
    )
