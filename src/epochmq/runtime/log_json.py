"""Log lines as JSON: one object a line, with the name of the event and its values.

The event is named after the text of the line without its values, so it does not change while the
text stays: "registered at name server %(address)s" is `registered_at_name_server`. docs/EVENTS.md
lists all of them.
"""

import datetime
import functools
import json
import logging
import math
import re
from collections.abc import Callable, Mapping

WORDS_MAX = 8
_VALUE = re.compile(r"%(?:\([^)]*\))?[-+ #0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z%]")
_WORD = re.compile(r"[A-Za-z0-9]+")
_SECRET_KEY = re.compile(r"(?i)secret|passw|signature|access_?key|token|private_?key")
_HIDDEN = "***"
_SIMPLE = (bool, int, float, type(None))


@functools.lru_cache(maxsize=4096)
def event_name(template: str, logger: str) -> str:
    """Return the name of an event: the first words of its text, or the module if it has none.

    Args:
        template: the text of the line, with placeholders for its values.
        logger: name of the logger.
    """
    text = _VALUE.sub(" ", template).replace("'", "")
    words = _WORD.findall(text)[:WORDS_MAX]
    return "_".join(words).lower() or logger.rpartition(".")[2]


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object.

    Args:
        scrub: hides secrets in a text.
        about: returns the server that a line is about, when a process has several; else "".
    """

    def __init__(self, scrub: Callable[[str], str], about: Callable[[], str]) -> None:
        super().__init__()
        self._scrub = scrub
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        template = str(record.msg)
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        row: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or event_name(template, record.name),
            "message": self._scrub(record.getMessage()),
            "logger": record.name,
        }
        if about := self._about():
            row["server"] = about
        if isinstance(record.args, Mapping):
            values = record.args.items()
            row["values"] = {str(key): self._value(key, value) for key, value in values}
        if record.exc_info:
            row["exception"] = self._scrub(self.formatException(record.exc_info))
        return json.dumps(row, separators=(",", ":"))

    def _value(self, key: object, value: object) -> object:
        if _SECRET_KEY.search(str(key)):
            return _HIDDEN
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)  # JSON does not have it
        return value if isinstance(value, _SIMPLE) else self._scrub(str(value))
