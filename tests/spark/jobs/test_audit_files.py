"""Store directories as replicas: ends, torn tails, holes."""

from pathlib import Path

import pytest
from tests.spark.jobs.replicas import FILE_BYTES, make_log, write_store

from epochmq.base.errors import NotFound, StoreDamaged
from epochmq.spark.jobs.audit_core import Epoch, Shape
from epochmq.spark.jobs.audit_sources import StoreReplica

LOG = make_log(300, seed=3)


def test_a_store_says_what_it_holds(tmp_path: Path) -> None:
    epochs = (Epoch(1, 0), Epoch(4, LOG.starts[50]))
    root = write_store(tmp_path / "s", LOG, confirmed=LOG.starts[200], epochs=epochs)
    replica = StoreReplica("a", str(root))
    assert replica.shape == Shape("a", 0, LOG.end, LOG.starts[200], epochs)
    assert replica.read(0, 1 << 40) == bytes(LOG.data)
    assert replica.read(FILE_BYTES - 10, FILE_BYTES + 10) == LOG.data[FILE_BYTES - 10 :][:20]


def test_files_made_ahead_do_not_count(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", LOG)
    ahead = -(-LOG.end // FILE_BYTES) * FILE_BYTES
    (root / "commitlog" / f"{ahead:020d}").write_bytes(bytes(FILE_BYTES))
    assert StoreReplica("a", str(root)).shape.end == LOG.end


def test_a_cut_log_ends_where_it_was_cut(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", LOG, end=LOG.starts[250])
    assert StoreReplica("a", str(root)).shape.end == LOG.starts[250]


def test_a_damaged_record_does_not_end_the_log(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", LOG, flips=(LOG.starts[-5] + 5, LOG.starts[-3] + 30))
    assert StoreReplica("a", str(root)).shape.end == LOG.end


def test_a_torn_tail_is_compared_too(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", LOG, flips=(LOG.starts[-1] + 5,))
    assert StoreReplica("a", str(root)).shape.end == LOG.end


def test_an_empty_log_has_no_bytes(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", make_log(0))
    shape = StoreReplica("a", str(root)).shape
    assert (shape.start, shape.end) == (0, 0)


def test_no_store_and_no_files(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a store"):
        StoreReplica("a", str(tmp_path))
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(NotFound, match="no commit log file"):
        StoreReplica("a", str(tmp_path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    root = write_store(tmp_path / "s", LOG)
    (root / "commitlog" / f"{FILE_BYTES:020d}").unlink()
    with pytest.raises(StoreDamaged, match=f"{FILE_BYTES} to {2 * FILE_BYTES}"):
        StoreReplica("a", str(root))
