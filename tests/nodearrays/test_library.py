"""The library as docs/rules.md shows it, and that the page is as complete as the library."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from autoscaler.constraints import library
from autoscaler.constraints.library import (
    JobDemand,
    SharedConsumableConstraint,
    candidates_of,
    match,
    node_of,
    properties_of_worker,
    read_constraint,
    read_rules,
)
from autoscaler.core.constraints.constraint import Never
from autoscaler.core.constraints.node import PROPERTIES
from autoscaler.core.constraints.ruleset import Who
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, MachineState, PriceType, Worker
from autoscaler.core.model.reasons import Code

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
GIB = 1024**3
F2 = InstanceType("Standard_F2", "F", 2, 4 * GIB)
CPUS = read_rules('{"default_resources": [{"name": "ncpus", "value": "node.vcpu_count"}]}').default_resources


def run(program: str) -> tuple[str, dict[str, object]]:
    """Its output, and its names."""
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(program, "docs/rules.md", "exec"), names)
    return out.getvalue(), names


def test_the_example_on_the_page_prints_what_the_page_shows() -> None:
    texts = [text for _, text in BLOCKS]
    at = next(at for at, text in enumerate(texts) if "found = match(demand" in text)
    program, printed = texts[at : at + 2]
    assert run(program)[0] == printed


def test_the_shared_resource_example_on_the_page_runs() -> None:
    program = next(text for _, text in BLOCKS if "constraint = SharedConsumableConstraint" in text)
    assert isinstance(run(program)[1]["constraint"], SharedConsumableConstraint)


def test_the_autoscaler_rules_on_the_page_mean_what_the_page_says() -> None:
    rules = read_rules(next(text for kind, text in BLOCKS if kind == "json" and "apply" in text))
    assert [entry.place for entry in rules.entries] == ["apply[0]", "apply[1]", "apply[2]", "apply[3]"]
    assert [entry.who for entry in rules.apply] == [
        Who(queues=("big.q",)),
        Who(projects=("restricted",), users=("ann", "bob")),
        Who(pes=("mpi*",)),
        Who(context=(("tier", "gold"),)),
    ]
    assert rules.apply[1].constraint == Never("User is denied access to this project")
    assert rules.complexes == {"gpu": "ngpus", "vm_size": "vm_size"}


def test_the_shared_resources_on_the_page_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "licenses").write_text("998")
    (tmp_path / "version").write_text("1.2.3\n")
    document = next(text for kind, text in BLOCKS if kind == "json" and "shared_resources" in text)
    document = document.replace("/path/to/license_limits", str(tmp_path / "licenses"))
    shared = read_rules(document.replace("/path/to/prod_version", str(tmp_path / "version"))).shared
    assert {name: resource.current_value for name, resource in shared.items()} == {
        "licenses": 998, "prodversion": "1.2.3",
    }  # fmt: skip


def test_the_page_lists_every_property_with_its_type() -> None:
    rows = re.findall(r"^- `node\.(\w+)` \((\w+)(, or null)?\)", PAGE, re.MULTILINE)
    assert {name: (kind, bool(null)) for name, kind, null in rows} == {
        name: (kind.type, kind.optional) for name, kind in PROPERTIES.items()
    }


@pytest.mark.parametrize("name", library.__all__)
def test_every_exported_name_of_the_library_exists(name: str) -> None:
    assert hasattr(library, name)


def test_a_bucket_provides_as_many_nodes_as_are_available() -> None:
    bucket = Bucket(BucketKey("Standard_F2", "execute", price_type=PriceType.SPOT), F2, available=2)
    found = match([JobDemand("j", (read_constraint('{"ncpus": 1, "node.spot": true}'),), 5)], [],
                  candidates_of([bucket], CPUS))  # fmt: skip
    assert (found.new, dict(found.unmatched)) == (("execute-1", "execute-2"), {"j": 1})


def test_a_bucket_with_a_problem_provides_none() -> None:
    bucket = Bucket(BucketKey("Standard_F2", "execute"), F2, available=2, problem="no quota")
    found = match([JobDemand("j")], [], candidates_of([bucket], CPUS))
    assert [part.reason.code for part in found.rejected] == [Code.NONE_LEFT]


def test_a_joined_worker_is_matched_by_its_free_resources() -> None:
    worker = Worker("i-1", F2, "execute", MachineState.RUNNING, 0.0, name="host1")
    joined = node_of(properties_of_worker(worker, now=60.0, boot_timeout=900.0), CPUS, {"ncpus": 8}, {"ncpus": 3})
    found = match([JobDemand("j", (read_constraint('{"ncpus": 1}'),), 5)], [joined])
    assert [(part.node, part.tasks) for part in found.matched] == [("host1", 3)]
