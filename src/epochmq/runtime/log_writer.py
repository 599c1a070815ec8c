"""Log handlers that write in a thread: logging never waits for a terminal, a pipe or a disk.

Writing to a pipe that nobody reads blocks for ever. Log lines therefore wait in a bounded queue.
Lines that do not fit are dropped; a line that counts them is written once there is room again.
"""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from logging.handlers import RotatingFileHandler
from typing import ClassVar

LINES_MAX = 10_000
BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of the lines that wait for one target."""
FLUSH_S = 2.0
"""How long an exit waits for lines that are not written yet."""
URGENT_S = 0.2
"""How long logging a critical line waits until it is written: the process may end next."""

Write = Callable[[Sequence[str]], None]
"""Type of a function that writes whole lines; it may block."""


class QueuedHandler(logging.Handler):
    """Formats a record in the calling thread, and passes the lines to `write` in its own thread.

    `reopen` is called in the writing thread, after a file was moved away, and at the end.
    """

    is_file = False
    dropped_in_all: ClassVar[int] = 0
    """Number of lines dropped by all handlers of this process."""

    def __init__(self, write: Write, reopen: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._write = write
        self._reopen = reopen
        self._lines: deque[str] = deque()
        self._bytes = 0
        self._dropped = 0
        self._writing = False
        self._wants_reopen = False
        self._ended = False
        self._is_stuck = False
        """True after a wait for the lines timed out."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="epochmq-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record) + "\n"
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if len(self._lines) >= LINES_MAX or self._bytes + len(text) > BYTES_MAX:
                self._dropped += 1
                QueuedHandler.dropped_in_all += 1
                return
            self._lines.append(text)
            self._bytes += len(text)
            self._changed.notify_all()
        if record.levelno >= logging.CRITICAL:
            self.wait_written(URGENT_S)

    def reopen(self) -> None:
        """Open the file again by its name, before the next line."""
        with self._changed:
            self._wants_reopen = True
            self._changed.notify_all()

    def wait_written(self, timeout_s: float) -> bool:
        """Wait until all lines logged before are written; returns False after `timeout_s`."""
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            self._is_stuck = not self._changed.wait_for(self._is_idle, timeout_s)
            return not self._is_stuck

    def _is_idle(self) -> bool:
        return not self._lines and not self._writing and not self._wants_reopen

    def flush(self) -> None:
        self.wait_written(FLUSH_S)

    def close(self) -> None:
        """Write the waiting lines, for `FLUSH_S` at most, and end the thread."""
        if not self._is_stuck:
            self.flush()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(FLUSH_S if self._is_idle() else 0)
        super().close()

    # In the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_idle() or self._ended)
                if self._is_idle():
                    break
                lines = list(self._lines)
                self._lines.clear()
                self._bytes = 0
                dropped, self._dropped = self._dropped, 0
                reopens, self._wants_reopen = self._wants_reopen, False
                self._writing = True
            if dropped:
                lines.append(f"{_now()} WARNING {__name__}: {dropped} lines were dropped\n")
            try:
                if reopens:
                    self._reopen()
                self._write(lines)
            except Exception:
                QueuedHandler.dropped_in_all += len(
                    lines
                )  # counted only: the log itself cannot be written
            with self._changed:
                self._writing = False
                self._changed.notify_all()
        self._reopen()


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def stderr_handler() -> QueuedHandler:
    """Return a handler that writes to standard error."""
    return QueuedHandler(_write_stderr)


def _write_stderr(lines: Sequence[str]) -> None:
    """Write past Python's buffer: an exit would fail on its lock while this write blocks."""
    text = "".join(lines)
    try:
        fd = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        return
    rest = memoryview(text.encode("utf-8", "replace"))
    while rest:
        rest = rest[os.write(fd, rest) :]


def file_handler(path: str, bytes_max: int, kept: int) -> QueuedHandler:
    """Return a handler that appends to the file `path`, which is rotated at `bytes_max`.

    `kept` is the number of rotated files. Raises OSError when the file cannot be created.
    """
    file = _LogFile(path, maxBytes=bytes_max, backupCount=kept, encoding="utf-8")

    def write(lines: Sequence[str]) -> None:
        for line in lines:
            file.emit(logging.makeLogRecord({"msg": line}))

    handler = QueuedHandler(write, file.let_go)
    handler.is_file = True
    return handler


class _LogFile(RotatingFileHandler):
    """A rotating file that only one thread writes to."""

    terminator = ""

    def let_go(self) -> None:
        """Close the file; the next line opens it again by its name."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def handleError(self, record: logging.LogRecord) -> None:
        """Count the failure (for example a full disk); writing to standard error could block."""
        QueuedHandler.dropped_in_all += 1
