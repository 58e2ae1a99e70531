"""`make docs`: lay out the pages below build/docs/source, for Sphinx.

The pages of the checkout stay as they are and where they are, so that links between them lead to the same files on the
site, in an editor and where the repository is shown. Besides: the reference made of the code, and the order of the
site's menu, which is that of docs/index.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from installers.site import drawings, reference

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_DIAGRAM = re.compile(r"```mermaid\n.*?```", re.DOTALL)
_ALSO = ("docs/reference/commands", "docs/reference/json", "docs/reference/python", "docs/reference/rest")


def lay_out(to: Path) -> None:
    """Every page, with the files that it shows or links to."""
    shutil.rmtree(to, ignore_errors=True)
    listed = subprocess.run(
        ("git", "ls-files", "*.md"), cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    for name in listed.stdout.split():
        if (ROOT / name).exists():
            _write(to / name, _page(name, (ROOT / name).read_text("utf-8"), to))
    for name, text in reference.pages().items():
        _write(to / name, text)
    index = to / "docs" / "index.md"
    _write(index, index.read_text("utf-8") + "".join(_menu(index.read_text("utf-8"))))
    decisions = to / "docs" / "decisions" / "README.md"
    _write(decisions, decisions.read_text("utf-8") + "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n")
    for name in ("conf.py", "words.txt"):
        shutil.copyfile(ROOT / "docs" / name, to / "docs" / name)


def _page(name: str, text: str, to: Path) -> str:
    """As Sphinx reads it: diagrams are drawings, what is linked is beside it, and a folder is no link."""
    text = _DIAGRAM.sub("![Phases of a worker](drawings/phases.svg)", text)

    def linked(found: re.Match[str]) -> str:
        _, words, target, _ = found.groups()
        if re.match(r"[a-z]+:", target):
            return found.group()
        file = (ROOT / name).parent / target
        if file.is_dir():
            return words
        relative = file.resolve().relative_to(ROOT)
        if file.is_file() and file.suffix != ".md":
            (to / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / relative)
        return found.group()

    parts = re.split(r"(^ *```.*?^ *```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if at % 2 else _LINK.sub(linked, part) for at, part in enumerate(parts))


def _menu(index: str) -> Iterator[str]:
    """A tree of contents for each section, of the pages that it links to."""
    seen = set[str]()
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        pages = [link.removesuffix(".md") for _, _, link, _ in _LINK.findall(section) if link.endswith(".md")]
        new = list(dict.fromkeys(page for page in pages if page not in seen))
        seen.update(new)
        if title == "Look something up":
            new += [page.removeprefix("docs/") for page in _ALSO]
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(new) + "\n```\n"
    yield "\n```{toctree}\n:hidden:\n:glob:\n\n../README\n../tests/**\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def main(to: Path) -> int:
    for path in drawings.stale():
        sys.stderr.write(f"{path} is out of date: run `python -m installers.site.drawings`\n")
        return 1
    lay_out(to / "source")
    entry = '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">sge-autoscaler</a>\n'
    _write(to / "html" / "index.html", entry)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
