"""Ending machines one by one, where a cloud has no call for several: one that cannot be ended keeps no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from autoscaler.providers.interface import ProviderError, Refused, Unreachable

Found = TypeVar("Found")
_NAMED = 3
"""Machines whose error a message has."""


def each(
    ids: Iterable[str], do: Callable[[str], Found], lanes: int
) -> tuple[dict[str, Found], dict[str, ProviderError]]:
    """Call `do` for each machine, a few at a time: by id its answer, or its error."""
    wanted = list(dict.fromkeys(ids))

    def tried(worker_id: str) -> Found | ProviderError:
        try:
            return do(worker_id)
        except ProviderError as error:
            return error

    with ThreadPoolExecutor(max(1, min(lanes, len(wanted))), thread_name_prefix="end") as pool:
        answers = dict(zip(wanted, pool.map(tried, wanted), strict=True))
    errors = {worker_id: answer for worker_id, answer in answers.items() if isinstance(answer, ProviderError)}
    return {key: answer for key, answer in answers.items() if not isinstance(answer, ProviderError)}, errors


def raise_errors(errors: Mapping[str, ProviderError]) -> None:
    """For machines that were not ended: Refused if one was refused, else Unreachable for these alone."""
    for error in errors.values():
        if isinstance(error, Refused):
            raise error
    if errors:
        raise _unanswered(list(errors), list(errors.values()))


def _unanswered(ids: Sequence[str], errors: Sequence[ProviderError]) -> Unreachable:
    words = dict.fromkeys(str(error) for error in errors)
    error = Unreachable(f"{len(ids)} not ended: {'; '.join(list(words)[:_NAMED])}")
    error.ids = tuple(ids)
    return error
