"""Prints the results of commands: a table for people, JSON lines for programs, chosen by `-o`.

    @click.command()
    @output_option
    def command(output: str) -> None:
        show(output, ("topic", "queues"), [{"topic": "a", "queues": 4}])

Rich is imported only when a table is drawn on a terminal.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import click

if TYPE_CHECKING:
    from rich.progress import Progress


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
    help="Print a table, or one JSON object in each line.",
)


def show(output: str, columns: Sequence[str], rows: Iterable[Row], *, title: str = "") -> None:
    """Print `rows`: JSON has all keys of a row, a table has the `columns`."""
    if output == JSON:
        for row in rows:
            print_json(row)
    elif sys.stdout.isatty():
        _print_rich(columns, rows, title)
    else:
        _print_plain(columns, rows)


def print_json(row: Row) -> None:
    """Print an object as one line of JSON."""
    click.echo(json.dumps(row, ensure_ascii=False, default=str))


def note(text: str) -> None:
    """Print a remark for people on stderr, separate from the data."""
    click.echo(text, err=True)


def text_of(value: object) -> str:
    """Format a table cell: None is empty, booleans are `true` and `false`, lists have commas."""
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
        # Only the last column may wrap: it has the long texts.
        table.add_column(
            name.upper(), justify=justify, overflow="fold", no_wrap=name != columns[-1]
        )
    for row in kept:
        table.add_row(*(Text(text_of(row.get(name))) for name in columns))
    Console().print(table)


def _print_plain(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Print columns padded with blanks, without a frame or cuts, for `grep` and `awk`."""
    cells = [[name.upper() for name in columns]]
    cells += [[text_of(row.get(name)) or "-" for name in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


# Progress bar --------------------------------------------------------------------------------
# A progress bar on stderr of a terminal, redrawn at intervals; nothing in a pipe.


REDRAW_S = 0.1


class Bar:
    """A progress bar: `with Bar("sending", total=100, unit=...) as bar: bar.set(done, "text")`.

    Without a total it shows a spinner and a count. A call for every message is cheap.
    """

    def __init__(
        self, title: str, total: float | None = None, *, shown: bool | None = None
    ) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._title = title
        self._total = total
        self._next_s = 0.0
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if self._shown:
            self._progress = _make(self._total is not None)
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=self._total, text="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def set(self, done: float, text: str = "") -> None:
        """Update the bar."""
        if self._progress is None or (now := time.monotonic()) < self._next_s:
            return
        self._next_s = now + REDRAW_S
        self._progress.update(self._task, completed=done, text=text, refresh=True)


def _make(bounded: bool) -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    ends = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if bounded else ()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *ends,
        TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    )


# Figures -------------------------------------------------------------------------------------
# Formats numbers for people: percentiles in little memory, rates, sizes.


_STEPS = 100
"""Buckets per factor e: a percentile is exact to 1 %."""


class Latencies:
    """A histogram of durations with buckets of 1 %, at most a few thousand of them."""

    __slots__ = ("_buckets", "_total", "max_ms")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._total = 0
        self.max_ms = 0.0

    def add(self, ms: float, count: int = 1) -> None:
        """Add `count` durations of `ms`."""
        bucket = int(math.log(max(ms, 0.0) * 1_000 + 1) * _STEPS)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._total += count
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, share: float) -> float:
        """Return the percentile in ms for `share` (0 to 1); 0 without durations."""
        left = math.ceil(self._total * share)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min((math.exp((bucket + 1) / _STEPS) - 1) / 1_000, self.max_ms)
        return 0.0

    def as_dict(self) -> dict[str, float]:
        """Return rounded milliseconds for reports."""
        shares = {"p50_ms": 0.5, "p99_ms": 0.99}
        figures = {name: round(self.percentile(share), 2) for name, share in shares.items()}
        return {**figures, "max_ms": round(self.max_ms, 2)}


def size(count: float) -> str:
    """Format bytes in the largest fitting unit, such as "12.3 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def rate(count: int, seconds: float) -> str:
    """Format a rate such as "1,234/s"; "-" without elapsed time."""
    return f"{count / seconds:,.0f}/s" if seconds > 0 else "-"
