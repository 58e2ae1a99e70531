"""Requests and answers of the EC2 protocol, read and written by botocore's own description of the service.

A request is checked against that description before anything uses it: an unknown field, a missing one, a number
that is none or a word outside an enumeration is refused, so that a misunderstanding on our side cannot pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import ListShape, OperationModel, ServiceModel, Shape, StructureShape
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

Parameters = dict[str, Any]


class Invalid(Exception):
    """A request that the service's description does not allow. `code` is EC2's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@cache
def model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


def operation(name: str, service: str = "ec2") -> OperationModel:
    """Raises Invalid for one that the service does not have."""
    if name not in model(service).operation_names:
        raise Invalid("InvalidAction", f"The action {name} is not valid for this web service")
    return model(service).operation_model(name)


def parameters_of(name: str, body: bytes) -> Parameters:
    """The parameters of a form-encoded EC2 request. Raises Invalid."""
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    if form.pop("Version", None) != model("ec2").api_version:
        raise Invalid("InvalidRequest", "the request is of another version of the interface")
    form.pop("Action", None)
    shape = operation(name).input_shape
    assert isinstance(shape, StructureShape)
    tree: dict[str, Any] = {}
    for key, value in form.items():
        _put(tree, key.split("."), value)
    return checked(_structure(tree, shape, name), shape, name)


def checked(parameters: Parameters, shape: Shape, name: str) -> Parameters:
    """Raises Invalid where something required is missing, or of a wrong type or range."""
    report = ParamValidator().validate(parameters, shape)
    if report.has_errors():
        raise Invalid(
            "MissingParameter" if "Missing" in report.generate_report() else "InvalidParameterValue",
            f"{name}: {report.generate_report()}",
        )
    return parameters


def form_of(name: str, parameters: Parameters) -> bytes:
    """The request's body, as a client would write it."""
    request = create_serializer("ec2", include_validation=False).serialize_to_request(parameters, operation(name))
    return urlencode(request["body"]).encode()


def answer_of(name: str, status: int, body: bytes) -> Any:
    """What a client would understand of an answer."""
    shape = operation(name).output_shape
    assert shape is not None
    return create_parser("ec2").parse({"status_code": status, "headers": {}, "body": body}, shape)


def answer(name: str, values: Mapping[str, Any]) -> bytes:
    """An answer of `name`, by its output shape."""
    shape = operation(name).output_shape
    assert isinstance(shape, StructureShape)
    inner = "".join(_xml(values[key], member, key) for key, member in shape.members.items() if key in values)
    return f"<{name}Response><requestId>layer</requestId>{inner}</{name}Response>".encode()


def error(code: str, message: str) -> bytes:
    """EC2's form of an error."""
    inner = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    return f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>layer</RequestID></Response>".encode()


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise Invalid("UnknownParameter", f"{'.'.join(path)} is both a value and a structure")
    tree[path[-1]] = value


def _structure(tree: Mapping[str, Any], shape: StructureShape, where: str) -> Parameters:
    names = {_name(member, key): (key, member) for key, member in shape.members.items()}
    unknown = sorted(set(tree) - set(names))
    if unknown:
        raise Invalid("UnknownParameter", f"The parameter {where}.{unknown[0]} is not recognized")
    return {names[name][0]: _value(part, names[name][1], f"{where}.{name}") for name, part in tree.items()}


def _value(part: Any, shape: Shape, where: str) -> Any:
    if isinstance(shape, StructureShape):
        return _structure(_of(part, dict, where), shape, where)
    if isinstance(shape, ListShape):
        entries = _of(part, dict, where)
        if sorted(entries, key=lambda key: int(key) if key.isdigit() else -1) != [
            str(n + 1) for n in range(len(entries))
        ]:
            raise Invalid("InvalidParameterValue", f"{where} is no list numbered from 1: {sorted(entries)}")
        return [_value(entries[str(n + 1)], shape.member, f"{where}.{n + 1}") for n in range(len(entries))]
    return _scalar(_of(part, str, where), shape, where)


def _of(part: Any, kind: type, where: str) -> Any:
    if not isinstance(part, kind):
        raise Invalid("InvalidParameterValue", f"{where} is not of the form it must have")
    return part


def _scalar(text: str, shape: Shape, where: str) -> Any:
    match shape.type_name:
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case "integer" | "long" if re.fullmatch(r"-?\d+", text):
            return int(text)
        case "float" | "double":
            return float(text)
        case "timestamp":
            return datetime.fromisoformat(text)
        case "string" | "blob":
            allowed = shape.metadata.get("enum", ()) if shape.name != "InstanceType" else ()
            if allowed and text not in allowed:
                raise Invalid("InvalidParameterValue", f"{where} = {text!r} is none of {', '.join(allowed)}")
            return text
        case kind:
            raise Invalid("InvalidParameterValue", f"{where} = {text!r} is no {kind}")


def _name(shape: Shape, member: str) -> str:
    """The name in a request: `queryName`, else the location's name with a capital."""
    if "queryName" in shape.serialization:
        return str(shape.serialization["queryName"])
    name = str(shape.serialization.get("name", member))
    return name[0].upper() + name[1:]


def _xml(value: Any, shape: Shape, member: str) -> str:
    name = shape.serialization.get("name", member)
    if isinstance(shape, StructureShape):
        inner = "".join(
            _xml(value[key], each, key) for key, each in shape.members.items() if value.get(key) is not None
        )
    elif isinstance(shape, ListShape):
        inner = "".join(_xml(each, shape.member, "item").replace("<member>", "<item>") for each in value)
    elif isinstance(value, datetime):
        inner = value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    else:
        inner = str(value).lower() if isinstance(value, bool) else escape(str(value))
    return f"<{name}>{inner}</{name}>"
