"""Once a process, and in every process that Spark asks a sink of ours into."""

import gc
from collections.abc import Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from epochmq.spark.freeze import freeze_once
from epochmq.spark.spark_sink import stream_writer

GIVEN = {"nameServer": "127.0.0.1:9876", "topic": "t"}


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    freeze_once.cache_clear()
    yield
    gc.unfreeze()
    freeze_once.cache_clear()


def test_once_a_process() -> None:
    freeze_once()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    freeze_once()
    assert gc.get_freeze_count() == 0


def test_where_a_writer_is_made_and_where_it_commits() -> None:
    """Both are workers of their own, which Spark asks for each batch."""
    stream_writer(GIVEN, StructType([StructField("body", BinaryType())]), overwrite=False)
    assert gc.get_freeze_count() > 0
