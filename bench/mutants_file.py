"""The file of mutants that survive: read before a run of `bench.mutants`, written after it, edited in between."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.mutations import Mutant, mutants_of

Key = tuple[str, str, str, str]

LINE = re.compile(r"- `(?P<path>\S+?):(?P<line>\d+)` (?P<function>\S+): `` (?P<before>.*?) `` → `` (?P<after>.*?) ``"
                  r"(?:: (?P<reason>.+))?$")  # fmt: skip
ROW = re.compile(r"\| (?P<package>\S+) \| (?P<tried>\d+) \| (?P<noticed>\d+) \| (?P<equivalent>\d+) \|")
ABOUT = """\
# Mutants that survive

`make mutants` changes the code in small ways and runs the fast tests (`bench/mutants.py`). Here is what none noticed.
A survivor is killed by a test, or it is equivalent: no test could tell it from the code. Then move its line to the end
and write the reason after a colon. Every run of a package tries its survivors again and writes this file anew.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """The last sample of one folder."""

    tried: int
    noticed: int
    equivalent: int

    @property
    def score(self) -> float:
        """The share of mutants that were noticed, without equivalent ones."""
        return self.noticed / max(1, self.tried - self.equivalent)


@dataclass
class Survivors:
    """By key, which does not change when lines move; with each its line in the file and the reason, if any."""

    open: dict[Key, int] = field(default_factory=dict)
    equivalent: dict[Key, tuple[int, str]] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Survivors:
        """Empty if there is no file. Raises ValueError for a line of another form."""
        found = cls()
        for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            if row := ROW.match(text):
                found.packages[row["package"]] = Package(int(row["tried"]), int(row["noticed"]), int(row["equivalent"]))
            if not text.startswith("- "):
                continue
            if not (line := LINE.match(text)):
                raise ValueError(f"{file}: not a mutant: {text}")
            key = (line["path"], line["function"], line["before"], line["after"])
            if line["reason"]:
                found.equivalent[key] = int(line["line"]), line["reason"]
            else:
                found.open[key] = int(line["line"])
        return found

    def leave_out_gone(self, root: Path) -> None:
        """Drop entries whose place is gone: mutants of files and lines that went or changed, empty packages."""
        files = {key[0]: root / key[0] for key in (*self.open, *self.equivalent)}
        texts = {path: file.read_text(encoding="utf-8") for path, file in files.items() if file.exists()}
        there = {mutant.key for path, text in texts.items() for mutant in mutants_of(path, text)}
        self.open = {key: line for key, line in self.open.items() if key in there}
        self.equivalent = {key: why for key, why in self.equivalent.items() if key in there}
        self.packages = {package: of for package, of in self.packages.items() if any((root / package).glob("*.py"))}

    def update(self, noticed: Mapping[Mutant, bool]) -> None:
        """Add a run's results."""
        for mutant, was_noticed in noticed.items():
            self.open.pop(mutant.key, None)
            if was_noticed:
                self.equivalent.pop(mutant.key, None)
            elif mutant.key in self.equivalent:
                self.equivalent[mutant.key] = mutant.line, self.equivalent[mutant.key][1]
            else:
                self.open[mutant.key] = mutant.line

    def table(self) -> str:
        """Figures of the packages."""
        rows = [
            f"| {package} | {of.tried} | {of.noticed} | {of.equivalent} | {of.score:.0%} |"
            for package, of in sorted(self.packages.items())
        ]
        tried, noticed, equal = (
            sum(getattr(of, name) for of in self.packages.values()) for name in ("tried", "noticed", "equivalent")
        )
        rows.append(f"| all packages | {tried} | {noticed} | {equal} | {Package(tried, noticed, equal).score:.0%} |")
        return "\n".join(("| package | tried | noticed | equivalent | score |", "|---|---|---|---|---|", *rows))

    def text(self) -> str:
        """The file."""
        left = [_line(key, line) for key, line in sorted(self.open.items())]
        same = [f"{_line(key, line)}: {reason}" for key, (line, reason) in sorted(self.equivalent.items())]
        parts = (ABOUT, self.table(), "\n## Survivors\n", *left, "\n## Equivalent\n", *same)
        return "\n".join(parts).rstrip() + "\n"


def _line(key: Key, line: int) -> str:
    path, function, before, after = key
    return f"- `{path}:{line}` {function}: `` {before} `` → `` {after} ``"
