"""Two groups over real sockets in this process: one with an acting master, and living masters."""

from typing import Any

from tests.broker.become import become
from tests.broker.broker_harness import ext, send
from tests.broker.client import RawClient
from tests.broker.group.group import InProcess, log_of, until

from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.message import StoredMessage
from epochmq.model.record import decode_all
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

PLAIN: dict[str, Any] = {
    "enable_controller_mode": False,
    "controller_addr": "",
    "enable_remote_escape": True,
    "slave_read_enable": True,
    "message_delay_level": "1s 60s",
    "transaction_time_out": 300,
    "transaction_check_interval": 60_000,
    "transaction_op_batch_interval": 50,
}


class Groups(InProcess):
    """`stand_in` stops a group's master; its slave acts from then on."""

    async def master_of(self, name: str, **more: Any) -> Broker:
        return await self._add(broker_name=name, **more)

    async def slave_of(self, name: str, **more: Any) -> Broker:
        return await self._add(broker_name=name, broker_role="SLAVE", broker_id=1, **more)

    async def _add(self, **more: Any) -> Broker:
        broker = await self.start_broker(len(self.brokers), **{**PLAIN, **more})
        self.brokers.append(broker)
        return broker

    async def pair(self, name: str = "a", **more: Any) -> tuple[Broker, Broker]:
        master = await self.master_of(name, **more)
        return master, await self.slave_of(name, **more)

    async def stand_in(self, master: Broker, slave: Broker) -> bytes:
        """The slave has all, the master is gone; the log that the slave must not change."""
        await until(lambda: slave.node.topics.table.keys() >= master.node.topics.table.keys())
        await until(lambda: log_of(slave) == log_of(master))
        await master.stop(grace_ms=0)
        become(slave.node, Role.ACTING_MASTER)
        slave.node.delivery.clamp()
        slave.node.schedule.look_again()
        return log_of(slave)


async def ask(broker: Broker, command: Command) -> Command:
    """One request on a connection of its own."""
    client = await RawClient.connect(broker.port)
    try:
        return await client.ask(command)
    finally:
        await client.close()


async def give(broker: Broker, body: bytes = b"x", **more: Any) -> dict[str, str]:
    """Send one message; what its answer says."""
    answer = await ask(broker, send(body, **more))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return ext(answer)


def found(broker: Broker, topic: str = "T") -> list[StoredMessage]:
    """All messages of a topic."""
    config = broker.node.topics.get(topic)
    messages: list[StoredMessage] = []
    for queue_id in range(0 if config is None else config.read_queue_nums):
        read = broker.node.store.read_queue(topic, queue_id, 0, 10_000, 1 << 24)
        messages += decode_all(b"".join(read.chunks)) if read.count else []
    return messages


def bodies(broker: Broker, topic: str = "T") -> list[bytes]:
    return sorted(message.body for message in found(broker, topic))
