"""Grid Engine's XML as it really comes: almost XML.

Names hold control characters and bytes of any encoding, the declaration may say version 2.0, at least eight
namespaces exist (one with a raw newline in it), and a document may end in the middle. Whole documents are framed
(right root, not cut short); elements are parsed one at a time, so that one that cannot be understood spoils nothing
but itself.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.errors import GridEngineNotObservable

_CONTROLS = bytes(sorted(set(range(32)) - {9, 10, 13}))
_DECLARATION = re.compile(rb"\s*<\?xml[^>]*\?>")
_LOOSE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
_FIRST_TAG = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_ANYTHING = re.compile(rb"\S")
_TAIL = 400
"""Bytes in which the end of a document must be found."""


class Malformed(ValueError):
    """An element that cannot be understood: set aside, never the whole reading."""


class Aside:
    """Collects what was set aside. Past `limit` only the number grows: a listing in an unknown dialect is one
    problem, not 50,000.
    """

    def __init__(self, limit: int = 20) -> None:
        self._limit = limit
        self._reasons: list[Reason] = []
        self._more = 0

    def put(self, what: str, why: object) -> None:
        if len(self._reasons) < self._limit:
            self._reasons.append(because(Code.IGNORED, what=what, why=str(why)))
        else:
            self._more += 1

    @property
    def count(self) -> int:
        return len(self._reasons) + self._more

    @property
    def reasons(self) -> tuple[Reason, ...]:
        if not self._more:
            return tuple(self._reasons)
        return (*self._reasons, because(Code.IGNORED, what=f"{self._more} more", why="see those before"))


def clean(data: bytes) -> bytes:
    """The same markup in characters that XML allows, as UTF-8. Bytes that are no UTF-8 are taken as Latin-1, so that
    none is lost.
    """
    kept = data.translate(None, _CONTROLS)
    try:
        kept.decode("utf-8")
    except UnicodeDecodeError:
        return kept.decode("latin-1").encode("utf-8")
    return kept


def parse(data: bytes) -> Element:
    """One element with its children, tags without namespaces. Raises Malformed."""
    kept = _DECLARATION.sub(b"", clean(data), count=1)
    try:
        element = ElementTree.fromstring(kept)
    except ElementTree.ParseError:
        try:
            element = ElementTree.fromstring(_LOOSE_AMPERSAND.sub(b"&amp;", kept))
        except ElementTree.ParseError as error:
            raise Malformed(f"not well-formed: {error}") from None
    for part in element.iter():
        part.tag = part.tag.rpartition("}")[2]
    return element


def words(element: Element | None) -> str:
    """The text of an element, '' for one that is absent or empty."""
    return "" if element is None or element.text is None else element.text.strip()


def require_document(data: bytes, root: bytes, command: str) -> None:
    """Raise GridEngineNotObservable unless `data` is a whole document with this root.

    Text before the root is let through: some releases print warnings to standard output first.
    """
    advice = f"nothing was decided on it; run `{command}` by hand on this host and look at its end and at its errors"
    if _ANYTHING.search(data) is None:
        raise GridEngineNotObservable(f"`{command}` answered nothing at all (0 bytes of XML); {advice}")
    first = _FIRST_TAG.search(data)
    if first is None:
        raise GridEngineNotObservable(f"`{command}` answered no XML but {_glimpse(data)}; {advice}")
    if first[1].rpartition(b":")[2] != root:
        raise GridEngineNotObservable(
            f"`{command}` answered <{first[1].decode('latin-1')}> where <{root.decode()}> was expected; {advice}"
        )
    if not re.search(rb"</(?:[\w.-]+:)?%b\s*>\s*\Z" % root, data[-_TAIL:]) and not re.search(
        rb"<(?:[\w.-]+:)?%b\b[^<>]*/>\s*\Z" % root, data[-_TAIL:]
    ):
        raise GridEngineNotObservable(
            f"`{command}` answered {len(data)} bytes that are cut short: they end in {_glimpse(data[-60:])}; {advice}"
        )


def _glimpse(data: bytes) -> str:
    return repr(data[:4000].strip()[:60].decode("utf-8", "replace"))
