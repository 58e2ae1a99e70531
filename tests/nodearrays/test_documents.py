"""Documents of rules: what they may contain, and how errors name their place."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.constraints.documents import constraint_from, constraints_from, read_document
from autoscaler.constraints.json_text import path_at, read_json
from autoscaler.constraints.library import read_constraint, read_rules
from autoscaler.constraints.rules import load_rules, rules_from
from autoscaler.constraints.vm_sizes import vm_sizes_from
from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    MinimumResource,
    NodePropertyConstraint,
    NodeResourceConstraint,
    as_text,
)
from autoscaler.core.constraints.default_resources import OfNode, OfResource, Operator
from autoscaler.core.constraints.values import Size
from autoscaler.errors import SettingsError
from tests.core.test_constraints import CONSTRAINTS

GIB = 1024**3


def error_in(document: str, *, toml: bool = False) -> str:
    with pytest.raises(SettingsError) as raised:
        read_rules(document, toml=toml)
    return str(raised.value)


@pytest.mark.parametrize(
    ("constraint", "error"),
    (
        ('{"or": [{}, {"ngpus": -1}]}', ".or[1].ngpus: an amount cannot be below 0: -1"),
        ('{"ncpus": null}', ".ncpus: a number, text, true or false is expected, not null"),
        ('{"ncpus": {}}', ".ncpus: a number, text, true or false is expected, not an object"),
        ('{"c": []}', ".c: name at least one value"),
        ('{"c": ["a", {}]}', ".c[1]: a number, text, true or false is expected, not an object"),
        ('{"": 1}', ": a resource needs a name"),
        (
            '{"mem": "memory::4q"}',
            ".mem: '4q' is not a size: write a number and one of b, k, m, g, t, p (1024) or K, M",
        ),
        ('{"mem": "size::"}', ".mem: '' is not a size"),
        ('{"mem": "size::1000P"}', ".mem: '1000P' is too large"),
        ('{"mem": "size::' + "9" * 400 + '"}', ".mem: '9999"),
        ('{"mem": ' + "9" * 400 + "}", ".mem: a number must be below 10 to the power of 18"),
        ('{"mem": 1e999}', ".mem: a number must be below 10 to the power of 18"),
        ('"ncpus"', ": an object is expected, not 'ncpus'"),
        ('{"or": []}', ".or: name at least one alternative"),
        ('{"xor": {"a": 1}}', ".xor: a list is expected, not an object"),
        ('{"not": [{"a": 1}]}', ".not: an object is expected, not a list"),
        ('{"not": {}}', ".not: name the constraint that must not be met"),
        (
            '{"shared-consumable-constraint": {}}',
            ".shared-consumable-constraint: declare it in shared_resources",
        ),
        ('{"and": {"a": 1}}', ".and: a list is expected, not an object"),
        ('{"exclusive": "yes"}', ".exclusive: true or false is expected, not 'yes'"),
        ('{"exclusive_task": 2}', ".exclusive_task: true or false is expected, not 2"),
        ('{"exclusive": 0.5}', ".exclusive: true or false is expected, not 0.5"),
        ('{"never": " "}', ".never: text is expected, not ' '"),
        ('{"never": true}', ".never: text is expected, not true"),
        ('{"node.vm_sise": "x"}', ".node.vm_sise: node.vm_sise is not known; did you mean node.vm_size?"),
        ('{"node.resources.mem": "x"}', ".node.resources.mem: request a resource by its own name, mem"),
        ('{"node.gpu_count": "1"}', ".node.gpu_count: node.gpu_count is a whole number, not '1'"),
        ('{"node.vcpu_count": [1, 2.5]}', ".node.vcpu_count[1]: node.vcpu_count is a whole number, not 2.5"),
        ('{"node.vm_size": 1}', ".node.vm_size: node.vm_size is text, not 1"),
        ('{"node.vm_size": null}', ".node.vm_size: node.vm_size is text, not null"),
        ('{"node.vm_size": []}', ".node.vm_size: name at least one value"),
        ('{"node.spot": "si"}', ".node.spot: true or false is expected, not 'si'"),
        ('{"node.create_time": "noon"}', ".node.create_time: 'noon' is not a time: write 2026-01-31T08:00:00+00:00"),
        ('{"node.create_time": "2026-01-31T08:00"}', ".node.create_time: '2026-01-31T08:00' has no offset: write"),
        ('{"lic": "x"}', ".lic: a number or a size is expected, not 'x'"),
    ),
)
def test_an_error_names_its_place_inside_a_constraint(constraint: str, error: str) -> None:
    shared = '[{"name": "lic", "initial_value": 2, "current_value": 1}]'
    document = f'{{"shared_resources": {shared}, "constraints": [{{}}, {constraint}]}}'
    assert error_in(document).startswith(f"constraints[1]{error}")


@pytest.mark.parametrize(
    ("constraint", "place", "meant"),
    (
        ('{"nver": "closed"}', "nver", "never"),
        ('{"Never": "closed"}', "Never", "never"),
        ('{"or": [{}, {"nevre": "closed"}]}', "or[1].nevre", "never"),
        ('{"in-a-placement-grup": true}', "in-a-placement-grup", "in-a-placement-group"),
        ('{"in_a_placment_group": true}', "in_a_placment_group", "in-a-placement-group"),
        ('{"exclusive_tsk": true}', "exclusive_tsk", "exclusive-task"),
        ('{"exclusiv": true}', "exclusiv", "exclusive"),
        ('{"nott": {"ncpus": 1}}', "nott", "not"),
        ('{"ors": [{"ncpus": 1}]}', "ors", "or"),
        ('{"nodes.vm_size": "F2"}', "nodes.vm_size", "node.vm_size"),
        ('{"Node.vm_size": "F2"}', "Node.vm_size", "node.vm_size"),
    ),
)
@pytest.mark.parametrize("head", ("constraints[0]", "apply[0].constraints", "default_resources[0].select"))
def test_a_misspelt_keyword_is_not_taken_for_a_resource(head: str, constraint: str, place: str, meant: str) -> None:
    documents = {
        "constraints[0]": '{"constraints": [%s]}',
        "apply[0].constraints": '{"apply": [{"user": "ann", "constraints": %s}]}',
        "default_resources[0].select": '{"default_resources": [{"name": "n", "value": 1, "select": %s}]}',
    }
    assert error_in(documents[head] % constraint).startswith(f"{head}.{place}: did you mean {meant}?")


@pytest.mark.parametrize(
    "name", ("or1", "ands", "note", "nor", "level", "server", "node", "os", "placement_group", "mem", "nodes.x")
)
def test_a_name_unlike_any_keyword_is_a_resource(name: str) -> None:
    assert read_constraint(f'{{"{name}": "a"}}') == NodeResourceConstraint(name, ("a",))


@pytest.mark.parametrize(
    "defined",
    (
        '"default_resources": [{"name": "lever", "value": "a"}]',
        '"complexes": {"lever": "x"}',
        '"complexes": {"l": "lever"}',
    ),
)
def test_a_defined_resource_may_resemble_a_keyword(defined: str) -> None:
    rules = read_rules(f'{{{defined}, "constraints": [{{"lever": "a"}}]}}')
    assert rules.constraints == (NodeResourceConstraint("lever", ("a",)),)


@pytest.mark.parametrize(
    ("entry", "error"),
    (
        ('"name": "n"', ".value: it is missing"),
        ('"value": 1', ".name: it is missing"),
        ('"name": "n", "value": 1, "minus": 1', ".minus: minus is not known; known are select, name, value, add"),
        ('"name": "n", "value": "node.cpus"', ".value: node.cpus is not known; "),
        ('"name": "n", "value": "a", "add": 1', ".add: 'a' is not a number"),
        ('"name": "n", "value": 1, "add": "a"', ".add: a number or a size is expected, not 'a'"),
        ('"name": "n", "value": 1, "divide": 0', ".divide: division by 0"),
        ('"name": "n", "value": 1, "divide_floor": 0', ".divide_floor: division by 0"),
        ('"name": "n", "value": 1, "add": "2"', ".add: a number or a size is expected, not '2'"),
        ('"name": "n", "value": "node.resources.n"', ".value: no default resource before this one gives n; it may be"),
        ('"name": "n", "value": 1, "select": {"node.x": 1}', ".select.node.x: node.x is not known"),
        ('"name": "n", "value": 1, "select": "node.x"', ".select: an object is expected, not 'node.x'"),
    ),
)
def test_an_error_names_its_place_inside_a_default_resource(entry: str, error: str) -> None:
    document = f'{{"default_resources": [{{"name": "a", "value": 1}}, {{{entry}}}]}}'
    assert error_in(document).startswith(f"default_resources[1]{error}")


@pytest.mark.parametrize(
    ("document", "error"),
    (
        ("[]", "the document: an object is expected, not a list"),
        ('{"constraints": {"ncpus": 1}}', "constraints: a list is expected, not an object"),
        (
            '{"default_resource": []}',
            "default_resource: default_resource is not known; did you mean default_resources?",
        ),
        ('{"boot_timeout": ' + "9" * 400 + "}", "boot_timeout: a number of seconds above 0 is expected"),
        ('{"boot_timeout": 0}', "boot_timeout: a number of seconds above 0 is expected, not 0"),
        ('{"apply": {}}', "apply: a list is expected, not an object"),
        ('{"apply": [{}]}', "apply[0].constraints: it is missing: the constraints of these jobs on a node"),
        ('{"apply": [{"constraints": {}}]}', "apply[0]: name queue, pe, project, user or context; rules for"),
        ('{"apply": [{"queues": "q"}]}', "apply[0].queues: queues is not known; did you mean queue?"),
        ('{"apply": [{"queue": 1, "constraints": {}}]}', "apply[0].queue: text is expected, not 1"),
        ('{"apply": [{"user": [], "constraints": {}}]}', "apply[0].user: name at least one"),
        ('{"apply": [{"user": ["a", ""], "constraints": {}}]}', "apply[0].user[1]: text is expected, not ''"),
        ('{"apply": [{"context": {"a": 1}, "constraints": {}}]}', "apply[0].context.a: text is expected, not 1"),
        ('{"apply": [{"pe": "m", "constraints": [{"a": -1}]}]}', "apply[0].constraints[0].a: an amount cannot be"),
        ('{"complexes": {"gpu": 1}}', "complexes.gpu: text is expected, not 1"),
        ('{"location": ""}', "location: text is expected, not ''"),
        ('{"vm_sizes": {"F2": 1}}', "vm_sizes.F2: an object is expected, not 1"),
        ('{"boot_timeout": {"execute": 1}}', "boot_timeout.default: it is missing"),
        ('{"idle_timeout": {"default": 1, "execute": "1h"}}', "idle_timeout.execute: a number of seconds above 0"),
        ('{"keep_alive": [1]}', "keep_alive[0]: text is expected, not 1"),
        ('{"keep_alive": {"execute": 2}}', "keep_alive.execute: true or false is expected, not 2"),
        ('{"shared_resources": [{"name": "lic"}]}', "shared_resources[0].source: name a file that contains its value"),
        ('{"shared_resources": [{"current_value": 1}]}', "shared_resources[0].name: text is expected, not null"),
        (
            '{"shared_resources": [{"name": "a", "current_value": "x", "initial_value": 1}]}',
            "shared_resources[0].current_value: a number or a size is expected, not 'x'",
        ),
        (
            '{"shared_resources": [{"name": "a", "current_value": 1}, {"name": "a", "current_value": 1}]}',
            "shared_resources[1].name: a is given twice",
        ),
    ),
)
def test_an_error_names_its_place_inside_the_document(document: str, error: str) -> None:
    assert error_in(document).startswith(error)


@pytest.mark.parametrize(
    ("document", "error"),
    (
        ('{"constraints": [{"ncpus": 1, "ncpus": 2}]}', "constraints[0].ncpus: it is given twice"),
        ('{"constraints": [{"x": NaN}]}', "the document: NaN is not a number"),
        ('{"constraints": [{"or": [{"ngpus": ]}]}', "constraints[0].or[0].ngpus: expecting value (line 1, column 36)"),
        ('{"constraints": [{"or": [{"ngpus": 1', "constraints[0].or[0].ngpus: the text ends inside this"),
        ('{"constraints": [{"a": "x\ny"}]}', "constraints[0].a: invalid control character at"),
        ('{"constraints": [' + '{"not": ' * 70 + "1" + "}" * 70 + "]}", "constraints[0].not.not.not"),
        ("[" * 100_000, "the document: it is nested too deeply"),
        ("", "the document: the text ends inside this"),
    ),
)
def test_malformed_json_is_reported_with_its_place(document: str, error: str) -> None:
    assert error_in(document).startswith(error)


@pytest.mark.parametrize(
    ("text", "path"),
    (
        ("", ""),
        ('{"a"', ""),
        ('{"a":', "a"),
        ('{"a": {"b": [1, {"c": ', "a.b[1].c"),
        ('{"a": {"b": 1}, "c": ', "c"),
        ('{"a:[{": 1, "b\\"{": [', 'b\\"{[0]'),
        ('[[], [1], {"x": ', "[2].x"),
        ("]]", ""),
    ),
)
def test_the_path_of_a_position_is_found_in_unfinished_text(text: str, path: str) -> None:
    assert path_at(text, len(text)) == path


@given(CONSTRAINTS)
def test_a_constraint_reads_back_from_its_own_document(constraint: Constraint) -> None:
    assert read_constraint(as_text(constraint)) == constraint


NAMES = st.sampled_from(
    [
        *("default_resources", "constraints", "shared_resources", "boot_timeout", "keep_alive"),
        *("select", "name", "value", "add", "default", "current_value", "initial_value", "source"),
        *(
            "and",
            "or",
            "xor",
            "not",
            "exclusive_task",
            "in-a-placement-group",
            "never",
            "node.memory",
            "node.spot",
            "x",
        ),
        *("proxied-locations", "eastus", "capabilities", "vCPUs"),
        *("apply", "queue", "context", "complexes", "vm_sizes", "location"),
    ]
)
WORDS = st.sampled_from((10**400, "", "x", "node.name", "size::1g", "size::"))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, DOCUMENTS, max_size=3))
def test_any_document_is_read_or_refused_without_a_crash(document: dict[str, object]) -> None:
    for read in (rules_from, vm_sizes_from, constraint_from):
        with contextlib.suppress(SettingsError):
            read(document)


@given(DOCUMENTS, st.integers(0, 200))
def test_a_truncated_document_is_refused_with_a_place(document: object, at: int) -> None:
    text = json.dumps({"constraints": [document]})
    cut = text[: at % len(text)]
    with pytest.raises(SettingsError, match=r"^(the document|constraints[\[\].\w-]*): "):
        read_document(cut)


def test_toml_and_json_read_alike() -> None:
    as_toml = """
        boot_timeout = { default = 3600, gpu = 7200 }
        [[default_resources]]
        select = { "node.nodearray" = "gpu" }
        name = "mem"
        value = "node.memory"
        subtract = "memory::1g"
        [[constraints]]
        or = [ { "node.spot" = true }, { ncpus = 1 } ]
    """
    as_json = """{
        "boot_timeout": {"default": 3600, "gpu": 7200},
        "default_resources": [{"select": {"node.nodearray": "gpu"}, "name": "mem", "value": "node.memory",
                               "subtract": "memory::1g"}],
        "constraints": [{"or": [{"node.spot": true}, {"ncpus": 1}]}]
    }"""
    assert read_rules(as_toml, toml=True) == read_rules(as_json)


def test_malformed_toml_is_reported_with_its_line() -> None:
    assert "line 2" in error_in("[[constraints]]\nncpus = many\n", toml=True)


def test_changes_keep_the_order_of_the_document() -> None:
    document = '{"default_resources": [{"name": "n", "value": 2, "subtract": "node.gpu_count", "multiply": 3}]}'
    changes = read_rules(document).default_resources[0].changes
    assert changes == ((Operator.SUBTRACT, OfNode("gpu_count")), (Operator.MULTIPLY, 3))


@pytest.mark.parametrize(
    ("written", "size"),
    (("20g", 20 * GIB), ("1.5k", 1536), ("2T", 2 * 10**12), ("4096", 4096), ("7b", 7), ("1p", 1024**5), (".5m", 2**19)),
)
def test_small_letters_of_a_size_are_powers_of_1024(written: str, size: int) -> None:
    assert read_constraint(f'{{"mem": "size::{written}"}}') == MinimumResource("mem", Size(size))


@pytest.mark.parametrize("false", ('{"exclusive": false}', '{"exclusive-task": false}', "{}", "[]"))
def test_an_empty_constraint_is_met_by_every_node(false: str) -> None:
    assert read_constraint(false) in (And(()), And((And(()),)))


def test_an_optional_property_may_be_required_to_be_null() -> None:
    constraint = read_constraint('{"node.placement_group": null}')
    assert constraint == NodePropertyConstraint("placement_group", (None,))


def test_keep_alive_is_by_node_array_or_by_host_name() -> None:
    kept = [read_rules(document).keep_alive for document in (
        '{"keep_alive": true}', '{"keep_alive": {"gpu": true}}', '{"keep_alive": ["w1"]}', "{}",
    )]  # fmt: skip
    assert [[keep.holds("gpu", "w9"), keep.holds("cpu", "w1")] for keep in kept] == [
        [True, True], [True, False], [False, True], [False, False],
    ]  # fmt: skip


# -- files ----------------------------------------------------------------------------------------------------------

LICENSES = '{"shared_resources": [{"name": "lic", "source": "%s", "initial_value": 10}], "constraints": [{"lic": 3}]}'


def left_of(rules: Path) -> object:
    resource = load_rules(rules).shared["lic"]
    return resource.current_value


@pytest.mark.parametrize(
    ("held", "value"), (("7", 7), ("7.5\n", 7.5), ('{"current_value": 4}', 4), ('{"current_value": "size::1g"}', GIB))
)
def test_a_shared_resource_has_the_value_of_its_file(tmp_path: Path, held: str, value: object) -> None:
    (tmp_path / "limits").write_text(held)
    (tmp_path / "rules.json").write_text(LICENSES % (tmp_path / "limits"))
    assert left_of(tmp_path / "rules.json") == value


def test_the_file_of_a_shared_resource_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(LICENSES % (tmp_path / "limits"))
    found = []
    for held in ("7", "2"):
        (tmp_path / "limits").write_text(held)
        found.append(left_of(tmp_path / "rules.json"))
    assert found == [7, 2]


def test_a_version_in_a_file_is_text(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("1.2\n")
    (tmp_path / "rules.toml").write_text(f'[[shared_resources]]\nname = "lic"\nsource = "{tmp_path}/version"\n')
    assert left_of(tmp_path / "rules.toml") == "1.2"


@pytest.mark.parametrize(
    ("held", "why"),
    (
        (None, "cannot read"),
        ("", "does not contain exactly one value"),
        ("many", "contains 'many', which is not a number"),
        ("{}", "contains no current_value"),
        ("{", "the text ends inside this"),
        ("9" * 70_000, "it is longer than 65536 bytes"),
    ),
)
def test_an_invalid_value_file_is_reported_with_file_and_place(tmp_path: Path, held: str | None, why: str) -> None:
    if held is not None:
        (tmp_path / "limits").write_text(held)
    (tmp_path / "rules.json").write_text(LICENSES % (tmp_path / "limits"))
    with pytest.raises(SettingsError, match=why) as raised:
        load_rules(tmp_path / "rules.json")
    assert str(raised.value).startswith(f"{tmp_path}/rules.json: shared_resources[0].source")


def test_unreadable_rules_are_reported_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the rules .*absent\.json"):
        load_rules(tmp_path / "absent.json")


def test_shared_resources_of_a_program_apply_to_a_document() -> None:
    declared = read_rules(
        '{"shared_resources": [{"name": "lic", "initial_value": 5}]}'.replace("5}", '5, "current_value": 5}')
    )
    constraint = constraint_from({"lic": 2}, shared=declared.shared)
    assert constraint.document() == {"lic": 2}


def test_each_constraint_of_a_list_is_read_separately() -> None:
    assert constraints_from([{"a": 1}, {"b": 2}]) == (MinimumResource("a", 1), MinimumResource("b", 2))


def test_a_place_starts_with_the_name_given_by_the_caller() -> None:
    with pytest.raises(SettingsError, match=r"^queue\.rules\[0\]\.x: "):
        constraint_from(read_document('[{"x": null}]'), at="queue.rules")


def test_valid_json_is_read_unchanged() -> None:
    assert read_json('{"a": [1, 2.5, "x", true, null, {}]}') == {"a": [1, 2.5, "x", True, None, {}]}


def test_a_default_resource_may_use_sizes_and_earlier_resources() -> None:
    rules = read_rules(
        '{"default_resources": [{"name": "m_mem_free", "value": "node.resources.memgb", "subtract": "1g"},'
        '{"name": "mfree", "value": "node.resources.m_mem_free", "divide_floor": "node.resources.ncpus"}]}'
    )
    assert [(one.value, one.changes) for one in rules.default_resources] == [
        (OfResource("memgb"), ((Operator.SUBTRACT, Size(GIB)),)),
        (OfResource("m_mem_free"), ((Operator.DIVIDE_FLOOR, OfResource("ncpus")),)),
    ]


@pytest.mark.parametrize("value", ('"true"', '"True"', "1", "1.0", '"1"'))
def test_true_may_be_written_as_text_or_number(value: str) -> None:
    document = f'{{"constraints": [{{"exclusive": {value}, "node.spot": {value}, "in-a-placement-group": {value}}}]}}'
    plain = '{"constraints": [{"exclusive": true, "node.spot": true, "in-a-placement-group": true}]}'
    assert read_rules(document).constraints == read_rules(plain).constraints


@pytest.mark.parametrize("value", ('"false"', "0", '"FALSE"'))
def test_false_may_be_written_as_text_or_number(value: str) -> None:
    assert read_constraint(f'{{"exclusive": {value}}}') == And()


def test_a_whole_number_may_have_a_zero_fraction() -> None:
    found = read_constraint('{"node.vcpu_count": [2.0, 4]}')
    assert isinstance(found, NodePropertyConstraint)
    assert (found.values, [type(value) for value in found.values]) == ((2, 4), [int, int])


def test_comments_are_allowed_in_any_object_and_ignored() -> None:
    document = """{"_comment": "ours", "_comment_": ["a", {}],
      "default_resources": [{"_comment": "x", "select": {"_comment": 1, "node.spot": true}, "name": "a", "value": 1}],
      "constraints": [{"_comment": "all", "or": [{"ncpus": 1, "_comment_2": null}]}],
      "apply": [{"_comment": "", "queue": "q", "constraints": {"_comment": "", "ncpus": 2}}],
      "complexes": {"_comment": "c", "gpu": "ngpus"},
      "shared_resources": [{"_comment": "c", "name": "lic", "current_value": 3, "consumable": 1}],
      "boot_timeout": {"_comment": "c", "default": 5}, "keep_alive": {"_comment": "c", "gpu": true},
      "vm_sizes": {"_comment": "c", "F2": {"_comment": "c", "capabilities": {"_comment": "c", "vCPUs": 2}}}}"""
    plain = """{
      "default_resources": [{"select": {"node.spot": true}, "name": "a", "value": 1}],
      "constraints": [{"or": [{"ncpus": 1}]}],
      "apply": [{"queue": "q", "constraints": {"ncpus": 2}}],
      "complexes": {"gpu": "ngpus"},
      "shared_resources": [{"name": "lic", "current_value": 3, "consumable": true}],
      "boot_timeout": {"default": 5}, "keep_alive": {"gpu": true},
      "vm_sizes": {"F2": {"capabilities": {"vCPUs": 2}}}}"""
    assert replace(read_rules(document), document="") == replace(read_rules(plain), document="")


def default_of(value: str, more: str = "") -> tuple[object, object]:
    (found,) = read_rules(
        json.dumps({"default_resources": [{"name": "a", "value": value}]})[:-3] + more + "}]}"
    ).default_resources
    return found.value, found.changes


@pytest.mark.parametrize(
    ("value", "meant"),
    (
        ("`node.vcpu_count`", (OfNode("vcpu_count"), ())),
        ("`8`", (8, ())),
        ("`node.vcpu_count - 1`", (OfNode("vcpu_count"), ((Operator.SUBTRACT, 1),))),
        ("`2 * node.vcpu_count`", (OfNode("vcpu_count"), ((Operator.MULTIPLY, 2),))),
        (
            "`(node.vcpu_count - 1) // 2`",
            (OfNode("vcpu_count"), ((Operator.SUBTRACT, 1), (Operator.DIVIDE_FLOOR, 2))),
        ),
        ("`node.memory * 0.9`", (OfNode("memory"), ((Operator.MULTIPLY, 0.9),))),
        (
            "`node.resources['memgb'] / node.pcpu_count`",
            (OfResource("memgb"), ((Operator.DIVIDE, OfNode("pcpu_count")),)),
        ),
        ("`node.resources.get('ngpus')`", (OfResource("ngpus"), ())),
        ("`node.resources.memgb - 1`", (OfResource("memgb"), ((Operator.SUBTRACT, 1),))),
        ("`node.memory - '1g'`", (OfNode("memory"), ((Operator.SUBTRACT, Size(GIB)),))),
    ),
)
def test_a_back_quoted_expression_is_evaluated(value: str, meant: object) -> None:
    assert default_of(value) == meant


def test_changes_beside_an_expression_apply_after_it() -> None:
    changes = ((Operator.SUBTRACT, 1), (Operator.MULTIPLY, 3))
    assert default_of("`node.vcpu_count - 1`", ', "multiply": 3') == (OfNode("vcpu_count"), changes)


@pytest.mark.parametrize(
    ("value", "error"),
    (
        ("`int(node.memory)`", "`int(node.memory)` is not evaluated here; write a number or a property"),
        ("`node.vcpu_count - 2 * 3`", "`node.vcpu_count - 2 * 3` is not evaluated here"),
        ("`node.memory - 'much'`", "`node.memory - 'much'` is not evaluated here"),
        ("`node.vcpu_cont - 1`", "node.vcpu_cont is not known; did you mean node.vcpu_count?"),
        ("`node.resources['nothing']`", "no default resource before this one gives nothing"),
        ("`node.vcpu_count", "a back-quote is missing"),
        ("node.vcpu_count`", "a back-quote is missing"),
        ("``", "`` is not evaluated here"),
        ("`node.vcpu_count // 0`", "nothing can be divided by 0"),
        ("`__import__('os').system('id')`", "is not evaluated here"),
        ("`" + "(" * 500 + "1" + ")" * 500 + "`", "is not evaluated here"),
    ),
)
def test_an_unsupported_expression_is_refused_with_its_place_and_a_hint(value: str, error: str) -> None:
    result = error_in(json.dumps({"default_resources": [{"name": "a", "value": value}]}))
    assert result.startswith("default_resources[0].value: ")
    assert error in result


LONG = (
    '{"arrays": "' + '\\"' * 30_000 + "\x01",
    '{"' + "k" * 500_000 + '": [' + ",".join("0" * 250_000) + ', {"a": 1, "a": 2}]}',
)


@pytest.mark.parametrize("text", LONG, ids=("quotes", "a long name"))
def test_reading_time_grows_no_faster_than_the_text(text: str) -> None:
    """Reading each took over ten seconds, in which the process did nothing else."""
    began = process_time()
    with pytest.raises(SettingsError):
        read_json(text)
    assert process_time() - began < 4
