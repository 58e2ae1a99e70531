"""Whether a value of a complex can be read at all: in a job's request, or of a host, queue or quota.

Grid Engine accepts `-l mem_free=1e400` and keeps it as it was written. Such a value concerns only the job or host that
has it.
"""

from __future__ import annotations

import math

from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.complexes import NUMERIC, TOO_MUCH, amount

NO_NUMBER = "no number that can be counted with"


def fault_of_request(entry: Complex, text: str) -> str | None:
    """Why a job's request for this complex cannot be read; None: it can."""
    if entry.type not in NUMERIC:
        return None
    value = amount(text, entry.type)
    if value is None:
        return NO_NUMBER
    if entry.consumable is Consumable.NO or entry.relop == "EXCL":
        return None
    if math.isinf(value) or value > TOO_MUCH:
        return "more than any host can have"
    return "less than nothing" if value < 0 else None


def fault_of_offer(entry: Complex, text: str) -> str | None:
    """The same for a value of a host, a queue or a quota, which may be infinite."""
    return NO_NUMBER if entry.type in NUMERIC and amount(text, entry.type) is None else None
