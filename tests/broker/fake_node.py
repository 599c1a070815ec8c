"""A broker's state around a store made of lists, for tests of handlers."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

from tests.broker.fake_disk import FakeDisk

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext, BrokerPorts
from epochmq.broker.state.topic_table import Wishes, system_topics
from epochmq.model import record
from epochmq.store.damaged_ranges import DamageTable
from epochmq.store.pointers import Pointers
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.store import Store

WALL = 1_700_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class FakeClock:
    def __init__(self) -> None:
        self.now = 0
        self.wall = WALL

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.wall


@dataclass(frozen=True)
class Found:
    """What `query_index` gives."""

    records: list[memoryview]
    last_update_ms: int = WALL
    last_update_offset: int = 77


@dataclass(frozen=True)
class Search:
    """What `KeyQueries.newest` gives."""

    result: Found

    def step(self, items: int) -> bool:
        return True


class FakeStore:
    """Records by queue; queue offsets begin at `first`, store times are WALL + 1000 n."""

    def queue_types(self, _types: object) -> None:
        """Nothing is asked."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.first: dict[tuple[str, int], int] = {}
        self.codes: dict[tuple[str, int], list[int]] = {}
        self.pointers = Pointers()
        self.damage = DamageTable()
        self.indexed: dict[tuple[str, str], list[bytes]] = {}
        self.asked: list[tuple[object, ...]] = []
        self.keys = SimpleNamespace(newest=self.newest_with_key)
        self.arrivals: object = None
        self.unreadable = False
        self.fenced: str | None = None
        self.disk_full = False
        self.out_of_resources = False
        self.reading_memory_only = nullcontext
        self.confirm_reads = lambda: None
        self.retention = SimpleNamespace(by_hand=False, adopt=lambda options: None)

    def put(self, topic: str, queue_id: int, *bodies: bytes, keys: tuple[str, ...] = ()) -> None:
        rows = self.queues.setdefault((topic, queue_id), [])
        for body in bodies:
            at = self.first.get((topic, queue_id), 0) + len(rows)
            data = record.encode(
                topic=topic.encode(),
                body=body,
                properties=b"",
                queue_id=queue_id,
                flag=0,
                queue_offset=at,
                offset=self.pointers.appended,
                sys_flag=0,
                born_wall_ms=WALL,
                born_host=HOST,
                store_wall_ms=WALL + 1000 * at,
                store_host=HOST,
                reconsume_times=0,
                prepared_offset=0,
            )
            rows.append(data)
            self.codes.setdefault((topic, queue_id), []).append(len(body))
            end = self.pointers.appended + len(data)
            self.pointers = Pointers(0, end)
            for key in keys:
                self.indexed.setdefault((topic, key), []).append(data)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        low = self.first.get((topic, queue_id), 0)
        return low, low + len(self.queues.get((topic, queue_id), []))

    def _at(self, topic: str, queue_id: int, offset: int) -> bytes | None:
        low, high = self.queue_bounds(topic, queue_id)
        return self.queues[topic, queue_id][offset - low] if low <= offset < high else None

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
        verify: Callable[[memoryview], bool] | None = None,
        *,
        stop: int = 1 << 62,
    ) -> ReadResult:
        low, high = self.queue_bounds(topic, queue_id)
        chunks: list[memoryview] = []
        at = offset
        # Two at a time, so that callers have to go on.
        while not self.unreadable and at < min(high, offset + min(max_count, 2)):
            data = self._at(topic, queue_id, at)
            assert data is not None
            if accept is None or accept(self.codes[topic, queue_id][at - low]):
                chunks.append(memoryview(data))
            at += 1
        size = sum(map(len, chunks))
        status = GetStatus.FOUND if chunks else GetStatus.OFFSET_OVERFLOW_ONE
        return ReadResult(status, chunks, len(chunks), at, low, high, size)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        data = self._at(topic, queue_id, offset)
        return -1 if data is None else record.store_time_at(data, 0)

    def slice(self, offset: int, size: int) -> memoryview:
        return memoryview(bytes(size))

    def earliest_time(self) -> int:
        return WALL

    def offset_by_time(self, topic: str, queue_id: int, wall_ms: int, upper: bool = False) -> int:
        self.asked.append(("by_time", topic, queue_id, wall_ms, upper))
        low, high = self.queue_bounds(topic, queue_id)
        return min(high, max(low, -((WALL - wall_ms) // 1000)))

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None:
        for rows in self.queues.values():
            for data in rows:
                if record.offset_at(data, 0) == offset:
                    return memoryview(data)
        return None

    def newest_with_key(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> Search:
        self.asked.append(("query", topic, key, max_count, begin_wall, end_wall))
        rows = self.indexed.get((topic, key), [])[:max_count]
        return Search(Found([memoryview(row) for row in rows]))

    def delete_topic(self, topic: str) -> None:
        self.asked.append(("delete_topic", topic))

    def clean_unused(self, topics: set[str]) -> None:
        self.asked.append(("clean_unused", topics))


class UsableDisk(FakeDisk):
    def usage(self) -> tuple[int, int]:
        return 1000, 400


class FakeNode(BrokerContext):
    """`node.fake` is the store as the test fills it."""

    def __init__(
        self, options: BrokerOptions | None = None, ports: BrokerPorts | None = None
    ) -> None:
        self.fake = FakeStore()
        self.fake_clock = FakeClock()
        self.fake_disk = UsableDisk()
        chosen = options or BrokerOptions(
            broker_name="b", broker_ip1="127.0.0.1", memory_window_bytes=1 << 20
        )
        super().__init__(
            chosen,
            clock=self.fake_clock,
            disk=self.fake_disk,
            store=cast(Store, self.fake),
            port=10911,
            ports=ports,
        )
        self.topics.add_system(system_topics(Wishes("DefaultCluster", "b")))
