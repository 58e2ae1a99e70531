"""Column generation: its program is solved as by a solver, contents fit, machines are filled as they were bought."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import highspy
import numpy as np
import pytest

from autoscaler.core.packing.balanced import Balance
from autoscaler.core.packing.packed import filled
from autoscaler.core.packing.patterns import by_patterns, on_present
from autoscaler.core.packing.pieces import Filled, Machines, Piece
from autoscaler.core.packing.program import Pattern, Program
from autoscaler.core.packing.valued import Valued

PENALTY = 100.0


@pytest.mark.parametrize("seed", range(60))
def test_a_program_costs_as_much_as_by_a_solver(seed: int) -> None:
    chance = Random(seed)
    counts = [chance.randrange(1, 200) for _ in range(chance.randrange(1, 12))]
    limits = {kind: chance.randrange(1, 20) for kind in range(chance.randrange(0, 4))}
    prices = [chance.uniform(0.1, 5.0) for _ in range(6)]
    program = Program(counts, limits, [PENALTY] * len(counts))
    patterns: list[Pattern] = []
    for at in range(len(counts)) if seed % 2 else ():
        kind = chance.randrange(6)
        begun = Pattern(kind, {at: chance.randrange(1, 9)}, prices[kind])
        program.begin_with(begun)
        patterns += [] if kind in limits else [begun]
    for _ in range(4):
        for _ in range(chance.randrange(1, 15)):
            taken = chance.sample(range(len(counts)), chance.randrange(1, min(4, len(counts)) + 1))
            content = {at: chance.randrange(1, 9) for at in taken}
            kind = chance.randrange(6)
            patterns.append(Pattern(kind, content, prices[kind]))
            program.add(patterns[-1])
        program.solve()
        assert program.price == pytest.approx(_least_price(counts, limits, patterns), rel=1e-6)
        covered = [0.0] * len(counts)
        for machines, pattern in program.answer():
            for at, many in pattern.content.items():
                covered[at] += machines * many
        complete = all(there >= count - 1e-6 for there, count in zip(covered, counts, strict=True))
        assert program.complete == complete


def _least_price(counts: Sequence[int], limits: dict[int, int], patterns: Sequence[Pattern]) -> float:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    for count in counts:
        solver.addRow(float(count), highspy.kHighsInf, 0, [], [])
    for most in limits.values():
        solver.addRow(-highspy.kHighsInf, float(most), 0, [], [])
    rows = {kind: len(counts) + at for at, kind in enumerate(limits)}
    columns = [(PENALTY, {at: 1}) for at in range(len(counts))]
    for pattern in patterns:
        limit = {rows[pattern.kind]: 1} if pattern.kind in rows else {}
        columns.append((pattern.price, {**pattern.content, **limit}))
    for price, column in columns:
        indices, values = np.array(list(column), dtype=np.int32), np.array(list(column.values()), dtype=np.double)
        solver.addCol(price, 0.0, highspy.kHighsInf, len(column), indices, values)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


@pytest.mark.parametrize("seed", range(40))
def test_the_most_valued_content_fits_and_is_near_the_best_one(seed: int) -> None:
    chance = Random(seed)
    pieces = [
        Piece(
            at, (chance.choice((1, 2, 3, 4)), chance.randrange(1, 30)), frozenset({0}), chance.randrange(1, 4), 1, False
        )
        for at in range(4)
    ]
    values, has = [chance.uniform(0.1, 5.0) for _ in pieces], (8, 40)
    fitting = [at for at, piece in enumerate(pieces) if piece.size[1] <= has[1]]

    def worth(many: Sequence[int]) -> float:
        """0: it does not fit."""
        taken = [sum(piece.size[r] * n for piece, n in zip(pieces, many, strict=True)) for r in range(2)]
        fits = all(amount <= there for amount, there in zip(taken, has, strict=True))
        return sum(value * n for value, n in zip(values, many, strict=True)) if fits else 0.0

    content = Valued(pieces, fitting, has).most(values)
    found = worth([content.get(at, 0) for at in range(4)])
    best = max(worth(many) for many in product(*(range(piece.count + 1) for piece in pieces)))
    assert 0.7 * best <= found <= best + 1e-9


def _pieces_and_kinds(seed: int, *, scarce: bool) -> tuple[list[Piece], list[Machines]]:
    chance = Random(seed)
    kinds = [
        Machines(10_000, (size, size * gib), size * price) for size in (2, 8, 32) for gib, price in ((4, 1.0), (8, 1.3))
    ]
    if scarce:
        kinds += [
            Machines(chance.randrange(1, 4), (16, 64), 6.0, scarce=True),
            Machines(2, (32, 256), 12.0, scarce=True),
        ]
    sizes = [(slots, slots * chance.choice((1, 2, 3, 4, 6, 8))) for slots in (1, 1, 2, 4, 6, 12, 24) for _ in range(2)]
    everywhere = frozenset(range(len(kinds)))
    return [Piece(at, size, everywhere, chance.randrange(1, 60), 1, False) for at, size in enumerate(sizes)], kinds


def _price(found: Sequence[Filled], kinds: Sequence[Machines]) -> float:
    return sum(kinds[each.kind].price * each.machines for each in found)


@pytest.mark.parametrize("scarce", (False, True))
@pytest.mark.parametrize("seed", range(12))
def test_patterns_hold_all_within_limits_and_are_never_dearer_than_balance(seed: int, scarce: bool) -> None:
    pieces, kinds = _pieces_and_kinds(seed, scarce=scarce)
    found, placed = filled(pieces, kinds, by_patterns)
    assert placed == [piece.tasks for piece in pieces]
    for each in found:
        taken = [sum(pieces[at].size[r] * many for at, many in each.content.items()) for r in range(2)]
        assert all(amount <= there for amount, there in zip(taken, kinds[each.kind].has, strict=True))
    for kind, machines in enumerate(kinds):
        assert sum(each.machines for each in found if each.kind == kind) <= machines.count
    balanced, _ = filled(pieces, kinds, Balance())
    assert _price(found, kinds) <= 1.0125 * _price(balanced, kinds) + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_machines_are_filled_later_as_they_were_when_they_were_bought(seed: int) -> None:
    """In whatever order they and the jobs are listed then."""
    pieces, kinds = _pieces_and_kinds(seed, scarce=False)
    found, _ = filled(pieces, kinds, by_patterns)
    counts = [sum(each.machines for each in found if each.kind == kind) for kind in range(len(kinds))]
    of_kinds = [kind for kind in reversed(range(len(kinds))) if counts[kind]]
    there = [Machines(counts[kind], kinds[kind].has, kinds[kind].price) for kind in of_kinds]
    listed = [
        Piece(at, piece.size, frozenset(range(len(there))), piece.tasks, 1, False)
        for at, piece in enumerate(reversed(pieces))
    ]
    _, placed = filled(listed, there, on_present)
    assert placed == [piece.tasks for piece in listed]
