"""What goes into the store and what comes back: values shared by the broker and the log."""

from enum import Enum
from struct import Struct

import msgspec


class PutStatus(Enum):
    """Why a message was not stored, or how well it was (upstream's names)."""

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    CREATE_MAPPED_FILE_FAILED = 5
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGE_CACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    IN_SYNC_REPLICAS_NOT_ENOUGH = 10
    PUT_TO_REMOTE_BROKER_FAIL = 11
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 12
    WHEEL_TIMER_FLOW_CONTROL = 13
    WHEEL_TIMER_MSG_ILLEGAL = 14
    WHEEL_TIMER_NOT_ENABLE = 15


class Draft(msgspec.Struct, gc=False):
    """One message to append; the store adds offsets, store time and checksum.

    `properties` is the encoded string as it is stored. `keys` are the index keys, UNIQ_KEY first.
    `tags_code` goes into the consume queue; for the delay topic the store replaces it by the time
    of delivery. `born_host` is packed, 8 bytes for IPv4 and 20 for IPv6; its width decides the
    record's host flag, whatever `sys_flag` says.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int = 0
    keys: tuple[str, ...] = ()
    flag: int = 0
    sys_flag: int = 0
    born_wall_ms: int = 0
    born_host: bytes = b"\0\0\0\0\0\0\0\0"
    reconsume_times: int = 0
    prepared_offset: int = 0


class Appended(msgspec.Struct, gc=False):
    """Where a message went: byte position and size in the log, index in its queue, store time."""

    offset: int
    size: int
    queue_offset: int
    store_wall_ms: int


# Store layout --------------------------------------------------------------------------------
# Shapes of the derived files and of their names.
#
# A record's own layout is in `epochmq.model.record`. All integers are big-endian.


FRONT = Struct(">IIIiiqqi")
"""A record's first 40 bytes: size, magic, crc, queue id, flag, queue offset, offset, sys flag."""

UNIT = Struct(">qiq")
"""Consume-queue unit: log offset, record size, tags code."""

UNIT_BYTES = UNIT.size
PRE_BLANK_SIZE = 0x7FFFFFFF
PRE_BLANK = UNIT.pack(0, PRE_BLANK_SIZE, 0)
"""Stands for a queue offset that has no record: below a queue's first unit, or in a hole."""

BATCH_UNIT = Struct(">qiqqqhii")
"""Batch queue unit: log offset, record size, tags code, store time, first queue offset, number of
messages, compact offset (always -1), 0."""

BATCH_PLACE = Struct(f">qiq{BATCH_UNIT.size - UNIT_BYTES}x")
"""A batch queue unit read as if it were a plain one."""

LENGTHS = tuple(length.to_bytes(2, "big") for length in range(32768))
"""The i16 before the properties, ready made."""


def file_name(offset: int) -> str:
    """A log or queue file is named by the first offset in it, 20 digits."""
    return f"{offset:020d}"
