"""`autoscale` and `requests`: no request is lost, with or without an autoscaler that listens."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.commands import _service
from autoscaler.commands._http import request_socket
from autoscaler.commands._service import service, socket_path
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.constraints.request_documents import Caller, ask
from autoscaler.core.model.request_sets import RequestSet, Target
from autoscaler.errors import SettingsError
from autoscaler.jetpack.service import OF_ROOT
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.store import Store
from tests.cases.whole import whole
from tests.commands.test_answers import listening
from tests.commands.test_commands import environ
from tests.web.served import serve_requests

__all__ = ["environ", "listening"]

EXECUTE = '[{"Name": "execute", "TargetCount": 2}]'


@pytest.fixture
def invocation(environ: dict[str, str]) -> Invocation:
    return Invocation(environ)


@pytest.fixture
def cell_store(invocation: Invocation) -> Iterator[Store]:
    """The cell's, and empty."""
    opened = Store.open(invocation.store_file)
    yield opened
    opened.close()


@pytest.fixture
def served(invocation: Invocation, cell_store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of a service that listens where this cell's does."""
    with request_socket(
        invocation, lambda: make_app(Api(requests=service(invocation, cell_store, lambda: ("execute",), lambda: None)))
    ):
        assert socket_path(invocation).is_socket()
        yield cell_store


def live(store: Store) -> tuple[RequestSet, ...]:
    return store.requests.load(time.time()).sets


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip()


def test_vcpus_are_requested_by_corecount(served: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["autoscale", "--name=execute", "--corecount=128"])
    assert (code, [one.targets for one in live(served)]) == (0, [(Target("execute", cores=128),)])


def test_a_request_prints_its_set_and_how_long_it_lasts(served: Store, capsys: pytest.CaptureFixture[str]) -> None:
    main(["autoscale", "--name=execute", "--count=2", "--request-set=mine", "--expiration=2h"])
    (mine,) = live(served)
    assert (mine.name, round((mine.expires_at or 0) - mine.at), printed(capsys)[:31]) == (
        "mine",
        7200,
        "request set mine: execute for 7"[:31],
    )


@pytest.mark.parametrize("given", ("file", "-"))
def test_a_list_is_read_from_a_file_or_standard_input(
    served: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "arrays.json").write_text(EXECUTE, encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(EXECUTE.encode())))
    code = main(["autoscale", "-f", str(tmp_path / "arrays.json") if given == "file" else "-"])
    assert (code, live(served)[0].targets) == (0, (Target("execute", count=2),))


@pytest.mark.parametrize(
    ("text", "error"),
    (
        (
            '[{"Name": "execute", "TargetCoreCount": 128',
            "[0].TargetCoreCount: the text ends inside this: close what is open (line 1, column 44)",
        ),
        ('[{"Name": "execute", "TargetCount": -1}]', "[0].TargetCount: a whole number"),
        ('{"Name": "execute"}', "the arrays: a list is expected"),
    ),
)
def test_a_wrong_file_is_refused_with_its_place_and_changes_nothing(
    served: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    (tmp_path / "arrays.json").write_text(text, encoding="utf-8")
    code = main(["autoscale", "--file", str(tmp_path / "arrays.json")])
    assert (code, error in capsys.readouterr().err, live(served)) == (2, True, ())


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize(
    "arguments",
    ([], ["--name=execute"], ["--name=execute", "--file=x"], ["--file=x", "--count=2"], ["--file=/nowhere/x"]),
)
def test_missing_or_contradictory_options_are_a_usage_error(arguments: list[str]) -> None:
    assert main(["autoscale", *arguments]) == 2


def test_without_a_service_the_request_is_stored_and_the_command_says_so(
    cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["autoscale", "--name=execute", "--count=2"])
    assert (code, live(cell_store)[0].targets, "no autoscaler serves this cell now" in printed(capsys)) == (
        0,
        (Target("execute", count=2),),
        True,
    )


def test_a_loop_without_a_socket_finds_the_request_in_the_store(
    invocation: Invocation, cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(invocation.cell, lock_directory()):
        main(["autoscale", "--name=execute", "--count=2"])
    assert (len(live(cell_store)), "no autoscaler" in printed(capsys)) == (1, False)


def test_a_socket_left_by_a_crash_is_ignored(invocation: Invocation, cell_store: Store) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_path(invocation)))
    assert (main(["autoscale", "--name=execute", "--count=2"]), len(live(cell_store))) == (0, 1)


