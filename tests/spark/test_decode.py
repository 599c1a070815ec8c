"""Decoding, held against the slow decoder for any records and any garbage."""

import random
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.deflating import deflate
from tests.spark.records import (
    BROKER,
    KINDS,
    listed,
    mutated,
    plain,
    records,
    runs,
    slow,
)

from epochmq.base.errors import UsageError
from epochmq.model import record
from epochmq.model.sys_flag import COMPRESSED, TX_PREPARED
from epochmq.native.library import library, which
from epochmq.spark import decode, decode_bodies, decode_columns
from epochmq.spark.columns import NAMES
from epochmq.spark.decode import CorruptRecord, Decoder

EVERYTHING = Decoder()


def decoded(
    decoder: Decoder, data: bytes | memoryview, rows: int = 2000
) -> tuple[list[pa.RecordBatch], CorruptRecord | None]:
    """All batches, and the error that ended them."""
    batches = []
    try:
        for batch in decoder.batches(data, BROKER, rows):
            batches.append(batch)
    except CorruptRecord as error:
        return batches, error
    return batches, None


def by_numpy(decode_all: Callable[[], Any]) -> Any:
    """What comes out without the native code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "library", lambda: None)
        return decode_all()


def check_same(data: bytes, rows: int = 2000, decoder: Decoder = EVERYTHING) -> None:
    """Both decoders give the rows and the error of the slow one."""
    expected = slow(data)
    check(data, expected, decoded(decoder, data, rows))
    check(data, expected, by_numpy(lambda: decoded(decoder, data, rows)))


def check(
    data: bytes,
    expected: tuple[list[Any], int, int],
    found: tuple[list[pa.RecordBatch], CorruptRecord | None],
) -> None:
    """What was `found` is what the slow decoder gives."""
    (rows, stopped_at, why), (batches, error) = expected, found
    assert listed(batches) == rows
    assert (error.offset_in_buffer if error else -1) == stopped_at
    if error and len(data) - stopped_at >= 8:
        assert error.kind == KINDS[why]


def test_one_record_becomes_one_row_with_every_column() -> None:
    data = plain(5)
    (batch,) = EVERYTHING.batches(data, BROKER)
    assert batch.schema == EVERYTHING.schema
    assert tuple(batch.schema.names) == NAMES
    row = listed([batch])[0]
    assert row == slow(data)[0][0]
    assert (row["topic"], row["queueOffset"], row["body"]) == ("orders", 5, b"hello")
    assert (row["tags"], row["keys"], row["msgId"]) == ("red", "k1", "u1")
    assert row["properties"] == {"KEYS": "k1", "UNIQ_KEY": "u1", "TAGS": "red"}
    assert (row["bornHost"], row["storeHost"]) == ("10.0.0.2:40000", "127.0.0.1:10911")


@given(runs, st.integers(1, 8))
def test_any_records_give_the_rows_of_the_slow_decoder(data: bytes, rows: int) -> None:
    check_same(data, rows)


@given(runs, st.binary(max_size=120))
def test_garbage_behind_records_stops_where_the_slow_decoder_stops(
    data: bytes, tail: bytes
) -> None:
    check_same(data + tail)


@given(st.lists(records(), min_size=1, max_size=6), st.data())
def test_windows_and_small_batches_change_nothing(parts: list[bytes], data: st.DataObject) -> None:
    joined = b"".join(parts)
    window = data.draw(st.integers(1, 400))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "WINDOW_BYTES", window)
        patch.setattr(decode, "BATCH_BYTES_MAX", data.draw(st.integers(1, 400)))
        check_same(joined, data.draw(st.integers(1, 3)))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(20))
def test_mutated_records_give_the_same_rows_or_corrupt_record(seed: int) -> None:
    rng = random.Random(seed)
    sound = [fixed_run(rng) for _ in range(20)]
    for number in range(1000):
        data = mutated(rng, rng.choice(sound))
        decode_all = partial(decoded, EVERYTHING, data)
        check(data, slow(data), by_numpy(decode_all) if number % 2 else decode_all())


def fixed_run(rng: random.Random) -> bytes:
    """A few records of several sorts, quick to make."""
    v6 = ("2001:db8::7", 99)
    sorts = [
        lambda at: plain(at),
        lambda at: plain(at, body=b"", props=b"", topic=b""),
        lambda at: plain(at, born=v6, props=b"A\x01b\x02"),
        lambda at: plain(at, store=v6, topic=b"%RETRY%" + b"g" * 130),
        lambda at: plain(at, born=v6, store=v6, flags=rng.choice((0, 4, 8, 12))),
        lambda at: record.blank(30).ljust(30, b"\0"),
    ]
    return b"".join(rng.choice(sorts)(at) for at in range(rng.randrange(1, 5)))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 90, 91, 2**31, 2**32 - 1])
@pytest.mark.parametrize("magic", [0, record.MAGIC_V1, record.MAGIC_V2, record.MAGIC_BLANK])
def test_senseless_sizes_are_corrupt_records(size: int, magic: int) -> None:
    check_same(plain() + struct.pack(">II", size, magic) + bytes(100) + plain())


def test_rows_before_the_fault_come_first_and_it_says_how_to_go_on() -> None:
    good, bad = plain(1), bytearray(plain(2))
    bad[record.HEAD.size - 1] += 1  # the body's length
    batches, error = decoded(EVERYTHING, good * 3 + bytes(bad) + good, rows=2)
    assert [len(batch) for batch in batches] == [2, 1]
    assert error is not None
    assert error.offset_in_buffer == 3 * len(good)
    assert error.resume_at == 3 * len(good) + len(bad)
    assert "add up" in error.why


def test_a_body_that_does_not_fit_its_checksum_is_found_when_asked() -> None:
    bad = bytearray(plain(1))
    bad[record.HEAD.size] ^= 1
    data = plain(0) + bytes(bad) + plain(2)
    assert len(listed(decoded(EVERYTHING, data)[0])) == 3
    batches, error = decoded(Decoder(check_crc=True), data)
    assert [row["queueOffset"] for row in listed(batches)] == [0]
    assert error is not None
    assert (error.offset_in_buffer, error.resume_at) == (len(plain(0)), len(plain(0) * 2))
    assert "checksum" in error.why


def test_checksums_are_compared_by_native_code_as_well() -> None:
    """Whole batches of ordinary records are the native code's; one damaged body stops them
    there."""
    good = [plain(number) for number in range(3000)]
    checking = Decoder(check_crc=True)
    assert len(listed(decoded(checking, b"".join(good))[0])) == 3000
    bad = bytearray(good[1234])
    bad[record.HEAD.size] ^= 1
    batches, error = decoded(checking, b"".join([*good[:1234], bytes(bad), *good[1235:]]))
    assert [row["queueOffset"] for row in listed(batches)] == list(range(1234))
    assert error is not None
    assert error.offset_in_buffer == sum(map(len, good[:1234]))


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), runs)
def test_any_choice_of_columns_gives_the_same_cells(names: list[str], data: bytes) -> None:
    inflates = "body" in names
    expected = slow(data, inflates)[0] if inflates else None
    for batches, _ in (
        decoded(Decoder(names), data),
        by_numpy(lambda: decoded(Decoder(names), data)),
    ):
        rows = listed(batches)
        assert all(batch.schema.names == names for batch in batches)
        if expected is not None:
            assert rows == [{name: row[name] for name in names} for row in expected]


SORTS: dict[str, Callable[[int], bytes]] = {
    "plain": plain,
    "compressed": lambda at: plain(at, body=deflate(b"%d" % at * 50), flags=COMPRESSED),
    "not compressed": lambda at: plain(at, body=b"no codec's", flags=COMPRESSED),
    "half a transaction": lambda at: plain(at, flags=TX_PREPARED),
    "from IPv6": lambda at: plain(at, born=("2001:db8::7", 99), topic=b"T" * 140),
    "without an id": lambda at: plain(at, props=b"KEYS\x01k"),
}


SORTS_OF_NO_ROWS = {"half a transaction"}


@given(
    st.lists(st.sampled_from(sorted(SORTS)), min_size=1, max_size=40),
    st.sampled_from(decode_bodies.BAD_BODIES),
    st.booleans(),
    st.integers(1, 50),
    st.none() | st.tuples(st.integers(0, 20), st.integers(20, 40)),
)
def test_both_decoders_give_the_same_of_what_the_native_code_takes(
    sorts: list[str], bad_bodies: str, crc: bool, rows: int, only: tuple[int, int] | None
) -> None:
    data = b"".join(SORTS[sort](at) for at, sort in enumerate(sorts))
    decoder = Decoder(check_crc=crc, bad_bodies=bad_bodies)

    def run() -> tuple[list[Any], str]:
        batches: list[pa.RecordBatch] = []
        try:
            batches.extend(decoder.batches(data, BROKER, rows, only))
        except CorruptRecord as error:
            return listed(batches), f"{error}, {error.kind}, {error.resume_at}"
        return listed(batches), ""

    assert run() == by_numpy(run)


@pytest.mark.skipif(library() is None, reason=which())
@pytest.mark.parametrize("only", [None, (0, 3000), (5, 2995)])
@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("sort", sorted(set(SORTS) - {"not compressed"}))
def test_what_real_logs_hold_is_for_the_native_code(
    sort: str, crc: bool, only: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numpy takes several times as long."""
    data = b"".join(SORTS[sort if at % 10 == 3 else "plain"](at) for at in range(3000))
    monkeypatch.setattr(decode_columns, "build", None)
    batches = list(Decoder(check_crc=crc).batches(data, BROKER, queue_offsets=only))
    begin, end = only or (0, 3000)
    halves = sum(at % 10 == 3 for at in range(begin, end)) if sort in SORTS_OF_NO_ROWS else 0
    assert sum(batch.num_rows for batch in batches) == end - begin - halves


