"""Back-quoted expressions as values of default resources, as in cyclecloud-scalelib: `node.vcpu_count - 1`.

scalelib runs them as Python; here they are only parsed. An expression begins with a number, property or resource of
the node and applies operators to it in their order, as `add`, `subtract` … of a default resource can. All else is
refused. As in scalelib, a number without unit that is added to or subtracted from a memory is bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from autoscaler.constraints.documents import wrong
from autoscaler.constraints.rule_words import NODE, RESOURCES
from autoscaler.core.constraints.default_resources import OfNode, OfResource, Operand, Operator
from autoscaler.core.constraints.values import is_number, read_size

QUOTE = "`"
LONGEST = 500
"""Letters of an expression."""
_OPERATORS: Mapping[type[ast.operator], Operator] = MappingProxyType(
    {
        ast.Add: Operator.ADD,
        ast.Sub: Operator.SUBTRACT,
        ast.Mult: Operator.MULTIPLY,
        ast.Div: Operator.DIVIDE,
        ast.FloorDiv: Operator.DIVIDE_FLOOR,
    }
)
Changes = tuple[tuple[Operator, Operand], ...]
Reader = Callable[[str | int | float, str], Operand]
"""Reads a value that is no expression; its second argument is the place."""


class _NotRead(Exception):
    """Default resources cannot express this expression."""


def is_back_quoted(value: object) -> bool:
    """Whether this is an expression, also if one of the quotes is missing."""
    return isinstance(value, str) and (value.startswith(QUOTE) or value.endswith(QUOTE))


def read_back_quoted(text: str, at: str, operand: Reader) -> tuple[Operand, Changes]:
    """The first value of the expression, and the changes to it in order.

    Raises SettingsError with the place and what to write instead.
    """
    if len(text) < len(QUOTE * 2) or not (text.startswith(QUOTE) and text.endswith(QUOTE)):
        wrong(at, f"a back-quote is missing: an expression stands between two, as in {QUOTE}node.vcpu_count{QUOTE}")
    try:
        if len(text) > LONGEST:
            raise _NotRead
        return _steps(ast.parse(text[1:-1].strip(), mode="eval").body, at, operand)
    except (_NotRead, SyntaxError, ValueError, RecursionError, MemoryError):
        shown = text if len(text) <= LONGEST else f"{text[:40]}…{QUOTE}"
        wrong(
            at,
            f"{shown} is not evaluated here; write a number or a property (node.vcpu_count) as value, and beside it "
            "add, subtract, multiply, divide or divide_floor in their order; or one entry for each VM size",
        )


def _steps(part: ast.expr, at: str, operand: Reader) -> tuple[Operand, Changes]:
    if not isinstance(part, ast.BinOp):
        return operand(_leaf(part), at), ()
    operator = _OPERATORS.get(type(part.op))
    if operator is None:
        raise _NotRead
    first, second = part.left, part.right
    if operator in (Operator.ADD, Operator.MULTIPLY) and isinstance(first, ast.Constant):
        first, second = second, first
    value, changes = _steps(first, at, operand)
    by = _size(operand(_leaf(second), at))
    if not (is_number(by) or isinstance(by, OfNode | OfResource)) or isinstance(value, str | bool):
        raise _NotRead
    if by == 0 and operator in (Operator.DIVIDE, Operator.DIVIDE_FLOOR):
        wrong(at, "nothing can be divided by 0")
    return value, (*changes, (operator, by))


def _leaf(part: ast.expr) -> str | int | float:
    """A number, or a property or resource as a document writes it."""
    match part:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.Attribute(ast.Name(id="node"), name):
            return NODE + name
        case ast.Attribute(ast.Attribute(ast.Name(id="node"), "resources"), name):
            return NODE + RESOURCES + name
        case ast.Subscript(
            ast.Attribute(ast.Name(id="node"), "resources"), ast.Constant(value=str() as name)
        ) | ast.Call(
            ast.Attribute(ast.Attribute(ast.Name(id="node"), "resources"), "get"),
            [ast.Constant(value=str() as name)],
            [],
        ):
            return NODE + RESOURCES + name
        case _:
            raise _NotRead


def _size(value: Operand) -> Operand:
    """The bytes of a size given as text: `node.memory - '1g'`."""
    if isinstance(value, str) and value[-1:].isalpha():
        with suppress(ValueError):
            return read_size(value)
    return value
