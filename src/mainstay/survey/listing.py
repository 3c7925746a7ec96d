"""Tables that fit the terminal they are shown in: columns are left out before cells are cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Listing:
    """Rows under named columns; a column whose name ends in ``>`` is of numbers."""

    def __init__(self, title: str | None, *columns: str) -> None:
        self.title = title
        self._columns = columns
        self._rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        self._rows.append([Text(cell) if isinstance(cell, str) else cell for cell in cells])

    def columns(self) -> list[str]:
        """The names of the columns in which there is something."""
        names = (name.rstrip(">") for name in self._columns)
        return [name for n, name in enumerate(names) if any(row[n].plain for row in self._rows)]

    def table(self, names: Sequence[str]) -> Table:
        """Without lines, which take more room than what they divide."""
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
        shown = [(n, each) for n, each in enumerate(self._columns) if each.rstrip(">") in names]
        for _, name in shown:
            table.add_column(
                name.rstrip(">"), justify="right" if name.endswith(">") else "left", overflow="fold"
            )
        for row in self._rows:
            table.add_row(*(row[n] for n, _ in shown))
        return table


def show_table(console: Console, listing: Listing, less: Sequence[str] = ()) -> None:
    """Show it, without the columns of ``less``, one after the other, that leave no room."""
    names, gone = listing.columns(), []
    for name in less:
        if _width(console, listing.table(names)) <= console.width:
            break
        if name in names:
            names.remove(name)
            gone.append(name)
    if listing.title is not None:
        console.print(Text(f"\n{listing.title}", style="bold"))
    console.print(listing.table(names))
    if gone:
        told = f"without {', '.join(gone)}: a wider terminal and --json have them"
        console.print(Text(told, style="dim"))


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(width=10_000)).maximum
