"""Offset ids and client ids."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model import message_id
from epochmq.model.host import pack
from epochmq.model.message_id import BadMessageId, UniqIds

_DAY_MS = 86_400_000
_walls = st.integers(0, 4_102_444_800_000)
_zones = st.integers(-12, 14).map(lambda hours: hours * 3_600_000)


def _wall(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type]


def test_golden_offset_id() -> None:
    text = message_id.offset_id(pack("127.0.0.1", 10911), 258)
    assert text == "7F00000100002A9F0000000000000102"
    assert message_id.parse_offset_id(text) == ("127.0.0.1", 10911, 258)
    assert message_id.parse_offset_id(text.lower()) == ("127.0.0.1", 10911, 258)


@given(st.ip_addresses().map(str), st.integers(0, 65535), st.integers(-(2**63), 2**63 - 1))
def test_offset_ids_come_back(ip: str, port: int, offset: int) -> None:
    text = message_id.offset_id(pack(ip, port), offset)
    assert len(text) == (56 if ":" in ip else 32)
    assert message_id.parse_offset_id(text) == (ip, port, offset)


@given(st.text(max_size=60) | st.text("0123456789abcdefXG ", min_size=32, max_size=32))
def test_what_is_no_id_is_refused_cleanly(text: str) -> None:
    try:
        host, port, offset = message_id.parse_offset_id(text)
    except BadMessageId:
        return
    assert message_id.offset_id(pack(host, port & 0xFFFF), offset)[-16:] == text[-16:].upper()


@pytest.mark.parametrize("text", ["", "00", "0" * 31, "0" * 33, "G" * 32, " 0" * 16, "0" * 40])
def test_bad_ids(text: str) -> None:
    with pytest.raises(BadMessageId):
        message_id.parse_offset_id(text)


def test_a_client_id_has_the_documented_layout() -> None:
    wall = _wall(2022, 9, 1) + 0x01020304
    ids = UniqIds(bytes([10, 0, 0, 2]), 0x12345, lambda: wall, process_hash=-1, counter=0xFFFE)
    assert ids.next() == "0A000002" + "2345" + "FFFFFFFF" + "01020304" + "FFFF"
    assert ids.next().endswith("0000")
    assert len(UniqIds(bytes(16), 1, lambda: wall).next()) == 56


def test_client_ids_differ_within_a_millisecond() -> None:
    ids = UniqIds(bytes(4), 1, lambda: 5_000)
    assert len({ids.next() for _ in range(65_536)}) == 65_536


def test_only_an_ip_makes_ids() -> None:
    with pytest.raises(UsageError, match="4 or 16"):
        UniqIds(bytes(8), 1, lambda: 0)


def test_ids_follow_the_clock_into_the_next_month_and_back() -> None:
    walls = iter([_wall(2022, 9, 30), _wall(2022, 10, 1), _wall(2022, 9, 30), _wall(2022, 12, 31)])
    ids = UniqIds(bytes(4), 1, lambda: next(walls))
    days = [int(ids.next()[-12:-4], 16) // _DAY_MS for _ in range(4)]
    assert days == [29, 0, 29, 30]


@given(_walls, _zones)
def test_a_month_starts_at_local_midnight_of_its_first_day(wall: int, zone: int) -> None:
    start = message_id.month_start(wall, zone)
    assert 0 <= wall - start < 31 * _DAY_MS
    assert (start + zone) % _DAY_MS == 0
