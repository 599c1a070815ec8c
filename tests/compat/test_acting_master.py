"""A slave acts for a master that was killed (RIP-32): processes, third parties, old ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from epochmq.client.aio import Producer
from epochmq.model.message import Message

from .clients import JAVA_5, OURS, Client
from .conftest import had
from .drivers.driver import Driver
from .peers import admin, wire
from .peers.cluster import Config
from .peers.group import CLUSTER, JAVA, Server
from .peers.group import OURS as EPOCHMQ
from .peers.pairs import Pairs
from .peers.ports import free_port
from .peers.process import is_listening, wait_until

ACTS_S = 3.0
"""From the master's death until the slave acts and name servers show it."""
GAP_S = 3.0
"""The longest silence of a consumer."""
READY_S = 60.0
BACKLOG = 20_000
LEFT = 5_000
"""More than a client fetches ahead: most of it must have come from the slave."""
BATCH = 100
OLD = "4.9.7"
SOON: Config = {"brokerNotActiveTimeoutMillis": 2_000}
SMALL: Config = {
    "mappedFileSizeCommitLog": 8 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}
ENDED = "acting_ended"
_CLUSTER_INFO, _ROUTE, _RUNTIME_INFO, _ALL_GROUPS = 106, 105, 28, 201
_SEND_V2, _END_TRANSACTION, _UNREGISTER = 310, 37, 104


def members(namesrv: str, name: str) -> dict[int, str]:
    """The brokers of a group by their true ids, as any name server tells."""
    with suppress(OSError):
        found = wire.call(namesrv, _CLUSTER_INFO, {}, timeout_s=3).json()["brokerAddrTable"]
        return {int(i): at for i, at in found.get(name, {}).get("brokerAddrs", {}).items()}
    return {}


def route(namesrv: str, topic: str) -> tuple[dict[int, str], int] | None:
    """What clients are told of a topic of one group: addresses by id, and the permissions."""
    answer = wire.call(namesrv, _ROUTE, {"topic": topic})
    if answer.code != 0:
        return None
    found = answer.json()
    (group,), (queues,) = found["brokerDatas"], found["queueDatas"]
    return {int(i): at for i, at in group["brokerAddrs"].items()}, queues["perm"]


def figures(broker: str) -> dict[str, Any]:
    """A broker's own account of itself."""
    table: dict[str, Any] = wire.call(broker, _RUNTIME_INFO, {}).json()["table"]
    return table


def stands_in(broker: Server) -> bool:
    """Whether one of our brokers acts for its master."""
    with suppress(OSError):
        return bool(figures(broker.address)["epochmqRole"] == "ACTING_MASTER")
    return False


@dataclass
class Reader:
    """A client that reads in order while its master dies."""

    client: Client
    driver: Driver

    @property
    def topic(self) -> str:
        """One queue of it, full of messages."""
        return f"acting_{self.client.name}"

    def group(self, kind: str) -> str:
        """A group of its own."""
        return f"G_{kind}_{self.client.name}"

    def read(self, namesrv: str, kind: str, count: int = BACKLOG) -> None:
        """Begin to read, in order."""
        options = {"group": self.group(kind), "count": count, "timeout_ms": 120_000, "order": True}
        self.driver.start("push", namesrv, self.topic, **options)

    def wait_first(self) -> None:
        """Until it reads."""
        self.driver.wait_event(lambda event: event["event"] == "received", 60)


async def fill(namesrv: str, topic: str) -> None:
    """The backlog, in batches, each held by the slave too."""
    async with Producer(namesrv, "PG_acting", timeout_ms=15_000) as producer:
        for first in range(0, BACKLOG, BATCH):
            batch = [Message(topic, b"m-%d" % n) for n in range(first, first + BATCH)]
            assert (await producer.send_batch(batch)).status.name == "SEND_OK"


def test_ordered_reading_goes_on_when_the_master_is_killed() -> None:
    """Our client and Java's, each half-way through its backlog, then on the acting master.

    A second group lives on as the cluster's master.
    """
    drivers = [had(client.build) for client in (OURS, JAVA_5)]
    readers = [Reader(client, d) for client, d in zip((OURS, JAVA_5), drivers, strict=True)]
    try:
        with Pairs(names=("GroupA", "GroupB"), broker_config={**SMALL, **SOON}) as pairs:
            master, slave = pairs.masters["GroupA"], pairs.slaves["GroupA"]
            for reader in readers:
                admin.create_topic(master.address, reader.topic, 1)
                for kind in ("warm", "before", "after"):
                    admin.set_group(master.address, reader.group(kind))
                asyncio.run(fill(pairs.namesrv_addr, reader.topic))
                reader.read(pairs.namesrv_addr, "warm", 1)
                reader.driver.finish(60)
            wait_until(lambda: has_groups(slave, readers), 20, "the slave has the groups")
            for each in pairs.masters.values():
                admin.create_topic(each.address, ENDED, 1)
            half = begin_transaction(master.address)
            for reader in readers:
                reader.read(pairs.namesrv_addr, "before")
                reader.wait_first()
                reader.driver.pause()  # else the first is through before the second begins
            master.process.kill9()
            killed_at, killed_at_ms = time.monotonic(), time.time() * 1000
            for reader in readers:
                reader.driver.resume()
            wait_until(lambda: stands_in(slave), ACTS_S, "the slave acts")
            shown = route(pairs.namesrv_addr, readers[0].topic)
            assert shown == ({0: slave.address}, 4)
            assert time.monotonic() - killed_at < ACTS_S
            wait_until(
                lambda: wire.call(slave.address, _END_TRANSACTION, half).code == 0,
                ACTS_S,
                "the commit, which writes its message in the living group",
            )
            living = pairs.masters["GroupB"].address
            found = wire.call(living, 30, {"topic": ENDED, "queueId": 0})
            assert found.ext["offset"] == "1"
            for reader in readers:
                assert_read(reader, killed_at_ms)
                reader.read(pairs.namesrv_addr, "after")
                reader.wait_first()
                assert_read(reader, time.time() * 1000)
            check_masters_requests(slave.address, readers[0].topic)
    finally:
        for driver in drivers:
            driver.close()


