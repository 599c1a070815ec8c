"""A master killed in the middle of a partition: another takes over, the write goes on."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.compat.peers.group import Group
from tests.spark.sinking import batches, messages, options

from epochmq.spark.sink_queues import PartitionId
from epochmq.spark.sink_task import write_partition

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_nothing_is_lost_or_held_twice() -> None:
    wanted = [b"%05d" % number for number in range(6_000)]
    with Group(replicas=3) as group:
        before = group.master()
        assert before is not None

        def rows() -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(batches({"body": wanted}, rows=200)):
                if at == 15:
                    before.process.kill9()
                yield batch

        chosen = options(group.namesrv_addr, "Fails", batchSize=20, bufferBytes=2_000)
        write_partition(chosen, PartitionId("failover", 1, 0), rows())
        after = group.master()
        assert after is not None
        assert after is not before
        found = messages(group.namesrv_addr, "Fails")
        assert sorted({m.body for m in found}) == wanted
        repeated = len(found) - len(wanted)
        assert repeated == 0
