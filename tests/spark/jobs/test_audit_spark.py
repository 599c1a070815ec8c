"""Digests as an executor computes them, without one."""

import json
from pathlib import Path

from tests.spark.jobs.replicas import FILE_BYTES, make_log, write_store

from epochmq.spark.jobs.audit import DigestRequest
from epochmq.spark.jobs.audit_report import digest_row, row_of
from epochmq.spark.jobs.audit_sources import StoreReplica


def test_rows_become_the_digests_the_replica_itself_gives(tmp_path: Path) -> None:
    log = make_log(300, seed=9)
    replica = StoreReplica("a", str(write_store(tmp_path / "s", log)))
    for ask in (DigestRequest("a", 0, 70_000, 4096), DigestRequest("a", 70_000, log.end, 4096)):
        number, *row = row_of(7, ask, replica.pieces)
        assert number == 7
        assert digest_row(*row) == replica.digests(ask.low, ask.high, 4096)


def test_a_row_names_only_the_files_it_touches(tmp_path: Path) -> None:
    log = make_log(300, seed=9)
    replica = StoreReplica("a", str(write_store(tmp_path / "s", log)))
    row = row_of(0, DigestRequest("a", FILE_BYTES - 1, FILE_BYTES + 1, 4096), replica.pieces)
    assert [each[0] for each in json.loads(row[-1])] == [0, FILE_BYTES]
