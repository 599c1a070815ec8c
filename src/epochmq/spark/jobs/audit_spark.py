"""Digests of store directories by Spark: a task for each piece of a log, files opened there.

Every executor must see the directories under the same paths (one machine, or shared storage).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epochmq.spark.jobs.audit import Ask, Digester
from epochmq.spark.jobs.audit_core import Block
from epochmq.spark.jobs.audit_files import Piece, StoreReplica, digests_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ASK_DDL = "ask bigint, low bigint, high bigint, blockBytes bigint, files string"
BLOCK_DDL = "ask bigint, offset bigint, size bigint, digest string"


def spark_digester(spark: "SparkSession", replicas: Mapping[str, StoreReplica]) -> Digester:
    """Digests by `spark`; answers come as its tasks end."""

    def digest(asks: Sequence[Ask]) -> Iterable[tuple[Ask, Sequence[Block]]]:
        rows = [row_of(number, ask, replicas[ask.name].pieces) for number, ask in enumerate(asks)]
        if not rows:
            return
        frame = spark.createDataFrame(rows, ASK_DDL).repartition(len(rows), "ask")
        found: dict[int, list[Block]] = {number: [] for number in range(len(asks))}
        for row in frame.mapInArrow(digest_batches, BLOCK_DDL).collect():
            found[row["ask"]].append(Block(row["offset"], row["size"], row["digest"]))
        for number, ask in enumerate(asks):
            yield ask, sorted(found[number])

    return digest


def row_of(number: int, ask: Ask, files: Sequence[Piece]) -> tuple[int, int, int, int, str]:
    """One ask as a row; the files are those it touches, as JSON."""
    touched = [file for file in files if file.start < ask.high and ask.low < file.start + file.size]
    return number, ask.low, ask.high, ask.block_bytes, json.dumps(touched)


def digest_batches(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Asks in, one row a block out; runs in the executors."""
    import pyarrow as pa

    for batch in batches:
        columns: dict[str, list[Any]] = {"ask": [], "offset": [], "size": [], "digest": []}
        for row in batch.to_pylist():
            files = [Piece(*each) for each in json.loads(row["files"])]
            for block in digests_of(files, row["low"], row["high"], row["blockBytes"]):
                columns["ask"].append(row["ask"])
                columns["offset"].append(block.offset)
                columns["size"].append(block.size)
                columns["digest"].append(block.digest)
        kinds = (pa.int64(), pa.int64(), pa.int64(), pa.string())
        arrays = [pa.array(v, k) for v, k in zip(columns.values(), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