@pytest.fixture
def hanging(invocation: Invocation, listening: Callable[[str], Path]) -> Iterator[Invocation]:
    """A service that accepts connections and does nothing: a client would wait for it for five minutes."""
    state, path = str(invocation.state_directory), str(listening("hangs"))
    with hold(invocation.cell, lock_directory(), state=state, socket_path=path):
        yield invocation


@pytest.mark.timeout(120)
@pytest.mark.thorough
def test_for_a_hanging_service_requests_are_stored_and_ended(
    hanging: Invocation, cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["autoscale", "--name=execute", "--count=2"]) == 0
    output = capsys.readouterr()
    assert ("request set standard: execute" in output.out, output.err.count("it hangs, or was stopped")) == (True, 1)
    assert "this command stores this for when it goes on" in output.err
    assert [one.targets for one in live(cell_store)] == [(Target("execute", count=2),)]
    assert main(["requests"]) == 0
    output = capsys.readouterr()
    assert ("execute" in output.out, "this command shows what it has stored" in output.err) == (True, True)
    assert main(["requests", "--end", "standard"]) == 0
    assert "stores this for when it goes on" in capsys.readouterr().err
    assert live(cell_store) == ()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("words", (["autoscale", "--name=execute", "--count=2"], ["requests", "--end", "standard"]))
def test_a_user_who_may_not_store_is_told_that_a_hanging_service_got_nothing(
    hanging: Invocation, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_service, "_ours_to_write", lambda invocation: False)
    assert main(words) == 4
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert "it hangs, or was stopped; nothing was requested: let it go on, or start it again" in output.err


def test_a_wrong_request_is_refused_without_a_service_too(
    cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["autoscale", "--name=exceute", "--count=2"])
    assert (code, "did you mean execute?" in capsys.readouterr().err, live(cell_store)) == (2, True, ())


def test_a_configured_address_that_does_not_answer_stores_nothing_locally(
    cell_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_URL", "http://127.0.0.1:1")
    assert (main(["autoscale", "--name=execute", "--count=2"]), live(cell_store)) == (4, ())


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["requests", "--json"]) == 0
    document: dict[str, Any] = json.loads(printed(capsys))
    return document


@pytest.mark.parametrize("listens", (True, False))
def test_every_live_request_is_shown(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], listens: bool
) -> None:
    request.getfixturevalue("served" if listens else "cell_store")
    main(["autoscale", "--name=execute", "--count=2", "--request-set=a"])
    main(["autoscale", "--name=execute", "--count=3", "--request-set=b"])
    document = shown(capsys)
    assert ([one["name"] for one in document["request_sets"]], document["node_arrays"][0]["count"]) == (["a", "b"], 5)


