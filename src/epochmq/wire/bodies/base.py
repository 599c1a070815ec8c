"""How typed bodies become JSON and come back (facts/remoting.md 3).

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
from epochmq.base.types import Buffer
from epochmq.model.queue import MessageQueue
from epochmq.wire import json_tolerant
from epochmq.wire.loose import loosen

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
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def encode_body(body: Any) -> bytes:
    """Standard JSON of a Body or of one of model's configuration types."""
    return _encode(body)


def decode_body(cls: type[T], data: Buffer) -> T:
    """Read `data` as a `cls`; `HeaderError` (answered, not cut) when it cannot be one."""
    if len(data) == 0:
        raise HeaderError(f"the request has no body; {cls.__name__} is expected")
    try:
        value: T = _decoder(_key(cls)).decode(data)
    except _REFUSALS:
        return _decode_loosely(cls, data)
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


def _decode_loosely(cls: type[T], data: Buffer) -> T:
    try:
        value = loosen(json_tolerant.loads(data), _info(_key(cls)))
        return msgspec.convert(value, cls, strict=False)
    except PeerError as error:
        raise HeaderError(f"the body is no {cls.__name__}: {error}") from None
    except _REFUSALS as error:
        raise HeaderError(f"the body is no {cls.__name__}: {error}") from None
