"""How good estimates of run times from own history are, on the later half of recorded workloads.

Jobs are estimated as they are submitted, from those that had ended by then. The loss is the pinball loss, in seconds a
job: of the median, and of the quantile that one of ten exceeds. Beside it the loss of the same quantile of all jobs of
the earlier half, and of the requested run time. A bar that is passed over makes the exit code 1.

    python -m bench.estimates WORKLOAD.swf.gz... [--json]
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoscaler.core.estimates.run_times import Likeness, RunTimes

SHARES = (0.5, 0.9)
WITHIN = 0.8
"""Share of the jobs that ranges hold at least."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job of a workload that ran."""

    submitted: float
    ended: float
    seconds: float
    like: Likeness


def jobs_of(path: Path) -> Iterator[Ran]:
    """The columns of the Standard Workload Format that matter here, with the time that a job really waited."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(";") or not line.strip():
                continue
            columns = line.split()
            submitted, waited, seconds = (float(columns[at]) for at in (1, 2, 3))
            slots, requested = max(int(columns[4]), int(columns[7])), float(columns[8])
            if seconds > 0 and slots > 0:
                yield Ran(
                    submitted,
                    submitted + max(waited, 0.0) + seconds,
                    seconds,
                    Likeness(
                        columns[11], columns[13], columns[12], columns[14], slots, requested if requested > 0 else None
                    ),
                )


def loss(share: float, estimated: float, seconds: float) -> float:
    """Pinball: what is too short costs `share` a second, what is too long the rest."""
    return share * (seconds - estimated) if seconds > estimated else (1 - share) * (estimated - seconds)


def judge(jobs: Sequence[Ran]) -> dict[str, Any]:
    """Losses on the later half, in the order of submission."""
    jobs = sorted(jobs, key=lambda job: job.submitted)
    half = len(jobs) // 2
    earlier = sorted(job.seconds for job in jobs[:half])
    plain = {share: earlier[int(share * (len(earlier) - 1))] for share in SHARES}
    history, running = RunTimes(), list[tuple[float, int]]()
    sums = {(what, share): 0.0 for what in ("history", "all jobs", "requested") for share in SHARES}
    asked = 0
    within = 0
    for number, job in enumerate(jobs):
        while running and running[0][0] <= job.submitted:
            ended = jobs[heapq.heappop(running)[1]]
            history.add(ended.like, ended.seconds)
        heapq.heappush(running, (job.ended, number))
        if number < half:
            continue
        found = history.estimate(job.like)
        assert found is not None
        within += found.low <= job.seconds <= found.high
        for share, estimated in zip(SHARES, (found.median, found.high), strict=True):
            sums["history", share] += loss(share, estimated, job.seconds)
            sums["all jobs", share] += loss(share, plain[share], job.seconds)
            sums["requested", share] += loss(share, job.like.requested or plain[share], job.seconds)
        asked += job.like.requested is not None
    count = len(jobs) - half
    return {
        "jobs": count,
        "requested": asked / count,
        "within": within / count,
        "likenesses": len(history),
        "loss": {f"{what} {share:g}": total / count for (what, share), total in sums.items()},
    }


def kept(figures: dict[str, Any]) -> bool:
    """Better than both others, at both quantiles; and ranges hold what they say."""
    losses = figures["loss"]
    return figures["within"] >= WITHIN and all(
        losses[f"history {share:g}"] < min(losses[f"all jobs {share:g}"], losses[f"requested {share:g}"])
        for share in SHARES
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.estimates", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    found = {path.name: judge(list(jobs_of(path))) for path in options.workloads}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, figures in found.items():
            losses = figures["loss"]
            print(f"{name}: {figures['jobs']:,} jobs, {figures['requested']:.0%} with a requested time")
            for share in SHARES:
                own = losses[f"history {share:g}"]
                others = ", ".join(
                    f"{what} {losses[f'{what} {share:g}'] / own:.2f} ×" for what in ("all jobs", "requested")
                )
                print(f"  quantile {share:g}: loss of own history {own:,.0f} s a job; {others} that")
            print(f"  {figures['within']:.0%} ran between low and high; {figures['likenesses']:,} likenesses kept")
    good = all(kept(figures) for figures in found.values())
    print(f"bars: {'kept' if good else 'PASSED OVER'}", file=sys.stderr if options.json else sys.stdout)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
