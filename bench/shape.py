"""`python -m bench.shape`: the size of the product, the imports between its packages, and its longest functions.

Counts the modules of `autoscaler`, `sge` and `providers` without importing them: a module that cannot be imported is
measured like any other. Modules directly in a package count under its name.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.changed import module_of

ROOT = Path(__file__).parents[1]
PRODUCT = ("autoscaler", "sge", "providers")
ROWS = 5
_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True, slots=True)
class Part:
    """What belongs together, wherever it is in the layers."""

    title: str
    budget: int
    """Lines of code that the team allows it. A part beyond it is looked at: is there a second thing in it, a table
    hidden in classes, a library for it? Then the part shrinks, or the budget grows with a reason in the commit.
    """
    packages: tuple[str, ...]
    """Packages and modules with all below them. Of several that a module is in, the longest name counts."""


PARTS = (
    Part("kernel: decides and acts", 20_000, ("autoscaler.core", "autoscaler.engine")),
    Part(
        "what to buy: sizes, strategies, packing, estimates",
        1_700,
        ("autoscaler.core.sizing", "autoscaler.core.packing", "autoscaler.core.estimates"),
    ),
    Part(
        "Grid Engine", 5_400, ("autoscaler.sge", "autoscaler.munge", "autoscaler.hosts_file", "autoscaler.hosts_helper")
    ),
    Part("providers", 6_300, ("autoscaler.providers",)),
    Part(
        "CycleCloud: its API, rules, requests, jetpack",
        8_700,
        (
            *(
                "autoscaler.providers.cyclecloud",
                "autoscaler.api",
                "autoscaler.constraints",
                "autoscaler.core.constraints",
            ),
            *("autoscaler.core.requests", "autoscaler.jetpack", "autoscaler.jetpack_fallback", "autoscaler.policies"),
            *("autoscaler.worker_configuration", "autoscaler.report.requests", "autoscaler.report.rules"),
            *("autoscaler.store.requests", "autoscaler.store.nodes", "autoscaler.store.array_definitions"),
            *("autoscaler.store.node_operations", "autoscaler.store.auto_stops", "autoscaler.store.calls"),
        ),
    ),
    Part(
        "cost and history",
        3_500,
        (
            *("autoscaler.core.cost", "autoscaler.core.events", "autoscaler.engine.cost_keeper"),
            *("autoscaler.engine.event_keeper", "autoscaler.engine.monitor", "autoscaler.engine.meter"),
            *("autoscaler.engine.spending", "autoscaler.report.bill", "autoscaler.report.cost"),
            *("autoscaler.report.events", "autoscaler.report.history", "autoscaler.report.job_cost"),
            *("autoscaler.report.metrics", "autoscaler.report.reconcile", "autoscaler.report.passes"),
            *("autoscaler.store.accounting_index", "autoscaler.store.events", "autoscaler.store.history"),
            *("autoscaler.store.measures", "autoscaler.store.samples", "autoscaler.store.usages"),
        ),
    ),
    Part("service and page: commands, settings, store, report", 16_000, ("autoscaler",)),
    Part("lab and simulation", 2_900, ("autoscaler.lab", "autoscaler.simulation")),
    Part("policy search", 1_000, ("autoscaler.simulation.sweep", "autoscaler.commands.sweep")),
)


@dataclass(frozen=True, slots=True)
class Function:
    module: str
    name: str
    lines: int
    parameters: int
    """Of any kind, `self` and `cls` left out."""


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    """Dotted; a package's `__init__` has the package's name."""
    is_package: bool
    lines: int
    code: int
    """Lines that hold a statement: no docstring, comment, import or empty line."""
    imports: frozenset[str]
    """Dotted names, of modules or of names in them. Imports for type checking count, too."""
    functions: tuple[Function, ...]

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


def measure(root: Path, packages: Iterable[str] = PRODUCT) -> list[Module]:
    """Every module below these packages, in the order of their names."""
    files = sorted(file for package in packages for file in (root / package).rglob("*.py"))
    return [read_module(file.relative_to(root), file.read_text(encoding="utf-8")) for file in files]


def read_module(path: Path, source: str) -> Module:
    """`path`: below the project's root."""
    is_package = path.name == "__init__.py"
    name = module_of(path.as_posix())
    tree = ast.parse(source)
    imports: set[str] = set()
    functions = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imports |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                imports |= {f"{module}.{alias.name}" for alias in names}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append(Function(name, node.name, lines, parameters_of(node.args)))
            case _:
                pass
    return Module(
        name, is_package, len(source.splitlines()), code_lines(source, tree), frozenset(imports), tuple(functions)
    )