def test_the_text_shows_requests_by_caller_and_end(cell_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = [
        {"Name": "execute", "TargetCount": 1},
        {"Name": "execute", "TargetGroupCount": 4, "GroupCoreCount": 64},
        {"Name": "big", "Dynamic": True, "TargetCoreCount": 128},
    ]
    now = time.time()
    ask(cell_store, arrays, Caller("alice", now, ("execute",)), request_set="a", expiration_interval=None)
    ask(cell_store, arrays[:1], Caller("bob", now, ("execute",)), request_set="b", expiration_interval=60)
    ask(cell_store, [], Caller("eve", now, ("execute",)), request_set="c", expiration_interval=60)
    main(["requests"])
    lines = [line.partition("until 2")[0] for line in printed(capsys).splitlines()]
    assert lines == [
        "a: requested by alice, until it is ended",
        "  execute: 1 worker",
        "  execute:64: 4 groups of 64 vCPUs",
        "  big: 128 vCPUs",
        "b: requested by bob, ",
        "  execute: 1 worker",
        "c: requested by eve, ",
        "in sum:",
        "  big: 128 vCPUs",
        "  execute: 2 workers",
        "  execute:64: 4 groups of 64 vCPUs",
    ]


def test_the_text_shows_limits_of_requests_and_their_callers(
    cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    capped = [{"Name": "execute", "TargetCount": 9, "MaxCount": 3, "MaxCoreCount": 12}]
    now = datetime(2099, 1, 1, tzinfo=UTC).timestamp()
    bare = [{"Name": "execute"}]
    ask(cell_store, capped, Caller("alice", now, ("execute",)), request_set="a", expiration_interval=None)
    ask(cell_store, [{**bare[0], "MaxCount": 2}], Caller("bob", now, ("execute",)), request_set="b")
    ask(cell_store, bare, Caller("eve", now, ("execute",)), request_set="c")
    main(["requests"])
    moment = datetime.fromtimestamp(now + 300, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert printed(capsys).splitlines()[-1] == (
        f"  execute: 9 workers; at most 2 workers (MaxCount), set by bob in b until {moment}"
        " and 12 vCPUs (MaxCoreCount), set by alice in a"
    )


@pytest.mark.usefixtures("environ")
def test_without_requests_the_command_says_so_and_creates_no_file(
    invocation: Invocation, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["requests"])
    assert (printed(capsys), invocation.store_file.exists()) == ("there are no live requests", False)


@pytest.mark.parametrize("listens", (True, False))
def test_a_set_is_ended_once(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], listens: bool) -> None:
    store = request.getfixturevalue("served" if listens else "cell_store")
    main(["autoscale", "--name=execute", "--count=2", "--request-set=a/b c"])
    capsys.readouterr()
    codes = [main(["requests", "--end", "a/b c"]) for _ in range(2)]
    output = capsys.readouterr()
    assert (codes, output.out, live(store)) == ([0, 3], "request set a/b c has ended\n", ())
    assert "request set a/b c does not exist; there are: none" in output.err


@pytest.fixture
def as_anybody(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An ordinary user on the master host, without settings."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("CP_CAP_AUTOSCALE_WORKDIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("autoscaler.commands._service.OF_ROOT", tmp_path / "run")
    return {**{k: v for k, v in environ.items() if not k.endswith("WORKDIR")}, "XDG_STATE_HOME": str(tmp_path / "home")}


def test_an_ordinary_user_reaches_the_autoscaler_of_root(as_anybody: dict[str, str], tmp_path: Path) -> None:
    invocation, store = Invocation(as_anybody), Store.open(None)
    path = tmp_path / "run" / socket_path(invocation).name
    with serve_requests(service(invocation, store, lambda: ("execute",), lambda: None), path):
        code = main(["autoscale", "--name=execute", "--count=2"])
    assert (code, len(live(store))) == (0, 1)


def test_without_a_service_an_ordinary_user_is_refused_and_nothing_is_stored(
    as_anybody: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = {main(words) for words in (["autoscale", "--name=execute", "--count=2"], ["requests", "--end", "a"])}
    printed = capsys.readouterr().err
    assert (code, "you may not write its state" in printed, (tmp_path / "home").exists()) == (4, True, False)


def test_root_listens_at_the_well_known_path(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    del environ["CP_CAP_AUTOSCALE_WORKDIR"]
    path = socket_path(Invocation(environ))
    assert (path.parent, path.name.startswith("default-"), path.suffix) == (OF_ROOT, True, ".sock")


def test_with_a_socket_group_root_listens_at_the_well_known_path(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    places = [
        socket_path(Invocation({**environ, **more})).parent for more in ({}, {"CP_CAP_AUTOSCALE_SOCKET_GROUP": "users"})
    ]
    assert places == [tmp_path / "state", OF_ROOT]


def test_an_unusable_default_socket_is_only_a_warning(
    invocation: Invocation, cell_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    path = socket_path(invocation)
    path.write_text("in the way")
    with request_socket(
        invocation, lambda: make_app(Api(requests=service(invocation, cell_store, tuple, lambda: None)))
    ):
        assert "callers cannot request workers" in caplog.text


def test_an_unusable_configured_socket_is_an_error(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_text("")
    chosen = Invocation({**environ, "CP_CAP_AUTOSCALE_SOCKET": str(tmp_path / "in-the-way")})
    with (
        chosen.store() as store,
        pytest.raises(SettingsError, match="exists and is not a socket"),
        request_socket(chosen, lambda: make_app(Api(requests=service(chosen, store, tuple, lambda: None)))),
    ):
        pass


def test_buckets_names_the_request_whose_machine_type_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    record = whole("requests/a-machine-type-not-offered-launches-nothing-and-is-reported")
    main(["buckets", "--from", str(record)])
    assert (
        "the provider offers nothing of what is requested for execute: c3.xlarge; requested by standard"
    ) in capsys.readouterr().out


@pytest.mark.parametrize("listens", (True, False))
def test_an_array_of_another_cluster_is_refused_and_our_own_name_is_accepted(
    request: pytest.FixtureRequest, listens: bool, tmp_path: Path, cell_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    if listens:
        request.getfixturevalue("served")
    files = []
    for name in ("other", "default"):
        files.append(tmp_path / name)
        files[-1].write_text(json.dumps([{"Name": "execute", "TargetCount": 2, "ClusterName": name}]))
    refused = main(["autoscale", "--file", str(files[0])])
    assert "[0].ClusterName: this is cluster default, not 'other'" in capsys.readouterr().err
    assert (refused, live(cell_store)) == (2, ())
    assert main(["autoscale", "--file", str(files[1])]) == 0
    assert live(cell_store)[0].targets == (Target("execute", count=2),)
