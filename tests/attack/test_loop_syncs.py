"""No sync runs on the event loop's thread while a broker serves: it would cost the lease."""

import contextlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.broker.broker_harness import pull, send
from tests.broker.client import RawClient
from tests.broker.group.group import InProcess, put_until_stored, until
from tests.broker.server.test_broker_server import running

from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

EXEMPT = ("_open", "_serve", "_begin", "stop", "close", "build_member")
"""Before a broker serves, and after, nobody waits for the loop."""


class Syncs:
    """What `os.fsync` and `os.fdatasync` were called from."""

    def __init__(self) -> None:
        self.count = 0
        self.on_loop: list[str] = []
        self.beside: list[str] = []
        self.delay_s = 0.0
        """How long each takes beside what it takes."""

    def saved(self, function: str) -> list[str]:
        """Syncs beside the loop that `function` asked for."""
        return [stack for stack in self.beside if f"in {function}\n" in stack]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, syncs of this thread, which is the loop's, are noted."""
        loop = threading.get_ident()

        def noted(sync: Callable[[int], None]) -> Callable[[int], None]:
            def run(fd: int) -> None:
                self.count += 1
                stack = "".join(traceback.format_stack(limit=40))
                if threading.get_ident() != loop:
                    self.beside.append(stack)
                elif not any(f"in {name}\n" in stack for name in EXEMPT):
                    self.on_loop.append(stack)
                time.sleep(self.delay_s)
                sync(fd)

            return run

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", noted(os.fsync))
            patch.setattr(os, "fdatasync", noted(os.fdatasync))
            yield


def create(topic: str, queues: int = 4) -> Command:
    ext = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    more = {"defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    return Command(Code.UPDATE_AND_CREATE_TOPIC, ext={**ext, **more, "order": "false"})


def heartbeat(group: str) -> Command:
    data = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    body = json.dumps({"clientID": "id", "consumerDataSet": [data]}).encode()
    return Command(Code.HEART_BEAT, body=body)


def send_back(group: str) -> Command:
    """A message that was tried too often: its dead-letter topic is made."""
    ext = {"offset": "0", "group": group, "delayLevel": "-1", "originTopic": "T0"}
    return Command(Code.CONSUMER_SEND_MSG_BACK, ext=ext)


async def test_a_broker_alone(tmp_path: Path) -> None:
    async with running(tmp_path, flushConsumerOffsetInterval=1000) as broker:
        client, syncs = await RawClient.connect(broker.port), Syncs()
        with syncs.watched():
            mode = {"topic": "T0", "consumerGroup": "g0", "mode": "POP", "popShareQueueNum": 0}
            asked = [
                *(send(b"x", topic=f"T{n}") for n in range(3)),
                *(heartbeat(f"g{n}") for n in range(3)),
                heartbeat("G"),
                create("T1", 8),
                send_back("g0"),
                pull(topic="T0", commit=1, sys_flag=1 | 4),
                Command(Code.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode()),
                Command(Code.UPDATE_BROKER_CONFIG, body=b"slaveReadEnable=true"),
                Command(Code.DELETE_TOPIC_IN_BROKER, ext={"topic": "T2"}),
            ]
            for command in asked:
                opaque = client.put(command)
                while (answer := await client.next()).opaque != opaque:
                    pass
                assert answer.code == 0, (command, answer)
        await client.close()
    assert syncs.count > len(asked) // 2
    assert not syncs.on_loop, "\n\n".join(sorted({x[-900:] for x in syncs.on_loop}))


async def test_strict_locks(tmp_path: Path) -> None:
    more = {"enableSlaveActingMaster": "true", "totalReplicas": 1, "lockInStrictMode": "true"}
    async with running(tmp_path, **more) as broker:
        client, syncs = await RawClient.connect(broker.port), Syncs()
        assert (await client.ask(create("T"))).code == 0
        queue = {"topic": "T", "brokerName": "b", "queueId": 0}
        body = {"consumerGroup": "g", "clientId": "c", "mqSet": [queue]}
        with syncs.watched():
            command = Command(Code.LOCK_BATCH_MQ, body=json.dumps(body).encode())
            answer = await client.ask(command)
            assert json.loads(bytes(answer.body))["lockOKMQSet"]
        await client.close()
    assert syncs.count
    assert not syncs.on_loop, "\n\n".join(sorted({x[-900:] for x in syncs.on_loop}))


async def test_roles_change(tmp_path: Path) -> None:
    """Three brokers find their places, and two a new master; a topic is made and copied."""
    group, syncs = InProcess(tmp_path), Syncs()
    with syncs.watched():
        try:
            await group.start()
            first = await group.whole()
            await put_until_stored(first, b"one")
            group.brokers.remove(first)
            await first.stop(grace_ms=0)
            second = await group.whole(2)
            assert second.node.serving.role is Role.MASTER
            await until(lambda: len(syncs.saved("save_known")) >= 4)
        finally:
            await group.stop()
    assert not syncs.on_loop, "\n\n".join(sorted({x[-900:] for x in syncs.on_loop}))


async def test_a_new_topic_on_a_slow_disk_costs_no_lease(tmp_path: Path) -> None:
    """With syncs that take as long as half a lease the master goes on, and answers in the end."""
    group, syncs = InProcess(tmp_path), Syncs()
    with syncs.watched():
        try:
            await group.start(brokers=2)
            master = await group.whole()
            await put_until_stored(master, b"one")
            syncs.delay_s = 0.4
            maker, bystander = [await RawClient.connect(master.port) for _ in range(2)]
            maker.put(send(b"first", topic="Made"))
            answers = [(await bystander.ask(send(b"x"))).code for _ in range(20)]
            assert (await maker.next()).code == 0
            assert answers == [0] * 20
            assert master.node.serving.rights.writable
            assert master.node.group_position.epoch == 1
            await maker.close()
            await bystander.close()
        finally:
            syncs.delay_s = 0.0
            await group.stop()
    assert not syncs.on_loop, syncs.on_loop[0]
