"""`make differential`: a large run. Prints the seed, every difference, and agree / differ / unknown.

Ends with an error where the unknown are more than a twentieth, or more differ than the rows of
docs/grid-engine-differences.md explain.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.differential.rounds import JOBS, Tally, compare, differential_cell, one_world

UNKNOWN = 0.05
"""At most this many may be unknown, as a part of all."""
DIFFER = 0.02
"""At most this many may differ, all for the causes in docs/grid-engine-differences.md."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make differential", description=__doc__)
    parser.add_argument("--seed", default="", help="of the worlds; a fresh one where none is given")
    parser.add_argument("--jobs", type=int, default=2000, help="of all worlds; one has at most 100")
    parser.add_argument("--world", help="one world by its name (SEED/NUMBER), as a difference tells it")
    given = parser.parse_args()
    seed = given.seed or secrets.token_hex(3)
    with differential_cell() as cell:
        if given.world:
            tally = Tally()
            one_world(cell, given.world, min(given.jobs, JOBS), tally, _tell)
        else:
            _tell(f"seed {seed}")
            tally = compare(cell, seed, given.jobs, _tell)
    _tell(f"seed {given.world or seed}: {tally}")
    _tell(f"unknown: {dict(tally.why_unknown)}")
    return int(tally.unknown > UNKNOWN * tally.jobs or len(tally.differences) > DIFFER * tally.jobs)


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