def begin_transaction(master: str) -> dict[str, object]:
    """A half message at the master; what a producer says to commit it."""
    header = {
        "a": "PG_acting",
        "b": ENDED,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 4,
        "h": 0,
        "j": 0,
        "g": int(time.time() * 1000),
        "k": "false",
        "i": "TRAN_MSG\x01true\x02PGROUP\x01PG_acting\x02UNIQ_KEY\x01acting-1\x02",
    }
    stored = wire.call(master, _SEND_V2, header, b"committed later")
    assert stored.code == 0, stored
    return {
        "producerGroup": "PG_acting",
        "tranStateTableOffset": stored.ext["queueOffset"],
        "commitLogOffset": int(stored.ext["msgId"][-16:], 16),
        "commitOrRollback": 8,
        "fromTransactionCheck": "false",
        "msgId": "acting-1",
        "transactionId": "acting-1",
    }


def has_groups(slave: Server, readers: list[Reader]) -> bool:
    """The tables are copied once a second."""
    table = wire.call(slave.address, _ALL_GROUPS, {}).json()["subscriptionGroupTable"]
    return all(reader.group("after") in table for reader in readers)


def assert_read(reader: Reader, since_ms: float) -> None:
    """All of it, in order, much of it from `since_ms` on and without a long silence."""
    events = reader.driver.finish(120).received
    offsets = [event["queue_offset"] for event in events]
    assert set(offsets) == set(range(BACKLOG))
    assert offsets == sorted(offsets), "order"
    times = [since_ms, *(e["at_ms"] for e in events if e["at_ms"] > since_ms)]
    assert len(times) > LEFT
    gap_s = max(later - earlier for earlier, later in pairwise(times)) / 1000
    assert gap_s < GAP_S, f"{reader.client.name} read nothing for {gap_s:.1f} s"


def check_masters_requests(broker: str, topic: str) -> None:
    """What the seed names, asked of the acting master as of a master."""
    queue = {"topic": topic, "queueId": 0}
    assert wire.call(broker, 30, queue).ext["offset"] == str(BACKLOG)
    assert wire.call(broker, 31, queue).ext["offset"] == "0"
    assert wire.call(broker, 29, {**queue, "timestamp": 0}).ext["offset"] == "0"
    assert int(wire.call(broker, 32, queue).ext["timestamp"]) > 0
    body = {
        "consumerGroup": "G_locks",
        "clientId": "me",
        "mqSet": [{"topic": topic, "brokerName": "GroupA", "queueId": 0}],
    }
    data = json.dumps(body).encode()
    assert len(wire.call(broker, 41, {}, data).json()["lockOKMQSet"]) == 1
    assert wire.call(broker, 42, {}, data).code == 0


@pytest.mark.parametrize("notices", [True, False])
def test_a_master_that_was_paused_takes_back_what_its_stand_in_did(notices: bool) -> None:
    """It was neither dead nor restarted: name servers forgot it, and the slave got no answer.

    A pause that is shorter than brokerNotActiveTimeoutMillis the master does not notice itself: the
    slave tells. That the name server forgets it sooner is our doing; a busy machine does the same.
    """
    later: Config = {} if notices else {"brokerNotActiveTimeoutMillis": 10_000}
    with Pairs(names=("GroupA",), broker_config={**SMALL, **SOON, **later}) as pairs:
        master, slave = pairs.masters["GroupA"], pairs.slaves["GroupA"]
        admin.create_topic(master.address, "paused", 1)
        admin.set_group(master.address, "G_paused")
        for n in range(10):
            admin.send(master.address, "paused", b"%d" % n)
        admin.commit(master.address, "paused", "G_paused", 0, 3)
        wait_until(lambda: offset_at(slave) == 3, 20, "the slave has the offset")
        os.kill(master.process.pid, signal.SIGSTOP)
        try:
            if not notices:
                forget(pairs.namesrv_addr, master)
            wait_until(lambda: stands_in(slave), 20, "the slave acts")
            admin.commit(slave.address, "paused", "G_paused", 0, 7)
        finally:
            os.kill(master.process.pid, signal.SIGCONT)
        said = "not online any more"
        wait_until(lambda: said in master.process.log.read_text(), 60, "it comes back")
        whole = {0: master.address, 1: slave.address}
        wait_until(lambda: members(pairs.namesrv_addr, "GroupA") == whole, 60, "both are back")
        wait_until(lambda: figures(master.address)["epochmqRole"] == "MASTER", 60, "online")
        assert offset_at(master) == 7
        assert not stands_in(slave)
        admin.commit(master.address, "paused", "G_paused", 0, 8)
        wait_until(lambda: offset_at(slave) == 8, 30, "the slave follows it")


