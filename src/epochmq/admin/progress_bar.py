"""Progress on a terminal: on stderr, redrawn now and then, and nothing at all in a pipe."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress

REDRAW_S = 0.1


class Bar:
    """`with Bar("sending", total=100, unit=...) as bar: bar.set(done, "text")`.

    Without a total a spinner and a count. Cheap when called for every message.
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
        """Show how far it is."""
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
