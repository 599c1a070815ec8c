"""Runs of records for the decoder's tests, and the rows that the slow decoder makes of them."""

import random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.model.deflating import deflate

from epochmq.model import batch, record
from epochmq.model.batch import BatchEntry, BatchError
from epochmq.model.compression import BadBody
from epochmq.model.host import format_addr, pack
from epochmq.model.message import StoredMessage
from epochmq.model.message_id import offset_id
from epochmq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LEGACY,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    INNER_BATCH,
    NEED_UNWRAP,
    TX_PREPARED,
)

BROKER = "broker-a"
CODECS = (COMPRESSION_LEGACY, COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB)
WRAPPED = NEED_UNWRAP | INNER_BATCH
KINDS = {record.NOTHING: "nothing", record.TORN: "torn", record.DAMAGED: "damaged"}

_YEAR_1_MS, _YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999
_PIECES = [
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"UNIQ_KEYS",
    b"TAGS\x00",
    b"UNIQ_KEX",
    b"\x01",
    b"\x02",
    b"\x01",
    b"\x02",
    b"\x03",
    b"a",
    b"b=c",
    "é".encode(),
    "世界".encode(),
    "🛩".encode(),
    b"\xe4\xb8",
    b"\x96",
    b"\xff",
]
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(pack, st.ip_addresses().map(str), st.integers(0, 65535))
wild_properties = st.lists(st.sampled_from(_PIECES), max_size=14).map(b"".join)
words = st.text("abcTAGS é", min_size=1, max_size=9)
sound_properties = st.builds(
    lambda pairs, tail: "\x02".join(f"{k}\x01{v}" for k, v in pairs).encode() + tail,
    st.lists(
        st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "longer than eight"]), words),
        max_size=20,
    ),
    st.sampled_from([b"", b"\x02"]),
)
properties = st.one_of(sound_properties, wild_properties)
topics = st.one_of(
    st.sampled_from([b"", b"T", b"orders", b"%RETRY%" + b"x" * 140, "ü-topic".encode()]),
    st.binary(max_size=6),
)
times = st.one_of(st.integers(0, 2**42), st.sampled_from([_YEAR_1_MS, _YEAR_9999_MS]), int64)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """One record of any sort: plain, compressed, a batch, half a transaction, a filler."""
    sort = draw(st.sampled_from("ppppcbtw0"))
    if sort == "0":
        size = draw(st.integers(8, 200))
        return record.blank(size).ljust(size, draw(st.sampled_from([b"\0", b"\xda"])))
    flags = draw(st.sampled_from([0, 2, 8, 0x40, 0x80, 0x300]))
    body = draw(st.binary(max_size=40))
    if sort == "c":
        codec = draw(st.sampled_from(CODECS))
        flags, body = flags & ~COMPRESSION_MASK | COMPRESSED | codec, deflate(body, codec)
    elif sort == "b":
        flags, body = WRAPPED, draw(batches)
        if draw(st.booleans()):
            flags, body = flags | COMPRESSED | COMPRESSION_ZLIB, deflate(body)
    elif sort == "t":
        flags = draw(st.sampled_from([4, 8, 12]))
    elif sort == "w":
        flags = draw(int32)
    return record.encode(
        draw(topics),
        body,
        draw(properties),
        draw(int32),
        draw(int32),
        draw(st.integers(-(2**63), 2**63 - 100)),
        draw(int64),
        flags,
        draw(times),
        draw(hosts),
        draw(times),
        draw(hosts),
        draw(int32),
        draw(int64),
    )


def entry(flag: int, body: bytes, props: bytes) -> bytes:
    """One message within a batch."""
    head = (20 + 2 + len(body) + len(props), 0, 0, flag & 0xFFFFFFFF, len(body))
    parts = [n.to_bytes(4, "big") for n in head]
    return b"".join([*parts, body, len(props).to_bytes(2, "big"), props])


