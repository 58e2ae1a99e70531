"""Which notifications are due: a pure function of earlier notifications and of the causes that hold now.

Operators are notified once a cause has held for as long as its kind says, and once more when it has passed. A cause
that comes and goes is reported at most once an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from autoscaler.core.model.reasons import Reason
from autoscaler.core.notifications.causes import BY_NAME, KINDS, MOST_OF_A_KIND, Cause, CauseKind, NotificationContext

SETTLED = 60.0
"""Seconds after which a cause that no longer holds has passed."""
AGAIN = 3600.0
"""Seconds from one message about a cause to the next."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A cause that holds, or held lately."""

    kind: str
    subject: str
    since: float
    reason: Reason
    notified: bool = False
    """Whether it was reported this time."""
    notified_at: float | None = None
    """When it was last reported, this time or before."""
    gone_since: float | None = None
    """Since when it has not held; None: it holds."""
    passed: bool = False
    """It was reported, and has passed."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. `passed`: its cause no longer holds."""

    kind: str
    subject: str
    at: float
    reason: Reason
    passed: bool = False
    owner: str = ""


Key = str
"""CauseKind and subject."""


@dataclass(frozen=True, slots=True)
class KnownCauses:
    """The causes of earlier passes."""

    watched: Mapping[Key, Watched] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Due:
    """The notifications that are due now, and what is known afterwards."""

    known: KnownCauses
    notifications: tuple[Notification, ...] = ()


def notifications_due(known: KnownCauses, context: NotificationContext, *, resolved: bool = True) -> Due:
    """`resolved`: whether the end of a cause is reported. If nothing changed, `known` is the same object."""
    watched: dict[Key, Watched] = {}
    news: list[Notification] = []
    for kind in KINDS:
        before = {key: each for key, each in known.watched.items() if each.kind == kind.name}
        found = kind.find(context)
        if found is None:
            watched |= before
            continue
        now_watched, new = _of_kind(kind, before, islice(found, MOST_OF_A_KIND), context)
        watched |= now_watched
        news += new
    news = [each for each in news if resolved or not each.passed]
    return Due(known if watched == dict(known.watched) else KnownCauses(watched), tuple(news))


def _of_kind(
    kind: CauseKind, before: Mapping[Key, Watched], found: Sequence[Cause] | islice[Cause], context: NotificationContext
) -> tuple[dict[Key, Watched], list[Notification]]:
    watched: dict[Key, Watched] = {}
    news: list[Notification] = []
    for cause in found:
        key = f"{kind.name} {cause.subject}"
        each = _held(before.get(key), kind, cause, context.now)
        if _is_due(each, kind, context):
            each = replace(each, notified=True, notified_at=context.now, reason=cause.reason)
            news.append(Notification(kind.name, cause.subject, context.now, cause.reason, owner=cause.owner))
        watched[key] = each
    for key, old in before.items():
        if key in watched:
            continue
        gone = replace(old, gone_since=context.now) if old.gone_since is None else old
        settled = gone.gone_since is not None and context.now - gone.gone_since >= SETTLED
        if settled and gone.notified and not gone.passed:
            gone = replace(gone, passed=True)
            if kind.passes:
                news.append(Notification(kind.name, gone.subject, context.now, gone.reason, passed=True))
        if not settled or (gone.notified_at is not None and context.now - gone.notified_at < AGAIN):
            watched[key] = gone
    return watched, news


def _held(old: Watched | None, kind: CauseKind, cause: Cause, now: float) -> Watched:
    """A cause that holds now. A short gap does not matter; a cause that had passed begins anew."""
    if old is None:
        return Watched(kind.name, cause.subject, now, cause.reason)
    if old.passed:
        return replace(old, since=now, notified=False, passed=False, gone_since=None)
    return old if old.gone_since is None else replace(old, gone_since=None)


def _is_due(each: Watched, kind: CauseKind, context: NotificationContext) -> bool:
    if each.notified or context.now - each.since < kind.after(context):
        return False
    return each.notified_at is None or context.now - each.notified_at >= AGAIN


def gravity_of(kind: str) -> int:
    """The place of a kind among all: 0 is the gravest. Kinds of a later version come last."""
    return _GRAVITY.get(kind, len(_GRAVITY))


_GRAVITY = {kind.name: at for at, kind in enumerate(KINDS)}


def title_of(kind: str) -> str:
    """The title of a kind; its name if the kind is of a later version."""
    return BY_NAME[kind].title if kind in BY_NAME else kind.replace("_", " ")
