"""`make fuzz`: hostile inputs for everything that reads external data. Prints the seed, every new finding with the
seed of its input, and how many inputs each target was fed.

Ends with 1 if anything was found, with 2 if the time was over before all inputs were fed, with 130 at Ctrl-C.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import threading
import time

from tests.fuzz.campaign import InputKind, Tally, campaign, judged
from tests.fuzz.judges import Memory, Tracebacks, bound_addresses
from tests.fuzz.targets import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", default="", help="of all inputs; a fresh one where none is given")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--target", action="append", choices=[kind.name for kind in KINDS], help="only these")
    parser.add_argument("--input", help="one input by its seed (SEED/TARGET/NUMBER), as a finding names it")
    given = parser.parse_args()
    bound_addresses()
    if given.input:
        return _one(given.input)
    seed, tally = given.seed or secrets.token_hex(3), Tally()
    stop = _stop_on_signal()
    _print(f"seed {seed}")
    began, kinds = time.monotonic(), [kind for kind in KINDS if not given.target or kind.name in given.target]
    campaign(kinds, seed, given.inputs, given.seconds, _print, tally, stop.is_set)
    fed, failed, stopped = sum(tally.fed.values()), sum(tally.failed.values()), stop.is_set()
    for line in tally.lines():
        _print(line)
    short = "" if fed == given.inputs else f" of {given.inputs}, {'stopped' if stopped else 'the time is over'}"
    _print(f"seed {seed}: {fed} inputs{short}, {failed} failed, {time.monotonic() - began:.0f} s")
    return 130 if stopped else 1 if failed else 2 if short else 0


def _stop_on_signal() -> threading.Event:
    """Set by Ctrl-C: the current input is completed. A second Ctrl-C ends at once."""
    stop = threading.Event()

    def on_signal(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


def _one(input_seed: str) -> int:
    kind: InputKind = next(kind for kind in KINDS if kind.name == input_seed.split("/")[-2])
    with Tracebacks().listening() as tracebacks, kind.open() as target:
        outcome, wrong = judged(target, input_seed, tracebacks, Memory())
    _print(wrong or f"nothing is wrong with it ({outcome})")
    return int(bool(wrong))


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
