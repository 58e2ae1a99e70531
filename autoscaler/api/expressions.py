"""Filter expressions over node records, as `NodeManagementRequest.filter` takes them: `State === "Started" && …`.

Comparisons `===`, `=!=`, `==`, `!=`, `<`, `<=`, `>`, `>=` of a record's name with a text, number, `true`, `false` or
`undefined`; a name alone, which holds if its value is true; `&&`, `||`, `!` and parentheses. `===` compares exactly,
`==` regardless of case. A comparison of greater or less with what is undefined or of another kind matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.api.models import Conflict, NodeManagementRequest
from autoscaler.api.records import node_record
from autoscaler.api.view import Node, View
from autoscaler.core.model.cluster import short_name

Matches = Callable[[Mapping[str, Any]], bool]
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<name>[A-Za-z_][\w.]*)'
    r"|(?P<sign>===|=!=|==|!=|<=|>=|<|>|&&|\|\||!|\(|\)))"
)
_COMPARES = frozenset({"===", "=!=", "==", "!=", "<", "<=", ">", ">="})
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "undefined": None}
_DEEPEST = 50


class InvalidExpression(ValueError):
    """The text is not a valid expression; the message says where."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def expression(text: str) -> Matches:
    """The test that an expression stands for. Raises InvalidExpression."""
    reader = _Reader(_tokens(text))
    matches = reader.disjunction(0)
    reader.end()
    return matches


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidExpression(f"{text[at:].strip()[:20]} at character {at + 1} is not valid")
        found.append(_Token(str(match.lastgroup), match[str(match.lastgroup)], match.start(str(match.lastgroup)) + 1))
        at = match.end()
    return found


class _Reader:
    """A recursive-descent parser; each method reads one level of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def disjunction(self, depth: int) -> Matches:
        if depth > _DEEPEST:
            raise InvalidExpression("it is nested too deeply")
        parts = [self._conjunction(depth)]
        while self._take("||"):
            parts.append(self._conjunction(depth))
        return lambda record: any(part(record) for part in parts)

    def _conjunction(self, depth: int) -> Matches:
        parts = [self._term(depth)]
        while self._take("&&"):
            parts.append(self._term(depth))
        return lambda record: all(part(record) for part in parts)

    def _term(self, depth: int) -> Matches:
        if self._take("!"):
            if depth > _DEEPEST:
                raise InvalidExpression("it is nested too deeply")
            inner = self._term(depth + 1)
            return lambda record: not inner(record)
        if self._take("("):
            inner = self.disjunction(depth + 1)
            if not self._take(")"):
                raise InvalidExpression("a parenthesis is not closed")
            return inner
        left = self._operand()
        sign = self._peek()
        if sign is None or sign.text not in _COMPARES or sign.kind != "sign":
            return lambda record: left(record) is True
        self._next += 1
        right = self._operand()
        return lambda record: _holds(left(record), sign.text, right(record))

    def _operand(self) -> Callable[[Mapping[str, Any]], Any]:
        token = self._peek()
        if token is None or token.kind == "sign":
            where = f"{token.text!r} at character {token.at}" if token else "the end"
            raise InvalidExpression(f"a name or a value is missing before {where}")
        self._next += 1
        if token.kind == "text":
            text = re.sub(r"\\(.)", r"\1", token.text[1:-1])
            return lambda _: text
        if token.kind == "number":
            number = float(token.text)
            return lambda _: number
        if token.text.lower() in _WORDS:
            word = _WORDS[token.text.lower()]
            return lambda _: word
        return lambda record: _value(record, token.text)

    def end(self) -> None:
        token = self._peek()
        if token is not None:
            raise InvalidExpression(f"{token.text!r} at character {token.at} is unexpected")

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, sign: str) -> bool:
        token = self._peek()
        taken = token is not None and (token.kind, token.text) == ("sign", sign)
        self._next += taken
        return taken


def _value(record: Mapping[str, Any], name: str) -> Any:
    """A record's value by name, in any case; `A.B` looks into the object `A`. None: undefined."""
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = next((each for key, each in value.items() if key.lower() == part.lower()), None)
    return value


def _holds(left: Any, sign: str, right: Any) -> bool:
    match sign:
        case "===":
            return _same(left, right)
        case "=!=":
            return not _same(left, right)
        case "==":
            return _same(_folded(left), _folded(right))
        case "!=":
            return not _same(_folded(left), _folded(right))
        case _:
            return _compares(_folded(left), sign, _folded(right))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _compares(left: Any, sign: str, right: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])


def selected(view: View, request: NodeManagementRequest) -> list[Node]:
    """The union of what a request's selectors name, in the order of the listing. Raises Conflict without a selector."""
    selectors = (request.ids, request.names, request.hostnames, request.ip_addresses, request.filter)
    if all(selector is None for selector in selectors):
        raise Conflict("no node is named: give ids, names, hostnames, ip_addresses or filter")
    try:
        matches = expression(request.filter) if request.filter is not None else None
    except InvalidExpression as error:
        raise Conflict(f"filter: {error}") from error
    ids, names = frozenset(request.ids or ()), frozenset(request.names or ())
    hosts = frozenset(short_name(host) for host in request.hostnames or ())
    addresses = frozenset(request.ip_addresses or ())

    def meant(node: Node) -> bool:
        worker = node.seen.worker if node.seen else None
        host = (node.seen.host or node.seen.worker.name) if node.seen else None
        return (
            node.id in ids
            or node.name in names
            or (host is not None and short_name(host) in hosts)
            or (worker is not None and worker.address is not None and worker.address in addresses)
            or (matches is not None and matches(node_record(view, node)))
        )

    return [node for node in view.nodes if meant(node)]
