"""Converts a batch request's body to records, units and index keys in one native call."""

import ctypes

import msgspec

from epochmq.base.ports import Buffer
from epochmq.model.sink_mark import SINK_BATCH, SINK_ID, SINK_PART, SINK_SEQ, SinkMark, mark_of
from epochmq.native.library import BatchArgs, Library
from epochmq.native.memory import NativeMemory
from epochmq.native.native_index import KEY_BYTES, PackedKeys
from epochmq.store.draft import UNIT_BYTES
from epochmq.store.sink_runs import SinkRun

RECORDS_BYTES_MAX = 8 << 20
"""Limit of record bytes; a larger batch is left to Python. Unused memory costs nothing."""

MESSAGES_MAX = 8192
KEYS_MAX = 4 * MESSAGES_MAX
_ID_BYTES_MAX = 57


class CheckedBatch(msgspec.Struct, gc=False):
    """A checked batch request whose messages go into one queue.

    `tail` is added to the properties of messages that have a UNIQ_KEY, `tail_key` to the others;
    both begin with 0x02. `key` is the UNIQ_KEY that `tail_key` carries, if any.
    """

    topic: str
    queue_id: int
    body: Buffer
    sys_flag: int
    born_wall_ms: int
    born_host: bytes
    reconsume_times: int
    tail: bytes
    tail_key: bytes
    key: bytes


class Placed(msgspec.Struct, gc=False):
    """Position of a batch: its log bytes, first queue offset, and message ids joined by commas."""

    offset: int
    size: int
    queue_offset: int
    count: int
    ids: bytes
    run: SinkRun | None = None
    """The batch as a run for the sink memory; None if it is not a sink's."""


class MadeRecords(msgspec.Struct, gc=False):
    """The result of the native code; `records` is valid until its next call."""

    records: memoryview
    units: bytes
    keys: PackedKeys | None
    ids: bytes
    count: int
    mark: SinkMark | None
    """Mark of the first message, if all messages are one run of a sink."""


class NativeBatch:
    """The native call and its output buffers."""

    def __init__(self, library: Library, store_host: bytes, record_max: int, index: bool) -> None:
        self._call = library.batch
        out, units = NativeMemory(RECORDS_BYTES_MAX), NativeMemory(UNIT_BYTES * MESSAGES_MAX)
        keys, ids = NativeMemory(KEY_BYTES * KEYS_MAX), NativeMemory(_ID_BYTES_MAX * MESSAGES_MAX)
        self._views = (out.view, units.view, keys.view, ids.view)
        host = store_host.hex().upper().encode()
        args = self._args = BatchArgs(host_at=host, host_size=len(host), record_max=record_max)
        args.out, args.out_max = out.address, RECORDS_BYTES_MAX
        args.units, args.count_max = units.address, MESSAGES_MAX
        args.keys, args.keys_max = keys.address, KEYS_MAX if index else 0
        args.ids, args.ids_max = ids.address, len(ids.view)
        self._at = ctypes.addressof(args)

    def make(
        self,
        batch: CheckedBatch,
        head: bytes,
        name: bytes,
        prefix: int,
        place: tuple[int, int, int],
        wall: int,
    ) -> MadeRecords | None:
        """Return records for the log's end; None if Python must handle the batch.

        `head` is a record head with zeros in the fields that differ by message, `name` the topic
        field, `place` (log offset, bytes of room there, queue offset).
        """
        args = self._args
        body = bytes(batch.body)
        args.body_at, args.body_size = body, len(body)
        args.head_at, args.head_size = head, len(head)
        args.name_at, args.name_size = name, len(name)
        args.tail_at, args.tail_size = batch.tail, len(batch.tail)
        args.tail_key_at, args.tail_key_size = batch.tail_key, len(batch.tail_key)
        args.key_at, args.key_size = batch.key, len(batch.key)
        args.prefix, args.wall = prefix, wall
        args.offset, args.room, args.queue_offset = place
        count = self._call(self._at)
        if not count:
            return None
        records, units, keys, ids = self._views
        offset, size = place[0], args.out_size
        packed = None
        if args.keys_count:
            data = bytes(keys[: args.keys_count * KEY_BYTES])
            packed = PackedKeys(data, offset, offset + size, wall)
        return MadeRecords(
            records[:size],
            bytes(units[: count * UNIT_BYTES]),
            packed,
            bytes(ids[: args.ids_size]),
            count,
            _mark(batch.topic, args) if args.marked else None,
        )


def _mark(topic: str, args: BatchArgs) -> SinkMark | None:
    """Return the sink's mark of the first message; None for a topic that holds copies."""
    sink = ctypes.string_at(args.sink_at, args.sink_size).decode()
    numbers = {SINK_BATCH: args.sink_batch, SINK_PART: args.sink_part, SINK_SEQ: args.sink_seq}
    return mark_of(topic, {SINK_ID: sink, **{name: str(n) for name, n in numbers.items()}})
