"""Turns a user's message into what goes on the wire: properties, id, compression, flags."""

import zlib
from dataclasses import dataclass

from epochmq.base.errors import UsageError
from epochmq.base.limits import MESSAGE_BYTES_MAX, PROPERTIES_BYTES_MAX
from epochmq.model import property_names as names
from epochmq.model import sys_flag
from epochmq.model.message import Message
from epochmq.model.names import check_topic
from epochmq.model.properties import encode

COMPRESS_OVER_BYTES = 4_096
COMPRESS_LEVEL = 5


@dataclass(slots=True)
class Outgoing:
    """A message ready to be sent; the id stays the same over all tries."""

    topic: str
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    uniq_id: str
    reconsume_times: int = 0
    max_reconsume_times: int | None = None


def prepare(
    message: Message, uniq_id: str, *, compress_over_bytes: int = COMPRESS_OVER_BYTES
) -> Outgoing:
    """Check `message` and give it the id `uniq_id` unless it has one.

    Raises `UsageError` for a message that every broker would refuse.
    """
    check(message)
    properties = properties_of(message, uniq_id)
    text = encode(properties)
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise UsageError(f"properties are over {PROPERTIES_BYTES_MAX} bytes; move data to the body")
    body, flags = _compressed(message.body, compress_over_bytes)
    return Outgoing(message.topic, body, text, message.flag, flags, properties[names.UNIQ_KEY])


def check(message: Message) -> None:
    """Raise `UsageError` for a topic, body or property that cannot be sent."""
    check_topic(message.topic)
    if len(message.body) > MESSAGE_BYTES_MAX:
        raise UsageError(
            f"the body has {len(message.body)} bytes, over the limit of {MESSAGE_BYTES_MAX}; "
            "split it or store it elsewhere and send a reference"
        )
    for name, value in message.properties.items():
        if "\x01" in name + value or "\x02" in name + value:
            raise UsageError(
                f"property {name!r} holds a control character that separates properties"
            )


def properties_of(message: Message, uniq_id: str) -> dict[str, str]:
    """All properties of `message`, its tag, keys and delay level included."""
    properties = message.all_properties()
    properties.setdefault(names.UNIQ_KEY, uniq_id)
    return properties


def _compressed(body: bytes, over_bytes: int) -> tuple[bytes, int]:
    if len(body) < over_bytes:
        return body, 0
    packed = zlib.compress(body, COMPRESS_LEVEL)
    if len(packed) >= len(body):
        return body, 0
    return packed, sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB
