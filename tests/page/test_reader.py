"""The page's reader uses an answer again for a moment, for the same user and state only, and takes few places."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from autoscaler.api.answers import Asker, Reply, refusal
from autoscaler.page.reader import AT_ONCE, FRESH, Reader, Unavailable

BODY = b'{"answers": 1, "pass": 7, "as_of": null, "age_s": null, "trouble": "", "document": {"jobs": []}}'


@dataclass
class Answering:
    """Counts what is asked, and how much of it at once."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    reply: Reply = field(default_factory=lambda: Reply(200, (BODY,)))
    most: int = 0
    held: threading.Event | None = None
    _under_way: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        with self._guard:
            self.asked.append((asker.name, question))
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        if self.held is not None:
            self.held.wait(0.05)
        with self._guard:
            self._under_way -= 1
        return self.reply


def asker(name: str) -> Asker:
    return Asker(name, lambda: False)


def test_an_answer_is_used_again_for_the_same_user_query_and_state_only() -> None:
    answering, now = Answering(), [0.0]
    reader = Reader(answering, lambda: now[0])
    for _ in range(3):
        assert reader.read("jobs", asker("ann"), {"first": "0"}, "m1").document == {"jobs": []}
    assert len(answering.asked) == 1
    reader.read("jobs", asker("bob"), {"first": "0"}, "m1")
    reader.read("jobs", asker("ann"), {"first": "100"}, "m1")
    reader.read("jobs", asker("ann"), {"first": "0"}, "m2")  # a command was given, or a pass made
    assert len(answering.asked) == 4
    now[0] += FRESH
    reader.read("jobs", asker("ann"), {"first": "0"}, "m2")
    assert len(answering.asked) == 5


def test_an_answer_that_is_too_old_to_be_used_again_is_dropped() -> None:
    now = [0.0]
    reader = Reader(Answering(), lambda: now[0])
    for number in range(20):
        reader.read("jobs", asker(f"u{number}"), mark="m1")
    assert len(reader._kept) == 20
    now[0] += FRESH
    reader.read("jobs", asker("u0"), mark="m2")
    assert len(reader._kept) == 1


def test_an_answer_that_is_the_same_for_all_is_asked_for_once_by_many() -> None:
    answering = Answering(held=threading.Event(), reply=Reply(200, (BODY.replace(b"{", b'{"for_all": true, ', 1),)))
    reader = Reader(answering, lambda: 0.0)
    reader.read("status", asker("root"), mark="m1")
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda number: reader.read("status", asker(f"u{number}"), mark="m2"), range(30)))
    assert [each.document for each in found] == [{"jobs": []}] * 30
    assert len(answering.asked) == 2


def test_an_answer_that_is_not_the_same_for_all_any_more_is_shown_to_nobody_else() -> None:
    """The autoscaler was started again, and job details are their owners' now."""
    answering = Answering(reply=Reply(200, (BODY.replace(b"{", b'{"for_all": true, ', 1),)))
    reader = Reader(answering, lambda: 0.0)
    reader.read("status", asker("ann"), mark="m1")
    answering.reply = Reply(200, (BODY,))
    for name in ("ann", "bob", "ann", "bob"):
        reader.read("status", asker(name), mark="m2")
    assert [name for name, _ in answering.asked] == ["ann", "ann", "bob"]


def test_tabs_of_one_user_ask_once() -> None:
    answering = Answering(held=threading.Event())
    reader = Reader(answering, lambda: 0.0)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: reader.read("waiting", asker("ann")), range(12)))
    assert len(answering.asked) == 1


def test_few_questions_are_under_way_at_once() -> None:
    answering = Answering(held=threading.Event())
    reader = Reader(answering)
    with ThreadPoolExecutor(30) as pool:
        list(pool.map(lambda number: reader.read("jobs", asker(f"u{number}")), range(30)))
    assert (len(answering.asked), answering.most) == (30, AT_ONCE)


@pytest.mark.parametrize("reply", (refusal(403, "not yours"), Reply(200, (b"<html>",)), Reply(200, (b"[]",))))
def test_a_refusal_is_said_and_not_kept(reply: Reply) -> None:
    answering = Answering(reply=reply)
    reader = Reader(answering)
    for _ in range(2):
        with pytest.raises(Unavailable):
            reader.read("jobs", asker("ann"))
    assert len(answering.asked) == 2
