"""`python -m bench.changed`: the unit tests of changed files, for `make quick`.

Changed files are git's since a commit, including files that it does not know yet; by default those that are not
committed, and if there are none, those of the last commit. A changed module of the core has all tests of the core and
all cases, any other module the tests that import it, or else those that import any of its package. Tests on a real
cell, campaigns and random histories are left to `make test`.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
CORE = ("tests/core", "tests/cases", "tests/test_imports.py")
DOCS = "tests/test_docs.py"
LINKED = ("providers", "sge")
LONG = ("tests/grid_engine", "tests/soak", "tests/dist", "tests/properties", "tests/clouds", "tests/simulated")
"""Not for a loop of seconds: a real cell, campaigns, packages, random histories, and modules that only help those."""


def changed_since(commit: str) -> list[str]:
    """Paths below the project's root, as git knows them. `commit` "": see the module."""
    new = _git("ls-files", "--others", "--exclude-standard")
    if commit:
        return [*_git("diff", "--name-only", commit), *new]
    return [*_git("diff", "--name-only", "HEAD"), *new] or _git("show", "--format=", "--name-only", "HEAD")


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.splitlines()


def select_tests(changed: Iterable[str], imports: dict[str, set[str]]) -> list[str]:
    """Files and folders to give to pytest. `imports`: test file → modules that it imports."""
    found: set[str] = set()
    for path in changed:
        parts = PurePath(path).parts
        module = module_of(path)
        match parts:
            case ("autoscaler", "core", *_):
                found.update(CORE)
            case ("tests", "cases" | "core", *_):
                found.add(f"tests/{parts[1]}")
            case ("tests", *_) if PurePath(path).match("test_*.py") and not path.startswith(LONG[:3]):
                found.add(path)
            case (*_, name) if name.endswith(".py"):
                direct = {test for test, imported in imports.items() if module in imported}
                found |= direct or tests_of_package(module.rpartition(".")[0], imports)
            case (*_, name) if name.endswith(".md") or name == "Makefile":
                found.add(DOCS)
            case _:
                pass
    return sorted(path for path in found or set(CORE) if (ROOT / path).exists() and not _is_within(path, found))


def module_of(path: str) -> str:
    """The name by which a file is imported: two folders are linked into `autoscaler`."""
    name = ".".join(PurePath(path).with_suffix("").parts).removesuffix(".__init__")
    return f"autoscaler.{name}" if name.partition(".")[0] in LINKED else name


def tests_of_package(package: str, imports: dict[str, set[str]]) -> set[str]:
    """Tests that import any module of the package."""
    return {
        test for test, imported in imports.items() if package and any(one.startswith(f"{package}.") for one in imported)
    }


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def imports_of_tests() -> dict[str, set[str]]:
    """Every unit test → its imports, as modules and as names in them; also through helpers of tests."""
    named = {file.relative_to(ROOT).as_posix(): file for file in (ROOT / "tests").rglob("*.py")}
    imported = {name: _imported(file) for name, file in sorted(named.items())}
    modules = {name.removesuffix(".py").replace("/", "."): name for name in imported}
    tests = (name for name in imported if PurePath(name).match("test_*.py") and not name.startswith(LONG))
    return {name: _with_helpers(name, imported, modules) for name in tests}


def _with_helpers(test: str, imported: dict[str, set[str]], modules: dict[str, str]) -> set[str]:
    found: set[str] = set()
    left = [test]
    while left:
        new = imported[left.pop()] - found
        found |= new
        left += [modules[module] for module in new if module in modules]
    return found


def _imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{alias.name}" for alias in names)}
            case _:
                pass
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tests, one a line."""
    about = (__doc__ or "").partition(": ")[2].partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m bench.changed", description=about)
    parser.add_argument("--since", default="", metavar="COMMIT", help="default: changes that are not committed")
    print("\n".join(select_tests(changed_since(parser.parse_args(arguments).since), imports_of_tests())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
