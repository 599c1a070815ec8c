"""Source, sink and command line reach a broker that registered under an address of its own net."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import sinking, topics

from epochmq.admin.cli import cli
from epochmq.base.errors import NotReachable
from epochmq.client.aio import Producer
from epochmq.model.message import Message
from epochmq.runtime.address_map import VARIABLE
from epochmq.spark.options import parse_source
from epochmq.spark.plan import QueueRange
from epochmq.spark.rows import batches
from epochmq.spark.sink_queues import PartitionId
from epochmq.spark.sink_task import write_partition

pytestmark = pytest.mark.process
TOPIC = "mapped"
REGISTERED = "192.0.2.1"
"""An address for documentation (RFC 5737): nothing answers there."""
MAP = f"{REGISTERED}=127.0.0.1"


class FarCluster(EpochCluster):
    """A cluster whose broker cannot be asked at the address that it registered."""

    def is_ready(self) -> bool:
        return "registered at name server" in (self.root / "broker.log").read_text()


@pytest.fixture(scope="module")
def far() -> Iterator[EpochCluster]:
    with FarCluster(broker_config={"brokerIP1": REGISTERED}) as running:
        yield running


def test_the_source(far: EpochCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, MAP)
        queue, _ = topics.fill(far.namesrv_addr, TOPIC, 20)
    given = {"nameServer": far.namesrv_addr, "subscribe": TOPIC, "failoverTimeoutMs": "1s"}
    found = list(
        batches(parse_source({**given, "addressMap": MAP}), ("body",), QueueRange(queue, 0, 10))
    )
    assert pa.Table.from_batches(found)["body"].to_pylist() == [b"%d" % n for n in range(0, 20, 2)]


def test_the_sink(far: EpochCluster) -> None:
    chosen = sinking.options(far.namesrv_addr, TOPIC, addressMap=MAP)
    rows = iter(sinking.batches({"body": [b"a", b"b"]}))
    assert write_partition(chosen, PartitionId("mapped", 0, 0), rows).rows == 2


def test_the_command_line_by_the_environment(
    far: EpochCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["topic", "create", "mapped_too", "-n", far.namesrv_addr]
    monkeypatch.setenv(VARIABLE, MAP)
    created = CliRunner().invoke(cli, arguments)
    assert created.exit_code == 0, created.output
    monkeypatch.setenv(VARIABLE, "x")
    bad = CliRunner().invoke(cli, arguments)
    assert (bad.exit_code, "is not a pair of addresses" in bad.output) == (2, True), bad.output


def test_an_error_names_both_addresses(far: EpochCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{REGISTERED}:{far.broker_port}=127.0.0.1:1")

    async def work() -> None:
        async with Producer(far.namesrv_addr, timeout_ms=500) as producer:
            await producer.send(Message(TOPIC, b"x"))

    with pytest.raises(NotReachable, match=r"192\.0\.2\.1:\d+ \(mapped to 127\.0\.0\.1:1\)"):
        asyncio.run(work())
