"""Logging set-up: stderr, and a rotating file if asked; secrets never reach either."""

import logging
import re
from collections.abc import Callable
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
FILE_BYTES = 64 * 1024 * 1024
FILES_KEPT = 5
HIDDEN = "***"

spoken_of: ContextVar[str] = ContextVar("spoken_of", default="")
"""Which of several servers in one process a line is about; shown before the line's text."""

# Strangers' words reach the log: every repetition is bounded or cannot be tried in two ways.
_SECRET = re.compile(
    r"""(?ix) ((?: secret[\w-]{0,32}key | secret | password | passwd | signature
              | access[_-]?key | security[_-]?token | private[_-]?key ) ["']? \s* [=:] \s* )
        ( "[^"]*" | '[^']*' | [^\s,;&}\])]+ )"""
)


def scrub(text: str) -> str:
    """`text` with the value of everything that is named like a secret replaced by `***`."""
    return _SECRET.sub(lambda match: match.group(1) + HIDDEN, text)


class ScrubbingFormatter(logging.Formatter):
    """Scrubs the whole formatted line, so arguments and tracebacks are covered too."""

    def format(self, record: logging.LogRecord) -> str:
        return scrub(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        about = spoken_of.get()
        if about:
            record.message = f"[{about}] {record.message}"
        return super().formatMessage(record)


def configure(level: str = "info", file: str | None = None) -> None:
    """Send the root logger's lines to stderr, and to `file` (rotated at 64 MiB, 5 kept).

    Called again it replaces what it set up before. Errors: OSError when `file` cannot be made.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if file is not None:
        handlers.append(_rotating(file))
    _replace(logging.getLogger(), handlers)
    logging.getLogger().setLevel(level.upper())


def configure_part(name: str, level: str = "", file: str = "") -> None:
    """Another level, or a file of its own besides, for the loggers below `name`; '' for neither.

    Errors: OSError when `file` cannot be made.
    """
    logger = logging.getLogger(name)
    _replace(logger, [_rotating(file)] if file else [])
    logger.setLevel(level.upper() or logging.NOTSET)


def open_own_file(about: str, file: str) -> Callable[[], None]:
    """What is said of the server `about` goes to `file` as well, until the returned call.

    Errors: OSError when `file` cannot be made.
    """
    handler = _rotating(file)
    handler.setFormatter(ScrubbingFormatter(FORMAT))
    handler.addFilter(lambda record: spoken_of.get() == about)
    root = logging.getLogger()
    root.addHandler(handler)

    def close() -> None:
        root.removeHandler(handler)
        handler.close()

    return close


def _rotating(file: str) -> logging.Handler:
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    return RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")


def _replace(logger: logging.Logger, handlers: list[logging.Handler]) -> None:
    """Put `handlers` in the place of those that were put there before."""
    for old in [handler for handler in logger.handlers if getattr(handler, "epochmq", False)]:
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(ScrubbingFormatter(FORMAT))
        handler.epochmq = True  # type: ignore[attr-defined]
        logger.addHandler(handler)
