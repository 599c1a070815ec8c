"""The reading side of the facade `Store`: queues, times, records by position."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from epochmq.model.host import V4_SIZE
from epochmq.model.names import TIMER_TOPIC
from epochmq.store.commit_log import CommitLog
from epochmq.store.key_query import KeySearch, query_index
from epochmq.store.message_index import Index, IndexResult
from epochmq.store.native import library
from epochmq.store.native_send import StagedEnds
from epochmq.store.options import StoreOptions
from epochmq.store.pointers import Pointers
from epochmq.store.queue_table import QueueTable
from epochmq.store.read import Accept, Reader, ReadResult, Verify
from epochmq.store.remake import Remade, Remaker, Source
from epochmq.store.waits import TimedMessage, WaitsReader


class StoreReads:
    """What a broker asks of a store without changing it."""

    _reader: Reader
    _queues: QueueTable
    _index: Index | None
    _make_remaker: Callable[[], Remaker] | None
    _waits: WaitsReader | None
    pointers: Pointers

    def _index_staged(self) -> None:
        raise NotImplementedError

    def _use_native(
        self,
        options: StoreOptions,
        store_host: bytes,
        log: CommitLog,
        takes: Callable[[str], bool],
    ) -> None:
        """What the native code reads, where there is one and the store has an IPv4 address."""
        native = library.library()
        self._make_remaker = self._waits = None
        if native is not None and len(store_host) == V4_SIZE:
            self._make_remaker = partial(Remaker, native, options, store_host, log, takes)
            self._waits = WaitsReader(native, log)

    @cached_property
    def _remaker(self) -> Remaker | None:
        """Made for the first message that follows from another; a new store is quick."""
        return self._make_remaker() if self._make_remaker is not None else None

    def query_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> IndexResult:
        """The newest records of `topic` with `key`, stored in the given span, in order."""
        search = self.search_index(topic, key, max_count, begin_wall, end_wall)
        return IndexResult([], 0, 0) if search is None else query_index(search)

    def search_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> KeySearch | None:
        """The same to be done in steps; None without an index."""
        if self._index is None:
            return None
        self._index_staged()
        return KeySearch(self._index, self._reader, topic, key, max_count, begin_wall, end_wall)

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accept: Accept | None = None,
        verify: Verify | None = None,
        *,
        stop: int = 1 << 62,
    ) -> ReadResult:
        """Records of a queue from `offset`; see `Reader.read_queue`."""
        return self._reader.read_queue(
            topic, queue_id, offset, max_count, max_bytes, accept, verify, stop=stop
        )

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) queue offsets that may be read; (0, 0) for an unknown queue."""
        return self._reader.bounds(topic, queue_id)

    def is_batched(self, topic: str) -> bool:
        """Whether a topic has batch queues, so that a record may hold many of its messages."""
        return self._queues.is_batched(topic)

    def topics(self) -> list[str]:
        """Topics that have queues here."""
        return self._queues.names()

    def queues(self, topic: str) -> list[int]:
        """Ids of a topic's queues, sorted."""
        return sorted(self._queues.of(topic))

    def offset_by_time(self, topic: str, queue_id: int, wall_ms: int, upper: bool = False) -> int:
        """Queue offset for a store time; see `Reader.offset_by_time`."""
        return self._reader.offset_by_time(topic, queue_id, wall_ms, upper)

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int:
        """Queue offset for a log position; see `Reader.offset_at_place`."""
        return self._reader.offset_at_place(topic, queue_id, log_offset)

    def behind_damage(self, topic: str, queue_id: int, offset: int) -> int:
        """Where to go on without what is damaged at `offset`; see `Reader.behind_damage`."""
        return self._reader.behind_damage(topic, queue_id, offset)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of one message, -1 for none."""
        return self._reader.store_time(topic, queue_id, queue_offset)

    def earliest_time(self) -> int:
        """Store time of the oldest message kept, -1 for none."""
        return self._reader.earliest_time()

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None:
        """The record that starts at log position `offset`."""
        return self._reader.message_at(offset, size)

    def remake(
        self, kind: int, sources: Sequence[Source], wall: int, ends: StagedEnds | None = None
    ) -> Remade | None:
        """The messages that follow from the records at the front of `sources`, as far as the
        native code makes them; see `store/remake.py`. None when it makes none of them.
        """
        if self._remaker is None:
            return None
        return self._remaker.make(kind, sources, self.pointers.readable, wall, ends) or None

    def units(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]:
        """(log offset, size, tags code) of up to `count` messages from queue offset `offset` on,
        up to the first hole; none beyond what may be read."""
        return self._reader.units(topic, queue_id, offset, count)

    def waits(self, offset: int, count: int) -> list[TimedMessage]:
        """What the wheel needs of up to `count` messages of the timer topic from queue offset
        `offset` on, as far as they are ordinary; none without the native code."""
        if self._waits is None or not (units := self.units(TIMER_TOPIC, 0, offset, count)):
            return []
        return self._waits.read(units, self.pointers.readable)
