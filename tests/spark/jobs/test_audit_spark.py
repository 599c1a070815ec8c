"""Digests as an executor computes them, without one."""

from pathlib import Path

from tests.spark.jobs.replicas import make_log, write_store

from epochmq.spark.jobs.audit import Ask
from epochmq.spark.jobs.audit_core import Block
from epochmq.spark.jobs.audit_files import StoreReplica
from epochmq.spark.jobs.audit_spark import digest_batches, row_of


def test_rows_become_the_digests_the_replica_itself_gives(tmp_path: Path) -> None:
    import pyarrow as pa

    log = make_log(300, seed=9)
    replica = StoreReplica("a", str(write_store(tmp_path / "s", log)))
    asks = [Ask("a", 0, 70_000, 4096), Ask("a", 70_000, log.end, 4096)]
    rows = [row_of(n, ask, replica.pieces) for n, ask in enumerate(asks)]
    names = ("ask", "low", "high", "blockBytes", "files")
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    (out,) = digest_batches([batch])
    blocks = [Block(r["offset"], r["size"], r["digest"]) for r in out.to_pylist() if r["ask"] == 0]
    assert blocks == replica.digests(0, 70_000, 4096)
    assert out.num_rows == len(replica.digests(0, 70_000, 4096)) + len(
        replica.digests(70_000, log.end, 4096)
    )
