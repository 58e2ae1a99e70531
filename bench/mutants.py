"""`make mutants`: which small changes of the code do the fast tests notice? A seeded sample a package, in bounded time.

pytest collects the tests that `bench.changed` finds for the chosen files, once. One run of them, without a change,
records which test calls which function. Then every mutant has a forked process of its own, in which the function's code
is exchanged in memory and only those tests run, up to the first that fails. No file of the product is ever written, so
an interrupted run leaves nothing changed. A mutant that runs into its time limit counts as noticed.

Survivors are written to tests/mutants/survivors.md, and every later run of their package tries them again. A person
moves a line to the equivalent ones there, with the reason; such a line stays while the code does, and does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from types import CodeType, FrameType, FunctionType

import pytest

from bench.changed import CORE, imports_of_tests, module_of, select_tests, tests_of_package
from bench.mutants_file import Package, Survivors
from bench.mutations import Mutant, code_named, mutants_of, mutated_code

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "autoscaler/api", "autoscaler/core", "autoscaler/engine", "autoscaler/report", "autoscaler/store",
    "autoscaler/terminal", "providers", "sge",
)  # fmt: skip
SURVIVORS = ROOT / "tests/mutants/survivors.md"
LEAST_SECONDS, MEMORY = 10.0, 4 << 30
"""Limits of a mutant's process: the shortest time limit in seconds, and the most bytes."""


def package_of(path: str) -> str:
    """The folder of a file, for which figures are reported."""
    return str(PurePath(path).parent)


def choose(packages: Iterable[str], *, count: int, seed: int, listed: Survivors) -> list[Mutant]:
    """`count` mutants of each package below one of `packages`, and earlier survivors there; each package in turn."""
    found: dict[str, list[Mutant]] = defaultdict(list)
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if path.startswith(tuple(packages)):
            found[package_of(path)] += mutants_of(path, file.read_text(encoding="utf-8"))
    columns = []
    for package, mutants in found.items():
        old = [mutant for mutant in mutants if mutant.key in listed.open]
        drawn = random.Random(f"{seed} {package}").sample(mutants, min(count, len(mutants)))
        columns.append(old + [mutant for mutant in drawn if mutant not in old])
    most = max(map(len, columns), default=0)
    return [column[place] for place in range(most) for column in columns if place < len(column)]


def relevant_tests(paths: Iterable[str]) -> list[str]:
    """Tests that may notice a change of these files: those of `make quick`, and all tests of the same package."""
    imports = imports_of_tests()
    found = set(select_tests(paths, imports))
    for path in paths:
        module = module_of(path)
        found |= {test for test, imported in imports.items() if module in imported}
        if not path.startswith("autoscaler/core/"):
            found |= tests_of_package(module.rpartition(".")[0], imports)
    return sorted(test for test in found if test in CORE or not test.startswith(tuple(f"{one}/" for one in CORE)))


class Sampler:
    """A pytest plugin: instead of running all tests once it runs, for each mutant, those that call its function."""

    def __init__(self, mutants: Sequence[Mutant], *, root: Path, until: float, report: Callable[[str], None]) -> None:
        self.mutants = mutants
        self._root, self._until, self._report = root, until, report
        self.noticed: dict[Mutant, bool] = {}
        """Without those that were not tried in time, and those that Python does not accept."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Takes the place of pytest's own loop."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        gc.unfreeze()  # frozen objects are not found
        functions = {mutant: _functions_of(self._root / mutant.path, mutant.function) for mutant in self.mutants}
        if missing := sorted({mutant.path for mutant, found in functions.items() if not found}):
            raise RuntimeError(f"no test imports {', '.join(missing)}: nothing of it can be exchanged")
        calls = _Calls.recorded(session.items, {id(f.__code__) for found in functions.values() for f in found})
        for failed in calls.failed:
            self._report(f"left out, for it fails without any change: {session.items[failed].nodeid}")
        for number, mutant in enumerate(self.mutants, 1):
            if time.monotonic() > self._until:
                self._report(f"out of time: {len(self.mutants) - number + 1} mutants were not tried")
                break
            self._try(mutant, functions[mutant], calls, session.items)
        return True

    def _try(self, mutant: Mutant, functions: list[FunctionType], calls: _Calls, items: list[pytest.Item]) -> None:
        file = self._root / mutant.path
        try:
            code = mutated_code(mutant, file.read_text(encoding="utf-8"), str(file))
        except SyntaxError:
            return
        instead = {function: _code_at(code, function.__code__) for function in functions}
        if any(new and len(new.co_freevars) != len(function.__code__.co_freevars) for function, new in instead.items()):
            return  # Python accepts no code for a function that uses other variables from around it
        wanted = {number for f in functions for number in calls.of.get(id(f.__code__), ())}
        limit = max(LEAST_SECONDS, 3 * sum(calls.seconds[number] for number in wanted))
        tests = [items[number] for number in sorted(wanted, key=lambda number: calls.seconds[number])]

        def run() -> bool:
            for function, new in instead.items():
                function.__code__ = new or function.__code__
            return _all_pass(tests)

        self.noticed[mutant] = bool(tests) and not _forked(run, limit)
        if not self.noticed[mutant]:
            self._report(f"survives {len(tests)} tests: {mutant.path}:{mutant.line} {mutant.before} → {mutant.after}")


class _Calls:
    """Which test calls which function, by the tests' numbers and the `id` of code."""

    def __init__(self) -> None:
        self.of: dict[int, list[int]] = defaultdict(list)
        self.seconds: dict[int, float] = {}
        self.failed: list[int] = []

    @classmethod
    def recorded(cls, items: Sequence[pytest.Item], codes: set[int]) -> _Calls:
        """Runs all tests in a process of its own."""
        calls = cls()
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "calls.json"

            def run() -> bool:
                with file.open("w", encoding="utf-8") as out:
                    for number, called, seconds, passed in _traced(items, codes):
                        out.write(json.dumps([number, called, seconds, passed]) + "\n")
                return True

            if not _forked(run, limit=3600):
                raise RuntimeError("the tests could not be run without a change; run them with pytest first")
            for number, called, seconds, passed in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
                calls.seconds[number] = seconds
                if not passed:
                    calls.failed.append(number)
                for code in called if passed else ():
                    calls.of[code].append(number)
        return calls


