"""Screens over the tables of `top`: an explanation, the jobs of a reason, a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from autoscaler.plain_text import plain
from autoscaler.report.tables import ALIKE
from autoscaler.terminal.readings import Document
from autoscaler.terminal.rows import JOBS, Chosen, heads, job_rows

CLOSE: list[BindingType] = [Binding("escape,q", "dismiss", "Close")]


class Explanation(ModalScreen[None]):
    """What `explain` says."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(plain(self._title), style="bold"), markup=False)
            with VerticalScroll():
                yield Static(Text("\n".join(map(plain, self._lines))), markup=False, id="explanation")
            yield Static("Esc: close", classes="hint")


class Jobs(ModalScreen[str | None]):
    """The jobs of one reason that have waited longest. Its result is the job to explain."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, row: Document) -> None:
        super().__init__()
        self._row = row

    def compose(self) -> ComposeResult:
        row = self._row
        own = row["owner_remedy"]
        remedy = f"\n→ {own}" if own else ""
        if row["remedy"]:
            remedy += f"\n→ {'for administrators: ' if own else ''}{row['remedy']}"
        text = f"{row['cause']['text']}{'' if row['same'] else ALIKE} [{row['cause']['code']}]"
        with Vertical(classes="box"):
            yield Static(Text(plain(text) + plain(remedy).replace("\\n", "\n")), markup=False)
            yield DataTable(cursor_type="row", id="jobs")
            more = row["jobs"] - len(row["first"])
            yield Static(f"{more} more jobs · Enter: explain · Esc: close" if more else "Enter: explain · Esc: close")

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        for head in heads(JOBS, wide=True):
            table.add_column(Text(head))
        for row in job_rows(self._row["first"], Chosen(wide=True)):
            table.add_row(*map(Text, row.cells), key=row.key)
        table.focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.dismiss(event.row_key.value)


class Question(ModalScreen[bool]):
    """A question with yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box question"):
            yield Static(Text(plain(self._text)), markup=False)
            yield Static("y: yes · n: no", classes="hint")

    def action_answer(self, done: bool) -> None:
        self.dismiss(done)
