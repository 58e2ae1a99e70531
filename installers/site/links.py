"""`make links`: whether the links of the pages to other sites still lead somewhere. It asks each site, so it is no part
of `make docs`; tests/test_links.py looks at the form of every link without a network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
MOST = 8_000_000
"""Bytes of a page that are read for its anchors."""
WRONG, UNREACHED = 1, 3
_LINK = re.compile(r"\]\((https?:[^)\s]*)\)|<(https?:[^>\s]*)>")
_CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Answer:
    url: str
    problem: str = ""
    """What is wrong with the link; '': nothing, as far as was seen."""
    reached: bool = True


def links(root: Path = ROOT) -> dict[str, list[str]]:
    """URL → pages of the repository that lead there."""
    listed = subprocess.run(
        ("git", "ls-files", "*.md"), cwd=root, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    found: dict[str, list[str]] = {}
    for name in listed:
        if (root / name).exists():
            for url in links_of((root / name).read_text("utf-8")):
                found.setdefault(url, []).append(name)
    return found


def links_of(text: str) -> Iterator[str]:
    """Code is no link."""
    for found in _LINK.finditer(_CODE.sub(" ", text)):
        yield found[1] or found[2]


def misshapen(url: str) -> str:
    """What is wrong with a link by its form alone; '': nothing."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        return "is not https"
    if "." not in host or parts.username or parts.port:
        return "names no public host"
    if re.search(r"(^|\.)(example\.(org|com|net)|localhost|invalid|test)$", host):
        return "leads to an example"
    return "ends in punctuation" if url[-1] in ".,;:" else ""


def ask(url: str, patience: float = PATIENCE) -> Answer:
    """One GET, after redirections."""
    page, _, anchor = url.partition("#")
    request = Request(page, headers={"User-Agent": "Mozilla/5.0 (check of links)", "Accept": "text/html,*/*"})
    try:
        with urlopen(request, timeout=patience) as answer:
            text = answer.read(MOST).decode("utf-8", "replace") if anchor else ""
    except HTTPError as error:
        return Answer(url, f"answers {error.code} {error.reason}" if error.code in (404, 410) else "", error.code < 500)
    except (OSError, ValueError):
        return Answer(url, reached=False)
    if anchor and not _has(text, anchor):
        return Answer(url, f"has no part #{anchor}")
    return Answer(url)


def _has(text: str, anchor: str) -> bool:
    """GitHub writes `user-content-` before the anchors of what it shows."""
    return any(
        unescape(name).removeprefix("user-content-") == anchor
        for name in re.findall(r"""\b(?:id|name)\s*=\s*["']?([^"'\s>]+)""", text)
    )


def told(answers: Iterable[Answer], pages: dict[str, list[str]]) -> Iterator[str]:
    for each in answers:
        what = each.problem or ("" if each.reached else "was not reached")
        if what:
            yield f"{', '.join(pages[each.url])}: {each.url} {what}"


def main() -> int:
    pages = links()
    answers = [Answer(url, problem) for url in sorted(pages) if (problem := misshapen(url))]
    with ThreadPoolExecutor(8) as pool:
        answers += pool.map(ask, sorted(set(pages) - {each.url for each in answers}))
    for line in told(answers, pages):
        sys.stderr.write(f"links: {line}\n")
    away = sum(not each.reached for each in answers)
    sys.stdout.write(f"{len(answers)} links to other sites, {away} of them not reached\n")
    if any(each.problem for each in answers):
        return WRONG
    return UNREACHED if away else 0


if __name__ == "__main__":
    sys.exit(main())
