"""The frames of plain replication, big-endian, without a handshake.

slave to master    end of the slave's log i64; the first one says where to begin
master to slave    offset i64 | body bytes i32 | body; no body is a heartbeat
"""

import struct
from dataclasses import dataclass

from epochmq.base.errors import PeerError
from epochmq.base.limits import HA_BODY_BYTES_MAX
from epochmq.base.ports import Buffer

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")

REPORT_BYTES = _REPORT.size
HEAD_BYTES = _HEAD.size


@dataclass(frozen=True, slots=True)
class Head:
    """The head of `body_bytes` bytes of log from `offset` on."""

    offset: int
    body_bytes: int


def encode_report(end: int) -> bytes:
    """Return a report that the slave's log ends at `end`."""
    return _REPORT.pack(end)


def decode_reports(data: Buffer) -> tuple[list[int], int]:
    """Return all complete reports in `data`, and the number of bytes they take."""
    whole = len(data) - len(data) % REPORT_BYTES
    return [_REPORT.unpack_from(data, at)[0] for at in range(0, whole, REPORT_BYTES)], whole


def encode_head(offset: int, body_bytes: int) -> bytes:
    """Return the head of a piece of log; `body_bytes` 0 is a heartbeat."""
    return _HEAD.pack(offset, body_bytes)


def decode_head(data: Buffer, at: int = 0) -> Head:
    """Decode the complete head at `at`. Raises `PeerError` for an impossible size."""
    offset, body_bytes = _HEAD.unpack_from(data, at)
    if not 0 <= body_bytes <= HA_BODY_BYTES_MAX:
        raise PeerError(f"a master announced {body_bytes} bytes of log")
    return Head(offset, body_bytes)
