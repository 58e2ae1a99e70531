"""The stored journal of calls to the HTTP API."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.store.calls import CHANGES_KEPT, LONGEST, Call, CallLog

CALL = Call(1.0, "anna", "POST", "/clusters/demo/nodes/create", 202, "o1", 0.01)


def test_calls_are_kept_newest_first() -> None:
    log = CallLog.open(None)
    log.add(CALL)
    log.add(replace(CALL, status=409))
    assert [call.status for call in log.newest()] == [409, 202]


def test_only_the_newest_calls_that_read_are_kept() -> None:
    log = CallLog.open(None, most=150)
    for number in range(400):
        log.add(replace(CALL, at=float(number), method="GET", status=200))
    assert [call.at for call in log.newest(1000)] == [float(number) for number in range(399, 249, -1)]


def test_the_stored_target_of_a_call_is_cut_to_a_maximum() -> None:
    log = CallLog.open(None)
    log.add(replace(CALL, target="/" + "x" * 100_000))
    assert len(log.newest()[0].target) == LONGEST


def test_calls_that_read_and_refused_ones_push_out_no_change() -> None:
    log = CallLog.open(None, most=50)
    log.add(CALL)
    for number in range(300):
        log.add(replace(CALL, at=float(number), who="reader", method="GET", status=200))
        log.add(replace(CALL, at=float(number), who="reader", status=403))
    assert CALL in log.newest(2000)


def test_changes_are_kept_for_a_time() -> None:
    log = CallLog.open(None)
    log.add(CALL)
    assert CALL in log.newest(2000)
    for number in range(150):
        log.add(replace(CALL, at=CALL.at + CHANGES_KEPT + 1 + number))
    assert CALL not in log.newest(2000)


def test_calls_of_strangers_do_not_push_out_calls_of_users() -> None:
    log = CallLog.open(None, most=50, most_strangers=20)
    log.add(CALL)
    for number in range(1000):
        log.add(replace(CALL, at=float(number), who="", status=401))
    assert ([call.who for call in log.newest(2000)].count("anna"), len(log.newest(2000)) <= 20 + 100 + 1) == (1, True)
