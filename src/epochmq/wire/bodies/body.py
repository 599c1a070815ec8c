"""Encoding of typed bodies as JSON, and decoding.

A field that is UNSET is left out, as fastjson leaves out nulls. In a map keyed by queue, a key is
the JSON text of the queue. It is written as a quoted string; an object as key is read as well.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import UnsetType

from epochmq.base.errors import HeaderError, PeerError
from epochmq.base.limits import (
    CAREFUL_BODY_BYTES_MAX,
    FRAME_BYTES_MAX,
    LENIENT_BODY_BYTES_MAX,
)
from epochmq.base.ports import Buffer
from epochmq.model.topic import MessageQueue
from epochmq.wire import json_tolerant
from epochmq.wire.json_tolerant import loosen

T = TypeVar("T")
V = TypeVar("V")

MaybeText = str | UnsetType | None
"""A text that may be missing."""


def camel_but(**odd: str) -> Callable[[str], str]:
    """Return a rename rule for msgspec: camel case, except for the attributes in `odd`."""

    def rename(name: str) -> str:
        first, *rest = name.split("_")
        return odd.get(name) or first + "".join(map(str.title, rest))

    return rename


class Body(msgspec.Struct, rename="camel"):
    """Base class of JSON bodies. Attributes are in snake case, their JSON names in camel case."""


_encode = msgspec.json.Encoder().encode


def encode_body(body: Any) -> bytes:
    """Return standard JSON of a `Body` or of a configuration type of `model`."""
    return _encode(body)


def decode_body(cls: type[T], data: Buffer) -> T:
    """Decode the body of a request as a `cls`.

    A body over `LENIENT_BODY_BYTES_MAX` must be standard JSON with the right types, because the
    lenient parsers are at least ten times slower, and any client can send such a body.

    Raises:
        HeaderError: the body is missing or cannot be a `cls`; the server answers with an error.
    """
    if len(data) == 0:
        raise HeaderError(f"the request has no body; {cls.__name__} is expected")
    try:
        value: T = _decoder(_key(cls)).decode(data)
    except json_tolerant.REFUSALS as error:
        if len(data) > LENIENT_BODY_BYTES_MAX:
            raise HeaderError(
                f"the body is not a {cls.__name__}: {error}; a body of more than"
                f" {LENIENT_BODY_BYTES_MAX} bytes must be standard JSON"
            ) from None
        return _decode_loosely(cls, data, CAREFUL_BODY_BYTES_MAX)
    return value


def decode_answer(cls: type[T], data: Buffer) -> T:
    """Decode the body of an answer as a `cls`, in standard JSON or fastjson's, of any length.

    Raises:
        HeaderError: the body is missing or cannot be a `cls`.
    """
    if len(data) == 0:
        raise HeaderError(f"the answer has no body; {cls.__name__} is expected")
    try:
        value: T = _decoder(_key(cls)).decode(data)
    except json_tolerant.REFUSALS:
        return _decode_loosely(cls, data, FRAME_BYTES_MAX)
    return value


def queue_key(queue: MessageQueue) -> str:
    """Return the compact JSON text of a queue, with its keys in alphabetical order as in Java."""
    return _encode(
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
    ).decode()


def mq_map_encode(pairs: Iterable[tuple[MessageQueue, V]]) -> dict[str, V]:
    """Return a map keyed by queue in the form of a `Body` field."""
    return {queue_key(queue): value for queue, value in pairs}


def mq_map_decode(table: Mapping[str, V]) -> list[tuple[MessageQueue, V]]:
    """Return the entries of a map keyed by queue. Raises `HeaderError` for a key that
    is not a queue.
    """
    return [(decode_body(MessageQueue, key.encode()), value) for key, value in table.items()]


def _key(cls: Any) -> Any:
    """Return `cls`. It hides the type variable from the type checker, which `cache`
    would reject.
    """
    return cls


@cache
def _decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls, strict=False)


@cache
def _info(cls: Any) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(cls)


def _decode_loosely(cls: type[T], data: Buffer, careful_max: int) -> T:
    try:
        parsed = json_tolerant.loads(data, careful_max=careful_max)
        return msgspec.convert(loosen(parsed, _info(_key(cls))), cls, strict=False)
    except PeerError as error:
        raise HeaderError(f"the body is not a {cls.__name__}: {error}") from None
    except json_tolerant.REFUSALS as error:
        raise HeaderError(f"the body is not a {cls.__name__}: {error}") from None
