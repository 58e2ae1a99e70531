"""Launch: walk an order's candidates until one gives workers. Off the loop's thread, since a cloud may hang.

Every token is durable, with exactly what is asked under it, before the provider hears of it. So an order whose answer
is missing, after a crash or a time-out, is simply asked again: the same token never makes more machines (rule 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.act.means import Means
from autoscaler.core.fleet import BucketKey, LaunchFailure, Worker
from autoscaler.store.journal import OrderRecord, Result
from providers.interface import (
    GROUP_ID,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)


def walk(record: OrderRecord, means: Means) -> tuple[Result, str]:
    """Ask for the candidates that have no answer yet, in order, and journal each answer.

    UNDER_WAY: no answer; ask again later with the same token. DONE, REFUSED and FAILED close the order.
    """
    said: list[str] = []
    for number in range(record.due, len(record.candidates)):
        asked = _asked(record, number, means)
        if not means.store.journal.send(asked, number, means.clock()):
            return Result.FAILED, "given up before it was asked for"
        try:
            launched = means.provider.launch(asked)
        except (Throttled, Unreachable) as error:
            return Result.UNDER_WAY, str(error)
        except (OutOfCapacity, QuotaReached) as error:
            launched = Launched((), tuple((bucket.key, error) for bucket in asked.buckets))
        except Refused as error:
            failures = _failures(record, [(bucket.key, error) for bucket in asked.buckets], means.clock())
            _close(record, asked, failures, str(error), means)
            return Result.REFUSED, str(error)
        failures = _failures(record, launched.shortfalls, means.clock())
        message = "; ".join(dict.fromkeys(failure.message for failure in failures))
        means.store.journal.answer(asked.token, ids=launched.ids, failures=failures, message=message, at=means.clock())
        if launched.ids:
            got = f"{len(launched.ids)} of {asked.count} {record.candidates[number].type.name}: "
            return Result.DONE, got + ", ".join(launched.ids) + (f"; {message}" if message else "")
        said.append(f"{record.candidates[number].type.name}: {message or 'none was given'}")
    message = "; ".join(said) or "no candidate is left"
    means.store.journal.close_order(record.id, message, means.clock())
    return Result.FAILED, message


def recover(record: OrderRecord, listed: Sequence[Worker], means: Means) -> bool:
    """Whether the listing itself answers an open order: all that was asked is there. Then it is accepted so."""
    attempt = record.attempts[-1] if record.attempts else None
    if attempt is None or attempt.answered_at is not None or len(listed) < attempt.asked.count:
        return False
    _accept(attempt.token, listed, means)
    return True


def give_up(record: OrderRecord, listed: Sequence[Worker], means: Means) -> str:
    """Close an order that got no answer for too long: with what the listing shows of it, else as failed.

    A machine of it that shows up later still carries our tag, and is a worker like any other.
    """
    attempt = record.attempts[-1] if record.attempts else None
    if attempt is not None and attempt.answered_at is None and listed:
        _accept(attempt.token, listed, means)
        return f"no answer; the listing shows {len(listed)} of {attempt.asked.count}"
    message = "the provider gave no answer" if attempt else "never asked for"
    means.store.journal.close_order(record.id, message, means.clock())
    return message


def _accept(token: str, listed: Sequence[Worker], means: Means) -> None:
    ids = [worker.id for worker in listed]
    means.store.journal.answer(token, ids=ids, failures=(), message="found in the listing", at=means.clock())


def _asked(record: OrderRecord, number: int, means: Means) -> LaunchOrder:
    for attempt in record.attempts:
        if attempt.candidate == number:
            return attempt.asked
    candidate = record.candidates[number]
    return LaunchOrder(
        token=f"{record.id}-{number}",
        order_id=record.id,
        cell=means.tag,
        node_array=record.node_array,
        buckets=candidate.buckets,
        count=candidate.count,
        boot_script=means.boot_script(record),
        tags={GROUP_ID: record.group_id} if record.group_id else {},
        settings=means.array_settings(record.node_array),
    )


def _close(
    record: OrderRecord, asked: LaunchOrder, failures: Sequence[LaunchFailure], message: str, means: Means
) -> None:
    with means.store.database.transaction():
        means.store.journal.answer(asked.token, ids=(), failures=failures, message=message, at=means.clock())
        means.store.journal.close_order(record.id, message, means.clock())


def _failures(
    record: OrderRecord, shortfalls: Sequence[tuple[BucketKey, ProviderError]], at: float
) -> list[LaunchFailure]:
    return [LaunchFailure(key, at, _kind(error), str(error), record.id) for key, error in shortfalls]


def _kind(error: ProviderError) -> str:
    match error:
        case QuotaReached():
            return "quota"
        case Refused():
            return "permanent"
        case Throttled() | Unreachable():
            return "throttled"
        case _:
            return "capacity"