def _traced(items: Sequence[pytest.Item], codes: set[int]) -> Iterator[tuple[int, list[int], float, bool]]:
    called: set[int] = set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        if id(frame.f_code) in codes:
            called.add(id(frame.f_code))

    for number, item in enumerate(items):
        called.clear()
        began = time.monotonic()
        threading.settrace(trace)
        sys.settrace(trace)
        passed = _all_pass([item], items[number + 1 : number + 2])
        sys.settrace(None)
        yield number, sorted(called), time.monotonic() - began, passed


def _all_pass(items: Sequence[pytest.Item], then: Sequence[pytest.Item] = ()) -> bool:
    """Whether all pass; stops at the first that fails. `then`: the test after them, for their shared fixtures."""
    failed: list[str] = []

    class Watch:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            failed.extend([report.nodeid] if report.failed else [])

    watch = Watch()
    for item, following in zip(items, [*items[1:], *then, None], strict=False):
        item.config.pluginmanager.register(watch)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item.config.pluginmanager.unregister(watch)
        if failed:
            return False
    return True


def _functions_of(file: Path, name: str) -> list[FunctionType]:
    """The function objects of a file's function and of those inside it: none if no test imports the file."""
    module = compile(file.read_text(encoding="utf-8"), str(file), "exec")
    wanted = {_place(code) for code in _codes_in(code_named(module, name))}
    return [one for one in gc.get_objects() if isinstance(one, FunctionType) and _place(one.__code__) in wanted]


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """The function's code and that of each function inside it. No lambdas: several may stand on one line."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
            yield from _codes_in(inner)


def _code_at(code: CodeType, before: CodeType) -> CodeType | None:
    """The code that replaces it; None if the change removed it."""
    return next((one for one in _codes_in(code) if _place(one) == _place(before)), None)


@functools.cache
def _real(path: str) -> str:
    """Two folders are imported through links."""
    return os.path.realpath(path)


def _place(code: CodeType) -> tuple[str, str, int]:
    return _real(code.co_filename), code.co_qualname, code.co_firstlineno


def _forked(run: Callable[[], bool], limit: float) -> bool:
    """The result of `run` in a process of its own; False if that died or took longer than `limit` seconds."""
    child = os.fork()
    if child == 0:
        passed = False
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            passed = run()
        finally:
            os._exit(0 if passed else 1)
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    deadline, status = time.monotonic() + limit, None
    while status is None and time.monotonic() < deadline:
        ended, result = os.waitpid(child, os.WNOHANG)
        if ended:
            status = result
        else:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):  # also processes that the tests started
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    return status == 0


def sample(mutants: Sequence[Mutant], tests: Sequence[str], *, root: Path, minutes: float) -> dict[Mutant, bool]:
    """Mutant → whether a test noticed it. `tests`: files and folders for pytest. Call it once a process."""
    until = time.monotonic() + 60 * minutes
    plugin = Sampler(mutants, root=root, until=until, report=lambda text: print(text, file=sys.__stderr__, flush=True))
    options = ("-q", "-m", "not cell and not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys")
    if pytest.main([*options, *tests], plugins=[plugin]) not in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        raise RuntimeError("the tests could not be collected; pytest says why above")
    return plugin.noticed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the packages and write the survivors."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "packages", nargs="*", default=FOLDERS, help=f"paths below the root; default: {' '.join(FOLDERS)}"
    )
    parser.add_argument("--count", type=int, default=10, help="mutants a package; 0: only what survived before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--tests", nargs="+", help="only these; default: all that import a changed module")
    given = parser.parse_args(arguments)
    listed = Survivors.read(SURVIVORS)
    listed.leave_out_gone(ROOT)
    mutants = choose(given.packages, count=given.count, seed=given.seed, listed=listed)
    tests = given.tests or relevant_tests({mutant.path for mutant in mutants})
    noticed = sample(mutants, tests, root=ROOT, minutes=given.minutes)
    listed.update(noticed)
    if given.count:
        for package in sorted({package_of(mutant.path) for mutant in noticed}):
            of_package = {mutant: killed for mutant, killed in noticed.items() if package_of(mutant.path) == package}
            equivalent = sum(mutant.key in listed.equivalent for mutant in of_package)
            listed.packages[package] = Package(len(of_package), sum(of_package.values()), equivalent)
    SURVIVORS.write_text(listed.text(), encoding="utf-8")
    print(listed.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
