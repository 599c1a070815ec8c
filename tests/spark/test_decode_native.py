"""Whole batches by the native code: what numpy makes column by column, or nothing."""

import io
import random
from collections.abc import Sequence
from ipaddress import IPv6Address

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark import records
from tests.spark.records import BROKER, mutated, plain
from tests.tiers import examples

from epochmq.model import record
from epochmq.native.library import library, which
from epochmq.spark import columns, decode_columns, decode_heads, decode_native
from epochmq.spark.decode import Decoder
from epochmq.spark.decode_columns import TIME_MS_MAX, TIME_MS_MIN
from epochmq.spark.decode_heads import follow
from epochmq.spark.decode_native import ALL_OFFSETS, DecodedBatch, Whole

pytestmark = pytest.mark.skipif(library() is None, reason=which())
KEPT_WHOLE = 1 << 7
HALF = 1 << 2
V6 = ("2001:db8::7", 9)
ID = b"UNIQ_KEY\x01u"


def taken(
    data: bytes,
    names: Sequence[str] = columns.NAMES,
    *,
    raw: bool = False,
    rows: int = 2000,
    at: int = 0,
    limit: int = 1 << 40,
    skip_flags: int = 0,
    stop_flags: int = 0,
    offsets: tuple[int, int] = ALL_OFFSETS,
) -> DecodedBatch | None:
    native = library()
    assert native is not None
    maker = Whole(tuple(names), raw, rows, BROKER)
    return maker.decode(
        native,
        np.frombuffer(data, np.uint8),
        at,
        limit,
        skip_flags=skip_flags,
        stop_flags=stop_flags,
        offsets=offsets,
    )


def one_by_one(
    data: bytes, names: Sequence[str] = columns.NAMES, *, raw: bool = False
) -> pa.RecordBatch:
    walk = follow(memoryview(data), 0, len(data))
    rows = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)[0]
    part = decode_columns.BatchRows(rows, [], BROKER, raw)
    arrays = [decode_columns.build(name, part) for name in names]
    schema = columns.schema(names, "raw" if raw else "map")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check(data: bytes, names: Sequence[str] = columns.NAMES, *, raw: bool = False) -> None:
    found = taken(data, names, raw=raw)
    assert found is not None
    assert found.end == len(data)
    found.batch.validate(full=True)
    assert found.batch.equals(one_by_one(data, names, raw=raw))


def any_log(rng: random.Random, count: int) -> bytes:
    topics = (b"T", b"T", b"t" * 17, b"w" * 127, b"w" * 128, b"w" * 255, "ü".encode())
    return b"".join(
        plain(
            at,
            body=rng.randbytes(rng.choice((0, 1, 900))),
            born=(rng.choice((f"10.0.0.{rng.randrange(90)}", V6[0])), rng.randrange(65536)),
            store=rng.choice((("127.0.0.1", 10911), V6)),
            topic=rng.choice(topics) if at % 3 else b"T",
            props=b"\x02".join(
                [b"UNIQ_KEY\x01%d" % at] * rng.choice((0, 1, 1))
                + [
                    b"%s\x01%d" % (rng.choice((b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"WAIT")), at)
                    for _ in range(rng.choice((0, 1, 4)))
                ]
            ),
        )
        for at in range(count)
    )


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 700])
def test_every_column_is_what_it_is_by_itself(count: int, raw: bool) -> None:
    check(any_log(random.Random(count), count), raw=raw)


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(columns.NAMES), min_size=1, unique=True),
    st.integers(1, 9),
    st.booleans(),
)
def test_any_choice_of_columns(names: list[str], count: int, raw: bool) -> None:
    check(any_log(random.Random(count), count), names, raw=raw)


@settings(max_examples=examples(80))
@given(st.lists(records.properties, min_size=1, max_size=5), st.booleans())
def test_any_properties(texts: list[bytes], raw: bool) -> None:
    data = b"".join(plain(at, props=text) for at, text in enumerate(texts))
    names = ("properties", "tags", "keys", "topic")
    found = taken(data, names, raw=raw)
    if found is not None:
        found.batch.validate(full=True)
        assert found.batch.equals(one_by_one(data[: found.end], names, raw=raw))
        assert found.end == len(data) or found.end >= len(data) // 2


