"""Request sets in the store: the newest update replaces a set, and sets lapse exactly at their time."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.request_sets import ArrayDefinition, Requests, RequestSet, Target
from autoscaler.errors import SettingsError
from autoscaler.store.array_definitions import merged
from autoscaler.store.requests import RequestTable
from autoscaler.store.store import Store

EXECUTE = ArrayDefinition("execute")
DYNAMIC = ArrayDefinition("big", dynamic=True, extends="execute")


@pytest.fixture
def table() -> RequestTable:
    return Store.open(None).requests


def ask(
    table: RequestTable,
    name: str,
    *targets: Target,
    arrays: Sequence[ArrayDefinition] = (),
    at: float = 0.0,
    until: float | None = 300.0,
) -> None:
    table.update(name, "root", at, until, targets, arrays)


def names(requests: Requests) -> list[str]:
    return [array.name for array in requests.arrays]


def test_the_newest_update_of_a_set_replaces_its_targets(table: RequestTable) -> None:
    ask(table, "a", Target("execute", count=2), Target("other", count=1))
    ask(table, "a", Target("execute", cores=8), at=10.0, until=310.0)
    assert table.load(11.0).sets == (RequestSet("a", "root", 10.0, 310.0, (Target("execute", cores=8),), ("execute",)),)


def test_an_update_does_not_change_sets_of_other_names(table: RequestTable) -> None:
    ask(table, "b", Target("execute", count=2))
    ask(table, "a", Target("execute", count=3))
    assert [(one.name, one.targets[0].count) for one in table.load(1.0).sets] == [("a", 3), ("b", 2)]


def test_a_set_lapses_exactly_at_its_time(table: RequestTable) -> None:
    ask(table, "a", Target("execute", count=2))
    assert [bool(table.load(now).sets) for now in (299.9, 300.0)] == [True, False]


def test_a_set_without_an_end_never_lapses(table: RequestTable) -> None:
    ask(table, "a", Target("execute", count=2), until=None)
    table.lapse(1e12)
    assert table.load(1e12).sets


def test_a_lapsed_set_is_reported_once(table: RequestTable) -> None:
    ask(table, "a", Target("execute", count=2))
    assert (table.lapse(301.0), table.lapse(302.0)) == (("a",), ())


def test_definitions_of_several_sets_are_merged(table: RequestTable) -> None:
    ask(table, "a", arrays=[ArrayDefinition("execute", machine_types=("m5.large",), max_count=4)])
    ask(table, "b", arrays=[ArrayDefinition("execute", price_type=PriceType.SPOT)])
    (array,) = table.load(1.0).arrays
    assert (array.machine_types, array.max_count, array.price_type) == (("m5.large",), 4, PriceType.SPOT)


def test_objects_are_merged_to_any_depth_and_null_removes_a_key() -> None:
    before = ArrayDefinition("execute", configuration='{"a": {"b": 1, "c": 2}, "d": 3}')
    after = merged(before, ArrayDefinition("execute", configuration='{"a": {"b": 9, "c": null}, "e": {"f": null}}'))
    assert json.loads(after.configuration) == {"a": {"b": 9}, "d": 3, "e": {}}


def test_a_definition_for_an_array_of_the_settings_ends_with_its_set(
    table: RequestTable,
) -> None:
    definition = ArrayDefinition("execute", max_count=4, machine_types=("m5.large",), price_type=PriceType.SPOT)
    ask(table, "a", arrays=[replace(definition, health_check="gpus", configuration='{"a": 1}', attributes='{"b": 2}')])
    ask(table, "b", Target("execute", count=1), arrays=[EXECUTE], until=500.0)
    held = [table.load(now).arrays for now in (299.0, 300.0, 500.0)]
    table.lapse(300.0)
    assert (held[0][0].max_count, held[1:], table.load(300.0).arrays) == (4, [(EXECUTE,), ()], (EXECUTE,))


@pytest.mark.parametrize("ending", ("lapses", "is ended", "names it no longer"))
def test_the_definition_of_the_previous_set_takes_effect_again(table: RequestTable, ending: str) -> None:
    ask(table, "a", arrays=[ArrayDefinition("execute", max_count=4, configuration='{"n": 1, "k": 1}')], until=500.0)
    ask(table, "b", arrays=[ArrayDefinition("execute", max_count=1, configuration='{"n": null}')])
    (before,) = table.load(1.0).arrays
    if ending == "is ended":
        table.end("b")
    elif ending == "names it no longer":
        ask(table, "b", at=1.0)
    (after,) = table.load(300.0 if ending == "lapses" else 2.0).arrays
    assert (before.max_count, json.loads(before.configuration)) == (1, {"k": 1})
    assert (after.max_count, json.loads(after.configuration)) == (4, {"n": 1, "k": 1})


def test_the_newest_definition_of_a_live_set_holds_and_names_its_set(table: RequestTable) -> None:
    for name, most in (("a", 4), ("b", 6), ("a", 5)):
        ask(table, name, arrays=[ArrayDefinition("execute", max_count=most)])
    (array,) = table.load(1.0).arrays
    assert (array.max_count, array.defined_by) == (5, (("max_count", "a"),))


def test_a_dynamic_array_keeps_the_definition_of_its_creator_only(table: RequestTable) -> None:
    made = ArrayDefinition("big", dynamic=True, extends="execute", max_count=7, machine_types=("m5.large",))
    ask(table, "a", arrays=[made], until=100.0)
    ask(table, "b", arrays=[ArrayDefinition("big", max_count=2)], until=200.0)
    ask(table, "c", Target("big", count=1), arrays=[ArrayDefinition("big")], until=300.0)
    caps = [table.load(now).arrays[0].max_count for now in (50.0, 150.0, 250.0)]
    table.lapse(250.0)
    (array,) = table.load(250.0).arrays
    assert (caps, array.max_count, array.machine_types, array.extends) == ([2, 2, 7], 7, ("m5.large",), "execute")


def test_the_only_set_that_names_a_dynamic_array_defines_it_anew(table: RequestTable) -> None:
    ask(table, "a", arrays=[replace(DYNAMIC, max_count=7)], until=100.0)
    ask(table, "b", arrays=[ArrayDefinition("big", max_count=3)], at=150.0, until=200.0)
    ask(table, "c", Target("big", count=1), arrays=[ArrayDefinition("big")], at=160.0)
    assert table.load(250.0).arrays[0].max_count == 3


def test_nulls_that_remove_nothing_take_no_room(table: RequestTable) -> None:
    for number in range(2000):
        given = {f"key-{number}": "x" * 20, f"key-{number - 1}": None}
        ask(table, "a", arrays=[ArrayDefinition("execute", configuration=json.dumps(given))])
    (array,) = table.load(1.0).arrays
    assert list(json.loads(array.configuration)) == ["key-1999"]


def test_an_array_of_the_settings_is_restored_when_no_set_names_it(table: RequestTable) -> None:
    ask(table, "a", arrays=[ArrayDefinition("execute", max_count=4)])
    assert names(table.load(1.0)) == ["execute"]
    ask(table, "a")
    assert table.load(1.0).arrays == ()


def test_a_dynamic_array_that_no_set_names_is_flagged_and_stays(table: RequestTable) -> None:
    ask(table, "a", Target("big", count=1), arrays=[DYNAMIC])
    wanted = [table.load(now).arrays[0].requested for now in (1.0, 301.0)]
    table.lapse(301.0)
    assert (wanted, names(table.load(302.0))) == ([True, False], ["big"])


def test_a_flagged_dynamic_array_is_requested_again_with_its_definition(table: RequestTable) -> None:
    ask(table, "a", arrays=[ArrayDefinition("big", dynamic=True, extends="execute", max_count=7)])
    ask(table, "a", at=5.0)
    ask(table, "a", arrays=[ArrayDefinition("big", dynamic=True)], at=400.0, until=700.0)
    (array,) = table.load(401.0).arrays
    assert (array.requested, array.max_count, array.extends) == (True, 7, "execute")


def test_only_a_dynamic_array_that_no_set_names_is_removed(table: RequestTable) -> None:
    ask(table, "a", arrays=[DYNAMIC])
    first = table.remove_array("big")
    ask(table, "a")
    assert (first, table.remove_array("big"), names(table.load(1.0))) == (False, True, [])


def test_a_dynamic_array_that_another_one_extends_is_not_removed(table: RequestTable) -> None:
    ask(table, "a", arrays=[DYNAMIC, ArrayDefinition("bigger", dynamic=True, extends="big")])
    ask(table, "a", arrays=[ArrayDefinition("bigger", dynamic=True)])
    assert table.remove_array("big") is False


def test_an_array_may_have_groups_sized_in_vcpus_and_in_workers(table: RequestTable) -> None:
    by_cores = ArrayDefinition("execute:16", dynamic=True, extends="execute", group_cores=16)
    by_count = ArrayDefinition("execute:16", dynamic=True, extends="execute", group_count=16)
    ask(table, "a", Target("execute:16", groups=1, group_cores=16), arrays=[by_cores])
    ask(table, "b", Target("execute:16", groups=1, group_count=16), arrays=[EXECUTE, by_count])
    (both,) = (array for array in table.load(1.0).arrays if array.name == "execute:16")
    assert (both.group_cores, both.group_count) == (16, 16)


def test_a_set_can_be_ended(table: RequestTable) -> None:
    ask(table, "a", Target("execute", count=2))
    assert (table.end("a"), table.end("a"), table.load(1.0)) == (True, False, Requests())


def test_requests_survive_a_restart(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "cell.sqlite")
    ask(store.requests, "a", Target("execute:64", groups=4, group_cores=64), arrays=[DYNAMIC])
    before = store.requests.load(1.0)
    store.close()
    assert Store.open(tmp_path / "cell.sqlite").requests.load(1.0) == before


def test_clear_removes_all_sets_and_arrays(table: RequestTable) -> None:
    ask(table, "a", Target("big", count=2), arrays=[DYNAMIC])
    table.clear()
    assert table.load(1.0) == Requests()


def test_a_reader_sees_an_update_completely_or_not_at_all(tmp_path: Path) -> None:
    """Targets and definition of each update have the same number; a torn reading would show two."""
    path = tmp_path / "cell.sqlite"
    Store.open(path).close()

    def write() -> None:
        own = Store.open(path)
        for number in range(1, 40):
            ask(own.requests, "a", Target("x", count=number), arrays=[ArrayDefinition("x", max_count=number)])
        own.close()

    writer, reader = threading.Thread(target=write), Store.open(path)
    seen: set[tuple[int, int | None]] = set()
    writer.start()
    while writer.is_alive():
        loaded = reader.requests.load(1.0)
        seen |= {(one.targets[0].count or 0, array.max_count) for one in loaded.sets for array in loaded.arrays}
    writer.join()
    reader.close()
    assert {count - (limit or 0) for count, limit in seen} == {0}


def test_an_update_returns_whether_more_than_the_time_is_new(table: RequestTable) -> None:
    def news(*targets: Target, arrays: Sequence[ArrayDefinition] = (), at: float = 0.0) -> bool:
        return table.update("a", "root", at, at + 300.0, targets, arrays)

    limited = ArrayDefinition("execute", max_count=3)
    assert [
        news(Target("execute", count=1)),
        news(Target("execute", count=1), at=10.0),
        news(Target("execute", count=2)),
        news(Target("execute", count=2), arrays=[limited]),
        news(Target("execute", count=2), arrays=[limited]),
        news(),
        news(),
        news(at=301.0),
    ] == [True, False, True, True, False, True, False, True]


@pytest.mark.parametrize(
    ("arrays", "error"),
    (
        ([ArrayDefinition("execute", configuration=json.dumps({"a": "x" * 8192}))], "Configuration: it would have 8"),
        ([ArrayDefinition("execute", attributes=json.dumps({"a": "x" * 65536}))], "all other attributes would have 6"),
        (
            [ArrayDefinition(f"n{number}", dynamic=True) for number in range(501)],
            "would be 501 defined node arrays, and 500",
        ),
    ),
)
def test_definitions_beyond_a_limit_are_refused(table: RequestTable, arrays: list[ArrayDefinition], error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        ask(table, "a", arrays=arrays)
    assert table.load(1.0) == Requests()


def test_a_set_beyond_the_maximum_is_refused_and_existing_sets_can_be_updated(
    table: RequestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.store.requests.MOST_SETS", 2)
    ask(table, "a")
    ask(table, "b")
    with pytest.raises(SettingsError, match="already 2 request sets"):
        ask(table, "c")
    ask(table, "a", Target("execute", count=1))
    assert [len(one.targets) for one in table.load(1.0).sets] == [1, 0]


# -- KeepAlive ------------------------------------------------------------------------------------------------------


def kept(table: RequestTable, now: float = 1.0) -> dict[str, tuple[str, ...]]:
    """By array, the sets that keep its workers alive."""
    return {array.name: array.kept_by for array in table.load(now).arrays if array.kept_by}


def keeping(name: str, kept: bool = True) -> ArrayDefinition:
    return ArrayDefinition("execute", keep_alive=((name, kept),))


def test_workers_are_kept_alive_for_each_set_until_it_lapses(table: RequestTable) -> None:
    ask(table, "a", arrays=[keeping("a")], until=100.0)
    ask(table, "b", arrays=[keeping("b")], until=200.0)
    ask(table, "c", Target("execute", count=1), until=300.0)
    assert [kept(table, now) for now in (50.0, 150.0, 250.0)] == [
        {"execute": ("a", "b")},
        {"execute": ("b",)},
        {},
    ]


def test_one_set_does_not_end_the_keepalive_of_another(table: RequestTable) -> None:
    ask(table, "a", arrays=[keeping("a")])
    ask(table, "b", arrays=[keeping("b", kept=False)])
    assert kept(table) == {"execute": ("a",)}


def test_a_set_without_keepalive_keeps_it_while_it_names_the_array(table: RequestTable) -> None:
    ask(table, "a", arrays=[keeping("a")])
    ask(table, "a", Target("execute", count=1), arrays=[ArrayDefinition("execute")])
    named = kept(table)
    ask(table, "b", Target("execute", count=1))
    ask(table, "a", Target("other", count=1))
    ask(table, "a", Target("execute", count=1))
    assert (named, kept(table)) == ({"execute": ("a",)}, {})


def test_a_lapsed_set_does_not_keep_workers_alive_when_it_is_requested_again(table: RequestTable) -> None:
    ask(table, "a", arrays=[keeping("a")], until=10.0)
    ask(table, "b", Target("execute", count=1))
    assert kept(table, 9.0) != {}
    ask(table, "a", Target("execute", count=1), at=20.0)
    assert kept(table, 21.0) == {}


def test_the_end_of_a_keepalive_counts_as_new(table: RequestTable) -> None:
    ask(table, "a", arrays=[keeping("a")])
    assert table.update("a", "root", 1.0, 300.0, (), [keeping("a", kept=False)])
