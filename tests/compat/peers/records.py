"""Stored messages as bytes and fields, read over the wire by an independent decoder."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from . import wire

_PULL, _MAX_OFFSET, _MIN_OFFSET = 11, 30, 31
_FOUND, _EMPTY = 0, {19, 20, 21}
_SUBSCRIPTION_IN_HEADER = 4
_MAGIC_V1, _MAGIC_V2 = 0xDAA320A7, 0xDAA320AB  # V2: the topic's length takes two bytes
_COMPRESSED, _BORN_V6, _STORE_V6 = 0x1, 0x10, 0x20
_READER = "TOOLS_CONSUMER"  # a group that every broker has from the start


@dataclass(frozen=True)
class Record:
    """One stored message; ``raw`` is what the store holds, byte by byte."""

    raw: bytes
    topic: str
    queue: int
    queue_offset: int
    offset: int
    sys_flag: int
    reconsume: int
    stored_body: bytes
    properties: dict[str, str]

    @property
    def is_compressed(self) -> bool:
        """Whether the producer compressed the body."""
        return bool(self.sys_flag & _COMPRESSED)

    @property
    def body(self) -> bytes:
        """The body as its sender meant it (zlib is the default of every client)."""
        return zlib.decompress(self.stored_body) if self.is_compressed else self.stored_body

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


def decode(raw: bytes) -> Record:
    """One record; its length must be exact and its body's checksum right."""
    total, magic, crc, queue, _, queue_offset, offset, sys_flag = struct.unpack_from(
        ">iIIiiqqi", raw
    )
    assert total == len(raw), (total, len(raw))
    assert magic in (_MAGIC_V1, _MAGIC_V2), hex(magic)
    at = 40 + 8 + (20 if sys_flag & _BORN_V6 else 8) + 8 + (20 if sys_flag & _STORE_V6 else 8)
    reconsume, _, body_size = struct.unpack_from(">iqi", raw, at)
    at += 16
    body = raw[at : at + body_size]
    assert crc == zlib.crc32(body) & 0x7FFFFFFF
    at += body_size
    topic_form = ">B" if magic == _MAGIC_V1 else ">H"
    (topic_size,) = struct.unpack_from(topic_form, raw, at)
    at += struct.calcsize(topic_form)
    topic = raw[at : at + topic_size].decode()
    at += topic_size
    (size,) = struct.unpack_from(">h", raw, at)
    pairs = raw[at + 2 : at + 2 + size].decode().split("\x02")
    properties = dict(pair.split("\x01", 1) for pair in pairs if pair)
    return Record(raw, topic, queue, queue_offset, offset, sys_flag, reconsume, body, properties)


def split(body: bytes) -> Iterator[Record]:
    """The records of a pull's or a query's answer."""
    at = 0
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        yield decode(body[at : at + size])
        at += size


def bound(broker: str, topic: str, queue: int, code: int = _MAX_OFFSET) -> int:
    """A queue's maximum (or, by code, minimum) offset."""
    answer = wire.call(broker, code, {"topic": topic, "queueId": queue})
    assert answer.code == 0, answer
    return int(answer.ext["offset"])


def read_queue(broker: str, topic: str, queue: int) -> list[Record]:
    """All messages of one queue, from its minimum to its maximum."""
    offset = bound(broker, topic, queue, _MIN_OFFSET)
    end = bound(broker, topic, queue)
    records: list[Record] = []
    while offset < end:
        answer = wire.call(broker, _PULL, _pull_header(topic, queue, offset))
        assert answer.code == _FOUND or answer.code in _EMPTY, answer
        records += split(answer.body) if answer.code == _FOUND else ()
        following = int(answer.ext["nextBeginOffset"])
        assert following > offset, f"{topic}:{queue} does not get past {offset}: {answer}"
        offset = following
    return records


def _pull_header(topic: str, queue: int, offset: int) -> dict[str, object]:
    return {
        "consumerGroup": _READER,
        "topic": topic,
        "queueId": queue,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": _SUBSCRIPTION_IN_HEADER,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }


def read_topic(broker: str, topic: str, queues: int = 4) -> list[Record]:
    """All messages of a topic, queue by queue."""
    return [record for queue in range(queues) for record in read_queue(broker, topic, queue)]
