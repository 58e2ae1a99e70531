"""The command blocks of README, the pages for operators and the tutorials, with the marks that stand above them.

`<!-- run -->`, `<!-- run: fails -->`, `<!-- run in the background -->`, `<!-- run in the checkout -->`,
`<!-- run with the cloud played -->`, `<!-- run: WHERE -->` (by a test of RUN_ELSEWHERE) and `<!-- not run: WHY -->`
are for commands; `<!-- shown -->` and `<!-- shown within N s -->` for what the block before
prints. `python -m tests.page_blocks` writes tests/pages_not_run.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_RUN_PAGE = ROOT / "tests" / "pages_not_run.md"
PAGES = (
    Path("README.md"),
    *(Path(f"docs/operate/{name}.md") for name in ("install", "submission", "by-day", "at-night")),
    *sorted(path.relative_to(ROOT) for path in (ROOT / "docs" / "tutorials").glob("*.md")),
)
RUN = ("run", "run: fails", "run in the background", "run in the checkout", "run with the cloud played")
"""Marks of what tests/grid_engine/test_pages.py runs."""
RUN_ELSEWHERE = {
    "platform": Path("tests/grid_engine/test_platform_page.py"),
    "systemd": Path("tests/grid_engine/test_units.py"),
    "packages": Path("tests/dist/test_packages.py"),
}
"""Where blocks are run that need another world: WHERE → the test, which names the page."""
BY_HAND = "packages"
"""Run by `make dist-test` only."""
WHY_NOT: dict[str, str] = {}
"""Why a block is not run: WHY → a sentence."""
_BLOCK = re.compile(
    r"(?:^(?P<at> *)<!-- (?P<mark>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\+\d\d:\d\d| UTC)?"), "TIME"),
    (re.compile(r"\bi-[0-9a-f]{12,}|\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\bip-[0-9-]+"), "HOST"),
    (re.compile(r"\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b|\b\d+h(?:\d+m)?\b|\b\d+m\b"), "DURATION"),
    (re.compile(r"\bpass \d+"), "PASS"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    page: Path
    mark: str
    """The words of the comment above it; "" without one."""
    kind: str
    text: str

    @property
    def is_command(self) -> bool:
        return self.kind in ("sh", "bash", "console")

    @property
    def within(self) -> float:
        """Seconds in which the output must come."""
        found = re.fullmatch(r"shown(?: within (\d+) s)?", self.mark)
        assert found, self
        return float(found[1] or 0)


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer((ROOT / page).read_text("utf-8")):
        text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        yield Block(page, found["mark"] or "", found["kind"], text)


def differing(shown: str, came: str) -> str:
    """The first line of `shown` that `came` does not have after the ones before it; "" if it has all. A line may be
    part of one that came; times, ids, hosts, durations and blanks count alike, and `…` is any text.
    """
    lines = iter([plain(line) for line in came.splitlines()])
    for line in shown.splitlines():
        wanted = re.compile(".*".join(map(re.escape, plain(line).split("…"))))
        if not any(wanted.search(one) for one in lines):
            return line
    return ""


def plain(line: str) -> str:
    for pattern, word in _CHANGING:
        line = pattern.sub(word, line)
    return line.strip()


def elsewhere(where: str, page: Path) -> list[Block]:
    """The blocks of a page that a test of RUN_ELSEWHERE runs."""
    return [block for block in blocks(page) if block.mark == f"run: {where}"]


def not_run() -> str:
    """The list of the blocks that no test runs, or none of those that always run."""
    rows = []
    for block in (one for page in PAGES for one in blocks(page)):
        begins = block.text.splitlines()[0].partition("  #")[0].strip() if block.text else ""
        if block.mark == f"run: {BY_HAND}":
            rows.append(f"| {block.page} | `{begins}` | `make dist-test` runs it, in a fresh root |")
        elif block.mark.startswith("not run"):
            rows.append(f"| {block.page} | `{begins}` | {WHY_NOT[block.mark.removeprefix('not run: ')]} |")
    others = ", ".join(f"{path}" for where, path in RUN_ELSEWHERE.items() if where != BY_HAND)
    head = (
        "# Blocks of the pages that the tests of each change do not run\n\n"
        "<!-- Made by `python -m tests.page_blocks`. -->\n\n"
        "All other command blocks of these pages are run on a private cell, and what the page shows is compared with\n"
        f"what came: tests/grid_engine/test_pages.py, {others}.\n\n| page | begins | why |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    NOT_RUN_PAGE.write_text(not_run(), "utf-8")