def code_lines(source: str, tree: ast.Module) -> int:
    """The number of lines of `source` without docstrings, comments, imports and empty lines. The lines inside a string
    that is a value count.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for one in tokens if one.type not in _NO_CODE for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    return len(lines)


def parameters_of(arguments: ast.arguments) -> int:
    positional = [*arguments.posonlyargs, *arguments.args]
    own = positional[1:] if positional and positional[0].arg in ("self", "cls") else positional
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return len(own) + len(arguments.kwonlyargs) + len(rest)


def imports_between(modules: Sequence[Module], place: Mapping[str, str]) -> dict[str, set[str]]:
    """Place → places that it imports from; `place` names the place (itself, its package) of each module."""
    found: dict[str, set[str]] = {name: set() for name in place.values()}
    for module in modules:
        for imported in module.imports:
            # `from package import name` names a module of the package or something in its `__init__`.
            target = place.get(imported) or place.get(imported.rpartition(".")[0])
            if target is not None and target != place[module.name]:
                found[place[module.name]].add(target)
    return found


def cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of places that reach each other, the largest first."""
    reached = {place: _reached_from(place, imports) for place in imports}
    groups = {frozenset(other for other in reached[place] if place in reached[other]) for place in imports}
    return sorted((sorted(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _reached_from(place: str, imports: Mapping[str, set[str]]) -> set[str]:
    found, left = {place}, [place]
    while left:
        new = imports.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def cycles_of_packages(modules: Sequence[Module]) -> list[list[str]]:
    """Among the packages of the core. Its modules outside a package (plan, policy, snapshot) are places of their own,
    as in the contract of the core's layers.
    """
    core = [module for module in modules if module.name.startswith("autoscaler.core.")]
    place = {one.name: ".".join(one.name.split(".")[:3]) for one in core}
    return cycles(imports_between(core, place))


def cycles_of_modules(modules: Sequence[Module]) -> list[list[str]]:
    return cycles(imports_between(modules, {module.name: module.name for module in modules}))


def report(modules: Sequence[Module]) -> list[str]:
    """The lines that the command prints."""
    filled = sorted(module.lines for module in modules if module.lines > 1)
    functions = [function for module in modules for function in module.functions]
    return [
        f"{len(modules)} files, {sum(module.lines for module in modules)} lines, "
        f"{sum(module.code for module in modules)} of them code (no docstrings, comments, imports, empty lines)",
        f"lines of a file (those of one line left out): median {statistics.median(filled):g}, "
        f"p90 {filled[int(0.9 * len(filled))]}, max {filled[-1]}",
        "lines of code by part",
        *_part_lines(modules),
        *_cycle_lines("packages of the core", cycles_of_packages(modules)),
        *_cycle_lines("modules", cycles_of_modules(modules)),
        "largest packages",
        *_largest_packages(modules),
        "largest packages of the core",
        *_largest_packages([module for module in modules if module.package.startswith("autoscaler.core")]),
        "longest files",
        *(f"{one.lines:7} lines  {one.name}" for one in sorted(modules, key=lambda one: -one.lines)[:ROWS]),
        "longest functions",
        *(
            f"{one.lines:7} lines  {one.module}.{one.name}"
            for one in sorted(functions, key=lambda one: -one.lines)[:ROWS]
        ),
        "most parameters",
        *(
            f"{one.parameters:7}  {one.module}.{one.name}"
            for one in sorted(functions, key=lambda one: -one.parameters)[:ROWS]
        ),
    ]


def part_of(module: str) -> Part:
    """The part of a module of the product."""
    of_packages = {package: part for part in PARTS for package in part.packages}
    return of_packages[max((name for name in of_packages if f"{module}.".startswith(f"{name}.")), key=len)]


def code_of_parts(modules: Sequence[Module]) -> dict[Part, int]:
    found = dict.fromkeys(PARTS, 0)
    for module in modules:
        found[part_of(module.name)] += module.code
    return found


def _part_lines(modules: Sequence[Module]) -> Iterator[str]:
    for part, code in code_of_parts(modules).items():
        beyond = f", {code - part.budget} beyond it" if code > part.budget else ""
        yield f"{code:7} of {part.budget:6}  {part.title}{beyond}"


def _cycle_lines(what: str, found: Sequence[Sequence[str]]) -> list[str]:
    return [f"import cycles of {what}: {len(found)}", *(f"{len(group):7}  {', '.join(group)}" for group in found)]


def _largest_packages(modules: Sequence[Module]) -> list[str]:
    packages: dict[str, list[int]] = defaultdict(list)
    for module in modules:
        packages[module.package].append(module.lines)
    largest = sorted(packages.items(), key=lambda item: -sum(item[1]))[:ROWS]
    return [f"{sum(lines):7} lines, {len(lines)} files  {name}" for name, lines in largest]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. Returns 1 if packages of the core, or any modules, import each other in a circle."""
    about = (__doc__ or "").partition(": ")[2].partition("\n")[0]
    argparse.ArgumentParser(prog="python -m bench.shape", description=about).parse_args(arguments)
    modules = measure(ROOT)
    print("\n".join(report(modules)))
    return int(bool(cycles_of_packages(modules) or cycles_of_modules(modules)))


if __name__ == "__main__":
    sys.exit(main())
