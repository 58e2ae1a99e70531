"""The language as its reference writes it: every document of rules there, and its effect on a node. Unclosed or
malformed examples are refused with their place, and work as intended after a correction.
"""

from __future__ import annotations

import json

import pytest

from autoscaler.constraints.documents import read_document
from autoscaler.constraints.library import (
    NodeProperties,
    NodeResourceConstraint,
    NodeUse,
    Reason,
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableResource,
    Size,
    node_of,
    put_one,
    read_constraint,
    read_rules,
    resources_of,
    text,
)
from autoscaler.constraints.vm_sizes import vm_sizes_from
from autoscaler.core.constraints.constraint import Constraint
from autoscaler.errors import SettingsError

GIB = 1024**3
F16 = NodeProperties(
    "execute", "Standard_F16", vcpu_count=16, pcpu_count=44, memory=Size(32 * GIB), location="westus2", hostname="h1"
)
NC6 = NodeProperties("gpuarray", "Standard_NC6", vcpu_count=6, spot=True, gpu_count=1, placement_group="pg1")
ON_F16 = {"ncpus": 16, "mem": Size(32 * GIB), "ngpus": 4, "project": "open", "custom_string1": "custom_value",
          "custom_string2": "custom_value2", "custom_integer": 32, "custom_int": 16}  # fmt: skip
ON_NC6 = {"ncpus": 6, "mem": Size(56 * GIB), "project": "restricted", "custom_integer": 8, "ngpus": 0}


def on(constraint: Constraint, properties: NodeProperties, **resources: object) -> str:
    """What one task of it takes of a node, as `ncpus=15 mem=28g`, or why the node is rejected."""
    after = put_one("j", [constraint], NodeUse(node_of(properties, (), resources)))  # type: ignore[arg-type]
    if isinstance(after, Reason):
        return text(after)
    return " ".join(f"{name}={after.node.remaining(name)}" for name in after.node.left) or "taken"


PBSPRO = """
{"default_resources": [
{
"select": {},
"name": "ncpus",
"value": "node.vcpu_count"
},
{
"select": {},
"name": "group_id",
"value": "node.placement_group"
},
{
"select": {},
"name": "host",
"value": "node.hostname"
},
{
"select": {},
"name": "mem",
"value": "node.memory"
},
{
"select": {},
"name": "vm_size",
"value": "node.vm_size"
},
{
"select": {},
"name": "disk",
"value": "size::20g"
}]
}
"""


@pytest.mark.parametrize(
    ("properties", "resources"),
    (
        (F16, {"ncpus": 16, "host": "h1", "mem": 32 * GIB, "vm_size": "Standard_F16", "disk": 20 * GIB}),
        (NC6, {"ncpus": 6, "group_id": "pg1", "mem": 0, "vm_size": "Standard_NC6", "disk": 20 * GIB}),
    ),
)
def test_the_default_resources_of_pbspro(properties: NodeProperties, resources: dict[str, object]) -> None:
    assert resources_of(properties, read_rules(PBSPRO).default_resources) == resources


