"""How far the demo is: two bars on a terminal, a line now and then elsewhere; all on stderr."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_S = 5.0


class Display:
    """`with Display(total) as display: display.say("..."); display.show(sent, received)`."""

    def __init__(self, total: int, *, bars: bool | None = None) -> None:
        self._total = total
        self._bars = sys.stderr.isatty() if bars is None else bars
        self._began = time.monotonic()
        self._next_s = LINE_S
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if self._bars:
            self._progress = _progress()
            self._sent = self._progress.add_task("sent", total=self._total)
            self._received = self._progress.add_task("received", total=self._total)
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line that stays."""
        line = f"{self.seconds:5.1f} s  {text}"
        if self._progress is not None:
            self._progress.console.print(line, highlight=False, markup=False)
        else:
            click.echo(line, err=True)

    def show(self, sent: int, received: int) -> None:
        """Where it stands; may be called at any rate."""
        if self._progress is not None:
            self._progress.update(self._sent, completed=sent)
            self._progress.update(self._received, completed=received, refresh=True)
        elif self.seconds >= self._next_s:
            self._next_s = self.seconds + LINE_S
            self.say(f"sent {sent:,}, received {received:,}")


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:>9}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    )
