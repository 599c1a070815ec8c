"""Digests of store directories by Spark: a task for each piece of a log, files opened there.

Every executor must see the directories under the same paths (one machine, or shared storage).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from epochmq.spark.jobs.audit import Digester, DigestRequest
from epochmq.spark.jobs.audit_core import DigestBlock
from epochmq.spark.jobs.audit_files import AuditedLogFile, StoreReplica, digests_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASK_DDL = "ask bigint, low bigint, high bigint, blockBytes bigint, files string"
BLOCKS_DDL = "array<struct<offset: bigint, size: bigint, digest: string>>"


def spark_digester(spark: "SparkSession", replicas: Mapping[str, StoreReplica]) -> Digester:
    """Digests by `spark`; answers come as its tasks end."""

    def digest(
        asks: Sequence[DigestRequest],
    ) -> Iterable[tuple[DigestRequest, Sequence[DigestBlock]]]:
        rows = [row_of(number, ask, replicas[ask.name].pieces) for number, ask in enumerate(asks)]
        if not rows:
            return
        from pyspark.sql import functions as f

        # A plain function: those on Arrow batches of a frame ask for pandas.
        blocks = f.udf(digest_row, BLOCKS_DDL, useArrow=False)
        columns = (f.col("low"), f.col("high"), f.col("blockBytes"), f.col("files"))
        frame = spark.createDataFrame(rows, ASK_DDL).repartition(len(rows), "ask")
        for row in frame.select("ask", blocks(*columns).alias("blocks")).toLocalIterator():
            yield asks[row["ask"]], [DigestBlock(*block) for block in row["blocks"]]

    return digest


def row_of(
    number: int, ask: DigestRequest, files: Sequence[AuditedLogFile]
) -> tuple[int, int, int, int, str]:
    """One ask as a row; the files are those it touches, as JSON."""
    touched = [file for file in files if file.start < ask.high and ask.low < file.start + file.size]
    return number, ask.low, ask.high, ask.block_bytes, json.dumps(touched)


def digest_row(low: int, high: int, block_bytes: int, files: str) -> list[DigestBlock]:
    """The blocks of one ask; runs in the executors."""
    pieces = [AuditedLogFile(*each) for each in json.loads(files)]
    return digests_of(pieces, low, high, block_bytes)
