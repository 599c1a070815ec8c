"""What a compaction may be asked for; the rows are compared in tests/spark/jvm/test_jobs.py."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.compact import Compact, key_property


def test_keys() -> None:
    assert key_property("keys") is None
    assert key_property("orderingKey") == "__SHARDINGKEY"
    assert key_property("property:id") == "id"
    for wrong in ("key", "property:", ""):
        with pytest.raises(UsageError, match="is not a key"):
            key_property(wrong)


def test_what_cannot_be_compacted() -> None:
    with pytest.raises(UsageError, match="name an archive"):
        Compact("/out", "t")
    with pytest.raises(UsageError, match="of one topic"):
        Compact("/out", "", "/lake")
    with pytest.raises(UsageError, match="is not a key"):
        Compact("/out", "t", "/lake", key="colour")
