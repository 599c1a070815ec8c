"""The layout of a stored record; the commit log and answers to pulls have records.

Fixed head, with IPv4 hosts (an IPv6 host, marked in `sys_flag`, takes 12 bytes more):
size i32 | magic i32 | body crc i32 | queue id i32 | flag i32 | queue offset i64 | offset i64 |
sys_flag i32 | born ms i64 | born ip 4, port i32 | store ms i64 | store ip 4, port i32 |
reconsume times i32 | prepared offset i64 | body length i32 - then the body, the topic with its
length (i8 in V1, i16 in V2), the properties with their length (i16).
"""

import struct

from epochmq.base import limits
from epochmq.base.errors import OurBug, PeerError
from epochmq.base.ports import Buffer
from epochmq.model import properties as props
from epochmq.model.crc import crc32
from epochmq.model.host import pack, unpack
from epochmq.model.message import StoredMessage
from epochmq.model.sys_flag import BORN_V6, HOSTS_V6_MASK, STORE_V6

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194

HEADS = tuple(
    struct.Struct(f">IIIiiqqiq{born}sq{store}siqi") for store in (8, 20) for born in (8, 20)
)
"""The head by `sys_flag >> 4 & 3`: bit 0 for an IPv6 born host, bit 1 for an IPv6 store host."""
HEAD = HEADS[0]
HEAD_BYTES_MAX = max(head.size for head in HEADS)
BLANK = struct.Struct(">II")
"""Size and magic of the blank record at the end of a log file."""
TRAILING_BLANK_BYTES = 8
"""Space for the blank record: a record fits only if this much stays free in the file."""

MAGIC_AT = 4
QUEUE_OFFSET_AT = 20
OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_TIME_AT = 40
STORE_TIME_AT = 56
"""Only with an IPv4 born host; use `store_time_at`."""

NOTHING = 0
"""Result of `check`: no magic number; the valid data ends here."""
DAMAGED = -1
"""Result of `check`: a record with contradictory lengths, or with a wrong crc."""
FILLER = -2
"""Result of `check`: the blank record; the next record is in the next file."""
TORN = -3
"""Result of `check`: a record that begins before `limit` and ends behind it."""

_FRONT = struct.Struct(">IIIiiqqi")
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U16 = struct.Struct(">H")
_MAGICS = (MAGIC_V1, MAGIC_V2)
_SMALLEST = HEAD.size + 3
_LONG_TOPIC = 127


class RecordError(PeerError):
    """Bytes that are not a complete and consistent record."""


def size_of(
    topic_bytes: int,
    body_bytes: int,
    properties_bytes: int,
    born_host: int = 8,
    store_host: int = 8,
) -> int:
    """Return the size of a record in bytes, for parts of these sizes."""
    extra = (
        76 + born_host + store_host if topic_bytes > _LONG_TOPIC else 75 + born_host + store_host
    )
    return extra + body_bytes + topic_bytes + properties_bytes


def encode(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    offset: int,
    sys_flag: int,
    born_wall_ms: int,
    born_host: bytes,
    store_wall_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: int,
    crc: int | None = None,
) -> bytes:
    """Return one record. A topic above 127 bytes makes it V2.

    The IPv6 bits of `sys_flag` are set from the sizes of the hosts. `crc` is that of the body,
    without sign bit; None computes it.
    """
    hosts_size = len(born_host) + len(store_host)
    sys_flag &= ~HOSTS_V6_MASK
    if hosts_size != 16:
        sys_flag |= _v6_bits(born_host, store_host)
    topic_size, body_size, props_size = len(topic), len(body), len(properties)
    if props_size > limits.PROPERTIES_BYTES_MAX:
        raise OurBug("invariant broken: properties are checked before a record is made of them")
    if topic_size > _LONG_TOPIC:
        magic, topic_head, fixed = MAGIC_V2, _U16.pack(topic_size), 76
    else:
        magic, topic_head, fixed = MAGIC_V1, topic_size.to_bytes(1, "big"), 75
    head = HEADS[sys_flag >> 4 & 3].pack(
        fixed + hosts_size + body_size + topic_size + props_size,
        magic,
        crc32(body) if crc is None else crc,
        queue_id,
        flag,
        queue_offset,
        offset,
        sys_flag,
        born_wall_ms,
        born_host,
        store_wall_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_size,
    )
    return b"".join((head, body, topic_head, topic, _U16.pack(props_size), properties))


