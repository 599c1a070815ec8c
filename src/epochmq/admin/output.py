"""What commands print: a table for people, JSON lines for programs, chosen by `-o`.

    @click.command()
    @output_option
    def command(output: str) -> None:
        show(output, ("topic", "queues"), [{"topic": "a", "queues": 4}])

Rich is imported only when a table is drawn on a terminal.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]

TABLE = "table"
JSON = "json"

output_option: Callable[[F], F] = click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    show_default=True,
    help="A table, or one JSON object a line.",
)


def show(output: str, columns: Sequence[str], rows: Iterable[Row], *, title: str = "") -> None:
    """Print `rows`: every key of a row goes into JSON, `columns` are what the table has."""
    if output == JSON:
        for row in rows:
            print_json(row)
    elif sys.stdout.isatty():
        _print_rich(columns, rows, title)
    else:
        _print_plain(columns, rows)


def print_json(row: Row) -> None:
    """One object, one line."""
    click.echo(json.dumps(row, ensure_ascii=False, default=str))


def note(text: str) -> None:
    """A remark for people, on stderr, so that it never mixes with data."""
    click.echo(text, err=True)


def text_of(value: object) -> str:
    """A cell of a table: nothing for None, `true` and `false`, lists joined by commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(text_of(each) for each in value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text_of(each)}" for key, each in value.items())
    return str(value)


def _print_rich(columns: Sequence[str], rows: Iterable[Row], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    kept = list(rows)
    for name in columns:
        numbers = all(isinstance(row.get(name), int | float | None) for row in kept)
        justify: Literal["left", "right"] = "right" if numbers else "left"
        # Only the last column may be broken into lines: it is the one with the long texts.
        table.add_column(
            name.upper(), justify=justify, overflow="fold", no_wrap=name != columns[-1]
        )
    for row in kept:
        table.add_row(*(Text(text_of(row.get(name))) for name in columns))
    Console().print(table)


def _print_plain(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Columns padded with blanks: no frame, nothing cut off, good for `grep` and `awk`."""
    cells = [[name.upper() for name in columns]]
    cells += [[text_of(row.get(name)) or "-" for name in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
