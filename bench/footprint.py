"""Start-up time, and memory with 10,000 queues, beside the peer."""

import shutil
import tempfile
import time
from pathlib import Path

from tests.compat.peers import wire
from tests.compat.peers.cluster import Cluster

from bench import peers

TOPICS, QUEUES = 100, 100
UPDATE_TOPIC, SEND_V2 = 17, 310


def table(kinds: list[str]) -> str:
    """One line a kind."""
    lines = [
        "| broker | start to first route (s) | RSS idle (MiB) | RSS with 10,000 queues (MiB) |",
        "|---|---|---|---|",
    ]
    for kind in kinds:
        root = Path(tempfile.mkdtemp(prefix="bench-"))
        cluster = peers.make(kind, root / kind, False)
        try:
            cluster.start_namesrv()
            began = time.perf_counter()
            cluster.start_broker()
            started = time.perf_counter() - began
            idle = _rss_mib(cluster.broker.pid)
            _fill(cluster)
            full = _rss_mib(cluster.broker.pid)
        finally:
            cluster.stop()
            shutil.rmtree(root, ignore_errors=True)
        lines.append(f"| {kind} | {started:.2f} | {idle:.0f} | {full:.0f} |")
    return "\n".join(lines)


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _fill(cluster: Cluster) -> None:
    """One message in each of 10,000 queues."""
    for number in range(TOPICS):
        topic = f"Many{number}"
        header = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(QUEUES),
            "writeQueueNums": str(QUEUES),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        wire.call(cluster.broker_addr, UPDATE_TOPIC, header, b"")
        for queue in range(QUEUES):
            wire.call(cluster.broker_addr, SEND_V2, _send_header(topic, queue), b"x")


def _send_header(topic: str, queue: int) -> dict[str, str]:
    keys = ("bench", topic, "TBW102", "4", str(queue), "0", "1", "0", "")
    return dict(zip("abcdefghi", keys, strict=True))
