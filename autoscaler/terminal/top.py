"""`top`: a running autoscaler on a terminal. It redraws only changes, and asks before each command."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static

from autoscaler.errors import AutoscalerError
from autoscaler.plain_text import plain
from autoscaler.terminal.readings import STEP, Ask, Poller, Readings
from autoscaler.terminal.rows import (
    LOG,
    QUEUE,
    WORKERS,
    Chosen,
    Column,
    TableRow,
    heads,
    log_rows,
    queue_rows,
    spark_lines,
    summary_lines,
    worker_rows,
)
from autoscaler.terminal.screens import Explanation, Jobs, Question

UPDATE_EVERY = 2.0
WIDE = 140
"""Columns of the terminal from which tables have more columns. They stand one below the other all the same: half a
terminal is too narrow for a sentence.
"""
INTERRUPTED = 130
Act = Callable[[Sequence[str]], str]
"""Carries a command out (`drain`, a host) and returns what it says. Raises AutoscalerError."""
MakeRows = Callable[[Readings, Chosen], list[TableRow]]


@dataclass(slots=True)
class Shown:
    """The state of a table on the screen."""

    columns: Sequence[Column]
    rows_of: MakeRows
    chosen: Chosen = field(default_factory=Chosen)
    rows: list[TableRow] | None = None
    """None: nothing yet, or the columns changed."""
    newest_first: bool = False
    """Whether new rows come at the top, so that a view of the top stays there."""


class Top(App[None]):
    """The application. `act`: None for users who may only read; `until`: ends it when true."""

    TITLE = "sge-autoscaler top"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - as Textual declares it
    CSS = """
    #summary, #spark, #lost { height: auto; }
    #spark { color: $accent; }
    #lost { display: none; background: $error; color: $text; }
    .-lost #lost { display: block; }
    .-lost DataTable { opacity: 60%; }
    #tables { layout: grid; grid-size: 1 3; grid-rows: 1fr 1fr 1fr; height: 1fr; }
    DataTable { height: 1fr; }
    #filter { display: none; height: 1; border: none; }
    #filter.shown { display: block; }
    ModalScreen { align: center middle; }
    .box { width: 90%; height: 90%; border: round $accent; padding: 0 1; background: $surface; }
    .box.question { width: 60; height: auto; }
    .box > Static { height: auto; }
    .hint { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "clear", "All", show=False),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", key_display="S"),
        Binding("p", "pause", "Pause"),
        Binding("d", "drain", "Drain"),
        Binding("k", "keep", "Keep"),
    ]

    def __init__(
        self,
        ask: Ask,
        act: Act | None = None,
        *,
        every: float = UPDATE_EVERY,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self._question, self._act, self._every, self._until = ask, act, every, until
        self._poller = Poller(ask)
        self.defect: Exception | None = None
        """The exception that ended it, if any."""
        self._readings = Readings()
        self._ended = threading.Event()
        self._width = self.size.width
        self._tables = {
            "queue": Shown(QUEUE, queue_rows),
            "workers": Shown(WORKERS, worker_rows),
            "log": Shown(LOG, log_rows, newest_first=True),
        }

    # -- the screen ---------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(id="lost", markup=False)
        yield Static(id="summary", markup=False)
        yield Static(id="spark", markup=False)
        with Container(id="tables"):
            for name in self._tables:
                yield DataTable(id=name, cursor_type="row", zebra_stripes=True)
        yield Input(id="filter", placeholder="part of a name, reason or event; Esc: all", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread, which handles signals itself
                loop.add_signal_handler(number, self.exit, None, 128 + number)
        self.query_one("#queue").focus()
        threading.Thread(target=self._watch, name="top", daemon=True).start()

    def on_unmount(self) -> None:
        self._ended.set()

    def on_resize(self, event: Resize) -> None:
        self._width = event.size.width
        wide = self._width >= WIDE
        for shown in self._tables.values():
            if shown.chosen.wide != wide:
                shown.chosen, shown.rows = replace(shown.chosen, wide=wide, sort=None), None
        self._draw()

    def _watch(self) -> None:
        """The body of the polling thread. A defect ends the application: a frozen screen would look healthy."""
        try:
            self._follow()
        except Exception as defect:  # noqa: BLE001 - the caller of the application raises it, on a usable terminal
            self.defect = defect
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self.call_from_thread(self.exit, None, 1)

    def _follow(self) -> None:
        drawn: Readings | None = None
        while not self._ended.is_set():
            readings = self._poller.read()
            if readings != drawn:
                drawn = readings
                with contextlib.suppress(RuntimeError):
                    self.call_from_thread(self._take, readings)
            if self._until():
                with contextlib.suppress(RuntimeError):
                    self.call_from_thread(self.exit)
                return
            self._ended.wait(self._every)

    def _take(self, readings: Readings) -> None:
        self._readings = readings
        self._draw()

    def _draw(self) -> None:
        readings = self._readings
        base = self.screen_stack[0]
        trouble = _trouble(readings)
        base.set_class(bool(trouble), "-lost")
        base.query_one("#lost", Static).update(Text(trouble))
        base.query_one("#summary", Static).update(Text("\n".join(line for line in summary_lines(readings) if line)))
        spark = spark_lines(readings.points, STEP, self._width)
        base.query_one("#spark", Static).update(Text("\n".join(spark)))
        for name, shown in self._tables.items():
            _fill(base.query_one(f"#{name}", DataTable), shown, shown.rows_of(readings, shown.chosen))

    # -- sorting and filtering -----------------------------------------------------------------------------------

    def _focused(self) -> str:
        focused = self.focused
        return focused.id if isinstance(focused, DataTable) and focused.id in self._tables else "queue"

    def _choose(self, name: str, chosen: Chosen) -> None:
        self._tables[name].chosen, self._tables[name].rows = chosen, None
        self._draw()

    def action_sort(self) -> None:
        name = self._focused()
        chosen = self._tables[name].chosen
        count = len(heads(self._tables[name].columns, wide=chosen.wide))
        number = 0 if chosen.sort is None else chosen.sort + 1
        self._choose(name, replace(chosen, sort=number if number < count else None))

    def action_reverse(self) -> None:
        name = self._focused()
        chosen = self._tables[name].chosen
        self._choose(name, replace(chosen, sort=chosen.sort or 0, reverse=not chosen.reverse))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        name = event.data_table.id or ""
        if name in self._tables:
            chosen = self._tables[name].chosen
            again = chosen.sort == event.column_index and not chosen.reverse
            self._choose(name, replace(chosen, sort=event.column_index, reverse=again))

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        for shown in self._tables.values():
            shown.chosen = replace(shown.chosen, filter=event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        self.query_one("#queue").focus()

    def action_clear(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self.query_one("#queue").focus()

    # -- more of one thing ---------------------------------------------------------------------------------------

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        name, key = event.data_table.id or "", event.row_key.value or ""
        if name == "queue":
            rows = (row for row in self._readings.queue.get("reasons", ()))
            found = next((row for row in rows if row["key"] == key), None)
            if found is not None:
                self.push_screen(Jobs(found), self._explain)
            return
        row = next((row for row in self._tables[name].rows or () if row.key == key), None)
        if row is not None and row.subject:
            self._explain(row.subject)
        elif row is not None:
            self.push_screen(Explanation(row.cells[0], row.cells[1:]))

    def _explain(self, subject: str | None) -> None:
        if subject:
            self._beside(lambda: self._explained(subject), lambda lines: Explanation(subject, lines))

    def _explained(self, subject: str) -> list[str]:
        answer = self._question("explain", {"subject": subject, "form": "text"})
        return [line for block in answer["blocks"] for line in block[3]]

    def _beside(self, ask: Callable[[], list[str]], show: Callable[[list[str]], Explanation]) -> None:
        """Ask on a thread of its own, then show the answer."""

        def run() -> None:
            try:
                lines = ask()
            except AutoscalerError as error:
                lines = [str(error)]
            with contextlib.suppress(RuntimeError):
                self.call_from_thread(self.push_screen, show(lines))

        threading.Thread(target=run, daemon=True).start()

    # -- acting --------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer commands only to users who may act."""
        return self._act is not None or action not in ("pause", "drain", "keep")

    def action_pause(self) -> None:
        if self._readings.status.get("paused"):
            self._confirm(["resume"], "End the pause, and every other stop of launches?")
        else:
            self._confirm(["pause"], "Launch nothing, and remove only drained workers, until `resume`?")

    def action_drain(self) -> None:
        self._of_worker(
            "drain", "Drain {}: remove and terminate it when its jobs have ended?", "Cancel the drain of {}?"
        )

    def action_keep(self) -> None:
        self._of_worker("keep", "Keep {} even if it is idle?", "No longer keep {}?")

    def _of_worker(self, verb: str, text: str, undo: str) -> None:
        table = self.query_one("#workers", DataTable)
        rows = self._tables["workers"].rows or []
        row = rows[table.cursor_row] if table.cursor_row < len(rows) else None
        found = next((one for one in self._readings.workers if row and (one["id"] or one["name"]) == row.key), None)
        if found is None or found["id"] is None:
            self.notify("choose a worker first: persistent hosts are left alone", markup=False)
            return
        name = found["name"] or found["id"]
        if {name, found["id"]} & set(self._readings.status.get(verb, ())):
            self._confirm([verb, "--undo", name], undo.format(name))
        else:
            self._confirm([verb, name], text.format(name))

    def _confirm(self, words: Sequence[str], text: str) -> None:
        self.push_screen(Question(text), lambda done: self._carry_out(words) if done else None)

    def _carry_out(self, words: Sequence[str]) -> None:
        act = self._act
        if act is None:
            return

        def run() -> None:
            try:
                message, severity = act(words), "information"
            except AutoscalerError as error:
                message, severity = str(error), "error"
            with contextlib.suppress(RuntimeError):
                self.call_from_thread(self.notify, plain(message), severity=severity, markup=False)

        threading.Thread(target=run, daemon=True).start()

    def action_interrupt(self) -> None:
        self.exit(None, INTERRUPTED)


def _trouble(readings: Readings) -> str:
    if readings.lost:
        since = datetime.fromtimestamp(readings.lost_at or 0.0).astimezone().strftime("%H:%M:%S")
        return plain(f"no answer since {since}, trying again: {readings.lost}")
    return plain(f"nothing was observed since: {readings.trouble}") if readings.trouble else ""


def _fill(table: DataTable[Text], shown: Shown, rows: list[TableRow]) -> None:
    """Update changed cells only, so that the table keeps its scroll position. Of a list with the newest first, a person
    who looks at the top goes on to see the newest, and one who has chosen a row keeps it in place.
    """
    before, shown.rows = shown.rows, rows
    if before == rows:
        return
    if before is not None and [row.key for row in before] == [row.key for row in rows]:
        for at, (old, new) in enumerate(zip(before, rows, strict=True)):
            for number, cell in enumerate(new.cells):
                if cell != old.cells[number]:
                    table.update_cell_at(Coordinate(at, number), Text(cell), update_width=True)
        return
    kept = before[table.cursor_row].key if before and table.cursor_row < len(before) else ""
    scrolled, was_at = table.scroll_offset, table.cursor_row
    at_top = shown.newest_first and was_at == 0
    table.clear(columns=before is None)
    if before is None:
        for number, head in enumerate(heads(shown.columns, wide=shown.chosen.wide)):
            mark = "" if number != shown.chosen.sort else " ▼" if shown.chosen.reverse else " ▲"
            table.add_column(Text(head + mark))
    for row in rows:
        table.add_row(*map(Text, row.cells), key=row.key)
    if at_top:
        table.move_cursor(row=0, scroll=False)
        table.scroll_to(scrolled.x, 0, animate=False)
    elif (at_row := next((at for at, row in enumerate(rows) if row.key == kept), None)) is not None:
        table.move_cursor(row=at_row, scroll=False)
        table.scroll_to(scrolled.x, scrolled.y + at_row - was_at, animate=False)
