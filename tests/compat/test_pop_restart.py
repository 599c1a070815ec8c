"""POP on real processes: what is in flight survives `kill -9` and the loss of a master (INV-28).

Raw requests, so that nothing of the project's own client decides what is seen.
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from epochmq.model.message import StoredMessage
from epochmq.model.record import decode_all

from .peers import admin, wire
from .peers.epochmq import EpochCluster
from .peers.group import Group
from .peers.process import wait_until

SEND, POP, ACK, HIDE = 10, 200050, 200051, 200053
INVISIBLE_MS = 4_000
MARK_V1 = "1"
NOTHING_YET = (210, 14)
"""No message; no master yet."""
NOT_MASTER_YET = "this broker is a replica"
"""Elected, and the role not taken yet."""


class Handed(NamedTuple):
    """A message and its receipt handle."""

    message: StoredMessage
    handle: str

    @property
    def body(self) -> bytes:
        return self.message.body


class Consumer:
    """One group at one broker."""

    def __init__(self, topic: str, group: str, name: str = "broker-a") -> None:
        self.topic = topic
        self.group = group
        self.name = name

    def send(self, broker: str, *bodies: bytes) -> None:
        for body in bodies:
            header = {
                "producerGroup": "P", "topic": self.topic, "defaultTopic": "TBW102",
                "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "flag": 0,
                "bornTimestamp": int(time.time() * 1000), "reconsumeTimes": 0, "batch": "false",
            }  # fmt: skip
            answer = wire.call(broker, SEND, header, body)
            assert answer.code == 0, answer

    def pop(self, broker: str, count: int = 32, invisible_ms: int = INVISIBLE_MS) -> list[Handed]:
        answer = wire.call(
            broker,
            POP,
            {
                "consumerGroup": self.group, "topic": self.topic, "queueId": -1,
                "maxMsgNums": count, "invisibleTime": invisible_ms, "pollTime": 0,
                "bornTime": 0, "initMode": 0,
            },
        )  # fmt: skip
        if answer.code:
            early = (answer.remark or "").startswith(NOT_MASTER_YET)
            assert early or answer.code in NOTHING_YET, answer
            return []
        starts = {}
        for entry in answer.ext["startOffsetInfo"].split(";"):
            mark, queue_id, start = entry.split()
            starts[mark, int(queue_id)] = start
        found = []
        for message in decode_all(answer.body):
            mark = MARK_V1 if message.topic.startswith("%RETRY%") else "0"
            found.append(
                Handed(
                    message,
                    f"{starts[mark, message.queue_id]} {answer.ext['popTime']}"
                    f" {answer.ext['invisibleTime']} {answer.ext['reviveQid']} {mark} {self.name}"
                    f" {message.queue_id} {message.queue_offset}",
                )
            )
        return found

    def ack(self, broker: str, one: Handed, code: int = ACK, **more: object) -> wire.Answer:
        header = {
            "consumerGroup": self.group, "topic": one.message.topic,
            "queueId": one.message.queue_id, "extraInfo": one.handle,
            "offset": one.message.queue_offset, **more,
        }  # fmt: skip
        return wire.call(broker, code, header)

    def take_all(self, broker: str, wanted: set[bytes], timeout_s: float = 30) -> set[bytes]:
        """Pop and acknowledge until all that is wanted has come."""
        seen: set[bytes] = set()

        def done() -> bool:
            for one in self.pop(broker, invisible_ms=60_000):
                seen.add(one.body)
                assert self.ack(broker, one).code == 0
            return wanted <= seen

        wait_until(done, timeout_s, f"all messages popped, {len(seen)} of {len(wanted)}")
        return seen


def bodies(count: int) -> list[bytes]:
    return [b"m%03d" % number for number in range(count)]


def saved_offset(root: Path, key: str) -> int:
    """The sum of the offsets of a group in a topic, in the broker's file."""
    for path in root.rglob("consumerOffset.json"):
        table = json.loads(path.read_text())["offsetTable"]
        return sum(table.get(key, {}).values())
    return 0


@pytest.mark.parametrize("merge", [False, True])
def test_in_flight_over_a_kill(merge: bool) -> None:
    """The group's offset is saved before the kill: else it goes back, and the messages come again
    from the topic, beside those of the check points (INV-29)."""
    config = {"enablePopBufferMerge": merge, "flushConsumerOffsetInterval": 1_000}
    with EpochCluster(broker_config=config) as cluster:
        broker = cluster.broker_addr
        me = Consumer(admin.create_topic(broker, "PopKill"), "G")
        me.send(broker, *bodies(40))
        first = me.pop(broker, invisible_ms=60_000)
        acked = first[: len(first) // 2]
        for one in acked:
            assert me.ack(broker, one).code == 0
        out = me.pop(broker)  # never acknowledged
        hidden = me.pop(broker, invisible_ms=60_000)[:1]
        for one in hidden:
            assert me.ack(broker, one, HIDE, invisibleTime=INVISIBLE_MS).code == 0
        wait_until(lambda: saved_offset(cluster.root, "PopKill@G") == 40, 20, "the offset is saved")
        cluster.kill9_broker()
        cluster.start_broker()
        wanted = {one.body for one in [*out, *hidden]}
        seen = me.take_all(broker, wanted)
        assert wanted <= seen
        for one in first[len(first) // 2 :]:  # handles from before the kill
            me.ack(broker, one)
        assert me.pop(broker) == []


def test_redelivery_is_in_time_and_acknowledgements_hold() -> None:
    with EpochCluster() as cluster:
        broker = cluster.broker_addr
        me = Consumer(admin.create_topic(broker, "PopTime"), "G")
        me.send(broker, b"a", b"b")
        asked_at = time.monotonic()
        first, second = me.pop(broker, invisible_ms=2_000)
        assert me.ack(broker, first).code == 0
        again: list[Handed] = []

        def came() -> bool:
            again.extend(me.pop(broker))
            return bool(again)

        wait_until(came, 10, "the message comes again")
        assert time.monotonic() - asked_at > 1.9
        assert [(one.body, one.message.reconsume_times) for one in again] == [(b"b", 1)]
        assert me.ack(broker, second).code == 208  # the old handle
        assert me.ack(broker, again[0]).code == 0
        assert me.pop(broker) == []


@pytest.mark.slow
def test_in_flight_over_the_loss_of_the_master() -> None:
    group = Group(replicas=3)
    try:
        group.start()
        master = group.master()
        assert master is not None
        topic = admin.create_topic(master.address, "PopFailover")
        me = Consumer(topic, "G")
        me.send(master.address, *bodies(40))
        out = me.pop(master.address)
        acked = out[:10]
        for one in acked:
            assert me.ack(master.address, one).code == 0
        master.process.kill9()
        group.wait_ready()
        new = group.master()
        assert new is not None
        assert new is not master
        wanted = set(bodies(40)) - {one.body for one in acked}
        me.take_all(new.address, wanted, timeout_s=40)
    finally:
        group.stop()
