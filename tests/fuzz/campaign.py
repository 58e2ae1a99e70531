"""Runs the inputs of all targets in turn, judges each, and reports failures with the seeds that reproduce them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from tests.fuzz.judges import Memory, Tracebacks, outcome_of

MOST_FINDINGS = 25
"""Reported; further ones are only counted."""


class Target(Protocol):
    """Takes inputs. It keeps its state from input to input."""

    def feed(self, seed: str) -> str:
        """One input, made of this seed alone; returns its outcome in a word. Raises AssertionError with what was
        wrong, and AutoscalerError if it was refused.
        """

    def settle(self) -> None:
        """Check what must hold after all inputs until now. Raises AssertionError."""


Opener = Callable[[], AbstractContextManager[Target]]


@dataclass(frozen=True, slots=True)
class InputKind:
    """A target by name, and how large its part is."""

    name: str
    share: int
    open: Opener


@dataclass
class Tally:
    """The inputs, and their outcomes."""

    fed: Counter[str] = field(default_factory=Counter)
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by target."""
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    findings: dict[str, str] = field(default_factory=dict)
    """By kind of finding: the first of each, with the seed of its input."""

    def find(self, name: str, input_seed: str, wrong: str) -> bool:
        """Whether it is of a new kind."""
        self.failed[name] += 1
        key = f"{name}: {' '.join(word for word in wrong.split() if not any(letter.isdigit() for letter in word))}"[
            :200
        ]
        if key in self.findings or len(self.findings) >= MOST_FINDINGS:
            return False
        self.findings[key] = f"{input_seed}: {wrong}"
        return True

    def lines(self) -> Iterator[str]:
        for name, count in self.fed.items():
            came = ", ".join(f"{what} {times}" for what, times in self.outcomes[name].most_common())
            yield f"  {name:10} {count:6} inputs  {self.spent[name]:5.0f} s  {self.failed[name]} failed  ({came})"


SETTLE_EVERY = 100
"""Inputs of one target."""


def campaign(
    kinds: Sequence[InputKind],
    seed: str,
    inputs: int,
    seconds: float,
    report: Callable[[str], None],
    tally: Tally | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Tally:
    """Feed this many inputs, or as many as fit into the time. `stopped`: asked before each."""
    tally = tally if tally is not None else Tally()
    ends = time.monotonic() + seconds
    with ExitStack() as opened:
        tracebacks = opened.enter_context(Tracebacks().listening())
        targets = {kind.name: opened.enter_context(kind.open()) for kind in kinds}
        memory = Memory()
        for name in _turns(kinds, inputs):
            if stopped() or time.monotonic() > ends:
                break
            began = time.monotonic()
            input_seed, target = f"{seed}/{name}/{tally.fed[name]}", targets[name]
            outcome, wrong = judged(target, input_seed, tracebacks, memory, first=not tally.fed[name])
            if not wrong and tally.fed[name] % SETTLE_EVERY == SETTLE_EVERY - 1:
                wrong = outcome_of(target.settle)[1]
            tally.outcomes.setdefault(name, Counter())[outcome] += 1
            tally.fed[name] += 1
            tally.spent[name] = tally.spent.get(name, 0.0) + time.monotonic() - began
            if wrong and tally.find(name, input_seed, wrong):
                report(f"FAILED {input_seed}: {wrong}")
        for name, target in targets.items():
            if (wrong := outcome_of(target.settle)[1]) and tally.find(name, f"{seed}/{name}", wrong):
                report(f"FAILED {name} in the end: {wrong}")
        if (wrong := memory.kept()) and tally.find("memory", seed, wrong):
            report(f"FAILED {wrong}")
    return tally


def judged(
    target: Target, input_seed: str, tracebacks: Tracebacks, memory: Memory, *, first: bool = False
) -> tuple[str, str]:
    """The outcome of one input in a word, and all that was wrong. `first`: of this target."""
    outcome, wrong = outcome_of(lambda: target.feed(input_seed))
    taken = memory.peak()
    # A target's first input imports what all need. Where nothing is compiled yet, schemathesis alone fills the bound.
    return outcome, "; ".join(each for each in (wrong, tracebacks.collected(), "" if first else taken) if each)


def _turns(kinds: Iterable[InputKind], inputs: int) -> Iterator[str]:
    """Names of targets, mixed by their shares."""
    kinds = tuple(kinds)
    whole = sum(kind.share for kind in kinds)
    due = dict.fromkeys((kind.name for kind in kinds), 0.0)
    for _ in range(inputs):
        for kind in kinds:
            due[kind.name] += kind.share / whole
        name = max(due, key=lambda each: due[each])
        due[name] -= 1
        yield name
