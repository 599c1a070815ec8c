from epochmq.base.limits import HA_BATCH_BYTES_MAX
from epochmq.replication.options import ReplicationOptions


def test_a_frame_fits_the_buffer_of_a_java_follower() -> None:
    assert ReplicationOptions(transfer_batch_bytes=1 << 30).batch_bytes == HA_BATCH_BYTES_MAX
    assert HA_BATCH_BYTES_MAX + 36 < 4 * 1024 * 1024


def test_the_larger_of_both_batch_sizes_counts() -> None:
    options = ReplicationOptions(transfer_batch_bytes=5)
    assert options.batch_bytes == 5
