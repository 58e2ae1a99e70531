"""Grid Engine's job submission verifier: the conversation with the qmaster, and the request that it contains.

The qmaster says START, waits for STARTED, describes the job line by line (`PARAM pe_max 100`), says BEGIN and waits for
the RESULT. It looks for answers every 10 ms. It sends the arguments of a job as they are, line ends included, so that a
job may seem to say BEGIN or START itself: only a BEGIN without a further line counts. Where a pipe is full just
behind such an argument, the qmaster pauses there, and a job is answered early. What then comes of it is left unread.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autoscaler.core.model.cluster import UNLIMITED_SLOTS, JobRequest

SILENCE = 0.002
"""Seconds without another line after which a BEGIN is the qmaster's own. It writes all lines at once."""
LATE = 0.25
"""The same for a START, if something came that is not of a job: the rest of one whose arguments said BEGIN."""
REST = 1.0
"""Seconds within which such a job goes on. The qmaster gives up after ten."""
LONGEST = 1500
"""Most characters of a sentence: the qmaster reads lines of less than 10,000."""
LONGEST_LINE = 1_000_000
"""Bytes of a line from which on it is not kept: `-hold_jid` may have many megabytes, and while one job is judged the
qmaster accepts no other.
"""
_TOLD = frozenset({"pe_name", "pe_min", "pe_max", "l_hard", "q_hard", "masterq", "ar", "USER", "P", "ckpt"})

_REQUEST = re.compile(r"(?:[^,()\[\]]|\([^()]*\)|\[[^\[\]]*\]|[()\[\]])+")
"""A comma inside brackets separates nothing: it belongs to a resource map's units, or to a pattern."""

Refusal = Callable[[Mapping[str, str]], str | None]
"""From a job's parameters to the sentence with which it is refused; None: it is accepted."""
Correction = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From a job's parameters to the changed ones, by name; empty: it stays as it is."""


class OutOfStep(Exception):
    """The qmaster's line does not fit the conversation so far: only a new beginning brings both together."""


@dataclass(slots=True)
class Conversation:
    """One side of it, with two pipes."""

    incoming: int
    outgoing: int
    refusal: Refusal
    correction: Correction = lambda _: {}
    _pending: bytes = field(default=b"", init=False)

    def hold(self) -> None:
        """Answer until the qmaster says QUIT or hangs up. Raises OutOfStep."""
        early = False
        """Whether something came since the last answer."""
        while (line := self._line()) is not None:
            within = LATE if early else SILENCE
            if line == "QUIT" and not self._more(within):
                return
            if line == "START" and not self._more(within):
                early = False
                self._say("STARTED")
                self._job()
                continue
            early = True
            if line and not (line == "BEGIN" and not self._more()):
                self._leave_rest(line)

    def _leave_rest(self, line: str) -> None:
        """Read on to the end of a job that was answered early. It has had its answer: another one would be taken for
        that to the next job. Raises OutOfStep if no end comes.
        """
        while self._more(REST):
            following = self._line()
            if following is None or (following == "BEGIN" and not self._more()):
                return
        raise OutOfStep(line)

    def _job(self) -> None:
        """Read one job to its end and answer."""
        parameters: dict[str, str] = {}
        while (line := self._line()) is not None:
            if line == "BEGIN" and not self._more():
                self._answer(parameters)
                return
            word, _, rest = line.partition(" ")
            name, _, value = rest.partition(" ")
            if word == "PARAM" and name == "A":
                # Every job has an account, sent after its arguments: parameters that these seemed to contain are
                # forgotten.
                parameters = {name: value for name, value in parameters.items() if name in ("ar", "USER")}
            elif word == "PARAM" and name in _TOLD:
                parameters[name] = value

    def _answer(self, parameters: Mapping[str, str]) -> None:
        corrected = self.correction(parameters)
        sentence = self.refusal({**parameters, **corrected})
        if sentence is not None:
            self._say(f"RESULT STATE REJECT {_one_line(sentence)}")
            return
        for name, value in corrected.items():
            self._say(f"PARAM {name} {value}")
        self._say("RESULT STATE CORRECT" if corrected else "RESULT STATE ACCEPT")

    def _line(self) -> str | None:
        """The next line, or the beginning of one that is too long; None if nobody is there any more."""
        parts, kept = [], 0
        while True:
            part, end, self._pending = self._pending.partition(b"\n")
            if kept < LONGEST_LINE:
                parts.append(part)
                kept += len(part)
            if end:
                return b"".join(parts).decode("utf-8", "replace").strip()
            self._pending = os.read(self.incoming, 65536)
            if not self._pending:
                return None

    def _more(self, within: float = SILENCE) -> bool:
        """Whether something follows within so many seconds, the end included."""
        return bool(self._pending or select.select((self.incoming,), (), (), within)[0])

    def _say(self, line: str) -> None:
        data = line.encode("ascii", "replace") + b"\n"
        while data:
            data = data[os.write(self.outgoing, data) :]


def read_request(parameters: Mapping[str, str]) -> JobRequest | None:
    """A job's request, in the words of `qstat`; None if it is bound to something else (an advance reservation).

    Raises ValueError for a request that cannot be understood.
    """
    if "ar" in parameters:
        return None
    pe, least, most = parameters.get("pe_name"), 1, 1
    if pe is not None:
        ends = int(parameters["pe_min"]), int(parameters.get("pe_max", parameters["pe_min"]))
        # Of several ranges (`-pe mpi 4,8,100`) the qmaster sends the lowest only, and there may be no end to them.
        least, most = min(ends), UNLIMITED_SLOTS if ends[0] != ends[1] else ends[1]
        if least < 1:
            raise ValueError(f"no number of slots: {parameters['pe_min']!r}")
    hard = (part.partition("=") for part in split_requests(parameters.get("l_hard", "")))
    return JobRequest(
        state="qw",
        slots_min=least,
        slots_max=most,
        pe=pe,
        # A request without a value (`-l exclusive`) is one for TRUE.
        hard=tuple(sorted((name, value if equals else "TRUE") for name, equals, value in hard)),
        queues=split_requests(parameters.get("q_hard", "")),
        master_queues=split_requests(parameters.get("masterq", "")),
        owner=parameters.get("USER", ""),
        project=parameters.get("P"),
        ckpt=parameters.get("ckpt"),
    )


def split_requests(text: str) -> tuple[str, ...]:
    """`h_vmem=4G,gpu=2[same=id,unit=1]` (`-l`, `-q`): its parts, without the commas between them."""
    return tuple(_REQUEST.findall(text))


def _one_line(sentence: str) -> str:
    return " ".join(sentence.split())[:LONGEST]