@pytest.mark.parametrize(
    ("document", "on_f16", "on_nc6"),
    (
        ('{"and": [{"ncpus": 1}, {"mem": "memory::4g"}]}', "ncpus=15 mem=28g", "ncpus=5 mem=52g"),
        ('{"ncpus": 1, "mem": "memory::4g"}', "ncpus=15 mem=28g", "ncpus=5 mem=52g"),
        ('{"exclusive": true}', "taken", "taken"),
        ('{"exclusive-task": true}', "taken", "taken"),
        ('{"exclusive_task": true}', "taken", "taken"),
        ('{"in-a-placement-group": true}', "it is in no placement group, and must be in one", "taken"),
        ('{"in_a_placement_group": true}', "it is in no placement group, and must be in one", "taken"),
        ('{"in-a-placement-group": false}', "taken", "it is in the placement group pg1, and must be in none"),
        ('{"ncpus": 1}', "ncpus=15", "ncpus=5"),
        ('{"mem": "memory::4g"}', "mem=28g", "mem=52g"),
        ('{"ngpus": 4}', "ngpus=0", "of ngpus it has 0 left of 0, and 4 is requested"),
        (
            '{"ncpus": 1, "mem": "memory::4g", "ngpus": 4}',
            "ncpus=15 mem=28g ngpus=0",
            "of ngpus it has 0 left of 0, and 4 is requested",
        ),
        (
            """{"or":
[{"project": "open"},
{"project": "restricted",
"never": "User is denied access to this project"}
]
}""",
            "taken",
            "it meets no alternative of 2; its project is restricted, and open is requested; User is denied access to "
            "this project",
        ),
        (
            '{"node.vm_size": ["Standard_F16", "Standard_E32"]}',
            "taken",
            "its node.vm_size is Standard_NC6, and Standard_F16 or Standard_E32 is requested",
        ),
        ('{"node.location": "westus2"}', "taken", "its node.location is none, and westus2 is requested"),
        ('{"node.pcpu_count": 44}', "taken", "its node.pcpu_count is 1, and 44 is requested"),
        ('{"custom_string1": "custom_value"}', "taken", "it has no custom_string1"),
        ('{"custom_string2": ["custom_value1", "custom_value2"]}', "taken", "it has no custom_string2"),
        ('{"custom_integer": [16, 32]}', "taken", "its custom_integer is 8, and 16 or 32 is requested"),
        (
            """{
"custom_string1": "custom_value",
"custom_string2": ["custom_value1", "custom_value2"],
"custom_integer": [16, 32]
}""",
            "taken",
            "it has no custom_string1",
        ),
        ('{"not": {"node.gpu_count": 0}}', 'it meets a constraint that must not hold: {"node.gpu_count": 0}', "taken"),
        ('{"not": {"ngpus": 1}}', 'it meets a constraint that must not hold: {"ngpus": 1}', "taken"),
        (
            """{"or": [{"node.vm_size": "Standard_NC6", "node.spot": true},
{"node.vm_size": "Standard_F16", "node.spot": false}]
}""",
            "taken",
            "taken",
        ),
        (
            """{"xor": [{"node.location": "westus2"},
{"node.location": "eastus"}]
}""",
            "taken",
            "it meets no alternative of 2; its node.location is none, and westus2 is requested; its node.location is "
            "none, and eastus is requested",
        ),
    ),
)
def test_a_constraint_of_the_reference(document: str, on_f16: str, on_nc6: str) -> None:
    constraint = read_constraint(document)
    assert [on(constraint, F16, **ON_F16), on(constraint, NC6, **ON_NC6)] == [on_f16, on_nc6]


# -- code lines ----------------------------------------------------------------------------------------------------


def test_a_read_only_integer_is_requested_by_a_program() -> None:
    constraint = NodeResourceConstraint("custom_int", 16)
    assert [on(constraint, F16, custom_int=there) for there in (16, 32)] == [
        "taken", "its custom_int is 32, and 16 is requested",
    ]  # fmt: skip


LICENSES = [SharedConsumableResource(resource_name="licenses",
source="/path/to/license_limits",
initial_value=1000,
current_value=1000)]  # fmt: skip
VERSIONS = [SharedNonConsumableResource(resource_name="prodversion",
source="/path/to/prod_version",
current_value="1.2.3")]  # fmt: skip


def test_a_licence_limits_all_nodes_together() -> None:
    def make_constraint(value: int) -> SharedConsumableConstraint:
        return SharedConsumableConstraint(LICENSES, value)

    assert [on(make_constraint(value), F16) for value in (1000, 1001)] == [
        "taken", "of licenses, which all share, 1000 of 1000 are left, and 1001 is requested",
    ]  # fmt: skip


def test_a_constraint_does_not_take_the_arguments_of_its_resource() -> None:
    with pytest.raises(TypeError, match="resource_name"):
        SharedConsumableConstraint(resource_name="licenses",
        source="/path/to/license_limits",
        initial_value=1000,
        current_value=1000)  # type: ignore[call-arg]  # fmt: skip


def test_a_version_is_the_same_for_all() -> None:
    def make_constraint(value: str) -> SharedConstraint:
        return SharedConstraint(VERSIONS, value)

    assert [on(make_constraint(value), F16) for value in ("1.2.3", "2.0")] == [
        "taken", "the shared resource prodversion is 1.2.3, and the constraint requires 2.0",
    ]  # fmt: skip


# -- malformed examples, and what they intend -----------------------------------------------------------------------

