"""Launch: request an order's sets of offers until one gives workers. Off the loop's thread, since a cloud may hang.

Every token is durable, with the exact request under it, before the provider is called. So an order whose answer is
missing, after a crash or a time-out, is requested again: the same token never makes more machines (rule 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, FailureKind, LaunchFailure, Worker
from autoscaler.engine.execution import ExecutionContext
from autoscaler.errors import LockHeld, NotObservable
from autoscaler.providers.interface import (
    GROUP_ID,
    Chooses,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.store.journal import NO_ANSWER, Attempt, OrderRecord, Result


def request_offers(record: OrderRecord, context: ExecutionContext) -> tuple[Result, str]:
    """Request each offer that has no answer yet, set by set, and journal each answer.

    A set that gave any worker is the last. UNDER_WAY: no answer; ask again later with the same token. DONE, REFUSED and
    FAILED close the order. A throttled request made nothing: the order is closed, and a later plan decides again.
    """
    messages: list[str] = []
    given = list(record.given(record.steps[record.due][0])) if record.due < len(record.steps) else []
    for step in range(record.due, len(record.steps)):
        number, offer = record.steps[step]
        order, kind = _request_of(record, number, offer, context), record.candidates[number].offers[offer].type.name
        # An earlier call under this token got no answer: the order may have been made. `Throttled` and `Refused` leave
        # that open, since they speak of this call alone. The same token gives the same workers, so an order that was
        # made is not answered by a shortfall.
        may_exist = any((attempt.candidate, attempt.offer) == (number, offer) for attempt in record.attempts)
        try:
            order = replace(order, asked_before=True) if may_exist else _with_choices(order, context)
            context.may_act()
            if not context.store.journal.send(order, number, context.clock(), offer=offer):
                return Result.FAILED, "given up before it was requested"
            launched = context.provider.launch(order)
        except (OutOfCapacity, QuotaReached) as error:
            launched = Launched((), tuple((bucket.key, error) for bucket in order.buckets))
        except (Unreachable, NotObservable, LockHeld) as error:
            return Result.UNDER_WAY, str(error)
        except (Throttled, Refused) as error:
            throttled = isinstance(error, Throttled)
            if may_exist:
                return Result.UNDER_WAY, str(error)
            _close(record, order, error, order.buckets[:1] if throttled else order.buckets, context)
            if given:
                return Result.DONE, "; ".join((*messages, str(error)))
            return Result.FAILED if throttled else Result.REFUSED, str(error)
        failures = _failures(record, launched.shortfalls, context.clock())
        message = "; ".join(dict.fromkeys(failure.message for failure in failures))
        context.store.journal.answer(
            order.token,
            ids=launched.ids,
            failures=failures,
            message=message,
            at=context.clock(),
            ends_set=record.ends_set(step),
        )
        given += launched.ids
        if launched.ids:
            got = f"{len(launched.ids)} of {order.count} {kind}: "
            messages.append(got + ", ".join(launched.ids) + (f"; {message}" if message else ""))
        else:
            messages.append(f"{kind}: {message or 'none was given'}")
        if given and record.ends_set(step):
            return Result.DONE, "; ".join(messages[-len(record.candidates[number].offers) :])
    message = "; ".join(messages) or "no candidate is left"
    context.store.journal.close_order(record.id, message, context.clock())
    return Result.FAILED, message


def recover(record: OrderRecord, listed: Sequence[Worker], context: ExecutionContext) -> bool:
    """Whether the listing shows all workers of an open order without an answer: then the order is accepted. If more
    offers of the set are still to be requested, only the one without an answer is accepted, and the order stays open.
    """
    attempt, new = _unanswered(record, listed)
    if attempt is None or len(new) < attempt.launch_order.count:
        return False
    ends_set = record.ends_set(record.due)
    _accept(attempt.token, new, context, "found in the listing", ends_set=ends_set)
    return ends_set


def _unanswered(record: OrderRecord, listed: Sequence[Worker]) -> tuple[Attempt | None, list[Worker]]:
    """The attempt that has no answer, and the workers that it may have brought."""
    known = {worker_id for attempt in record.attempts for worker_id in attempt.ids}
    attempt = record.attempts[-1] if record.attempts else None
    new = [worker for worker in listed if worker.id not in known]
    return (attempt if attempt is not None and attempt.answered_at is None else None), new


def give_up(record: OrderRecord, listed: Sequence[Worker], context: ExecutionContext) -> str:
    """Close an order that got no answer for too long: with the workers that the listing shows, else as failed.

    A machine of it that shows up later still carries our tag, and is a worker like any other.
    """
    attempt, new = _unanswered(record, listed)
    if attempt is not None and new:
        message = f"{NO_ANSWER}the listing shows {len(new)} of {attempt.launch_order.count}"
        _accept(attempt.token, new, context, message, ends_set=True)
        return message
    message = "the provider gave no answer" if record.attempts else "never requested"
    context.store.journal.close_order(record.id, message, context.clock())
    return message


def _accept(token: str, listed: Sequence[Worker], context: ExecutionContext, message: str, *, ends_set: bool) -> None:
    ids = [worker.id for worker in listed]
    context.store.journal.answer(token, ids=ids, failures=(), message=message, at=context.clock(), ends_set=ends_set)


def _request_of(record: OrderRecord, number: int, place: int, context: ExecutionContext) -> LaunchOrder:
    for attempt in record.attempts:
        if (attempt.candidate, attempt.offer) == (number, place):
            return attempt.launch_order
    offer = record.candidates[number].offers[place]
    return LaunchOrder(
        token=f"{record.id}-{number}" + (f"-{place}" if place else ""),
        order_id=record.id,
        cell=context.tag,
        node_array=record.node_array,
        buckets=offer.buckets,
        count=offer.count,
        boot_script=context.boot_script(record),
        tags={GROUP_ID: record.group_id} if record.group_id else {},
        settings=context.array_settings(record.node_array),
        key=context.order_key(record),
    )


def _with_choices(order: LaunchOrder, context: ExecutionContext) -> LaunchOrder:
    provider = context.provider
    return replace(order, chosen=dict(provider.choose(order))) if isinstance(provider, Chooses) else order


def _close(
    record: OrderRecord, order: LaunchOrder, error: ProviderError, failed: Sequence[Bucket], context: ExecutionContext
) -> None:
    """Close an order that its provider refused. `failed`: the buckets to which that counts."""
    at, message = context.clock(), str(error)
    failures = _failures(record, [(bucket.key, error) for bucket in failed], at)
    with context.store.database.transaction():
        context.store.journal.answer(order.token, ids=(), failures=failures, message=message, at=at)
        context.store.journal.close_order(record.id, message, at)


def _failures(
    record: OrderRecord, shortfalls: Sequence[tuple[BucketKey, ProviderError]], at: float
) -> list[LaunchFailure]:
    return [
        LaunchFailure(_of_array(key, record), at, _kind(error), str(error), record.id, retry_at=_retry_at(error, at))
        for key, error in shortfalls
    ]


def _of_array(key: BucketKey, record: OrderRecord) -> BucketKey:
    """The bucket as the order's node array had it: of a cloud that sells to all arrays alike, it names none."""
    return key if key.node_array != ANY else replace(key, node_array=record.node_array)


def _retry_at(error: ProviderError, at: float) -> float | None:
    after = error.retry_after if isinstance(error, Throttled) else None
    return None if after is None else at + after


def _kind(error: ProviderError) -> FailureKind:
    match error:
        case QuotaReached():
            return FailureKind.QUOTA
        case Refused():
            return FailureKind.PERMANENT
        case Throttled() | Unreachable():
            return FailureKind.THROTTLED
        case _:
            return FailureKind.CAPACITY