def test_properties_are_raw_or_absent_when_asked() -> None:
    data = plain(0, props=b"A\x01b\x02") + plain(1, props=b"") + plain(2, props=b"x\xff")
    raw = Decoder(["properties"], properties="raw")
    assert listed(decoded(raw, data)[0]) == [
        {"properties": "A\x01b\x02"},
        {"properties": ""},
        {"properties": "x�"},
    ]
    assert "properties" not in Decoder(properties="none").schema.names
    assert Decoder(properties="raw").schema.field("properties").type == pa.string()


def test_views_and_byte_arrays_are_read_as_they_are() -> None:
    data = b"".join(plain(at) for at in range(5))
    for given_as in (data, bytearray(data), memoryview(data)):
        assert len(listed(list(EVERYTHING.batches(given_as, BROKER)))) == 5
    assert list(EVERYTHING.batches(b"", BROKER)) == []


def test_queue_offsets_beside_the_range_are_left_out() -> None:
    data = b"".join(plain(at) for at in range(9))
    batches = list(EVERYTHING.batches(data, BROKER, queue_offsets=(3, 6)))
    assert [row["queueOffset"] for row in listed(batches)] == [3, 4, 5]
    assert list(EVERYTHING.batches(data, BROKER, queue_offsets=(9, 12))) == []


@pytest.mark.parametrize("rows", [0, -1, 10_000_000])
def test_senseless_batch_sizes_are_refused(rows: int) -> None:
    with pytest.raises(UsageError, match="rows a batch"):
        list(EVERYTHING.batches(plain(), BROKER, rows))