def _v6_bits(born_host: bytes, store_host: bytes) -> int:
    bits = {8: (0, 0), 20: (BORN_V6, STORE_V6)}
    if len(born_host) not in bits or len(store_host) not in bits:
        raise OurBug("invariant broken: a host in a record has 8 or 20 bytes")
    return bits[len(born_host)][0] | bits[len(store_host)][1]


def encode_stored(message: StoredMessage) -> bytes:
    """Return the record of a decoded message, or of a message made by a test."""
    return encode(
        message.topic.encode(),
        message.body,
        props.encode(message.properties).encode(),
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.offset,
        message.sys_flag,
        message.born_wall_ms,
        pack(*message.born_host),
        message.store_wall_ms,
        pack(*message.store_host),
        message.reconsume_times,
        message.prepared_offset,
    )


def decode(buf: Buffer, pos: int = 0) -> StoredMessage:
    """Decode the record at `pos` and copy its bytes. Raises `RecordError` if it is not complete."""
    size = check(buf, pos, len(buf), crc=False)
    if size <= 0:
        raise RecordError(f"no whole record at byte {pos} of {len(buf)}")
    sys_flag = sys_flag_at(buf, pos)
    (
        _, magic, body_crc, queue_id, flag, queue_offset, offset, _, born_ms, born_host,
        store_ms, store_host, reconsume_times, prepared_offset, _,
    ) = HEADS[sys_flag >> 4 & 3].unpack_from(buf, pos)  # fmt: skip
    body_from, body_to = body_span(buf, pos)
    topic_from, topic_to = _topic_span(buf, body_to, magic)
    return StoredMessage(
        str(buf[topic_from:topic_to], "utf-8", "replace"),
        queue_id,
        queue_offset,
        offset,
        size,
        bytes(buf[body_from:body_to]),
        flag,
        sys_flag,
        born_ms,
        unpack(born_host),
        store_ms,
        unpack(store_host),
        reconsume_times,
        prepared_offset,
        props.decode_bytes(bytes(buf[topic_to + 2 : pos + size])),
        body_crc,
    )


def decode_all(buf: Buffer, pos: int = 0) -> list[StoredMessage]:
    """Decode all records of an answer to a pull, from byte `pos` on."""
    found = []
    end = len(buf)
    while pos < end:
        message = decode(buf, pos)
        found.append(message)
        pos += message.size
    return found


def check(buf: Buffer, pos: int, limit: int, crc: bool) -> int:
    """Return the size of the record at `pos`, or why there is none (all <= 0).

    Args:
        buf: the data.
        pos: position of the record.
        limit: end of the data.
        crc: whether the checksum of the body is checked as well.

    Returns:
        The size in bytes, or NOTHING, FILLER, TORN or DAMAGED. It never raises an error.
    """
    left = limit - pos
    if left < 8:
        return NOTHING
    size, magic = BLANK.unpack_from(buf, pos)
    if magic not in _MAGICS:
        return FILLER if magic == MAGIC_BLANK else NOTHING
    if size > left:
        return TORN
    if size < _SMALLEST:
        return DAMAGED
    head = HEADS[_U32.unpack_from(buf, pos + SYS_FLAG_AT)[0] >> 4 & 3].size
    if size < head + 3:
        return DAMAGED
    end = pos + size
    body_to = pos + head + _U32.unpack_from(buf, pos + head - 4)[0]
    if body_to + 3 > end:
        return DAMAGED
    if magic == MAGIC_V1:
        topic_to = body_to + 1 + buf[body_to]
    else:
        topic_to = body_to + 2 + _U16.unpack_from(buf, body_to)[0]
    if topic_to + 2 > end or topic_to + 2 + _U16.unpack_from(buf, topic_to)[0] != end:
        return DAMAGED
    if crc and crc32(memoryview(buf)[pos + head : body_to]) != body_crc_at(buf, pos):
        return DAMAGED
    return int(size)


