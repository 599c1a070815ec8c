"""The group of processes: shared out, killed, read."""

import asyncio
from pathlib import Path

import pytest
from tests.admin.world import World

from epochmq.base.errors import EnvironmentFault
from epochmq.client.aio import Producer
from epochmq.model.message import Message
from examples.demo.members import DemoMembers, last_words


async def test_a_member_killed_comes_back_in_its_place(world: World, tmp_path: Path) -> None:
    namesrv = world.cluster.namesrv_addr
    async with Producer(namesrv, "p") as producer:
        for number in range(8):
            message = Message("D_members", b"x", keys=(f"UA-{number}",))
            await producer.send(message)
    members = DemoMembers(namesrv, "D_members", "D_members", tmp_path)
    try:
        first = await members.start("one")
        await members.start("two")
        await members.wait_shared(4, 20)
        await members.kill(first)
        assert [life.label for life in members.alive()] == ["two.1"]
        again = await members.start("one")
        assert again.label == "one.2"
        await members.wait_shared(4, 20)
        async with asyncio.timeout(20):
            while members.distinct < 8:
                members.read()
                await asyncio.sleep(0.02)
        assert members.delivered >= 8
    finally:
        await members.stop()
    assert members.alive() == []


async def test_one_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    members = DemoMembers("nonsense", "t", "g", tmp_path)
    life = await members.start("one")
    with pytest.raises(EnvironmentFault, match="the members did not share out"):
        await members.wait_shared(4, 0.2)
    await life.process.wait()
    await members.stop()
    assert "nonsense" in last_words(life)
