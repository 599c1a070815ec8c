"""Strict locks over real connections: votes, silence, what is taken back, what is saved."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.broker.client import RawClient
from tests.broker.server.test_broker_server import options
from tests.client.aio.eventually import eventually

from epochmq.base.errors import DiskFull
from epochmq.broker.group.lock_service import LockVotes
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.model.topic import MessageQueue
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

REPLICAS = 3
Members = dict[int, str]


class Group:
    """Brokers that vote; who is a member is said by the test, not by name servers."""

    def __init__(self, root: Path, **more: Any) -> None:
        self.root = root
        self.more = {"totalReplicas": REPLICAS, "enableSlaveActingMaster": True} | more
        self.brokers: dict[int, Broker] = {}
        self.addresses: Members = {}

    async def start(self, number: int, **more: Any) -> Broker:
        found = options(
            self.root / str(number),
            **{"lockInStrictMode": True, "skipPreOnline": True, **self.more, **more},
        )
        broker = self.brokers[number] = Broker(found)
        await broker.start()
        self.addresses[number] = f"127.0.0.1:{broker.port}"
        node = broker.node
        node.move_to(GroupPosition(own_id=number))
        node.topics.ensure("T", 4, 6, 1)
        assert broker._votes is not None
        await broker._votes.close()
        broker._votes = LockVotes(node, Peers(), lambda: self._others(number))
        node.use_lock_votes(broker._votes)
        return broker

    def _others(self, number: int) -> Mapping[int, str]:
        return {other: at for other, at in self.addresses.items() if other != number}

    async def stop(self, number: int) -> None:
        await self.brokers.pop(number).stop(grace_ms=100)

    def owners(self, queue: int = 0) -> list[str | None]:
        """Whom each living broker's vote is for."""
        wanted = MessageQueue("T", "b", queue)
        return [
            broker.node.locks.owner("g", wanted, broker._clock.now_ms())
            for _, broker in sorted(self.brokers.items())
        ]


@contextlib.asynccontextmanager
async def group(root: Path, count: int = REPLICAS, **more: Any) -> AsyncIterator[Group]:
    found = Group(root, **more)
    try:
        for number in range(count):
            await found.start(number)
        yield found
    finally:
        for number in list(found.brokers):
            await found.stop(number)


def body(client: str, *numbers: int, only: bool = False) -> bytes:
    queues = [{"brokerName": "b", "queueId": number, "topic": "T"} for number in numbers]
    return msgspec.json.encode(
        {"clientId": client, "consumerGroup": "g", "mqSet": queues, "onlyThisBroker": only}
    )


async def ask(broker: Broker, code: int, data: bytes, ext: Any = None) -> Command:
    client = await RawClient.connect(broker.port)
    try:
        return await client.ask(Command(code, ext=ext, body=data))
    finally:
        await client.close()


async def lock(broker: Broker, client: str, *numbers: int) -> list[int]:
    answer = await ask(broker, Code.LOCK_BATCH_MQ, body(client, *numbers))
    assert answer.code == 0, answer.remark
    found = msgspec.json.decode(bytes(answer.body))["lockOKMQSet"]
    return [row["queueId"] for row in found]


async def test_a_majority_locks_and_an_unlock_reaches_all(tmp_path: Path) -> None:
    async with group(tmp_path) as found:
        a, b, _ = found.brokers.values()
        assert await lock(a, "one", 0, 1) == [0, 1]

        async def all_voted() -> bool:
            return found.owners() == ["one"] * 3

        assert await eventually(all_voted)
        assert await lock(b, "two", 0, 2) == [2]
        assert found.owners() == ["one"] * 3
        assert (await ask(a, Code.UNLOCK_BATCH_MQ, body("one", 0))).code == 0

        async def free() -> bool:
            return found.owners() == [None] * 3

        assert await eventually(free)
        assert await lock(b, "two", 0) == [0]


async def test_one_dead_member_of_three_and_two_dead(tmp_path: Path) -> None:
    async with group(tmp_path) as found:
        a = found.brokers[0]
        await found.stop(2)
        assert await lock(a, "one", 0) == [0]
        await found.stop(1)
        assert await lock(a, "one", 1) == []
        assert found.owners(1) == [None]
        # What was granted before is neither renewed nor taken away.
        assert await lock(a, "one", 0) == []
        assert found.owners() == ["one"]


async def test_a_partial_lock_is_taken_back_everywhere(tmp_path: Path) -> None:
    async with group(tmp_path, totalReplicas=4) as found:
        a, b, c = found.brokers.values()
        now = a._clock.now_ms()
        c.node.locks.lock("g", [MessageQueue("T", "b", 0)], "two", now)
        assert await lock(a, "one", 0) == []

        async def undone() -> bool:
            return found.owners() == [None, None, "two"]

        assert await eventually(undone)
        assert await lock(b, "three", 0) == []


async def test_two_attempts_that_begin_together(tmp_path: Path) -> None:
    """With two replicas each may have one vote; chance tells them apart, or both come again."""
    async with group(tmp_path, count=2, totalReplicas=2) as found:
        a, b = found.brokers.values()
        for _ in range(20):
            got = await asyncio.gather(lock(a, "one", 0), lock(b, "two", 0))
            assert got != [[0], [0]]
            if [0] in got:
                return
        raise AssertionError("nobody got it in twenty tries")


async def test_members_that_count_otherwise_give_no_votes(tmp_path: Path) -> None:
    async with group(tmp_path, count=1) as found:
        a = found.brokers[0]
        await found.start(1, totalReplicas=5)
        assert await lock(a, "one", 0) == []
        await found.stop(1)
        ext = {"lockAsker": "0", "lockNumber": "1", "totalReplicas": "3"}
        vote = body("one", 0, only=True)
        assert (await ask(a, Code.LOCK_BATCH_MQ, vote, ext)).ext == ext
        lenient = await found.start(2)
        changed = dataclasses.replace(lenient.node.options, lock_in_strict_mode=False)
        lenient.node.options = changed
        answer = await ask(lenient, Code.LOCK_BATCH_MQ, vote, ext)
        assert "lockInStrictMode is off" in (answer.remark or "")


async def test_more_members_than_are_counted_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with group(tmp_path, count=3, totalReplicas=2) as found:
        assert await lock(found.brokers[0], "one", 0) == []
        assert await lock(found.brokers[0], "one", 0) == []
        assert caplog.text.count("more than totalReplicas=2") == 1


async def test_votes_survive_a_restart(tmp_path: Path) -> None:
    async with group(tmp_path, count=2) as found:
        assert await lock(found.brokers[0], "one", 0) == [0]
        await found.stop(1)
        assert (tmp_path / "1" / "config" / "queueLocks.json").exists()
        b = await found.start(1)
        assert found.owners() == ["one", "one"]
        assert await lock(b, "two", 0) == []


async def test_a_vote_that_cannot_be_saved_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group(tmp_path, count=2) as found:
        a = found.brokers[0]

        def full(*_args: object, **_more: object) -> None:
            raise DiskFull("no space")

        with monkeypatch.context() as patch:
            patch.setattr(a.node.disk, "write_file", full)
            answer = await ask(a, Code.LOCK_BATCH_MQ, body("one", 0))
            assert (answer.code, "cannot be saved" in (answer.remark or "")) == (14, True)
        assert await lock(a, "one", 0) == [0]