def fields_at(buf: Buffer, pos: int) -> tuple[int, int, int, int, int, int, bytes, bytes]:
    """Return the fields of a checked record that dispatch needs, without the body.

    (size, queue id, queue offset, offset, sys_flag, store Unix ms, topic, properties).
    """
    size, magic, _, queue_id, _, queue_offset, offset, sys_flag = _FRONT.unpack_from(buf, pos)
    head = HEADS[sys_flag >> 4 & 3].size
    body_to = pos + head + _U32.unpack_from(buf, pos + head - 4)[0]
    topic_from, topic_to = _topic_span(buf, body_to, magic)
    return (
        size,
        queue_id,
        queue_offset,
        offset,
        sys_flag,
        store_time_at(buf, pos),
        bytes(buf[topic_from:topic_to]),
        bytes(buf[topic_to + 2 : pos + size]),
    )


def _topic_span(buf: Buffer, body_to: int, magic: int) -> tuple[int, int]:
    if magic == MAGIC_V1:
        return body_to + 1, body_to + 1 + buf[body_to]
    return body_to + 2, body_to + 2 + int(_U16.unpack_from(buf, body_to)[0])


def blank(size: int) -> bytes:
    """Return the first 8 bytes of the blank record, for the last `size` bytes of a log file."""
    return BLANK.pack(size, MAGIC_BLANK)


# The rest reads one field of a checked record where it lies.


def size_at(buf: Buffer, pos: int) -> int:
    return int(_U32.unpack_from(buf, pos)[0])


def magic_at(buf: Buffer, pos: int) -> int:
    return int(_U32.unpack_from(buf, pos + MAGIC_AT)[0])


def body_crc_at(buf: Buffer, pos: int) -> int:
    return int(_U32.unpack_from(buf, pos + 8)[0])


def queue_offset_at(buf: Buffer, pos: int) -> int:
    return int(_I64.unpack_from(buf, pos + QUEUE_OFFSET_AT)[0])


def offset_at(buf: Buffer, pos: int) -> int:
    return int(_I64.unpack_from(buf, pos + OFFSET_AT)[0])


def sys_flag_at(buf: Buffer, pos: int) -> int:
    return int(_I32.unpack_from(buf, pos + SYS_FLAG_AT)[0])


def born_time_at(buf: Buffer, pos: int) -> int:
    """Return the Unix ms at which the producer made the message, by the producer's clock."""
    return int(_I64.unpack_from(buf, pos + BORN_TIME_AT)[0])


def prepared_offset_at(buf: Buffer, pos: int) -> int:
    """Return the commit log offset of the half message it was made of; 0 if there is none."""
    return int(_I64.unpack_from(buf, body_span(buf, pos)[0] - 12)[0])


def store_time_at(buf: Buffer, pos: int) -> int:
    """Return the Unix ms at which the record was stored, for a born host of either size."""
    at = STORE_TIME_AT + 12 if sys_flag_at(buf, pos) & BORN_V6 else STORE_TIME_AT
    return int(_I64.unpack_from(buf, pos + at)[0])


def body_span(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the start and the end of the body."""
    start = pos + HEADS[sys_flag_at(buf, pos) >> 4 & 3].size
    return start, start + int(_U32.unpack_from(buf, start - 4)[0])


def topic_at(buf: Buffer, pos: int) -> bytes:
    start, end = _topic_span(buf, body_span(buf, pos)[1], magic_at(buf, pos))
    return bytes(buf[start:end])


def properties_at(buf: Buffer, pos: int) -> bytes:
    _, end = _topic_span(buf, body_span(buf, pos)[1], magic_at(buf, pos))
    return bytes(buf[end + 2 : pos + size_at(buf, pos)])
