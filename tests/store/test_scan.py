"""The scanner: clean ends for whatever bytes it meets."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.record import blank, check, encode
from epochmq.store.scan import DispatchEntry, ScanEnd, walk

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
HOST_V6 = bytes(16) + HOST[4:]


def record(offset: int, body: bytes = b"body", topic: bytes = b"T", **over: object) -> bytes:
    fields: dict[str, object] = {
        "queue_id": 1,
        "flag": -1,
        "queue_offset": 5,
        "sys_flag": 0,
        "born_wall_ms": 1,
        "born_host": HOST,
        "store_wall_ms": 1000,
        "store_host": HOST,
        "reconsume_times": 0,
        "prepared_offset": 0,
        "properties": b"KEYS\x01k\x02",
        **over,
    }
    return encode(topic, body, offset=offset, **fields)  # type: ignore[arg-type]


def scan(data: bytes, start: int = 0, **options: object) -> tuple[list[DispatchEntry], ScanEnd]:
    end = ScanEnd()
    found = list(walk(memoryview(data), start, 0, end, **options))  # type: ignore[arg-type]
    return found, end


def test_reads_records_until_zeros() -> None:
    one = record(4096)
    two = record(4096 + len(one), topic=b"L" * 200, born_host=HOST_V6, store_host=HOST_V6)
    found, end = scan(one + two + bytes(100), 4096)
    assert [(e.offset, e.size, e.topic) for e in found] == [
        (4096, len(one), b"T"),
        (4096 + len(one), len(two), b"L" * 200),
    ]
    assert (found[1].queue_id, found[1].queue_offset, found[1].store_wall_ms) == (1, 5, 1000)
    assert found[1].properties == b"KEYS\x01k\x02"
    assert (end.offset, end.rolled, end.reason) == (4096 + len(one + two), False, "no record")


def test_a_blank_leads_into_the_next_file() -> None:
    one = record(0)
    found, end = scan(one + blank(50) + bytes(42))
    assert (len(found), end.offset, end.rolled) == (1, len(one) + 50, True)
    assert not scan(one + blank(49) + bytes(42))[1].rolled
    assert scan(one)[1].rolled
    assert not scan(one + b"\0\0\0")[1].rolled


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"\0\0\0\x10", "torn or foreign record"),
        (0, b"\x7f\xff\xff\xff", "torn or foreign record"),
        (4, b"\0\0\0\1", "unknown magic"),
        (8, b"\0\0\0\1", "body checksum is wrong"),
        (20, b"\xff", "torn or foreign record"),
        (28, b"\1", "torn or foreign record"),
        (84, b"\0\0\1\0", "lengths do not agree"),
        (84, b"\0\0\0\3", "lengths do not agree"),
        (92, b"\0", "lengths do not agree"),
        (94, b"\x00\x01", "lengths do not agree"),
    ],
)
def test_damage_ends_the_log(at: int, value: bytes, reason: str) -> None:
    data = bytearray(record(0) + bytes(40))
    data[at : at + len(value)] = value
    found, end = scan(bytes(data))
    assert (found, end.offset, end.rolled, end.reason) == ([], 0, False, reason)


def test_no_checksum_when_not_asked() -> None:
    data = bytearray(record(0))
    data[8:12] = bytes(4)
    assert len(scan(bytes(data), crc=False)[0]) == 1


@pytest.mark.parametrize("sector", range(4))
def test_a_lost_sector_is_found_wherever_it_lies(sector: int) -> None:
    one = record(0, body=b"b" * 400, properties=b"p\x01" + b"x" * 900 + b"\x02")
    data = bytearray(one.ljust(4096, b"\0"))
    data[sector * 512 : sector * 512 + 512] = bytes(512)
    lost = bytes(data) != one.ljust(4096, b"\0")
    found, end = scan(bytes(data), safe_wall=999)
    assert (len(found), end.rolled) == (0 if lost else 1, False)


def test_old_records_are_not_suspected() -> None:
    one = bytearray(record(0, properties=b"p\x01" + b"x" * 900 + b"\x02"))
    one[512:514] = bytes(2)
    assert len(scan(bytes(one), safe_wall=1000)[0]) == 1
    assert len(scan(bytes(one))[0]) == 1
    assert scan(bytes(one), safe_wall=999)[1].reason == "a sector was lost"


def test_a_length_of_zero_at_a_sectors_edge_is_no_loss() -> None:
    for body in range(380, 460):
        data = record(0, body=b"b" * body, topic=b"TTTT", properties=b"a\x01b\x02")
        assert len(scan(data + bytes(20), safe_wall=0)[0]) == 1


@given(st.binary(max_size=300))
def test_any_bytes_end_cleanly(data: bytes) -> None:
    found, end = scan(data)
    assert 0 <= end.offset <= len(data)
    assert sum(e.size for e in found) <= len(data)


@pytest.mark.fuzz
def test_20_000_damaged_records() -> None:
    rng = Random(20_000)
    whole = [
        record(0, rng.randbytes(rng.randrange(300)), b"T" * rng.choice((1, 9, 127, 200)),
               born_host=rng.choice((HOST, HOST_V6)), sys_flag=rng.choice((0, 1, 8)))
        for _ in range(50)
    ]  # fmt: skip
    for _ in range(20_000):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 2, 5))):
            kind = rng.randrange(4)
            at = rng.randrange(len(data))
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                del data[at:]
                data += bytes(1)
            elif kind == 2:
                data[at:at] = rng.randbytes(rng.randrange(8))
            else:
                data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"))
        found, end = scan(bytes(data), safe_wall=0)
        assert 0 <= end.offset <= len(data)
        # Whatever the scanner takes, the model's own check takes too.
        if found:
            assert check(data, 0, len(data), crc=True) == found[0].size
