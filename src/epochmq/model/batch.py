"""Batches: several messages in one send (SEND_BATCH_MESSAGE) or in one stored record.

Each message: size i32 | magic i32 (0) | body crc i32 (0) | flag i32 | body length i32, body |
properties length i16, properties.
"""

import struct
from collections.abc import Iterable, Sequence

import msgspec

from epochmq.base import limits
from epochmq.base.errors import HeaderError
from epochmq.base.ports import Buffer
from epochmq.model import properties as props
from epochmq.model import property_names as names
from epochmq.model.crc import crc32
from epochmq.model.message import Message, StoredMessage
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_MASK, INNER_BATCH, NEED_UNWRAP

_HEAD = struct.Struct(">IIIiI")
_U16 = struct.Struct(">H")
_SMALLEST = _HEAD.size + _U16.size
_UNWRAP = NEED_UNWRAP | INNER_BATCH
_INNER_FLAGS = _UNWRAP | COMPRESSED | COMPRESSION_MASK


class BatchError(HeaderError):
    """A batch whose lengths contradict each other; the request is refused."""


class BatchEntry(msgspec.Struct, gc=False):
    """One message of a batch; `properties` are encoded as the client sent them."""

    flag: int
    body: bytes
    properties: bytes


def encode(messages: Iterable[Message], ids: Iterable[str] | None = None) -> bytes:
    """Return the body of a batch send.

    `ids` are the ids of the messages, as their property `UNIQ_KEY`; None leaves the properties as
    they are. Raises `Refused` (13) if properties of a message are too long.
    """
    if ids is None:
        return b"".join(map(_encode_one, messages))
    return b"".join(map(_encode_one, messages, ids))


def _encode_one(message: Message, uniq_id: str = "") -> bytes:
    found = message.all_properties()
    if uniq_id:
        found[names.UNIQ_KEY] = uniq_id
    properties = props.encode(found).encode()
    props.check_length(properties)
    return entry(message.flag, message.body, properties)


def entry(flag: int, body: bytes, properties: bytes) -> bytes:
    """Return one message of a batch; `properties` are encoded and within their limit."""
    return join(((flag, body, properties),))


def join(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Return the messages (flag, body, encoded properties) of a batch; a body is copied once."""
    head, length = _HEAD.pack, _U16.pack
    parts: list[bytes] = []
    for flag, body, properties in messages:
        size = _SMALLEST + len(body) + len(properties)
        parts += head(size, 0, 0, flag, len(body)), body, length(len(properties)), properties
    return b"".join(parts)


def decode(body: Buffer) -> list[BatchEntry]:
    """Return the messages of a batch. Raises `BatchError` for wrong lengths or too many
    messages.
    """
    data = bytes(body)  # slices of bytes are cheaper than slices of a memoryview
    entries: list[BatchEntry] = []
    unpack_head, unpack_size = _HEAD.unpack_from, _U16.unpack_from
    pos, end = 0, len(data)
    while pos < end:
        if end - pos < _SMALLEST:
            raise BatchError(f"the batch ends within the record at byte {pos}")
        size, _, _, flag, body_size = unpack_head(data, pos)
        body_from = pos + _HEAD.size
        body_to = body_from + body_size
        stop = pos + size
        if stop > end or body_to + 2 > stop or body_to + 2 + unpack_size(data, body_to)[0] != stop:
            raise BatchError(f"the record at byte {pos} of the batch has impossible lengths")
        entries.append(BatchEntry(flag, data[body_from:body_to], data[body_to + 2 : stop]))
        pos = stop
        if len(entries) > limits.BATCH_RECORDS_MAX:
            raise BatchError(f"a batch of more than {limits.BATCH_RECORDS_MAX} messages; split it")
    return entries


def unwrap_all(records: Sequence[StoredMessage], first: int) -> list[StoredMessage]:
    """Return the messages of `records`, without those of a batch before queue offset `first`."""
    if not any(stored.sys_flag & _UNWRAP == _UNWRAP for stored in records):
        return list(records)
    return [
        message
        for stored in records
        for message in unwrap(stored)
        if message.queue_offset >= first or message is stored
    ]


def unwrap(message: StoredMessage, limit: int = limits.FRAME_BYTES_MAX) -> list[StoredMessage]:
    """Return the messages inside a stored batch, or the message itself.

    Args:
        message: the stored message. Message number k of a batch gets its queue offset + k.
        limit: largest size of the inflated body in bytes.
    """
    if message.sys_flag & _UNWRAP != _UNWRAP:
        return [message]
    return [
        msgspec.structs.replace(
            message,
            queue_offset=message.queue_offset + at,
            body=entry.body,
            flag=entry.flag,
            sys_flag=message.sys_flag & ~_INNER_FLAGS,
            properties=props.decode_bytes(entry.properties),
            body_crc=crc32(entry.body),
        )
        for at, entry in enumerate(decode(message.plain_body(limit)))
    ]
