"""Drafts of messages and append results: the values that broker and store exchange."""

from enum import Enum
from struct import Struct

import msgspec


class PutStatus(Enum):
    """Why a message was not stored, or how safely it was (RocketMQ's names)."""

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
    """A message to append; the store adds offsets, store time and checksum.

    `properties` is the encoded string as it is stored. `keys` are the index keys, UNIQ_KEY first.
    `tags_code` is stored in the consume queue; for the delay topic the store replaces it by the
    time of delivery. `born_host` is packed, 8 bytes for IPv4 and 20 for IPv6; its width, not
    `sys_flag`, determines the record's host flag.
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
    """Position of an appended message: log offset and size, queue offset, store time (ms)."""

    offset: int
    size: int
    queue_offset: int
    store_wall_ms: int


# Store layout --------------------------------------------------------------------------------
# Layout of the derived files, and their names.
#
# A record's own layout is in `epochmq.model.record`. All integers are big-endian.


FRONT = Struct(">IIIiiqqi")
"""A record's first 40 bytes: size, magic, crc, queue id, flag, queue offset, offset, sys flag."""

UNIT = Struct(">qiq")
"""Consume-queue unit: log offset, record size, tags code."""

UNIT_BYTES = UNIT.size
PRE_BLANK_SIZE = 0x7FFFFFFF
PRE_BLANK = UNIT.pack(0, PRE_BLANK_SIZE, 0)
"""The unit of a queue offset without a record: below a queue's first unit, or in a hole."""

BATCH_UNIT = Struct(">qiqqqhii")
"""Batch queue unit: log offset, record size, tags code, store time, first queue offset, number of
messages, compact offset (always -1), 0."""

BATCH_PLACE = Struct(f">qiq{BATCH_UNIT.size - UNIT_BYTES}x")
"""Reads the first three fields of a batch queue unit, which are those of a plain unit."""

LENGTHS = tuple(length.to_bytes(2, "big") for length in range(32768))
"""The encoded i16 lengths of topics and properties."""


def file_name(offset: int) -> str:
    """Return the name of a log or queue file: the first offset in it, with 20 digits."""
    return f"{offset:020d}"
