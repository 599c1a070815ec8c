"""How typed bodies become JSON and come back.

A field that is UNSET is left out, as fastjson leaves out nulls. Maps keyed by a queue are plain
dicts whose keys are the queue's JSON text: quoted on the way out, taken inline as well on the way
in.
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
"""A text that may be absent."""


def camel_but(**odd: str) -> Callable[[str], str]:
    """A rename rule: camel case, but for the attributes in `odd`."""

    def rename(name: str) -> str:
        first, *rest = name.split("_")
        return odd.get(name) or first + "".join(map(str.title, rest))

    return rename


class Body(msgspec.Struct, rename="camel"):
    """A JSON body; attributes are written with underscores, the wire has them in camel case."""


_encode = msgspec.json.Encoder().encode


def encode_body(body: Any) -> bytes:
    """Standard JSON of a Body or of one of model's configuration types."""
    return _encode(body)


def decode_body(cls: type[T], data: Buffer) -> T:
    """Read a request's body as a `cls`; `HeaderError` (answered, not cut) when it cannot be one.

    A body over `LENIENT_BODY_BYTES_MAX` must be standard JSON of the right types: reading others
    takes ten times as long and more, and anybody may send them.
    """
    if len(data) == 0:
        raise HeaderError(f"the request has no body; {cls.__name__} is expected")
    try:
        value: T = _decoder(_key(cls)).decode(data)
    except json_tolerant.REFUSALS as error:
        if len(data) > LENIENT_BODY_BYTES_MAX:
            raise HeaderError(
                f"the body is no {cls.__name__}: {error}; a body of more than"
                f" {LENIENT_BODY_BYTES_MAX} bytes must be standard JSON"
            ) from None
        return _decode_loosely(cls, data, CAREFUL_BODY_BYTES_MAX)
    return value


def decode_answer(cls: type[T], data: Buffer) -> T:
    """Read what this process asked for as a `cls`, in either dialect, however long it is."""
    if len(data) == 0:
        raise HeaderError(f"the answer has no body; {cls.__name__} is expected")
    try:
        value: T = _decoder(_key(cls)).decode(data)
    except json_tolerant.REFUSALS:
        return _decode_loosely(cls, data, FRAME_BYTES_MAX)
    return value


def queue_key(queue: MessageQueue) -> str:
    """The compact JSON text of a queue, keys in alphabetical order as Java writes them."""
    return _encode(
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
    ).decode()


def mq_map_encode(pairs: Iterable[tuple[MessageQueue, V]]) -> dict[str, V]:
    """A map keyed by queue, as it goes into a Body."""
    return {queue_key(queue): value for queue, value in pairs}


def mq_map_decode(table: Mapping[str, V]) -> list[tuple[MessageQueue, V]]:
    """The entries of a Body's map keyed by queue; `HeaderError` for a key that is no queue."""
    return [(decode_body(MessageQueue, key.encode()), value) for key, value in table.items()]


def _key(cls: Any) -> Any:
    """`cls` without its type variable, which `cache` cannot hash in the checker's eyes."""
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
        raise HeaderError(f"the body is no {cls.__name__}: {error}") from None
    except json_tolerant.REFUSALS as error:
        raise HeaderError(f"the body is no {cls.__name__}: {error}") from None