batches = st.lists(st.builds(entry, int32, st.binary(max_size=20), properties), max_size=5).map(
    b"".join
)
runs = st.lists(records(), max_size=12).map(b"".join)


def plain(
    at: int = 0,
    *,
    topic: bytes = b"orders",
    body: bytes = b"hello",
    props: bytes = b"KEYS\x01k1\x02UNIQ_KEY\x01u1\x02TAGS\x01red",
    flags: int = 0,
    born: tuple[str, int] = ("10.0.0.2", 40000),
    store: tuple[str, int] = ("127.0.0.1", 10911),
) -> bytes:
    """An ordinary record of queue offset `at`."""
    return record.encode(
        topic,
        body,
        props,
        3,
        7,
        at,
        at * 1000,
        flags,
        1_663_545_600_000,
        pack(*born),
        1_663_545_600_001 + at,
        pack(*store),
        1,
        0,
    )


def slow(data: bytes, inflates: bool = True, crc: bool = False) -> tuple[list[Any], int, int]:
    """Rows by `model.record`, where it stopped (-1: nowhere) and why."""
    rows: list[Any] = []
    pos = 0
    while pos < len(data):
        size = record.check(data, pos, len(data), crc)
        if size == record.FILLER:
            size = record.size_at(data, pos)
            if not 8 <= size < 2**31:
                return rows, pos, record.DAMAGED
        elif size <= 0:
            return rows, pos, size
        else:
            try:
                rows += _rows_of(record.decode(data, pos), inflates)
            except (BatchError, BadBody):
                return rows, pos, record.DAMAGED
        pos += size
    return rows, -1, 0


def _rows_of(message: StoredMessage, inflates: bool) -> list[Any]:
    if message.sys_flag & TX_PREPARED:
        return []
    return [shown(each, inflates) for each in batch.unwrap(message)]


def shown(message: StoredMessage, inflates: bool = True) -> dict[str, Any]:
    """A message as the row it must become; times in microseconds."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "brokerName": BROKER,
        "body": message.plain_body() if inflates else message.body,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "properties": message.properties,
        "bornTimestamp": _micros(message.born_wall_ms),
        "storeTimestamp": _micros(message.store_wall_ms),
        "bornHost": format_addr(*message.born_host),
        "storeHost": format_addr(*message.store_host),
        "commitLogOffset": message.offset,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "bodyCRC": (message.body_crc + 2**31) % 2**32 - 2**31,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_offset,
        "msgId": message.uniq_key or _offset_id(message),
    }


def _offset_id(message: StoredMessage) -> str:
    """Its offset id, also when damage made a port of it that none can be."""
    host, port = message.store_host
    return offset_id(pack(host, 0)[:-4] + port.to_bytes(4, "big"), message.offset)


def _micros(ms: int) -> int | None:
    return ms * 1000 if _YEAR_1_MS <= ms <= _YEAR_9999_MS else None


def listed(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows of batches as `shown` has them."""
    rows: list[dict[str, Any]] = []
    for each in batches:
        each.validate(full=True)
        columns = {
            name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
            for name, column in zip(each.schema.names, each.columns, strict=True)
        }
        lists = {name: column.to_pylist() for name, column in columns.items()}
        if "properties" in lists and pa.types.is_map(columns["properties"].type):
            assert all(len(dict(pairs)) == len(pairs) for pairs in lists["properties"])
            lists["properties"] = [dict(pairs) for pairs in lists["properties"]]
        rows += [
            dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)
        ]
    return rows


def mutated(rng: random.Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, put in, left out or cut off."""
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            del raw[at:]
        elif kind == 1:
            del raw[at : at + rng.choice((1, 4, 50))]
        elif kind == 2:
            raw[at:at] = rng.randbytes(rng.choice((1, 3, 20)))
        elif at < len(raw):
            raw[at] = rng.choice((0, 0xFF, raw[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    return bytes(raw)


def inner(entries: list[BatchEntry]) -> bytes:
    """The body of a batch kept as one record."""
    return b"".join(entry(e.flag, e.body, e.properties) for e in entries)
