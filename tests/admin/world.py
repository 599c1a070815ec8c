"""A cluster with a few topics, messages and groups, and commands run on it in this process."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner
from tests.client.aio.eventually import eventually
from tests.compat.peers.cluster import Cluster

from epochmq.admin.cli import cli
from epochmq.client.aio import Admin, Producer, PullConsumer, PushConsumer, SendResult
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig

TOPIC = "orders"
OFFLINE = "billing"
ONLINE = "shipping"
PRODUCERS = "shop"
QUEUES = [MessageQueue(TOPIC, "broker-a", queue_id) for queue_id in (0, 1)]


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.lines]


@dataclass
class World:
    """`orders` has two queues of three messages k0 to k5; `billing` is at offset 1 of both."""

    cluster: Cluster
    sent: list[SendResult] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    """More environment variables of the commands."""

    @property
    def broker(self) -> str:
        return self.cluster.broker_addr

    def run(self, *args: str, answer: str | None = None) -> Ran:
        """`epochmq ARGS` against this cluster."""
        env = {"NAMESRV_ADDR": self.cluster.namesrv_addr, "COLUMNS": "120", **self.env}
        result = CliRunner(env=env).invoke(cli, args, input=answer)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return Ran(result.exit_code, result.stdout, result.stderr)

    def mqadmin(self, *args: str) -> Ran:
        return self.run("mqadmin", *args)

    async def fill(self) -> None:
        """Make the topics, groups and messages."""
        namesrv = self.cluster.namesrv_addr
        async with Admin(namesrv) as admin:
            await admin.create_topic(TopicConfig(TOPIC, 2, 2))
            await admin.put_group(self.broker, SubscriptionGroupConfig(OFFLINE))
            async with Producer(namesrv, PRODUCERS) as producer:
                await producer.queues(TOPIC)
                for n in range(6):
                    message = Message(TOPIC, b"body-%d" % n, "odd" if n % 2 else None, (f"k{n}",))
                    message.keys += ("all",)
                    self.sent.append(await producer.send(message, queue=QUEUES[n % 2]))
            async with PullConsumer(namesrv, OFFLINE) as consumer:
                for queue in QUEUES:
                    await consumer.commit(queue, 1)
            await eventually(
                lambda: admin.messages_by_key(TOPIC, "all"), lambda found: len(found) == 6
            )

    def wait_consumed(self, group: str) -> None:
        """Until the group has committed the end of both queues."""

        async def wait() -> None:
            async with Admin(self.cluster.namesrv_addr) as admin:
                await eventually(
                    lambda: admin.progress(group, TOPIC),
                    lambda found: [at.consumer_offset for at in found[0].values()] == [3, 3],
                )

        asyncio.run(wait())

    @contextmanager
    def member(self) -> Iterator[str]:
        """A member of `shipping` in a thread, while commands run in this one; its client id."""
        ready, done = threading.Event(), threading.Event()
        found: list[str] = []

        async def consume() -> None:
            async with PushConsumer(self.cluster.namesrv_addr, ONLINE, start="first") as consumer:
                consumer.on_message(lambda messages: None)
                await consumer.subscribe(TOPIC, "odd")
                await consumer.start()

                async def has_its_queues() -> bool:
                    return set(QUEUES) <= set(consumer.member.owned)

                await eventually(has_its_queues)
                found.append(consumer.instance.client_id)
                ready.set()
                await asyncio.to_thread(done.wait, 180)

        thread = threading.Thread(target=asyncio.run, args=(consume(),))
        thread.start()
        try:
            assert ready.wait(60), "no member came up"
            yield found[0]
        finally:
            done.set()
            thread.join()


@contextmanager
def world_on(cluster: Cluster) -> Iterator[World]:
    """A filled world; ends with its cluster."""
    with cluster as running:
        world = World(running)
        asyncio.run(world.fill())
        yield world
