"""The table of reasons: one row a code, with its sentence, its short form and its remedy.

Add a code to `core.model.reasons.Code` and its row to the module of its subject here; docs/reasons.md and the JSON
schema follow from both (`python -m autoscaler.report.pages`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WAIT_OR_ASK = "Wait until the limit leaves room, or ask an administrator to raise it."
"""What the owner of a job can do about a limit of the site."""


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """`wording` replaces `{fact}` in `sentence` and `short`, and leaves out a part in square brackets if one of its
    facts is missing.
    """

    sentence: str
    short: str | None = None
    """Two or three words for the one sentence of a pass; None: the sentence itself is short enough."""
    remedy: str = ""
    """What an operator can do: a column of docs/reasons.md, and the last line of `explain`. `""`: nothing needs to be
    done.
    """
    owner_remedy: str = ""
    """What the owner of a waiting job can do, if `remedy` is for administrators alone."""
    needs_person: bool = False
    """Only a person can end it: each pass names it, instead of only counting it."""
    listed: Literal["waiting for", "keeping", "leaving alone"] | None = None
    """The verb under which a pass lists a worker that has this reason and no action; None: it is not listed."""