def test_it_goes_on_anywhere_and_ends_at_the_limit_or_with_its_rows() -> None:
    size = len(plain(0))
    data = b"".join(plain(at) for at in range(10))
    for limit, rows, stop in ((1 << 40, 4, 7), (7 * size, 99, 7), (7 * size - 1, 99, 7)):
        found = taken(data, rows=rows, at=3 * size, limit=limit)
        assert found is not None
        assert found.end == stop * size
        assert found.batch.equals(one_by_one(data[3 * size : found.end]))
    assert taken(data, at=len(data)) is None


@pytest.mark.parametrize(
    "strange",
    [
        plain(1, born=("::ffff:1.2.3.4", 9)),
        plain(1, store=("::ffff:1.2.3.4", 9)),
        plain(1, topic=b"\xff"),
        plain(1, topic=b"g" * 256),
        plain(1, props=b"TAGS\x01\xff"),
        plain(1, props=b"\x02".join([ID, *(b"n%d\x01v" % n for n in range(64))])),
        plain(1)[:-1],
        plain(1)[:56] + (TIME_MS_MAX + 1).to_bytes(8, "big") + plain(1)[64:],
        plain(1)[:40] + (TIME_MS_MIN - 1).to_bytes(8, "big", signed=True) + plain(1)[48:],
        record.blank(100) + bytes(92),
        bytes(100),
    ],
)
def test_the_unusual_is_left_to_others(strange: bytes) -> None:
    assert taken(strange + plain(0) * 9) is None
    assert taken(plain(0) + strange + plain(0) * 9) is None, "few rows are not worth a batch"
    found = taken(plain(0) * 9 + strange)
    assert found is not None
    assert found.end == 9 * len(plain(0))
    assert found.batch.equals(one_by_one(plain(0) * 9))


def test_what_is_not_wanted_is_not_looked_at() -> None:
    data = plain(0) + plain(1, topic=b"\xff", props=b"TAGS\x01\xff")
    check(data, ("body", "queueOffset"))
    check(plain(0, props=b"TAGS\x01t"), ("body", "tags"))


GROUPS = st.lists(
    st.sampled_from((0, 0, 0, 1, 0x10, 0xABC, 0xFFFF)) | st.integers(0, 0xFFFF),
    min_size=8,
    max_size=8,
)


@settings(max_examples=examples(80))
@given(st.lists(st.tuples(GROUPS, st.integers(0, 65535)), min_size=1, max_size=9))
def test_ipv6_hosts_and_ids_of_places(hosts: list[tuple[list[int], int]]) -> None:
    addresses = [
        (IPv6Address(b"".join(n.to_bytes(2, "big") for n in groups)), port)
        for groups, port in hosts
    ]
    data = b"".join(
        plain(at, born=(str(ip), port), store=(str(ip), port), props=b"")
        for at, (ip, port) in enumerate(addresses)
        if ip.ipv4_mapped is None
    )
    if data:
        check(data, ("bornHost", "storeHost", "msgId", "storeTimestamp", "reconsumeTimes"))


def test_ports_that_none_can_be_are_shown_all_the_same() -> None:
    for host in (("1.2.3.4", 5), V6):
        one = bytearray(plain(1, born=host, props=b""))
        at = 48 + len(one) - len(plain(1, props=b""))
        one[at + 4 : at + 8] = b"\xff" * 4
        check(bytes(one) * 3)


def test_the_last_and_first_moments_of_the_calendar_are_dates() -> None:
    for when in (TIME_MS_MIN, TIME_MS_MAX):
        check(plain(1)[:56] + when.to_bytes(8, "big", signed=True) + plain(1)[64:])


def test_records_that_become_no_rows_are_passed_over() -> None:
    parts = [plain(at, flags=HALF if at % 3 == 1 else 0) for at in range(30)]
    found = taken(b"".join(parts), skip_flags=HALF)
    assert found is not None
    assert found.end == sum(map(len, parts))
    assert found.batch.equals(one_by_one(b"".join(p for n, p in enumerate(parts) if n % 3 != 1)))
    for first, last in ((0, 30), (5, 25), (29, 30), (-(2**63), 1)):
        found = taken(b"".join(parts), offsets=(first, last))
        assert found is not None
        assert found.end == sum(map(len, parts))
        assert found.batch.equals(one_by_one(b"".join(parts[max(first, 0) : last])))
    assert taken(b"".join(parts), offsets=(30, 99)) is None
    last = plain(0)[:20] + b"\x7f" + b"\xff" * 7 + plain(0)[28:]
    assert taken(last) is not None
    assert taken(last, offsets=(0, 2**63 - 1)) is None


