"""A whole broker's memory of sinks over stops, crashes and a lost file."""

from pathlib import Path

import msgspec
import pytest
from tests.broker.client import RawClient
from tests.broker.produce.test_send_sink import repeats, row, rows
from tests.broker.server.test_broker_server import running

from epochmq.broker.server.broker_server import Broker
from epochmq.model.crc import crc32
from epochmq.store.sinks import FILE

COUNT = 20


async def again(broker: Broker, first: int = 0) -> list[int]:
    """How many of each of rows `first` to COUNT, sent once more, are repeats."""
    client = await RawClient.connect(broker.port)
    found = [repeats(await client.ask(row(seq))) for seq in range(first, COUNT)]
    found.append(repeats(await client.ask(rows(*range(first, COUNT)))))
    await client.close()
    return found


ALL = [1] * COUNT + [COUNT]
NONE = [0] * COUNT + [COUNT]


async def test_it_is_kept_over_a_stop(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert (tmp_path / FILE).exists()  # a crash needs something to start from
        assert await again(broker) == NONE
    kept = msgspec.json.decode((tmp_path / FILE).read_bytes())
    assert kept["covered"] == broker.node.store.pointers.appended
    async with running(tmp_path) as broker:
        assert broker.node.store.recovered.records <= 3 * COUNT
        assert await again(broker) == ALL


@pytest.mark.parametrize("damage", [None, b"", b"{}"])
async def test_it_is_read_from_the_log_again(tmp_path: Path, damage: bytes | None) -> None:
    async with running(tmp_path) as broker:
        assert await again(broker) == NONE
    early = b'{"covered":0,"crc":%d,"sinks":[]}' % crc32(b"[]")
    for path in (tmp_path / FILE, tmp_path / f"{FILE}.bak"):
        path.write_bytes(early if damage is None else damage)
    async with running(tmp_path) as broker:
        assert await again(broker) == ALL


async def test_a_file_that_claims_more_than_the_log_has(tmp_path: Path) -> None:
    """The log is gone, the configuration stayed."""
    async with running(tmp_path) as broker:
        assert await again(broker) == NONE
    for folder in ("commitlog", "consumequeue", "index"):
        for path in sorted((tmp_path / folder).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "checkpoint").unlink()  # with it a start is refused: the log ended elsewhere
    async with running(tmp_path) as broker:
        assert await again(broker) == NONE
    async with running(tmp_path) as broker:
        assert await again(broker) == ALL
