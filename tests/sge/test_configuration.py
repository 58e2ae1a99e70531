"""The configuration: read once, confirmed by one command in every later pass, read anew when anything of it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.errors import CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed, ReadOnlyRunner
from sge.configuration import LONGEST_COMMAND, ConfigurationReader, read_configuration
from tests.sge.test_cluster_reading import ANSWERS, Master

SECOND_QUEUE = {
    "qconf -sql": b"main.q\nodd.q\n",
    "qconf -sq odd.q": b"qname odd.q\nhostlist NONE\nslots 1\npe_list NONE\n",
}


def changed(master: Master, answers: Mapping[str, bytes | tuple[int, bytes]]) -> None:
    master.changed = {**master.changed, **answers}


def test_a_configuration_that_did_not_change_costs_one_command() -> None:
    master, reader = Master(), ConfigurationReader()
    first = reader.read(ReadOnlyRunner(master))
    master.asked.clear()
    assert (reader.read(ReadOnlyRunner(master)) is first, len(master.asked)) == (True, 1)


@pytest.mark.parametrize(
    ("answers", "stem"),
    (
        ({"qconf -sq main.q": ANSWERS["qconf -sq main.q"].replace(b"slots 4", b"slots 5")}, "sq_main.q"),
        ({"qconf -sp mpi": b"pe_name mpi\nslots 99\nallocation_rule $pe_slots\n"}, "sp_mpi"),
        ({"qconf -shgrp @allhosts": b"group_name @allhosts\nhostlist w1 w2\n"}, "shgrp_@allhosts"),
        ({"qconf -se global": b"hostname global\ncomplex_values lic=3\n"}, "se_global"),
        ({"qconf -sc": b"slots s INT <= YES YES 1 1000\nlic l INT <= YES YES 0 0\n"}, "sc"),
        ({"qconf -srqs": b"{\n name x\n enabled FALSE\n limit to slots=9\n}\n"}, "srqs"),
        ({"qconf -sel": b"w1\nw2\n"}, "sel"),
        ({"qconf -ssconf": b"schedule_interval 0:0:9\n"}, "ssconf"),
        ({"qconf -sconf": b"#global:\nmax_unheard 00:05:00\n"}, "sconf"),
        (SECOND_QUEUE, "sq_odd.q"),
        ({"qconf -spl": b"mpi\nsmp\n", "qconf -sp smp": b"pe_name smp\nallocation_rule $pe_slots\n"}, "sp_smp"),
    ),
)
def test_a_change_of_anything_is_seen_in_the_next_reading(answers: Mapping[str, bytes], stem: str) -> None:
    master, reader = Master(), ConfigurationReader()
    before = reader.read(master)
    changed(master, answers)
    after = reader.read(master)
    assert (after.get(stem) != before.get(stem), dict(after)) == (True, read_configuration(master))


def test_a_list_that_was_empty_and_is_no_more_is_seen() -> None:
    master = Master({"qconf -srqs": (1, b"no resource quota set defined")})
    reader = ConfigurationReader()
    assert reader.read(master)["srqs"] == ""
    changed(master, {"qconf -srqs": ANSWERS["qconf -srqs"]})
    assert "slots=9" in reader.read(master)["srqs"]


def test_empty_lists_do_not_hinder_the_confirmation() -> None:
    master = Master({"qconf -srqs": (1, b"no resource quota set defined"), "qconf -spl": (1, b"no PE list defined")})
    reader = ConfigurationReader()
    first = reader.read(master)
    assert reader.read(master) is first


def test_load_reports_are_no_change_of_the_configuration() -> None:
    """`qconf -se` shows them beside it, and a pass would read all anew for ever."""

    def shown(load: bytes) -> bytes:
        return b"hostname w1\nload_values arch=lx-amd64,\\\n    load_avg=" + load + b"\nuser_lists staff\n"

    restricted = ANSWERS["qconf -sq main.q"] + b"user_lists staff\n"
    staff = b"name staff\ntype ACL\nentries ann\n"
    master = Master({"qconf -sq main.q": restricted, "qconf -se w1": shown(b"0.1"), "qconf -su staff": staff})
    reader = ConfigurationReader()
    first = reader.read(master)
    changed(master, {"qconf -se w1": shown(b"7.5")})
    assert reader.read(master) is first


def test_another_host_of_ours_is_a_reason_to_read_anew() -> None:
    master, reader = Master(), ConfigurationReader()
    first = reader.read(master)
    assert reader.read(master, ours=["w1"]) is not first


@pytest.mark.parametrize(
    "failure",
    (CommandTimedOut("qconf did not end within 30 s"), (1, b"error: commlib error: got select error"), (0, b"")),
)
def test_a_confirmation_without_answer_is_no_reading(failure: Exception | tuple[int, bytes]) -> None:
    """What was read before is not taken for what holds now (rule 2)."""

    class Silent(Master):
        def _answer(self, argv: tuple[str, ...]) -> bytes | Exception | tuple[int, bytes]:
            return failure

    reader = ConfigurationReader()
    reader.read(Master())
    with pytest.raises(GridEngineNotObservable):
        reader.read(Silent())


def test_a_reading_that_failed_half_way_is_not_confirmed_later() -> None:
    master, reader = Master(), ConfigurationReader()
    reader.read(master)
    changed(master, {"qconf -sel": b"w1\nw2\n", "qconf -sconf": (1, b"error: commlib error")})
    with pytest.raises(GridEngineNotObservable):
        reader.read(master)
    changed(master, {"qconf -sconf": ANSWERS["qconf -sconf"]})
    assert reader.read(master)["sel"] == "w1\nw2\n"


def test_all_objects_of_a_kind_are_read_by_one_command() -> None:
    master = Master(SECOND_QUEUE)
    texts = read_configuration(master)
    assert [command for command in master.asked if "-sq " in command] == ["qconf -sq main.q -sq odd.q"]
    assert [texts["sq_main.q"].encode(), texts["sq_odd.q"].encode()] == [
        ANSWERS["qconf -sq main.q"],
        SECOND_QUEUE["qconf -sq odd.q"],
    ]


def test_objects_that_cannot_be_told_apart_are_read_one_by_one() -> None:
    """Another Grid Engine may print something between them."""
    together = b"# 2 queues\n" + ANSWERS["qconf -sq main.q"] + SECOND_QUEUE["qconf -sq odd.q"]
    master = Master({**SECOND_QUEUE, "qconf -sq main.q -sq odd.q": together})
    assert read_configuration(master)["sq_odd.q"].encode() == SECOND_QUEUE["qconf -sq odd.q"]


def test_a_command_line_never_grows_beyond_what_a_system_takes() -> None:
    names = [f"queue-{number}-{'x' * 200}.q" for number in range(LONGEST_COMMAND // 200)]
    shown = {f"qconf -sq {name}": f"qname {name}\nhostlist NONE\nslots 1\n".encode() for name in names}
    master = Master({"qconf -sql": "\n".join(names).encode(), **shown})
    reader = ConfigurationReader()
    first = reader.read(master)
    read = len(master.asked)
    assert (reader.read(master) is first, len(master.asked) - read) == (True, 2)
    assert max(map(len, master.asked)) <= LONGEST_COMMAND + len(names[0])


def test_a_warning_beside_a_list_does_not_make_it_empty() -> None:
    class Warns(Master):
        def __call__(self, argv: Sequence[str], **more: Any) -> Completed:
            done = super().__call__(argv, **more)
            return replace(done, stderr=b"no such user defined in the environment") if argv[1] == "-spl" else done

    assert "sp_mpi" in read_configuration(Warns())