def forget(namesrv: str, broker: Server) -> None:
    """As if the master had been silent for too long."""
    header = {
        "clusterName": CLUSTER,
        "brokerName": broker.config["brokerName"],
        "brokerAddr": broker.address,
        "brokerId": 0,
    }
    assert wire.call(namesrv, _UNREGISTER, header).code == 0


def offset_at(broker: Server) -> int | None:
    """The group's offset."""
    return admin.committed(broker.address, "paused", "G_paused", 0)


def test_with_name_servers_of_4_and_5(tmp_path: Path) -> None:
    """compatibleWithOldNameSrv against both; natively against the new one.

    The old one keeps the registration and names the members, and cannot show an acting master.
    """
    port = free_port()
    old = had(
        lambda: Server(JAVA, "namesrv", tmp_path / "old", port, {"listenPort": port}, version=OLD)
    )
    pairs = had(
        lambda: Pairs(names=("Compat", "Native"), namesrv=JAVA, broker_config={**SMALL, **SOON})
    )
    for server in (pairs.masters["Compat"], pairs.slaves["Compat"]):
        server.config["namesrvAddr"] = f"{pairs.namesrv_addr};{old.address}"
    for server in (pairs.masters["Native"], pairs.slaves["Native"]):
        server.config["compatibleWithOldNameSrv"] = False
    try:
        old.start()
        old.process.wait_ready(lambda: is_listening(port), READY_S)
        pairs.start()
        for name, master in pairs.masters.items():
            admin.create_topic(master.address, f"t_{name}")
            wait_until(lambda at=pairs.slaves[name]: knows_master(at), 20, f"{name} is whole")
        assert len(members(old.address, "Compat")) == 2
        for master in pairs.masters.values():
            master.process.kill9()
        for name, slave in pairs.slaves.items():
            wait_until(lambda at=slave: stands_in(at), 15, f"{name} acts")
            wait_until(
                lambda name=name, slave=slave: (
                    route(pairs.namesrv_addr, f"t_{name}") == ({0: slave.address}, 4)
                ),
                5,
                f"{name} is shown as master",
            )
        slave = pairs.slaves["Compat"]
        assert members(old.address, "Compat") == {1: slave.address}
        found = route(old.address, "t_Compat")
        assert found is not None
        assert found[0] == {1: slave.address}
    finally:
        pairs.stop()
        old.process.kill9()


def knows_master(slave: Server) -> bool:
    """It has the tables, and name servers told it of its master."""
    table = figures(slave.address)
    return table["epochmqMetadataCopied"] == "true" and "0@" in table["epochmqGroupMembers"]


def test_java_brokers_in_our_name_server() -> None:
    """The slave of 5.3 is shown as master, for reading only, when its master is killed; a master of
    4.9, which knows nothing of all this, comes and goes as ever."""
    config: Config = {**SMALL, "compatibleWithOldNameSrv": False}
    whose = {"names": ("JavaPair",), "alone": {"Old": JAVA}, "namesrv": EPOCHMQ}
    pairs = had(lambda: Pairs(JAVA, **whose, broker_config=config))
    old = pairs.alone["Old"] = had(lambda: of_version_4(pairs.alone["Old"]))
    with pairs:
        master, slave = pairs.masters["JavaPair"], pairs.slaves["JavaPair"]
        for topic, broker in (("t_java", master), ("t_old", old)):
            admin.create_topic(broker.address, topic)
            wait_until(
                lambda topic=topic: route(pairs.namesrv_addr, topic) is not None, 20, "a route"
            )
        assert route(pairs.namesrv_addr, "t_old") == ({0: old.address}, 6)
        old.process.kill9()
        master.process.kill9()
        wait_until(
            lambda: route(pairs.namesrv_addr, "t_java") == ({0: slave.address}, 4),
            ACTS_S,
            "the Java slave is shown as master",
        )
        assert members(pairs.namesrv_addr, "JavaPair") == {1: slave.address}
        wait_until(lambda: members(pairs.namesrv_addr, "Old") == {}, 20, "the old one is gone")


def of_version_4(server: Server) -> Server:
    """The same broker by a release that passes over all options of standing in."""
    return Server(JAVA, "broker", server.root, server.port, server.config, version=OLD)
