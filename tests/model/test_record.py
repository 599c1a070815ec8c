"""Records: golden bytes, round trips, and garbage that must fail cleanly and fast."""

import random
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import OurBug
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.record import RecordError

GOLDEN = bytes.fromhex(
    "00000069daa320a73610a6860000000300000007000000000000002a00000000000001020000000000000183530b"
    "68000a00000200009c4000000183530b68017f00000100002a9f0000000100000000000000000000000568656c6c"
    "6f02543100074b455953016b31"
)
MESSAGE = StoredMessage(
    topic="T1",
    queue_id=3,
    queue_offset=42,
    offset=258,
    size=105,
    body=b"hello",
    flag=7,
    sys_flag=0,
    born_wall_ms=1663545600000,
    born_host=("10.0.0.2", 40000),
    store_wall_ms=1663545600001,
    store_host=("127.0.0.1", 10911),
    reconsume_times=1,
    prepared_offset=0,
    properties={"KEYS": "k1"},
    body_crc=907060870,
)

_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)
_hosts = st.builds(pack, st.ip_addresses().map(str), st.integers(0, 65535))
_fields = st.tuples(
    st.text(max_size=200).map(str.encode),
    st.binary(max_size=300),
    st.binary(max_size=100),
    _int32,
    _int32,
    _int64,
    _int64,
    _int32,
    _int64,
    _hosts,
    _int64,
    _hosts,
    _int32,
    _int64,
)


def test_the_golden_record_is_read_and_written() -> None:
    assert record.decode(GOLDEN) == MESSAGE
    assert record.encode_stored(MESSAGE) == GOLDEN
    assert record.check(GOLDEN, 0, len(GOLDEN), crc=True) == 105


@given(_fields)
def test_every_field_comes_back_at_any_place(fields: tuple) -> None:  # type: ignore[type-arg]
    raw = record.encode(*fields)
    topic, body, props, queue_id, flag, queue_offset, offset, sys_flag = fields[:8]
    born_ms, born_host, store_ms, store_host, reconsume, prepared = fields[8:]
    assert len(raw) == record.size_of(
        len(topic), len(body), len(props), len(born_host), len(store_host)
    )
    buf = memoryview(b"#####" + raw + b"#")
    assert record.check(buf, 5, len(buf), crc=True) == len(raw)
    message = record.decode(buf, 5)
    assert message.topic.encode() == topic
    assert (message.body, message.queue_id, message.flag) == (body, queue_id, flag)
    assert (message.queue_offset, message.offset, message.size) == (queue_offset, offset, len(raw))
    assert message.sys_flag & ~0x30 == sys_flag & ~0x30
    assert bool(message.sys_flag & 0x10) == (len(born_host) == 20)
    assert bool(message.sys_flag & 0x20) == (len(store_host) == 20)
    assert (message.born_wall_ms, message.store_wall_ms) == (born_ms, store_ms)
    assert pack(*message.born_host) == born_host
    assert pack(*message.store_host) == store_host
    assert (message.reconsume_times, message.prepared_offset) == (reconsume, prepared)
    _check_single_fields(buf, message, topic, props)


def _check_single_fields(
    buf: memoryview, message: StoredMessage, topic: bytes, props: bytes
) -> None:
    assert record.size_at(buf, 5) == message.size
    assert record.magic_at(buf, 5) == (record.MAGIC_V2 if len(topic) > 127 else record.MAGIC_V1)
    assert record.body_crc_at(buf, 5) == message.body_crc
    assert record.queue_offset_at(buf, 5) == message.queue_offset
    assert record.offset_at(buf, 5) == message.offset
    assert record.sys_flag_at(buf, 5) == message.sys_flag
    assert record.store_time_at(buf, 5) == message.store_wall_ms
    start, end = record.body_span(buf, 5)
    assert buf[start:end] == message.body
    assert record.topic_at(buf, 5) == topic
    assert record.properties_at(buf, 5) == props
    assert record.fields_at(buf, 5) == (
        message.size,
        message.queue_id,
        message.queue_offset,
        message.offset,
        message.sys_flag,
        message.store_wall_ms,
        topic,
        props,
    )


@pytest.mark.parametrize("size", [127, 128, 255, 1000])
@pytest.mark.parametrize("born_host", [8, 20])
@pytest.mark.parametrize("store_host", [8, 20])
def test_long_topics_take_the_second_layout(size: int, born_host: int, store_host: int) -> None:
    topic, props = b"t" * size, b"a\x01b"
    raw = record.encode(
        topic, b"x", props, 0, 0, 0, 0, 0, 0, bytes(born_host), 9, bytes(store_host), 0, 0
    )
    assert len(raw) == record.size_of(size, 1, len(props), born_host, store_host)
    assert record.check(raw, 0, len(raw), crc=True) == len(raw)
    message = record.decode(raw)
    _check_single_fields(memoryview(b"#####" + raw), message, topic, props)
    assert message.store_wall_ms == 9


