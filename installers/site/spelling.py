"""Spelling of the pages, by a dictionary of American English, its British forms, and the words of docs/words.txt.

Run as `python installers/site/spelling.py FOLDER`, with the packages of requirements/docs.txt. Code is not read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_CODE = re.compile(
    r"^ *```.*?^ *```|^(?: {4}[^\n]*\n)+|``(?!`)[^\n]*?``|`[^`]*`|<!--.*?-->|\]\([^)]*\)|<[^>]*>|https?:\S+",
    re.M | re.S,
)
_WORD = re.compile(r"(?<![\w./_=@~$-])[A-Za-z][a-z]++(?:'[a-z]++)?(?![A-Za-z_0-9.]*[0-9_]|\.[a-z])")
_BRITISH = (("isation", "ization"), ("ise", "ize"), ("ising", "izing"), ("yse", "yze"), ("our", "or"), ("ll", "l"),
            ("tre", "ter"), ("ogue", "og"), ("ence", "ense"))  # fmt: skip


def unknown(text: str, known: frozenset[str], dictionary: object) -> Iterator[str]:
    """Words of prose that neither the dictionary nor `known` has."""
    look_up = dictionary.lookup  # type: ignore[attr-defined]
    for word in sorted(set(_WORD.findall(_CODE.sub(" ", text)))):
        plain = word.removesuffix("'s")
        forms = {plain, plain.lower()}
        forms |= {form.replace(ours, theirs) for form in forms for ours, theirs in _BRITISH}
        if not (forms & known or any(look_up(form) for form in forms)):
            yield word


def main(folder: Path) -> int:
    from spylls.hunspell import Dictionary  # type: ignore[import-not-found]

    dictionary = Dictionary.from_files("en_US")
    known = frozenset((folder / "docs" / "words.txt").read_text("utf-8").split())
    wrong = [
        f"{path.relative_to(folder)}: {word}"
        for path in sorted(folder.rglob("*.md"))
        if "decisions" not in path.parts
        for word in unknown(path.read_text("utf-8"), known, dictionary)
    ]
    for line in wrong:
        sys.stderr.write(f"spelling: {line}\n")
    if wrong:
        sys.stderr.write("a word that is right belongs into docs/words.txt, or into backquotes if it is code\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
