"""The configuration: read once, confirmed by one command in later passes, read again when anything changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.errors import CommandError, CommandNotFound, CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed, ReadOnlyRunner
from autoscaler.sge.configuration import LONGEST_COMMAND, ConfigurationReader, read_configuration, require_success, run
from tests.sge.test_cluster_reading import ANSWERS, Master

SECOND_QUEUE = {
    "qconf -sql": b"main.q\nodd.q\n",
    "qconf -sq odd.q": b"qname odd.q\nhostlist NONE\nslots 1\npe_list NONE\n",
}


def changed(master: Master, answers: Mapping[str, bytes | tuple[int, bytes]]) -> None:
    master.changed = {**master.changed, **answers}


def test_an_unchanged_configuration_is_confirmed_by_one_command() -> None:
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
def test_a_change_of_any_object_is_in_the_next_reading(answers: Mapping[str, bytes], stem: str) -> None:
    master, reader = Master(), ConfigurationReader()
    before = reader.read(master)
    changed(master, answers)
    after = reader.read(master)
    assert (after.get(stem) != before.get(stem), dict(after)) == (True, read_configuration(master))


JOINED = {
    "qconf -sel": b"w1\nw2\n",
    "qconf -shgrp @allhosts": b"group_name @allhosts\nhostlist w1 w2\n",
    "qconf -sq main.q": ANSWERS["qconf -sq main.q"].replace(b"slots 4", b"slots 4,[w2=8]"),
}


def test_changes_by_a_worker_that_joins_or_leaves_are_read_by_the_confirming_command() -> None:
    master, reader = Master({"qconf -sel": b"w1\n"}), ConfigurationReader()
    before = dict(reader.read(master))
    master.asked.clear()
    changed(master, JOINED)
    joined = dict(reader.read(master, ours=["w2"]))
    again = dict(reader.read(master, ours=["w2"]))
    changed(master, {name: ANSWERS[name] for name in JOINED} | {"qconf -sel": b"w1\n"})
    left = dict(reader.read(master))
    assert (len(master.asked), left) == (3, before)
    changed(master, JOINED)
    assert joined == again == read_configuration(master) != before


def test_the_first_host_of_an_empty_cell_is_read_by_the_confirming_command() -> None:
    master, reader = Master({"qconf -sel": (1, b"no execution host defined")}), ConfigurationReader()
    reader.read(master)
    master.asked.clear()
    changed(master, {"qconf -sel": b"w1\n"})
    assert (reader.read(master)["sel"], len(master.asked)) == ("w1\n", 1)


@pytest.mark.parametrize("more", ({}, SECOND_QUEUE))
def test_an_output_that_is_cut_short_anywhere_does_not_count_as_the_configuration(more: Mapping[str, bytes]) -> None:
    class Cut(Master):
        left: int | None = None

        def __call__(self, argv: Sequence[str], **means: Any) -> Completed:
            done = super().__call__(argv, **means)
            all_at_once = "-sc" in argv and len(argv) > 2
            return replace(done, stdout=done.stdout[: self.left]) if all_at_once else done

    master = Cut(dict(more))
    ConfigurationReader().read(master)
    whole = 0
    for left in range(1, 400):
        master.left, master.changed = None, dict(more)
        reader = ConfigurationReader()
        reader.read(master)
        changed(master, JOINED)
        master.left = left
        master.asked.clear()
        found = dict(reader.read(master))
        whole += len(master.asked) == 1
        assert found == read_configuration(master), left
    assert whole > 0


names = st.sampled_from((b"w1\n", b"w2\nw3\n", b"@allhosts\n", b"main.q\n", b"mpi\n"))
attributes = st.sampled_from(
    (b"slots 9\n", b"hostname global\n", b"qname main.q\n", b"group_name @x\nhostlist w9\n", b"x y")
)
LISTS = ("qconf -sel", "qconf -sql", "qconf -spl", "qconf -shgrpl")
edited = st.sampled_from([name for name in ANSWERS if name.startswith("qconf -s")]).flatmap(
    lambda name: st.tuples(st.just(name), names if name in LISTS else attributes, st.booleans())
)


@given(st.lists(edited, max_size=4))
def test_after_any_edits_the_reader_gives_what_single_commands_print(edits: list[tuple[str, bytes, bool]]) -> None:
    """Lines that other switches print as well come at the beginning or the end of some objects."""
    master, reader = Master({"qconf -sel": b"w1\n"}), ConfigurationReader()
    reader.read(master)
    for name, line, front in edits:
        had = {**ANSWERS, **master.changed}[name]
        assert isinstance(had, bytes)
        changed(master, {name: line + had if front else had + line})

    def result(read: Callable[[], Mapping[str, str]]) -> object:
        try:
            return dict(read())
        except (GridEngineNotObservable, KeyError) as error:
            return type(error)

    assert result(lambda: reader.read(master)) == result(lambda: read_configuration(master))


def test_a_list_that_is_no_longer_empty_is_read_again() -> None:
    master = Master({"qconf -srqs": (1, b"no resource quota set defined")})
    reader = ConfigurationReader()
    assert reader.read(master)["srqs"] == ""
    changed(master, {"qconf -srqs": ANSWERS["qconf -srqs"]})
    assert "slots=9" in reader.read(master)["srqs"]


def test_empty_lists_do_not_prevent_the_confirmation() -> None:
    master = Master({"qconf -srqs": (1, b"no resource quota set defined"), "qconf -spl": (1, b"no PE list defined")})
    reader = ConfigurationReader()
    first = reader.read(master)
    assert reader.read(master) is first


def test_load_reports_are_not_a_change_of_the_configuration() -> None:
    """`qconf -se` shows them as well, and every pass would read everything again."""

    def shown(load: bytes) -> bytes:
        return b"hostname w1\nload_values arch=lx-amd64,\\\n    load_avg=" + load + b"\nuser_lists staff\n"

    restricted = ANSWERS["qconf -sq main.q"] + b"user_lists staff\n"
    staff = b"name staff\ntype ACL\nentries ann\n"
    master = Master({"qconf -sq main.q": restricted, "qconf -se w1": shown(b"0.1"), "qconf -su staff": staff})
    reader = ConfigurationReader()
    first = reader.read(master)
    changed(master, {"qconf -se w1": shown(b"7.5")})
    assert reader.read(master) is first


def test_the_configuration_is_read_again_when_a_host_becomes_ours() -> None:
    master, reader = Master(), ConfigurationReader()
    first = reader.read(master)
    assert reader.read(master, ours=["w1"]) is not first


@pytest.mark.parametrize(
    "failure",
    (CommandTimedOut("qconf did not end within 30 s"), (1, b"error: commlib error: got select error"), (0, b"")),
)
def test_a_confirmation_without_an_answer_fails_the_observation(failure: Exception | tuple[int, bytes]) -> None:
    """An earlier reading does not count as the present one (rule 2)."""

    class Silent(Master):
        def _answer(self, argv: tuple[str, ...]) -> bytes | Exception | tuple[int, bytes]:
            return failure

    reader = ConfigurationReader()
    reader.read(Master())
    with pytest.raises(GridEngineNotObservable):
        reader.read(Silent())


def test_a_reading_that_failed_halfway_is_not_confirmed_later() -> None:
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


def test_objects_that_cannot_be_separated_are_read_one_by_one() -> None:
    """Another Grid Engine may print something between them."""
    together = b"# 2 queues\n" + ANSWERS["qconf -sq main.q"] + SECOND_QUEUE["qconf -sq odd.q"]
    master = Master({**SECOND_QUEUE, "qconf -sq main.q -sq odd.q": together})
    assert read_configuration(master)["sq_odd.q"].encode() == SECOND_QUEUE["qconf -sq odd.q"]


def test_a_command_line_never_grows_beyond_the_limit() -> None:
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


@pytest.mark.parametrize(
    ("command", "error", "advice"),
    (
        ("qstat", b"error: commlib error: got select error (Connection refused)", "check that sge_qmaster runs"),
        ("qconf", b'unable to send message to qmaster using port 6444 on host "m": got send error', "sge_qmaster runs"),
        ("qconf", b'denied: host "w9" is neither submit nor admin host', "may not ask that"),
        ("qstat", b'error: ERROR! invalid option argument "-zz"', "default options in sge_qstat"),
        ("qconf", b'error: unknown option "-zz"', "run it by hand"),
        ("qconf", b"critical error: Please set the environment variable SGE_ROOT.", "check SGE_ROOT"),
    ),
)
def test_only_a_qmaster_that_cannot_be_reached_is_said_not_to_run(command: str, error: bytes, advice: str) -> None:
    with pytest.raises(GridEngineNotObservable) as raised:
        require_success(Completed((command,), 1, b"", error, 0.1))
    assert advice in str(raised.value)
    assert ("sge_qmaster runs" in str(raised.value)) is ("sge_qmaster runs" in advice)


@pytest.mark.parametrize(
    ("ended", "advice"), ((CommandTimedOut("too late"), "busy"), (CommandNotFound("none"), "in PATH"))
)
def test_a_command_that_did_not_end_or_is_not_there_says_nothing_of_sge_qmaster(
    ended: CommandError, advice: str
) -> None:
    def never(*_: object, **__: object) -> Completed:
        raise ended

    with pytest.raises(GridEngineNotObservable) as raised:
        run(never, ("qconf", "-sss"), 1.0)
    assert advice in str(raised.value)
    assert "sge_qmaster runs" not in str(raised.value)
