"""An acting master hands over to another group's master, ours and RocketMQ's, real processes.

Nothing is lost; what comes twice was under way when its target was killed (RIP-32, ADR 0051).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from .conftest import had
from .contract import unique
from .peers import admin, wire
from .peers.group import JAVA, OURS, Server
from .peers.pairs import Pairs
from .peers.process import wait_until
from .peers.records import Record, bound, read_queue, read_topic

POP, ACK, RUNTIME_INFO = 200050, 200051, 28
SCHEDULE, HALF = "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"
DIES, TAKES, ALSO = "broker-a", "broker-b", "broker-c"
PREPARED = 4
QUICK = {"messageDelayLevel": "3s 12s", "transactionTimeOut": 1_000}
COUNT = 40
IN_FLIGHT_MAX = 256


def properties(key: str, **more: str) -> str:
    pairs = {"UNIQ_KEY": key, **more}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def send(broker: Server, topic: str, text: str, sys_flag: int = 0, **more: str) -> None:
    header = {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": sys_flag,
        "g": int(time.time() * 1000),
        "h": 0,
        "i": properties(text, **more),
        "j": 0,
    }
    answer = wire.call(broker.address, 310, header, text.encode())
    assert answer.code == 0, answer


def info(broker: Server) -> Mapping[str, str]:
    table: Mapping[str, str] = wire.call(broker.address, RUNTIME_INFO, {}).json()["table"]
    return table


def texts(broker: Server, topic: str, queues: int = 4) -> list[str]:
    with suppress(OSError, AssertionError):
        return sorted(record.text for record in read_topic(broker.address, topic, queues))
    return []


def copied(pairs: Pairs) -> None:
    """The slave has all, groups and topics too."""
    master, slave = pairs.masters[DIES], pairs.slaves[DIES]
    wait_until(
        lambda: info(slave)["commitLogMaxOffset"] == info(master)["commitLogMaxOffset"], 20, "copy"
    )
    wait_until(lambda: info(slave)["epochmqMetadataCopied"] == "true", 20, "metadata")


def die(pairs: Pairs) -> str:
    """Kill the master; the end of the slave's log once the slave acts as master."""
    slave = pairs.slaves[DIES]
    pairs.masters[DIES].process.kill9()
    wait_until(
        lambda: info(slave)["epochmqRole"] == "ACTING_MASTER", 30, "the slave acts as master"
    )
    return info(slave)["commitLogMaxOffset"]


@pytest.fixture(params=[OURS, JAVA])
def pairs(request: pytest.FixtureRequest) -> Iterator[Pairs]:
    made = had(
        lambda: Pairs(names=[DIES], alone={TAKES: request.param}, namesrv=OURS, broker_config=QUICK)
    )
    with made as running:
        yield running


def new_topic(*brokers: Server) -> str:
    topic = unique("escape")
    for broker in brokers:
        admin.create_topic(broker.address, topic)
    return topic


def test_delayed_timed_and_half_messages_and_what_is_popped(pairs: Pairs) -> None:
    master, slave, other = pairs.masters[DIES], pairs.slaves[DIES], pairs.alone[TAKES]
    topic, popped = new_topic(master, other), new_topic(master, other)
    group = admin.set_group(master.address, unique("G"))
    for broker in (other,):
        admin.set_group(broker.address, group)
    send(master, popped, "pop")
    for n in range(COUNT):
        send(master, topic, f"d{n:02}", DELAY="1")
    at = str(int(time.time() * 1000) + 4_000)
    send(master, topic, "timed", TIMER_DELIVER_MS=at)
    send(master, topic, "half", PREPARED, TRAN_MSG="true", PGROUP="PG")
    copied(pairs)
    end = die(pairs)
    expected = sorted([*(f"d{n:02}" for n in range(COUNT)), "timed"])
    wait_until(lambda: texts(other, topic) == expected, 30, "what was due")
    wait_until(lambda: bound(other.address, HALF, 0) == 1, 20, "the half message")
    assert read_half(other).properties["REAL_TOPIC"] == topic

    wait_until(
        lambda: wire.call(slave.address, POP, pop_header(popped, group)).code == 0,
        20,
        "a pop; first the slave finds out who lives",
    )
    wait_until(lambda: texts(other, f"%RETRY%{group}_{popped}", 1) == ["pop"], 40, "what came back")

    said = info(slave)
    assert said["commitLogMaxOffset"] == end  # INV-32
    assert said["scheduleMessageOffset_1"] == f"{COUNT},{COUNT}"
    assert said["epochmqEscapeWaiting"] == "0"
    assert said["epochmqEscapeLastRefusal"] == ""


def read_half(broker: Server) -> Record:
    (record,) = read_queue(broker.address, HALF, 0)
    return record


def pop_header(topic: str, group: str) -> dict[str, object]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 8,
        "invisibleTime": 3_000,
        "pollTime": 1_000,
        "bornTime": int(time.time() * 1000),
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }


def test_a_target_is_killed_in_between() -> None:
    count = 800  # due in the order and at the pace of their sending
    with Pairs(
        names=[DIES], alone={TAKES: OURS, ALSO: OURS}, namesrv=OURS, broker_config=QUICK
    ) as pairs:
        first, second = pairs.alone[TAKES], pairs.alone[ALSO]
        topic = new_topic(pairs.masters[DIES], first, second)
        expected = [f"d{n:03}" for n in range(count)]
        for text in expected:
            send(pairs.masters[DIES], topic, text, DELAY="2")
        copied(pairs)
        end = die(pairs)
        slave = pairs.slaves[DIES]
        wait_until(lambda: int(info(slave)["epochmqEscapeStored"]) > 0, 30, "the first")
        first.process.kill9()
        wait_until(
            lambda: info(slave)["scheduleMessageOffset_2"].startswith(f"{count},"), 90, "all"
        )
        first.start()
        pairs.wait_ready()
        held = sorted(texts(first, topic) + texts(second, topic))
        assert sorted(set(held)) == expected
        assert len(held) - count <= IN_FLIGHT_MAX
        assert info(slave)["commitLogMaxOffset"] == end
