"""Parses a line of input into a message: the line itself, or a JSON object.

JSON fields: `body` (text; other JSON is kept as compact JSON) or `body_base64`, `tags`, `keys`
(text or list), `properties` (object of texts), `key` (ordering key), `delay_level`, `delay_ms`,
`deliver_at_ms`. Others are ignored, so that the output of `consume -o json` can be produced again.
"""

import asyncio
import base64
import binascii
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from epochmq.base.errors import UsageError
from epochmq.model import property_names as names
from epochmq.model.message import Message


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values from the command line, for messages that do not set them."""

    topic: str
    tags: str | None = None
    key: str | None = None
    delay_level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Outbound:
    """A message and its ordering key, if any."""

    message: Message
    key: str | None = field(default=None)


def from_line(line: bytes, defaults: Defaults) -> Outbound:
    """Return a message whose body is the line without its end."""
    message = Message(
        defaults.topic,
        line,
        tags=defaults.tags,
        keys=_keys(defaults.key),
        delay_level=defaults.delay_level,
        delay_ms=defaults.delay_ms,
        deliver_at_ms=defaults.deliver_at_ms,
    )
    return Outbound(message, defaults.key)


def from_json(line: bytes, defaults: Defaults, number: int) -> Outbound:
    """Parse one JSON object; raises `UsageError` with the line's `number`."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError('an object is wanted, as {"body": "hello"}')
        return _from_object(found, defaults)
    except ValueError as error:
        raise UsageError(f"line {number}: {error}") from None


def _from_object(found: dict[str, object], defaults: Defaults) -> Outbound:
    key = _text(found, "key") or defaults.key
    properties = _properties(found.get("properties"))
    when = _when(found, defaults)
    message = Message(
        defaults.topic,
        _body(found),
        tags=_text(found, "tags") or defaults.tags,
        keys=_keys(found.get("keys")) or _keys(key),
        properties=properties,
        delay_level=when["delay_level"],
        delay_ms=when["delay_ms"],
        deliver_at_ms=when["deliver_at_ms"],
    )
    return Outbound(message, key)


def _body(found: dict[str, object]) -> bytes:
    if "body_base64" in found:
        try:
            return base64.b64decode(str(found["body_base64"]), validate=True)
        except binascii.Error as error:
            raise ValueError(f"'body_base64' is not base64 ({error})") from None
    if "body" not in found:
        raise ValueError("'body' or 'body_base64' is missing")
    body = found["body"]
    if isinstance(body, str):
        return body.encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _text(found: dict[str, object], name: str) -> str | None:
    value = found.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"'{name}' must be text")


def _keys(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("'keys' must be text or a list of texts")
    return tuple(words)


def _properties(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("'properties' must be an object")
    # Reserved properties of a stored message are set again by client and broker.
    return {str(k): str(v) for k, v in value.items() if k not in names.RESERVED}


def _when(found: dict[str, object], defaults: Defaults) -> dict[str, int]:
    """Return the delivery time; a line with any field of time uses none of the defaults."""
    names_of_time = ("delay_level", "delay_ms", "deliver_at_ms")
    if not any(name in found for name in names_of_time):
        return {name: getattr(defaults, name) for name in names_of_time}
    return {
        "delay_level": _level(found.get("delay_level", 0)),
        "delay_ms": _milliseconds(found.get("delay_ms", 0), "delay_ms"),
        "deliver_at_ms": _milliseconds(found.get("deliver_at_ms", 0), "deliver_at_ms"),
    }


def _milliseconds(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return value
    raise ValueError(f"'{name}' must be a number of milliseconds")


def _level(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 18:
        return value
    raise ValueError("'delay_level' must be a number from 0 to 18")


# Reading -------------------------------------------------------------------------------------
# Reads lines from a file, a pipe or a terminal, without a thread that Ctrl-C could not end.


CHUNK_BYTES = 1 << 16


async def lines(handle: int) -> AsyncIterator[bytes]:
    """Yield lines without their ends, also empty ones; the last line may lack an end."""
    rest = b""
    async for chunk in _chunks(handle):
        whole = (rest + chunk).split(b"\n")
        rest = whole.pop()
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def _chunks(handle: int) -> AsyncIterator[bytes]:
    while True:
        await _readable(handle)
        chunk = os.read(handle, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(handle, ready.set)
    except PermissionError:
        # A plain file: always ready. Give the others a turn all the same.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)
