"""Other people's text made safe to show: control characters that a terminal or a log would obey are escaped.

A job's owner chooses its name and its requests, and so may put a line's end or an escape sequence there. All text for
people goes through here: log, terminal, a job's context, mail, the journal of calls.
"""

from __future__ import annotations

import re

_CONTROL = "\x00-\x1f\x7f-\x9f"
_LINES = "\u2028\u2029"
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Text after these characters is shown in another order than it is written."""
_UNPAIRED = "\ud800-\udfff"
_ODD = re.compile(f"[{_CONTROL}{_LINES}{_DIRECTIONS}{_UNPAIRED}]")


def plain(text: str) -> str:
    r"""The same in one line: every control character as Python writes it (`\n`, `\x1b`, `\u202e`). Again: no change."""
    return _ODD.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def plain_lines(text: str) -> str:
    """The same for text that has lines of its own: their ends and tabs stay."""
    return _ODD.sub(lambda found: found[0] if found[0] in "\n\t" else plain(found[0]), text)


def plain_json(document: str) -> str:
    """JSON that was written without escapes, with odd characters in its strings escaped: its meaning stays."""
    return _ODD.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", document)
