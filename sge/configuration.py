"""Reads Grid Engine's configuration, and confirms in every later pass by one command that it has not changed.

Grid Engine notifies no client of changes to its configuration (`qevent` knows of jobs only), so a reading becomes
uncertain at once. But one `qconf` takes many switches, costs little more than with one, and prints for each the same as
alone. If the whole output equals the earlier one byte for byte, nothing has changed. If only hosts' places changed, as
by every worker that joins or leaves, `sge.split_output` takes them from the output. Otherwise all is read anew: no pass
uses a configuration that Grid Engine did not show in that pass (rule 2).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from autoscaler.errors import CommandError, CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed, Runner
from autoscaler.sge import access
from autoscaler.sge.membership import split_objects
from autoscaler.sge.messages import Meaning, meaning
from autoscaler.sge.qconf import read_attributes, read_names, read_queue
from autoscaler.sge.split_output import Shown, split_output

TIMEOUT = 30.0
"""Seconds for one call. A qmaster that needs longer is not observable now; the next pass asks again."""
LONGEST_COMMAND = 100_000
"""Bytes of one command line, at most: a system accepts no more than about a million."""
TOGETHER = 100
"""This many objects of a kind are read by one command; a name of Grid Engine's has 512 bytes at most."""

_NONE_DEFINED = re.compile(r"^(error: )?no\b.*\b(defined|found|exists?)\b|does not exist", re.IGNORECASE | re.MULTILINE)
"""The sentences with which qconf reports, with a non-zero exit, that a list is empty."""
_LISTS = (("sq", "-sql", "qname"), ("sp", "-spl", "pe_name"), ("shgrp", "-shgrpl", "group_name"))
"""Kinds of object, the switch that names them all, and the attribute that each object begins with."""
_LOADS = re.compile(rb"^load_values(?:.*\\\n)*.*$", re.MULTILINE)
"""Lines of `qconf -se` besides a host's configuration, new with every load report; nothing here reads them."""

_Shown = list[Shown]


class ConfigurationReader:
    """One for the life of a process."""

    def __init__(self) -> None:
        self._texts: Mapping[str, str] | None = None
        self._shown: _Shown = []
        self._ours: frozenset[str] = frozenset()

    def read(self, runner: Runner, timeout: float = TIMEOUT, ours: Iterable[str] = ()) -> Mapping[str, str]:
        """Every `qconf -s…` of a cluster's configuration, by file stem; the same object as long as nothing has changed.

        `ours`: hosts that we made, so that none has access lists of its own. Raises GridEngineNotObservable.
        """
        ours, known = frozenset(ours), None
        if self._texts is not None:
            known = _shown_now(runner, timeout, self._shown)
            if known == self._shown and ours == self._ours:
                return self._texts
        self._texts, self._shown, self._ours = None, [], ours  # half a reading does not count
        texts = _read(runner, timeout, ours, self._shown, known or [])
        self._texts = MappingProxyType(texts)
        return self._texts


def read_configuration(runner: Runner, timeout: float = TIMEOUT, ours: Iterable[str] = ()) -> dict[str, str]:
    """The same, read once. Raises GridEngineNotObservable."""
    return _read(runner, timeout, frozenset(ours), [], [])


def _read(runner: Runner, timeout: float, ours: frozenset[str], shown: _Shown, known: _Shown) -> dict[str, str]:
    """`shown` gets each request and Grid Engine's output, in order. `known`: its output in this pass."""
    answers = {part.switches: part for part in known}

    def show(*switches: str, may_be_empty: bool = False) -> str:
        part = answers.get(switches) or _show(runner, timeout, *switches, may_be_empty=may_be_empty)
        shown.append(part)
        return part.text

    texts = {
        "sc": show("-sc"),
        "sel": show("-sel", may_be_empty=True),
        "sckptl": show("-sckptl", may_be_empty=True),
        "se_global": show("-se", "global"),
        "srqs": show("-srqs", may_be_empty=True),
        "ssconf": show("-ssconf"),
        "sconf": show("-sconf"),
    }
    for kind, switch, first in _LISTS:
        texts |= _objects(show, kind, first, read_names(show(switch, may_be_empty=True)))
    texts |= _objects(show, "scal", "calendar_name", list(_calendars(texts)))
    return texts | access.read_restrictions(texts, show, ours)


def _objects(show: access.Show, kind: str, first: str, names: Sequence[str]) -> dict[str, str]:
    """All objects of a kind by few commands; one by one if their output cannot be split for certain."""
    if len(names) > TOGETHER:
        return _objects(show, kind, first, names[:TOGETHER]) | _objects(show, kind, first, names[TOGETHER:])
    if len(names) > 1:
        text = show(*(word for name in names for word in (f"-{kind}", name)), may_be_empty=True)
        parts = split_objects(text, first)
        if "".join(parts) == text and [read_attributes(part).get(first) for part in parts] == list(names):
            return {f"{kind}_{name}": part for name, part in zip(names, parts, strict=True)}
    return {f"{kind}_{name}": show(f"-{kind}", name) for name in names}


