"""Following a topic for a page that is slower than the topic."""

from pathlib import Path

import pytest
from tests.admin.world import TOPIC, World

from epochmq.admin.dashboard import live_tail
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.client.aio import Producer
from epochmq.model.message import Message


@pytest.mark.parametrize(
    ("bound", "most", "body", "kept"),
    [("WAITING_MAX", 5, b"small", 5), ("WAITING_BYTES_MAX", 100_000, bytes(60_000), 1)],
)
async def test_a_slow_page_gets_the_latest_and_the_number_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, body: bytes, kept: int
) -> None:
    monkeypatch.setattr(live_tail, bound, most)
    namesrv = world.cluster.namesrv_addr
    client = ClusterClient("test", namesrv, None)
    rows = live_tail.tail(client, TOPIC, bound, 0.5)
    try:
        assert await anext(rows) == {"messages": [], "left_out": 0}
        async with Producer(namesrv) as producer:
            await producer.send_batch([Message(TOPIC, body, bound) for _ in range(40)])
        shown = left_out = 0
        while (row := await anext(rows)) is not None:
            messages, count = row["messages"], row["left_out"]
            assert isinstance(messages, list)
            assert isinstance(count, int)
            assert len(messages) <= kept
            shown, left_out = shown + len(messages), left_out + count
        assert shown + left_out == 40
        assert left_out > 0
    finally:
        await rows.aclose()
        await client.close()


async def test_nothing_new_is_a_heartbeat(world: World, tmp_path: Path) -> None:
    client = ClusterClient("test", world.cluster.namesrv_addr, None)
    rows = live_tail.tail(client, TOPIC, "nobody-sends-this", 0.05)
    try:
        assert await anext(rows) == {"messages": [], "left_out": 0}
        assert await anext(rows) is None
    finally:
        await rows.aclose()
        await client.close()
