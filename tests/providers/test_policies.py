"""The permissions that we ask operators for are compared with every call that the code can make, both ways.

That the permissions are those of the calls, tests/providers/aws/test_policy.py and tests/providers/azure/test_check.py
show on a played cloud, which refuses what is not allowed. Here the code itself is read: the permission of a call that
those tests never make would not be checked.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.cyclecloud.provider import VERBS
from tests.clouds.played import Region
from tests.providers.aws.test_policy import statements
from tests.providers.azure.conftest import region
from tests.providers.azure.test_check import test_the_roles_allow_exactly_the_actions_that_are_used as the_roles

__all__ = ["region"]
ROOT = Path(__file__).parents[2]
PROVIDERS = ROOT / "providers"


def trees(provider: str) -> Iterator[ast.AST]:
    for path in sorted((PROVIDERS / provider).glob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def calls_of(provider: str, *methods: str) -> list[ast.Call]:
    """Every call of a method of one of these names."""
    nodes = (node for tree in trees(provider) for node in ast.walk(tree))
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in methods]


# -- AWS ---------------------------------------------------------------------------------------------------------------

ON_THE_WAY = {"ec2:CreateTags", "iam:PassRole"}
"""Permissions that AWS requires for a call of another name."""
NAMED_OTHERWISE = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}


def services_and_operations() -> Iterator[tuple[str, str]]:
    for call in calls_of("aws", "ask", "pages"):
        place = ast.unparse(call)
        if not call.args or ast.unparse(call.args[0]) == "operation":  # `Calls` itself hands it on
            continue
        operation = call.args[0]
        assert isinstance(operation, ast.Constant), f"{place}: which operation it calls cannot be read"
        services = [each.value for each in call.keywords if each.arg == "service"]
        assert all(isinstance(each, ast.Constant) for each in services), f"{place}: nor which service"
        yield str(getattr(services[0], "value", "")) if services else "ec2", str(operation.value)


def permissions_of_aws() -> set[str]:
    """Of every operation that the code names, as botocore spells it."""
    session = botocore.session.get_session()
    found = set()
    for service, operation in services_and_operations():
        names = {xform_name(name): name for name in session.get_service_model(service).operation_names}
        called = f"{service}:{names[operation]}"
        found.add(NAMED_OTHERWISE.get(called, called))
    return found


def test_the_code_uses_exactly_the_permissions_of_the_aws_policy() -> None:
    needed = permissions_of_aws()
    assert len(needed) > 15
    assert needed | ON_THE_WAY == {action for action, _ in statements()}


def test_only_calls_py_uses_clients_of_aws() -> None:
    """Otherwise a call could be made whose name is not found above."""
    clients = re.compile(r"\.client\(|_client\(|\.resource\(|get_paginator|get_waiter")
    found = {path.name for path in (PROVIDERS / "aws").glob("*.py") if clients.search(path.read_text(encoding="utf-8"))}
    assert found == {"calls.py"}


# -- CycleCloud --------------------------------------------------------------------------------------------------------

CYCLECLOUD = ROOT / "docs" / "operate" / "cyclecloud.md"


def rest_calls() -> set[tuple[str, str]]:
    """Method and path of every call in the code, with `…` for what varies."""
    found = set()
    for call in calls_of("cyclecloud", "ask"):
        if ast.unparse(call.func) != "self.rest.ask":
            continue
        method, path = call.args
        assert isinstance(method, ast.Constant), ast.unparse(call)
        found.add((str(method.value), _shown(path)))
    return found


def _shown(path: ast.expr) -> str:
    if isinstance(path, ast.Constant):
        return f"/{path.value!s}"
    assert isinstance(path, ast.JoinedStr), ast.unparse(path)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else _PARTS[_inner(part)] for part in path.values)


def _inner(part: ast.expr) -> str:
    assert isinstance(part, ast.FormattedValue), ast.unparse(part)
    return ast.unparse(part.value)


_PARTS = {"self._path": "/clusters/CLUSTER", "segment(verb)": "VERB"}


def verbs() -> set[str]:
    """Operations on nodes: verbs in the code, and those that an action may name."""
    found = set(VERBS)
    for call in calls_of("cyclecloud", "manage", "_manage"):
        if isinstance(call.args[0], ast.Constant):
            found.add(str(call.args[0].value))
        else:
            assert ast.unparse(call.args[0]) == "verb", ast.unparse(call)  # handed on; `operate` takes VERBS only
    return found


def test_the_page_of_cyclecloud_lists_exactly_the_calls_of_the_code() -> None:
    called = {f"{method} {path}" for method, path in rest_calls()}
    made = {each.replace("VERB", verb) for each in called for verb in verbs()}
    section = (
        CYCLECLOUD.read_text(encoding="utf-8").partition("## What its user must be allowed")[2].partition("\n## ")[0]
    )
    assert set(re.findall(r"^\| `([A-Z]+ [^`]+)` \|", section, re.M)) == made
    assert len(made) > 8


def listed(provider: str) -> set[str]:
    """The calls of the file for administrators who automate."""
    document = json.loads((ROOT / "conf" / provider / "calls.json").read_text("utf-8"))
    assert all(each["for"] for each in document["calls"])
    return {f"{each['method']} {each['path']}" for each in document["calls"]}


def test_the_file_of_calls_of_cyclecloud_is_that_of_the_code() -> None:
    called = {f"{method} {path}" for method, path in rest_calls()}
    assert listed("cyclecloud") == {each.replace("VERB", verb) for each in called for verb in verbs()}


# -- Cloud Pipeline ----------------------------------------------------------------------------------------------------

OF_METHODS = {"get": "GET", "post": "POST", "pages": "POST"}


def calls_to_the_platform() -> Iterator[str]:
    """Method and path of every call to `api`, also where the path is a variable of its function."""
    yield "GET user/token"  # by `Api` itself
    for path in sorted((PROVIDERS / "cloud_pipeline").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            named = dict(_assigned(function))
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and re.fullmatch(
                    r"(?:self\.)?_?api\.(?:get|post|pages)", ast.unparse(node.func)
                ):
                    assert isinstance(node.func, ast.Attribute)
                    where = node.args[0]
                    yield f"{OF_METHODS[node.func.attr]} {_platform_path(named.get(ast.unparse(where), where))}"


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Variables with what they are set to, also several in one line."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            match node.targets[0], node.value:
                case ast.Tuple(elts=names), ast.Tuple(elts=values):
                    yield from zip(map(ast.unparse, names), values, strict=True)
                case name, value:
                    yield ast.unparse(name), value


def _platform_path(where: ast.expr) -> str:
    match where:
        case ast.Constant(value=str(path)):
            return path
        case ast.JoinedStr(values=[ast.Constant(value=str(path)), _]):
            return f"{path}NAME"
        case ast.Call(func=ast.Name(id="run_path"), args=[ast.Constant(value=str(first)), _]):
            return f"run/{first}/RUN"
        case ast.Call(func=ast.Name(id="run_path"), args=[_, *rest]):
            return "/".join(("run", "RUN", *(str(ast.literal_eval(each)) for each in rest)))
        case _:
            raise AssertionError(ast.unparse(where))


def test_the_file_of_calls_of_cloud_pipeline_is_that_of_the_code() -> None:
    assert listed("cloud_pipeline") == set(calls_to_the_platform())


# -- Azure -------------------------------------------------------------------------------------------------------------

BY_PATH = ("get", "exists", "listed", "put", "get_pages")
"""Methods of `Calls` that are given a path of Resource Manager."""


def sites() -> set[tuple[str, int, int]]:
    """File, first and last line of every place in the code that sends something to Azure."""
    found = set()
    for path in sorted((PROVIDERS / "azure").glob("*.py")):
        if path.name != "calls.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    holder = ast.unparse(node.func.value)
                    if holder.endswith("calls") and node.func.attr in (*BY_PATH, "ask", "pages"):
                        found.add((path.name, node.lineno, node.end_lineno or node.lineno))
    return found


def test_the_test_of_the_azure_roles_executes_every_call_to_azure(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roles hold what that test used. A call that it never makes could need more."""
    executed: set[tuple[str, int]] = set()

    def recording(plain: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            executed.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
            return plain(*given, **named)

        return recorded

    for name in (*BY_PATH, "ask", "pages"):
        monkeypatch.setattr(Calls, name, recording(getattr(Calls, name)))
    the_roles(region)
    missed = {
        (file, first)
        for file, first, last in sites()
        if not any(where == file and first <= line <= last for where, line in executed)
    }
    assert len(sites()) > 10
    assert missed == set()
