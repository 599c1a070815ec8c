"""The two ids of a message: the offset id of the broker, and the unique id of the client."""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from epochmq.base.errors import UsageError
from epochmq.model.host import unpack

_HEX_SIZES = (32, 56)
_HOUR_MS = 3_600_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadMessageId(UsageError):
    """A text that is not a message id."""


def offset_id(host_packed: bytes, offset: int) -> str:
    """Return upper-case hex of the store host (8 or 20 bytes) and the commit log offset (int64)."""
    return (host_packed + offset.to_bytes(8, "big", signed=True)).hex().upper()


def parse_offset_id(text: str) -> tuple[str, int, int]:
    """Return (host, port, commit log offset). Raises `BadMessageId` unless it has 32 or 56 hex
    digits.
    """
    raw = _unhex(text)
    host, port = unpack(raw[:-8])
    return host, port, int.from_bytes(raw[-8:], "big", signed=True)


def _unhex(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text) if len(text) in _HEX_SIZES else b""
    except ValueError:
        raw = b""
    if len(raw) * 2 != len(text) or not raw:
        raise BadMessageId(f"{text!r} is not a message id: it has 32 (IPv6: 56) hex digits")
    return raw


class UniqIds:
    """Makes client ids: IP, pid, a process number, ms since the month began, a counter.

    `wall_ms` reads the wall clock. `utc_offset_ms` is that of the local time zone, because months
    are local.
    """

    def __init__(
        self,
        ip: bytes,
        pid: int,
        wall_ms: Callable[[], int],
        *,
        process_hash: int = 0,
        counter: int = 0,
        utc_offset_ms: int = 0,
    ) -> None:
        if len(ip) not in (4, 16):
            raise UsageError(f"an IP has 4 or 16 bytes, not {len(ip)}")
        head = ip + struct.pack(">HI", pid & 0xFFFF, process_hash & 0xFFFFFFFF)
        self._head = head.hex().upper()
        self._wall_ms = wall_ms
        self._counter = counter
        self._zone_ms = utc_offset_ms
        self._month = self._month_end = 0

    def next(self) -> str:
        """Return an id that is unique in this process for at least 65,536 ids in one
        millisecond.
        """
        wall = self._wall_ms()
        if not self._month <= wall < self._month_end:
            self._month = month_start(wall, self._zone_ms)
            self._month_end = month_start(self._month + 32 * 24 * _HOUR_MS, self._zone_ms)
        self._counter = (self._counter + 1) & 0xFFFF
        return f"{self._head}{wall - self._month & 0xFFFFFFFF:08X}{self._counter:04X}"


def month_start(wall_ms: int, utc_offset_ms: int = 0) -> int:
    """Return the Unix ms at which the local month of `wall_ms` began."""
    local = _EPOCH + timedelta(milliseconds=wall_ms + utc_offset_ms)
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first - _EPOCH) // timedelta(milliseconds=1) - utc_offset_ms
