"""Batches kept as one record become rows with consecutive queue offsets."""

import numpy as np
import pytest
from tests.model.deflating import deflate
from tests.spark.records import BROKER, WRAPPED, inner, listed, plain, slow

from epochmq.model.batch import BatchEntry
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_ZLIB
from epochmq.spark import decode_bodies, decode_heads
from epochmq.spark.decode import Decoder
from epochmq.spark.decode_heads import CorruptRecord, follow

ENTRIES = [
    BatchEntry(n, b"body %d" % n, b"TAGS\x01t%d\x02UNIQ_KEY\x01u%d" % (n, n)) for n in range(3)
]
V6 = ("2001:db8::7", 9)


@pytest.mark.parametrize(
    "hosts", [(V6, V6), (("1.2.3.4", 5), V6), (("1.2.3.4", 5), ("6.7.8.9", 1))]
)
def test_messages_of_a_batch_are_rows_like_others(hosts: tuple[tuple[str, int], ...]) -> None:
    born, store = hosts
    body = inner(ENTRIES)
    data = b"".join(
        [
            plain(4),
            plain(5, body=body, flags=WRAPPED, born=born, store=store),
            plain(8, body=deflate(body), flags=WRAPPED | COMPRESSED | COMPRESSION_ZLIB),
            plain(11, body=b"", flags=WRAPPED),
            plain(11),
        ]
    )
    rows = listed(list(Decoder().batches(data, BROKER)))
    assert rows == slow(data)[0]
    assert [row["queueOffset"] for row in rows] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert [row["body"] for row in rows[1:4]] == [b"body 0", b"body 1", b"body 2"]
    assert [row["msgId"] for row in rows[4:7]] == ["u0", "u1", "u2"]


def test_only_the_asked_part_of_a_batch_is_given() -> None:
    data = plain(5, body=inner(ENTRIES), flags=WRAPPED)
    (batch,) = Decoder(["queueOffset"]).batches(data, BROKER, queue_offsets=(6, 100))
    assert batch.column("queueOffset").to_pylist() == [6, 7]


def test_what_is_written_out_comes_in_bounded_pieces() -> None:
    data = b"".join(plain(n, body=inner(ENTRIES), flags=WRAPPED) for n in range(10))
    walk = follow(memoryview(data), 0, len(data))
    rows, _ = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)
    pieces = list(decode_bodies.written_out(rows, limit=700))
    assert len(pieces) == 6  # the last one is empty
    assert [piece.first for piece in pieces] == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    "bad",
    [
        plain(7, body=inner(ENTRIES)[:-1], flags=WRAPPED),
        plain(7, body=b"x", flags=WRAPPED | COMPRESSED),
        plain(2**63 // 1000 - 1, body=inner(ENTRIES), flags=WRAPPED)[:20]
        + (2**63 - 2).to_bytes(8, "big")
        + plain(0, body=inner(ENTRIES), flags=WRAPPED)[28:],
    ],
    ids=["lengths", "squeezed", "queue offset"],
)
def test_a_broken_batch_is_a_corrupt_record_behind_the_rows_before_it(bad: bytes) -> None:
    good = plain(1) + plain(2, body=inner(ENTRIES), flags=WRAPPED)
    found = Decoder(["queueOffset"]).batches(good + bad + plain(9), BROKER)
    assert next(found).column("queueOffset").to_pylist() == [1, 2, 3, 4]
    with pytest.raises(CorruptRecord, match="inner batch") as error:
        next(found)
    assert error.value.offset_in_buffer == len(good)
    assert error.value.resume_at == len(good + bad)


def test_a_fault_beside_a_batch_is_told_at_its_own_place() -> None:
    good = plain(2, body=inner(ENTRIES), flags=WRAPPED)
    data = good + plain(5, body=b"no zlib", flags=COMPRESSED) + good
    found = Decoder(["queueOffset", "body"]).batches(data, BROKER)
    assert next(found).column("queueOffset").to_pylist() == [2, 3, 4]
    with pytest.raises(CorruptRecord) as error:
        next(found)
    assert error.value.offset_in_buffer == len(good)


def test_a_topic_too_long_to_be_repeated_is_refused() -> None:
    body = inner([BatchEntry(0, b"", b"")] * 2000)
    data = plain(1, topic=b"t" * 40_000, body=body, flags=WRAPPED)
    with pytest.raises(CorruptRecord, match="40002 bytes"):
        list(Decoder().batches(data, BROKER))
