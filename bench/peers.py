"""Our broker and Java's side by side; the one that is not measured is stopped by a signal."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.compat.peers.cluster import Cluster
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import BENCH_FLAGS, BENCH_HEAP, JavaCluster

GIB = 1 << 30


def make(kind: str, root: Path, sync_flush: bool, **extra: str | int | bool) -> Cluster:
    """A cluster with the defaults of production: 1 GiB files, 4 queues a topic."""
    config = {
        "mappedFileSizeCommitLog": GIB,
        "flushDiskType": "SYNC_FLUSH" if sync_flush else "ASYNC_FLUSH",
        "defaultTopicQueueNums": 4,
        **extra,
    }
    if kind == "java":
        # A benchmark may not be refused for a slow page cache or a queue that is full.
        config |= {"osPageCacheBusyTimeOutMills": 30_000, "sendThreadPoolQueueCapacity": 100_000}
        config |= {"waitTimeMillsInSendQueue": 30_000}
        return JavaCluster(root, config, heap=BENCH_HEAP, flags=BENCH_FLAGS)
    return EpochCluster(root, config)


@contextmanager
def clusters(kinds: list[str], sync_flush: bool) -> Iterator[dict[str, Cluster]]:
    """Started clusters by kind; their files go with them."""
    root = Path(tempfile.mkdtemp(prefix="bench-"))
    made: dict[str, Cluster] = {}
    try:
        for kind in kinds:
            made[kind] = make(kind, root / kind, sync_flush).start()
        yield made
    finally:
        for cluster in made.values():
            resume(cluster)
            cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def pause(cluster: Cluster) -> None:
    """Take the cluster's processes off the CPU, so that they do not disturb."""
    os.kill(cluster.broker.pid, signal.SIGSTOP)
    os.kill(cluster.namesrv.pid, signal.SIGSTOP)


def free_page_cache() -> None:
    """Write out what the last run left and give its memory back, where that is allowed (root).

    Else the next run pays for memory that a virtual machine has never touched before: measured, up
    to 4 us a message for whoever comes later.
    """
    os.sync()
    with suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("1")


def resume(cluster: Cluster) -> None:
    """Let them run again."""
    for process in (cluster.namesrv, cluster.broker):
        if process.is_alive:
            os.kill(process.pid, signal.SIGCONT)
