"""Requests that qsub accepts never fail a pass: an ordinary job besides is counted, and a worker is launched for it."""

from __future__ import annotations

import random
from contextlib import suppress

from autoscaler.lab.cell import Cell
from autoscaler.lab.private_root import CellError
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until

VALUES = (
    *("1e400", "-1e400", "INFINITY", "infinity", "NaN", "-1", "-5G", "0", "1e18", "99999999999999999999", "1.5", ".5"),
    *("0x10", "0xffffffffffffffff", "010", "4Q", "4GB", "lots", "1:2:3:4:5", "99999999:0:0", ":30:", "TRUE", "NONE"),
    *("*", "!(", "(" * 60, "a|b&!c", "ä", "a b", "1e-400", "9" * 300, "''", "${HOME}", "%s", "undefined"),
)
COMPLEXES = ("mem_free", "h_vmem", "h_rt", "s_cpu", "num_proc", "arch", "hostname", "slots", "load_avg", "swap_free")
CONSUMED = ("scratch", "lic")
PES = ("1-", "-4", "1-9999999", "0", "3-1", "1,2,9", "99999999999999999999", "1-8:3", "-", "1e3")
QUEUES = ("*", "main.q@*", "@nowhere", "main.q@nowhere", "!main.q", "(((", "m[a-z]*.q", "main.q,other.q", "*@@allhosts")
TIMES = ("203712312359", "999912312359", "197001010000", "12312359", "190001010000.00", "0", "212501010000.59")
NAMES = ("ä", "%s{}", "x" * 500, "a;b", "<&>\"'", "[what]", "名前", "-N", "\x1b[31m", "n\tm")
SEED = 20_261_122
VALUES_TRIED, PES_TRIED = 40, 12
"""This many of them are tried, chosen by the seed."""


def odd_options() -> list[tuple[str, ...]]:
    """The two that occurred in the field come first, whatever the seed."""
    first = [("-l", f"{name}={value}") for name in ("mem_free", "lic") for value in ("1e400", "INFINITY")]
    others = [("-l", f"{name}={value}") for name in (*COMPLEXES, *CONSUMED) for value in VALUES]
    spread = [("-pe", pe, slots) for pe in ("mpi", "m*", "local") for slots in PES]
    rest = [("-q", queue) for queue in QUEUES] + [("-a", time) for time in TIMES] + [("-N", name) for name in NAMES]
    chooser = random.Random(SEED)
    return [*first, *chooser.sample(others, VALUES_TRIED), *chooser.sample(spread, PES_TRIED), *rest]


def test_odd_requests_that_qsub_accepts_fail_no_pass_and_an_ordinary_job_counts(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    cell = empty_cell
    scaling = Autoscaling(cell, {"CP_CAP_AUTOSCALE_WORKERS": "1", "CP_CAP_AUTOSCALE_DETAIL_LOOKUPS": "200"})
    show_on_failure["autoscaler"] = scaling.log_text
    define(cell, scratch="MEMORY", lic="DOUBLE")
    accepted: dict[str, tuple[str, ...]] = {}
    for options in odd_options():
        with suppress(CellError):  # refused by qsub itself
            accepted[cell.submit("-b", "y", *options, "true")] = options
    ordinary = cell.submit("-b", "y", "true")
    expected = {job for job, (_, value, *_) in accepted.items() if value in ("mem_free=1e400", "lic=1e400")}
    assert expected, "qsub takes 1e400 no more"

    def codes() -> dict[str, str]:
        rows = scaling.plan()["job_categories"]
        return {str(job): row["reason"]["code"] for row in rows for job in row["jobs"]}

    def settled() -> dict[str, str] | None:
        found = codes()
        return None if "NOT_READ_YET" in {found.get(job, "NOT_READ_YET") for job in (*expected, ordinary)} else found

    seen = until(settled, 60) or {}
    print(f"seed {SEED}: of {len(odd_options())} accepted {len(accepted)}")
    for job, options in accepted.items():
        print(job, *(word[:40] for word in options), seen.get(job, "not reported"))
    assert seen.keys() >= {*accepted, ordinary}, "every job has a verdict"
    assert {job for job in expected if seen[job] != "CANNOT_BE_READ"} == set()
    assert seen[ordinary] in ("EXPIRED", "NOT_EXPIRED", "FITS")
    with scaling.running():
        # Whether Grid Engine's own scheduler still starts anything beside a job of 2**64 slots is not ours to say.
        until(lambda: scaling.log_text().count(" pass ") >= 3, 60, "passes did not go on")
        assert "launching 1 m5.large" in scaling.log_text()
        assert "cannot read job" in scaling.log_text()
        reasons = {job: scaling.explained(job)["waiting"][0]["reason"]["text"] for job in expected}
    assert all(accepted[job][1] in text for job, text in reasons.items()), reasons


def define(cell: Cell, **consumables: str) -> None:
    """Further consumables per slot, of these types."""
    rows = (f"{name} {name} {kind} <= YES YES 0 0" for name, kind in consumables.items())
    table = cell.home / "complexes"
    table.write_text("\n".join((cell.out("qconf", "-sc").rstrip(), *rows)) + "\n")
    cell.out("qconf", "-Mc", str(table))
