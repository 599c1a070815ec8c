"""Batches: golden bytes, round trips, garbage."""

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.deflating import deflate

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.model import batch, properties, record
from epochmq.model.batch import BatchEntry, BatchError
from epochmq.model.message import Message
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_ZLIB, INNER_BATCH, NEED_UNWRAP

GOLDEN = bytes.fromhex(
    "0000002800000000000000000000000100000002616200104b455953016b02574149540174727565"
    "0000002000000000000000000000000000000001630009574149540174727565"
)
_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)
_messages = st.lists(
    st.builds(
        Message,
        st.just("T"),
        st.binary(max_size=50),
        flag=st.integers(-(2**31), 2**31 - 1),
        properties=st.dictionaries(_text, _text, max_size=3),
    ),
    max_size=6,
)


def test_the_golden_batch_is_read_and_written() -> None:
    messages = [Message("T", b"ab", keys=("k",), flag=1), Message("T", b"c")]
    assert batch.encode(messages) == GOLDEN
    assert batch.decode(memoryview(GOLDEN)) == [
        BatchEntry(1, b"ab", b"KEYS\x01k\x02WAIT\x01true"),
        BatchEntry(0, b"c", b"WAIT\x01true"),
    ]


@given(_messages)
def test_batches_come_back(messages: list[Message]) -> None:
    entries = batch.decode(batch.encode(messages))
    assert [(entry.flag, entry.body) for entry in entries] == [(m.flag, m.body) for m in messages]
    for entry, message in zip(entries, messages, strict=True):
        assert properties.decode_bytes(entry.properties) == message.all_properties()


def test_a_message_with_too_many_properties_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        batch.encode([Message("T", b"", properties={"x": "y" * 40_000})])
    assert refused.value.code == 13


@pytest.mark.parametrize("cut", [1, 10, 21, 22, 39, 41])
def test_a_batch_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(BatchError):
        batch.decode(GOLDEN[:cut])


@pytest.mark.parametrize(
    ("at", "raw"),
    [(0, 41), (0, 0), (0, 2**32 - 1), (0, 39), (16, 3), (16, 2**32 - 1), (16, 0), (16, 30)],
)
def test_lengths_that_do_not_add_up_are_refused(at: int, raw: int) -> None:
    damaged = bytearray(GOLDEN)
    struct.pack_into(">I", damaged, at, raw)
    with pytest.raises(HeaderError, match="impossible"):
        batch.decode(damaged)


def test_the_number_of_records_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_RECORDS_MAX", 1)
    with pytest.raises(BatchError, match="split"):
        batch.decode(GOLDEN)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    for body in (data, GOLDEN + data):
        try:
            entries = batch.decode(body)
        except BatchError:
            continue
        assert len(entries) * 22 <= len(body)


def _stored(body: bytes, sys_flag: int):  # type: ignore[no-untyped-def]
    raw = record.encode(
        b"T", body, b"INNER_NUM\x012", 1, 0, 10, 500, sys_flag, 1, bytes(8), 2, bytes(8), 0, 0
    )
    return record.decode(raw)


@pytest.mark.parametrize("squeeze", [False, True])
def test_an_inner_batch_is_unwrapped(squeeze: bool) -> None:
    body, flag = GOLDEN, NEED_UNWRAP | INNER_BATCH
    if squeeze:
        body, flag = deflate(body), flag | COMPRESSED | COMPRESSION_ZLIB
    first, second = batch.unwrap(_stored(body, flag))
    assert (first.queue_offset, second.queue_offset) == (10, 11)
    assert (first.plain_body(), second.plain_body()) == (b"ab", b"c")
    assert (first.keys, second.keys) == (("k",), ())
    assert first.sys_flag == second.sys_flag == 0
    assert first.offset == second.offset == 500
    assert first.flag == 1


@pytest.mark.parametrize("flag", [0, NEED_UNWRAP, INNER_BATCH])
def test_another_message_is_itself(flag: int) -> None:
    message = _stored(GOLDEN, flag)
    assert batch.unwrap(message) == [message]
    assert msgspec.structs.asdict(batch.unwrap(message)[0])["body"] == GOLDEN