BY_SIZE = """{
"select": {"node.vm_size": "Standard_F2"},
"name": "disk",
"value": "size::20g"
},
{
"select": {"node.vm_size": "Standard_H44rs"},
"name": "disk",
"value": "size::2t"
},
{
"select": {"node.nodearray": "gpuarray"},
"name": "ngpus",
"value": 8
}"""
SPECIAL_FIRST = """{
"select": "node.nodearray": "special-nodearray",
"name": "ncpus",
"value": 42
},
{"select": {},
"name": "ncpus",
"value": "node.pcpu_count"
}"""
SPECIAL_LAST = """{"select": {},
"name": "ncpus",
"value": "node.pcpu_count"
},
{
"select": "node.nodearray": "special-nodearray",
"name": "ncpus",
"value": 42
},"""
MALFORMED, MEANT = (
    '"select": "node.nodearray": "special-nodearray"',
    '"select": {"node.nodearray": "special-nodearray"}',
)
PROXIED = """{
"proxied-locations": {
"_comment_": "This is a mapping of locations that are not available in the Azure API, but are proxied to another location.",
"usdodcentral": "southcentralus",
"usdodeast": "southcentralus",
"usdodtexas": "southcentralus",
"usgovarizona": "southcentralus",
"usgoviowa": "southcentralus",
"usgovtexas": "southcentralus",
"usgovvirginia": "southcentralus",
"usseceast": "southcentralus",
"ussecwest": "southcentralus"
},"""  # noqa: E501


def in_rules(fragment: str) -> str:
    return f'{{"default_resources": [{fragment}]}}'


def of_special(rules: str) -> object:
    return resources_of(NodeProperties("special-nodearray", "F2", pcpu_count=2), read_rules(rules).default_resources)


@pytest.mark.parametrize(
    ("broken", "message"),
    (
        (BY_SIZE, "the document: text follows after the end"),
        (SPECIAL_FIRST, "select: expecting ',' delimiter (line 2, column 27)"),
        (in_rules(SPECIAL_FIRST), "default_resources[0].select: expecting ',' delimiter"),
        (SPECIAL_LAST, "the document: text follows after the end"),
        (in_rules(SPECIAL_LAST), "default_resources[1].select: expecting ',' delimiter"),
        (in_rules(SPECIAL_LAST.replace(MALFORMED, MEANT)), "default_resources[2]: "),
        ('"boot_timeout": 3600', "the document: text follows after the end"),
        ('"boot_timeout": {"default": 3600, "nodearray1": 7200, "nodearray2": 900},', "the document: text follows"),
        (PROXIED, "the document: the text ends inside this: close what is open"),
    ),
)
def test_malformed_examples_are_refused_with_their_place(broken: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_document(broken)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("array", "size", "resources"),
    (
        ("execute", "Standard_F2", {"disk": 20 * GIB}),
        ("execute", "Standard_H44rs", {"disk": 2048 * GIB}),
        ("gpuarray", "Standard_NC6", {"ngpus": 8}),
    ),
)
def test_resources_by_size_and_node_array_as_intended(array: str, size: str, resources: dict[str, object]) -> None:
    assert resources_of(NodeProperties(array, size), read_rules(in_rules(BY_SIZE)).default_resources) == resources


def test_the_restrictive_rule_placed_first_applies() -> None:
    assert of_special(in_rules(SPECIAL_FIRST.replace(MALFORMED, MEANT))) == {"ncpus": 42}


def test_the_restrictive_rule_placed_last_is_ignored() -> None:
    assert of_special(in_rules(SPECIAL_LAST.replace(MALFORMED, MEANT).removesuffix(","))) == {"ncpus": 2}


@pytest.mark.parametrize(
    ("meant", "timeouts"),
    (
        ('{"boot_timeout": 3600}', [3600, 3600, 3600]),
        ('{"boot_timeout": {"default": 3600, "nodearray1": 7200, "nodearray2": 900}}', [3600, 7200, 900]),
    ),
)
def test_timeouts_as_intended(meant: str, timeouts: list[float]) -> None:
    timeout = read_rules(meant).boot_timeout
    assert timeout is not None
    assert [timeout.of(array) for array in ("other", "nodearray1", "nodearray2")] == timeouts


def test_proxied_locations_as_intended() -> None:
    sizes = {"southcentralus": {"Standard_NC6": {"capabilities": {"GPUs": 1}}}}
    document = json.loads(PROXIED.removesuffix(",") + "}") | sizes
    facts = vm_sizes_from(document).facts("usgovvirginia", "Standard_NC6")
    assert facts is not None
    assert facts.gpu_count == 1
