"""The Spark connector of EpochMQ: PySpark data sources, sinks and jobs (docs/PIPELINE.md).

`tune(builder)` configures a Spark session. `register(spark)` registers the formats where Spark does
not find them by itself. `PublishOffsets` publishes a query's offsets for RocketMQ's lag tools.
`freeze_once()` makes a sink in Python cheaper. All names are imported on first use, because
programs without Spark import this package, too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochmq.spark.freeze import freeze_once
    from epochmq.spark.log_source import LogSource
    from epochmq.spark.publish import PublishOffsets
    from epochmq.spark.source import batch_reader, schema
    from epochmq.spark.spark_session import register, tune
    from epochmq.spark.spark_sink import batch_writer, stream_writer
    from epochmq.spark.stream import stream_reader

__all__ = [
    "LogSource",
    "PublishOffsets",
    "batch_reader",
    "batch_writer",
    "freeze_once",
    "register",
    "schema",
    "stream_reader",
    "stream_writer",
    "tune",
]

_HOMES = {
    "PublishOffsets": "epochmq.spark.publish",
    # The `pyspark_*` modules pass Spark's calls to these.
    "batch_reader": "epochmq.spark.source",
    "schema": "epochmq.spark.source",
    "stream_reader": "epochmq.spark.stream",
    "batch_writer": "epochmq.spark.spark_sink",
    "stream_writer": "epochmq.spark.spark_sink",
    "LogSource": "epochmq.spark.log_source",
    "freeze_once": "epochmq.spark.freeze",
    "register": "epochmq.spark.spark_session",
    "tune": "epochmq.spark.spark_session",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
