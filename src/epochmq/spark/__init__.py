"""EpochMQ's data pipeline on Spark through PySpark (docs/PIPELINE.md).

`tune(builder)` sets a session up, `register(spark)` makes the formats known where Spark does not
find them, `PublishOffsets` shows a query's progress to RocketMQ's lag tools. Everything is imported
on first use: this package is on the path of programs that have no Spark.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochmq.spark.publish import PublishOffsets
    from epochmq.spark.session import register, tune

__all__ = ["PublishOffsets", "register", "tune"]

_HOMES = {
    "PublishOffsets": "epochmq.spark.publish",
    "register": "epochmq.spark.session",
    "tune": "epochmq.spark.session",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
