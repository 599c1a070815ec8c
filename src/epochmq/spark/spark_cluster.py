"""A blocking client of a cluster for Spark's driver, executors and jobs.

    with Cluster("127.0.0.1:9876") as cluster:
        for queue, (start, end) in cluster.bounds("flights").items():
            for chunk in cluster.read(queue, start, end):
                ...

Every call is retried during a failover, until it succeeds or `failover_timeout_ms` have passed.
Calls raise `NotReachable` then, `NotFound` for what does not exist, and `DataLost` for messages
that are gone. Several threads may use one object; after a fork it cannot be used.
"""

import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Self

from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.bulk_calls import QueuePlaces
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.cluster_calls import Bounds, SparkClusterCalls
from epochmq.spark.connection_options import credentials_in
from epochmq.spark.range_read import AUTO, RangeReads, RawChunk, Want
from epochmq.spark.retry import DataLost, Lost, Retries
from epochmq.spark.spark_loop_thread import LoopThread

FAILOVER_TIMEOUT_MS = 60_000
READ_BYTES = 1 << 20

OnLost = Callable[[Lost], None]


class Cluster:
    """A blocking client of one cluster.

    `group` is the consumer group of `committed` and `commit` when the call names no other.
    """

    def __init__(
        self,
        name_server: str,
        *,
        group: str | None = None,
        failover_timeout_ms: int = FAILOVER_TIMEOUT_MS,
        tls: ssl.SSLContext | OutgoingTls | None = None,
    ) -> None:
        context = client_tls(tls) if isinstance(tls, OutgoingTls) else tls
        credentials = credentials_in(tls) if isinstance(tls, OutgoingTls) else None
        self._admin = Admin(name_server, tls=context, credentials=credentials)
        retries = Retries(self._admin, failover_timeout_ms)
        self._calls = SparkClusterCalls(self._admin, retries)
        self._reads = RangeReads(self._admin, retries)
        self._group = group
        self._loop = LoopThread(f"epochmq-{name_server}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and stop the thread."""
        self._loop.run(self._admin.close())
        self._loop.close()

    def topics(self) -> list[str]:
        """Return the names of all topics, including system topics, sorted."""
        return self._loop.run(self._calls.topics())

    def attributes(self) -> dict[str, dict[str, str]]:
        """Return the attributes of each topic; those of all brokers together."""
        return self._loop.run(self._calls.attributes())

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of `topic`, sorted."""
        return self._loop.run(self._calls.queues(topic))

    def bounds(self, topic: str, *, master: bool = False) -> dict[MessageQueue, tuple[int, int]]:
        """Return the first queue offset of each queue, and the one after its last readable message.

        With `master` only masters are asked: a follower that lags returns a smaller end.
        """
        return self._loop.run(self._calls.bounds(topic, master=master))

    def bounds_of(self, topics: Iterable[str], *, master: bool = False) -> Bounds:
        """Return the bounds of several topics, requested concurrently."""
        return self._loop.run(self._calls.bounds_of(list(topics), master=master))

    def newest(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the newest store time (wall ms of the brokers) of each topic, as `bounds` received
        it.

        Topics without messages are left out.
        """
        return {name: ms for name in topics if (ms := self._calls.newest.get(name, 0)) > 0}

    def first_at_brokers(self, queue: MessageQueue) -> int:
        """Return 0: a read may begin at any queue offset within the bounds."""
        return 0

    def recreated(
        self,
        bounds: Mapping[MessageQueue, tuple[int, int]],
        positions: Mapping[MessageQueue, int],
        newest: Mapping[str, int],
    ) -> list[MessageQueue]:
        """Return the queues whose topic was deleted and created again since `positions` were
        reached.

        Such a queue's first message is newer than `newest`, the store time (ms) of the newest
        message that the topic had when it was read up to `positions`.
        """
        asked = {
            queue: newest[queue.topic] + 1
            for queue, (low, high) in bounds.items()
            if low < positions.get(queue, 0) <= high and queue.topic in newest
        }
        found = self.offsets_at(asked)
        return sorted(queue for queue, offset in found.items() if offset <= bounds[queue][0])

    def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """Return the first queue offset stored at `wall_ms` or later; the queue's end if there
        is none.
        """
        return self.offsets_at({queue: wall_ms})[queue]

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return `offset_at` of many queues, requested concurrently."""
        return self._loop.run(self._calls.offsets_at(times))

    def key_places(
        self, queues: Iterable[MessageQueue], keys: Iterable[str]
    ) -> dict[MessageQueue, list[QueuePlaces]]:
        """Return the places of each of `keys` in `queues`; queues that must be read are left
        out.
        """
        return self._loop.run(self._calls.key_places(list(queues), sorted(keys)))

    def committed(self, group: str | None, queue: MessageQueue) -> int | None:
        """Return the committed offset of a group in `queue`; None when it has none."""
        return self._loop.run(self._calls.committed(self._named(group), [queue])).get(queue)

    def committed_all(
        self, group: str | None, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int]:
        """Return the committed offsets of a group in many queues; queues without one are left
        out.
        """
        return self._loop.run(self._calls.committed(self._named(group), list(queues)))

    def commit(self, group: str | None, queue: MessageQueue, offset: int) -> None:
        """Commit a group's offset of `queue`; a group that does not exist is created."""
        self.commit_all(group, {queue: offset})

    def commit_all(self, group: str | None, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit a group's offsets of many queues, concurrently."""
        self._loop.run(self._calls.commit(self._named(group), offsets))

    def commit_soon(self, group: str, offsets: Mapping[MessageQueue, int]) -> "Future[None]":
        """Start to commit a group's offsets and return a future."""
        return self._loop.submit(self._calls.commit(group, offsets))

    def epoch_offsets(self, topic: str, epoch: int) -> dict[MessageQueue, int]:
        """Return the first queue offset of each queue stored in master epoch `epoch` or later.

        Raises `UsageError` for a broker that is not EpochMQ's, since others have no such request.
        """
        return self._loop.run(self._calls.epoch_offsets(topic, epoch))

    def read(
        self,
        queue: MessageQueue,
        start: int,
        end: int,
        *,
        tags: str | None = None,
        max_bytes: int = READ_BYTES,
        read_from: str = AUTO,
        bodies: bool = True,
        on_lost: OnLost | None = None,
        skips_damage: bool = False,
    ) -> Iterator[RawChunk]:
        """Yield the raw records of queue offsets `start` to `end` (exclusive), in order.

        The next chunk is fetched while the caller processes this one. Brokers filter `tags` ("a ||
        b") by hash, so the caller must compare them. For messages that are gone, `on_lost` is
        called and the read continues; without `on_lost`, `DataLost` is raised. A stored batch is
        one record and is returned whole, even beyond `end`. With `bodies=False` a broker may leave
        bodies out. With `skips_damage`, records that are damaged at all replicas count as gone;
        else they raise an error.
        """
        want = Want(queue, start, end, tags, max_bytes, read_from, bodies, skips_damage)
        pending = self._next(want)
        try:
            while pending is not None:
                try:
                    chunk = pending.result()
                except DataLost as gone:
                    if on_lost is None:
                        raise
                    on_lost(gone.lost)
                    chunk = RawChunk(b"", gone.lost.stop, gone.lost.stop, end)
                want = replace(want, offset=chunk.next_offset)
                pending = self._next(want)
                if len(chunk.records):
                    yield chunk
        finally:
            if pending is not None:
                pending.cancel()

    def _next(self, want: Want) -> "Future[RawChunk] | None":
        return self._loop.submit(self._reads.chunk(want)) if want.offset < want.end else None

    def _named(self, group: str | None) -> str:
        chosen = group or self._group
        assert chosen, "a group must be named"
        return chosen

    @property
    def is_of_this_process(self) -> bool:
        """False after a fork, where its thread does not run."""
        return self._loop.pid == os.getpid()
