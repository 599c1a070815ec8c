"""What is compared at all; with Spark: `jvm/test_damaged_archive.py`."""

from types import SimpleNamespace
from typing import Any

import pytest

from epochmq.spark.jobs.body_checksum import NEEDED, check_bodies, with_checked_bodies


@pytest.mark.parametrize("lacking", sorted(NEEDED))
def test_a_table_without_one_of_the_columns_is_read_as_it_is(lacking: str) -> None:
    rows: Any = SimpleNamespace(columns=sorted(NEEDED - {lacking}))
    check_bodies(rows, "table")
    assert with_checked_bodies(rows, "table") is rows