def test_a_known_checksum_is_taken_as_it_is() -> None:
    raw = record.encode(b"T", b"x", b"", 0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, crc=77)
    assert record.body_crc_at(raw, 0) == 77
    assert record.check(raw, 0, len(raw), crc=False) == len(raw)
    assert record.check(raw, 0, len(raw), crc=True) == record.DAMAGED


def test_properties_too_long_are_our_bug_here() -> None:
    with pytest.raises(OurBug, match="properties"):
        record.encode(b"T", b"", bytes(32768), 0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0)


@pytest.mark.parametrize(("born_host", "store_host"), [(0, 8), (8, 21), (20, 12)])
def test_a_host_of_another_size_is_our_bug(born_host: int, store_host: int) -> None:
    hosts = bytes(born_host), bytes(store_host)
    with pytest.raises(OurBug, match="8 or 20"):
        record.encode(b"T", b"", b"", 0, 0, 0, 0, 0, 0, hosts[0], 0, hosts[1], 0, 0)


def test_many_records_are_read_in_a_row() -> None:
    assert record.decode_all(GOLDEN * 3) == [MESSAGE] * 3
    assert record.decode_all(b"") == []
    with pytest.raises(RecordError, match="at byte 105"):
        record.decode_all(GOLDEN + GOLDEN[:-1])


def test_a_utf8_error_in_the_topic_is_replaced() -> None:
    raw = GOLDEN.replace(b"\x02T1", b"\x02\xffT")
    assert record.decode(raw).topic == "�T"


def test_the_filler_is_told_from_the_end_and_from_torn_records() -> None:
    blank = record.blank(500)
    assert blank == struct.pack(">Ii", 500, -875286124)
    assert record.check(blank + bytes(8), 0, 16, crc=True) == record.FILLER
    assert record.check(bytes(200), 0, 200, crc=True) == record.NOTHING
    assert record.check(GOLDEN, 0, 7, crc=True) == record.NOTHING
    assert record.check(GOLDEN, 0, 104, crc=True) == record.TORN


@pytest.mark.parametrize("size", [0, 8, 90, 104, 103])
def test_a_size_that_contradicts_the_parts_is_damage(size: int) -> None:
    raw = struct.pack(">I", size) + GOLDEN[4:]
    assert record.check(raw, 0, len(raw), crc=False) == record.DAMAGED


@pytest.mark.parametrize(
    ("at", "raw"),
    [
        (36, struct.pack(">I", 0x30)),  # hosts said to be IPv6
        (84, struct.pack(">I", 17)),  # body reaches over the end
        (84, struct.pack(">I", 2**32 - 1)),
        (93, b"\x0f"),  # topic reaches over the end
        (96, b"\x00\x06"),  # properties end too early
        (96, b"\xff\xff"),
    ],
)
def test_lengths_that_do_not_add_up_are_damage(at: int, raw: bytes) -> None:
    damaged = GOLDEN[:at] + raw + GOLDEN[at + len(raw) :]
    assert record.check(damaged, 0, len(damaged), crc=False) == record.DAMAGED
    with pytest.raises(RecordError):
        record.decode(damaged)


def test_a_record_too_short_for_its_ipv6_hosts_is_damage() -> None:
    raw = record.encode(b"", b"", b"", 0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0)
    damaged = raw[:36] + struct.pack(">I", 0x30) + raw[40:]
    assert record.check(damaged, 0, len(damaged), crc=False) == record.DAMAGED


def test_a_flipped_bit_in_the_body_is_seen_by_the_checksum() -> None:
    damaged = GOLDEN.replace(b"hello", b"hellp")
    assert record.check(damaged, 0, len(damaged), crc=False) == 105
    assert record.check(damaged, 0, len(damaged), crc=True) == record.DAMAGED


@pytest.mark.fuzz
def test_20000_broken_records_fail_cleanly_and_in_bounded_time() -> None:
    rng = random.Random(20000)
    started = time.monotonic()
    refused = 0
    for _ in range(20_000):
        raw = bytearray(GOLDEN * rng.randrange(1, 3))
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        raw = raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.3 else raw
        try:
            record.decode_all(raw)
        except RecordError:
            refused += 1
        assert record.check(raw, 0, len(raw), crc=True) <= len(raw)
    assert refused > 5_000
    assert time.monotonic() - started < 30


@given(_fields, st.data())
def test_a_record_is_decoded_if_and_only_if_its_check_passes(
    fields: tuple[object, ...], data: st.DataObject
) -> None:
    raw = bytearray(record.encode(*fields))  # type: ignore[arg-type]
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    size = record.check(raw, 0, len(raw), crc=False)
    if size > 0:
        assert record.decode(raw).size == size
    else:
        with pytest.raises(RecordError):
            record.decode(raw)


@given(st.binary(max_size=300), st.integers(0, 20))
def test_any_bytes_are_records_or_refused(data: bytes, pos: int) -> None:
    for buf in (data, GOLDEN[:8] + data):
        size = record.check(buf, pos, len(buf), crc=True)
        assert size <= max(len(buf) - pos, 0)
        if size <= 0:
            with pytest.raises(RecordError):
                record.decode(buf, pos)
