"""How long a 1 GiB store of 1 KiB messages takes to open after `kill -9`."""

import shutil
import tempfile
import time
from pathlib import Path

from bench import load, peers
from bench.rows import Row

FILL = Row("fill", "send", 16, 16)
MESSAGES = 850_000
"""With keys and properties, records of 1 KiB bodies take about 1.26 KiB: 1 GiB in all."""
SECONDS = 2.0


def table() -> str:
    """Seconds from the start of the broker's process to its first route."""
    root = Path(tempfile.mkdtemp(prefix="bench-"))
    cluster = peers.make("epochmq", root, False)
    try:
        cluster.start()
        sent = 0.0
        while sent < MESSAGES:
            port, pid = cluster.broker_port, cluster.broker.pid
            sent += load.run(FILL, port, pid, warm_s=0, seconds=SECONDS).rate * SECONDS
        cluster.kill9_broker()
        began = time.perf_counter()
        cluster.start_broker()
        seconds = time.perf_counter() - began
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)
    return f"{sent:,.0f} messages of 1 KiB recovered and registered in {seconds:.2f} s"
