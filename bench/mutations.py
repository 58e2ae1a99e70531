"""Small changes of a function's code (mutants), each of which some test should notice. Pure: text in, values out.

A mutant changes one place of one function: a comparison's boundary, `and`/`or`, `min`/`max`, plus/minus, a sign, a
number, a word, a condition, the order of two arguments; or it removes a statement, a part of a condition, a filter, the
last element of a list, a keyword argument, a sort, a `strip` or `lower`; a `with` without its context, an `except` that
catches nothing, a loop that never begins; or it returns None, or at once. Messages, log lines, annotations and code
outside of functions are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)

OPERATORS: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.FloorDiv: ast.Mult,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
ORDERS = {"sorted": "list", "reversed": "list", "abs": "float", "round": "float"}
CLEANS = frozenset({"casefold", "lower", "lstrip", "rstrip", "strip"})
"""Calls that are replaced by their argument, or by what they are called on."""
NOT_MUTATED = ("assert_never", "log.")
"""Calls that are not removed: they cannot be reached, or only report."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of the text of one file."""

    path: str
    line: int
    function: str
    """Qualified name of the outermost function around it."""
    before: str
    after: str
    """Source of the replaced code and of the new code, on one line."""
    number: int
    """Its number among the file's mutants, from 0."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The part that stays the same when lines elsewhere in the file move."""
        return self.path, self.function, self.before, self.after


@dataclass(frozen=True, slots=True)
class _Site:
    function: str
    owner: ast.AST
    field: str
    index: int | None
    node: ast.AST
    line: int

    def put(self, node: ast.AST) -> None:
        """Put this at the place."""
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of the file, in the order of its text. No two of them have the same key."""
    found: dict[tuple[str, str, str, str], Mutant] = {}
    for number, (site, new) in enumerate(_changes(ast.parse(source))):
        one = Mutant(path, site.line, site.function, _text(site.node), _text(new), number)
        found.setdefault(one.key, one)
    return list(found.values())


def mutated_code(mutant: Mutant, source: str, filename: str) -> CodeType:
    """The code of the mutant's function, as Python would have compiled it from the changed text.

    Raises SyntaxError if the changed text is no Python.
    """
    tree = ast.parse(source)
    site, new = next(change for number, change in enumerate(_changes(tree)) if number == mutant.number)
    site.put(new)
    return code_named(compile(ast.fix_missing_locations(tree), filename, "exec"), mutant.function)


def code_named(code: CodeType, qualified: str) -> CodeType:
    """The code of a function inside the code of a module; the last one of the name. Raises KeyError."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualified:
                return constant
            if qualified.startswith(f"{constant.co_qualname}."):
                return code_named(constant, qualified)
    raise KeyError(qualified)


def _changes(tree: ast.Module) -> Iterator[tuple[_Site, ast.AST]]:
    for name, function in _functions(tree, ""):
        for site in _sites(name, function):
            for new in _variants(site.node):
                yield site, ast.copy_location(new, site.node)
            if site.owner is function and site.index != len(function.body) - 1 and _is_first(site, function):
                yield site, ast.copy_location(ast.Return(), site.node)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _sites(name: str, function: Function) -> Iterator[_Site]:
    for index, statement in enumerate(function.body):
        yield from _within(_Site(name, function, "body", index, statement, statement.lineno))


def _is_first(site: _Site, function: Function) -> bool:
    return site.index == int(ast.get_docstring(function) is not None)


def _within(site: _Site) -> Iterator[_Site]:
    """The place itself and those inside it."""
    node = site.node
    if isinstance(node, ast.JoinedStr | ast.expr_context | ast.arguments) or _reports(node) or _explains(node):
        return
    yield site
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list"}:
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                place = index if isinstance(value, list) else None
                yield from _within(_Site(site.function, node, field, place, child, getattr(child, "lineno", site.line)))


def _reports(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(NOT_MUTATED)


def _explains(node: ast.AST) -> bool:
    """Whether it is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that may replace this one."""
    yield from _with_other_parts(node)
    yield from _without_a_part(node)
    if _can_go(node):
        yield ast.Pass()


def _with_other_parts(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                yield _changed(node, ops=[*ops[:index], OPERATORS[type(op)](), *ops[index + 1 :]])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield _changed(node, op=OPERATORS[type(op)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value and not any(map(str.isspace, value)):
            yield ast.Constant("")
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Call():
            yield from _calls(node)
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.UnaryOp):
            yield _changed(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension(ifs=[first, *rest]):
            yield _changed(node, ifs=[ast.UnaryOp(ast.Not(), first), *rest])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant) or value.value is not None:
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case _:
            pass


def _without_a_part(node: ast.AST) -> Iterator[ast.AST]:
    nothing = ast.Tuple([], ast.Load())
    match node:
        case ast.BoolOp(values=values):
            for index in range(len(values)):
                rest = [*values[:index], *values[index + 1 :]]
                yield _changed(node, values=rest) if rest[1:] else rest[0]
        case ast.comprehension(ifs=[_, *rest]):
            yield _changed(node, ifs=rest)
        case ast.List(elts=[*rest, _], ctx=ast.Load()) | ast.Set(elts=[*rest, _]) if rest:
            yield _changed(node, elts=rest)
        case ast.Dict(keys=[*keys, _], values=[*values, _]) if keys:
            yield _changed(node, keys=keys, values=values)
        case ast.With(body=body):
            yield ast.If(ast.Constant(True), body, [])
        case ast.ExceptHandler(type=ast.expr()):
            yield _changed(node, type=nothing)
        case ast.For():
            yield _changed(node, iter=nothing)
        case ast.match_case(guard=ast.expr()):
            yield _changed(node, guard=None)
        case _:
            pass


def _can_go(node: ast.AST) -> bool:
    """Whether the statement may be left out; without a local name's first value, any test would fail."""
    match node:
        case ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            return True
        case ast.Assign(targets=[target]):
            return isinstance(target, ast.Attribute | ast.Subscript)
        case _:
            return False


def _calls(call: ast.Call) -> Iterator[ast.expr]:
    match call:
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield _changed(call, func=ast.Name(NAMES[name], ast.Load()))
        case ast.Call(func=ast.Name(id=name), args=[_, *_]) if name in ORDERS:
            yield _changed(call, func=ast.Name(ORDERS[name], ast.Load()), args=call.args[:1], keywords=[])
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) if name in CLEANS:
            yield value
        case ast.Call(args=[first, second, *rest]) if not isinstance(first, ast.Starred):
            yield _changed(call, args=[second, first, *rest])
        case _:
            pass
    # A class mostly needs its keywords, and a test reads in the code whether a reason has its facts.
    name = ast.unparse(call.func).rpartition(".")[2]
    if name != "because" and not name[:1].isupper():
        for keyword in call.keywords:
            yield _changed(call, keywords=[other for other in call.keywords if other is not keyword])


def _changed(node: Node, **fields: object) -> Node:
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def _text(node: ast.AST) -> str:
    """Its source on one line; of a compound statement the first."""
    if isinstance(node, ast.comprehension):
        return ast.unparse(ast.ListComp(ast.Name("…"), [node]))
    return ast.unparse(node).strip().partition("\n")[0]
