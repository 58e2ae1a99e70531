"""Manual pages of section 7: the site's pages for job owners and operators, by Sphinx's own builder of manual pages.

installers/manual.py makes those of the commands (1) and of the settings (5), of the same texts as the site's reference.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from installers.sources import PROGRAM, ROOT, run

_ALSO = {
    "why-does-my-job-wait": "tutorials/why-does-my-job-wait.md",
    "first-worker": "tutorials/first-worker.md",
    "reasons": "reasons.md",
    "rules": "rules.md",
    "safety": "safety.md",
    "simulate": "simulate.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_TOO_LONG = re.compile(r"(?<!\S)[^\s.'][^\s]{44,}")
"""A word that may have no room in a line of 80, as the name of a test."""
_RAGGED = ".ad l\n.nh\n"
"""Names are neither stretched nor broken."""
_CONF = """project = "sge-autoscaler"
extensions = ["myst_parser"]
root_doc = "{first}"
suppress_warnings = ["toc.not_included", "epub.unknown_project_files"]
man_show_urls = True
man_pages = {pages!r}
"""


def manual_pages(tree: Path = ROOT) -> dict[str, Path]:
    """Name of a manual page → its page: all of docs/operate, and some."""
    docs = tree / "docs"
    found = {path.stem: path for path in sorted((docs / "operate").glob("*.md"))}
    found |= {name: docs / page for name, page in _ALSO.items()}
    return {f"{PROGRAM}-{name}": path for name, path in found.items()}


def lay_out(to: Path, tree: Path = ROOT) -> None:
    """A folder for `sphinx-build -b man`."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    pages = manual_pages(tree)
    names = {path.resolve(): name for name, path in pages.items()}
    for name, path in pages.items():
        (to / f"{name}.md").write_text(_text(path, names), encoding="utf-8")
    listed = [(name, name, _title(path), "", 7) for name, path in pages.items()]
    (to / "conf.py").write_text(_CONF.format(first=listed[0][0], pages=listed), encoding="utf-8")


def _text(page: Path, names: dict[Path, str]) -> str:
    """Without pictures and tables, for which a terminal has no room; a link to another manual page names that, one to
    another page of the site is its words.
    """

    def named(found: re.Match[str]) -> str:
        picture, words, target, _ = found.groups()
        if re.match(r"[a-z]+:", target):
            return found.group()
        name = names.get((page.parent / target).resolve())
        if picture or not name or not target:
            return "" if picture else words
        return f"{name}(7)" if words.endswith(".md") else f"{words} (see {name}(7))"

    parts = re.split(r"(^ *```.*?^ *```)", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    parts = [part.replace("\\\n  →", "\n\n  →") for part in parts]
    kept = (part for part in parts if not part.lstrip().startswith("```mermaid"))
    return "".join(
        part if part.lstrip().startswith("```") else _TABLE.sub(_listed, _LINK.sub(named, part)) for part in kept
    )


def _listed(table: re.Match[str]) -> str:
    """A table as a list: a row is an item, whose first cell leads."""
    heads, _, *rows = ([cell.strip() for cell in _CELL.split(line.strip()[1:-1])] for line in table[0].splitlines())
    lines = []
    for row in rows:
        named = [f"{head}: {cell}" if len(heads) > 2 and head else cell for head, cell in zip(heads, row, strict=True)]
        rest = "; ".join(cell for cell, plain in zip(named[1:], row[1:], strict=True) if plain)
        lines.append(f"- **{row[0]}**" + (f": {rest}" if rest else "") if row[0] else f"- {rest}")
    return "\n".join(lines) + "\n"


def _breakable(word: re.Match[str]) -> str:
    """With places where a line may end, which show nothing."""
    return re.sub(r"(?<=[a-z0-9])([/_:.=]+)(?=[A-Za-z0-9])", r"\1\\:", word[0])


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ").replace("`", "")


def build(to: Path, tree: Path, packages: Path, epoch: int) -> Path:
    """`packages`: a folder with what requirements/docs.txt pins. Returns the folder of the pages."""
    lay_out(to / "source", tree)
    environment = {"PYTHONPATH": str(packages), "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}
    options = ("-q", "-W", "--keep-going", "-E", "-b", "man", "-d", str(to / "doctrees"))
    shutil.rmtree(to / "pages", ignore_errors=True)
    run(sys.executable, "-P", "-m", "sphinx", *options, str(to / "source"), str(to / "pages"), env=environment)
    for page in (to / "pages").glob("*.7"):
        text = _TOO_LONG.sub(_breakable, page.read_text("utf-8").replace(".SH NAME", f"{_RAGGED}.SH NAME", 1))
        page.write_text(text, encoding="utf-8")
    return to / "pages"


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
