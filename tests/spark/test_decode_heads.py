"""Heads: fields behind hosts of either size, and lengths that contradict each other."""

import random

import numpy as np
import pytest
from tests.spark.records import plain

from epochmq.model import record
from epochmq.spark import decode_heads
from epochmq.spark.decode_heads import Rows, address, follow

V6 = ("2001:db8::7", 9)


def rows_of(data: bytes) -> Rows:
    walk = follow(memoryview(data), 0, len(data))
    rows, _ = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)
    return rows


def mixed() -> bytes:
    return b"".join(
        [
            plain(1),
            plain(2, born=V6),
            plain(3, store=V6, topic=b"%RETRY%" + b"g" * 200),
            plain(4, born=V6, store=V6, body=b""),
            plain(5, props=b"", topic=b""),
        ]
    )


def test_fields_lie_at_one_place_whatever_the_hosts_are() -> None:
    data = mixed()
    rows, messages = rows_of(data), record.decode_all(data)
    head = rows.head
    assert head["queueOffset"].tolist() == [1, 2, 3, 4, 5]
    assert head["bornTimestamp"].tolist() == [m.born_wall_ms for m in messages]
    assert head["storeTimestamp"].tolist() == [m.store_wall_ms for m in messages]
    assert head["reconsumeTimes"].tolist() == [1] * 5
    assert head["bodyLength"].tolist() == [len(m.body) for m in messages]
    for at, message in enumerate(messages):
        assert data[rows.topic_at[at] : rows.topic_to[at]].decode() == message.topic
        assert data[rows.body_at[at] : rows.body_to[at]] == message.body
        assert data[rows.properties_at[at] : rows.end[at]] == record.properties_at(
            data, int(rows.at[at])
        )


def test_rows_can_be_picked_by_slice_and_by_flags() -> None:
    rows = rows_of(mixed())
    assert rows.pick(slice(1, 3)).head["queueOffset"].tolist() == [2, 3]
    odd = rows.pick(rows.head["queueOffset"] % 2 == 1)
    assert odd.at.tolist() == rows.at[::2].tolist()
    assert (len(odd), odd.born_host_at.tolist()) == (3, (odd.at + 48).tolist())


@pytest.mark.parametrize("seed", range(5))
def test_the_first_contradiction_ends_the_rows(seed: int) -> None:
    rng = random.Random(seed)
    sound = [plain(at, born=V6 if at % 3 else ("1.2.3.4", 5)) for at in range(8)]
    for _ in range(100):
        parts = [bytearray(part) for part in sound]
        for _ in range(2):
            part = rng.choice(parts)
            part[rng.randrange(36, len(part))] = rng.randrange(256)
        data = b"".join(parts)
        walk = follow(memoryview(data), 0, len(data))
        rows, fault = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)
        checks = [record.check(data, at, len(data), False) for at in walk.at.tolist()]
        bad = [n for n, size in enumerate(checks) if size <= 0]
        assert len(rows) == (bad[0] if bad else len(sound))
        assert (fault is None) == (not bad)
        if fault:
            assert fault.offset_in_buffer == walk.at[bad[0]]
            assert fault.resume_at == fault.offset_in_buffer + walk.sizes[bad[0]]


def test_address_is_that_of_the_first_element() -> None:
    array = np.arange(10)
    assert address(array[3:]) == array.ctypes.data + 3 * array.itemsize
