"""Writes one partition: encodes Spark's rows on this thread and sends them on another."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from epochmq.base.errors import UsageError
from epochmq.spark.encode import Encoder, SinkRow
from epochmq.spark.sink_options import SinkOptions
from epochmq.spark.sink_queues import PartitionId, Ready, RequestBuilder, SinkQueues, body_bytes
from epochmq.spark.sink_send import SinkSender
from epochmq.spark.spark_loop_thread import LoopThread
from epochmq.spark.worker_memory import keep_freed_memory

_TOPIC = attrgetter("topic")


@dataclass(frozen=True, slots=True)
class Done:
    """The number of rows, bytes and requests that were acknowledged."""

    rows: int
    body_bytes: int
    requests: int


def write_partition(
    options: SinkOptions, identity: PartitionId, batches: Iterator[pa.RecordBatch]
) -> Done:
    """Send all rows of `batches` and wait until brokers have acknowledged them."""
    keep_freed_memory()
    loop = LoopThread("epochmq-sink")
    try:
        sender = SinkSender(options, identity.partition)
        loop.run(sender.start())
        try:
            return _Task(options, identity, loop, sender).run(batches)
        finally:
            loop.run(sender.close())
    finally:
        loop.close()


class _Task:
    """Cuts the rows of one partition into requests, deterministically."""

    def __init__(
        self, options: SinkOptions, identity: PartitionId, loop: LoopThread, sender: SinkSender
    ) -> None:
        self._options = options
        self._identity = identity
        self._loop = loop
        self._sender = sender
        self._topics: dict[str, SinkQueues] = {}
        self._ready: list[Ready] = []
        self._rows = 0
        self._bytes = 0
        self._gathered = 0
        """Bytes of the bodies in groups that are not complete."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Done:
        if self._options.order_by:
            batches = iter(_sorted(batches, self._options))
        encoder: Encoder | None = None
        for batch in batches:
            if encoder is None:
                encoder = self._encoder(batch.schema)
            for topic, rows in groupby(encoder.rows(batch), _TOPIC):
                self._put(topic, list(rows))
            self._send()
        self._flush()
        self._send()
        self._loop.run(self._sender.drain())
        return Done(self._rows, self._bytes, self._sender.requests)

    def _encoder(self, schema: pa.Schema) -> Encoder:
        return Encoder(
            schema,
            topic=self._options.topic,
            partition=self._identity.partition,
            max_message_bytes=self._options.max_message_bytes,
            delay_levels=self._options.delay_levels,
        )

    def _put(self, topic: str, rows: list[SinkRow]) -> None:
        """Assign rows of one topic; whenever the buffer is full, all groups are cut."""
        queues = self._topics.get(topic) or self._open(topic)
        self._rows += len(rows)
        self._bytes += body_bytes(rows)
        while rows:
            others = self._gathered - queues.size
            count, ready = queues.put(rows, self._options.buffer_bytes - others)
            self._ready += ready
            self._gathered = others + queues.size
            if self._gathered > self._options.buffer_bytes:
                self._flush()
            rows = rows[count:]

    def _open(self, topic: str) -> SinkQueues:
        self._topics[topic] = sink_queues = SinkQueues(
            self._loop.run(self._sender.layout(topic)),
            self._identity,
            RequestBuilder(
                self._options.batch_size,
                self._options.batch_bytes,
                self._options.drops_repeats,
            ),
        )
        return sink_queues

    def _flush(self) -> None:
        for topic in self._topics.values():
            self._ready.extend(topic.rest())
        self._gathered = 0

    def _send(self) -> None:
        if self._ready:
            ready, self._ready = self._ready, []
            self._loop.run(self._sender.offer(ready))


def _sorted(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> list[pa.RecordBatch]:
    """Return all rows of the partition, sorted by the columns of `orderBy`."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > options.order_by_bytes:
            raise UsageError(
                f"a partition has more than orderByBytes = {options.order_by_bytes} to sort; raise"
                " it, or make smaller batches or more partitions"
            )
        held.append(batch)
    if not held:
        return []
    for name in options.order_by:
        if name not in held[0].schema.names:
            raise UsageError(f"option 'orderBy': there is no column {name!r}")
    table = pa.Table.from_batches(held).sort_by([(name, "ascending") for name in options.order_by])
    found: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=2_000)
    return found
