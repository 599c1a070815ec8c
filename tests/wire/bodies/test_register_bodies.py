"""The compressed registration."""

import zlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.bodies.compressed_registration import encode_compressed

from epochmq.base.errors import HeaderError
from epochmq.base.limits import REGISTER_BODY_BYTES_MAX
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies import namesrv_bodies
from epochmq.wire.bodies.namesrv_bodies import (
    RegisterBrokerBody,
    decode_compressed,
)
from epochmq.wire.bodies.topic_bodies import TopicConfigTable, TopicQueueMappingInfo

TOPICS = {
    "T": TopicConfig("T", 4, 4),
    "T2": TopicConfig("T2", 4, 4, attributes={"message.type": "NORMAL"}),
}
VERSION = b'{"counter":1,"stateVersion":0,"timestamp":1663545600000}'
GOLDEN = (
    pack(">i", len(VERSION))
    + VERSION
    + bytes.fromhex("00000002 00000015")
    + b"T 4 4 6 SINGLE_TAG {}"
    + bytes.fromhex("0000002d")
    + b'T2 4 4 6 SINGLE_TAG {"message.type":"NORMAL"}'
    + bytes.fromhex("00000002")
    + b"[]"
    + bytes(4)
)


def body(**fields: object) -> RegisterBrokerBody:
    version = DataVersion(0, 1, 1663545600000)
    table = TopicConfigTable(TOPICS, version, **fields)  # type: ignore[arg-type]
    return RegisterBrokerBody(table, [])


def decode(data: bytes, bytes_max: int = REGISTER_BODY_BYTES_MAX) -> RegisterBrokerBody:
    """All steps at once."""
    steps = decode_compressed(data, bytes_max)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: RegisterBrokerBody = done.value
            return result


def test_golden_inflated_bytes_are_read() -> None:
    assert decode(zlib.compress(GOLDEN)) == body()


def test_what_we_write_differs_in_key_order_only() -> None:
    data = encode_compressed(body())
    assert data[:2] == b"\x78\xda"
    assert zlib.decompress(data)[60:] == GOLDEN[60:]
    assert decode(data) == body()


def test_mappings_and_filter_servers_come_back() -> None:
    info = TopicQueueMappingInfo("T", "__global__", 8, "b", 1, False, {0: 1})
    full = body(topic_queue_mapping_info_map={"T": info})
    full.filter_server_list.append("f:1")
    assert decode(encode_compressed(full)) == full


def test_a_49_broker_sends_no_mapping_section_and_no_attributes() -> None:
    assert decode(encode_compressed(body(), mappings=False)) == body()
    line = b"T 4 4 6 SINGLE_TAG"
    old = zlib.decompress(encode_compressed(body(), mappings=False))
    old = old.replace(b"\x00\x00\x00\x15" + line + b" {}", b"\x00\x00\x00\x12" + line)
    assert decode(zlib.compress(old)) == body()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (b"", "ends too early"),
        (pack(">i", 5) + b"{}", "5 bytes does not fit"),
        (pack(">i", -1), "does not fit"),
        (
            GOLDEN[:60] + pack(">i", 2**30),
            "1073741824 topics in one registration are more than 500000",
        ),
        (GOLDEN[:60] + pack(">i", -1), "-1 entries"),
        (GOLDEN[:60] + pack(">ii", 1, 3) + b"T 4", "too few fields"),
        (GOLDEN.replace(b"T 4 4 6", b"T 4 x 6"), "bad number"),
        (GOLDEN.replace(b"SINGLE_TAG {}", b"SINGLE_TAG {!"), "malformed JSON"),
    ],
)
def test_lengths_and_contents_that_do_not_fit(plain: bytes, message: str) -> None:
    with pytest.raises(HeaderError, match=message):
        decode(zlib.compress(plain))


def test_a_stream_that_is_none_or_cut() -> None:
    with pytest.raises(HeaderError, match="does not inflate"):
        decode(b"not zlib")
    with pytest.raises(HeaderError, match="cut short"):
        decode(zlib.compress(GOLDEN)[:-5])


def test_a_bomb_is_stopped() -> None:
    with pytest.raises(HeaderError, match="larger than 1000 bytes"):
        decode(zlib.compress(bytes(2000)), 1000)
    assert decode(zlib.compress(GOLDEN), len(GOLDEN)) == body()
    with pytest.raises(HeaderError, match="larger than"):
        decode(zlib.compress(GOLDEN), len(GOLDEN) - 1)


def test_a_large_one_is_read_in_many_steps() -> None:
    names = [f"T{number}" for number in range(5 * namesrv_bodies.TOPICS_A_STEP)]
    topics = {name: TopicConfig(name, 8, 8, 6) for name in names}
    topics["odd"] = TopicConfig("odd", 1, 2, 4, attributes={"+a": "b"})
    full = RegisterBrokerBody(TopicConfigTable(topics, DataVersion(0, 1, 2)), [])
    steps = decode_compressed(encode_compressed(full))
    assert sum(1 for _ in steps) >= 5
    assert decode(encode_compressed(full)) == full


@pytest.mark.fuzz
@given(st.binary(max_size=20), st.integers(0, len(GOLDEN)))
def test_garbage_gives_a_body_or_header_error(garbage: bytes, at: int) -> None:
    try:
        decode(zlib.compress(GOLDEN[:at] + garbage + GOLDEN[at + len(garbage) :]))
    except HeaderError:
        pass
