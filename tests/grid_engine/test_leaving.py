"""Leaving is clean: what Grid Engine is configured with is byte for byte what it was before the first start."""

from __future__ import annotations

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until

ALONE = ("-sconf", "-sc", "-ssconf", "-stl", "-sstree")
LISTS = ("-sel", "-sh", "-ss", "-sm", "-so")
"""Lists of which no entry can be shown by itself."""
OBJECTS = {
    "-sql": "-sq", "-shgrpl": "-shgrp", "-spl": "-sp", "-sul": "-su", "-sel": "-se", "-sconfl": "-sconf",
    "-srqsl": "-srqs", "-sprjl": "-sprj", "-scall": "-scal", "-sckptl": "-sckpt", "-suserl": "-suser",
}  # fmt: skip
"""How names are listed → how one object is shown."""
MOVING = ("load_values", "processors", "report_variables", "delete_time")
"""What execution hosts report themselves, and until when Grid Engine keeps a user that it added."""


def configuration(cell: Cell) -> dict[str, bytes]:
    """What every `qconf -s…` prints, by its arguments. `qconf` fails where a list is empty, and says so."""
    shown = {flag: _qconf(cell, flag) for flag in (*ALONE, *LISTS, *OBJECTS)}
    for listing, showing in OBJECTS.items():
        names = shown[listing].decode().split() if b" " not in shown[listing].splitlines()[0] else []
        shown |= {f"{showing} {name}": _qconf(cell, showing, name) for name in names}
    return shown


def _qconf(cell: Cell, *words: str) -> bytes:
    done = cell.runner(("qconf", *words), timeout=60.0)
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(tuple(f"{name} ".encode() for name in MOVING)))


def test_after_stop_now_the_cell_is_configured_as_before_the_first_start(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_DEADLOCK": "hold", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    empty_cell.submit("-b", "y", "-h", "true")  # with a first job Grid Engine itself adds the user
    before = configuration(empty_cell)
    assert {"-sconf", "-sq main.q", "-shgrp @allhosts", "-sp local"} <= before.keys()
    job = empty_cell.submit("-b", "y", "true")
    never = empty_cell.submit("-b", "y", "-pe", "local", "400", "true")
    with scaling.running() as running:
        until(lambda: scaling.ended_well(job), 60)
        until(lambda: b"hqw" in empty_cell.runner(("qstat",), timeout=60.0).stdout, 60)
        during = configuration(empty_cell)
        stopped = scaling.command("stop", "--now")
        assert running.wait(120.0) == 0
    empty_cell.out("qdel", never)
    after = configuration(empty_cell)
    changed = {words for words in before.keys() | after.keys() if before.get(words) != after.get(words)}
    assert (stopped.returncode, {words: (before.get(words), after.get(words)) for words in changed}) == (0, {})
    assert during != before, "it was there"
