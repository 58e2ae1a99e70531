"""Pages of the reference that only the site has: each command in full, the REST API, the Python API."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import click

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.commands._reference import all_commands
from autoscaler.commands.main import NAME, cli
from autoscaler.report.pages import json_parts

PUBLIC = (
    ("Providers", "autoscaler.providers.interface"),
    ("The catalogue of a provider", "autoscaler.providers.catalog"),
    ("What every provider must pass", "autoscaler.providers.contract"),
    ("Strategies", "autoscaler.core.sizing.strategies"),
    ("Policies", "autoscaler.policies.interface"),
    ("Rules as a library", "autoscaler.constraints.library"),
)
"""What others write against: title, module."""
_METHODS = ("get", "post", "put", "delete")


def pages() -> dict[str, str]:
    """Path of a page → Markdown."""
    return {
        "docs/reference/commands.md": "\n".join(_commands()) + "\n",
        "docs/reference/json.md": "\n".join(json_parts()) + "\n",
        "docs/reference/rest.md": "\n".join(_rest(make_app(Api()).openapi())) + "\n",
        "docs/reference/python.md": "\n".join(_python()) + "\n",
    }


def _commands() -> Iterator[str]:
    yield "# Every command in full\n\nWhat `--help` prints."
    for name, command in all_commands(cli):
        context = click.Context(command, info_name=f"{NAME} {name}")
        yield f"\n## {name}\n\n```text\n{command.get_help(context)}\n```"


def _rest(described: dict[str, Any]) -> Iterator[str]:
    yield "# The REST API, call by call\n\nFrom its OpenAPI description, which `serve` gives at `/openapi.json`."
    yield "[How to use it](../rest.md)."
    for path, calls in described["paths"].items():
        for method in (one for one in _METHODS if one in calls):
            call = calls[method]
            yield f"\n## {method.upper()} {path}\n\n{call.get('description') or call.get('summary', '')}"
            if parameters := call.get("parameters"):
                yield "\n| parameter | in | type | |\n|---|---|---|---|"
                for each in parameters:
                    kind = _kind(each.get("schema", {}))
                    yield f"| `{each['name']}` | {each['in']} | {kind} | {_cell(each.get('description', ''))} |"
            for content in call.get("requestBody", {}).get("content", {}).values():
                yield f"\nBody: {_kind(content.get('schema', {}))}"
            yield "\n| answer | |\n|---|---|"
            for status, answer in call["responses"].items():
                yield f"| {status} | {_cell(answer.get('description', ''))} |"
    for name, schema in described.get("components", {}).get("schemas", {}).items():
        yield f"\n## {name}\n\n```json\n{json.dumps(schema, indent=2)}\n```"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    several = [_kind(one) for key in ("anyOf", "oneOf") for one in schema.get(key, ())]
    return " or ".join(several) if several else str(schema.get("type", "any"))


def _python() -> Iterator[str]:
    yield "# Python API\n\nWhat a provider, a strategy, a policy or a program of yours is written against. The"
    yield "docstrings are the contract; [extend](../extend.md) shows how to use them."
    for title, name in PUBLIC:
        module = importlib.import_module(name)
        yield f"\n## {title}: `{name}`\n\n{_doc(module)}"
        for member, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if member.startswith("_") or not own or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            yield f"\n### {member}\n\n```python\n{_signature(member, value)}\n```\n\n{_doc(value)}"
            for method, function in vars(value).items() if inspect.isclass(value) else ():
                function = getattr(function, "__func__", function)
                if not method.startswith("_") and inspect.isfunction(function) and function.__doc__:
                    yield f"\n```python\n{_signature(method, function)}\n```\n\n{_doc(function)}"


def _signature(name: str, value: Any) -> str:
    word = "class" if inspect.isclass(value) else "def"
    try:
        shape = str(inspect.signature(value))
    except (TypeError, ValueError):
        shape = ""
    return f"{word} {name}{'' if word == 'class' and ('*args' in shape or 'value' in shape) else shape}: ..."


def _doc(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
