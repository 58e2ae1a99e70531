"""Whose jobs are meant where what one owner causes must not change what others get: the setting says if users, projects
or accounts are told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import OrderedFor
from autoscaler.core.model.memory import OwnerSeen
from autoscaler.core.policy import OwnerKind

MOST = 20
"""The most rows of owners that a launch remembers, those with the most slots; and the most owners that a cell does."""
DAY = 86_400.0
REMEMBERED = 30 * DAY
"""For so long an owner counts after a job of theirs was last seen."""
NO_ACCOUNT = "sge"
"""What Grid Engine shows as the account of jobs without `-A`."""
Item = TypeVar("Item")


def owner_of(ask: JobRequest, kind: OwnerKind) -> str:
    """The owner of the jobs of a request. A job without a project or account counts for its user."""
    return _name(ask.owner, ask.project or "", ask.account or "", kind)


def main_owner(ordered_for: Sequence[OrderedFor], kind: OwnerKind) -> str:
    """The owner for whom most of a launch was ordered; '': nobody."""
    slots: Counter[str] = Counter()
    for each in ordered_for:
        slots[name_of(each, kind)] += each.slots
    return min(slots, key=lambda name: (-slots[name], name), default="")


def tasks_besides(want: CategoryDemand, owners: Collection[str], kind: OwnerKind) -> int:
    """How many tasks of a demand are of other owners."""
    each = zip(want.asks, want.tasks or (1,) * len(want.asks), strict=True)
    return sum(count for ask, count in each if owner_of(ask, kind) not in owners)


def name_of(each: OrderedFor, kind: OwnerKind) -> str:
    return _name(each.user, each.project, each.account, kind)


def _name(user: str, project: str, account: str, kind: OwnerKind) -> str:
    """`@ann` for a user's own jobs where projects or accounts are told apart: no project or account may have such a
    name, so nobody's jobs count for another user by `-A ann`.
    """
    if kind is OwnerKind.USER:
        return user
    return (project if kind is OwnerKind.PROJECT else "" if account == NO_ACCOUNT else account) or (user and f"@{user}")


def ordered_for(demands: Sequence[CategoryDemand], tasks: Sequence[int]) -> tuple[OrderedFor, ...]:
    """For whom `tasks` (parallel to the demands) are served. The tasks of a demand count for its owners as these have
    tasks of it.
    """
    slots: Counter[tuple[str, str, str]] = Counter()
    for want, count in zip(demands, tasks, strict=True):
        if not count:
            continue
        of_asks = want.tasks or (1,) * len(want.asks)
        for ask, own in zip(want.asks, of_asks, strict=True):
            share = -(-count * want.demand.slots * own // max(sum(of_asks), 1))
            slots[ask.owner, ask.project or "", ask.account or ""] += share
    if len(slots) > MOST:
        slots = _of_one_account_each(slots)
    of_user: Counter[str] = Counter()
    for (user, _, _), count in slots.items():
        of_user[user] += count
    # By user first: else who has many jobs, each with an account of its own, would leave the launch to others.
    by_slots = sorted(slots.items(), key=lambda item: (-item[1], item[0]))
    most = sorted(by_slots, key=lambda item: -of_user[item[0][0]])[:MOST] if len(by_slots) > MOST else by_slots
    return tuple(OrderedFor(user, project, account, count) for (user, project, account), count in most)


def _of_one_account_each(slots: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str, str]]:
    """The same with all that a user has of a project under one account, the one with the most slots."""
    accounts: dict[tuple[str, str], str] = {}
    found: Counter[tuple[str, str, str]] = Counter()
    for (user, project, account), count in sorted(slots.items(), key=lambda item: (-item[1], item[0])):
        found[user, project, accounts.setdefault((user, project), account)] += count
    return found


def in_turn(items: Iterable[tuple[str, Item]]) -> Iterator[Item]:
    """Items of several owners so that each owner has one in turn: first the first of each, then the second. Within a
    turn they keep their order.
    """
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int, Item]] = []
    for at, (owner, item) in enumerate(items):
        turn = turns[owner] = turns.get(owner, -1) + 1
        ranked.append((turn, at, item))
    return (item for _, _, item in sorted(ranked, key=lambda each: each[:2]))


def seen_owners(here: Iterable[str], before: Sequence[OwnerSeen], now: float) -> tuple[OwnerSeen, ...]:
    """The owners whose jobs were seen last, MOST at most. `here`: those of jobs that are there now."""
    known = {each.owner: each.at for each in before if now - each.at < REMEMBERED}
    known |= dict.fromkeys({*here} - {""}, now // DAY * DAY)
    before_ = {each.owner for each in before}
    last = sorted(known, key=lambda name: (-known[name], name not in before_, name))[:MOST]
    asked = {each.owner: each for each in before}
    return tuple(changed(asked.get(name) or OwnerSeen(name, 0.0), at=known[name]) for name in sorted(last))
