"""Whose sessions end when more people log in than are kept."""

from __future__ import annotations

import pytest

from autoscaler.store import sessions
from autoscaler.store.sessions import Sessions


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(sessions, "MOST", 6)
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 3)
    return Sessions.open(None)


def test_many_logins_of_one_user_end_their_own_oldest_sessions_and_nobody_elses(kept: Sessions) -> None:
    root = kept.begin("root", "m", 1.0)
    eves = [kept.begin("eve", "m", 2.0) for _ in range(20)]
    assert kept.find(root, 3.0) is not None
    assert [kept.find(each, 3.0) is not None for each in eves] == [False] * 17 + [True] * 3


def test_where_all_places_are_taken_the_one_who_has_most_gives_way(kept: Sessions) -> None:
    root = kept.begin("root", "m", 1.0)
    eves = [kept.begin("eve", "m", 2.0) for _ in range(3)]
    others = [kept.begin(name, "m", 3.0) for name in ("ann", "ben", "cyd", "dan")]
    assert all(kept.find(each, 4.0) is not None for each in (root, *others))
    assert [kept.find(each, 4.0) is not None for each in eves] == [False, False, True]