def _calendars(texts: Mapping[str, str]) -> Iterator[str]:
    """The calendars that queues name, each once. A queue that cannot be read names none, and is reported elsewhere."""
    found: dict[str, None] = {}
    for text in (text for stem, text in texts.items() if stem.startswith("sq_")):
        with suppress(ValueError):
            queue = read_queue(text)
            found.update(dict.fromkeys(name for name in (queue.calendar, *queue.calendar_by_host.values()) if name))
    yield from found


def _shown_now(runner: Runner, timeout: float, shown: _Shown) -> _Shown | None:
    """The present output of these switches, by one command: the same as before, or one that can be split; None if all
    has to be read anew. Raises if Grid Engine did not answer.
    """
    parts = list(_parts(shown))
    for part in parts:
        printed = _LOADS.sub(b"", _print(runner, timeout, part))
        if printed != _LOADS.sub(b"", b"".join(one.printed for one in part)):
            bare = [one._replace(printed=_LOADS.sub(b"", one.printed)) for one in part]
            return split_output(bare, printed) if len(parts) == 1 else None
    return shown


def _parts(shown: _Shown) -> Iterator[_Shown]:
    """As few parts as command lines allow."""
    part: _Shown = []
    length = 0
    for one in shown:
        added = sum(len(word.encode()) + 1 for word in one.switches)
        if part and length + added > LONGEST_COMMAND:
            yield part
            part, length = [], 0
        part.append(one)
        length += added
    yield part


def _print(runner: Runner, timeout: float, shown: _Shown) -> bytes:
    done = run(runner, ("qconf", *(word for one in shown for word in one.switches)), timeout)
    # qconf complains about an empty list and goes on with the next switch: its exit status shows nothing.
    expected = any(one.printed for one in shown)
    if Meaning.UNREACHABLE in map(meaning, _error_output(done).splitlines()) or (expected and not done.stdout.strip()):
        require_success(done)
    return done.stdout


def _show(runner: Runner, timeout: float, *switches: str, may_be_empty: bool = False) -> Shown:
    done = run(runner, ("qconf", *switches), timeout)
    text = done.stdout.decode("utf-8", "replace")
    others = [line for line in text.splitlines() if line.strip() and not _NONE_DEFINED.search(line)]
    said_empty = _NONE_DEFINED.search(f"{text}\n{_error_output(done)}") is not None
    if may_be_empty and said_empty and (done.returncode != 0 or not others):
        return Shown(switches, done.stdout, "")  # with a list beside it, the sentence is a warning about something else
    require_success(done, may_be_empty=may_be_empty)
    return Shown(switches, done.stdout, text)


def _error_output(done: Completed) -> str:
    return done.stderr.decode("utf-8", "replace")


def run(runner: Runner, argv: Sequence[str], timeout: float) -> Completed:
    """One command to its end, however it ended. Raises GridEngineNotObservable if it gave no answer."""
    try:
        return runner(argv, timeout=timeout)
    except CommandError as error:
        late = isinstance(error, CommandTimedOut)
        advice = _BUSY if late else "check that Grid Engine's commands are in PATH here and can be run"
        raise GridEngineNotObservable(f"{error}; nothing was decided; {advice}") from error


RUNS = "check that sge_qmaster runs"
_BUSY = "qmaster may be busy, or cannot be reached: `qconf -sss` shows whether it answers"
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"commlib|connect|got (send|select|read) error|contact qmaster|qmaster .*(not|n't) (running|alive)", re.I
        ),
        f"{RUNS} and that SGE_ROOT, SGE_CELL and the ports are right",
    ),
    (
        re.compile(r"denied|neither submit nor admin host|no (submit|admin) host|permission", re.I),
        "this host or account may not ask that: `sge-autoscaler doctor` names the missing right",
    ),
    (re.compile(r"SGE_ROOT|SGE_CELL|resolve"), "check SGE_ROOT, SGE_CELL and the names of hosts"),
)
"""By what a command wrote as its error: what to look at."""
_ANY_ERROR = {"qstat": "check default options in sge_qstat (`sge-autoscaler doctor`)"}
"""By command: the same, if its words are none of these."""


def _advice(command: str, error: str) -> str:
    found = next((advice for words, advice in _ADVICE if words.search(error)), "")
    return found or _ANY_ERROR.get(command, "run it by hand to see more")


def require_success(done: Completed, *, may_be_empty: bool = False) -> None:
    """Raise GridEngineNotObservable if a command failed, or printed nothing although it must."""
    shown = shlex.join(done.argv)
    error = " ".join(_error_output(done).split())[:300] or "nothing on its error output"
    if done.returncode != 0:
        raise GridEngineNotObservable(
            f"`{shown}` failed with exit status {done.returncode}: {error}; nothing was decided; "
            f"{_advice(done.argv[0] if done.argv else '', error)}"
        )
    if not done.stdout.strip() and not may_be_empty:
        raise GridEngineNotObservable(f"`{shown}` answered nothing at all: {error}; nothing was decided")
