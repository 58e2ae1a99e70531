"""Grid Engine's XML as it really comes: almost XML.

Names hold control characters and bytes of any encoding, the declaration may say version 2.0, at least eight namespaces
exist (one with a raw newline in it), and a document may end in the middle. Whole documents are framed (right root, not
cut short); elements are parsed one at a time, so that one that cannot be understood spoils nothing but itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.errors import GridEngineNotObservable

_CONTROLS = bytes(sorted(set(range(32)) - {9, 10, 13}))
_DECLARATION = re.compile(rb"\s*<\?xml[^>]*\?>")
_LOOSE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
_FIRST_TAG = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_NAMED = 3
"""At most this many jobs are named for one cause."""
_OWN = re.compile(r"\d+|'[^']*'")
_TAG = re.compile(rb"</?([A-Za-z_][\w.:-]*)")
_ANYTHING = re.compile(rb"\S")


class Malformed(ValueError):
    """An element that cannot be understood: set aside, never the whole reading."""


class Aside:
    """Collects what was set aside. Past `limit` only the number grows: a listing in an unknown dialect is one problem,
    not 50,000. Waiting jobs are counted by cause.
    """

    def __init__(self, limit: int = 20) -> None:
        self._limit = limit
        self._reasons: list[Reason] = []
        self._more = 0
        self._jobs: dict[str, _Unread] = {}

    def put(self, what: str, why: object) -> None:
        if len(self._reasons) < self._limit:
            self._reasons.append(because(Code.IGNORED, what=what, why=str(why)))
        else:
            self._more += 1

    def put_jobs(self, why: object, job: str = "", count: int = 1) -> None:
        """Waiting jobs that cannot be read. `job`: its number, if that can be read. Causes that differ only in figures
        and quoted text are one cause, with the text of the first.
        """
        cause = _OWN.sub("", str(why))
        kind = cause if cause in self._jobs or len(self._jobs) < self._limit else ""
        unread = self._jobs.setdefault(kind, _Unread(str(why) if kind else "other causes"))
        unread.count += count
        if job:
            unread.jobs.append(job)

    @property
    def count(self) -> int:
        return len(self._reasons) + self._more + sum(unread.count for unread in self._jobs.values())

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The causes of most waiting jobs come first."""
        jobs = (unread.reason for unread in sorted(self._jobs.values(), key=lambda unread: -unread.count))
        more = (because(Code.IGNORED, what=f"{self._more} more", why="see the errors before"),) if self._more else ()
        return (*jobs, *self._reasons, *more)


@dataclass(slots=True)
class _Unread:
    """Waiting jobs that cannot be read for one cause."""

    why: str
    count: int = 0
    jobs: list[str] = field(default_factory=list)

    @property
    def reason(self) -> Reason:
        named = (*self.jobs[:_NAMED], *(("…",) if len(self.jobs) > _NAMED else ()))
        return because(Code.JOBS_NOT_READ, count=self.count, why=self.why, jobs=named)


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
    kept = clean(data)
    if b"<?xml" in kept:
        kept = _DECLARATION.sub(b"", kept, count=1)
    try:
        element = ElementTree.fromstring(kept)
    except ElementTree.ParseError:
        try:
            element = ElementTree.fromstring(_LOOSE_AMPERSAND.sub(b"&amp;", kept))
        except ElementTree.ParseError as error:
            raise Malformed(f"not well-formed: {error}") from None
    if b"xmlns" in kept or b"xml:" in kept:
        for part in element.iter():
            part.tag = part.tag.rpartition("}")[2]
    return element


def words(element: Element | None) -> str:
    """The text of an element, '' for one that is absent or empty."""
    text = None if element is None else element.text
    return text.strip() if text else ""


def document_in(data: bytes, root: bytes, command: str) -> bytes:
    """The document with this root, without text before and after it: some releases print warnings to standard output,
    `<` and `>` in them included. Raises GridEngineNotObservable if there is no whole one.
    """
    advice = f"nothing was decided; run `{command}` by hand on this host and examine its last lines and its errors"
    if _ANYTHING.search(data) is None:
        raise GridEngineNotObservable(f"`{command}` answered nothing at all (0 bytes of XML); {advice}")
    begin = _begin(data, root)
    if begin is None:
        first = _FIRST_TAG.search(data)
        if first is None:
            raise GridEngineNotObservable(f"`{command}` answered no XML but {_glimpse(data)}; {advice}")
        raise GridEngineNotObservable(
            f"`{command}` answered <{first[1].decode('latin-1')}> where <{root.decode()}> was expected; {advice}"
        )
    end = _end(data, root, begin)
    if end is None or _goes_on(data, begin, end):
        raise GridEngineNotObservable(
            f"`{command}` answered {len(data)} bytes that are cut short: they end in {_glimpse(data[-60:])}; {advice}"
        )
    if begin == 0 and not data[end:].strip():
        return data  # a copy of a large listing costs memory
    return data[begin:end]


def _begin(data: bytes, root: bytes) -> int | None:
    """Where the document begins: at a declaration that its root follows, else at the first root that begins a line."""
    tag = rb"<(?:[\w.-]+:)?%b(?=[\s/>])" % root
    for pattern in (rb"<\?xml\b[^<>]*\?>\s*" + tag, rb"(?m)^[ \t]*" + tag, tag):
        if found := re.search(pattern, data):
            return found.start()
    return None


def _end(data: bytes, root: bytes, begin: int) -> int | None:
    """The end of the last tag that closes such a root."""
    closing = re.compile(rb"</(?:[\w.-]+:)?%b\s*>|<(?:[\w.-]+:)?%b\b[^<>]*/>" % (root, root))
    at = len(data)
    while (at := data.rfind(root, begin, at)) >= 0:
        found = closing.match(data, max(data.rfind(b"<", begin, at), begin))
        if found:
            return found.end()
    return None


def _goes_on(data: bytes, begin: int, end: int) -> bool:
    """Whether the text behind that end belongs to the document: it has tags which the document has, too."""
    return any(_has(tag, data, begin, end) for tag in set(_TAG.findall(data, end)))


def is_foreign(data: bytes, begin: int, end: int) -> bool:
    """Whether a text is no part of the document, as a warning between its lines: it has no tag which the document has
    elsewhere.
    """
    tags = set(_TAG.findall(data, begin, end))
    return not any(_has(tag, data, 0, begin) or _has(tag, data, end, len(data)) for tag in tags)


def _has(tag: bytes, data: bytes, begin: int, end: int) -> bool:
    return re.compile(rb"</?%b[\s/>]" % re.escape(tag)).search(data, begin, end) is not None


def _glimpse(data: bytes) -> str:
    return repr(data[:4000].strip()[:60].decode("utf-8", "replace"))
