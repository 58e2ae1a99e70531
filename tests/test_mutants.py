"""`make mutants` reports which small changes the tests notice, and never writes a file of the product."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.mutants import relevant_tests
from bench.mutants_file import Package, Survivors
from bench.mutations import Mutant, mutants_of
from tests.deadlines import stretched

ROOT = Path(__file__).parents[1]
PLANTED = '''"""Planted."""

def noticed(x: int) -> int:
    return x + 1

def not_noticed(x: int) -> int:
    return x + 1

def not_called(x: int) -> int:
    return x + 1

def endless(x: int) -> int:
    while x > 0:
        x -= 1
    return x

def makes(y: int):
    def inside(x: int) -> int:
        return x + y
    return inside

made = makes(1)
'''
TESTS = """
from planted import endless, made, noticed, not_noticed

def test_noticed():
    assert noticed(1) == 2

def test_not_noticed():
    not_noticed(1)

def test_endless():
    assert endless(1) == 0

def test_of_a_function_that_was_made_before_any_test():
    assert made(1) == 2

def test_that_fails_anyway():
    assert not_noticed(1) == 3
"""
NONE = {"return None"}
RUN = """
import json, sys
from pathlib import Path
from bench import mutants
mutants.LEAST_SECONDS = float(sys.argv.pop())
root = Path.cwd()
planted = [one for one in mutants.mutants_of("planted.py", (root / "planted.py").read_text()) if one.after in sys.argv]
found = mutants.sample(planted, ["test_planted.py"], root=root, minutes=5)
print(json.dumps({f"{one.function}: {one.after}": noticed for one, noticed in found.items()}))
"""


@pytest.mark.thorough
def test_noticed_and_surviving_mutants_are_distinguished(tmp_path: Path) -> None:
    files = {"planted.py": PLANTED, "test_planted.py": TESTS, "pytest.ini": "[pytest]\nmarkers =\n  cell\n  slow\n"}
    files["conftest.py"] = "import gc\n\ndef pytest_collection_finish():\n    gc.freeze()\n"  # like ours
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    argv = (sys.executable, "-B", "-c", RUN, "x - 1", "x += 1", "x - y", str(stretched(5.0)))
    env = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "noticed: x - 1": True,
        "not_noticed: x - 1": False,
        "not_called: x - 1": False,
        "endless: x += 1": True,
        "makes: x - y": True,
    }, ran.stderr
    assert {name: (tmp_path / name).read_text() for name in files} == files, "only memory is changed"
    assert "left out, for it fails without any change: test_planted.py::test_that_fails_anyway" in ran.stderr


@pytest.mark.parametrize(
    ("body", "changes"),
    (
        ("return a < b", {"a <= b", "return None"}),
        ("return a is None and b", {"a is not None", "a is None or b", "a is None", "b", "return None"}),
        ("return a or b or c", {"a and b and c", "b or c", "a or c", "a or b", "return None"}),
        ("return -a", {"a", "return None"}),
        (
            "return f(a, x='key', y='words of a message')",
            {"f(a, y='words of a message')", "f(a, x='key')", "''"} | NONE,
        ),
        ("return Made(x=a) or because(x=a)", {"Made(x=a) and because(x=a)", "Made(x=a)", "because(x=a)"} | NONE),
        ("return sorted(a, key=b)", {"list(a)", "sorted(a)", "return None"}),
        ("return a.strip()", {"a", "return None"}),
        ("return [a, b]", {"[a]", "return None"}),
        ("return {'': a, b: c}", {"{'': a}", "return None"}),
        ("with a:\n        yield b", {"if True:", "pass"}),
        ("try:\n        f()\n    except a:\n        g()", {"pass", "except ():"}),
        ("for x in a:\n        f(x)", {"for x in ():", "pass"}),
        ("match a:\n        case x if x:\n            f()", {"case x:", "pass"}),
        ("return max(a, b)", {"min(a, b)", "return None"}),
        ("return f(a, b)", {"f(b, a)", "return None"}),
        ("return replace(a, x=1)", {"replace(a)", "2", "return None"}),
        ("return [x for x in a if x]", {"[… for x in a if not x]", "[… for x in a]", "return None"}),
        ("a.b = 1\nreturn not b", {"return", "pass", "2", "b", "return None"}),
        ("while a:\n        continue", {"while not a:", "break"}),
        ("log.info('%s', a)", set()),
        ("raise ValueError(f'{1 + a}')", {"pass"}),
    ),
)
def test_the_mutants_of_a_function_are_as_expected(body: str, changes: set[str]) -> None:
    source = "def f(a: int = 1, b: int = 2) -> int:\n    " + body.replace("\nreturn", "\n    return")
    assert {one.after for one in mutants_of("f.py", source)} == changes


def mutant(name: str, line: int = 1) -> Mutant:
    return Mutant("core/f.py", line, "f", "a < b", name, 0)


def test_a_survivor_stays_in_the_file_until_a_test_notices_it(tmp_path: Path) -> None:
    file, listed = tmp_path / "survivors.md", Survivors()
    listed.packages["core"] = Package(10, 7, 1)
    listed.update({mutant("a <= b"): False, mutant("a > b"): False, mutant("a | `b`"): False, mutant("pass"): True})
    file.write_text(listed.text())
    lines = file.read_text().splitlines()
    file.write_text("\n".join(f"{line}: they are never equal" if "a <= b" in line else line for line in lines))
    again = Survivors.read(file)
    assert (len(again.open), again.equivalent) == (2, {mutant("a <= b").key: (1, "they are never equal")})
    again.update({mutant("a <= b", 9): False, mutant("a > b"): True})
    assert set(again.open) == {mutant("a | `b`").key}
    assert again.equivalent == {mutant("a <= b").key: (9, "they are never equal")}
    assert "| core | 10 | 7 | 1 | 78% |" in again.text()


def test_survivors_of_deleted_code_leave_the_file(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/f.py").write_text("def f(a, b):\n    return a < b\n")
    listed = Survivors(packages={"core": Package(10, 7, 1), "gone": Package(9, 9, 0)})
    listed.update({mutant("a <= b", 7): False, mutant("a != b"): False, replace(mutant("pass"), path="gone.py"): False})
    listed.equivalent = {("core/f.py", "f", "return a < b", "return None"): (2, "nobody looks"),
                         ("core/f.py", "g", "return a < b", "return None"): (2, "nobody looks")}  # fmt: skip
    listed.leave_out_gone(tmp_path)
    assert set(listed.open) == {mutant("a <= b").key}
    assert set(listed.equivalent) == {("core/f.py", "f", "return a < b", "return None")}
    assert set(listed.packages) == {"core"}


def test_an_invalid_line_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "survivors.md").write_text("- core/f.py is fine\n")
    with pytest.raises(ValueError, match=r"not a mutant: - core/f.py is fine"):
        Survivors.read(tmp_path / "survivors.md")


def test_the_committed_file_can_be_read() -> None:
    assert Survivors.read(ROOT / "tests/mutants/survivors.md").packages


def test_the_tests_of_a_module_and_its_package_are_selected() -> None:
    found = relevant_tests(["autoscaler/store/history.py", "autoscaler/core/outcome/sample.py"])
    assert {"tests/core", "tests/store/test_store.py", "tests/store/test_samples.py"} <= set(found)
    assert not any(test.startswith("tests/core/") for test in found)