def test_a_record_to_stop_at_may_have_messages_that_are_rows() -> None:
    data = plain(5) + plain(1, flags=KEPT_WHOLE) + plain(1, flags=KEPT_WHOLE | HALF)
    assert taken(data * 9, stop_flags=KEPT_WHOLE, offsets=(5, 9)) is None
    found = taken(plain(5) + data[-len(plain(0)) :] + plain(5), stop_flags=KEPT_WHOLE, skip_flags=4)
    assert found is not None
    assert found.batch.num_rows == 2


def test_the_flags_of_all_rows_are_told() -> None:
    for flags in (0, 1, 2, 0x301):
        found = taken(plain(0) + plain(1, flags=flags) + plain(2, flags=HALF), skip_flags=HALF)
        assert found is not None
        assert found.flags == flags


@pytest.mark.fuzz
def test_mutated_records_are_never_taken_when_they_are_not_sound() -> None:
    rng = random.Random(11)
    count = 0
    for _ in range(2000):
        data = mutated(rng, plain(1) * 2 + plain(2, born=V6, store=V6) + plain(3, topic=b"T" * 140))
        found = taken(data)
        if found is not None:
            found.batch.validate(full=True)
            assert found.batch.equals(one_by_one(data[: found.end]))
            count += found.batch.num_rows
    assert count > 1000


def test_memory_that_is_left_over_is_not_sent() -> None:
    data = b"".join(plain(at, body=b"") for at in range(65))
    (batch,) = Decoder(properties="raw").batches(data, BROKER)
    sent = io.BytesIO()
    with pa.ipc.new_stream(sent, batch.schema) as stream:
        stream.write_batch(batch)
    (back,) = pa.ipc.open_stream(sent.getvalue())
    assert back.equals(batch)
    assert sent.tell() < 65 * (20 * 4 + 8 * 8 + 150) + 8_000


def test_flags_that_it_stops_at() -> None:
    data = plain(0) * 5 + plain(1, flags=KEPT_WHOLE)
    check(data)
    found = taken(data, stop_flags=KEPT_WHOLE)
    assert found is not None
    assert found.batch.num_rows == 5


@pytest.mark.parametrize(("room", "rows"), [("BODIES_MAX", 10), ("TEXTS_MAX", 7)])
def test_a_batch_ends_where_it_has_no_room(
    monkeypatch: pytest.MonkeyPatch, room: str, rows: int
) -> None:
    one = plain(0, body=b"b" * 100, props=ID + b"\x02TAGS\x01" + b"t" * 120)
    text = len(ID) + 6 + 120
    monkeypatch.setattr(decode_native, room, rows * (100 if room == "BODIES_MAX" else text))
    found = taken(one * 20, limit=13 * len(one))
    assert found is not None
    assert found.batch.equals(one_by_one(one * rows))
    monkeypatch.setattr(decode_native, room, 50)
    assert taken(one * 20) is None


def test_the_last_row_lies_at_the_very_end_of_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    one = plain(0, body=b"b" * 100, props=ID)
    for rows in range(1, 20):
        monkeypatch.setattr(decode_native, "BODIES_MAX", 100 * rows)
        monkeypatch.setattr(decode_native, "TEXTS_MAX", len(ID) * rows)
        found = taken(one * rows, rows=rows)
        assert found is not None
        assert found.batch.equals(one_by_one(one * rows))


def test_a_batch_lives_by_itself() -> None:
    data = bytearray(any_log(random.Random(3), 50))
    found = taken(bytes(data))
    assert found is not None
    expected = one_by_one(bytes(data))
    others = [taken(any_log(random.Random(4), 50)) for _ in range(5)]
    assert all(others)
    assert found.batch.equals(expected)
