"""The objects of a store's files: made without a look at the disk, closed together."""

from dataclasses import FrozenInstanceError, replace

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, has_batch_queues

from epochmq.store.store import Store
from epochmq.store.store_files import StoreFiles


def test_nothing_is_read_or_written_before_recovery() -> None:
    disk = SimDisk()
    files = StoreFiles.of(disk, SMALL, has_batch_queues, "boot 1")
    assert disk.list("") == []
    assert files.queues.is_batched("Batch0")
    assert files.checkpoint.boot == "boot 1"
    files.close()
    assert disk.list("") == []


def test_without_the_option_there_is_no_index() -> None:
    assert StoreFiles.of(SimDisk(), SMALL).index is not None
    assert StoreFiles.of(SimDisk(), replace(SMALL, index=False)).index is None


def test_the_parts_of_a_store_share_them() -> None:
    store = Store.open(SimDisk(), SMALL, HOST, 1)
    files = store._files
    for part in (store._housekeeping, store._truncation, store._replica_log):
        assert part._log is files.log
    with pytest.raises(FrozenInstanceError):
        files.log = store._log  # type: ignore[misc]
