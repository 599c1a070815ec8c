"""Prints messages on standard output: pretty for a terminal, bodies for a pipe, or JSON lines."""

import base64
import datetime
import json
import sys
from typing import BinaryIO

from epochmq.base.errors import EpochError
from epochmq.model import property_names as names
from epochmq.model.message import StoredMessage

PRETTY_BYTES_MAX = 2_000
_DIM, _CYAN, _PLAIN = "\x1b[2m", "\x1b[36m", "\x1b[0m"

# A body must not move the cursor or rename the window.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9}


class Printer:
    """Prints messages; `style` is "pretty", "body" or "json"; `flush` flushes the output."""

    def __init__(self, style: str, out: BinaryIO | None = None) -> None:
        self._form = {"pretty": pretty, "body": body, "json": as_json}[style]
        self._out = out or sys.stdout.buffer
        self.count = 0

    def show(self, message: StoredMessage) -> None:
        """Write one message and a line end."""
        self._out.write(self._form(message) + b"\n")
        self.count += 1

    def flush(self) -> None:
        """Flush the output; raises `BrokenPipeError` when its reader has ended."""
        self._out.flush()


def style_for(output: str) -> str:
    """Return "json" if requested, else the style for standard output."""
    if output == "json":
        return "json"
    return "pretty" if sys.stdout.isatty() else "body"


def body(message: StoredMessage) -> bytes:
    """Return the body as it was sent, or as stored when it cannot be decompressed."""
    try:
        return message.plain_body()
    except EpochError:
        return message.body


def pretty(message: StoredMessage) -> bytes:
    """Format time and place in grey, tags and keys in colour, then the text without control
    codes.
    """
    moment = datetime.datetime.fromtimestamp(message.store_wall_ms / 1_000)
    place = f"{moment:%H:%M:%S}.{message.store_wall_ms % 1_000:03d}"
    place += f" {message.queue_id}@{message.queue_offset}"
    labels = ([f"[{message.tags}]"] if message.tags else []) + list(message.keys)
    marks = f" {_CYAN}{_harmless(' '.join(labels))}{_PLAIN}" if labels else ""
    return f"{_DIM}{place}{_PLAIN}{marks} {_readable(body(message))}".encode()


def as_json(message: StoredMessage) -> bytes:
    """Format all fields as JSON, which `produce --json` can read; binary bodies as
    `body_base64`.
    """
    content = body(message)
    shown: dict[str, object] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "born_ms": message.born_wall_ms,
        "stored_ms": message.store_wall_ms,
        "tags": message.tags,
        "keys": list(message.keys),
        "key": message.properties.get(names.SHARDING_KEY),
        "reconsume_times": message.reconsume_times,
        "properties": message.properties,
    }
    try:
        shown["body"] = content.decode()
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(content).decode()
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def _readable(content: bytes) -> str:
    cut = content[:PRETTY_BYTES_MAX]
    more = f" ... ({len(content):,} bytes)" if len(content) > len(cut) else ""
    return _harmless(cut.decode(errors="backslashreplace")) + more


def _harmless(text: str) -> str:
    return text.translate(_ESCAPES)
