"""The sink of `format("rocketmq")`: the batch writer and the streaming writer that Spark calls.

Spark pickles the writer for each task. `write` sends one partition and returns after brokers have
acknowledged all of it. Commit and abort only log: messages in a topic stay there, and brokers
recognise a repeated partition by the numbers of its rows (docs/adr/0040-spark-sink.md).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

from epochmq.base.errors import UsageError
from epochmq.runtime.rng import random_name
from epochmq.spark.encode_columns import check_columns
from epochmq.spark.freeze import freeze_once
from epochmq.spark.sink_input import whole
from epochmq.spark.sink_options import SinkOptions, parse_sink
from epochmq.spark.sink_queues import PartitionId
from epochmq.spark.sink_task import write_partition

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class SinkCommit(WriterCommitMessage):
    """Spark's commit message of one task: the rows that it wrote, all of them acknowledged."""

    partition: int
    rows: int
    body_bytes: int
    requests: int


def batch_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "BatchWriter":
    """Create the writer of `df.write`; raises `UsageError` for invalid options or columns."""
    parsed = _checked(options, schema, overwrite)
    if parsed.sink_id and parsed.batch_id is None:
        raise UsageError(
            "option 'sinkId' of a batch write needs a 'batchId', a number that rises from write to"
            " write: brokers drop what has a lower one"
        )
    if not parsed.sink_id:
        # Repeated tasks are recognised by this id; a second run of the program is another sink.
        parsed = replace(parsed, sink_id=f"batch-{random_name()}", batch_id=0)
    return BatchWriter(parsed)


def stream_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "StreamWriter":
    """Create the writer of `df.writeStream`; raises `UsageError` for invalid options or columns.

    Spark calls this twice for each batch, in two worker processes: to create the writer and to
    commit.
    """
    freeze_once()
    return StreamWriter(_checked(options, schema, overwrite))


def _checked(options: Mapping[str, str], schema: Any, overwrite: bool) -> SinkOptions:
    parsed = parse_sink(options)
    if overwrite:
        raise UsageError("a topic cannot be overwritten; write with mode('append')")
    check_columns(to_arrow_schema(schema, timezone="UTC"), bool(parsed.topic))
    return parsed


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once (`df.write`)."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send one partition; returns after brokers have acknowledged all of it."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        identity = PartitionId(self.options.sink_id, self.options.batch_id or 0, partition)
        return _write(self.options, identity, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written; there is nothing else to do."""
        _log("written", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log which rows stay in the topics: messages cannot be removed from a log."""
        _log("failed; in the topics stay", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send one partition of one micro-batch; returns after brokers have acknowledged all of
        it.
        """
        return _write(self.options, stream_identity(self.options, TaskContext.get()), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written; there is nothing else to do."""
        _log(f"batch {batchId}: written", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log which rows stay in the topics; Spark runs the batch again."""
        _log(f"batch {batchId} failed; in the topics stay", messages)


def stream_identity(options: SinkOptions, context: TaskContext | None) -> PartitionId:
    """Return the identity of the rows that a task of a streaming query writes.

    Spark passes neither the query nor the batch to `write`, but every task has both as local
    properties. The query's id stays the same with its checkpoint. With a new checkpoint, batches
    count from 0 again: with `sinkId` alone, brokers would take all of them for repeats. Raises
    `UsageError` when neither Spark nor the options give an identity.
    """
    query = batch = None
    partition = 0
    if context is not None:
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        partition = context.partitionId()
    if query is not None and batch is not None:
        sink_id = f"{options.sink_id}.{query}" if options.sink_id else query
        return PartitionId(sink_id, int(batch), partition)
    if options.sink_id and options.batch_id is not None:
        return PartitionId(options.sink_id, options.batch_id, partition)
    raise UsageError(
        "Spark does not say which query and batch this task belongs to; give options 'sinkId' and"
        " 'batchId', or write from foreachBatch with both"
    )


def _write(
    options: SinkOptions, identity: PartitionId, iterator: Iterator[pa.RecordBatch]
) -> SinkCommit:
    freeze_once()
    done = write_partition(options, identity, whole(iterator))
    return SinkCommit(identity.partition, done.rows, done.body_bytes, done.requests)


def _log(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    known = [message for message in messages if isinstance(message, SinkCommit)]
    rows, size = sum(each.rows for each in known), sum(each.body_bytes for each in known)
    log.info(
        "%(what)s %(rows)d rows, %(size)d bytes, from %(tasks)d tasks",
        {"what": what, "rows": rows, "size": size, "tasks": len(known)},
    )
