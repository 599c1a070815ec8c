"""A master that stands still, seen by a producer."""

import time

from epochmq import Message
from epochmq.client.sync import Producer
from epochmq.testing.mini_cluster import MiniCluster


def test_a_send_does_not_wait_for_a_master_that_stands_still() -> None:
    with MiniCluster(3) as cluster, Producer(cluster.namesrv, "P") as producer:
        producer.send(Message("T", b"1"))
        paused = cluster.pause()
        began = time.monotonic()
        producer.send(Message("T", b"2"), timeout_ms=60_000)
        assert time.monotonic() - began < 30, "its timeout was a minute"
        assert cluster.wait_for_master() != paused
        cluster.resume(paused)
