"""Reads a topic as Spark's executors do: by a reader that was pickled."""

import pickle
from collections.abc import Mapping

from pyspark.sql.types import BinaryType, StructField, StructType

from epochmq.spark.source import batch_reader

BODY = StructType([StructField("body", BinaryType())])


def read_bodies(options: Mapping[str, str], topic: str) -> list[bytes]:
    """Return the bodies of a topic; `options` of the source go before the defaults."""
    planned = batch_reader({"subscribe": topic, "failoverTimeoutMs": "2s", **options}, BODY)
    reader = pickle.loads(pickle.dumps(planned))
    return [
        row["body"]
        for part in planned.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
