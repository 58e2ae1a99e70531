"""Texts in the contexts of unsatisfiable jobs whose command failed: they are written again later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoscaler.core.model.memory import UnsatisfiableNote
from autoscaler.core.model.reasons import Code, because

RETRY, RETRY_REFUSED = 600.0, 3600.0
"""Seconds until a text is tried again whose command failed as a whole, or was refused for some of its jobs."""


def with_unwritten(
    notes: Mapping[int, UnsatisfiableNote], failed: Iterable[tuple[Sequence[str], bool]], at: float
) -> Mapping[int, UnsatisfiableNote]:
    """The notes, given which commands of the pass at that time failed: the jobs of each, and whether Grid Engine
    refused only some of them. A job without a note had a text that should have been replaced.
    """
    found = dict(notes)
    for jobs, refused in failed:
        for job in map(int, jobs):
            note = found.get(job, UnsatisfiableNote(annotated=because(Code.SATISFIABLE_AGAIN)))
            found[job] = replace(note, write_at=at + (RETRY_REFUSED if refused else RETRY))
    return found


def is_written(note: UnsatisfiableNote, now: float) -> bool:
    """Whether the text is in the job's context, or is not to be tried again yet."""
    return note.write_at is None or now < note.write_at
