"""The demo's SQL over an archive, in a process as the demo starts it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.spark.jobs.lake import HOST, START_MS, FakeCluster, Topic, archive

from epochmq.model import record
from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.spark.typed import Typing
from examples.demo.flights import Delay
from examples.demo.lake import COLUMNS, Facts, missing


def flight(queue_id: int, offset: int, key: str, delay: str) -> bytes:
    """A record of a flight; two with one key are one send that was tried again."""
    body = b'{"carrier":"UA","hour":5,"dep_delay":%s,"more":1}' % delay.encode()
    properties = f"UNIQ_KEY\x01{queue_id}-{offset}\x02KEYS\x01{key}\x02".encode()
    return record.encode(
        b"flights", body, properties, queue_id, 0, offset, 0, 0,
        START_MS, HOST, START_MS, HOST, 0, 0,
    )  # fmt: skip


@pytest.mark.timeout(240)
def test_facts(tmp_path: Path) -> None:
    if (why := missing()) is not None:
        pytest.skip(why)
    first = [flight(0, 0, "a", "7"), flight(0, 1, "b", "null"), flight(0, 2, "a", "7")]
    topic = Topic("flights", [first, [flight(1, 0, "c", "-3")]])
    table, found = str(tmp_path / "table"), tmp_path / "facts.json"
    typing = Typing("json", COLUMNS)
    archive(ArchiveOptions("", ("flights",), table, "delta", typing=typing), FakeCluster(topic))
    module = "examples.demo.lake"
    subprocess.run([sys.executable, "-m", module, table, str(found)], check=True, timeout=200)
    expected = Facts(rows=4, places=4, gaps=0, flights=3, delays=[Delay("UA", 5, 3, 2, 4)])
    assert msgspec.json.decode(found.read_bytes(), type=Facts) == expected
