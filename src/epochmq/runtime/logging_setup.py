"""Logging set-up: stderr, and a rotating file if asked; secrets are masked in both.

Threads write the lines (`log_writer.py`). Text from peers cannot imitate a log line: control
characters are escaped, and the lines of a traceback are indented.
"""

import faulthandler
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from epochmq.runtime.log_json import JsonFormatter
from epochmq.runtime.log_writer import QueuedHandler, file_handler, stderr_handler
from epochmq.runtime.server_log_options import JSON, TEXT

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
FILE_BYTES = 64 * 1024 * 1024
FILES_KEPT = 5
HIDDEN = "***"

spoken_of: ContextVar[str] = ContextVar("spoken_of", default="")
"""The server that a log line is about, when a process has several; shown before the text."""

# The log contains text of peers, so the pattern must not backtrack much: each repetition is bounded
# or can match in one way only.
_SECRET = re.compile(
    r"""(?ix) ((?: secret[\w-]{0,32}key | secret | password | passwd | signature
              | access[_-]?key | security[_-]?token | private[_-]?key ) ["']? \s* [=:] \s* )
        ( "[^"]*" | '[^']*' | [^\s,;&}\])]+ )"""
)


def scrub(text: str) -> str:
    """Return `text` with the value of everything that is named like a secret replaced by `***`."""
    return _SECRET.sub(lambda match: match.group(1) + HIDDEN, text)


_ESCAPED = {
    number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0)) if number != 0x09
}
_ESCAPED |= {0x0A: "\\n", 0x0D: "\\r", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_ESCAPED_BUT_NEWLINES = {key: text for key, text in _ESCAPED.items() if key != 0x0A}


class ScrubbingFormatter(logging.Formatter):
    """Masks secrets in the whole formatted line, with arguments and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).translate(_ESCAPED_BUT_NEWLINES)
        return scrub(text.replace("\n", "\n  "))

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_ESCAPED)
        about = spoken_of.get()
        if about:
            record.message = f"[{about}] {record.message}"
        return super().formatMessage(record)


def configure(level: str = "info", file: str | None = None, format: str = TEXT) -> None:
    """Send the root logger's lines to stderr, and to `file` (rotated at 64 MiB, 5 kept).

    `format` is "text" or "json", for all log files of the process. A second call replaces the
    handlers of the first. Raises OSError when `file` cannot be created.
    """
    global _format
    _format = format
    handlers = [stderr_handler()]
    if file is not None:
        handlers.append(_rotating(file))
    _replace(logging.getLogger(), handlers)
    logging.getLogger().setLevel(level.upper())


def set_level(level: str) -> None:
    """Change what is logged from now on: "debug", "info", "warning" or "error"."""
    logging.getLogger().setLevel(level.upper())


_format = TEXT


def _formatter() -> logging.Formatter:
    if _format == JSON:
        return JsonFormatter(scrub, spoken_of.get)
    return ScrubbingFormatter(FORMAT)


def report_crashes(file: str | None = None) -> None:
    """Write a traceback to `file`, else to stderr, when a signal such as SIGSEGV ends the process.

    The log cannot be written at that moment. Raises OSError when `file` cannot be written.
    """
    if file is None:
        with suppress(ValueError, OSError):  # stderr may be closed, or have no descriptor
            faulthandler.enable()
        return
    global _crash_file
    old, _crash_file = _crash_file, Path(file).open("a", encoding="utf-8")  # noqa: SIM115
    faulthandler.enable(_crash_file)
    if old is not None:
        old.close()


_crash_file: IO[str] | None = None


def configure_part(name: str, level: str = "", file: str = "") -> None:
    """Set the level, or an additional file, for the loggers below `name`; '' for neither.

    Raises OSError when `file` cannot be created.
    """
    logger = logging.getLogger(name)
    _replace(logger, [_rotating(file)] if file else [])
    logger.setLevel(level.upper() or logging.NOTSET)


def open_own_file(about: str, file: str) -> Callable[[], None]:
    """Write the log lines of the server `about` also to `file`, until the returned call.

    Raises OSError when `file` cannot be created.
    """
    handler = _rotating(file)
    handler.setFormatter(_formatter())
    handler.addFilter(lambda record: spoken_of.get() == about)
    root = logging.getLogger()
    root.addHandler(handler)

    def close() -> None:
        root.removeHandler(handler)
        handler.close()

    return close


def tell_files(text: str) -> None:
    """Write an error to the log files only: standard error has it already."""
    record = logging.LogRecord("epochmq", logging.ERROR, "", 0, text, None, None)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, QueuedHandler) and handler.is_file:
            handler.handle(record)


def reopen_files() -> None:
    """Open all log files again by their names, for example after log rotation moved them."""
    for handler in _handlers():
        handler.reopen()


def wait_written(timeout_s: float) -> bool:
    """Wait until the logged lines are written; returns False after `timeout_s` per handler."""
    return all(handler.wait_written(timeout_s) for handler in _handlers())


def _handlers() -> list[QueuedHandler]:
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found = [
        handler
        for logger in loggers
        if isinstance(logger, logging.Logger)
        for handler in logger.handlers
    ]
    return [handler for handler in found if isinstance(handler, QueuedHandler)]


def log_figures() -> dict[str, str]:
    """Return the log figures for a server's runtime information."""
    return {"epochmqLogLinesDropped": str(QueuedHandler.dropped_in_all)}


def _rotating(file: str) -> QueuedHandler:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    return file_handler(file, FILE_BYTES, FILES_KEPT)


def _replace(logger: logging.Logger, handlers: list[QueuedHandler]) -> None:
    """Replace the handlers that an earlier call added to `logger`."""
    for old in [handler for handler in logger.handlers if getattr(handler, "epochmq", False)]:
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(_formatter())
        handler.epochmq = True  # type: ignore[attr-defined]
        logger.addHandler(handler)
